//! Tests of the embedded engine. One program, which is built and linked once.
#![allow(clippy::unwrap_used)]

mod cache;
mod cut;
mod damage;
mod engine;
mod faults;
mod late_sync;
mod once;
mod opening;
mod row_cache;
mod salvage;
mod suite;
mod support;
