//! Benchmarks of the repository door as its users see it: the real server, over loopback, beside its peers.
//!
//! How to read it:
//!
//! - [`bench`] is what every benchmark gets; [`subject`] is a server that is measured: Penates ([`penates`]), Fedora ([`fedora`]) or the
//!   Community Solid Server ([`solid`]); [`sync`] is what the disk does by itself.
//! - [`open_loop`] sends requests when they are due, whatever happens.
//! - [`ingest`], [`arrivals`], [`reading`] compare servers; [`large`] compares with plain copying; [`members`] and [`quads`] have nothing
//!   beside them but their targets.
//!
//! `benches/README.md` says what the figures mean.

pub mod arrivals;
pub mod bench;
pub mod fedora;
pub mod ingest;
pub mod large;
pub mod members;
pub mod open_loop;
pub mod penates;
pub mod quads;
pub mod reading;
pub mod solid;
pub mod subject;
pub mod sync;
