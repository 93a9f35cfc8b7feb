//! The door's tests once more, over a real Cassandra node that they share; each library in a keyspace of its own.

#![allow(clippy::duplicate_mod)] // Each of these files names the support that it needs, as it does where it is a test by itself.

#[path = "auditing.rs"]
mod auditing;
#[path = "bulk.rs"]
mod bulk;
#[path = "failing.rs"]
mod failing;
#[path = "importing.rs"]
mod importing;
#[path = "replacing.rs"]
mod replacing;
#[path = "resuming.rs"]
mod resuming;
#[path = "volumes.rs"]
mod volumes;
