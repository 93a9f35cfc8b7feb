//! Writes the figures of `instruments/benches/RESULTS.md` from what benchmarks measured.
//!
//! The last cell of a row links a report in `instruments/benches/results`, which a benchmark wrote
//! (`--json FILE`), as `[peak](results/records-peak.json)`. The first cell names a figure of that
//! benchmark, with or without `Penates: ` before it. The fourth one may name a peer: the figure of
//! the same name behind the peer's. Rows whose last cell links no report are written by hand.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::root;

/// What a benchmark wrote: `Report` in `instruments/benches/src/rig/report.rs`.
#[derive(Deserialize)]
struct Report {
    machine: Machine,
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Machine {
    processor: Option<String>,
    processors: usize,
    optimized: bool,
}

#[derive(Deserialize)]
struct Benchmark {
    name: String,
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    what: String,
    unit: String,
    target: Option<Goal>,
    met: Option<bool>,
    median: Option<f64>,
    samples: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// Writes all rows that link a report again.
pub(crate) fn write() -> Result<()> {
    let file = root().join("instruments/benches/RESULTS.md");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    std::fs::write(&file, rewritten(&text, &reports()?)?).with_context(|| format!("writing {}", file.display()))
}

/// The reports by the names of their files.
fn reports() -> Result<BTreeMap<String, Report>> {
    let mut reports = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("instruments/benches/results"))? {
        let path = entry?.path();
        let report = report(&path).with_context(|| format!("reading {}", path.display()))?;
        reports.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), report);
    }
    Ok(reports)
}

fn report(file: &Path) -> Result<Report> {
    let report: Report = serde_json::from_slice(&std::fs::read(file)?)?;
    ensure!(report.machine.optimized, "the figures of a debug build mean nothing: measure a release build");
    Ok(report)
}

/// The text with all rows that link a report written again. Each report needs a row.
fn rewritten(text: &str, reports: &BTreeMap<String, Report>) -> Result<String> {
    let (mut out, mut unused) = (String::new(), reports.keys().collect::<Vec<_>>());
    for line in text.lines() {
        let Some(row) = Row::of(line) else {
            writeln!(out, "{line}")?;
            continue;
        };
        let report = reports.get(row.report).with_context(|| format!("no file results/{}: {line}", row.report))?;
        unused.retain(|name| *name != row.report);
        writeln!(out, "{}", row.written(report).with_context(|| line.to_owned())?)?;
    }
    if let Some(name) = unused.first() {
        bail!("instruments/benches/RESULTS.md has no row of {name}: add one, or delete the report");
    }
    Ok(out)
}

/// A row that links a report.
struct Row<'a> {
    figure: &'a str,
    peer: &'a str,
    from: &'a str,
    benchmark: &'a str,
    report: &'a str,
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [figure, _, _, peer, _, from] = cells[..] else { return None };
        let (benchmark, link) = from.strip_prefix('[')?.split_once("](results/")?;
        let (report, _) = link.split_once(')')?;
        let peer = peer.split_once(": ").map_or(peer, |(name, _)| name);
        Some(Self { figure, peer, from, benchmark, report })
    }

    fn written(&self, report: &Report) -> Result<String> {
        let Self { figure, peer, from, benchmark, .. } = self;
        let figures = report.benchmarks.iter().find(|bench| bench.name == *benchmark).map(|bench| &bench.figures);
        let named = |what: &str| figures.and_then(|figures| figures.iter().find(|figure| figure.what == what));
        let ours = format!("Penates: {figure}");
        let measured = named(figure).or_else(|| named(&ours)).context("the report has no such figure")?;
        let reached = measured.reached()?;
        let machine = report.machine.to_string();
        if peer.is_empty() {
            let target = measured.target("");
            return Ok(format!("| {figure} | {target} | {reached} |  | {machine} | {from} |"));
        }
        let of_peer = named(&format!("{peer}: {figure}")).context("the report has no such figure of the peer")?;
        let (median, of_peer) = (measured.median()?, of_peer.median()?);
        let share = named(&format!("{}: over {peer}", measured.what));
        let (target, share) = match share {
            Some(share) => (share.target(" ×"), share.bold(digits(share.median()?))),
            None => (measured.target(""), digits(median / of_peer)),
        };
        let of_peer = digits(of_peer);
        Ok(format!("| {figure} | {target} | {reached} | {peer}: {of_peer} × {share} | {machine} | {from} |"))
    }
}

impl Figure {
    fn median(&self) -> Result<f64> {
        self.median.with_context(|| format!("{} was not measured", self.what))
    }

    fn target(&self, of: &str) -> String {
        match &self.target {
            None => String::new(),
            Some(Goal::AtLeast(bound)) => format!("≥ {bound}{of}"),
            Some(Goal::AtMost(bound)) => format!("≤ {bound}{of}"),
        }
    }

