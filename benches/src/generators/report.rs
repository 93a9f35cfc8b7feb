//! The results, as a table for people and as JSON with every single measurement.

use std::fmt;

use serde::Serialize;

use super::bench::Settings;
use super::tool::Tool;
use crate::machine::Machine;
use crate::report::{Spread, figure};

/// The results of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The settings.
    pub settings: Settings,
    /// A row for each generator.
    pub rows: Vec<Row>,
}

/// A generator, and what was measured of it.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The generator.
    pub tool: Tool,
    /// What it says about its version.
    pub version: Option<String>,
    /// One for each repetition.
    pub samples: Vec<Sample>,
    /// Why it was not run, or not to the end.
    pub not_run: Option<String>,
}

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Requests that were successful, per second.
    pub per_s: f64,
    /// Processor time of the whole program for a request, in microseconds.
    pub cpu_us: f64,
    /// The same of the part that makes the load, if the generator measures itself.
    pub load_cpu_us: Option<f64>,
    /// Requests that failed, or were never sent.
    pub failed: f64,
}

impl Row {
    fn loop_name(&self) -> &'static str {
        if self.tool.is_open() { "open" } else { "closed" }
    }

    /// The median of something, with the least and the greatest.
    fn cell(&self, of: impl Fn(&Sample) -> Option<f64>) -> String {
        match Spread::of(self.samples.iter().filter_map(of)) {
            Some(spread) => {
                let [median, min, max] = [spread.median, spread.min, spread.max].map(figure);
                format!("{median} ({min} to {max})")
            }
            None => "–".to_owned(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tool, kind) = (self.tool, self.loop_name());
        if let Some(why) = &self.not_run {
            return write!(out, "| {tool} | {kind} | not run: {why} | | | |");
        }
        let cells = [
            self.cell(|sample| Some(sample.per_s)),
            self.cell(|sample| Some(sample.cpu_us)),
            self.cell(|sample| sample.load_cpu_us),
            self.cell(|sample| Some(sample.failed)),
        ];
        write!(out, "| {tool} | {kind} | {} |", cells.join(" | "))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}\n{}", self.machine, self.settings)?;
        for row in &self.rows {
            row.version
                .iter()
                .try_for_each(|version| writeln!(out, "{} ({}): {version}", row.tool, row.loop_name()))?;
        }
        writeln!(out, "\n| generator | loop | requests/s | CPU, µs per request | of it under load | failed |")?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(out, "{row}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_medians_or_why_there_are_none() {
        let sample = |per_s, load_cpu_us| Sample { per_s, cpu_us: 30.0, load_cpu_us, failed: 0.0 };
        let row = |tool, load_cpu_us, not_run| Row {
            tool,
            version: None,
            samples: [100.0, 300.0, 200.0].map(|per_s| sample(per_s, load_cpu_us)).to_vec(),
            not_run,
        };
        let numbers = |values: [f64; 3]| {
            let [median, min, max] = values.map(figure);
            format!("{median} ({min} to {max})")
        };
        let (rate, cpu, none) = (numbers([200.0, 100.0, 300.0]), numbers([30.0; 3]), numbers([0.0; 3]));
        let shown = row(Tool::Wrk, None, None).to_string();
        assert_eq!(shown, format!("| wrk | closed | {rate} | {cpu} | – | {none} |"));
        let shown = row(Tool::PenatesOpen, Some(30.0), None).to_string();
        assert_eq!(shown, format!("| Penates | open | {rate} | {cpu} | {cpu} | {none} |"));
        let missing = row(Tool::Hey, None, Some("hey is not installed (Debian: hey)".to_owned())).to_string();
        assert_eq!(missing, "| hey | closed | not run: hey is not installed (Debian: hey) | | | |");
    }
}
