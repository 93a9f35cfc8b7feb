//! The t-test of one sample: is its mean another one than 0?

use super::{t_below, t_of, two_sided};

/// A sample that scatters by less than this share of what was measured does not scatter: its digits
/// have ended.
const SCATTER_MIN: f64 = 1e-9;

/// The mean of a sample, with what is known of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The mean.
    pub mean: f64,
    /// How many values there are.
    pub count: usize,
    /// The standard error of the mean, above 0; `None` of one value, and where nothing scatters.
    pub error: Option<f64>,
}

impl Sample {
    /// Of values that were computed from figures of about this `size`; `None` if there are none.
    pub fn of(values: &[f64], size: f64) -> Option<Self> {
        let n = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (squares / (n - 1.0)).sqrt();
        let is_known = sd.is_finite() && sd > size.abs() * SCATTER_MIN;
        Some(Self { mean, count: values.len(), error: is_known.then(|| sd / n.sqrt()) })
    }

    /// The degrees of freedom of the error.
    pub fn freedom(&self) -> f64 {
        self.count as f64 - 1.0
    }

    /// The standard deviation of the values.
    pub fn deviation(&self) -> Option<f64> {
        Some(self.error? * (self.count as f64).sqrt())
    }

    /// How likely a mean so far from 0 is where the true one is 0.
    pub fn p(&self) -> Option<f64> {
        two_sided(t_of(self.mean, self.error?), self.freedom())
    }

    /// The interval that has the true mean with this probability.
    pub fn interval(&self, probability: f64) -> Option<(f64, f64)> {
        let half = t_below((1.0 + probability) / 2.0, self.freedom())? * self.error?;
        Some((self.mean - half, self.mean + half))
    }

    /// How likely two means so far apart are where the true ones are the same (Welch's test, which asks
    /// for no equal scatter).
    pub fn p_apart(&self, other: &Self) -> Option<f64> {
        let (one, two) = (self.error?.powi(2), other.error?.powi(2));
        let freedom = (one + two).powi(2) / (one.powi(2) / self.freedom() + two.powi(2) / other.freedom());
        two_sided(t_of(self.mean - other.mean, (one + two).sqrt()), freedom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_sample_has_the_t_test_of_a_textbook() {
        // Student's own example: hours of sleep that a drug adds.
        let sample = Sample::of(&[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], 1.0).unwrap();
        assert!((sample.mean - 0.75).abs() < 1e-9 && (sample.deviation().unwrap() - 1.789).abs() < 1e-3);
        assert!((sample.p().unwrap() - 0.2176).abs() < 1e-3, "{:?}", sample.p());
        let (low, high) = sample.interval(0.95).unwrap();
        assert!((low + 0.5298).abs() < 1e-3 && (high - 2.0298).abs() < 1e-3, "{low} {high}");
        // And the other drug: Welch's t is −1.8608 with 17.776 degrees of freedom.
        let other = Sample::of(&[1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4], 1.0).unwrap();
        assert!((sample.p_apart(&other).unwrap() - 0.079_39).abs() < 1e-4, "{:?}", sample.p_apart(&other));
    }

    #[test]
    fn of_what_does_not_scatter_the_error_is_not_known() {
        for values in [&[3.0][..], &[3.0, 3.0], &[3.0, 3.0 + 1e-12]] {
            let sample = Sample::of(values, 3.0).unwrap();
            assert_eq!((sample.error, sample.p(), sample.interval(0.95)), (None, None, None), "{values:?}");
        }
        assert_eq!(Sample::of(&[], 1.0), None);
    }
}
