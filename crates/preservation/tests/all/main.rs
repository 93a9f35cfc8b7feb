//! Tests of the formats in which archives exchange what they keep. One program, which is built and
//! linked once.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod aip;
mod bags;
mod dspace;
mod hostile_bags;
mod hostile_objects;
mod objects;
