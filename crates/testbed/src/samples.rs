//! What was sampled beside the requests of a run: monitors, and what happened when.

use serde::{Deserialize, Serialize};

/// Samples of one monitor: one value per column and instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// The monitor's name.
    pub name: String,
    /// The names of the columns, with their units at the end: `memory_used_bytes`.
    pub columns: Vec<String>,
    /// Seconds since the start instant, and one value per column; `None` where there is none.
    pub rows: Vec<(f64, Vec<Option<f64>>)>,
}

/// Something that happened at an instant: a flush, a compaction, a collection of garbage, a node
/// added, a server killed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Marked {
    /// Seconds since the start instant; negative before it.
    pub at_s: f64,
    /// What happened, in a few words.
    pub what: String,
}
