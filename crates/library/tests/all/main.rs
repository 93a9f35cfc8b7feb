//! Tests of the library over the embedded engine, and over stores in memory with faults. One
//! program, which is built and linked once. With `PENATES_TEST_ENGINE=cassandra` it runs over a real
//! Cassandra node; `cargo xtask test` does so, too, and its list `SUITES` has what is left out then.
//! Each library has a part of a keyspace of its own. Tests that try each fault at each step try fewer
//! of both there, and tests with very many changes make fewer. These do nothing there:
//!
//! - Paused time: `a_consumer_that_is_held_back_…` and `a_consumer_misses_nothing_…` of
//!   `resources/feed.rs`, and `a_salvage_fails_if_…` of `resources/damage.rs`.
//! - Thousands of changes of one resource, which take minutes: `a_version_is_found_by_a_few_reads_…`
//!   and `a_late_page_of_thousands_of_versions_…` of `resources/as_of.rs`.
//! - A million versions: `among_a_million_versions_…` and `where_hundreds_of_thousands_of_versions_…`
//!   of `resources/as_of.rs`. The door's tests have a list of as many versions.
//! - Reads or writes are counted, and there are more of them where changes take longer:
//!   `a_hundred_consumers_…` of `resources/feed.rs`, `an_index_is_saved_at_once_…`,
//!   `changes_are_found_while_an_index_…` and `earlier_documents_of_a_resource_…` of
//!   `resources/search.rs`.
#![allow(clippy::unwrap_used)]

mod broken_block;
mod bulk;
mod collecting;
mod crashes;
mod damage;
mod histories;
mod outcomes;
mod races;
mod resources;
mod rewriting;
mod sources;
mod support;
mod volumes;
