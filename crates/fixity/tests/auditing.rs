//! Passes of the auditor, by one server and by several. With `PENATES_TEST_ENGINE=cassandra` over a
//! real Cassandra node.
#![allow(clippy::unwrap_used)]

#[path = "auditing/failures.rs"]
mod failures;
#[path = "auditing/once.rs"]
mod once;
#[path = "auditing/passes.rs"]
mod passes;
#[path = "auditing/past.rs"]
mod past;
#[path = "auditing/row_records.rs"]
mod row_records;
#[path = "auditing/sharing.rs"]
mod sharing;
#[path = "auditing/support.rs"]
mod support;
