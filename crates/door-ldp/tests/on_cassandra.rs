//! All tests of the door again, over a real Cassandra node that they share; each library has a part
//! of a keyspace of its own. Tests with very many changes make fewer here (`ON_CASSANDRA`), because
//! each change takes some milliseconds.
#![allow(clippy::unwrap_used)]

#[path = "door/archives.rs"]
mod archives;
#[path = "door/binaries.rs"]
mod binaries;
#[path = "door/changing.rs"]
mod changing;
#[path = "door/computing.rs"]
mod computing;
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
#[path = "door/forms.rs"]
mod forms;
#[path = "door/groups.rs"]
mod groups;
#[path = "door/history_trees.rs"]
mod history_trees;
#[path = "door/instants.rs"]
mod instants;
#[path = "door/leaving.rs"]
mod leaving;
#[path = "../../library/tests/all/support/long_log.rs"]
mod long_log;
#[path = "door/members.rs"]
mod members;
#[path = "door/members_then.rs"]
mod members_then;
#[path = "door/page_of_deleted.rs"]
mod page_of_deleted;
#[path = "door/page_of_versions.rs"]
mod page_of_versions;
#[path = "door/pages.rs"]
mod pages;
#[path = "door/reading.rs"]
mod reading;
#[path = "door/received.rs"]
mod received;
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
#[path = "door/timemaps.rs"]
mod timemaps;
#[path = "door/transactions.rs"]
mod transactions;
#[path = "door/turns.rs"]
mod turns;
#[path = "door/versions.rs"]
mod versions;
#[path = "door/vocabularies.rs"]
mod vocabularies;
#[path = "door/volume_pages.rs"]
mod volume_pages;
#[path = "door/volumes.rs"]
mod volumes;
#[path = "door/volumes_then.rs"]
mod volumes_then;
