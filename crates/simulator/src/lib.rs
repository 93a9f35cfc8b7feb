//! A simulator: several servers of Penates over a simulated store, in one thread, with paused time, every choice drawn from a seed. Steps are
//! held up, fail, end unknown, arrive late, are lost in a replica; servers die between any two of them, clocks differ, a data center is cut
//! off. A model beside it knows all that was decided and all that clients were told, and checks after every turn that both hold.
//!
//! The same seed is the same run, to the last turn: what fails is replayed by its number. What the rules are that keep it right, and which
//! seeds find each of them left out, is in `docs/protocols.md`.
//!
//! How to read it: `run.rs` gives the turns; `work/` is what clients and servers do (`draw.rs`: what is asked for next); `setup.rs` is the world that a seed makes, and `directed.rs` those that are directed at something; `store/` is
//! the store (replicas that lag, registers that decide heads); `model.rs` and `checks.rs` are what is compared with.

mod chance;
mod checks;
mod clock;
mod directed;
mod model;
mod run;
mod setup;
mod store;
mod trace;
mod turns;
mod work;

pub use run::{Options, Report, simulate};
