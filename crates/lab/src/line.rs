//! What is kept of a run: one line of JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schedule::Planned;

/// A run that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The run, as it was planned.
    #[serde(flatten)]
    pub planned: Planned,
    /// Which attempt it was, from 1: a void run is made again.
    pub attempt: u32,
    /// When it began.
    pub at: Timestamp,
    /// How long it took in all, in seconds.
    pub took_s: f64,
    /// Whether the node was started again for it.
    pub was_restarted: bool,
    /// The values that were in force, as they were read back.
    pub read_back: BTreeMap<String, String>,
    /// What was measured.
    pub metrics: BTreeMap<String, f64>,
    /// Why it does not count. Empty: it counts.
    pub void: Vec<String>,
    /// What else should be known of it.
    pub notes: Vec<String>,
}

impl Line {
    /// Whether it counts.
    pub fn is_valid(&self) -> bool {
        self.void.is_empty()
    }
}
