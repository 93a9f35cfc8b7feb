//! The door, request by request. With `PENATES_TEST_ENGINE=cassandra` over a real Cassandra node.
#![allow(clippy::unwrap_used)]

mod archives;
mod binaries;
mod changing;
mod computing;
mod containers;
mod deleting;
mod elsewhere;
mod explicit;
mod fixity;
mod flattened;
mod forms;
mod groups;
mod history_trees;
mod instants;
mod leaving;
#[path = "../../../library/tests/all/support/long_log.rs"]
mod long_log;
mod members;
mod members_then;
mod page_of_deleted;
mod page_of_versions;
mod pages;
mod reading;
mod received;
mod refusing;
mod restoring;
mod returning;
mod search;
mod support;
mod timemaps;
mod transactions;
mod turns;
mod versions;
mod vocabularies;
mod volume_pages;
mod volumes;
mod volumes_then;
