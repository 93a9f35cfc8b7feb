//! Resources in containers: each change with each fault at each of its steps, changes that race,
//! and interrupted jobs.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod as_of;
mod bounds;
mod broken_pages;
mod contents;
mod counterexamples;
mod damage;
mod deletions;
mod faults;
mod feed;
mod feed_kept;
mod full_disk;
mod growing;
mod histories;
mod home;
mod in_turns;
mod interleavings;
mod long_history;
mod moments;
mod passes;
mod past;
mod races;
mod search;
mod shards;
mod transactions;
mod tree;
mod unsure;
mod versions;
mod work;
