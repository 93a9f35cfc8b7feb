//! What a Gaussian process expects of settings that were not measured, from those that were
//! (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5).

use std::borrow::Borrow;
use std::f64::consts::FRAC_1_SQRT_2;

use friedrich::gaussian_process::GaussianProcess;
use friedrich::kernel::Matern2;
use friedrich::prior::ZeroPrior;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use crate::factor::{Factor, Setting};
use crate::value;

/// By how much the distance between the values of a factor may count.
const WEIGHTS: [f64; 5] = [0.15, 0.4, 1.0, 2.0, 4.0];

/// Into how many parts what was measured is divided, to see how well each is foretold.
const PARTS: usize = 5;

/// How often the weights of all factors are chosen again, each beside those of the others.
const PASSES: usize = 2;

/// The least standard deviation of a mean, as a share of that of all means. With none at all, two
/// settings of the same place would contradict each other.
const NOISE_MIN: f64 = 0.01;

/// What replaces a term of the diagonal from which nothing is left by rounding.
const CHOLESKY_EPSILON: Option<f64> = Some(1e-6);

/// A mean that was measured.
pub(crate) struct Measured {
    /// The setting.
    pub setting: Setting,
    /// The mean.
    pub mean: f64,
}

/// What is expected of a setting: a mean and its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    /// The mean.
    pub mean: f64,
    /// Its standard deviation, 0 or more.
    pub deviation: f64,
}

impl Expected {
    /// How much less than `best` it is expected to be: what it has below that, times its probability.
    pub fn improvement(self, best: f64) -> f64 {
        let z = (best - self.mean) / self.deviation;
        match Normal::new(0.0, 1.0) {
            Ok(normal) if z.is_finite() => (best - self.mean) * normal.cdf(z) + self.deviation * normal.pdf(z),
            _ => (best - self.mean).max(0.0),
        }
    }

    /// The probability that it is at most so much.
    pub fn at_most(self, max: f64) -> f64 {
        match Normal::new(self.mean, self.deviation) {
            Ok(normal) => normal.cdf(max),
            Err(_) => f64::from(u8::from(self.mean <= max)),
        }
    }
}

/// A Gaussian process over the settings of some factors. Each factor has a weight of its own, so one
/// that does nothing does not keep apart settings that differ by it.
pub(crate) struct Surrogate<'a> {
    factors: &'a [Factor],
    weights: Vec<f64>,
    process: GaussianProcess<Matern2, ZeroPrior>,
    /// The mean of what was measured and its deviation, by which it is scaled.
    scale: (f64, f64),
}

impl<'a> Surrogate<'a> {
    /// Learns from means that have about this standard error. The weights are those with which each
    /// part of what was measured is foretold best by the others. `None` without anything measured.
    pub fn of(factors: &'a [Factor], measured: &[Measured], error: f64) -> Option<Self> {
        let mut weights = vec![1.0; factors.len()];
        let mut best = foretold(factors, measured, error, &weights);
        for at in (0..PASSES).flat_map(|_| 0..factors.len()) {
            for weight in WEIGHTS {
                if weight == weights[at] {
                    continue;
                }
                let mut others = weights.clone();
                others[at] = weight;
                let density = foretold(factors, measured, error, &others);
                if density > best {
                    (weights, best) = (others, density);
                }
            }
        }
        Self::with(factors, measured, error, weights)
    }

    /// The same weights, and something else measured.
    pub fn again(&self, measured: &[Measured], error: f64) -> Option<Self> {
        Self::with(self.factors, measured, error, self.weights.clone())
    }

    fn with(factors: &'a [Factor], measured: &[impl Borrow<Measured>], error: f64, weights: Vec<f64>) -> Option<Self> {
        if measured.is_empty() {
            return None;
        }
        let count = measured.len() as f64;
        let mean = measured.iter().map(|one| one.borrow().mean).sum::<f64>() / count;
        let variance = measured.iter().map(|one| (one.borrow().mean - mean).powi(2)).sum::<f64>() / count;
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        let inputs: Vec<_> = measured.iter().map(|one| coordinates(factors, &weights, &one.borrow().setting)).collect();
        let outputs: Vec<_> = measured.iter().map(|one| (one.borrow().mean - mean) / deviation).collect();
        let noise = (error / deviation).max(NOISE_MIN);
        let kernel = Matern2::new(1.0, 1.0);
        let process = GaussianProcess::new(ZeroPrior {}, kernel, noise, CHOLESKY_EPSILON, inputs, outputs);
        Some(Self { factors, weights, process, scale: (mean, deviation) })
    }

    /// What is expected of settings, in their order.
    pub fn expected(&self, settings: &[Setting]) -> Vec<Expected> {
        if settings.is_empty() {
            return Vec::new();
        }
        let inputs: Vec<_> = settings.iter().map(|setting| coordinates(self.factors, &self.weights, setting)).collect();
        let (means, variances) = self.process.predict_mean_variance(&inputs);
        let (mean, deviation) = self.scale;
        let expected = |(scaled, variance): (f64, f64)| Expected {
            mean: mean + scaled * deviation,
            deviation: variance.max(0.0).sqrt() * deviation,
        };
        means.into_iter().zip(variances).map(expected).collect()
    }
}

