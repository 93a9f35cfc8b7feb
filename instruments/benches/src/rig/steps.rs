//! The highest rate that a server holds, found in steps.

use anyhow::Result;

/// Growing rates of requests.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// The first rate, in requests per second. All others are multiples of it.
    pub first: f64,
    /// Each rate is so many times the one before, if that makes more than one multiple.
    pub growth: f64,
}

/// What the steps have found.
pub struct Held<T> {
    /// The highest rate that holds, in requests per second; 0: none does.
    pub rate: f64,
    /// The first rate that does not hold.
    pub not: f64,
    /// What was measured at that rate.
    pub beyond: T,
}

impl Steps {
    /// Measures one rate after the other, until one does not hold.
    ///
    /// # Errors
    /// A measurement fails.
    pub fn climb<T>(self, mut measure: impl FnMut(f64) -> Result<T>, holds: impl Fn(&T) -> bool) -> Result<Held<T>> {
        let (mut held, mut rate) = (0.0, self.first);
        loop {
            let measured = measure(rate)?;
            if !holds(&measured) {
                return Ok(Held { rate: held, not: rate, beyond: measured });
            }
            held = rate;
            rate = self.after(rate);
        }
    }

    fn after(self, rate: f64) -> f64 {
        ((rate * self.growth).max(rate + self.first) / self.first).round() * self.first
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use anyhow::bail;

    use super::*;

    const STEPS: Steps = Steps { first: 20.0, growth: 1.5 };

    #[test]
    fn rates_grow_by_the_first_one_or_by_a_factor_until_one_does_not_hold() {
        let mut tried = Vec::new();
        let measure = |rate| {
            tried.push(rate);
            Ok(rate)
        };
        let held = STEPS.climb(measure, |rate| *rate < 130.0).unwrap();
        assert_eq!((held.rate, held.not, held.beyond), (100.0, 160.0, 160.0));
        assert_eq!(tried, [20.0, 40.0, 60.0, 100.0, 160.0]);
    }

    #[test]
    fn if_the_first_rate_does_not_hold_none_does_and_a_failure_ends_the_search() {
        let held = STEPS.climb(Ok, |_| false).unwrap();
        assert_eq!((held.rate, held.not), (0.0, 20.0));
        assert!(STEPS.climb(|_| bail!("no server"), |_: &()| true).is_err());
    }
}
