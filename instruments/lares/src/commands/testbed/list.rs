//! `lares testbed list`

use anyhow::Context;
use clap::Args;
use serde_json::json;
use testbed::archive::ArchivedRun;

use super::ArchiveArgs;
use terminal::OutputArgs;
use terminal::exit::{CliError, full_message};
use terminal::output::Output;

/// Arguments of `lares testbed list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed list
  lares testbed list --archive /srv/runs --json")]
pub struct ListArgs {
    /// Where runs are kept.
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Compare all files of each run with their digests. The exit code is 1 if one is damaged.
    #[arg(long)]
    verify: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Lists the runs.
pub fn run(args: &ListArgs) -> anyhow::Result<()> {
    let archive = &args.archive.archive;
    let runs = ArchivedRun::all(archive).with_context(|| format!("reading the archive {}", archive.display()))?;
    let (mut output, mut rows) = (Output::stdout(), Vec::new());
    let mut damaged = 0;
    for run in runs {
        let checked = if args.verify { run.verify() } else { Ok(()) };
        let read = checked.and_then(|()| Ok((run.record()?, run.outcome()?)));
        let (record, outcome) = match read {
            Ok(read) => read,
            Err(error) => {
                damaged += 1;
                note!("damaged: {}: {}", run.folder().display(), full_message(&error));
                continue;
            }
        };
        let (all, verdict) = (&outcome.summary.all, outcome.judgement.verdict);
        let rate = outcome.summary.done_per_s;
        if args.output.json {
            output.json(&json!({
                "id": record.id,
                "candidate": record.candidate.program.name,
                "version": record.candidate.program.version,
                "verdict": verdict,
                "workers": record.workers.len(),
                "due": all.due,
                "done": all.done,
                "rate": rate,
                "p99_ms": all.response.p99_ms,
                "traceable": record.missing.is_empty(),
            }))?;
            continue;
        }
        rows.push(vec![
            record.id,
            record.candidate.program.name,
            format!("{verdict:?}").to_lowercase(),
            record.workers.len().to_string(),
            all.due.to_string(),
            format!("{rate:.1}"),
            format!("{:.2}", all.response.p50_ms),
            format!("{:.2}", all.response.p99_ms),
        ]);
    }
    if !args.output.json {
        let headings = ["run", "candidate", "verdict", "workers", "due", "done/s", "p50 ms", "p99 ms"];
        output.table(&headings, &rows)?;
    }
    output.finish()?;
    if damaged > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}