/// How well parts of what was measured are foretold by the others: the sum of the logarithms of
/// their densities (section 5.3 of the book; the likelihood of `friedrich` lacks the determinant).
fn foretold(factors: &[Factor], measured: &[Measured], error: f64, weights: &[f64]) -> f64 {
    let parts = PARTS.min(measured.len());
    let density = |part: usize| {
        let split = measured.iter().enumerate().partition::<Vec<_>, _>(|(at, _)| at % parts == part);
        let [asked, known] = [split.0, split.1].map(|part| part.into_iter().map(|(_, one)| one).collect::<Vec<_>>());
        let Some(process) = Surrogate::with(factors, &known, error, weights.to_vec()) else { return 0.0 };
        let settings: Vec<_> = asked.iter().map(|one| one.setting.clone()).collect();
        let of = |(expected, one): (Expected, &&Measured)| {
            let deviation = expected.deviation.hypot(error).max(process.scale.1 * NOISE_MIN);
            Normal::new(expected.mean, deviation).map_or(f64::MIN, |normal| normal.ln_pdf(one.mean))
        };
        process.expected(&settings).into_iter().zip(&asked).map(of).sum::<f64>()
    };
    (0..parts).map(density).sum()
}

/// Where a setting is: the farthest values of a factor are its weight apart.
fn coordinates(factors: &[Factor], weights: &[f64], setting: &Setting) -> Vec<f64> {
    let of = |(factor, weight): (&Factor, &f64)| {
        let place = place(factor, setting.get(&factor.name));
        place.into_iter().map(|coordinate| coordinate * weight).collect::<Vec<_>>()
    };
    factors.iter().zip(weights).flat_map(of).collect()
}

/// The place of a level of a factor. Numbers are in their order, evenly: values such as 1, 10 and
/// 100 are no linear scale. Other values are as far from each other as from the default.
fn place(factor: &Factor, level: Option<&str>) -> Vec<f64> {
    let levels = factor.levels();
    let numbers: Option<Vec<_>> =
        levels.iter().map(|level| value::number((*level).or(factor.default.as_deref())?)).collect();
    match (numbers, level.or(factor.default.as_deref()).and_then(value::number)) {
        (Some(numbers), Some(number)) => {
            let below = numbers.iter().filter(|other| **other < number).count();
            vec![below as f64 / (levels.len() - 1).max(1) as f64]
        }
        _ => levels.iter().map(|other| if *other == level { FRAC_1_SQRT_2 } else { 0.0 }).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn factor(name: &str, default: Option<&str>, values: &[&str]) -> Factor {
        Factor {
            name: name.to_owned(),
            default: default.map(str::to_owned),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            repeats: None,
            applied: Some(crate::factor::Applied::Restart),
        }
    }

    fn at(values: &[(&str, &str)]) -> Setting {
        Setting::of(values.iter().map(|(name, value)| (*name, Some(*value))))
    }

    #[test]
    fn a_process_has_the_posterior_of_its_formula() {
        let factors = [factor("a", Some("0"), &["1", "2"])];
        let measured = [Measured { setting: at(&[]), mean: 1.0 }, Measured { setting: at(&[("a", "2")]), mean: 3.0 }];
        // Mean 2, deviation 1: the outputs are -1 and 1, at 0 and 1. Half way between them both weigh
        // the same, so the mean is 2, and the variance is 1 - 2 k(½)² / (1 + k(1) + noise²).
        let process = Surrogate::with(&factors, &measured, 0.1, vec![1.0]).unwrap();
        let expected = process.expected(&[at(&[("a", "1")])])[0];
        let kernel = |distance: f64| {
            let x = 5_f64.sqrt() * distance;
            (1.0 + x + x * x / 3.0) * (-x).exp()
        };
        let variance = 1.0 - 2.0 * kernel(0.5).powi(2) / (1.0 + kernel(1.0) + 0.01);
        assert!((expected.mean - 2.0).abs() < 1e-9, "{expected:?}");
        assert!((expected.deviation - variance.sqrt()).abs() < 1e-9, "{expected:?} {variance}");
    }

    #[test]
    fn a_factor_that_does_nothing_gets_a_small_weight() {
        let factors = [factor("a", Some("0"), &["1", "2", "3"]), factor("b", None, &["x", "y"])];
        let mut measured = Vec::new();
        for (a, mean) in [("0", 10.0), ("1", 7.0), ("2", 4.0), ("3", 6.0)] {
            for b in [None, Some("x"), Some("y")] {
                let setting = Setting::of([("a", Some(a).filter(|a| *a != "0")), ("b", b)]);
                measured.push(Measured { setting, mean });
            }
        }
        let process = Surrogate::of(&factors, &measured, 0.1).unwrap();
        assert!(process.weights[1] < process.weights[0], "{:?}", process.weights);
    }

    #[test]
    fn what_is_surely_worse_improves_nothing_and_what_is_surely_better_by_its_difference() {
        let sure = |mean: f64| Expected { mean, deviation: 0.0 };
        assert_eq!([sure(3.0).improvement(2.0), sure(1.5).improvement(2.0)], [0.0, 0.5]);
        let open = Expected { mean: 2.0, deviation: 1.0 };
        // The density of the normal distribution at 0.
        assert!((open.improvement(2.0) - 0.398_942).abs() < 1e-6);
        assert_eq!([sure(2.0).at_most(2.0), sure(2.1).at_most(2.0)], [1.0, 0.0]);
        assert!((open.at_most(2.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn numbers_have_an_order_and_other_values_have_none() {
        let sizes = factor("a", Some("64MiB"), &["16MiB", "1GiB"]);
        let places = [None, Some("16MiB"), Some("1GiB")].map(|level| place(&sizes, level));
        assert_eq!(places, [vec![0.5], vec![0.0], vec![1.0]]);
        // What the node has by itself is not known.
        let unknown = factor("a", None, &["1", "2"]);
        let places = [None, Some("1"), Some("2")].map(|level| place(&unknown, level));
        let distance = |one: &[f64], other: &[f64]| -> f64 {
            one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            assert!((distance(&places[one], &places[other]) - 1.0).abs() < 1e-9, "{places:?}");
        }
    }
}
