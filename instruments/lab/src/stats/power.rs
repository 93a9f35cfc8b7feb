//! Which true difference a study would find, before it is made or after it found none.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

use super::t_below;

/// The share of studies that find a difference that is called visible.
const FOUND_SHARE: f64 = 0.8;

/// Into so many parts the distribution of the scatter is divided.
const PARTS: usize = 50;

/// Steps in which the visible difference is enclosed.
const HALVINGS: usize = 60;

/// No difference above so many standard deviations is looked for.
const SHIFT_MAX: f64 = 1e6;

/// A t-test in two directions of so many differences, one for each block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// How many differences.
    pub blocks: usize,
    /// How likely it may find a difference where there is none.
    pub level: f64,
}

/// The least true difference that all of these tests, of different runs, find together in four of
/// five studies, by the standard deviation of a difference. `None` if one of them never finds any.
pub fn visible(tests: &[Test]) -> Option<f64> {
    let all = tests.iter().map(Power::of).collect::<Option<Vec<_>>>()?;
    let found = |shift: f64| all.iter().map(|power| power.at(shift)).product::<f64>();
    let (mut low, mut high) = (0.0, 1.0);
    while found(high) < FOUND_SHARE {
        (low, high) = (high, high * 2.0);
        if high > SHIFT_MAX {
            return None;
        }
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if found(middle) < FOUND_SHARE { low = middle } else { high = middle }
    }
    Some(high)
}

/// The power of a test: t has the noncentral distribution, a normal one by the root of a scatter
/// that chi-squared describes. It is averaged over parts of that with the same probability.
struct Power {
    root_of_count: f64,
    /// The least mean, by its true error, that is sure, for each part.
    limits: Vec<f64>,
    normal: Normal,
}

impl Power {
    fn of(test: &Test) -> Option<Self> {
        let freedom = test.blocks as f64 - 1.0;
        let least_t = t_below(1.0 - test.level / 2.0, freedom)?;
        let scatter = ChiSquared::new(freedom).ok()?;
        let part = |number: usize| scatter.inverse_cdf((number as f64 + 0.5) / PARTS as f64);
        let limits = (0..PARTS).map(|number| least_t * (part(number) / freedom).sqrt()).collect();
        Some(Self { root_of_count: (test.blocks as f64).sqrt(), limits, normal: Normal::standard() })
    }

    /// How likely a true difference of so many standard deviations is found, in its direction.
    fn at(&self, shift: f64) -> f64 {
        let is_above = |limit: &f64| self.normal.cdf(shift * self.root_of_count - limit);
        self.limits.iter().map(is_above).sum::<f64>() / self.limits.len() as f64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_test_sees_what_tables_of_its_power_say() {
        // Of a t-test of one sample in two directions at 5 %: ten values see 0.996 standard
        // deviations with 80 %, and twenty 0.660.
        for (blocks, expected) in [(10, 0.996), (20, 0.660)] {
            let found = visible(&[Test { blocks, level: 0.05 }]).unwrap();
            assert!((found - expected).abs() < 0.01, "{blocks}: {found}");
        }
    }

    #[test]
    fn two_tests_together_see_less_than_one_and_more_blocks_see_more() {
        let of = |blocks: usize| Test { blocks, level: 0.05 };
        let one = visible(&[of(5)]).unwrap();
        assert!(visible(&[of(5), of(5)]).unwrap() > one && visible(&[of(5), of(50)]).unwrap() < one * 1.01);
        assert!(visible(&[Test { blocks: 5, level: 0.001 }]).unwrap() > one);
        assert_eq!(visible(&[of(1)]), None);
    }
}
