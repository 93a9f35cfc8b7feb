//! A study: the search for the greatest load, for several candidates, plans and numbers of workers in
//! turn. Its results are a table with a row for each, which is kept after each run: a study that was
//! interrupted goes on where it was. What cannot be run has a row too, with the reason.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::find::{Above, Precision, Rates, WhyEnded};
use crate::plan::{PlanError, from_toml, invalid};
use crate::record::Input;
use crate::results::Verdict;

/// The most rows of a study.
const ROWS_MAX: usize = 10_000;

/// A study, as its author writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudySpec {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Candidates: names of those that come with the program, or folders beside the file of the study.
    pub candidates: Vec<String>,
    /// What each of them is put under.
    pub plans: Vec<StudyPlan>,
    /// Numbers of workers; that of each plan unless set.
    #[serde(default)]
    pub workers: Vec<u32>,
    /// A search ends when the load that is not held is at most so many times the one that is: 1.001 or
    /// more.
    #[serde(default = "a_tenth")]
    pub precision: f64,
    /// Each end is confirmed by so many runs: 1 to 100.
    #[serde(default = "three")]
    pub confirmations: usize,
}

/// A plan of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyPlan {
    /// The name of a plan that comes with the program, or a file beside the file of the study.
    pub plan: String,
    /// The plan that writes what this one reads. It runs once for each row, and all runs of the row have
    /// its data and its seed.
    #[serde(default)]
    pub fill: Option<String>,
}

impl StudySpec {
    /// Parses and checks a study.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the key and what to write there.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let spec: Self = from_toml("study", text)?;
        if spec.candidates.is_empty() {
            return Err(invalid("study: candidates", "at least one, for example [\"penates\"]"));
        }
        if spec.plans.is_empty() {
            return Err(invalid("study: plans", "at least one, for example [{ plan = \"ingest\" }]"));
        }
        spec.search_precision().check("study: ")?;
        spec.check_workers()?;
        Ok(spec)
    }

    /// Adds a number of workers, unless the study has it.
    ///
    /// # Errors
    /// [`PlanError::Invalid`]: it is none, or there are too many rows.
    pub fn add_workers(&mut self, workers: u32) -> Result<(), PlanError> {
        if !self.workers.contains(&workers) {
            self.workers.push(workers);
        }
        self.check_workers()
    }

    fn check_workers(&self) -> Result<(), PlanError> {
        if self.workers.iter().any(|workers| !(1..=1_000).contains(workers)) {
            return Err(invalid("study: workers", "numbers of 1 to 1000"));
        }
        match self.candidates.len() * self.plans.len() * self.workers.len().max(1) <= ROWS_MAX {
            true => Ok(()),
            false => Err(invalid("study", format!("at most {ROWS_MAX} rows"))),
        }
    }

    /// How exactly is searched.
    pub fn search_precision(&self) -> Precision {
        Precision { ratio: self.precision, confirmations: self.confirmations }
    }

    /// Its rows in turn: the candidate, the plan and the number of workers.
    pub fn rows(&self) -> Vec<(&str, &StudyPlan, Option<u32>)> {
        let workers: Vec<_> = match self.workers.as_slice() {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        };
        let mut rows = Vec::new();
        for plan in &self.plans {
            for workers in &workers {
                rows.extend(self.candidates.iter().map(|candidate| (candidate.as_str(), plan, *workers)));
            }
        }
        rows
    }
}

/// The results of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The name of the study.
    pub name: String,
    /// A row for each search.
    pub rows: Vec<Row>,
}

/// A search of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The candidate.
    pub candidate: String,
    /// The plan.
    pub plan: String,
    /// The number of workers.
    pub workers: u32,
    /// A digest of everything that the search reads. If something of it changes, the row begins again.
    pub inputs: String,
    /// The version that the candidate reports.
    #[serde(default)]
    pub version: String,
    /// Its runs.
    #[serde(default)]
    pub trials: Vec<RowTrial>,
    /// What it has found; `None` if it is not finished.
    #[serde(default)]
    pub found: Option<Found>,
}

/// A run of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowTrial {
    /// The id of the run.
    pub run: String,
    /// The load, as a factor of the plan's.
    pub factor: f64,
    /// Requests that were due per second.
    pub due_per_s: f64,
    /// What it showed.
    pub verdict: Verdict,
    /// The first reason.
    pub reason: Option<String>,
    /// What was saturated first, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturated: Option<String>,
    /// The response time that 99 % have at most, in milliseconds.
    pub p99_ms: f64,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// The greatest load that is held lies between these.
    Bracket(Rates),
    /// It was not run, for this reason. A later attempt tries again.
    NotRun(String),
    /// It has no answer, for this reason. A later attempt tries again.
    NoAnswer(String),
}

impl From<WhyEnded> for Found {
    fn from(why: WhyEnded) -> Self {
        Self::NoAnswer(why.to_string())
    }
}

