//! What `lares testbed run` and `find` share: the plan, the candidate, the workers, one run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::Args;
use indicatif::{MultiProgress, ProgressBar};
use rand::Rng;
use rand::distr::Alphanumeric;
use testbed::candidate::{Candidate, Given};
use testbed::coordinator::WorkerPlace;
use testbed::inputs::Inputs;
use testbed::record::Program;
use testbed::runner::{Filed, Measured, Runner};
use testbed::wire::Progress;
use tokio::process::Command;

use super::ArchiveArgs;
use super::worker::TOKEN_VARIABLE;
use crate::progress;
use terminal::build::{COMMIT, REPOSITORY, TAG};
use terminal::exit::CliError;
use terminal::interrupt;

/// What is measured, by which load, from where.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// The plan: a file (TOML), or the name of a plan that comes with the program (see `lares testbed
    /// plans`).
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// What to start and measure: a folder with candidate.toml, or a candidate that comes with the
    /// program, such as `penates`, `penates-records`, `redis`, `nginx` or `null`.
    #[arg(long, value_name = "NAME|DIR", conflicts_with = "url")]
    candidate: Option<String>,
    /// A setting of that candidate, if its file says how it takes settings; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, requires = "candidate")]
    setting: Vec<(String, String)>,
    /// The server to measure, which runs already. Comes before the plan's `url`.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The process of that server, if it is on this machine: it is watched and recorded.
    #[arg(long, value_name = "PID", requires = "url")]
    pid: Option<u32>,
    /// The folder of that server's control group (version 2), such as that of a container: it is watched.
    #[arg(long, value_name = "DIR", requires = "url")]
    cgroup: Option<PathBuf>,
    /// Where the candidate keeps its data, instead of a temporary folder. It stays, so that one run can
    /// read what another has written. With --pid, the folder where that server keeps its data: its disk is
    /// watched.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The version that the candidate must have: a regular expression for a part of it, or its exact text.
    /// Otherwise there is no run.
    #[arg(long, value_name = "TEXT")]
    expect_version: Option<String>,
    /// The commit from which a server that runs already was built, for the record.
    #[arg(long, value_name = "COMMIT", conflicts_with = "candidate")]
    commit: Option<String>,
    /// A file with the configuration of that server, for the record.
    #[arg(long, value_name = "FILE", conflicts_with = "candidate")]
    configuration: Option<PathBuf>,
    /// The tag of that server's version, for the record. It is the version, if the server reports none.
    #[arg(long, value_name = "TAG", conflicts_with = "candidate")]
    tag: Option<String>,
    /// Where the source of that server is, for the record.
    #[arg(long, value_name = "URL", conflicts_with = "candidate")]
    repository: Option<String>,
    /// A fact about that server, for the record: its nodes, its copies and its consistency, each `none` if it
    /// has no such thing, and others; may be repeated.
    #[arg(long, value_name = "NAME=TEXT", value_parser = fact, conflicts_with = "candidate")]
    fact: Vec<(String, String)>,
    /// How the candidate was prepared, for the record, instead of what the plan says.
    #[arg(long, value_name = "TEXT")]
    preparation: Option<String>,
    /// The number of workers instead of the plan's.
    #[arg(long, value_name = "N", conflicts_with = "worker")]
    workers: Option<u32>,
    /// The seed instead of the plan's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How runs are made and kept.
    #[command(flatten)]
    runs: RunsArgs,
}

/// How runs are made and kept.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// A worker that runs elsewhere (`lares testbed worker`); may be repeated. Workers are then
    /// these only.
    #[arg(long, value_name = "ADDRESS", requires = "token_file")]
    worker: Vec<String>,
    /// A monitor that runs on another machine of the candidate (`lares testbed monitor`); may be repeated.
    #[arg(long, value_name = "ADDRESS", requires = "token_file")]
    monitor: Vec<String>,
    /// The file with the token of these workers and monitors.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Run even if the record has gaps. The run is marked on every page.
    #[arg(long)]
    untraceable: bool,
    /// Run on a machine that is busy with something else. Such a run is void otherwise.
    #[arg(long)]
    busy: bool,
    /// Who measures [default: the user of this session]
    #[arg(long, value_name = "NAME", env = "PENATES_TESTBED_WHO")]
    who: Option<String>,
    /// Where runs are kept.
    #[command(flatten)]
    archive: ArchiveArgs,
}

