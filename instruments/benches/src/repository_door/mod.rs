//! Benchmarks of the repository door: the real server over loopback, compared with its peers.
//!
//! How to read it:
//!
//! - [`bench`] is shared by all benchmarks; [`subject`] is a measured server: Penates
//!   ([`penates`]), Fedora ([`fedora`]) or the Community Solid Server ([`solid`]); [`sync`]
//!   measures the disk alone.
//! - [`ingest`], [`arrivals`], [`reading`] and [`moving`] compare servers; [`large`] compares with
//!   plain copying; [`members`], [`quads`], [`versions`], [`feed`], [`search`] and [`fixity`] have
//!   targets only; [`transactions`] compares with Fedora, and with doing without.
//!
//! `instruments/benches/README.md` explains the figures.

pub mod arrivals;
pub mod bench;
pub mod fedora;
pub mod feed;
pub mod fixity;
pub mod ingest;
pub mod large;
pub mod members;
pub mod moving;
pub mod penates;
pub mod quads;
pub mod reading;
pub mod search;
pub mod solid;
pub mod subject;
pub mod sync;
pub mod transactions;
pub mod versions;
