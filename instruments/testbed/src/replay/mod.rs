//! Replay of an access log with its timing.
//!
//! - `line.rs`: one line of a log. `split.rs`: the coordinator reads the log once, and writes a part of
//!   it for each worker. `part.rs`: a worker reads its part while it makes the load.
//!
//! Nothing holds a log in memory, and whatever a log has, the lines and bytes that are read are bounded.

mod line;
mod part;
mod split;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use line::{Keys, LogFormat};
pub(crate) use part::entries;
pub(crate) use split::split;

use crate::plan::{PlanError, invalid};

/// The methods that a log may be replayed with. Their requests have no bodies.
pub(crate) const METHODS: [&str; 5] = ["GET", "HEAD", "OPTIONS", "DELETE", "POST"];

/// A request of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One of [`METHODS`].
    pub method: &'static str,
    /// The path and the query.
    pub target: String,
}

/// Which part of a log is replayed, and how fast.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// The log.
    pub path: PathBuf,
    /// Its form.
    pub format: LogFormat,
    /// The keys of its objects, if it has objects.
    pub keys: Keys,
    /// So many times as fast as it was recorded.
    pub speed: f64,
    /// How long the replay takes at most, in seconds.
    pub seconds: f64,
    /// How long the warm-up is, in seconds.
    pub warm_up_s: f64,
    /// The methods that are replayed.
    pub methods: Vec<String>,
}

/// What was replayed, for the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayRecord {
    /// Lines that were read.
    pub lines: u64,
    /// Requests that are replayed.
    pub requests: u64,
    /// Lines that make no sense.
    pub unreadable: u64,
    /// The first of them: its number, and what is wrong.
    pub first_unreadable: Option<String>,
    /// Requests with methods that are not replayed.
    pub other_methods: u64,
    /// Lines that are older than one before. They are replayed with that one.
    pub out_of_order: u64,
    /// Whether the log goes on after what is replayed.
    pub is_cut: bool,
    /// How long the replay takes, in seconds: until its last request, and the mean distance of its
    /// requests longer. 0 in records of older programs.
    pub duration_s: f64,
}

/// Why a log cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// It cannot be read, or its parts cannot be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// It is no access log, or is too much.
    #[error("{}: {message}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// Checks the keys of a plan that are about a replay.
pub(crate) fn check(speed: f64, methods: &[String]) -> Result<(), PlanError> {
    if !speed.is_finite() || !(1e-3..=1e6).contains(&speed) {
        return Err(invalid("plan: load.speed", "a number from 0.001 to 1000000; 2 is twice as fast as recorded"));
    }
    match methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
        None if methods.is_empty() => Err(invalid("plan: load.methods", "at least one")),
        None => Ok(()),
        Some(other) => Err(invalid("plan: load.methods", format!("`{other}` is none of {}", METHODS.join(", ")))),
    }
}

/// What is replayed unless a plan says otherwise: requests that change nothing.
pub(crate) fn safe_methods() -> Vec<String> {
    ["GET", "HEAD"].map(str::to_owned).to_vec()
}
