//! Benchmarks of a store in Cassandra: the real server and a real node on one machine, compared
//! with bare programs over the same driver.
//!
//! How to read it (servers, clients and figures are those of the [`rig`](crate::rig)):
//!
//! - [`bench`] is shared by all benchmarks; [`node`] is the node, and [`bare`] the driver without
//!   Penates.
//! - [`bulk`] and [`import`] compare with bare programs; [`dras_tic`] and [`members`] send the
//!   requests of the repository door's benchmarks ([`repository_door`](crate::repository_door));
//!   [`points`] calls the store in an open loop ([`open_loop`]).
//! - [`readers`] is the study of the whole service's readers: key cache, row cache and page cache,
//!   as table and chart.
//!
//! `instruments/benches/README.md` explains the figures.

pub mod bare;
pub mod bench;
pub mod bulk;
pub mod dras_tic;
pub mod import;
pub mod members;
pub mod node;
pub mod open_loop;
pub mod points;
pub mod readers;
