//! The door's tests once more, over a real Cassandra node that they share; each library in a keyspace of its own.

#[path = "auditing.rs"]
mod auditing;
#[path = "bulk.rs"]
mod bulk;
#[path = "failing.rs"]
mod failing;
#[path = "importing.rs"]
mod importing;
#[path = "resuming.rs"]
mod resuming;
#[path = "volumes.rs"]
mod volumes;
