//! Tests of the door over the embedded engine, or, with `PENATES_TEST_ENGINE=cassandra`, over a real
//! Cassandra node. One program, which is built and linked once.
#![allow(clippy::unwrap_used)]

mod as_of;
mod auditing;
mod bulk;
mod failing;
mod finding;
mod importing;
mod leaving;
mod replacing;
mod resuming;
mod support;
mod versions;
mod volumes;
