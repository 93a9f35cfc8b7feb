//! The results, as a table for people and as JSON with every single measurement.

use std::fmt;

use serde::Serialize;

use crate::corpus::Sizes;
use crate::machine::Machine;
use crate::run::Settings;
use crate::subject::{Sample, Subject};

/// The results of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The settings.
    pub settings: Settings,
    /// The size of the corpus.
    pub totals: Totals,
    /// The measurements.
    pub measured: Vec<Measured>,
}

/// The size of the corpus.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Totals {
    /// Volumes.
    pub volumes: u64,
    /// Pages of all volumes.
    pub pages: u64,
    /// All volumes.
    pub all: Sizes,
    /// The one volume of the null engine, repeated as often.
    pub all_by_null_engine: Sizes,
    /// The page that is requested repeatedly.
    pub page: Sizes,
}

/// All measurements of one subject, in order of time.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// One per repetition.
    pub samples: Vec<Sample>,
}

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
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            1 => figures[middle],
            _ => (figures.get(middle.checked_sub(1)?)? + figures[middle]) / 2.0,
        };
        Some(Self { median, min: *figures.first()?, max: *figures.last()? })
    }
}

impl Measured {
    /// Microseconds per operation, over the repetitions.
    pub fn operation_us(&self) -> Option<Spread> {
        Spread::of(self.samples.iter().map(|sample| sample.seconds * 1e6 / sample.operations as f64))
    }

    fn median_rate(&self, amount: impl Fn(&Sample) -> u64) -> Option<f64> {
        Some(Spread::of(self.samples.iter().map(|sample| amount(sample) as f64 / sample.seconds))?.median)
    }

    /// One row of the table.
    fn row(&self) -> Option<String> {
        let time = self.operation_us()?;
        let megabytes = |bytes: f64| if bytes > 0.0 { format!("{:.1}", bytes / 1e6) } else { "-".to_owned() };
        Some(format!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            self.subject.name(),
            figure(time.median),
            figure(time.min),
            figure(time.max),
            figure(self.median_rate(|sample| sample.operations)?),
            megabytes(self.median_rate(|sample| sample.sizes.text_bytes)?),
            megabytes(self.median_rate(|sample| sample.sizes.frame_bytes)?),
        ))
    }
}

/// A figure with its significant digits.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0..10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, settings, totals, .. } = self;
        writeln!(out, "{machine}")?;
        writeln!(
            out,
            "{} volumes, {} pages, {:.1} MB of text, {:.1} MB of frames (null engine: {:.1} and {:.1} MB); a page of {} bytes",
            totals.volumes,
            totals.pages,
            totals.all.text_bytes as f64 / 1e6,
            totals.all.frame_bytes as f64 / 1e6,
            totals.all_by_null_engine.text_bytes as f64 / 1e6,
            totals.all_by_null_engine.frame_bytes as f64 / 1e6,
            totals.page.text_bytes,
        )?;
        writeln!(
            out,
            "{} repetitions in turn; a measurement is 1 ZIP, {} pages or {} calls, one after the other\n",
            settings.repetitions, settings.counts.pages, settings.counts.calls,
        )?;
        writeln!(out, "| what | µs each, median | min | max | per second | MB/s of text | MB/s of frames |")?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        self.measured.iter().filter_map(Measured::row).try_for_each(|row| writeln!(out, "{row}"))
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
    fn a_time_is_per_operation_and_a_rate_per_second() {
        let sizes = Sizes { text_bytes: 8_000_000, frame_bytes: 4_000_000 };
        let sample = Sample { seconds: 2.0, operations: 1_000, sizes };
        let measured =
            Measured { subject: Subject::ZipFromMemory(crate::subject::Engine::Embedded), samples: vec![sample] };
        let row = measured.row().unwrap();
        assert!(row.ends_with("| 2000 | 2000 | 2000 | 500 | 4.0 | 2.0 |"), "{row}");
    }
}
