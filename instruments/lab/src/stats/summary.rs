//! What repeats of one setting say.

use serde::Serialize;

use super::t_975;

/// Repeats of one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// All values, in the order of the runs.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// The root of the mean square error: √(Σ(x − mean)² / n).
    pub rmse: f64,
    /// The standard deviation of the population, from this sample (n − 1); `None` of one value.
    pub sd: Option<f64>,
    /// The 95 % interval of the mean by Student's t; `None` of one value.
    pub interval: Option<(f64, f64)>,
}

impl Summary {
    /// Sums up values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let first = *values.first()?;
        // The sum of differences is exact for equal values: they have no deviation from rounding.
        let mean = first + values.iter().map(|value| value - first).sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        let half = sd.and_then(|sd| Some(t_975(n - 1.0)? * sd / n.sqrt()));
        let interval = half.map(|half| (mean - half, mean + half));
        Some(Self { values: values.to_vec(), mean, rmse: (squares / n).sqrt(), sd, interval })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_summary_has_the_figures_of_a_textbook() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((summary.mean, summary.rmse), (5.0, 2.0));
        assert!((summary.sd.unwrap() - 2.138_089_935).abs() < 1e-9);
        // t of 7 degrees of freedom is 2.3646.
        let (low, high) = summary.interval.unwrap();
        assert!((low - 3.2125).abs() < 1e-3 && (high - 6.7875).abs() < 1e-3, "{low} {high}");
    }

    #[test]
    fn equal_values_deviate_by_nothing() {
        let summary = Summary::of(&[25.0 / 12.0; 12]).unwrap();
        assert_eq!((summary.mean, summary.rmse, summary.sd), (25.0 / 12.0, 0.0, Some(0.0)));
        assert_eq!(summary.interval, Some((25.0 / 12.0, 25.0 / 12.0)));
    }

    #[test]
    fn one_value_has_no_deviation_and_none_has_no_summary() {
        let summary = Summary::of(&[3.0]).unwrap();
        assert_eq!((summary.mean, summary.rmse, summary.sd, summary.interval), (3.0, 0.0, None, None));
        assert_eq!(Summary::of(&[]), None);
    }
}
