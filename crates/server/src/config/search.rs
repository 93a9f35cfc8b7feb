//! `[search]`

use std::time::Duration;

use documented::DocumentedFields;
use door_ldp::SearchSettings;
use serde::{Deserialize, Serialize};

use super::{ConfigError, refused};

/// `[search]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchConfig {
    /// Whether this server keeps the search index up to date. One of several servers does it.
    pub index: bool,
    /// Most rows of the index that one search reads, about.
    pub rows_max: usize,
    /// The time after which a search ends with what it has, at most 10 minutes.
    #[serde(with = "humantime_serde")]
    pub time_max: Duration,
    /// Most results of one page.
    pub results_max: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        let SearchSettings { is_kept, rows_max, time_max, results_max } = SearchSettings::default();
        Self { index: is_kept, rows_max, time_max, results_max }
    }
}

impl SearchConfig {
    /// What the door needs to know.
    pub(crate) fn settings(&self) -> SearchSettings {
        let Self { index, rows_max, time_max, results_max } = *self;
        SearchSettings { is_kept: index, rows_max, time_max, results_max }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.rows_max == 0 || self.results_max == 0 || self.time_max.is_zero() {
            return Err(refused("search.rows_max, search.results_max and search.time_max must be greater than 0"));
        }
        // A replaced index is deleted once no search can read it any more.
        if self.time_max > search::TIME_MAX {
            let [time, most] = [self.time_max, search::TIME_MAX].map(humantime::format_duration);
            return Err(refused(format!("search.time_max ({time}) must be at most {most}")));
        }
        Ok(())
    }
}
