//! What happens beside the load of a run, for its record and its report.
//!
//! - `events.rs`: commands of the candidate at stated instants.
//! - `marks.rs`: which flushes, compactions and collections of garbage a candidate shows, and how;
//!   `follow.rs` finds them in logs, `jolokia.rs` in MBeans, and `watch.rs` does both while a load runs.

pub mod events;
mod follow;
mod jolokia;
pub mod marks;
mod watch;

use serde::{Deserialize, Serialize};

pub use events::{EventRecord, PlannedEvent};
pub use marks::MarkSpec;
pub(crate) use watch::watch;

/// What was done beside the load, for the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beside {
    /// The events of the plan, in the order in which they were due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRecord>,
}
