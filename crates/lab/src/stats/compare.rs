//! How far a setting is from the default, and how sure that is.

use serde::Serialize;

use super::{Summary, t_975, t_of, two_sided};

/// The difference of a setting to the default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The mean of the differences within blocks.
    pub mean: f64,
    /// Its 95 % interval; `None` of one block.
    pub interval: Option<(f64, f64)>,
    /// The same by the mean of the default: −0.2 is a fifth less.
    pub relative: f64,
    /// The interval of that.
    pub relative_interval: Option<(f64, f64)>,
    /// How likely such a difference is where there is none; `None` of one block.
    pub p: Option<f64>,
    /// The same, corrected for all comparisons of the study (Holm).
    pub p_corrected: Option<f64>,
    /// How many blocks have both.
    pub blocks: usize,
}

/// Compares pairs of (default, setting), one for each block. What changes from block to block
/// changes both, and so it does not hide the difference. `None` without pairs.
pub fn paired(pairs: &[(f64, f64)]) -> Option<Difference> {
    let differences: Vec<_> = pairs.iter().map(|(default, setting)| setting - default).collect();
    let Summary { mean, sd, .. } = Summary::of(&differences)?;
    let n = differences.len() as f64;
    let default = pairs.iter().map(|(default, _)| default).sum::<f64>() / n;
    let error = sd.map(|sd| sd / n.sqrt());
    let half = error.and_then(|error| Some(t_975(n - 1.0)? * error));
    let interval = half.map(|half| (mean - half, mean + half));
    Some(Difference {
        mean,
        interval,
        relative: mean / default,
        relative_interval: interval.map(|(low, high)| (low / default, high / default)),
        p: error.and_then(|error| two_sided(t_of(mean, error), n - 1.0)),
        p_corrected: None,
        blocks: differences.len(),
    })
}

/// Corrects probabilities for their number by Holm's method: whoever makes twenty comparisons finds
/// one at 5 % by chance.
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

    #[test]
    fn a_difference_within_blocks_is_found_although_blocks_differ_by_more() {
        let pairs = [(10.0, 9.0), (20.0, 19.1), (40.0, 38.9), (80.0, 79.0)];
        let found = paired(&pairs).unwrap();
        assert!((found.mean + 1.0).abs() < 1e-9, "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(low < -1.0 && high < -0.8, "{found:?}");
        assert!(found.p.unwrap() < 0.001);
    }

    #[test]
    fn one_block_has_no_interval_and_equal_values_no_difference() {
        let found = paired(&[(10.0, 9.0)]).unwrap();
        assert_eq!((found.interval, found.p), (None, None));
        assert_eq!(paired(&[(5.0, 5.0), (6.0, 6.0)]).unwrap().p, Some(1.0));
        assert_eq!(paired(&[(5.0, 4.0), (6.0, 5.0)]).unwrap().p, Some(0.0));
        assert_eq!(paired(&[]), None);
    }

    #[test]
    fn holm_corrects_the_smallest_most_and_keeps_the_order() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{corrected:?}");
        assert!(holm(&[]).is_empty());
    }
}
