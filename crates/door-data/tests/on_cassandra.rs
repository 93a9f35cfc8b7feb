//! The door's tests again, over a real Cassandra node that they share; each library has a part of a
//! keyspace of its own.
#![allow(clippy::unwrap_used)]

#[path = "all/as_of.rs"]
mod as_of;
#[path = "all/auditing.rs"]
mod auditing;
#[path = "all/bulk.rs"]
mod bulk;
#[path = "all/failing.rs"]
mod failing;
#[path = "all/finding.rs"]
mod finding;
#[path = "all/importing.rs"]
mod importing;
#[path = "all/leaving.rs"]
mod leaving;
#[path = "all/replacing.rs"]
mod replacing;
#[path = "all/resuming.rs"]
mod resuming;
#[path = "all/support/mod.rs"]
mod support;
#[path = "all/versions.rs"]
mod versions;
#[path = "all/volumes.rs"]
mod volumes;
