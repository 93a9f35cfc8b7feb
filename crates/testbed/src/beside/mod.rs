//! What happens beside the load of a run, for its record and its report.
//!
//! - `fill.rs`: what is made before it.
//! - `events.rs`: commands of the candidate at stated instants.
//! - `marks.rs`: which flushes, compactions and collections of garbage a candidate shows, and how;
//!   `follow.rs` finds them in logs, `jolokia.rs` in MBeans, and `watch.rs` does both while a load runs.

pub mod events;
pub mod fill;
mod follow;
mod jolokia;
pub mod marks;
mod watch;

use serde::{Deserialize, Serialize};

use crate::link::Link;
use crate::replay::ReplayRecord;

pub use events::{EventRecord, PlannedEvent};
pub use fill::{Fill, FillRecord};
pub use marks::MarkSpec;
pub(crate) use watch::watch;

/// What was done beside the load, for the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beside {
    /// The events of the plan, in the order in which they were due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRecord>,
    /// What was made before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<FillRecord>,
    /// What was replayed of an access log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
    /// The link between each worker and the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
}
