//! Benchmarks of the data door as its users see it: the real server, over loopback, beside nginx, Java and bare programs.
//!
//! How to read it:
//!
//! - [`bench`] is what every benchmark gets; [`work`] makes stores and archives, [`penates`] and [`nginx`] start servers, each a
//!   [`process`] whose use of the machine is known ([`syscalls`] too); [`parallel`] is for bare programs.
//! - [`client`] is the client of all of them, [`tls`] what it needs for HTTPS, and [`download`] measures a download with it.
//! - [`beside_nginx`] compares archives with nginx, for [`bulk`] and [`https`]; [`java`] with Java; [`levels`] with the DEFLATE library
//!   alone ([`deflate`]), [`libraries`] such libraries with each other; [`import`] with a bare program; [`cold`] with the disk.
//! - [`selection`], [`range`], [`page`] (by [`load`]), [`many`], [`memory`] and [`start`] have nothing beside them but their targets.
//! - [`figures`] come out; [`report`] tells them.
//!
//! `README.md` beside tells what may be concluded from it.

pub mod bench;
pub mod beside_nginx;
pub mod bulk;
pub mod client;
pub mod cold;
pub mod deflate;
pub mod download;
pub mod figures;
pub mod https;
pub mod import;
pub mod java;
pub mod levels;
pub mod libraries;
pub mod load;
pub mod many;
pub mod memory;
pub mod nginx;
pub mod page;
pub mod parallel;
pub mod penates;
pub mod process;
pub mod range;
pub mod report;
pub mod selection;
pub mod start;
pub mod syscalls;
pub mod tls;
pub mod work;
