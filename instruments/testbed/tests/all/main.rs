//! Tests of the testbed: runs on servers that the tests start. One program, which is built and
//! linked once.
#![allow(clippy::unwrap_used)]

mod before_and_as;
mod beside;
mod browser;
mod candidates;
mod chromium;
mod commands;
mod feeds;
mod formats;
mod invented;
mod measuring;
mod portal;
mod reaching;
mod shipped;
mod support;
