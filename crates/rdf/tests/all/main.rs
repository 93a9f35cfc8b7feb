//! Tests of reading, writing and updating graphs. One program, which is built and linked once.
#![allow(clippy::unwrap_used)]

mod bad_bodies;
mod contexts;
mod costly_updates;
mod nesting;
mod round_trips;
mod strangers;
mod updates;
mod writers;
