//! The results, as a table for people and as JSON with every single measurement.

use std::fmt;

use serde::Serialize;
use testbed::results::Verdict;

use super::bench::Settings;
use super::tool::Tool;
use crate::machine::Machine;
use crate::report::{Spread, figure};

/// The testbed's generator should make so many times as many requests per processor second as k6.
const RATIO_MIN: f64 = 3.0;

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
    /// Processor time of the whole program for each successful request, in microseconds.
    pub cpu_us: f64,
    /// The same of the part that makes the load, if the generator measures itself.
    pub load_cpu_us: Option<f64>,
    /// Requests that failed, or were never sent.
    pub failed: f64,
    /// How late the generator was (p99), in milliseconds, if it says so.
    pub lateness_p99_ms: Option<f64>,
    /// Its verdict, if it has one.
    pub verdict: Option<Verdict>,
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

    /// How often it came to each verdict.
    fn verdicts(&self) -> String {
        let count = |verdict| self.samples.iter().filter(|sample| sample.verdict == Some(verdict)).count();
        let all = [Verdict::Held, Verdict::Degrading, Verdict::Failed, Verdict::Void];
        let counted = all.map(|verdict| (count(verdict), format!("{verdict:?}").to_lowercase()));
        let counted = counted.iter().filter(|(count, _)| *count > 0);
        let words: Vec<_> = counted.map(|(count, word)| format!("{count} {word}")).collect();
        if words.is_empty() { "–".to_owned() } else { words.join(", ") }
    }

    /// The median of something over the runs that are not void.
    fn median(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let counting = self.samples.iter().filter(|sample| sample.verdict != Some(Verdict::Void));
        Some(Spread::of(counting.filter_map(of))?.median)
    }
}

impl Report {
    /// How many times as many requests the testbed's open loop makes as that of k6, for each processor second
    /// of the load, and of the whole program.
    fn ratios(&self) -> Option<[f64; 2]> {
        let row = |tool| self.rows.iter().find(|row| row.tool == tool && row.not_run.is_none());
        let (own, k6) = (row(Tool::PenatesOpen)?, row(Tool::K6Open)?.median(|sample| Some(sample.cpu_us))?);
        let of_load = own.median(|sample| sample.load_cpu_us)?;
        Some([k6 / of_load, k6 / own.median(|sample| Some(sample.cpu_us))?])
    }
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tool, kind) = (self.tool, self.loop_name());
        if let Some(why) = &self.not_run {
            return write!(out, "| {tool} | {kind} | not run: {why} | | | | | |");
        }
        let cells = [
            self.cell(|sample| Some(sample.per_s)),
            self.cell(|sample| Some(sample.cpu_us)),
            self.cell(|sample| sample.load_cpu_us),
            self.cell(|sample| Some(sample.failed)),
            self.cell(|sample| sample.lateness_p99_ms),
            self.verdicts(),
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
        write!(out, "\n| generator | loop | requests/s | CPU, µs per success | of it under load | failed |")?;
        writeln!(out, " lateness p99, ms | verdict |\n|---|---|---|---|---|---|---|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(out, "{row}"))?;
        if !self.settings.tools.contains(&Tool::PenatesOpen) {
            return Ok(());
        }
        match self.ratios() {
            Some([of_load, whole]) => writeln!(
                out,
                "\nOpen loops: for each processor second of its load Penates makes {} times as many requests as k6 \
                 (target: {RATIO_MIN} or more: {}), and {} times for each of the whole program.",
                figure(of_load),
                if of_load >= RATIO_MIN { "yes" } else { "**no**" },
                figure(whole)
            ),
            None => writeln!(out, "\nOpen loops: there is no run of k6, or none of Penates that is not void."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample =
        Sample { per_s: 100.0, cpu_us: 30.0, load_cpu_us: None, failed: 0.0, lateness_p99_ms: None, verdict: None };

    #[test]
    fn a_row_has_its_medians_or_why_there_are_none() {
        let row = |tool, load_cpu_us, not_run| Row {
            tool,
            version: None,
            samples: [100.0, 300.0, 200.0].map(|per_s| Sample { per_s, load_cpu_us, ..SAMPLE }).to_vec(),
            not_run,
        };
        let numbers = |values: [f64; 3]| {
            let [median, min, max] = values.map(figure);
            format!("{median} ({min} to {max})")
        };
        let (rate, cpu, none) = (numbers([200.0, 100.0, 300.0]), numbers([30.0; 3]), numbers([0.0; 3]));
        let shown = row(Tool::Wrk, None, None).to_string();
        assert_eq!(shown, format!("| wrk | closed | {rate} | {cpu} | – | {none} | – | – |"));
        let shown = row(Tool::PenatesOpen, Some(30.0), None).to_string();
        assert_eq!(shown, format!("| Penates | open | {rate} | {cpu} | {cpu} | {none} | – | – |"));
        let missing = row(Tool::Hey, None, Some("hey is not installed (Debian: hey)".to_owned())).to_string();
        assert_eq!(missing, "| hey | closed | not run: hey is not installed (Debian: hey) | | | | | |");
    }

    #[test]
    fn a_void_run_says_so_in_its_row() {
        let sample = |cpu_us: f64, verdict| Sample {
            cpu_us,
            load_cpu_us: Some(cpu_us / 2.0),
            lateness_p99_ms: Some(0.25),
            verdict,
            ..SAMPLE
        };
        let row = |tool, samples| Row { tool, version: None, samples, not_run: None };
        let held = sample(30.0, Some(Verdict::Held));
        let own = row(Tool::PenatesOpen, vec![held, held, sample(3_000.0, Some(Verdict::Void))]);
        let late = figure(0.25);
        let shown = own.to_string();
        assert!(shown.ends_with(&format!("| {late} ({late} to {late}) | 2 held, 1 void |")), "{shown}");

        // What is void counts for nothing beside k6.
        let report = |rows: Vec<Row>| Report {
            machine: Machine::find(),
            settings: Settings {
                tools: rows.iter().map(|row| row.tool).collect(),
                connections: 1,
                rate: 1,
                repetitions: 3,
                seconds: 1,
                body_bytes: 1,
                pinned: None,
            },
            rows,
        };
        let k6 = || row(Tool::K6Open, vec![sample(120.0, None)]);
        let both = report(vec![own, k6()]);
        assert_eq!(both.ratios(), Some([8.0, 4.0]));
        let wanted = "8.00 times as many requests as k6 (target: 3 or more: yes), and 4.00 times";
        assert!(both.to_string().contains(wanted), "{both}");
        let void = report(vec![row(Tool::PenatesOpen, vec![sample(30.0, Some(Verdict::Void))]), k6()]);
        assert!(void.ratios().is_none() && void.to_string().contains("not void"), "{void}");
    }
}
