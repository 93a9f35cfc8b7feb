//! Benchmarks of the data door as its users see it: the real server, over loopback, beside nginx, Java and bare programs.
//!
//! How to read it:
//!
//! - [`bench`] is what every benchmark gets; [`work`] makes stores and archives, [`penates`] and [`nginx`] start servers, each a
//!   [`process`] whose use of the machine is known ([`syscalls`] too).
//! - [`client`] is the client of all of them, [`tls`] what it needs for HTTPS, and [`download`] measures a download with it.
//! - One file for each benchmark: [`bulk`].
//! - [`figures`] come out; [`report`] tells them.
//!
//! `README.md` beside tells what may be concluded from it.

pub mod bench;
pub mod bulk;
pub mod client;
pub mod download;
pub mod figures;
pub mod nginx;
pub mod penates;
pub mod process;
pub mod report;
pub mod syscalls;
pub mod tls;
pub mod work;
