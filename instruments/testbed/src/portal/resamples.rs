//! How much the percentiles of a run vary within it: a circular block bootstrap over its seconds.
//!
//! Neighbouring requests are not independent: a pause of the server delays all that are due in it. So
//! what is drawn with replacement is not single requests but spans of consecutive seconds. Random
//! numbers follow from the run's id: resamples are the same each time, and those of two runs are
//! independent.

use hdrhistogram::Histogram;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// So many resamples are drawn of each run.
pub(super) const COUNT: usize = 1_000;
/// Runs with fewer seconds have no resamples: an interval from them would mean little.
pub(super) const SECONDS_MIN: usize = 10;

/// Percentiles of the resamples of a run, in milliseconds.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Resamples {
    /// Seconds that are drawn together.
    pub(super) block_s: i64,
    pub(super) p50_ms: Vec<f64>,
    pub(super) p99_ms: Vec<f64>,
}

/// Draws resamples of a run's seconds, or of units of several seconds if it is long; `None` if there are too
/// few.
pub(super) fn draw(id: &str, unit_s: i64, units: &[Histogram<u64>]) -> Option<Resamples> {
    if units.len() < SECONDS_MIN {
        return None;
    }
    let units = Units::new(units);
    // Long enough for what depends on each other, and short enough for many blocks.
    let block = (units.counts.len() as f64).cbrt().round() as usize;
    let mut random = ChaCha8Rng::from_seed(Sha256::digest(id).into());
    let (p50_ms, p99_ms) = (0..COUNT).map(|_| units.resample(block, &mut random)).unzip();
    Some(Resamples { block_s: block as i64 * unit_s, p50_ms, p99_ms })
}

/// What is drawn: response times that occur in the run, and how often each unit has each of them.
struct Units {
    values_us: Vec<u64>,
    /// Positions of values with their counts.
    counts: Vec<Vec<(usize, u64)>>,
}

impl Units {
    fn new(units: &[Histogram<u64>]) -> Self {
        let counted = |unit: &Histogram<u64>| {
            unit.iter_recorded().map(|one| (one.value_iterated_to(), one.count_at_value())).collect::<Vec<_>>()
        };
        let units: Vec<_> = units.iter().map(counted).collect();
        let mut values_us: Vec<_> = units.iter().flatten().map(|(value, _)| *value).collect();
        values_us.sort_unstable();
        values_us.dedup();
        let placed = |unit: Vec<(u64, u64)>| {
            unit.into_iter().map(|(value, count)| (values_us.partition_point(|known| *known < value), count)).collect()
        };
        let counts = units.into_iter().map(placed).collect();
        Self { values_us, counts }
    }

    /// The median and p99 of as many units as there are, drawn in blocks.
    fn resample(&self, block: usize, random: &mut impl Rng) -> (f64, f64) {
        let mut drawn = vec![0_u64; self.values_us.len()];
        let len = self.counts.len();
        let starts = std::iter::repeat_with(|| random.random_range(0..len));
        // The end of the run continues at its beginning, so that all units are drawn equally often.
        let units = starts.take(len.div_ceil(block)).flat_map(|start| start..start + block).take(len);
        for (position, count) in units.flat_map(|unit| &self.counts[unit % len]) {
            drawn[*position] += count;
        }
        (self.percentile(&drawn, 0.5), self.percentile(&drawn, 0.99))
    }

    fn percentile(&self, drawn: &[u64], share: f64) -> f64 {
        let rank = (drawn.iter().sum::<u64>() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let position = drawn.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        position.map_or(0.0, |position| self.values_us[position] as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn histogram(values_us: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        values_us.into_iter().for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    /// The span that holds 95 % of the values.
    fn interval(values: &[f64]) -> (f64, f64) {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        (values[values.len() / 40], values[values.len() - 1 - values.len() / 40])
    }

    #[test]
    fn seconds_that_are_all_alike_leave_no_doubt() {
        let seconds: Vec<_> = (0..60).map(|_| histogram(1_000..2_000)).collect();
        let resamples = draw("a run", 1, &seconds).unwrap();
        assert_eq!((resamples.block_s, resamples.p50_ms.len()), (4, COUNT));
        assert!(resamples.p50_ms.iter().all(|ms| *ms == 1.499), "{:?}", resamples.p50_ms);
        assert!(resamples.p99_ms.iter().all(|ms| *ms == 1.989), "{:?}", resamples.p99_ms);
    }

    #[test]
    fn resamples_of_a_run_are_the_same_each_time_and_those_of_others_differ() {
        let seconds: Vec<_> = (0..60).map(|at| histogram(1_000 + at * 10..2_000 + at * 10)).collect();
        let resamples = draw("a run", 1, &seconds).unwrap();
        assert_eq!(draw("a run", 1, &seconds).unwrap(), resamples);
        assert_ne!(draw("another run", 1, &seconds).unwrap().p50_ms, resamples.p50_ms);
    }

    #[test]
    fn an_interval_is_as_wide_as_theory_says_when_seconds_are_independent() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let seconds: Vec<_> =
            (0..400).map(|_| histogram((0..50).map(|_| random.random_range(10_000..20_000)))).collect();
        let (low, high) = interval(&draw("a run", 1, &seconds).unwrap().p50_ms);
        // The median of n evenly distributed values has the standard error 10 ms / (2 √n).
        let expected = 2.0 * 1.96 * 10.0 / (2.0 * 20_000_f64.sqrt());
        assert!(low < 15.05 && high > 14.95, "{low} to {high}");
        assert!(((high - low) / expected - 1.0).abs() < 0.3, "{} instead of {expected}", high - low);
    }

    #[test]
    fn a_slow_span_makes_the_interval_wider_than_the_same_seconds_apart() {
        let second = |is_slow: bool| if is_slow { histogram(50_000..50_100) } else { histogram(1_000..1_100) };
        let width = |is_slow: fn(usize) -> bool| {
            let seconds: Vec<_> = (0..600).map(|at| second(is_slow(at))).collect();
            let resamples = draw("a run", 1, &seconds).unwrap();
            resamples.p99_ms.iter().filter(|ms| **ms < 2.0).count()
        };
        // One second of a hundred is slow: whether p99 is depends on how many of them are drawn.
        let (together, apart) = (width(|at| (300..308).contains(&at)), width(|at| at % 75 == 0));
        assert!(together > apart, "{together} and {apart}");
    }

    #[test]
    fn a_run_of_a_day_is_resampled_in_longer_units() {
        let units: Vec<_> = (0..338).map(|_| histogram([1_000, 2_000])).collect();
        assert_eq!(draw("a run", 256, &units).unwrap().block_s, 7 * 256);
    }

    #[test]
    fn a_few_seconds_are_too_few() {
        let seconds: Vec<_> = (0..9).map(|_| histogram([1_000])).collect();
        assert_eq!(draw("a run", 1, &seconds), None);
    }
}
