//! How far a setting is from the default, and how sure that is.

use serde::Serialize;

use super::{Pooled, t_below, t_of, two_sided};

/// The difference of a setting to the default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The mean of the differences within blocks.
    pub mean: f64,
    /// Its 95 % interval; `None` where nothing is known of the error.
    pub interval: Option<(f64, f64)>,
    /// The same by the mean of the default: −0.2 is a fifth less.
    pub relative: f64,
    /// The interval of that.
    pub relative_interval: Option<(f64, f64)>,
    /// How likely such a difference is where there is none; `None` where nothing is known of the error.
    pub p: Option<f64>,
    /// The same, corrected for all comparisons of the study (Holm).
    pub p_corrected: Option<f64>,
    /// The standard error of the mean; `None` where nothing is known of it.
    pub error: Option<f64>,
    /// Its degrees of freedom.
    pub freedom: f64,
    /// How many blocks have both.
    pub blocks: usize,
    /// The mean of the default in these blocks.
    pub default: f64,
}

/// The default and a setting in one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The mean of the default.
    pub default: f64,
    /// The mean of the setting.
    pub setting: f64,
    /// How far their difference scatters, by the variance of one run: 1 / n of the default and
    /// 1 / n of the setting.
    pub scatter: f64,
}

/// Compares pairs, one for each block. What changes from block to block changes both, and so it
/// does not hide the difference. The error is that of all settings together. `None` without pairs.
pub fn paired(pairs: &[Pair], pooled: Option<Pooled>) -> Option<Difference> {
    let n = pairs.len() as f64;
    if pairs.is_empty() {
        return None;
    }
    let mean = pairs.iter().map(|pair| pair.setting - pair.default).sum::<f64>() / n;
    let default = pairs.iter().map(|pair| pair.default).sum::<f64>() / n;
    let scatter = pairs.iter().map(|pair| pair.scatter).sum::<f64>() / (n * n);
    let error = pooled.map(|pooled| ((pooled.variance * scatter).sqrt(), pooled.freedom));
    let mut difference = Difference {
        mean,
        interval: None,
        relative: mean / default,
        relative_interval: None,
        p: error.and_then(|(error, freedom)| two_sided(t_of(mean, error), freedom)),
        p_corrected: None,
        error: error.map(|(error, _)| error),
        freedom: error.map_or(0.0, |(_, freedom)| freedom),
        blocks: pairs.len(),
        default,
    };
    difference.interval = difference.interval_of(0.95);
    difference.relative_interval = difference.interval.map(|(low, high)| (low / default, high / default));
    Some(difference)
}

impl Difference {
    /// The interval that has the true difference with this probability.
    fn interval_of(&self, probability: f64) -> Option<(f64, f64)> {
        let half = t_below((1.0 + probability) / 2.0, self.freedom)? * self.error?;
        Some((self.mean - half, self.mean + half))
    }

    /// The interval of the relative difference, so wide that the intervals of all of this many
    /// comparisons hold together with 95 % (Bonferroni).
    pub fn interval_among(&self, comparisons: usize) -> Option<(f64, f64)> {
        let (low, high) = self.interval_of(1.0 - 0.05 / comparisons.max(1) as f64)?;
        let (low, high) = (low / self.default, high / self.default);
        Some((low.min(high), low.max(high)))
    }

    /// The relative difference that four of five studies such as this one would find, beside this
    /// many comparisons.
    pub fn visible_among(&self, comparisons: usize) -> Option<f64> {
        let at = |share| t_below(share, self.freedom);
        let t = at(1.0 - 0.025 / comparisons.max(1) as f64)? + at(0.8)?;
        Some((t * self.error? / self.default).abs())
    }
}

/// Corrects probabilities for their number by Holm's method: of twenty comparisons, one is at 5 % by
/// chance.
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<_> = (0..probabilities.len()).collect();
    order.sort_by(|one, other| probabilities[*one].total_cmp(&probabilities[*other]));
    let mut corrected = vec![0.0; probabilities.len()];
    let mut highest = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        let times = (probabilities.len() - rank) as f64;
        highest = highest.max((probabilities[at] * times).min(1.0));
        corrected[at] = highest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Compares one setting with the default, once in each block.
    fn compared(values: &[(f64, f64)]) -> Difference {
        let runs = values.iter().enumerate().flat_map(|(block, (one, other))| [(0, block, *one), (1, block, *other)]);
        let pooled = Pooled::of(&runs.collect::<Vec<_>>());
        let pair = |(default, setting): &(f64, f64)| Pair { default: *default, setting: *setting, scatter: 2.0 };
        paired(&values.iter().map(pair).collect::<Vec<_>>(), pooled).unwrap()
    }

    #[test]
    fn a_difference_within_blocks_is_found_although_blocks_differ_by_more() {
        let found = compared(&[(10.0, 9.0), (20.0, 19.1), (40.0, 38.9), (80.0, 79.0)]);
        assert!((found.mean + 1.0).abs() < 1e-9, "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(low < -1.0 && high < -0.8, "{found:?}");
        assert!(found.p.unwrap() < 0.001);
    }

    #[test]
    fn where_nothing_scatters_nothing_is_sure() {
        for values in [&[(10.0, 9.0)][..], &[(5.0, 4.0), (6.0, 5.0)], &[(5.0, 5.0), (6.0, 6.0)]] {
            let found = compared(values);
            assert_eq!((found.interval, found.p, found.visible_among(1)), (None, None, None), "{values:?}");
        }
        assert_eq!(paired(&[], None), None);
    }

    #[test]
    fn among_more_comparisons_intervals_are_wider_and_less_is_visible() {
        let found = compared(&[(10.0, 9.0), (11.0, 10.2), (10.0, 9.1), (12.0, 11.0)]);
        let width = |comparisons| found.interval_among(comparisons).map(|(low, high)| high - low).unwrap();
        assert!(width(20) > width(1) && found.visible_among(20) > found.visible_among(1));
        // A true difference has to be larger than the half width to be found mostly.
        assert!(found.visible_among(1).unwrap() > width(1) / 2.0);
    }

    #[test]
    fn holm_corrects_the_smallest_most_and_keeps_the_order() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{corrected:?}");
        assert!(holm(&[]).is_empty());
    }
}