/// This program, for the record.
pub fn program() -> anyhow::Result<Program> {
    let file = std::env::current_exe().context("finding the program")?;
    let program = Program::of_file("lares", env!("CARGO_PKG_VERSION"), &file).context("reading the program")?;
    // A script that finds no tag sets an empty one.
    let known = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let (commit, tag, repository) = (known(COMMIT), known(TAG), known(REPOSITORY));
    let is_dirty = commit.as_ref().map(|commit| commit.ends_with("-dirty"));
    Ok(Program { commit, tag, repository, is_dirty, ..program })
}

/// A fact of the command line.
fn fact(text: &str) -> Result<(String, String), String> {
    named(text, "write NAME=TEXT, such as nodes=3")
}

/// A setting of the command line.
pub fn setting(text: &str) -> Result<(String, String), String> {
    named(text, "write NAME=VALUE, such as feed.keep=0s")
}

fn named(text: &str, hint: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(hint.to_owned()),
    }
}

impl MeasureArgs {
    /// The plan, with what the command line says instead, and everything that it names.
    pub fn inputs(&self) -> anyhow::Result<Inputs> {
        self.check_data()?;
        let mut inputs = Inputs::read(&self.plan).map_err(|error| CliError::Usage(error.to_string()))?;
        let plan = &mut inputs.plan;
        plan.workers = self.runs.workers()?.or(self.workers).unwrap_or(plan.workers);
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan.url = self.url.clone().or(plan.url.take());
        if let Some(preparation) = &self.preparation {
            plan.preparation.clone_from(preparation);
        }
        plan.validate().map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(inputs)
    }

    /// Makes one run.
    pub async fn measure(&self, inputs: &Inputs) -> anyhow::Result<Filed> {
        let subject = Subject {
            measured: self.measured(inputs.plan.url.as_deref())?,
            data: self.data.as_deref(),
            cgroup: self.cgroup.as_deref(),
            given: self.given()?,
            expect_version: self.expect_version.as_deref(),
        };
        self.runs.measure(inputs, subject).await
    }

    /// The data of a server on another machine are on no disk of this one.
    fn check_data(&self) -> anyhow::Result<()> {
        let message = match &self.data {
            Some(_) if self.candidate.is_none() && self.pid.is_none() => {
                "--data needs --candidate, or --pid for a server that runs already".to_owned()
            }
            Some(data) if self.candidate.is_none() && !data.is_dir() => {
                format!("--data: there is no folder {}", data.display())
            }
            _ => return Ok(()),
        };
        Err(CliError::Usage(message).into())
    }

    /// What the user says of a server that runs already.
    fn given(&self) -> anyhow::Result<Given> {
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file).with_context(|| format!("reading the configuration {}", file.display()))
        };
        Ok(Given {
            commit: self.commit.clone(),
            configuration: self.configuration.as_ref().map(read).transpose()?,
            tag: self.tag.clone(),
            repository: self.repository.clone(),
            facts: self.fact.clone(),
        })
    }

    fn measured(&self, url: Option<&str>) -> anyhow::Result<Measured> {
        match (&self.candidate, url) {
            (Some(name), _) => {
                let candidate = with_settings(candidate(Path::new(name))?, self.setting.clone())?;
                Ok(Measured::Candidate(Box::new(candidate)))
            }
            (None, Some(url)) => Ok(Measured::Url(url.to_owned(), self.pid)),
            (None, None) => Err(CliError::Usage("name what to measure by --candidate or --url".to_owned()).into()),
        }
    }
}

/// What is measured, and what is known of it.
pub struct Subject<'a> {
    measured: Measured,
    data: Option<&'a Path>,
    cgroup: Option<&'a Path>,
    given: Given,
    expect_version: Option<&'a str>,
}

impl<'a> Subject<'a> {
    /// A candidate that is started. `data` is its folder, if not a temporary one.
    pub fn started(candidate: Candidate, data: Option<&'a Path>) -> Self {
        let measured = Measured::Candidate(Box::new(candidate));
        Self { measured, data, cgroup: None, given: Given::default(), expect_version: None }
    }
}

/// The candidate of a folder, or one that comes with the program.
pub fn candidate(name: &Path) -> anyhow::Result<Candidate> {
    let candidate = match name.join("candidate.toml").exists() {
        // Its programs may run in another folder.
        true => Candidate::read(&name.canonicalize()?),
        false => Candidate::shipped(&name.to_string_lossy()),
    };
    candidate.map_err(|error| CliError::Usage(error.to_string()).into())
}

/// A candidate with settings.
pub fn with_settings(candidate: Candidate, settings: Vec<(String, String)>) -> anyhow::Result<Candidate> {
    candidate.with_settings(settings).map_err(|error| CliError::Usage(error.to_string()).into())
}

