//! `lares lab`

mod apply;
mod archive;
mod plan;
mod recommend;
mod report;
mod run;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use lab::plan::Plan;
use lab::preset::{self, Scale};
use lab::study::{Study, StudyError};

use terminal::exit::CliError;

/// Arguments of `lares lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Action {
    /// Print what a plan would measure, in which order and how long. Nothing is started.
    Plan(plan::PlanArgs),
    /// Make all runs of a plan, and report what they show.
    ///
    /// The command starts a Cassandra node of its own, or the server that the plan names, which ends
    /// with it. Each finished run is kept at once: after an interruption `lares lab resume` goes
    /// on.
    Run(run::RunArgs),
    /// Go on with a study that was interrupted.
    Resume(run::ResumeArgs),
    /// Print what a study shows so far, and write its page.
    Report(report::ReportArgs),
    /// Print what a study recommends as a difference to your node's `cassandra.yaml`, or change the
    /// file. Comments, order and all other keys stay.
    Recommend(recommend::RecommendArgs),
    /// Set on a running node what a study recommends, as far as it takes that without a restart.
    Apply(apply::ApplyArgs),
    /// Add the runs of a study to an archive, each as a bag (BagIt).
    Archive(archive::ArchiveArgs),
}

/// Which study.
#[derive(Clone, Debug, Args)]
struct FolderArgs {
    /// The folder of the study.
    #[arg(long, value_name = "DIR", default_value = "lab-study")]
    folder: PathBuf,
}

/// Which plan.
#[derive(Clone, Debug, Args)]
struct WhichArgs {
    /// The plan: a file (TOML), or one of the presets `thesis` and `thesis-closed`.
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Records, durations and memtables of the preset times this; 1 takes sixty hours and more. A run
    /// stays long enough to flush and compact, and has limits of compactions that it can reach
    /// [default: 1]
    #[arg(long, value_name = "FACTOR")]
    scale: Option<f64>,
    /// Operations per second of the preset [default: 1000]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// How often each setting is measured, instead of what the plan says.
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
}

impl WhichArgs {
    /// The plan, checked.
    fn plan(&self) -> anyhow::Result<Plan> {
        let usage = |error: &dyn std::fmt::Display| CliError::Usage(error.to_string());
        let usual = Scale::default();
        let scale = Scale {
            scale: self.scale.unwrap_or(usual.scale),
            rate: self.rate.unwrap_or(usual.rate),
            repeats: self.repeats.unwrap_or(usual.repeats),
        };
        if !(scale.scale.is_finite() && (0.0..=1_000.0).contains(&scale.scale)) {
            return Err(usage(&"--scale is a number from 0 to 1000").into());
        }
        let named = self.plan.to_str().filter(|_| !self.plan.exists()).and_then(|name| preset::find(name, scale));
        let mut plan = match named {
            Some(plan) => plan,
            None if self.scale.is_some() || self.rate.is_some() => {
                return Err(usage(&"--scale and --rate are for presets; change the plan").into());
            }
            None => Plan::read(&self.plan).map_err(|error| usage(&error))?,
        };
        plan.repeats = self.repeats.unwrap_or(plan.repeats);
        plan.check().map_err(|error| usage(&error))?;
        Ok(plan)
    }
}

/// The exit code of an error.
fn with_exit_code(error: StudyError) -> anyhow::Error {
    match error {
        StudyError::Plan(_)
        | StudyError::Exists(_)
        | StudyError::Absent(_)
        | StudyError::NoFacts(_)
        | StudyError::OtherBuild { .. } => CliError::Usage(error.to_string()).into(),
        StudyError::Held(_) => CliError::Unreachable(error.to_string()).into(),
        _ => anyhow::Error::new(error).context("the study"),
    }
}

/// Whether a study is of a simulated node.
fn is_simulated(study: &Study) -> bool {
    study.facts().facts.get("simulated").is_some_and(|fact| fact == "true")
}

/// Refuses to change a real node by a study of a simulated one, unless that is what is wanted.
fn refuse_simulated(study: &Study, is_wanted: bool) -> anyhow::Result<()> {
    if is_simulated(study) && !is_wanted {
        let why = "the study is of a simulated node and says nothing of yours (--simulated changes it nevertheless)";
        return Err(CliError::Usage(why.to_owned()).into());
    }
    Ok(())
}

/// Refuses to change a node of Cassandra by a study of another server.
fn refuse_candidate(study: &Study) -> anyhow::Result<()> {
    match study.plan().candidate {
        Some(_) => {
            let why = "the study is of another server than Cassandra: `lares lab report` says what to change";
            Err(CliError::Usage(why.to_owned()).into())
        }
        None => Ok(()),
    }
}

/// Runs the command.
pub async fn run(args: LabArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Plan(args) => plan::run(&args),
        Action::Run(args) => run::run(args).await,
        Action::Resume(args) => run::resume(args).await,
        Action::Report(args) => report::run(&args),
        Action::Recommend(args) => recommend::run(&args),
        Action::Archive(args) => archive::run(&args),
        Action::Apply(args) => apply::run(args).await.context("applying"),
    }
}
