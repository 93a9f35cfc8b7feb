//! Tests of the engine over a Cassandra node that they share. One program, which is built and
//! linked once.
#![allow(clippy::unwrap_used)]

mod engine;
mod suite;
mod support;
mod upgrade;
