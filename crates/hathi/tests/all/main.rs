//! Tests of the formats that libraries have. One program, which is built and linked once.
#![allow(clippy::unwrap_used)]

mod bad_volumes;
mod common;
mod corpus;
mod mets;
mod pairtree;
mod properties;
mod synth;
