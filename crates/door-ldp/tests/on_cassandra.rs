//! The door's tests again, over a real Cassandra node that they share; each library has a part of a
//! keyspace of its own.
#![allow(clippy::unwrap_used)]

#[path = "door/archives.rs"]
mod archives;
#[path = "door/binaries.rs"]
mod binaries;
#[path = "door/changing.rs"]
mod changing;
#[path = "door/containers.rs"]
mod containers;
#[path = "door/deleting.rs"]
mod deleting;
#[path = "door/elsewhere.rs"]
mod elsewhere;
#[path = "door/explicit.rs"]
mod explicit;
#[path = "door/fixity.rs"]
mod fixity;
#[path = "door/flattened.rs"]
mod flattened;
#[path = "door/groups.rs"]
mod groups;
#[path = "door/instants.rs"]
mod instants;
#[path = "door/members.rs"]
mod members;
#[path = "door/members_then.rs"]
mod members_then;
#[path = "door/reading.rs"]
mod reading;
#[path = "door/refusing.rs"]
mod refusing;
#[path = "door/restoring.rs"]
mod restoring;
#[path = "door/returning.rs"]
mod returning;
#[path = "door/search.rs"]
mod search;
#[path = "door/support.rs"]
mod support;
#[path = "door/transactions.rs"]
mod transactions;
#[path = "door/versions.rs"]
mod versions;
#[path = "door/vocabularies.rs"]
mod vocabularies;
#[path = "door/volumes.rs"]
mod volumes;
