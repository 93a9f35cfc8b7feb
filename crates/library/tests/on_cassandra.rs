//! Repeats the library's tests over a real Cassandra node that they share. Each library has a part
//! of a keyspace of its own. Tests that try each fault at each step try fewer faults here, because
//! each try takes longer.
//!
//! These tests are left out:
//!
//! - `broken_block.rs` and `resources/full_disk.rs` are about files and disks of the embedded
//!   engine.
//! - `histories.rs`, `resources/histories.rs` and `resources/moments.rs` copy all stored rows at
//!   each moment, which only a store in memory allows.
//! - `collecting/moments.rs`, `resources/in_turns.rs` and `resources/unsure.rs` hold time, and
//!   drivers do not work with paused time.
//! - `resources/bounds.rs` computes with keys. `resources/broken_pages.rs` makes a store in memory
//!   break pages, which no engine does on demand. `resources/long_history.rs` makes thousands of
//!   changes, which takes minutes over a node.
//! - `resources/home.rs` needs two data centers, which the proof `two_datacenters` has.

#![allow(clippy::unwrap_used)]
#![allow(clippy::duplicate_mod)] // Some of these files name the support module, because they are also tests by themselves.

mod support;

#[path = "bulk/bench.rs"]
mod bench;
#[path = "collecting/common.rs"]
mod common;
#[path = "resources/tree.rs"]
mod tree;
#[path = "resources/work.rs"]
mod work;

#[path = "bulk/as_of.rs"]
mod archives_as_of;
#[path = "resources/as_of.rs"]
mod as_of;
#[path = "bulk/audit.rs"]
mod audit;
#[path = "bulk/audit_events.rs"]
mod audit_events;
#[path = "bulk/audit_pages.rs"]
mod audit_pages;
#[path = "bulk/damage.rs"]
mod bulk_damage;
#[path = "bulk/missing.rs"]
mod missing;
#[path = "bulk/resume.rs"]
mod resume;
#[path = "bulk/selections.rs"]
mod selections;
#[path = "bulk/sharing.rs"]
mod sharing;
#[path = "bulk/tokens.rs"]
mod tokens;

#[path = "collecting/at_size.rs"]
mod at_size;
#[path = "collecting/grace.rs"]
mod grace;
#[path = "collecting/history.rs"]
mod history;
#[path = "collecting/parts.rs"]
mod parts;
#[path = "collecting/plans.rs"]
mod plans;
#[path = "collecting/queues.rs"]
mod queues;

#[path = "resources/contents.rs"]
mod contents;
#[path = "resources/counterexamples.rs"]
mod counterexamples;
#[path = "resources/deletions.rs"]
mod deletions;
#[path = "resources/faults.rs"]
mod faults;
#[path = "resources/feed_kept.rs"]
mod feed_kept;
#[path = "resources/feed.rs"]
mod feed_of_changes;
#[path = "resources/growing.rs"]
mod growing;
#[path = "resources/interleavings.rs"]
mod interleavings;
#[path = "resources/passes.rs"]
mod passes;
#[path = "resources/past.rs"]
mod past;
#[path = "resources/damage.rs"]
mod resource_damage;
#[path = "resources/races.rs"]
mod resource_races;
#[path = "resources/search.rs"]
mod search;
#[path = "resources/shards.rs"]
mod shards;
#[path = "resources/versions.rs"]
mod versions;

#[path = "crashes.rs"]
mod crashes;
#[path = "damage.rs"]
mod damage;
#[path = "outcomes.rs"]
mod outcomes;
#[path = "races.rs"]
mod races;
#[path = "rewriting.rs"]
mod rewriting;
#[path = "sources.rs"]
mod sources;
#[path = "volumes.rs"]
mod volumes;
