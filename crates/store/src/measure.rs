//! What an engine measures of itself, for monitors.
//!
//! A server publishes these numbers without knowing what they mean: an engine names and explains
//! its own.

/// One number, or one distribution, with the text that explains its family.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The name of the family, by the conventions of Prometheus: base units, `_total` for counters.
    pub family: &'static str,
    /// What the family means, in a sentence without a full stop.
    pub help: &'static str,
    /// Labels with their values; each family has always the same labels, with few values.
    pub labels: Vec<(&'static str, String)>,
    /// Its present value.
    pub value: Measured,
}

/// The value of a [`Measure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// It grows from 0 while the store is open.
    Counter(u64),
    /// It rises and falls.
    Gauge(f64),
    /// A distribution, which the engine records by the crate `metrics` under the same name and
    /// labels. Seconds.
    Recorded,
}

impl Measure {
    /// A family's only number.
    pub fn new(family: &'static str, help: &'static str, value: Measured) -> Self {
        Self { family, help, labels: Vec::new(), value }
    }

    /// The same with one more label.
    #[must_use]
    pub fn of(mut self, label: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((label, value.into()));
        self
    }
}
