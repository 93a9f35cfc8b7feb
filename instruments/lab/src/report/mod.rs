//! What a study says, for people and for programs.
//!
//! `tables.rs` and `words.rs` are the same on every page; `figures.rs`, `by_value.rs` and
//! `interactions.rs` draw;
//! `page.rs` is one HTML file that loads nothing from a network, with the tables of `kpi.rs` and the
//! answers of `questions.rs` too, which are for terminals and programs as well.

mod by_value;
mod figures;
mod interactions;
mod kpi;
mod page;
mod questions;
mod tables;
mod words;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use thiserror::Error;

use crate::analysis::{Analysis, analyse};
use crate::closed;
use crate::estimate;
use crate::plan::PlanError;
use crate::recommend::{Recommendation, recommend};
use crate::study::{Study, write_whole};

pub use kpi::{Grid, grids};
pub use questions::{Answer, answers};
pub use tables::{Section, sections};
pub(crate) use words::changed;
pub use words::{finding, percent, place};

/// A report cannot be made.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A file cannot be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The plan cannot be shown.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A figure cannot be drawn.
    #[error("a figure cannot be drawn: {0}")]
    Draw(String),
}

/// How figures of a closed loop are to be read, if a report has them.
fn of_closed_loop(report: &Report<'_>) -> Option<&'static str> {
    report.study.plan().is_closed().then_some(closed::WARNING)
}

/// How figures are to be read: those of a closed loop, and those of compactions, where a report shows
/// any.
pub fn warnings(report: &Report<'_>) -> Vec<&'static str> {
    let is_there = report.analysis.tables.iter().any(|table| kpi::is_of_compactions(&table.metric))
        || grids(report).iter().any(kpi::has_compactions);
    of_closed_loop(report).into_iter().chain(is_there.then_some(kpi::WARNING)).collect()
}

/// A study with what it says.
pub struct Report<'a> {
    /// The study.
    pub study: &'a Study,
    /// What its runs say.
    pub analysis: Analysis,
    /// What follows.
    pub recommendations: Vec<Recommendation>,
}

impl<'a> Report<'a> {
    /// What a study says so far.
    pub fn of(study: &'a Study) -> Self {
        let analysis = analyse(study.plan(), study.lines());
        let recommendations = recommend(study.plan(), study.lines(), &analysis);
        Self { study, analysis, recommendations }
    }

    /// Everything as one value, for programs.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "plan": self.study.plan(),
            "facts": self.study.facts().facts,
            "recommendations": self.recommendations,
            "notes": estimate::notes(self.study.plan()),
            "questions": answers(self),
            "kpi": grids(self),
            "analysis": self.analysis,
        })
    }

    /// Writes `report.html`, `report.json`, `runs.csv` and `figures/` into a folder. Returns the
    /// path of the page.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        let figures = figures::draw(self)?;
        let at = |name: &str| folder.join(name);
        let of_figures = at("figures");
        fs::create_dir_all(&of_figures).map_err(|error| ReportError::Io { path: of_figures.clone(), error })?;
        for figure in &figures {
            put(&of_figures.join(format!("{}.svg", figure.name)), figure.svg.as_bytes())?;
        }
        let json = serde_json::to_vec_pretty(&self.json()).unwrap_or_default();
        put(&at("report.json"), &json)?;
        let path = at("runs.csv");
        let runs = self.runs().map_err(|error| ReportError::Io { path: path.clone(), error: error.into() })?;
        put(&path, &runs)?;
        let page = at("report.html");
        put(&page, page::page(self, &figures)?.into_string().as_bytes())?;
        Ok(page)
    }

    /// A line of CSV for each run, void ones too, with all that was measured.
    fn runs(&self) -> Result<Vec<u8>, csv::Error> {
        let lines = self.study.lines();
        let factors: Vec<_> = self.study.plan().factors.iter().map(|factor| factor.name.as_str()).collect();
        let mut metrics: Vec<_> = lines.iter().flat_map(|line| line.metrics.keys()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        let mut table = csv::Writer::from_writer(Vec::new());
        let head = ["number", "attempt", "stage", "block", "workload", "is_control", "at", "took_s", "void"];
        let names = factors.iter().copied().chain(metrics.iter().map(|name| name.as_str()));
        table.write_record(head.into_iter().chain(names))?;
        for line in lines {
            let run = &line.planned;
            let head = [
                run.number.to_string(),
                line.attempt.to_string(),
                run.stage.to_string(),
                run.block.to_string(),
                run.workload.clone(),
                run.is_control.to_string(),
                line.at.to_string(),
                format!("{:.3}", line.took_s),
                line.void.join("; "),
            ];
            let settings = factors.iter().map(|name| run.setting.get(name).unwrap_or_default().to_owned());
            let values = metrics.iter().map(|name| line.metrics.get(*name).map(f64::to_string).unwrap_or_default());
            table.write_record(head.into_iter().chain(settings).chain(values))?;
        }
        table.into_inner().map_err(|error| error.into_error().into())
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    write_whole(path, bytes).map_err(|error| ReportError::Io { path: path.to_owned(), error })
}
