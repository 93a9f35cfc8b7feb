//! Benchmarks of the data door: the real server over loopback, compared with nginx, Java and bare
//! programs.
//!
//! How to read it (servers, clients and figures are those of the [`rig`](crate::rig)):
//!
//! - [`bench`] is shared by all benchmarks; [`nginx`] is the peer; [`syscalls`] counts the system
//!   calls of a server; [`parallel`] is for bare programs.
//! - [`beside_nginx`] compares archives with nginx, for [`bulk`] and [`https`]; [`java`] compares
//!   with Java; [`levels`] with the DEFLATE library alone ([`deflate`]); [`libraries`] compares
//!   such libraries; [`import`] compares with a bare program; [`cold`] with the disk.
//! - [`selection`], [`range`], [`page`], [`many`], [`memory`], [`hostile`] and [`start`] have
//!   targets only.
//!
//! `instruments/benches/README.md` explains the figures.

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
