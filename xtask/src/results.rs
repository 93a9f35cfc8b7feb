//! Writes tables of `benches/RESULTS.md` from what benchmarks measured.
//!
//! A section of that file is between two marks. The first one names a report in `benches/results`,
//! which a benchmark wrote (`--json FILE`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::root;

const BEGIN: &str = "<!-- by `cargo xtask results` from results/";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end -->";

/// What a benchmark wrote: `Report` in `benches/src/rig/report.rs`.
#[derive(Deserialize)]
struct Report {
    machine: Machine,
    peers: Vec<String>,
    settings: BTreeMap<String, Value>,
    benchmarks: Vec<Benchmark>,
    left_out: Vec<String>,
}

#[derive(Deserialize)]
struct Machine {
    processor: Option<String>,
    processors: usize,
    memory: Option<String>,
    kernel: Option<String>,
    load_before: Option<String>,
    rustc: Option<String>,
    commit: Option<String>,
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

/// Writes all sections again.
pub(crate) fn write() -> Result<()> {
    let file = root().join("benches/RESULTS.md");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    std::fs::write(&file, rewritten(&text, &sections()?)?).with_context(|| format!("writing {}", file.display()))
}

/// The section of each report, by the name of its file.
fn sections() -> Result<BTreeMap<String, String>> {
    let mut sections = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("benches/results"))? {
        let path = entry?.path();
        let section = section(&path).with_context(|| format!("reading {}", path.display()))?;
        sections.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), section);
    }
    Ok(sections)
}

fn section(file: &Path) -> Result<String> {
    let report: Report = serde_json::from_slice(&std::fs::read(file)?)?;
    ensure!(report.machine.optimized, "the figures of a debug build mean nothing: measure a release build");
    report.markdown()
}

/// The text with all sections replaced. Each section needs its place in the text.
fn rewritten(text: &str, sections: &BTreeMap<String, String>) -> Result<String> {
    let (mut out, mut unused) = (String::new(), sections.keys().collect::<BTreeSet<_>>());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}")?;
        let Some(name) = line.strip_prefix(BEGIN).and_then(|line| line.strip_suffix(BEGIN_END)) else { continue };
        let section = sections.get(name).with_context(|| format!("there is no file benches/results/{name}"))?;
        unused.remove(&name.to_owned());
        let end = lines.find(|line| *line == END).with_context(|| format!("no {END:?} follows {line:?}"))?;
        write!(out, "\n{section}\n{end}\n")?;
    }
    if let Some(name) = unused.first() {
        bail!("benches/RESULTS.md has no place for {name}: add the lines\n{BEGIN}{name}{BEGIN_END}\n{END}");
    }
    Ok(out)
}

impl Report {
    fn markdown(&self) -> Result<String> {
        let Self { machine, .. } = self;
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let mut out = String::new();
        writeln!(
            out,
            "- machine: {} x {}, memory {}, Linux {}",
            machine.processors,
            known(&machine.processor),
            known(&machine.memory),
            known(&machine.kernel),
        )?;
        writeln!(out, "- load before: {}", known(&machine.load_before))?;
        writeln!(out, "- commit: {}", known(&machine.commit))?;
        writeln!(out, "- compiler: {}", known(&machine.rustc))?;
        let settings = self.settings.iter().filter(|(_, value)| !value.is_null());
        for (name, value) in settings {
            writeln!(out, "- {name}: {value}")?;
        }
        self.peers.iter().try_for_each(|peer| writeln!(out, "- installed beside it: {peer}"))?;
        self.left_out.iter().try_for_each(|why| writeln!(out, "- left out: {why}"))?;

        let held: Vec<String> = self.rows(true).collect();
        let measured: Vec<String> = self.rows(false).collect();
        if !held.is_empty() {
            writeln!(out, "\n| what | unit | target | median | min | max | met |")?;
            writeln!(out, "|---|---|---|---|---|---|---|")?;
            held.iter().try_for_each(|row| writeln!(out, "{row}"))?;
        }
        if !measured.is_empty() {
            // Where nothing has a target, nothing has to be hidden.
            let is_folded = !held.is_empty();
            if is_folded {
                writeln!(out, "\n<details>\n<summary>Also measured, without targets</summary>")?;
            }
            writeln!(out, "\n| what | unit | median | min | max |")?;
            writeln!(out, "|---|---|---|---|---|")?;
            measured.iter().try_for_each(|row| writeln!(out, "{row}"))?;
            if is_folded {
                writeln!(out, "\n</details>")?;
            }
        }
        Ok(out)
    }

