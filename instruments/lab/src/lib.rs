//! The lab: which settings of Cassandra suit a load, or of another server? It measures combinations
//! of settings, in an order and a number that show how sure a difference is, and recommends a change
//! only then.
//!
//! How to read it:
//!
//! - `plan.rs`: what is to be measured; `preset.rs`: plans that come with the program;
//!   `estimate.rs`: what runs of a plan write. `factor.rs`: what is varied, with the settings of
//!   `catalogue.rs` and values as `value.rs` compares them; `sync.rs`: the modes of the commit log;
//!   `deployment.rs`: nodes, copies, consistency and containers.
//!   `workload.rs`: under which loads, with the closed loops of `closed.rs`; `metric.rs`: what is
//!   compared.
//! - `design/`: which combinations; `search.rs`: which ones next, by what was measured;
//!   `schedule.rs`: in which order.
//! - `rig.rs`: what is measured, as the lab sees it. `simulated.rs` is a made-up node, `node/` a real
//!   one, and `candidate/` a server of the Redis protocol or of doors of Penates. `load/` makes the
//!   load of both, `page_cache.rs` what Linux has of their files in memory, and `flushes.rs` reads
//!   what flushes do.
//! - `run.rs`: one run, with the rates of `hold.rs` and the threads of `closed.rs`; `checks.rs`: what
//!   voids it; `costs.rs`: what it costs. `execute.rs`: all runs; `line.rs` and `study.rs` keep them,
//!   `archive.rs` for ever, and `filed.rs` as runs of the testbed.
//! - `stats/`: statistics; `analysis.rs`: what the runs say, and `union.rs`: the best values of them;
//!   `recommend.rs`: what follows, with `change.rs`, `beside.rs`, `defaults.rs` and `caveats.rs`;
//!   `report/` shows it, `apply.rs` sets what a running node takes, and `yaml.rs` changes an
//!   operator's `cassandra.yaml`.
//!
//! The crate knows nothing of Penates but the paths of its doors, and the command that makes
//! volumes.

pub mod analysis;
pub mod apply;
pub mod archive;
pub mod beside;
pub mod candidate;
pub mod catalogue;
mod caveats;
pub mod change;
pub mod checks;
pub mod closed;
pub mod costs;
mod defaults;
pub mod deployment;
pub mod design;
pub mod estimate;
pub mod execute;
pub mod factor;
mod filed;
mod flushes;
pub mod hold;
pub mod line;
mod load;
pub mod metric;
pub mod node;
mod page_cache;
pub mod plan;
pub mod preset;
pub mod recommend;
pub mod report;
pub mod rig;
pub mod run;
pub mod schedule;
pub mod search;
pub mod simulated;
pub mod stats;
pub mod study;
pub mod sync;
pub mod union;
pub mod value;
pub mod workload;
pub mod yaml;
