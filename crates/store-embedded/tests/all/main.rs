//! Tests of the embedded engine. One program, which is built and linked once.
#![allow(clippy::unwrap_used)]

mod cut;
mod damage;
mod engine;
mod faults;
mod late_sync;
mod opening;
mod row_cache;
mod salvage;
mod suite;
mod support;