    /// The median, and the least and the greatest value if they differ.
    fn reached(&self) -> Result<String> {
        let median = format!("{} {}", digits(self.median()?), self.unit);
        let [min, max] = [f64::min, f64::max].map(|of| self.samples.iter().copied().reduce(of).map(digits));
        let spread = match (min, max) {
            (Some(min), Some(max)) if min != max => format!(" ({min} to {max})"),
            _ => String::new(),
        };
        Ok(self.bold(median.trim_end().to_owned()) + &spread)
    }

    /// Emphasizes what misses its target.
    fn bold(&self, text: String) -> String {
        if self.met == Some(false) { format!("**{text}**") } else { text }
    }
}

impl std::fmt::Display for Machine {
    /// How many processors, and their kind in one word.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.processor.as_deref().unwrap_or("unknown");
        let kind = name.split_whitespace().find(|word| !["AMD", "Intel(R)"].contains(word)).unwrap_or(name);
        write!(out, "{} {}", self.processors, kind.trim_end_matches("(R)"))
    }
}

/// A figure with three digits, or all digits before the point.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const REPORT: &str = r#"{
        "machine": {"processor": "Intel(R) Xeon(R) Processor @ 2.50GHz", "processors": 2, "optimized": true},
        "benchmarks": [{"name": "peak", "figures": [
            {"what": "Penates: HSET", "unit": "1/s", "target": null, "met": null, "median": 2000.4,
                "samples": [2000.4, 1.5, 2500.0]},
            {"what": "Redis: HSET", "unit": "1/s", "target": null, "met": null, "median": 4000, "samples": [4000]},
            {"what": "Penates: HSET: over Redis", "unit": "times", "target": {"at-least": 1.0}, "met": false,
                "median": 0.49, "samples": [0.49]},
            {"what": "Penates: p99", "unit": "ms", "target": {"at-most": 5}, "met": false, "median": 8,
                "samples": [8]},
            {"what": "Redis: p99", "unit": "ms", "target": null, "met": null, "median": 2, "samples": [2]},
            {"what": "refused", "unit": "", "target": {"at-most": 0}, "met": true, "median": 0, "samples": [0]}
        ]}]}"#;

    fn reports() -> BTreeMap<String, Report> {
        BTreeMap::from([("a.json".to_owned(), serde_json::from_str(REPORT).unwrap())])
    }

    #[test]
    fn a_row_that_links_a_report_has_its_figures_and_all_other_lines_stay() {
        let text = "\
| figure | target | reached | peer | machine | from |
|---|---|---|---|---|---|
| HSET | | | Redis | | [peak](results/a.json) once |
| p99 | | 7 | Redis: 3 × 9 | 1 Z80 | [peak](results/a.json) |
| refused | | | | | [peak](results/a.json) |
| p99 | | 7 | | 16 Xeon | by hand |
";
        let expected = "\
| figure | target | reached | peer | machine | from |
|---|---|---|---|---|---|
| HSET | ≥ 1 × | 2000 1/s (1.50 to 2500) | Redis: 4000 × **0.490** | 2 Xeon | [peak](results/a.json) once |
| p99 | ≤ 5 | **8.00 ms** | Redis: 2.00 × 4.00 | 2 Xeon | [peak](results/a.json) |
| refused | ≤ 0 | 0 |  | 2 Xeon | [peak](results/a.json) |
| p99 | | 7 | | 16 Xeon | by hand |
";
        assert_eq!(rewritten(text, &reports()).unwrap(), expected);
        assert_eq!(rewritten(expected, &reports()).unwrap(), expected);
    }

    #[test]
    fn a_row_needs_its_report_and_its_figures_and_a_report_needs_a_row() {
        let refusal = |text: &str| format!("{:#}", rewritten(text, &reports()).unwrap_err());
        assert!(refusal("| HSET | | | | | [peak](results/b.json) |").contains("no file results/b.json"));
        assert!(refusal("| HGET | | | | | [peak](results/a.json) |").contains("no such figure"));
        assert!(refusal("| HSET | | | | | [fill](results/a.json) |").contains("no such figure"));
        assert!(refusal("| HSET | | | KeyDB | | [peak](results/a.json) |").contains("no such figure of the peer"));
        assert!(refusal("nothing").contains("no row of a.json"));
    }

    #[test]
    fn the_results_have_what_the_reports_say() {
        let text = std::fs::read_to_string(root().join("instruments/benches/RESULTS.md")).unwrap();
        let written = rewritten(&text, &super::reports().unwrap()).unwrap();
        let other = text.lines().zip(written.lines()).find(|(present, new)| present != new);
        assert!(text == written, "run `cargo xtask results`: {other:?}");
    }
}
