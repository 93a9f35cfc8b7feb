//! Benchmarks inside the process and beside bare programs. Without listeners, they measure the cost of
//! door and protocol alone, and the cost that the engine adds.
//!
//! How to read it:
//!
//! - [`corpus`] makes the volumes.
//! - [`doors`] puts the same door over two engines: the embedded one, and one that returns
//!   constants at once.
//! - [`subject`] lists the measurements of these and takes each once.
//! - [`data_door`] has all benchmarks, most of the real server beside bare programs; [`rig`] is what
//!   whole servers need, and [`machine`] describes the machine.
//! - Everything else is measured by the testbed: `plans/` has its plans, and `candidates/` what they need.
//! - [`study`] is a benchmark of its own: the stages of a bulk download one by one, over listeners
//!   and longer links too.
//!
//! `instruments/benches/README.md` explains the figures.

pub mod corpus;
pub mod data_door;
pub mod doors;
pub mod machine;
pub mod rig;
pub mod study;
pub mod subject;