/// A digest of the inputs of a search.
pub fn digest(inputs: &[Input], spec: &StudySpec) -> String {
    let mut digest = Sha256::new();
    for input in inputs {
        digest.update(format!("{} {}\n", input.name, input.sha256));
    }
    digest.update(format!("{} {}", spec.precision, spec.confirmations));
    hex::encode(digest.finalize())
}

impl Study {
    /// Reads results; none if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or has something else.
    pub fn read(file: &Path) -> io::Result<Self> {
        match fs::read(file) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes them. Readers see the file before or after it, and nothing in between.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        replace(file, &serde_json::to_vec_pretty(self)?)
    }

    /// The row of a search, as far as it has come; a new one if there is none, or if its inputs have
    /// changed.
    pub fn row(&mut self, candidate: &str, plan: &str, workers: u32, inputs: &str) -> usize {
        let is = |row: &Row| row.candidate == candidate && row.plan == plan && row.workers == workers;
        let new = Row {
            candidate: candidate.to_owned(),
            plan: plan.to_owned(),
            workers,
            inputs: inputs.to_owned(),
            version: String::new(),
            trials: Vec::new(),
            found: None,
        };
        match self.rows.iter().position(is) {
            None => {
                self.rows.push(new);
                self.rows.len() - 1
            }
            Some(index) => {
                let known = &mut self.rows[index];
                if known.inputs != inputs {
                    *known = new;
                } else {
                    match known.found {
                        None | Some(Found::Bracket(_)) => {}
                        // It goes on where it was: what is measured stays measured.
                        Some(Found::NotRun(_)) => known.found = None,
                        // The same trials would lead to no answer again.
                        Some(Found::NoAnswer(_)) => {
                            known.found = None;
                            known.trials.clear();
                        }
                    }
                }
                index
            }
        }
    }

