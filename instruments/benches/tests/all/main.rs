//! The benchmarks run, with inputs so small that their figures mean nothing. One program, which is
//! built and linked once.
#![allow(clippy::unwrap_used)]

mod data_door;
mod study;
mod support;
