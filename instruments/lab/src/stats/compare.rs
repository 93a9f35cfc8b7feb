//! How far a setting is from the default, and how sure that is.

use std::collections::BTreeMap;

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

    /// About how large figures with these values are on this scale: the `size` of [`Sample::of`].
    pub fn size(self, values: impl IntoIterator<Item = f64>) -> f64 {
        match self {
            Self::Logarithms => 1.0,
            Self::Unit => values.into_iter().fold(0.0_f64, |greatest, value| greatest.max(value.abs())),
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
    /// The same by block.
    #[serde(skip)]
    pub by_block: BTreeMap<Block, f64>,
    /// About how large the figures are from which these were computed.
    #[serde(skip)]
    pub size: f64,
}

/// A block: its stage, and its number there.
pub type Block = (u8, u32);

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
pub fn paired(pairs: &BTreeMap<Block, Pair>, scale: Scale) -> Option<Difference> {
    let on_scale = |values: &[f64]| mean(&values.iter().map(|value| scale.at(*value)).collect::<Vec<_>>());
    let difference = |pair: &Pair| on_scale(&pair.setting) - on_scale(&pair.default);
    let by_block: BTreeMap<_, _> = pairs.iter().map(|(block, pair)| (*block, difference(pair))).collect();
    let all = pairs.values().flat_map(|pair| pair.default.iter().chain(&pair.setting));
    let size = scale.size(all.copied());
    let sample = Sample::of(&by_block.values().copied().collect::<Vec<_>>(), size)?;
    let mut difference = Difference {
        scale,
        change: scale.shown(sample.mean),
        interval: None,
        p: sample.p(),
        p_corrected: None,
        blocks: pairs.len(),
        default: mean(&pairs.values().map(|pair| mean(&pair.default)).collect::<Vec<_>>()),
        sample,
        by_block,
        size,
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

    /// How likely two settings are so far apart where they do the same. In a block both are compared
    /// with the same default, whose scatter is no difference between them: so it is asked within the
    /// blocks that have both. Where these say nothing, because there are fewer than two or they do not
    /// scatter, it is Welch's test.
    pub fn p_apart(&self, other: &Self) -> Option<f64> {
        let apart = self.by_block.iter().filter_map(|(block, one)| Some(one - other.by_block.get(block)?));
        let within = Sample::of(&apart.collect::<Vec<_>>(), self.size.max(other.size));
        within.and_then(|within| within.p()).or_else(|| self.sample.p_apart(&other.sample))
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
        compared_from(1, values)
    }

    /// The same in blocks from this number on.
    fn compared_from(block: u32, values: &[(f64, f64)]) -> Difference {
        let pair = |(default, setting): &(f64, f64)| Pair { default: vec![*default], setting: vec![*setting] };
        let scale = Scale::of(values.iter().flat_map(|(one, other)| [*one, *other]));
        let blocks = (block..).map(|block| (1, block));
        paired(&blocks.zip(values.iter().map(pair)).collect(), scale).unwrap()
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
        assert_eq!(paired(&BTreeMap::new(), Scale::Unit), None);
    }

    /// The default in five blocks, and two settings in the same blocks.
    const DEFAULT: [f64; 5] = [10.0, 14.0, 9.0, 16.0, 11.0];
    const BEST: [f64; 5] = [5.0, 5.1, 4.9, 5.0, 5.1];
    const OTHER: [f64; 5] = [6.5, 6.4, 6.6, 6.5, 6.4];

    /// A setting beside the default, in blocks from this number on.
    fn beside_default(block: u32, setting: [f64; 5]) -> Difference {
        compared_from(block, &std::array::from_fn::<_, 5, _>(|at| (DEFAULT[at], setting[at])))
    }

    #[test]
    fn settings_are_told_apart_within_blocks_because_they_share_the_scatter_of_the_default() {
        let (best, other) = (beside_default(1, BEST), beside_default(1, OTHER));
        // Student's t is −19.3 with 4 degrees of freedom.
        let p = best.p_apart(&other).unwrap();
        assert!((1e-5..1e-4).contains(&p) && other.p_apart(&best) == Some(p), "{p}");
        assert!(best.p_apart(&best).is_some_and(|p| p > 0.99));
        // Welch's t is −1.70 with 7.97: so it is where the defaults are others.
        let p = best.p_apart(&beside_default(11, OTHER)).unwrap();
        assert!((p - 0.128).abs() < 0.005, "{p}");
    }

    #[test]
    fn where_blocks_do_not_scatter_or_there_is_only_one_settings_are_apart_by_their_own_scatter() {
        // Twice as slow in each block.
        let best = beside_default(1, BEST);
        let other = beside_default(1, BEST.map(|value| value * 2.0));
        let welch = best.sample.p_apart(&other.sample);
        assert!(welch.is_some_and(|p| p < 0.01) && best.p_apart(&other) == welch, "{welch:?}");
        let beside_one = beside_default(5, OTHER);
        assert_eq!(best.p_apart(&beside_one), best.sample.p_apart(&beside_one.sample));
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
