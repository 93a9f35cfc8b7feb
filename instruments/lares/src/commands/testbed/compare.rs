//! `lares testbed compare`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use testbed::candidate::Candidate;
use testbed::inputs::Inputs;
use testbed::results::{StepTally, Summary, Tally, Verdict};

use super::measure::{RunsArgs, Subject, candidate, setting, with_settings};
use super::run::word;
use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares testbed compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed compare ingest penates fedora
  lares testbed compare records-90-10 penates-records redis --repeat 5
  lares testbed compare ingest penates penates+feed.keep=0s")]
pub struct CompareArgs {
    /// The plan: a file (TOML), or the name of a plan that comes with the program.
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// What to start and measure: a folder with candidate.toml, or a candidate that comes with the program,
    /// each perhaps with settings (`penates+feed.keep=0s`). The others are compared with the first.
    #[arg(value_name = "CANDIDATE", required = true)]
    candidates: Vec<String>,
    /// How often each is measured.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Where candidates keep their data: each in a folder of this one, named by its place in the list. They
    /// stay, so that one comparison can read what another has written.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The number of workers instead of the plan's.
    #[arg(long, value_name = "N", conflicts_with = "worker")]
    workers: Option<u32>,
    /// The load of the plan times this: of a closed loop, its users.
    #[arg(long, value_name = "FACTOR")]
    times: Option<f64>,
    /// How runs are made and kept.
    #[command(flatten)]
    runs: RunsArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// The figures of a run, or of one of its steps, in the order of [`FIGURES`]; `None` where there is none.
type Figures = [Option<f64>; 8];

const FIGURES: [&str; 8] =
    ["requests/s", "MB/s", "first byte ms", "p50 ms", "p99 ms", "CPU ms/request", "CPU ms/GB", "memory MB"];

/// What was measured of a candidate.
#[derive(Debug)]
struct Measured {
    candidate: String,
    verdicts: Vec<Verdict>,
    /// The whole run, and its steps if there are several.
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    step: String,
    /// Of each run.
    figures: Vec<Figures>,
}

impl Measured {
    /// Adds a run.
    fn add(&mut self, verdict: Verdict, summary: &Summary) {
        self.verdicts.push(verdict);
        let times = |of: &Tally| [of.first_byte.p50_ms, of.response.p50_ms, of.response.p99_ms].map(Some);
        let [first, p50, p99] = times(&summary.all);
        let memory = summary.costs.map(|costs| costs.memory_peak_bytes / 1e6);
        let received = Some(summary.received_bytes_per_s() / 1e6);
        let (of_request, of_gigabyte) = summary.cpu_ms().unzip();
        let rate = Some(summary.done_per_s);
        let all = ("all".to_owned(), [rate, received, first, p50, p99, of_request, of_gigabyte, memory]);
        let of_step = |step: &StepTally| {
            let [first, p50, p99] = times(&step.tally);
            (format!("{}/{}", step.scenario, step.step), [None, None, first, p50, p99, None, None, None])
        };
        let steps = summary.steps.iter().map(of_step).filter(|_| summary.steps.len() > 1);
        for (place, (step, figures)) in std::iter::once(all).chain(steps).enumerate() {
            if self.rows.len() == place {
                self.rows.push(Row { step, figures: Vec::new() });
            }
            self.rows[place].figures.push(figures);
        }
    }
}

impl Measured {
    fn json(&self) -> Value {
        let named = |figures: &Figures| -> Map<String, Value> {
            FIGURES.iter().zip(figures).map(|(name, figure)| ((*name).to_owned(), json!(figure))).collect()
        };
        let row = |row: &Row| json!({ "step": row.step, "figures": row.figures.iter().map(named).collect::<Vec<_>>() });
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        json!({ "candidate": self.candidate, "verdicts": self.verdicts, "rows": rows })
    }
}

/// Makes the runs, and prints the figures.
pub async fn run(args: CompareArgs) -> anyhow::Result<()> {
    let mut inputs = Inputs::read(&args.plan).map_err(|error| CliError::Usage(error.to_string()))?;
    inputs.plan.workers = args.runs.workers()?.or(args.workers).unwrap_or(inputs.plan.workers);
    if let Some(factor) = args.times {
        inputs.plan.load = inputs.plan.load.scaled(factor);
    }
    let candidates = args.candidates.iter().map(|text| named(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let new = |name: &String| Measured { candidate: name.clone(), verdicts: Vec::new(), rows: Vec::new() };
    let mut all: Vec<_> = args.candidates.iter().map(new).collect();
    for _ in 0..args.repeat {
        for (place, (candidate, measured)) in candidates.iter().zip(&mut all).enumerate() {
            let data = args.data.as_ref().map(|data| data.join(place.to_string()));
            let filed = args.runs.measure(&inputs, Subject::started(candidate.clone(), data.as_deref())).await?;
            measured.add(filed.outcome.judgement.verdict, &filed.outcome.summary);
        }
    }
    show(&all, args.output)?;
    let is_void = all.iter().any(|of| of.verdicts.contains(&Verdict::Void));
    if is_void { Err(CliError::Void.into()) } else { Ok(()) }
}

/// A candidate of the command line: its name, and its settings behind `+`.
fn named(text: &str) -> anyhow::Result<Candidate> {
    let mut parts = text.split('+');
    let found = candidate(Path::new(parts.next().unwrap_or_default()))?;
    let settings = parts.map(setting).collect::<Result<Vec<_>, _>>().map_err(CliError::Usage)?;
    with_settings(found, settings)
}

fn show(all: &[Measured], form: OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if form.json {
        output.json(&all.iter().map(Measured::json).collect::<Vec<_>>())?;
        return output.finish();
    }
    let mut rows = Vec::new();
    for Measured { candidate, verdicts, rows: measured } in all {
        for (place, row) in measured.iter().enumerate() {
            let verdicts: Vec<_> = verdicts.iter().filter(|_| place == 0).map(|verdict| word(*verdict)).collect();
            let of = |figure: usize| spread(row.figures.iter().filter_map(|figures| figures[figure]));
            let figures = (0..FIGURES.len()).map(of);
            let names = [candidate.clone(), row.step.clone()];
            rows.push(names.into_iter().chain(figures).chain([verdicts.join(", ")]).collect());
        }
    }
    output.table(&[&["candidate", "step"], &FIGURES[..], &["verdicts"]].concat(), &rows)?;
    let Some((first, others)) = all.split_first() else { return output.finish() };
    for other in others {
        let pairs = || first.rows[0].figures.iter().zip(&other.rows[0].figures);
        let ratio = |figure: usize| {
            spread(
                pairs()
                    .filter_map(|(one, other)| Some(one[figure]? / other[figure]?))
                    .filter(|ratio| ratio.is_finite()),
            )
        };
        let ratios: Vec<_> =
            (0..FIGURES.len()).map(|figure| format!("{} {}", FIGURES[figure], ratio(figure))).collect();
        output.line(format!("\n{} over {}: {}", first.candidate, other.candidate, ratios.join("; ")))?;
    }
    output.finish()
}

/// The median, and the least and the greatest value if they differ.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut sorted: Vec<_> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let [first, .., last] = &sorted[..] else {
        return sorted.first().map_or_else(|| "–".to_owned(), |only| digits(*only));
    };
    let median = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
    format!("{} ({} to {})", digits(median), digits(*first), digits(*last))
}

/// Three digits, or all before the point.
fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use testbed::results::{Costs, Times};

