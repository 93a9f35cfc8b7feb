//! Shared by benchmarks of whole servers.
//!
//! How to read it:
//!
//! - [`run`] runs the chosen benchmarks; [`figures`] are the results, and [`report`] prints them.
//! - [`work`] makes stores and archives in a folder; [`penates`] starts the real program, as a
//!   [`process`] whose usage is measured.
//! - [`page_cache`] controls Linux's page cache.
//! - [`client`] is the client of all servers, with [`tls`] for HTTPS; [`download`] measures a
//!   download with it; [`load`] sends small requests over many connections, and [`open_loop`]
//!   requests at the times when they are due; [`steps`] finds the highest rate of those.

pub mod client;
pub mod download;
pub mod figures;
pub mod load;
pub mod open_loop;
pub mod page_cache;
pub mod penates;
pub mod process;
pub mod report;
pub mod run;
pub mod steps;
pub mod tls;
pub mod work;
