//! What must be true of the results: `p99 < 20ms`, `mean <= 3ms`, `late share at 10ms < 1%`,
//! `rate >= 500`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::DURATION_MAX;

/// What must be true of the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective {
    /// What is looked at.
    pub of: Measure,
    /// Whether it must be less, or more.
    pub comparison: Comparison,
    /// Than this: milliseconds, percent (of a late share), or requests per second.
    pub bound: f64,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// A percentile of response times: 50, 90, 95, 99 or 99.9. None has more than one decimal.
    Percentile(f64),
    /// The mean response time.
    Mean,
    /// The greatest response time.
    Max,
    /// The share of requests that took longer than so many milliseconds, or failed, in percent.
    LateShare(f64),
    /// Requests that were done per second.
    Rate,
}

/// How a value is compared with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
}

impl Comparison {
    const ALL: [(&str, Self); 4] = [("<=", Self::AtMost), (">=", Self::AtLeast), ("<", Self::Less), (">", Self::More)];
}

impl Objective {
    /// Whether a value meets it, in the unit of the bound.
    pub fn is_met_by(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::Less => value < self.bound,
            Comparison::AtMost => value <= self.bound,
            Comparison::More => value > self.bound,
            Comparison::AtLeast => value >= self.bound,
        }
    }

    /// The time in milliseconds that it is about, if it is about one.
    pub fn bound_ms(&self) -> Option<f64> {
        match self.of {
            Measure::Mean | Measure::Max | Measure::Percentile(_) => Some(self.bound),
            Measure::LateShare(at_ms) => Some(at_ms),
            Measure::Rate => None,
        }
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "`{text}` is no objective; write for example \"p99 < 20ms\", \"mean <= 3ms\", \
                 \"late share at 10ms < 1%\" or \"rate >= 500\" (percentiles: p50, p90, p95, p99, p99.9; max)"
            )
        };
        let parts = Comparison::ALL.iter().find_map(|(sign, comparison)| {
            let (of, bound) = text.split_once(sign)?;
            Some((of.trim(), *comparison, bound.trim()))
        });
        let (of, comparison, bound) = parts.ok_or_else(help)?;
        let (of, bound) = match of {
            "mean" => (Measure::Mean, milliseconds(bound)),
            "max" => (Measure::Max, milliseconds(bound)),
            "rate" => (Measure::Rate, number(bound)),
            "p50" | "p90" | "p95" | "p99" | "p99.9" => {
                (Measure::Percentile(of[1..].parse().map_err(|_| help())?), milliseconds(bound))
            }
            _ => {
                let at = of.strip_prefix("late share at").and_then(milliseconds).ok_or_else(help)?;
                (Measure::LateShare(at), bound.strip_suffix('%').and_then(number))
            }
        };
        let bound = bound.filter(|bound| bound.is_finite() && *bound >= 0.0).ok_or_else(help)?;
        Ok(Self { of, comparison, bound })
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

fn milliseconds(text: &str) -> Option<f64> {
    let time = humantime::parse_duration(text.trim()).ok().filter(|time| *time <= DURATION_MAX)?;
    Some(time.as_secs_f64() * 1e3)
}

impl fmt::Display for Objective {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = Comparison::ALL.iter().find(|(_, comparison)| *comparison == self.comparison);
        let (sign, bound) = (sign.map_or("", |(sign, _)| sign), self.bound);
        match self.of {
            Measure::Percentile(percent) => write!(out, "p{percent} {sign} {}", shown(bound)),
            Measure::Mean => write!(out, "mean {sign} {}", shown(bound)),
            Measure::Max => write!(out, "max {sign} {}", shown(bound)),
            Measure::LateShare(at) => write!(out, "late share at {} {sign} {bound}%", shown(at)),
            Measure::Rate => write!(out, "rate {sign} {bound}"),
        }
    }
}

/// Milliseconds as a duration that is parsed again.
fn shown(ms: f64) -> String {
    humantime::format_duration(std::time::Duration::from_nanos((ms * 1e6).round() as u64)).to_string()
}

impl TryFrom<String> for Objective {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn objectives_are_written_as_they_are_read() {
        for text in
            ["p99 < 20ms", "p99.9 <= 1s 500ms", "mean > 3ms", "late share at 10ms < 1%", "rate >= 500", "max < 500us"]
        {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
        for percent in ["3.3", "0.9", "0.99", "6.8", "7", "7.2"] {
            let text = format!("late share at 10ms < {percent}%");
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_objective_is_refused_with_examples() {
        for text in [
            "",
            "p99",
            "p99 < ",
            "p98 < 3ms",
            "p99 < -3ms",
            "late share < 1%",
            "late share at 18446744073709551615s < 1%",
            "rate >= NaN",
            "mean < 3",
        ] {
            assert!(text.parse::<Objective>().unwrap_err().contains("late share at 10ms < 1%"), "{text}");
        }
    }

    #[test]
    fn an_objective_is_met_by_values_on_its_side_of_the_bound() {
        let below: Objective = "p99 < 20ms".parse().unwrap();
        assert!(below.is_met_by(19.9) && !below.is_met_by(20.0));
        let least: Objective = "rate >= 500".parse().unwrap();
        assert!(least.is_met_by(500.0) && !least.is_met_by(499.0));
        let share: Objective = "late share at 10ms <= 7%".parse().unwrap();
        assert!(share.is_met_by(7.0) && !share.is_met_by(7.1));
    }
}
