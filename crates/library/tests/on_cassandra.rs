//! Repeats the library's tests over a real Cassandra node that they share. Each library has a part
//! of a keyspace of its own. Tests that try each fault at each step try fewer of both here, because
//! each try takes longer. Tests with very many changes make fewer (`ON_CASSANDRA`, `MANY_CHANGES`).
//!
//! These tests of `all` are left out:
//!
//! - `broken_block.rs` and `resources/full_disk.rs` are about files and disks of the embedded
//!   engine.
//! - `histories.rs`, `resources/histories.rs` and `resources/moments.rs` copy all stored rows at
//!   each moment, which only a store in memory allows.
//! - `collecting/moments.rs`, `resources/in_turns.rs` and `resources/unsure.rs` hold time, and
//!   drivers do not work with paused time.
//! - `resources/bounds.rs` computes with keys. `resources/broken_pages.rs` makes a store in memory
//!   break pages, which no engine does on demand.
//! - `resources/following.rs` copies whole stores in each of its tests, some of them with thousands
//!   of changes, which takes minutes over a node. The proof `following` has a site that follows a
//!   keyspace.
//! - `resources/home.rs` needs two data centers, which the proof `two_datacenters` has.
//!
//! These tests are here, and do nothing on Cassandra:
//!
//! - Paused time: `a_consumer_that_is_held_back_…` and `a_consumer_misses_nothing_…` of
//!   `resources/feed.rs`, and `a_salvage_fails_if_…` of `resources/damage.rs`.
//! - Thousands of changes of one resource, which take minutes:
//!   `a_version_is_found_by_a_few_reads_…` and `a_late_page_of_thousands_of_versions_…` of
//!   `resources/as_of.rs`.
//! - A million versions, of which thousands of rows are stored: `among_a_million_versions_…` and
//!   `where_hundreds_of_thousands_of_versions_…` of `resources/as_of.rs`. The door's tests over
//!   Cassandra have a list of as many versions.
//! - Reads or writes are counted, and there are more of them where changes take longer or leases
//!   are renewed: `a_hundred_consumers_…` of `resources/feed.rs`, `an_index_is_saved_at_once_…` of
//!   `resources/search.rs`.
//! - Reads of the indexer are counted above the engine: `changes_are_found_while_an_index_…` and
//!   `earlier_documents_of_a_resource_…` of `resources/search.rs`.
//!
//! Three tests make embedded stores of their own, here too: `positions_rise_…` of
//! `resources/feed.rs`, `a_store_below_level_3_…` and `a_reader_that_began_now_…` of
//! `resources/feed_kept.rs`. A few others leave out a part on Cassandra: two tests of
//! `resources/feed_kept.rs` do not count the partitions of the feed that are left, and
//! `a_creation_that_races_…` of `resources/interleavings.rs` does not look at each moment.

#![allow(clippy::unwrap_used)]

#[path = "all/support/mod.rs"]
mod support;

#[path = "all/bulk/bench.rs"]
mod bench;
#[path = "all/collecting/common.rs"]
mod common;
#[path = "all/resources/tree.rs"]
mod tree;
#[path = "all/resources/work.rs"]
mod work;

#[path = "all/bulk/as_of.rs"]
mod archives_as_of;
#[path = "all/resources/as_of.rs"]
mod as_of;
#[path = "all/bulk/audit.rs"]
mod audit;
#[path = "all/bulk/audit_events.rs"]
mod audit_events;
#[path = "all/bulk/audit_pages.rs"]
mod audit_pages;
#[path = "all/bulk/damage.rs"]
mod bulk_damage;
#[path = "all/bulk/missing.rs"]
mod missing;
#[path = "all/bulk/resume.rs"]
mod resume;
#[path = "all/bulk/selections.rs"]
mod selections;
#[path = "all/bulk/sharing.rs"]
mod sharing;
#[path = "all/bulk/tokens.rs"]
mod tokens;

#[path = "all/collecting/at_size.rs"]
mod at_size;
#[path = "all/collecting/grace.rs"]
mod grace;
#[path = "all/collecting/history.rs"]
mod history;
#[path = "all/collecting/parts.rs"]
mod parts;
#[path = "all/collecting/plans.rs"]
mod plans;
#[path = "all/collecting/queues.rs"]
mod queues;

#[path = "all/resources/contents.rs"]
mod contents;
#[path = "all/resources/counterexamples.rs"]
mod counterexamples;
#[path = "all/resources/deletions.rs"]
mod deletions;
#[path = "all/resources/explicit.rs"]
mod explicit;
#[path = "all/resources/faults.rs"]
mod faults;
#[path = "all/resources/feed_kept.rs"]
mod feed_kept;
#[path = "all/resources/feed.rs"]
mod feed_of_changes;
#[path = "all/resources/growing.rs"]
mod growing;
#[path = "all/resources/interleavings.rs"]
mod interleavings;
#[path = "all/resources/long_history.rs"]
mod long_history;
#[path = "all/resources/pages_back.rs"]
mod pages_back;
#[path = "all/resources/passes.rs"]
mod passes;
#[path = "all/resources/past.rs"]
mod past;
#[path = "all/resources/received.rs"]
mod received;
#[path = "all/resources/damage.rs"]
mod resource_damage;
#[path = "all/resources/races.rs"]
mod resource_races;
#[path = "all/resources/search.rs"]
mod search;
#[path = "all/resources/shards.rs"]
mod shards;
#[path = "all/resources/transactions.rs"]
mod transactions;
#[path = "all/resources/versions.rs"]
mod versions;

#[path = "all/crashes.rs"]
mod crashes;
#[path = "all/damage.rs"]
mod damage;
#[path = "all/outcomes.rs"]
mod outcomes;
#[path = "all/races.rs"]
mod races;
#[path = "all/rewriting.rs"]
mod rewriting;
#[path = "all/sources.rs"]
mod sources;
#[path = "all/volumes.rs"]
mod volumes;
