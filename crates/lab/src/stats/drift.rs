//! Whether the machine changed while it was measured.

use serde::Serialize;

use super::{t_of, two_sided};

/// At least this probability of such a slope without drift is no drift. It is small, because a
/// false alarm makes a study worthless, and differences within blocks bear a little drift.
const P_MAX: f64 = 0.01;

/// A smaller drift than this share, from the first to the last run, is no matter.
const SHARE_MIN: f64 = 0.05;

/// How the default changed over the study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// By what share of its mean, from the first to the last.
    pub relative: f64,
    /// How likely such a slope is where there is none.
    pub p: Option<f64>,
    /// Runs of the default.
    pub runs: usize,
    /// Whether it is so likely and large that differences cannot be trusted.
    pub is_drifting: bool,
}

/// Fits a line to the defaults of one workload: (number of the run, value). `None` of fewer than
/// three.
pub fn drift(defaults: &[(f64, f64)]) -> Option<Drift> {
    let n = defaults.len() as f64;
    if defaults.len() < 3 {
        return None;
    }
    let (x_mean, y_mean) =
        (defaults.iter().map(|(x, _)| x).sum::<f64>() / n, defaults.iter().map(|(_, y)| y).sum::<f64>() / n);
    let squares: f64 = defaults.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let slope = defaults.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>() / squares;
    let residual: f64 = defaults.iter().map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
    let error = (residual / (n - 2.0) / squares).sqrt();
    let p = two_sided(t_of(slope, error), n - 2.0);
    let (first, last) = defaults.iter().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let relative = slope * (last - first) / y_mean;
    let is_drifting = p.is_some_and(|p| p < P_MAX) && relative.abs() > SHARE_MIN;
    Some(Drift { relative, p, runs: defaults.len(), is_drifting })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_default_that_grows_is_drift_and_one_that_scatters_is_none() {
        let grows: Vec<_> =
            (0..8).map(|at| (f64::from(at), 10.0 + f64::from(at) * 0.3 + f64::from(at % 2) * 0.1)).collect();
        let found = drift(&grows).unwrap();
        assert!(found.is_drifting && (found.relative - 0.19).abs() < 0.03, "{found:?}");
        let scatters: Vec<_> = (0..8).map(|at| (f64::from(at), 10.0 + f64::from(at % 2))).collect();
        assert!(!drift(&scatters).unwrap().is_drifting);
        assert_eq!(drift(&grows[..2]), None);
    }
}
