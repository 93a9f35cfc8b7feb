//! Shared by benchmarks of whole servers.
//!
//! How to read it:
//!
//! - [`figures`] are the results, and [`report`] prints them.
//! - [`work`] makes stores and archives in a folder; [`penates`] starts the real program, as a
//!   [`process`] whose usage is measured.
//! - [`page_cache`] controls Linux's page cache.
//! - [`client`] is the client of all servers; [`download`] measures a download with it.

pub mod client;
pub mod download;
pub mod figures;
pub mod page_cache;
pub mod penates;
pub mod process;
pub mod report;
pub mod work;
