//! The door's tests once more, over a real Cassandra node that they share; each library in a keyspace of its own. (Listings of thousands
//! and what is only refused are decided above every engine.)
#![allow(clippy::unwrap_used)]
#![allow(clippy::duplicate_mod)] // Each of these files names the support that it needs, as it does where it is a test by itself.

#[path = "door/binaries.rs"]
mod binaries;
#[path = "door/changing.rs"]
mod changing;
#[path = "door/deleting.rs"]
mod deleting;
#[path = "door/members.rs"]
mod members;
#[path = "door/support.rs"]
mod support;
