//! Benchmarks of the data door. Without listeners: what do door and protocol cost by themselves, and what does the engine add?
//!
//! How to read it:
//!
//! - [`corpus`] makes the volumes.
//! - [`doors`] puts the same door over two engines: the embedded one, and the one that answers constants at once.
//! - [`subject`] is the list of what is measured, and how each is measured once.
//! - [`run`] goes through that list in turn, again and again; [`report`] sums up and writes down, with what [`machine`] knows of
//!   where it ran.
//! - [`data_door`], [`repository_door`] and [`cassandra`] are benchmarks of whole servers; [`rig`] is what these share.
//! - [`study`] is a benchmark of its own: the stages of a bulk download one by one, over listeners and longer links too.
//!
//! `benches/README.md` says what the figures mean.

pub mod cassandra;
pub mod corpus;
pub mod data_door;
pub mod doors;
pub mod machine;
pub mod report;
pub mod repository_door;
pub mod rig;
pub mod run;
pub mod study;
pub mod subject;
