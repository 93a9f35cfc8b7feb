//! Figures with all their samples, and their targets.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// Median and extremes of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle figure, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of some figures; `None` if there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let [lower, upper] = [sorted.len().checked_sub(1)? / 2, sorted.len() / 2];
        let median = (sorted[lower] + sorted[upper]) / 2.0;
        Some(Self { median, min: *sorted.first()?, max: *sorted.last()? })
    }
}

/// A bound for the median of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// This much or more.
    AtLeast(f64),
    /// This much or less.
    AtMost(f64),
}

impl Goal {
    /// Whether a value meets the bound.
    pub fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(out, "≥ {bound}"),
            Self::AtMost(bound) => write!(out, "≤ {bound}"),
        }
    }
}

/// One measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// Its target; `None`: it is only reported.
    pub target: Option<Goal>,
    /// Every measurement, in order of time.
    pub samples: Vec<f64>,
}

impl Figure {
    /// Median and extremes.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.samples.iter().copied())
    }

    /// Whether the median meets the target; `None` if there is none.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.target?.is_met_by(self.spread()?.median))
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Figure", 6)?;
        fields.serialize_field("what", &self.what)?;
        fields.serialize_field("unit", self.unit)?;
        fields.serialize_field("target", &self.target)?;
        fields.serialize_field("met", &self.is_met())?;
        fields.serialize_field("median", &self.spread().map(|spread| spread.median))?;
        fields.serialize_field("samples", &self.samples)?;
        fields.end()
    }
}

/// The figures of one benchmark, in the order in which they were first measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Adds a measurement of a figure without a target.
    pub fn report(&mut self, what: impl Into<String>, unit: &'static str, sample: f64) {
        self.add(what.into(), unit, None, sample);
    }

    /// Adds a measurement of a figure with a target.
    pub fn hold(&mut self, what: impl Into<String>, unit: &'static str, target: Goal, sample: f64) {
        self.add(what.into(), unit, Some(target), sample);
    }

    fn add(&mut self, what: String, unit: &'static str, target: Option<Goal>, sample: f64) {
        match self.0.iter_mut().find(|figure| figure.what == what && figure.unit == unit) {
            Some(figure) => figure.samples.push(sample),
            None => self.0.push(Figure { what, unit, target, samples: vec![sample] }),
        }
    }

    /// All figures.
    pub fn iter(&self) -> impl Iterator<Item = &Figure> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn samples_of_a_figure_are_collected_and_the_median_is_compared_with_the_target() {
        let mut figures = Figures::default();
        for sample in [0.9, 1.2, 1.3] {
            figures.hold("ratio", "times", Goal::AtLeast(1.1), sample);
            figures.report("rate", "GB/s", sample);
        }
        let all: Vec<_> = figures.iter().collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].samples, [0.9, 1.2, 1.3]);
        assert_eq!((all[0].is_met(), all[1].is_met()), (Some(true), None));
        assert!(!Goal::AtMost(5.0).is_met_by(5.1));
    }

    #[test]
    fn json_has_every_sample_and_whether_the_target_is_met() {
        let mut figures = Figures::default();
        figures.hold("p99", "ms", Goal::AtMost(5.0), 7.5);
        let json = serde_json::to_value(&figures).unwrap();
        assert_eq!(json[0]["samples"], serde_json::json!([7.5]));
        assert_eq!(json[0]["met"], serde_json::json!(false));
        assert_eq!(json[0]["target"], serde_json::json!({ "at-most": 5.0 }));
    }
}
