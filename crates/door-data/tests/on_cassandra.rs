//! The door's tests again, over a real Cassandra node that they share; each library has its own
//! keyspace.

#![allow(clippy::duplicate_mod)] // Each file names the support that it needs, because it is also a test of its own.

#[path = "as_of.rs"]
mod as_of;
#[path = "auditing.rs"]
mod auditing;
#[path = "bulk.rs"]
mod bulk;
#[path = "failing.rs"]
mod failing;
#[path = "finding.rs"]
mod finding;
#[path = "importing.rs"]
mod importing;
#[path = "leaving.rs"]
mod leaving;
#[path = "replacing.rs"]
mod replacing;
#[path = "resuming.rs"]
mod resuming;
#[path = "versions.rs"]
mod versions;
#[path = "volumes.rs"]
mod volumes;