    use super::*;

    #[test]
    fn a_spread_has_the_median_and_both_ends() {
        let spread = |values: &[f64]| spread(values.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 250.0, f64::NAN]), "3.00 (1.00 to 250)");
        assert_eq!(spread(&[0.5, 1.0]), "0.750 (0.500 to 1.00)");
        assert_eq!((spread(&[12.0]), spread(&[])), ("12.0".to_owned(), "–".to_owned()));
    }

    #[test]
    fn a_run_has_a_row_and_each_of_several_steps_has_one() {
        let tally = |p99_ms: f64| {
            let response = Times { p99_ms, ..Times::default() };
            Tally { done: 10, received_bytes: 10_000_000_000, response, ..Tally::default() }
        };
        let step = |name: &str, p99_ms| {
            let name = name.to_owned();
            StepTally { scenario: name.clone(), step: name, tally: tally(p99_ms) }
        };
        let summary = Summary {
            duration_s: 5.0,
            done_per_s: 2.0,
            all: tally(9.0),
            steps: vec![step("a", 1.0), step("b", 2.0)],
            costs: Some(Costs { cpu_s: 1.0, memory_peak_bytes: 3e6 }),
            ..Summary::default()
        };
        let mut measured = Measured { candidate: String::new(), verdicts: Vec::new(), rows: Vec::new() };
        measured.add(Verdict::Held, &summary);
        measured.add(Verdict::Held, &summary);
        let all = [2.0, 2_000.0, 0.0, 0.0, 9.0, 100.0, 100.0, 3.0].map(Some);
        assert_eq!(measured.rows[0].figures, [all, all]);
        let names: Vec<_> = measured.rows.iter().map(|row| (row.step.as_str(), row.figures[0][4])).collect();
        assert_eq!(names, [("all", Some(9.0)), ("a/a", Some(1.0)), ("b/b", Some(2.0))]);
    }

    #[test]
    fn a_candidate_has_settings_if_it_takes_any() {
        assert!(named("penates+feed.keep=0s+search.index=false").is_ok());
        for (wrong, why) in [("nobody", "one of"), ("penates+feed", "NAME=VALUE"), ("null+a=b", "takes no settings")] {
            let error = named(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
