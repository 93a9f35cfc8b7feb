//! Puts any server under a stated load, finds the rate at which it stops holding, and keeps what
//! was measured so that it can be shown later. It speaks protocols only and knows no server.
//!
//! How to read it:
//!
//! - `plan.rs`: which load, on what, and what must hold; `arrivals.rs`: when users arrive;
//!   `replay/`: as in an access log; `objective.rs`: what must be true of the results. `plans.rs`:
//!   the plans that come with the program. `scenario/`: what users do. `inputs.rs`: a plan with
//!   everything that it names.
//! - `candidate/`: what is measured; `null/`: a candidate that does nothing.
//! - `reach.rs`: how a candidate is reached, `tls.rs`: whom connections trust, and `link/`:
//!   over a longer link.
//! - `runner/`: one run from the beginning to the archive. `coordinator.rs` talks to workers by
//!   `wire.rs`, and `caller.rs` lets it in by `handshake.rs`; `worker/` makes the load, and `beside/`
//!   has what happens meanwhile. `monitor/` watches the candidate, and `machine.rs` describes where this happens.
//! - `graph/`: whether an answer is the graph that is wanted. `event.rs`: one line for each
//!   request; `tally.rs` counts them; `verdict.rs` judges, and `saturation.rs` names what was the
//!   limit. `find.rs` searches the greatest load that is held, and `study.rs` keeps the answers of
//!   many searches.
//! - `results.rs`, `samples.rs` and `record.rs` are what a run has to show; `archive.rs` keeps it
//!   (`latencies.rs` reads histograms back), and `export/` writes it in the forms of other tools.
//!   `report/` shows a run, and `portal/` all of them; their pages have `page/` in common.

pub mod archive;
pub mod arrivals;
pub mod beside;
pub mod caller;
pub mod candidate;
pub mod coordinator;
pub mod event;
pub mod export;
pub mod find;
mod graph;
mod handshake;
pub mod inputs;
mod latencies;
pub mod link;
pub mod machine;
pub mod monitor;
pub mod null;
pub mod objective;
pub mod page;
pub mod plan;
pub mod plans;
pub mod portal;
pub mod reach;
pub mod record;
pub mod replay;
pub mod report;
pub mod results;
pub mod runner;
pub mod samples;
pub mod saturation;
pub mod scenario;
pub mod study;
pub mod tally;
pub mod tls;
pub mod verdict;
pub mod wire;
pub mod worker;
