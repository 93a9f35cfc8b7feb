//! What benchmarks of whole servers share.
//!
//! How to read it:
//!
//! - [`run`] goes through the benchmarks that were asked for; [`figures`] come out, and [`report`] tells them.
//! - [`work`] makes stores and archives in a folder; [`penates`] starts the real program, as a [`process`] whose use of the machine is
//!   known.
//! - [`page_cache`] is what Linux holds of files in memory.
//! - [`client`] is the client of all servers, [`tls`] what it needs for HTTPS, and [`download`] measures a download with it; [`load`] sends
//!   small requests over many connections.

pub mod client;
pub mod download;
pub mod figures;
pub mod load;
pub mod page_cache;
pub mod penates;
pub mod process;
pub mod report;
pub mod run;
pub mod tls;
pub mod work;
