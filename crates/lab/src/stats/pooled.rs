//! How far runs scatter that differ in nothing.

/// Rounds of the fit, and the share of the values below which a round changes nothing.
const ROUNDS_MAX: usize = 1_000;
const PRECISION: f64 = 1e-12;

/// The scatter of runs that settings and blocks do not explain. All settings of a table share it:
/// of three repeats alone, a small scatter is too often chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooled {
    /// Its variance, above 0.
    pub variance: f64,
    /// Its degrees of freedom, above 0.
    pub freedom: f64,
}

impl Pooled {
    /// Of runs as (setting, block, value), numbered from 0. `None` without repeats, and of values
    /// that do not scatter at all: then nothing is known of the error.
    pub fn of(runs: &[(usize, usize, f64)]) -> Option<Self> {
        let settings = runs.iter().map(|run| run.0 + 1).max()?;
        let blocks = runs.iter().map(|run| run.1 + 1).max()?;
        let greatest = runs.iter().fold(0.0_f64, |greatest, run| greatest.max(run.2.abs()));
        let mut left: Vec<f64> = runs.iter().map(|run| run.2).collect();
        // What means of settings and of blocks explain is subtracted in turn, until nothing is.
        for _ in 0..ROUNDS_MAX {
            let of_settings = subtract_means(&mut left, settings, |at| runs[at].0);
            let of_blocks = subtract_means(&mut left, blocks, |at| runs[at].1);
            if of_settings.max(of_blocks) <= greatest * PRECISION {
                break;
            }
        }
        let freedom = (runs.len() + 1) as f64 - (settings + blocks) as f64;
        let variance = left.iter().map(|value| value * value).sum::<f64>() / freedom;
        let least = (greatest * 1e-9).powi(2);
        (freedom > 0.0 && variance > least).then_some(Self { variance, freedom })
    }
}

/// Subtracts from each value the mean of its group. Returns the greatest of these means.
fn subtract_means(values: &mut [f64], groups: usize, group: impl Fn(usize) -> usize) -> f64 {
    let mut sums = vec![(0.0, 0.0); groups];
    for (at, value) in values.iter().enumerate() {
        let (sum, count) = &mut sums[group(at)];
        (*sum, *count) = (*sum + value, *count + 1.0);
    }
    let means: Vec<f64> = sums.into_iter().map(|(sum, count)| if count > 0.0 { sum / count } else { 0.0 }).collect();
    values.iter_mut().enumerate().for_each(|(at, value)| *value -= means[group(at)]);
    means.iter().fold(0.0, |greatest, mean| greatest.max(mean.abs()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_settings_and_blocks_explain_is_no_error() {
        let value = |setting: usize, block: usize| 10.0 + setting as f64 * 3.0 + block as f64 * 50.0;
        let exact: Vec<_> = (0..3).flat_map(|s| (0..4).map(move |b| (s, b, value(s, b)))).collect();
        assert_eq!(Pooled::of(&exact), None);
        // The last run of the first setting is away: the fit is none of plain means.
        let noise = |run: &(usize, usize, f64)| {
            (run.0, run.1, run.2 + if (run.0 + run.1).is_multiple_of(2) { 0.5 } else { -0.5 })
        };
        let scatters: Vec<_> = exact.iter().map(noise).filter(|run| (run.0, run.1) != (0, 3)).collect();
        let found = Pooled::of(&scatters).unwrap();
        assert_eq!(found.freedom, 11.0 - 3.0 - 4.0 + 1.0);
        assert!((0.2..1.0).contains(&found.variance), "{found:?}");
    }

    #[test]
    fn of_two_settings_it_is_the_scatter_of_their_differences() {
        let runs = [(0, 0, 10.0), (1, 0, 11.0), (0, 1, 20.0), (1, 1, 23.0), (0, 2, 30.0), (1, 2, 32.0)];
        // Differences are 1, 3 and 2: their variance is 1, twice that of a run.
        let found = Pooled::of(&runs).unwrap();
        assert!((found.variance - 0.5).abs() < 1e-9 && found.freedom == 2.0, "{found:?}");
        assert_eq!(Pooled::of(&runs[..2]), None);
    }
}
