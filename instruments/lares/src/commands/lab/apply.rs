//! `lares lab apply`

use std::net::SocketAddr;

use clap::Args;
use lab::apply::{State, Target};
use lab::change::Change;
use lab::recommend::Finding;
use lab::report::Report;
use lab::study::Study;
use serde_json::json;

use super::{FolderArgs, refuse_candidate, refuse_simulated, with_exit_code};
use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares lab apply`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares lab apply --folder compaction --workload writes --cql 127.0.0.1:9042 --jmx 127.0.0.1:7199
  lares lab apply --workload writes --cql 127.0.0.1:9042 --jmx 127.0.0.1:7199 --table shop.orders")]
pub struct ApplyArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// The workload whose recommendation is applied.
    #[arg(long, value_name = "NAME")]
    workload: String,
    /// Where the node answers CQL.
    #[arg(long, value_name = "ADDRESS")]
    cql: SocketAddr,
    /// Where it answers JMX, without a password.
    #[arg(long, value_name = "ADDRESS")]
    jmx: SocketAddr,
    /// The table whose options are changed.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    table: Option<String>,
    /// Also if the study is of a simulated node: a rehearsal.
    #[arg(long)]
    simulated: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Applies it.
pub async fn run(args: ApplyArgs) -> anyhow::Result<()> {
    let study = Study::read(&args.folder.folder).map_err(with_exit_code)?;
    refuse_candidate(&study)?;
    refuse_simulated(&study, args.simulated)?;
    let setting = recommended(&study, &args.workload)?.setting;
    let target = Target { cql: args.cql, jmx: args.jmx, table: args.table };
    let undo =
        args.folder.folder.join(format!("undo-{}-{}.sh", args.workload, jiff::Timestamp::now().as_microsecond()));
    let applied = target.apply(study.plan(), &setting, |script| std::fs::write(&undo, script)).await?;
    note!("What leads back to what the node had: {}", undo.display());
    let all = applied.done;
    let mut output = Output::stdout();
    let word = |state| match state {
        State::InForce => "in force",
        State::Refused => "refused",
        State::NeedsRestart => "needs a restart",
        State::OfCluster => "not a setting of one node",
    };
    if args.output.json {
        for one in &all {
            output.json(&json!({
                "factor": one.factor, "asked": one.asked, "before": one.before, "after": one.after,
                "state": word(one.state),
            }))?;
        }
    } else {
        let cell = |value: &Option<String>| value.clone().unwrap_or_default();
        let rows: Vec<_> = all
            .iter()
            .map(|one| {
                let (before, after) = (cell(&one.before), cell(&one.after));
                vec![one.factor.clone(), one.asked.clone(), before, after, word(one.state).to_owned()]
            })
            .collect();
        output.table(&["factor", "asked", "before", "now", "state"], &rows)?;
    }
    output.finish()?;
    if let Some(error) = applied.error {
        return Err(error.into());
    }
    match all.iter().all(|one| one.state == State::InForce) {
        true => Ok(()),
        false => Err(CliError::Incomplete.into()),
    }
}

/// The change that a study recommends for a workload. A note says if it may become another one.
pub(super) fn recommended(study: &Study, workload: &str) -> anyhow::Result<Change> {
    let report = Report::of(study);
    let found = report.recommendations.into_iter().find(|recommendation| recommendation.workload == workload);
    let Some(found) = found else {
        return Err(CliError::Usage(format!("the study has no workload {workload}")).into());
    };
    let left = lab::execute::runs_left(study.plan(), study.lines()).len();
    if left > 0 {
        note!("The study has {left} runs that are not made yet: what it recommends may change.");
    }
    match found.finding {
        Finding::Better(change) => Ok(*change),
        _ => Err(CliError::Usage(format!("the study recommends nothing for {workload}")).into()),
    }
}
