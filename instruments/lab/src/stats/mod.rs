//! Statistics over the runs of a study.

mod compare;
mod drift;
mod effects;
mod pareto;
mod power;
mod sample;
mod summary;

pub use compare::{Block, Difference, Pair, Scale, holm, paired};
pub use drift::{Drift, drift};
pub(crate) use effects::OPPOSITE;
pub use effects::{Contrast, Observation, contrasts};
pub use pareto::front;
pub use power::{Test, visible};
pub use sample::Sample;
pub use summary::Summary;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The value of Student's t that 97.5 % of values are below; `None` without degrees of freedom.
pub(crate) fn t_975(freedom: f64) -> Option<f64> {
    t_below(0.975, freedom)
}

/// The value of Student's t that this share of values is below.
pub(crate) fn t_below(share: f64, freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom > 0.0)?.inverse_cdf(share))
}

/// The probability of a t at least as far from 0, in both directions.
pub(crate) fn two_sided(t: f64, freedom: f64) -> Option<f64> {
    if t.is_infinite() {
        return Some(0.0);
    }
    let student = StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom > 0.0 && !t.is_nan())?;
    Some((2.0 * student.cdf(-t.abs())).min(1.0))
}

/// A mean over its standard error; 0 by 0 is 0.
pub(crate) fn t_of(mean: f64, error: f64) -> f64 {
    match (mean == 0.0, error == 0.0) {
        (true, true) => 0.0,
        (false, true) => f64::INFINITY.copysign(mean),
        _ => mean / error,
    }
}
