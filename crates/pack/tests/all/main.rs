//! Tests of frames, layouts and archives. One program, which is built and linked once.
#![allow(clippy::unwrap_used)]

mod common;
mod format;
mod golden;
mod passes;
mod pipeline;
mod ranges;
mod readers;
mod report;
mod zip64;
