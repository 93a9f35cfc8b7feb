//! Tests of the library over the embedded engine, and over stores in memory with faults. One
//! program, which is built and linked once.
#![allow(clippy::unwrap_used)]

mod broken_block;
mod bulk;
mod collecting;
mod crashes;
mod damage;
mod histories;
mod outcomes;
mod races;
mod resources;
mod rewriting;
mod sources;
mod support;
mod volumes;
