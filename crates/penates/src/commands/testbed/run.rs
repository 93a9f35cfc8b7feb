//! `penates testbed run`

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use indicatif::{MultiProgress, ProgressBar};
use rand::Rng;
use rand::distr::Alphanumeric;
use testbed::candidate::CandidateSpec;
use testbed::coordinator::WorkerPlace;
use testbed::inputs::Inputs;
use testbed::record::Program;
use testbed::results::{Times, Verdict};
use testbed::runner::{Filed, Measured, Runner};
use testbed::wire::Progress;
use tokio::process::Command;

use super::ArchiveArgs;
use super::worker::TOKEN_VARIABLE;
use crate::cli::OutputArgs;
use crate::exit::CliError;
use crate::interrupt;
use crate::output::Output;
use crate::progress;

/// Arguments of `penates testbed run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates testbed run ingest.toml --candidate penates
  penates testbed run read.toml --url http://127.0.0.1:8080 --untraceable
  penates testbed run ingest.toml --candidate ./fedora --workers 16 --data /mnt/disk/run")]
pub struct RunArgs {
    /// The plan (TOML).
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// What to start and measure: a folder with candidate.toml, or `penates` or `null`.
    #[arg(long, value_name = "NAME|DIR", conflicts_with = "url")]
    candidate: Option<String>,
    /// The server to measure, which runs already. Comes before the plan's `url`.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The process of that server, if it is on this machine: it is watched and recorded.
    #[arg(long, value_name = "PID", requires = "url")]
    pid: Option<u32>,
    /// Where the candidate keeps its data: an empty folder on the disk that matters.
    #[arg(long, value_name = "DIR", requires = "candidate")]
    data: Option<PathBuf>,
    /// The number of workers instead of the plan's.
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// A worker that runs elsewhere (`penates testbed worker`); may be repeated. Workers are then
    /// these only.
    #[arg(long, value_name = "ADDRESS", requires = "token_file", conflicts_with = "workers")]
    worker: Vec<String>,
    /// The file with the token of these workers.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The seed instead of the plan's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The rate of the plan times this.
    #[arg(long, value_name = "FACTOR")]
    times: Option<f64>,
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
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// This program, for the record.
pub fn program() -> anyhow::Result<Program> {
    let file = std::env::current_exe().context("finding the program")?;
    let program = Program::of_file("penates", env!("CARGO_PKG_VERSION"), &file).context("reading the program")?;
    let commit = crate::cli::COMMIT.map(str::to_owned);
    Ok(Program { is_dirty: commit.as_ref().map(|commit| commit.ends_with("-dirty")), commit, ..program })
}

/// Makes the run, and prints what it showed.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let mut inputs = Inputs::read(&args.plan).map_err(|error| CliError::Usage(error.to_string()))?;
    let plan = &mut inputs.plan;
    plan.workers = match args.worker.len() {
        0 => args.workers.unwrap_or(plan.workers),
        elsewhere => u32::try_from(elsewhere)?,
    };
    plan.seed = args.seed.unwrap_or(plan.seed);
    if let Some(factor) = args.times {
        plan.load = plan.load.scaled(factor);
    }
    plan.url = args.url.clone().or(plan.url.take());
    plan.validate().map_err(|error| CliError::Usage(error.to_string()))?;
    let token = token(&args)?;
    let places = places(&args, inputs.plan.workers, &token)?;
    let bars = Bars::new(&inputs);
    let program_path = std::env::current_exe().context("finding the program")?;
    let runner = Runner {
        inputs: &inputs,
        measured: measured(&args, inputs.plan.url.as_deref())?,
        archive: &args.archive.archive,
        data: args.data.as_deref(),
        who: args.who.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default(),
        program: program()?,
        program_path: &program_path,
        token: &token,
        is_untraceable: args.untraceable,
        may_be_busy: args.busy,
        on_progress: &|worker, progress| bars.show(worker, progress),
    };
    let filed = tokio::select! {
        filed = runner.run(places) => filed?,
        // Workers and candidate end with the values that hold them.
        () = interrupt::asked_to_end()? => return Err(CliError::Interrupted.into()),
    };
    bars.end();
    show(&args, &filed)?;
    match filed.outcome.judgement.verdict {
        Verdict::Held => Ok(()),
        Verdict::Void => Err(CliError::Void.into()),
        Verdict::Degrading | Verdict::Failed => Err(CliError::Incomplete.into()),
    }
}

