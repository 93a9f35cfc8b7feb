//! Benchmarks of the records door: the real server over loopback, beside redis-server.
//!
//! How to read it:
//!
//! - [`bench`] is shared by all benchmarks; [`subject`] is a measured server: Penates or Redis, in
//!   one of their durabilities; [`record`] makes the records and draws among them.
//! - [`peak`] measures the highest rates with redis-benchmark, [`fill`] many records and what they
//!   take, [`mixes`] latencies at a given rate, [`expiring`] latencies while records expire, and
//!   [`exporting`] while all of them are exported, verified, copied or imported. [`larger`] has more
//!   records than memory, [`centers`] two data centers, and [`costs`] measures what operations and
//!   records cost. [`over_time`] shows how many answers are late in each second, with the [`marks`]
//!   of the store.
//!
//! `instruments/benches/README.md` explains the figures.

pub mod bench;
pub mod centers;
pub mod costs;
pub mod expiring;
pub mod exporting;
pub mod fill;
pub mod larger;
pub mod marks;
pub mod mixes;
pub mod over_time;
pub mod peak;
pub mod record;
pub mod subject;
