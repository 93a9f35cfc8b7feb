//! Trials: a trial is one measurement; a point has several, taken in turn with those of all other
//! points.

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its duration.
    pub seconds: f64,
    /// Bytes of its page text.
    pub text_bytes: u64,
    /// Bytes of the frames or ZIP that were read or sent instead of that text.
    pub coded_bytes: u64,
    /// Bytes that this process read from storage devices meanwhile (`read_bytes` of
    /// `/proc/self/io`), if they matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_bytes: Option<u64>,
}

impl Trial {
    /// MB (10⁶ bytes) of text per second.
    pub fn text_rate(&self) -> f64 {
        self.text_bytes as f64 / 1e6 / self.seconds
    }

    /// MB (10⁶ bytes) of frames or ZIP per second.
    pub fn coded_rate(&self) -> f64 {
        self.coded_bytes as f64 / 1e6 / self.seconds
    }
}

/// All trials of one point, in order of time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point<K> {
    /// Its parameters.
    #[serde(flatten)]
    pub key: K,
    /// Its trials.
    pub trials: Vec<Trial>,
}

impl<K> Point<K> {
    /// MB of text per second, over the trials.
    pub fn text_rate(&self) -> Statistics {
        Statistics::of(self.trials.iter().map(Trial::text_rate))
    }

    /// MB of frames or ZIP per second, over the trials.
    pub fn coded_rate(&self) -> Statistics {
        Statistics::of(self.trials.iter().map(Trial::coded_rate))
    }
}

/// Measures every key once, then again, `trials` times, so that other work of the machine affects
/// all alike.
pub async fn in_turn<K: Copy>(
    stage: &str,
    trials: u32,
    keys: impl IntoIterator<Item = K>,
    mut measure: impl AsyncFnMut(K) -> Result<Trial>,
) -> Result<Vec<Point<K>>> {
    let mut points: Vec<_> = keys.into_iter().map(|key| Point { key, trials: Vec::new() }).collect();
    for trial in 1..=trials {
        eprintln!("{stage}: trial {trial} of {trials}");
        for Point { key, trials } in &mut points {
            trials.push(measure(*key).await?);
        }
    }
    Ok(points)
}

/// Statistics of some figures. All NaN if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// The middle figure, or the mean of the two in the middle.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample's standard deviation over the root of its size. 0 for a single figure, which has
    /// no known error.
    pub standard_error: f64,
}

impl Statistics {
    /// The statistics of some figures.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let count = figures.len();
        if count == 0 {
            return Self { median: f64::NAN, mean: f64::NAN, standard_error: f64::NAN };
        }
        let median = (figures[(count - 1) / 2] + figures[count / 2]) / 2.0;
        let mean = figures.iter().sum::<f64>() / count as f64;
        let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
        let standard_error = if count > 1 { (squares / (count - 1) as f64 / count as f64).sqrt() } else { 0.0 };
        Self { median, mean, standard_error }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_standard_error_is_that_of_the_mean() {
        let statistics = Statistics::of([4.0, 2.0, 9.0, 5.0]);
        assert_eq!((statistics.median, statistics.mean), (4.5, 5.0));
        // Squares 1 + 9 + 16 + 0 = 26, over 3 is the variance, over 4 that of the mean.
        assert!((statistics.standard_error - (26.0_f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(Statistics::of([7.0]), Statistics { median: 7.0, mean: 7.0, standard_error: 0.0 });
        assert!(Statistics::of([]).median.is_nan());
    }

    #[test]
    fn a_rate_is_megabytes_per_second() {
        let trial = Trial { seconds: 2.0, text_bytes: 8_000_000, coded_bytes: 3_000_000, device_bytes: None };
        assert_eq!((trial.text_rate(), trial.coded_rate()), (4.0, 1.5));
    }

    #[tokio::test]
    async fn points_are_measured_in_turn() {
        let mut order = Vec::new();
        let points = in_turn("test", 2, ['a', 'b'], async |key| {
            order.push(key);
            Ok(Trial { seconds: 1.0, text_bytes: 1, coded_bytes: 1, device_bytes: None })
        });
        let points = points.await.unwrap();
        assert_eq!(
            points.iter().map(|point| (point.key, point.trials.len())).collect::<Vec<_>>(),
            [('a', 2), ('b', 2)]
        );
        assert_eq!(order, ['a', 'b', 'a', 'b']);
    }
}