/// The token of the workers: that of the file, or one that only this run knows.
fn token(args: &RunArgs) -> anyhow::Result<String> {
    match &args.token_file {
        Some(file) => {
            let token = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            Ok(token.trim().to_owned())
        }
        None => Ok(rand::rng().sample_iter(Alphanumeric).take(32).map(char::from).collect()),
    }
}

fn places(args: &RunArgs, workers: u32, token: &str) -> anyhow::Result<Vec<WorkerPlace>> {
    if !args.worker.is_empty() {
        return Ok(args.worker.iter().cloned().map(WorkerPlace::At).collect());
    }
    let itself = std::env::current_exe().context("finding the program")?;
    let here = |_| {
        let mut command = Command::new(&itself);
        command.args(["testbed", "worker", "--listen", "127.0.0.1:0", "--once"]).env(TOKEN_VARIABLE, token);
        WorkerPlace::Here(command)
    };
    Ok((0..workers).map(here).collect())
}

fn measured(args: &RunArgs, url: Option<&str>) -> anyhow::Result<Measured> {
    match (&args.candidate, url) {
        (Some(name), _) => {
            let folder = PathBuf::from(name);
            let spec = match folder.join("candidate.toml").exists() {
                true => CandidateSpec::read(&folder),
                false => CandidateSpec::shipped(name),
            };
            let spec = spec.map_err(|error| CliError::Usage(error.to_string()))?;
            Ok(Measured::Candidate(Box::new(spec), folder))
        }
        (None, Some(url)) => Ok(Measured::Url(url.to_owned(), args.pid)),
        (None, None) => Err(CliError::Usage("name what to measure by --candidate or --url".to_owned()).into()),
    }
}

/// A line for each worker.
struct Bars {
    bars: Vec<ProgressBar>,
}

impl Bars {
    fn new(inputs: &Inputs) -> Self {
        let all = MultiProgress::new();
        let seconds = inputs.plan.load.duration().as_secs();
        let bar = |worker: u32| all.add(progress::worker(worker, seconds));
        Self { bars: (0..inputs.plan.workers).map(bar).collect() }
    }

    fn show(&self, worker: u32, progress: Progress) {
        let Some(bar) = self.bars.get(worker as usize) else { return };
        bar.set_position(bar.elapsed().as_secs());
        bar.set_message(format!(
            "{} due  {} done  {} refused  {} failed  {} users",
            progress.due, progress.done, progress.refused, progress.failed, progress.users
        ));
    }

    fn end(&self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// Prints what a run showed.
fn show(args: &RunArgs, filed: &Filed) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let Filed { folder, record, outcome } = filed;
    if args.output.json {
        output.json(&serde_json::json!({
            "id": record.id,
            "folder": folder,
            "judgement": outcome.judgement,
            "summary": outcome.summary,
        }))?;
        return output.finish();
    }
    let times = |times: &Times| {
        [times.mean_ms, times.p50_ms, times.p90_ms, times.p99_ms, times.p999_ms, times.max_ms]
            .map(|ms| format!("{ms:.2}"))
            .to_vec()
    };
    let rows = outcome.summary.steps.iter().map(|step| (format!("{}/{}", step.scenario, step.step), &step.tally));
    let all = std::iter::once(("all".to_owned(), &outcome.summary.all));
    let rows: Vec<Vec<String>> = rows
        .chain(all)
        .map(|(name, tally)| {
            let counts = [tally.due, tally.done, tally.refused, tally.failed + tally.dropped].map(|n| n.to_string());
            [vec![name], counts.to_vec(), times(&tally.response)].concat()
        })
        .collect();
    let headings = ["step", "due", "done", "refused", "failed", "mean ms", "p50", "p90", "p99", "p99.9", "max"];
    output.table(&headings, &rows)?;
    let verdict = format!("{:?}", outcome.judgement.verdict).to_lowercase();
    let rate = outcome.summary.all.done as f64 / outcome.summary.duration_s;
    output.line(format!("\nVerdict: {verdict} ({rate:.1} requests per second)"))?;
    outcome.judgement.reasons.iter().try_for_each(|reason| output.line(format!("- {reason}")))?;
    if !record.missing.is_empty() {
        output.line(format!("Untraceable: it is not known {}.", record.missing.join(", ")))?;
    }
    output.line(format!("Run: {}", folder.display()))?;
    output.line(format!("Report: {}", folder.join("data/report.html").display()))?;
    output.finish()
}