    /// The rows of figures with or without a target.
    fn rows(&self, with_target: bool) -> impl Iterator<Item = String> {
        let figures = self.benchmarks.iter().flat_map(|bench| bench.figures.iter().map(|figure| (&bench.name, figure)));
        figures
            .filter(move |(_, figure)| figure.target.is_some() == with_target)
            .filter_map(|(name, figure)| figure.row(name))
    }
}

impl Figure {
    /// A row of a table; `None` if nothing was measured.
    fn row(&self, benchmark: &str) -> Option<String> {
        let min = self.samples.iter().copied().min_by(f64::total_cmp)?;
        let max = self.samples.iter().copied().max_by(f64::total_cmp)?;
        let spread = [self.median?, min, max].map(digits).join(" | ");
        let Self { what, unit, .. } = self;
        let target = match &self.target {
            None => return Some(format!("| {benchmark}: {what} | {unit} | {spread} |")),
            Some(Goal::AtLeast(bound)) => format!("≥ {bound}"),
            Some(Goal::AtMost(bound)) => format!("≤ {bound}"),
        };
        let met = if self.met? { "yes" } else { "**no**" };
        Some(format!("| {benchmark}: {what} | {unit} | {target} | {spread} | {met} |"))
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
        "machine": {"processor": "CPU", "processors": 2, "memory": "9 kB", "kernel": "6", "load_before": "0 0 0",
            "version": "1", "rustc": "rustc 1", "commit": "abc", "optimized": true},
        "peers": ["nginx 1"], "settings": {"volumes": 5, "pages": null}, "left_out": [],
        "benchmarks": [{"name": "page", "figures": [
            {"what": "rate", "unit": "1/s", "target": {"at-least": 3000.0}, "met": false, "median": 2000.4,
                "samples": [2000.4, 1.5, 2500.0]},
            {"what": "p99", "unit": "ms", "target": {"at-most": 5}, "met": true, "median": 0.25, "samples": [0.25]},
            {"what": "CPU", "unit": "s", "target": null, "met": null, "median": 12.34, "samples": [12.34]},
            {"what": "nothing", "unit": "s", "target": null, "met": null, "median": null, "samples": []}
        ]}]}"#;

    #[test]
    fn the_section_of_a_report_has_machine_commit_targets_medians_spread_and_what_was_met() {
        let report: Report = serde_json::from_str(REPORT).unwrap();
        let expected = "\
- machine: 2 x CPU, memory 9 kB, Linux 6
- load before: 0 0 0
- commit: abc
- compiler: rustc 1
- volumes: 5
- installed beside it: nginx 1

| what | unit | target | median | min | max | met |
|---|---|---|---|---|---|---|
| page: rate | 1/s | ≥ 3000 | 2000 | 1.50 | 2500 | **no** |
| page: p99 | ms | ≤ 5 | 0.250 | 0.250 | 0.250 | yes |

<details>
<summary>Also measured, without targets</summary>

| what | unit | median | min | max |
|---|---|---|---|---|
| page: CPU | s | 12.3 | 12.3 | 12.3 |

</details>
";
        assert_eq!(report.markdown().unwrap(), expected);
    }

    #[test]
    fn only_what_is_between_the_marks_is_written_again_and_twice_is_as_once() {
        let sections = BTreeMap::from([("a.json".to_owned(), "new\n".to_owned())]);
        let text = format!("before\n{BEGIN}a.json{BEGIN_END}\nold\nolder\n{END}\nafter\n");
        let written = rewritten(&text, &sections).unwrap();
        assert_eq!(written, format!("before\n{BEGIN}a.json{BEGIN_END}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(rewritten(&written, &sections).unwrap(), written);
    }

    #[test]
    fn a_section_needs_a_report_and_an_end_and_a_report_needs_a_section() {
        let sections = BTreeMap::from([("a.json".to_owned(), String::new())]);
        let refusal = |text: &str| rewritten(text, &sections).unwrap_err().to_string();
        assert!(refusal(&format!("{BEGIN}b.json{BEGIN_END}\n{END}\n")).contains("no file benches/results/b.json"));
        assert!(refusal(&format!("{BEGIN}a.json{BEGIN_END}\n")).contains("follows"));
        assert!(refusal("nothing\n").contains("no place for a.json"));
    }

    #[test]
    fn the_results_have_what_the_reports_say() {
        let text = std::fs::read_to_string(root().join("benches/RESULTS.md")).unwrap();
        let written = rewritten(&text, &sections().unwrap()).unwrap();
        let other = text.lines().zip(written.lines()).find(|(present, new)| present != new);
        assert!(text == written, "run `cargo xtask results`: {other:?}");
    }
}
