//! `[store]`

use std::time::Duration;

use documented::DocumentedFields;
use heads::LibraryOptions;
use serde::{Deserialize, Serialize};

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreConfig {
    /// How long condemned data is kept: longer than `store.plan_life` and `store.clock_skew_max`
    /// together.
    #[serde(with = "humantime_serde")]
    pub grace: Duration,
    /// How long a bulk response may read the revisions that it began with.
    #[serde(with = "humantime_serde")]
    pub plan_life: Duration,
    /// The greatest difference between the clocks of two servers. On Cassandra a server takes no
    /// changes while its clock differs from those of most nodes by more than half of it.
    #[serde(with = "humantime_serde")]
    pub clock_skew_max: Duration,
    /// Deadline of one call of the store.
    #[serde(with = "humantime_serde")]
    pub call_timeout: Duration,
    /// DEFLATE level of the frames that an import makes, 1 to 9.
    pub frame_level: u8,
    /// Time between passes that collect superseded data and end selections.
    #[serde(with = "humantime_serde")]
    pub sweep_interval: Duration,
}

impl Default for StoreConfig {
    fn default() -> Self {
        let library = LibraryOptions::default();
        Self {
            grace: library.grace,
            plan_life: library.plan_life,
            clock_skew_max: library.clock_skew_max,
            call_timeout: library.call_timeout,
            frame_level: library.frame_level,
            sweep_interval: Duration::from_secs(60),
        }
    }
}
