//! Benchmarks of the data door as its users see it: the real server, over loopback, beside nginx, Java and bare programs.
//!
//! How to read it (servers, clients and figures are those of the [`rig`](crate::rig)):
//!
//! - [`bench`] is what every benchmark gets; [`nginx`] is the peer; [`syscalls`] counts what a server asks of Linux; [`parallel`] is for
//!   bare programs.
//! - [`beside_nginx`] compares archives with nginx, for [`bulk`] and [`https`]; [`java`] with Java; [`levels`] with the DEFLATE library
//!   alone ([`deflate`]), [`libraries`] such libraries with each other; [`import`] with a bare program; [`cold`] with the disk.
//! - [`selection`], [`range`], [`page`], [`many`], [`memory`], [`hostile`] and [`start`] have nothing beside them but their targets.
//!
//! `benches/README.md` says what the figures mean.

pub mod bench;
pub mod beside_nginx;
pub mod bulk;
pub mod cold;
pub mod deflate;
pub mod hostile;
pub mod https;
pub mod import;
pub mod java;
pub mod levels;
pub mod libraries;
pub mod many;
pub mod memory;
pub mod nginx;
pub mod page;
pub mod parallel;
pub mod range;
pub mod selection;
pub mod start;
pub mod syscalls;
