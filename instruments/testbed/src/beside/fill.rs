//! The fill of a plan: units of a scenario that are made before the load, as fast as so many users at
//! once can make them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::{PlanError, check_duration, invalid};
use crate::results::Summary;
use crate::verdict::conflicts;

/// The most units.
const UNITS_MAX: u64 = 10_000_000_000;
/// The most users at once.
const CONCURRENCY_MAX: u32 = 100_000;

/// What is made before the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The name of a scenario that comes with the program, or a file beside the plan. A unit is one user
    /// of it, with all its steps.
    pub scenario: String,
    /// How many units are made. Their users have the numbers from 0 on, as those of a load.
    pub units: u64,
    /// How many users make them at once, over all workers.
    #[serde(default = "sixteen")]
    pub concurrency: u32,
    /// It ends after this time, though units are left.
    #[serde(default = "an_hour", with = "humantime_serde")]
    pub within: Duration,
}

impl Fill {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if self.units == 0 || self.units > UNITS_MAX {
            return Err(invalid("plan: fill.units", format!("1 to {UNITS_MAX}")));
        }
        if self.concurrency == 0 || self.concurrency > CONCURRENCY_MAX {
            return Err(invalid("plan: fill.concurrency", format!("1 to {CONCURRENCY_MAX}")));
        }
        check_duration("plan: fill.within", self.within, "10m")
    }

    /// How many users a worker has, and how many workers have any.
    pub(crate) fn share(&self, worker: u32, workers: u32) -> (u32, u32) {
        let more = u32::from(worker < self.concurrency % workers);
        (self.concurrency / workers + more, workers.min(self.concurrency))
    }
}

fn sixteen() -> u32 {
    16
}

fn an_hour() -> Duration {
    Duration::from_secs(3_600)
}

/// What a fill has made, for the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FillRecord {
    /// The scenario.
    pub scenario: String,
    /// Users that have begun.
    pub units: u64,
    /// How many the plan wants; 0 in records of older programs.
    pub wanted: u64,
    /// How long it took.
    pub seconds: f64,
    /// Its requests. They are due when the one before has ended.
    pub summary: Summary,
}

impl FillRecord {
    /// Why the run says nothing, if a unit has failed or was not made.
    pub fn void(&self) -> Option<String> {
        let all = &self.summary.all;
        let failed = all.failed + all.refused;
        match self.summary.errors.first() {
            Some(first) => Some(format!(
                "The fill failed: {failed} of {} requests, first with \"{}\" in {}.",
                all.due, first.kind, first.step
            )),
            None if self.units < self.wanted => {
                Some(format!("The fill made {} of {} units: its time (`within`) was over.", self.units, self.wanted))
            }
            None => conflicts(&self.summary).first().map(|reason| format!("In the fill: {reason}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{ErrorTally, StepTally, Tally};

    #[test]
    fn workers_share_the_users_of_a_fill() {
        let fill = |concurrency| Fill { scenario: "x".to_owned(), units: 1, concurrency, within: an_hour() };
        let shares = |concurrency| [0, 1, 2].map(|worker| fill(concurrency).share(worker, 3));
        assert_eq!(shares(7), [(3, 3), (2, 3), (2, 3)]);
        assert_eq!(shares(2), [(1, 2), (1, 2), (0, 2)]);
    }

    #[test]
    fn a_fill_that_is_not_whole_says_why_the_run_is_void() {
        let mut fill = FillRecord { units: 20, wanted: 20, ..FillRecord::default() };
        assert_eq!(fill.void(), None);
        let tally = Tally { due: 20, done: 20, conflicts: 20, ..Tally::default() };
        fill.summary.steps = vec![StepTally { scenario: "x".to_owned(), step: "put".to_owned(), tally }];
        assert!(fill.void().is_some_and(|why| why.starts_with("In the fill: Most requests of x/put met a conflict")));
        fill.units = 7;
        assert_eq!(fill.void().as_deref(), Some("The fill made 7 of 20 units: its time (`within`) was over."));
        let (kind, step) = ("status 404".to_owned(), "x/get".to_owned());
        fill.summary.errors.push(ErrorTally { kind, step, count: 1, first_at_us: 0 });
        assert!(fill.void().is_some_and(|why| why.starts_with("The fill failed: ")));
    }
}
