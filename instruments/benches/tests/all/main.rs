//! The benchmarks run, with inputs so small that their figures mean nothing. One program, which is
//! built and linked once.
#![allow(clippy::unwrap_used)]

mod cassandra;
mod data_door;
mod door_cost;
mod generators;
mod records_door;
mod repository_door;
mod study;
mod support;
