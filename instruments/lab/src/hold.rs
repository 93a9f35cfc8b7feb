//! The highest rate that a setting holds under a bound. One run makes loads at several rates, as the
//! testbed searches: it doubles the rate until the bound is not kept, and halves the gap then.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use testbed::find::{Next, Precision, Search};
use testbed::results::Verdict;

use crate::metric::{self, FAILED_SHARE};

/// The metric: the rate at which the bound is just kept, 0 if it was kept at no rate.
pub const HELD_RATE: &str = "held_rate_per_s";

/// A load that loses more of its operations than this share is not held.
const FAILED_SHARE_MAX: f64 = 0.001;

/// The most loads of a run.
const LOADS_MAX: usize = 20;

/// What a load has to keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The metric, of which less is better.
    pub metric: String,
    /// The most that it may be, in its unit.
    pub max: f64,
    /// Loads are made until the lowest rate that is not held is at most so many times the highest one
    /// that is: 1.01 to 2.
    #[serde(default = "tenth")]
    pub precision: f64,
}

fn tenth() -> f64 {
    1.1
}

impl Hold {
    /// Whether it makes sense.
    pub(crate) fn is_good(&self) -> bool {
        let is_less_better = metric::find(&self.metric).is_some_and(|metric| metric.is_less_better);
        is_less_better && self.max.is_finite() && self.max > 0.0 && (1.01..=2.0).contains(&self.precision)
    }
}

/// A load that was made: its rate as a factor of the first one.
#[derive(Clone, Copy, Debug)]
struct Rung {
    factor: f64,
    /// The metric of the bound; `None` if the load could not be made, or had none.
    value: Option<f64>,
    is_held: bool,
}

/// The rates of a run, one after the other.
pub(crate) struct Ladder<'a> {
    hold: &'a Hold,
    search: Search,
    rungs: Vec<Rung>,
}

impl<'a> Ladder<'a> {
    /// No load is made yet.
    pub fn new(hold: &'a Hold) -> Self {
        let precision = Precision { ratio: hold.precision, confirmations: 1 };
        Self { hold, search: Search::new(precision), rungs: Vec::new() }
    }

    /// The next rate as a factor of the first one; `None`: no further load says more.
    pub fn wanted(&self) -> Option<f64> {
        match self.search.next() {
            Next::Try(factor) if self.rungs.len() < LOADS_MAX => Some(factor),
            _ => None,
        }
    }

    /// Adds the metrics of a load; `None` if it could not be made.
    pub fn add(&mut self, factor: f64, metrics: Option<&BTreeMap<String, f64>>) {
        let value = metrics.and_then(|metrics| metrics.get(&self.hold.metric).copied());
        let lost = metrics.and_then(|metrics| metrics.get(FAILED_SHARE).copied()).unwrap_or_default();
        let is_held = value.is_some_and(|value| value <= self.hold.max) && lost <= FAILED_SHARE_MAX;
        self.search.add(factor, if is_held { Verdict::Held } else { Verdict::Failed });
        self.rungs.push(Rung { factor, value, is_held });
    }

    /// The highest factor that was held below all that were not, and the one at which the bound is just
    /// kept: between these ends as logarithms say it, so that not all runs have one of a few values.
    pub fn found(&self) -> Option<(f64, f64)> {
        let of = |is_held: bool| self.rungs.iter().filter(move |rung| rung.is_held == is_held);
        let above = of(false).min_by(|one, other| one.factor.total_cmp(&other.factor));
        let below = of(true).filter(|rung| above.is_none_or(|above| rung.factor < above.factor));
        let held = below.max_by(|one, other| one.factor.total_cmp(&other.factor))?;
        let values = above.and_then(|above| Some((above.factor, held.value?, above.value?)));
        let estimate = values.filter(|(_, below, above)| *below > 0.0 && *above > self.hold.max);
        let factor = estimate.map_or(held.factor, |(factor, below, above)| {
            let share = (self.hold.max / below).ln() / (above / below).ln();
            held.factor * (factor / held.factor).powf(share)
        });
        Some((held.factor, factor))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hold() -> Hold {
        Hold { metric: "p99_ms".to_owned(), max: 40.0, precision: 1.1 }
    }

    /// The ladder of a server whose p99 follows from the factor.
    fn climbed(p99_ms: impl Fn(f64) -> Option<f64>) -> (Option<(f64, f64)>, usize) {
        let hold = hold();
        let mut ladder = Ladder::new(&hold);
        while let Some(factor) = ladder.wanted() {
            let metrics = p99_ms(factor).map(|p99_ms| BTreeMap::from([("p99_ms".to_owned(), p99_ms)]));
            ladder.add(factor, metrics.as_ref());
        }
        (ladder.found(), ladder.rungs.len())
    }

    #[test]
    fn the_highest_rate_is_where_the_bound_is_just_kept() {
        for limit in [0.1, 0.9, 3.0, 100.0] {
            // At the limit the server is busy half of the time, and operations take twice as long.
            let busy = |factor: f64| factor / limit / 2.0;
            let (found, loads) =
                climbed(|factor| Some(if busy(factor) < 1.0 { 20.0 / (1.0 - busy(factor)) } else { 1e4 }));
            let (held, estimate) = found.unwrap();
            assert!(held <= limit && (estimate / limit - 1.0).abs() < 0.03, "{limit}: {held} {estimate}");
            assert!(loads <= 14, "{loads}");
        }
    }

    #[test]
    fn a_rate_that_cannot_be_sent_or_loses_operations_is_not_held() {
        let (found, _) = climbed(|factor| (factor < 5.0).then_some(10.0));
        let (held, estimate) = found.unwrap();
        assert!(held < 5.0 && held * 1.1 >= 5.0 && held == estimate, "{held} {estimate}");
        assert_eq!(climbed(|_| Some(41.0)).0, None);
        let hold = hold();
        let mut ladder = Ladder::new(&hold);
        let lost = [("p99_ms", 10.0), (FAILED_SHARE, 0.01)].map(|(name, value)| (name.to_owned(), value));
        ladder.add(1.0, Some(&lost.into()));
        assert_eq!(ladder.found(), None);
    }

    #[test]
    fn a_server_that_holds_every_rate_ends_the_search() {
        let (found, loads) = climbed(|_| Some(1.0));
        assert!(found.is_some_and(|(held, _)| held >= 4_096.0) && loads <= LOADS_MAX, "{found:?} {loads}");
    }

    #[test]
    fn a_bound_is_of_a_metric_of_which_less_is_better() {
        assert!(hold().is_good());
        assert!(!Hold { metric: "rate_per_s".to_owned(), ..hold() }.is_good());
        assert!(!Hold { max: f64::INFINITY, ..hold() }.is_good() && !Hold { precision: 1.0, ..hold() }.is_good());
    }
}
