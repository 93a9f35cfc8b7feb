//! `penates import`

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use clap::Args;
use futures::{StreamExt, future, stream};
use tokio_util::sync::CancellationToken;

use crate::cli::{JobsArgs, OutputArgs, WriteArgs};
use crate::exit::CliError;
use crate::ids::read_ids;
use crate::ingest::{FailedList, ImportTarget, Ingest, Local, Meter, Mode, Summary, Wanted, failed_paths};
use crate::output::{Output, human_bytes};
use crate::reach::{self, Way};
use crate::{interrupt, local};

/// Arguments of `penates import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates import samples/pairtree
  penates import --store /srv/penates --init samples/pairtree
  penates import --failed failed.jsonl --jobs 4 /data/pairtree/uc2
  penates import --again failed.jsonl --failed still-failed.jsonl
  penates import --ids wanted.txt /data/pairtree
  penates import --server https://penates.example:8443 samples/pairtree")]
pub struct ImportArgs {
    /// A pairtree, any folder in one, a folder of .zip and .mets.xml files, or one of these files.
    #[arg(required_unless_present = "again", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Import the volumes that failed before, from the file that --failed wrote then.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "ids"])]
    again: Option<PathBuf>,
    /// Import the volumes with the ids in this file (one a line) from the pairtree PATH.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Import volumes that are stored already, too.
    #[arg(long, conflicts_with = "dry_run")]
    force: bool,
    /// Check the volumes, and store nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write failures to this file: one JSON object per line, with path, id, kind and reason. If the
    /// import ends early, the file has what was not tried, too: a folder as a whole.
    #[arg(long, value_name = "FILE")]
    failed: Option<PathBuf>,
    /// How many at once.
    #[command(flatten)]
    jobs: JobsArgs,
    /// How the summary is printed.
    #[command(flatten)]
    output: OutputArgs,
    /// Where to.
    #[command(flatten)]
    write: WriteArgs,
}

impl ImportArgs {
    fn mode(&self) -> Mode {
        match (self.dry_run, self.force) {
            (true, _) => Mode::Check,
            (_, true) => Mode::Force,
            _ => Mode::Import,
        }
    }

    fn wanted(&self) -> anyhow::Result<Wanted> {
        if let Some(file) = &self.again {
            return Ok(Wanted::Paths(failed_paths(file)?));
        }
        if let Some(missing) = self.paths.iter().find(|path| !path.exists()) {
            return Err(CliError::Usage(format!("there is no {}", missing.display())).into());
        }
        match (&self.ids, self.paths.as_slice()) {
            (None, paths) => Ok(Wanted::Paths(paths.to_vec())),
            (Some(file), [root]) => Ok(Wanted::Ids { root: root.clone(), ids: read_ids(file)? }),
            (Some(_), _) => {
                Err(CliError::Usage("--ids needs exactly one PATH, the root of a pairtree".to_owned()).into())
            }
        }
    }
}

/// Runs it.
pub async fn run(args: ImportArgs) -> anyhow::Result<()> {
    let wanted = args.wanted()?;
    let stop = interrupt::stop_token()?;
    let target = target(&args).await?;
    let ended = import(&args, wanted, &target, stop).await;
    close(target).await?;
    let summary = ended?;
    print(&summary, args.output)?;
    outcome(&summary)
}

/// Imports into an open target. The list of failures of an earlier import is lost only now.
async fn import(
    args: &ImportArgs,
    wanted: Wanted,
    target: &ImportTarget,
    stop: CancellationToken,
) -> anyhow::Result<Summary> {
    let mut failed = FailedList::new(args.failed.as_deref(), args.again.as_deref())?;
    let meter = Meter::shown(0);
    if !meter.is_hidden() {
        let meter = meter.clone();
        wanted.clone().measure(move |zip_bytes| meter.expect(zip_bytes));
    }
    let ingest = Ingest { target, mode: args.mode(), jobs: args.jobs.count(target.jobs_per_processor()), meter, stop };
    // All of them have begun once no more are found.
    let begun = AtomicUsize::new(0);
    let found = wanted.clone().placed_sources().map(Some).chain(stream::iter([None]));
    let sources = found.filter_map(|found| {
        let count = found.as_ref().map_or(usize::MAX, |(place, _)| place + 1);
        begun.store(count, Ordering::Relaxed);
        future::ready(found.map(|(_, source)| source))
    });
    let ended = ingest.run(sources, &mut failed).await;
    ingest.meter.clear();
    let summary = ended?;
    if summary.interrupted || summary.given_up {
        failed.skip(&wanted.rest(begun.into_inner()))?;
    }
    failed.finish()?;
    Ok(summary)
}

/// Where the volumes go. A dry run needs no store.
async fn target(args: &ImportArgs) -> anyhow::Result<ImportTarget> {
    if args.dry_run && args.write.reach.server().is_none() {
        return Ok(ImportTarget::Nowhere);
    }
    into_target(reach::find_to_write(&args.write).await?).await
}

/// The target for a way to the data.
pub(super) async fn into_target(way: Way) -> anyhow::Result<ImportTarget> {
    Ok(match way {
        Way::Server(client) => ImportTarget::Server(client),
        Way::Free(store, settings) => {
            let library = local::open_library(&settings, store).await?;
            ImportTarget::Library(Local::new(library, &settings))
        }
    })
}

/// Makes the imported volumes durable.
pub(super) async fn close(target: ImportTarget) -> anyhow::Result<()> {
    match target {
        ImportTarget::Library(local) => {
            local.library().audit.auditor().finish().await;
            local.library().store().close().await.context("closing the store")
        }
        ImportTarget::Nowhere | ImportTarget::Server(_) => Ok(()),
    }
}

/// Prints the summary.
pub(super) fn print(summary: &Summary, form: OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if form.json {
        output.json(summary)?;
    } else {
        let counts = [
            (summary.new, "new"),
            (summary.replaced, "replaced"),
            (summary.unchanged, "unchanged"),
            (summary.checked, "checked and sound"),
            (summary.failed, "failed"),
        ];
        let printed: Vec<_> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        let volumes = if printed.is_empty() { "no volumes found".to_owned() } else { printed.join(", ") };
        output.line(format!("{volumes} ({} pages, {} of ZIPs)", summary.pages, human_bytes(summary.zip_bytes)))?;
        if summary.given_up {
            output.line("The rest was skipped: it would have failed for the same reason. --failed lists it.")?;
        }
    }
    output.finish()
}

/// The exit code of a summary.
pub(super) fn outcome(summary: &Summary) -> anyhow::Result<()> {
    match summary {
        Summary { interrupted: true, .. } => Err(CliError::Interrupted.into()),
        Summary { failed: 1.., .. } => Err(CliError::Incomplete.into()),
        _ => Ok(()),
    }
}
