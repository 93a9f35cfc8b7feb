//! Whether the machine changed while it was measured.

use serde::Serialize;

use super::{Scale, t_of, two_sided};

/// At least this probability of such a slope without drift is no drift. It is small, because a
/// false alarm makes a study worthless, and differences within blocks bear a little drift.
const P_MAX: f64 = 0.01;

/// A smaller drift than this share, from the first to the last run, is no matter.
const SHARE_MIN: f64 = 0.05;

/// How the default changed over the study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// In what it is measured.
    pub scale: Scale,
    /// By what, from the first run to the last: a share, or in the unit of the metric, as the scale
    /// says.
    pub change: f64,
    /// How likely such a slope is where there is none.
    pub p: Option<f64>,
    /// Runs of the default.
    pub runs: usize,
    /// Whether it is so likely and large that differences cannot be trusted.
    pub is_drifting: bool,
}

/// Fits lines with one slope to the defaults of all workloads: for each of these, (number of the
/// run, value). Each workload has a level of its own. `None` where they are too few for an error.
pub fn drift(workloads: &[Vec<(f64, f64)>]) -> Option<Drift> {
    let all = || workloads.iter().flatten();
    let scale = Scale::of(all().map(|(_, y)| *y));
    let (count, levels) = (all().count(), workloads.iter().filter(|runs| !runs.is_empty()).count());
    let freedom = count as f64 - levels as f64 - 1.0;
    if freedom < 1.0 {
        return None;
    }
    let centered = workloads.iter().filter(|runs| !runs.is_empty()).flat_map(|runs| {
        let n = runs.len() as f64;
        let x_mean = runs.iter().map(|(x, _)| x).sum::<f64>() / n;
        let y_mean = runs.iter().map(|(_, y)| scale.at(*y)).sum::<f64>() / n;
        runs.iter().map(move |(x, y)| (x - x_mean, scale.at(*y) - y_mean))
    });
    let centered: Vec<_> = centered.collect();
    let squares: f64 = centered.iter().map(|(x, _)| x * x).sum();
    if squares == 0.0 {
        return None;
    }
    let slope = centered.iter().map(|(x, y)| x * y).sum::<f64>() / squares;
    let residual: f64 = centered.iter().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let p = two_sided(t_of(slope, (residual / freedom / squares).sqrt()), freedom);
    let (first, last) = all().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let change = scale.shown(slope * (last - first));
    let is_large = scale == Scale::Unit || change.abs() > SHARE_MIN;
    Some(Drift { scale, change, p, runs: count, is_drifting: p.is_some_and(|p| p < P_MAX) && is_large })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_default_that_grows_is_drift_and_one_that_scatters_is_none() {
        let grows: Vec<_> =
            (0..8).map(|at| (f64::from(at), 10.0 + f64::from(at) * 0.3 + f64::from(at % 2) * 0.1)).collect();
        let found = drift(std::slice::from_ref(&grows)).unwrap();
        assert!(found.is_drifting && (found.change - 0.22).abs() < 0.03, "{found:?}");
        let scatters: Vec<_> = (0..8).map(|at| (f64::from(at), 10.0 + f64::from(at % 2))).collect();
        assert!(!drift(&[scatters]).unwrap().is_drifting);
        assert_eq!(drift(&[grows[..2].to_vec()]), None);
    }

    #[test]
    fn few_runs_of_each_of_several_workloads_show_a_drift_together() {
        // Three runs under each of four workloads, whose levels differ by far more.
        let run = |at: u32| (f64::from(at), f64::from(1 + at % 4) * 10.0 * 1.02_f64.powi(at as i32));
        let of = |workload: u32| (0..3).map(|turn| run(turn * 4 + workload)).collect::<Vec<_>>();
        let workloads: Vec<_> = (0..4).map(of).collect();
        let found = drift(&workloads).unwrap();
        assert!(found.is_drifting && (found.change - 0.243).abs() < 0.01 && found.runs == 12, "{found:?}");
    }

    #[test]
    fn a_default_that_is_zero_has_no_drift_and_no_share() {
        let found = drift(&[vec![(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]]).unwrap();
        assert!(!found.is_drifting && found.change == 0.0 && found.scale == Scale::Unit, "{found:?}");
    }
}
