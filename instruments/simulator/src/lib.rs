//! A simulator: runs several servers of Penates over a simulated store, in one thread, with paused
//! time, and with every choice drawn from a seed.
//!
//! Steps are held up, fail, end with an unknown outcome, arrive late, or are lost in a replica.
//! Servers die between any two steps, clocks differ, and a data center is cut off. A model knows
//! all decisions and all results that clients got. After every turn it checks that both hold.
//!
//! The same seed gives the same run, to the last turn, so a failure is replayed by its seed.
//! `docs/protocols.md` describes the protocols, and which of their rules are found when left out.
//!
//! Files in reading order: `run.rs` gives the turns; `work/` has the operations of clients and
//! servers (`draw.rs` draws the next one); `setup.rs` makes a world from a seed, and `directed.rs`
//! makes directed worlds; `store/` is the store (replicas that lag, registers that decide heads);
//! `model.rs`, `checks.rs` and `kept.rs` check the results.

mod chance;
mod checks;
mod clock;
mod directed;
mod kept;
mod model;
mod run;
mod setup;
mod store;
mod trace;
mod turns;
mod work;

pub use run::{Options, Report, simulate};
