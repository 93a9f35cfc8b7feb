//! The door, request by request.
#![allow(clippy::unwrap_used)]

mod binaries;
mod changing;
mod containers;
mod deleting;
mod members;
mod reading;
mod refusing;
mod support;
