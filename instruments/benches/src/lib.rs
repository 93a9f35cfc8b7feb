//! Benchmarks of the doors and of a store in Cassandra. Without listeners, they measure the cost of
//! door and protocol alone, and the cost that the engine adds.
//!
//! How to read it:
//!
//! - [`corpus`] makes the volumes.
//! - [`doors`] puts the same door over two engines: the embedded one, and one that returns
//!   constants at once.
//! - [`subject`] lists the measurements and takes each once.
//! - [`run`] takes all of them in turn, repeatedly; [`report`] summarises them and writes them
//!   down, with the description of the machine from [`machine`].
//! - [`data_door`], [`repository_door`], [`records_door`] and [`cassandra`] are benchmarks of whole
//!   servers; [`rig`] is what these share.
//! - [`generators`] compares the testbed's generator with others.
//! - [`study`] is a benchmark of its own: the stages of a bulk download one by one, over listeners
//!   and longer links too.
//!
//! `instruments/benches/README.md` explains the figures.

pub mod cassandra;
pub mod corpus;
pub mod data_door;
pub mod doors;
pub mod generators;
pub mod machine;
pub mod records_door;
pub mod report;
pub mod repository_door;
pub mod rig;
pub mod run;
pub mod study;
pub mod subject;
