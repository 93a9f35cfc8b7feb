//! `lares lab run` and `resume`

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use lab::candidate::Server;
use lab::execute::{self, Progress};
use lab::node::Node;
use lab::plan::{CandidateName, Plan};
use lab::rig::Rig;
use lab::simulated::{Fault, Simulated, surface_for};
use lab::study::OpenStudy;

use super::{FolderArgs, WhichArgs, is_simulated, report, with_exit_code};
use crate::progress;
use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::interrupt;

/// Arguments of `lares lab run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares lab run compaction.toml --folder compaction
  lares lab run thesis --scale 0.01 --repeats 3 --rate 500
  lares lab run compaction.toml --folder try --simulated")]
pub struct RunArgs {
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    folder: FolderArgs,
    /// Measure a made-up node instead, in seconds, to see what the design can find: the last value
    /// of the first factor gains a fifth, that of the second costs a tenth, and together they gain
    /// a tenth more.
    #[arg(long)]
    simulated: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `lares lab resume`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares lab resume --folder compaction")]
pub struct ResumeArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Makes a study.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let mut plan = args.which.plan()?;
    if plan.node.heap_mib.is_none() && plan.candidate.is_none() && !args.simulated {
        // Kept with the plan: when the study goes on, other memory may be free.
        plan.node.heap_mib = Some(cluster::fitting_heap_mib()?);
    }
    if let Some(CandidateName::Folder(folder)) = &mut plan.candidate {
        // The study may go on from another folder.
        *folder = std::path::absolute(&*folder).context("the folder of the candidate")?;
    }
    let study = OpenStudy::create(&args.folder.folder, &plan).map_err(with_exit_code)?;
    go_on(study, args.simulated, args.output).await
}

/// Continues one.
pub async fn resume(args: ResumeArgs) -> anyhow::Result<()> {
    let study = OpenStudy::open(&args.folder.folder).map_err(with_exit_code)?;
    study.can_go_on().map_err(with_exit_code)?;
    let is_simulated = is_simulated(study.study());
    go_on(study, is_simulated, args.output).await
}

async fn go_on(mut study: OpenStudy, is_simulated: bool, output: OutputArgs) -> anyhow::Result<()> {
    let (plan, folder) = (study.study().plan().clone(), study.study().folder().display().to_string());
    let ending = interrupt::asked_to_end_or_hung_up()?;
    let done = async {
        let mut rig = rig(&plan, &study.study().folder().join("node"), is_simulated).await?;
        let bar = progress::study();
        execute::execute(&mut study, rig.as_mut(), |now| show(&bar, now)).await?;
        bar.finish_and_clear();
        anyhow::Ok(())
    };
    tokio::select! {
        done = done => done?,
        // The node ends with the value that holds it, and with this process in any case.
        () = ending => {
            note!("The node or server ends now, and no finished run is lost: lares lab resume --folder {folder}");
            return Err(CliError::Interrupted.into());
        }
    }
    report::show(study.study(), output)?;
    match study.study().lines().iter().any(lab::line::Line::is_valid) {
        true => Ok(()),
        false => Err(CliError::Void.into()),
    }
}

async fn rig(plan: &Plan, folder: &Path, is_simulated: bool) -> anyhow::Result<Box<dyn Rig>> {
    if is_simulated {
        return Ok(Box::new(Simulated::new(plan, surface_for(plan), Fault::None)));
    }
    if plan.candidate.is_some() {
        let program = std::env::current_exe().context("finding this program")?;
        return Ok(Box::new(Server::open(plan, folder, &program)?));
    }
    if cluster::is_to_be_fetched()? {
        note!("Fetching Cassandra {} from Maven Central, this once.", cluster::CASSANDRA_VERSION);
    }
    let (plan, folder) = (plan.clone(), folder.to_owned());
    let node = tokio::task::spawn_blocking(move || Node::open(&plan, &folder));
    Ok(Box::new(node.await.context("opening the node")??))
}

/// On a terminal a bar; elsewhere a line for each run.
fn show(bar: &ProgressBar, now: Progress<'_>) {
    let left = humantime::format_duration(Duration::from_secs(now.left.as_secs()));
    bar.set_length(now.all as u64);
    bar.set_position(now.done as u64);
    if let Some(next) = now.next {
        bar.set_message(format!("{left} left  {}: {}", next.workload, next.setting));
    }
    if bar.is_hidden() {
        let void = now.last.filter(|line| !line.is_valid()).map(|line| format!("; void: {}", line.void.join("; ")));
        note!("{} of {} runs, {left} left{}", now.done, now.all, void.unwrap_or_default());
    }
}