impl RunsArgs {
    /// The number of workers, if they are named.
    pub fn workers(&self) -> anyhow::Result<Option<u32>> {
        Ok(Some(u32::try_from(self.worker.len())?).filter(|workers| *workers > 0))
    }

    /// Makes one run.
    pub async fn measure(&self, inputs: &Inputs, subject: Subject<'_>) -> anyhow::Result<Filed> {
        inputs.plan.validate().map_err(|error| CliError::Usage(error.to_string()))?;
        let token = self.token()?;
        let itself = std::env::current_exe().context("finding the program")?;
        let bars = Bars::new(inputs);
        let Subject { measured, data, cgroup, given, expect_version } = subject;
        let runner = Runner {
            inputs,
            measured,
            archive: &self.archive.archive,
            data,
            cgroup,
            given,
            expect_version,
            who: self.who.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default(),
            program: program()?,
            program_path: &itself,
            token: &token,
            monitors: &self.monitor,
            is_untraceable: self.untraceable,
            may_be_busy: self.busy,
            on_progress: &|worker, progress| bars.show(worker, progress),
        };
        let places = self.places(&itself, inputs.plan.workers, &token);
        let filed = tokio::select! {
            filed = runner.run(places) => filed?,
            // Workers and candidate end with the values that hold them.
            () = interrupt::asked_to_end_or_hung_up()? => return Err(CliError::Interrupted.into()),
        };
        bars.end();
        Ok(filed)
    }

    /// The token of the workers: that of the file, or one that only this run knows.
    fn token(&self) -> anyhow::Result<String> {
        let Some(file) = &self.token_file else {
            return Ok(rand::rng().sample_iter(Alphanumeric).take(32).map(char::from).collect());
        };
        let token = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Ok(token.trim().to_owned())
    }

    fn places(&self, itself: &Path, workers: u32, token: &str) -> Vec<WorkerPlace> {
        if !self.worker.is_empty() {
            return self.worker.iter().cloned().map(WorkerPlace::At).collect();
        }
        let here = |_| {
            let mut command = Command::new(itself);
            command.args(["testbed", "worker", "--listen", "127.0.0.1:0", "--once"]).env(TOKEN_VARIABLE, token);
            WorkerPlace::Here(command)
        };
        (0..workers).map(here).collect()
    }
}

/// A line for each worker.
struct Bars {
    /// Each with whether its load has begun.
    bars: Vec<(ProgressBar, AtomicBool)>,
}

impl Bars {
    fn new(inputs: &Inputs) -> Self {
        let all = MultiProgress::new();
        let seconds = inputs.plan.load.duration().as_secs();
        let bar = |worker: u32| (all.add(progress::worker(worker, seconds)), AtomicBool::new(false));
        Self { bars: (0..inputs.plan.workers).map(bar).collect() }
    }

    fn show(&self, worker: u32, progress: Progress) {
        let Some((bar, has_begun)) = self.bars.get(worker as usize) else { return };
        if !progress.is_fill {
            // The bar is older: the candidate has started since, and a fill was made.
            if !has_begun.swap(true, Ordering::Relaxed) {
                bar.reset_elapsed();
            }
            bar.set_position(bar.elapsed().as_secs());
        }
        let phase = if progress.is_fill { "fill: " } else { "" };
        bar.set_message(format!(
            "{phase}{} due  {} done  {} refused  {} failed  {} users",
            progress.due, progress.done, progress.refused, progress.failed, progress.users
        ));
    }

    fn end(&self) {
        self.bars.iter().for_each(|(bar, _)| bar.finish_and_clear());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bar_counts_from_the_beginning_of_the_load_and_not_from_that_of_the_candidate() {
        // The candidate took minutes to start.
        let bar = progress::worker(0, 10).with_elapsed(Duration::from_secs(300));
        let bars = Bars { bars: vec![(bar, AtomicBool::new(false))] };
        let position = |progress: Progress| {
            bars.show(0, progress);
            bars.bars[0].0.position()
        };
        assert_eq!(position(Progress { is_fill: true, ..Progress::default() }), 0);
        assert!(position(Progress::default()) < 300);
    }

    #[test]
    fn a_fact_has_a_name_and_a_text() {
        assert_eq!(fact("consistency=LOCAL_QUORUM, a=b").unwrap().1, "LOCAL_QUORUM, a=b");
        for wrong in ["nodes", "=3", "nodes="] {
            assert_eq!(fact(wrong).unwrap_err(), "write NAME=TEXT, such as nodes=3");
        }
    }
}