    /// The table in Markdown.
    pub fn to_markdown(&self) -> String {
        let mut table = format!("# {}\n\n", cell(&self.name));
        table.push_str("| plan | workers | candidate | version | held, requests/s | not held | p99 ms held | why not more | runs |\n");
        table.push_str("|---|---:|---|---|---:|---:|---:|---|---:|\n");
        for row in &self.rows {
            let [held, not_held, p99_ms, why] = row.cells();
            let cells = [
                cell(&row.plan),
                row.workers.to_string(),
                cell(&row.candidate),
                cell(&row.version),
                held,
                not_held,
                p99_ms,
                cell(&why),
                row.trials.len().to_string(),
            ];
            table.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        table
    }
}

impl Row {
    /// What is held, what is not, the response times of what is held, and why not more is.
    fn cells(&self) -> [String; 4] {
        let none = || "–".to_owned();
        match &self.found {
            None => ["not finished".to_owned(), none(), none(), String::new()],
            Some(Found::NotRun(reason)) => ["not run".to_owned(), none(), none(), reason.clone()],
            Some(Found::NoAnswer(reason)) => ["no answer".to_owned(), none(), none(), reason.clone()],
            Some(Found::Bracket(rates)) => {
                // Several runs may have held the greatest load: the worst of them.
                let held = |trial: &&RowTrial| trial.verdict == Verdict::Held && trial.factor == rates.held_factor;
                let p99_ms = self.trials.iter().filter(held).map(|trial| trial.p99_ms).fold(0.0, f64::max);
                let not_held = |trial: &&RowTrial| trial.factor == rates.not_held_factor && trial.reason.is_some();
                let why = self.trials.iter().find(not_held).map(RowTrial::why);
                let end = rates.not_held_requests_per_s;
                [
                    format!("{:.1}", rates.held_requests_per_s),
                    match rates.above {
                        Above::NotHeld => format!("{end:.1}"),
                        Above::NotMeasured => format!("{end:.1} is not measured"),
                    },
                    format!("{p99_ms:.2}"),
                    why.unwrap_or_default(),
                ]
            }
        }
    }
}

impl RowTrial {
    /// Why it was not held.
    fn why(&self) -> String {
        let known: Vec<_> = self.reason.iter().chain(&self.saturated).map(String::as_str).collect();
        known.join(" ")
    }
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// Writes a file beside its place, and puts it there.
///
/// # Errors
/// It cannot be written.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}

fn a_tenth() -> f64 {
    1.1
}

fn three() -> usize {
    3
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const STUDY: &str = r#"
        name = "two"
        candidates = ["null", "nginx"]
        plans = [{ plan = "get" }, { plan = "read", fill = "ingest" }]
        workers = [1, 4]
    "#;

    fn trial(factor: f64, verdict: Verdict, p99_ms: f64) -> RowTrial {
        let of_limit = |text: &str| (verdict != Verdict::Held).then(|| text.to_owned());
        let (reason, saturated) = (of_limit("p99 < 1s | is missed."), of_limit("Saturated first: the disk."));
        RowTrial { run: "r".to_owned(), factor, due_per_s: factor * 10.0, verdict, reason, saturated, p99_ms }
    }

    #[test]
    fn each_candidate_has_a_row_for_each_plan_and_number_of_workers() {
        let spec = StudySpec::parse(STUDY).unwrap();
        let rows: Vec<_> = spec.rows().iter().map(|(of, plan, workers)| (*of, plan.plan.as_str(), *workers)).collect();
        assert_eq!(rows.len(), 8);
        assert_eq!(rows[..3], [("null", "get", Some(1)), ("nginx", "get", Some(1)), ("null", "get", Some(4))]);
        let mut more = spec.clone();
        assert!(more.add_workers(4).is_ok() && more.add_workers(2).is_ok());
        assert_eq!(more.workers, [1, 4, 2]);
        assert!(more.add_workers(0).unwrap_err().to_string().starts_with("study: workers: "));
        let error = |from: &str, to: &str| StudySpec::parse(&STUDY.replace(from, to)).unwrap_err().to_string();
        assert!(error("[1, 4]", "[0]").starts_with("study: workers: "));
        assert!(error("[\"null\", \"nginx\"]", "[]").starts_with("study: candidates: "));
        for ratio in ["1", "1.0000000000000002", "nan", "inf", "-2"] {
            let error = error("workers = [1, 4]", &format!("precision = {ratio}"));
            assert_eq!(error, "study: precision: a ratio of 1.001 or more, for example 1.1");
        }
        for count in ["0", "101", "9223372036854775807"] {
            let error = error("workers = [1, 4]", &format!("confirmations = {count}"));
            assert_eq!(error, "study: confirmations: 1 to 100");
        }
        assert!(error("fill =", "full =").contains("full"));
    }

    #[test]
    fn the_study_of_repositories_names_candidates_and_plans_that_there_are() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/repositories.toml");
        let spec = StudySpec::parse(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(spec.workers, [1, 2, 15, 16, 24, 28], "those of DRAS-TIC's study");
        for (candidate, plan, _) in spec.rows() {
            crate::candidate::Candidate::shipped(candidate).unwrap();
            crate::inputs::Inputs::read(&file.with_file_name(&plan.plan)).unwrap().compiled().unwrap();
        }
    }

    #[test]
    fn a_study_goes_on_where_it_was_unless_its_inputs_have_changed() {
        let mut study = Study::default();
        let index = study.row("null", "get", 1, "a");
        study.rows[index].trials.push(trial(1.0, Verdict::Held, 1.0));
        assert_eq!((study.row("null", "get", 1, "a"), study.rows[index].trials.len()), (index, 1));
        // What could not be run once is tried again, and keeps what was measured before.
        study.rows[index].found = Some(Found::NotRun("it did not start in time".to_owned()));
        study.row("null", "get", 1, "a");
        assert_eq!((study.rows[index].trials.len(), &study.rows[index].found), (1, &None));
        // What had no answer begins again.
        study.rows[index].found = Some(Found::NoAnswer("all runs are void".to_owned()));
        study.row("null", "get", 1, "a");
        assert_eq!((study.rows[index].trials.len(), &study.rows[index].found), (0, &None));
        study.rows[index].trials.push(trial(1.0, Verdict::Held, 1.0));
        study.row("null", "get", 1, "b");
        assert_eq!((study.rows[index].trials.len(), study.rows.len()), (0, 1));
        assert_ne!(study.row("null", "get", 2, "a"), index);
    }

    #[test]
    fn the_table_has_brackets_and_the_reasons_of_what_was_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("two.results.json");
        let mut study = Study { name: "two".to_owned(), ..Study::read(&file).unwrap() };
        let one = study.row("penates", "ingest", 4, "a");
        study.rows[one].trials =
            vec![trial(8.0, Verdict::Held, 3.5), trial(8.0, Verdict::Held, 4.25), trial(8.5, Verdict::Failed, 90.0)];
        study.rows[one].version = "1.0".to_owned();
        study.rows[one].found = Some(Found::Bracket(Rates {
            held_factor: 8.0,
            not_held_factor: 8.5,
            held_users_per_s: 40.0,
            not_held_users_per_s: 42.5,
            held_requests_per_s: 80.0,
            not_held_requests_per_s: 85.0,
            above: Above::NotHeld,
        }));
        let two = study.row("trellis", "ingest", 4, "a");
        study.rows[two].found = Some(Found::NotRun("it is\nnot there".to_owned()));
        study.write(&file).unwrap();
        let read = Study::read(&file).unwrap();
        assert_eq!(read, study);
        let table = read.to_markdown();
        let rows: Vec<_> = table.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                "| ingest | 4 | penates | 1.0 | 80.0 | 85.0 | 4.25 | \
                 p99 &lt; 1s \\| is missed. Saturated first: the disk. | 3 |",
                "| ingest | 4 | trellis |  | not run | – | – | it is not there | 0 |",
            ]
        );
    }
}
