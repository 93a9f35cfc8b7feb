//! What the data door reaches beside bare programs, and under attack.
//!
//! How to read it (servers, clients and figures are those of the [`rig`](crate::rig)):
//!
//! - [`bench`] is shared by all benchmarks; [`parallel`] runs bare programs.
//! - [`levels`] compares with the DEFLATE library alone ([`deflate`]); [`libraries`] compares such
//!   libraries; [`import`] compares with a program that does only the obligatory work.
//! - [`cassandra_bulk`] and [`cassandra_import`] compare a store on a [`node`] of Cassandra with the
//!   [`driver`] alone.
//! - [`door_cost`] measures the door without listeners, over two engines.
//! - [`hostile`] measures memory and the service for an honest client.
//!
//! `instruments/benches/README.md` explains the figures.

pub mod bench;
pub mod cassandra_bulk;
pub mod cassandra_import;
pub mod deflate;
pub mod door_cost;
pub mod driver;
pub mod hostile;
pub mod import;
pub mod levels;
pub mod libraries;
pub mod node;
pub mod parallel;
