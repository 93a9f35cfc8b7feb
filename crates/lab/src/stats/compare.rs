//! How far a setting is from the default, and how sure that is.

use serde::Serialize;

use super::Sample;

/// In what differences are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// In logarithms: a setting changes a latency by a share of it, and what is slow scatters more.
    Logarithms,
    /// In the unit of the metric, because some values are 0 or less.
    Unit,
}

impl Scale {
    /// The scale of values that are to be compared.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        if values.into_iter().all(|value| value > 0.0) { Self::Logarithms } else { Self::Unit }
    }

    /// A value on this scale.
    pub fn at(self, value: f64) -> f64 {
        match self {
            Self::Logarithms => value.ln(),
            Self::Unit => value,
        }
    }

    /// A difference on this scale for people: a share of the default (−0.2 is a fifth less), or in the
    /// unit of the metric.
    pub fn shown(self, difference: f64) -> f64 {
        match self {
            Self::Logarithms => difference.exp_m1(),
            Self::Unit => difference,
        }
    }
}

/// The difference of a setting to the default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// In what it is measured.
    pub scale: Scale,
    /// The mean of the differences within blocks: a share of the default (−0.2 is a fifth less), or in
    /// the unit of the metric, as the scale says.
    pub change: f64,
    /// Its 95 % interval; `None` where nothing is known of the error.
    pub interval: Option<(f64, f64)>,
    /// How likely such a difference is where there is none; `None` where nothing is known of the error.
    pub p: Option<f64>,
    /// The same, corrected for all comparisons of the study (Holm).
    pub p_corrected: Option<f64>,
    /// How many blocks have both.
    pub blocks: usize,
    /// The mean of the default in these blocks, in the unit of the metric.
    pub default: f64,
    /// The differences on the scale.
    #[serde(skip)]
    pub sample: Sample,
}

/// The values of the default and of a setting in one block, at least one of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Those of the default.
    pub default: Vec<f64>,
    /// Those of the setting.
    pub setting: Vec<f64>,
}

/// Compares pairs, one for each block. What changes from block to block changes both, and so it
/// does not hide the difference. The error is that of these differences alone, so a setting whose
/// runs scatter more than others has an error of its own. `None` without pairs.
pub fn paired(pairs: &[Pair], scale: Scale) -> Option<Difference> {
    let on_scale = |values: &[f64]| mean(&values.iter().map(|value| scale.at(*value)).collect::<Vec<_>>());
    let differences: Vec<_> = pairs.iter().map(|pair| on_scale(&pair.setting) - on_scale(&pair.default)).collect();
    let all = pairs.iter().flat_map(|pair| pair.default.iter().chain(&pair.setting));
    let size = match scale {
        Scale::Logarithms => 1.0,
        Scale::Unit => all.fold(0.0_f64, |greatest, value| greatest.max(value.abs())),
    };
    let sample = Sample::of(&differences, size)?;
    let mut difference = Difference {
        scale,
        change: scale.shown(sample.mean),
        interval: None,
        p: sample.p(),
        p_corrected: None,
        blocks: pairs.len(),
        default: mean(&pairs.iter().map(|pair| mean(&pair.default)).collect::<Vec<_>>()),
        sample,
    };
    difference.interval = difference.interval_among(1);
    Some(difference)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl Difference {
    /// The interval of the change, so wide that the intervals of all of this many comparisons hold
    /// together with 95 % (Bonferroni).
    pub fn interval_among(&self, comparisons: usize) -> Option<(f64, f64)> {
        let (low, high) = self.sample.interval(1.0 - 0.05 / comparisons.max(1) as f64)?;
        Some((self.scale.shown(low), self.scale.shown(high)))
    }
}

/// Corrects probabilities for their number by Holm's method: of twenty comparisons, one is at 5 %
/// by chance.
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
        let pair = |(default, setting): &(f64, f64)| Pair { default: vec![*default], setting: vec![*setting] };
        let scale = Scale::of(values.iter().flat_map(|(one, other)| [*one, *other]));
        paired(&values.iter().map(pair).collect::<Vec<_>>(), scale).unwrap()
    }

    #[test]
    fn a_share_is_found_within_blocks_although_blocks_differ_by_more() {
        let found = compared(&[(10.0, 9.0), (20.0, 18.1), (40.0, 35.9), (80.0, 72.0)]);
        assert!((found.change + 0.1).abs() < 0.005, "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(low < -0.1 && high < -0.08 && found.p.unwrap() < 0.001, "{found:?}");
    }

    #[test]
    fn where_a_value_is_zero_the_difference_is_in_the_unit_of_the_metric() {
        let found = compared(&[(0.0, 3.0), (0.0, 2.0), (0.0, 4.0)]);
        assert_eq!((found.scale, found.change, found.default), (Scale::Unit, 3.0, 0.0));
        assert!(found.interval.is_some_and(|(low, high)| low.is_finite() && high.is_finite()), "{found:?}");
    }

    #[test]
    fn where_nothing_scatters_nothing_is_sure() {
        for values in [&[(10.0, 9.0)][..], &[(5.0, 4.0), (10.0, 8.0)], &[(5.0, 5.0), (6.0, 6.0)], &[(0.0, 0.0); 3]] {
            let found = compared(values);
            assert_eq!((found.interval, found.p), (None, None), "{values:?}");
        }
        assert_eq!(paired(&[], Scale::Unit), None);
    }

    #[test]
    fn among_more_comparisons_intervals_are_wider() {
        let found = compared(&[(10.0, 9.0), (11.0, 10.2), (10.0, 9.1), (12.0, 11.0)]);
        let width = |comparisons| found.interval_among(comparisons).map(|(low, high)| high - low).unwrap();
        assert!(width(20) > width(1));
    }

    #[test]
    fn holm_corrects_the_smallest_most_and_keeps_the_order() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{corrected:?}");
        assert!(holm(&[]).is_empty());
    }
}
