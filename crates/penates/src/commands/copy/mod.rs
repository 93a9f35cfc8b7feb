//! `penates copy`: this file copies once, and the target then replaces the source. `follow.rs` keeps
//! a copy up to date. `source.rs` opens what is copied.

mod follow;
mod report;
mod source;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use futures::future::{Either, select};
use indicatif::ProgressBar;
use library::following;
use records::Mode;
use serde_json::json;
use store::copying::{Copier, CopyError, Patience, Progress, Verified};
use store::{Call, Class, ContentId, Deadline, Store, StoreError, copying};

use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::CliError;
use crate::local;
use crate::output::{Output, human_bytes};
use crate::settings::{self, Flags, Settings, StoreLocation};
use crate::{audited, interrupt, progress};
use source::Source;

/// Most passes while the source takes changes. A source that is always written to never has a pass
/// without changes.
const PASSES_MAX: u32 = 6;

/// Most passes once it is read-only. The first finds the changes that were under way.
const LAST_PASSES_MAX: u32 = 3;

/// How long it may take to find a record.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// How often the progress bar is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `penates copy`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates copy --from ./data --to cassandra://node1,node2/books
  penates copy --from cassandra://node1,node2/books --to ./data --config cluster.toml
  penates copy --from cassandra://old/books --to cassandra://new/books --config old.toml --to-config new.toml
  penates copy --follow --from https://books.example.org --to ./standby")]
pub struct CopyArgs {
    /// The store to copy: a data folder (a server may hold it), cassandra://HOST[,HOST…]/KEYSPACE, or
    /// the address of a server (https://…) whose `auth.copy` names the token.
    #[arg(long, value_name = "STORE|URL")]
    from: PathBuf,
    /// The target: an empty folder, a keyspace that `penates init` created, or the target of an
    /// interrupted copy.
    #[arg(long, value_name = "STORE")]
    to: PathBuf,
    /// A configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "PENATES_CONFIG")]
    config: Option<PathBuf>,
    /// Sets any other value of the configuration; may be repeated.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// The configuration file for the target, if it needs another (password, TLS).
    #[arg(long, value_name = "FILE")]
    to_config: Option<PathBuf>,
    /// Let the source take changes again at the end, for a copy that is not a move. (If the copy
    /// fails before its end, it does so anyway.)
    #[arg(long, conflicts_with = "follow")]
    keep_source: bool,
    /// How long the source stays read-only if this command is killed.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = humantime::parse_duration, conflicts_with = "follow")]
    lease: Duration,
    /// Keep the target up to date by the change feed, until interrupted.
    #[arg(long)]
    follow: bool,
    /// How often everything is compared while following.
    #[arg(long, value_name = "TIME", default_value = "1day", value_parser = humantime::parse_duration, requires = "follow")]
    whole_every: Duration,
    /// How often the lag is reported while following.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration, requires = "follow")]
    report_every: Duration,
    /// Write the lag to this file too, as metrics in Prometheus format.
    #[arg(long, value_name = "FILE", requires = "follow")]
    metrics: Option<PathBuf>,
    /// Read at most so much per second from a server.
    #[arg(long, value_name = "SIZE")]
    rate: Option<ByteSize>,
    /// The access token for the server.
    #[arg(long, env = "PENATES_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Trust the certificates in this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// How the summary is printed.
    #[command(flatten)]
    output: OutputArgs,
}

impl CopyArgs {
    /// The server elsewhere that is to be copied, if one is.
    fn server(&self) -> Option<&str> {
        let from = self.from.to_str()?;
        (from.starts_with("http://") || from.starts_with("https://")).then(|| from.trim_end_matches('/'))
    }

    /// Bytes per second that are read from a server; 0: no limit.
    fn rate(&self) -> u64 {
        self.rate.map_or(0, |rate| rate.as_u64())
    }

    fn source(&self) -> StoreArgs {
        let store = self.server().is_none().then(|| self.from.clone());
        StoreArgs { store, config: self.config.clone(), set: self.set.clone(), verbose: false }
    }

    fn target(&self) -> StoreArgs {
        let config = self.to_config.clone().or_else(|| self.config.clone());
        StoreArgs { store: Some(self.to.clone()), config, set: self.set.clone(), verbose: false }
    }
}

/// The result of a copy.
struct Copied {
    passes: u32,
    verified: Verified,
    /// Contents that are damaged in the source and were left out.
    damaged: Vec<ContentId>,
}

/// Runs it.
pub async fn run(args: CopyArgs) -> anyhow::Result<()> {
    if args.follow {
        return follow::run(&args).await;
    }
    let source = Source::open(&args, &read_only_reason(&args)).await?;
    let (target, settings) = open_target(&args).await?;
    let copied = begin_and_copy(&args, &source, target.clone()).await;
    let noted = match copied {
        Ok(_) => audited::note(&settings, target.clone(), "copy", Some(format!("of {}", source.name))).await,
        Err(_) => Ok(()),
    };
    target.close().await?;
    source.store.close().await?;
    let copied = copied?;
    noted?;
    print(&args, &copied)
}

async fn begin_and_copy(args: &CopyArgs, source: &Source, target: Arc<dyn Store>) -> anyhow::Result<Copied> {
    refuse_fast_records(source.store.as_ref(), target.as_ref()).await?;
    // A refusal here has changed nothing: the source stays read-only or writable, as it was.
    let copier = begin(source.store.clone(), target.clone(), &source.name).await?;
    let stop = interrupt::stop_token()?;
    let copying = std::pin::pin!(copy(args, source, target.as_ref(), copier));
    let copied = match select(copying, std::pin::pin!(stop.cancelled())).await {
        Either::Left((copied, _)) => copied,
        Either::Right(_) => Err(CliError::Interrupted.into()),
    };
    match copied {
        // No interruption ends this: its outcome decides which of the two stores takes changes.
        Ok((copied, copier)) => end(args, source, &copier).await.map(|()| copied),
        Err(error) => {
            source.leave_as_found().await?;
            Err(error)
        }
    }
}

/// Lets the target take changes, and with `--keep-source` the source too. Otherwise the source takes
/// changes again only if this fails and the target certainly takes none.
async fn end(args: &CopyArgs, source: &Source, copier: &Copier) -> anyhow::Result<()> {
    let Err(error) = copier.end().await else {
        return if args.keep_source { source.leave_as_found().await } else { Ok(()) };
    };
    if args.keep_source || matches!(copier.keep_unfinished().await, Ok(true)) {
        source.leave_as_found().await?;
        return Err(of_copy(error));
    }
    let why = format!("{} may take changes already, so {} stays read-only", args.to.display(), source.name);
    let hint = "give the same command again: it ends the copy, or reports that the copy is finished";
    Err(anyhow::Error::new(error).context(format!("{why}; {hint}")))
}

/// Begins or continues a copy. If it fails because of damage, the error says which of the two stores
/// is damaged.
async fn begin(source: Arc<dyn Store>, target: Arc<dyn Store>, name: &str) -> anyhow::Result<Copier> {
    begin_into(source, following::target_of_copy(target), name).await
}

/// The same with a target whose errors name it. A source that was followed may have had another name
/// then.
async fn begin_into(source: Arc<dyn Store>, target: Arc<dyn Store>, name: &str) -> anyhow::Result<Copier> {
    let lineage = following::lineage(source.as_ref()).await.map_err(|error| of_copy(error.into()))?;
    let lineage = lineage.map(|lineage| lineage.to_string());
    if !copying::recognise(target.as_ref(), lineage.as_deref(), name).await? {
        let other = "the source is another store than the one that was followed so far: name another target";
        return Err(CliError::Usage(other.to_owned()).into());
    }
    Copier::begin(source, target, name, Patience::default()).await.map_err(of_copy)
}

/// The reason why the source is read-only while the last changes are copied, and afterwards.
fn read_only_reason(args: &CopyArgs) -> String {
    format!("it is being copied to {}", args.to.display())
}

async fn open_target(args: &CopyArgs) -> anyhow::Result<(Arc<dyn Store>, Settings)> {
    if args.from == args.to {
        return Err(CliError::Usage("--from and --to name the same store".to_owned()).into());
    }
    let store = args.target();
    let settings = settings::load(&store, Flags::of(&store)?)?.settings;
    if let StoreLocation::Folder(folder) = settings.place() {
        local::require_place(folder)?;
    }
    let store = local::open_ungated(&settings).await.map_err(local::cannot_open)?;
    Ok((store, settings))
}

/// Makes the target equal to the source, which takes no changes any more when this returns. The
/// copier is to be ended.
async fn copy(
    args: &CopyArgs,
    source: &Source,
    target: &dyn Store,
    copier: Copier,
) -> anyhow::Result<(Copied, Copier)> {
    let bar = Bar::over(copier.progress());
    bar.begin("counting", None);
    let objects = copier.count_objects().await.map_err(of_copy)?;
    let mut passes = 0;
    loop {
        passes += 1;
        bar.begin(&format!("pass {passes}"), Some(objects));
        let pass = copier.pass().await.map_err(of_copy)?;
        if pass.found_nothing() || passes == PASSES_MAX {
            break;
        }
    }
    bar.begin("waiting for changes to end", None);
    let mut hold = source.hold(&read_only_reason(args), args.lease).await?;
    let copying = async {
        tokio::time::sleep(source.others_learn_within).await;
        for _ in 0..LAST_PASSES_MAX {
            passes += 1;
            bar.begin(&format!("last pass ({passes})"), Some(objects));
            if copier.pass().await.map_err(of_copy)?.found_nothing() {
                break;
            }
        }
        bar.begin("comparing", Some(objects));
        let verified = copier.verify().await.map_err(of_copy)?;
        bar.end();
        // A server may have written the first record meanwhile.
        refuse_fast_records(source.store.as_ref(), target).await?;
        Ok(verified)
    };
    let verified = hold.during(copying).await?;
    let damaged = copier.damaged_contents();
    // First this, so that never both take changes.
    if args.keep_source {
        hold.renew().await?
    } else {
        hold.keep().await?
    }
    Ok((Copied { passes, verified, damaged }, copier))
}

/// Refuses to copy records in mode fast into a data folder, which would not show them.
async fn refuse_fast_records(source: &dyn Store, target: &dyn Store) -> anyhow::Result<()> {
    if target.capabilities().is_shared {
        return Ok(());
    }
    let mode = Mode::of_any_record(source, Call::new(Class::Record, Deadline::within(LOOK_MAX))).await?;
    if mode == Some(Mode::Fast) {
        let why = "the records of the source are in mode fast, which a data folder cannot hold: copy to a keyspace, or \
                   export the records (`penates records export`) and delete them in the source";
        return Err(CliError::Usage(why.to_owned()).into());
    }
    Ok(())
}

fn of_copy(error: CopyError) -> anyhow::Error {
    match error {
        CopyError::NotVacant { .. } | CopyError::Finished { .. } => CliError::Usage(error.to_string()).into(),
        // The target's damage, which the same command meets again.
        CopyError::Store(StoreError::Unreadable { .. }) => {
            anyhow::Error::new(error).context("the copy is incomplete and cannot continue")
        }
        CopyError::Store(StoreError::Corrupt { .. }) => {
            let which = "the source is damaged, and not the target";
            let hint = "the copy is incomplete; `penates salvage` copies what can be read";
            anyhow::Error::new(error).context(which).context(hint)
        }
        error => anyhow::Error::new(error).context("the copy is incomplete; give the same command again to continue"),
    }
}

/// A progress bar of a copier since the start of a stage.
struct Bar {
    bar: ProgressBar,
    progress: Arc<Progress>,
    drawing: tokio::task::JoinHandle<()>,
}

impl Bar {
    fn over(progress: Arc<Progress>) -> Self {
        let bar = progress::copy();
        let (drawn, of) = (bar.clone(), progress.clone());
        let drawing = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(DRAWN_EVERY);
            loop {
                ticks.tick().await;
                drawn.set_position(of.seen.load(Ordering::Relaxed));
                let changed = of.changed.load(Ordering::Relaxed);
                drawn.set_message(format!("{changed} changed, {}", human_bytes(of.bytes.load(Ordering::Relaxed))));
            }
        });
        Self { bar, progress, drawing }
    }

    fn begin(&self, stage: &str, objects: Option<u64>) {
        self.progress.seen.store(0, Ordering::Relaxed);
        self.bar.set_prefix(stage.to_owned());
        match objects {
            Some(objects) => self.bar.set_length(objects),
            None => self.bar.unset_length(),
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.drawing.abort();
    }
}

fn print(args: &CopyArgs, Copied { passes, verified, damaged }: &Copied) -> anyhow::Result<()> {
    let digest: String = verified.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&json!({
            "passes": passes,
            "partitions": verified.partitions,
            "rows": verified.rows,
            "bytes": verified.bytes,
            "sha256": digest,
            "damaged_contents": damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "source_read_only": !args.keep_source,
        }))?;
        output.finish()?;
        return if damaged.is_empty() { Ok(()) } else { Err(CliError::Incomplete.into()) };
    }
    output.line(format!(
        "copied and compared: {} partitions, {} rows, {} (SHA-256 {digest}), in {passes} passes",
        verified.partitions,
        verified.rows,
        human_bytes(verified.bytes),
    ))?;
    if !args.keep_source {
        let (from, to) = (args.from.display(), args.to.display());
        output.line(format!("{from} is read-only from now on: serve from {to}, or let it take changes again with"))?;
        output.line(format!("  penates read-only off --store {from}"))?;
    }
    if damaged.is_empty() {
        return output.finish();
    }
    output.line(format!(
        "{} large contents are damaged in {} and were left out: `penates verify` names their resources",
        damaged.len(),
        args.from.display()
    ))?;
    output.finish()?;
    Err(CliError::Incomplete.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use bytes::Bytes;
    use clap::Parser;
    use store::faults::{Fault, Faults, Kind};
    use store::{StoreResult, SystemClock, Table, WalkPage, Wrapper, read_only};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    /// A store whose list of objects cannot be read.
    struct Damaged(Arc<dyn Store>);

    impl Wrapper for Damaged {
        fn inner(&self) -> &dyn Store {
            self.0.as_ref()
        }

        async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
            match table {
                Table::Objects => Err(StoreError::Corrupt { table, detail: "a broken block".to_owned() }),
                _ => self.0.walk(call, table, from, max).await,
            }
        }
    }

    fn opened(folder: &Path) -> Arc<dyn Store> {
        EmbeddedStore::open(folder, EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap()
    }

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: CopyArgs,
    }

    /// Ends a copy. The writes into the target meet these faults. Returns the error, and whether the
    /// source and the target take changes.
    async fn ended(faults: &[Fault]) -> (String, [bool; 2]) {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        opened(here.path()).close().await.unwrap();
        let (from, to) = (here.path().to_str().unwrap(), there.path().to_str().unwrap());
        let args = Command::parse_from(["copy", "--from", from, "--to", to]).args;
        let source = Source::open(&args, &read_only_reason(&args)).await.unwrap();
        let target = Arc::new(Faults::new(opened(there.path())));
        let (store, patience) = (source.store.clone(), Patience { tries: 1 });
        let copier = Copier::begin(store, target.clone(), &source.name, patience).await.unwrap();
        copier.pass().await.unwrap();
        source.hold(&read_only_reason(&args), args.lease).await.unwrap().keep().await.unwrap();
        faults.iter().for_each(|fault| target.next(Kind::Run, *fault));
        let error = end(&args, &source, &copier).await.unwrap_err();
        let takes_changes = async |store: &dyn Store| read_only::reason(store).await.unwrap().is_none();
        let states = [takes_changes(source.store.as_ref()).await, takes_changes(&*target).await];
        (format!("{error:#}"), states)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_whose_end_fails_never_lets_both_stores_take_changes() {
        // The first write notes that everything is copied, the second lets the target take changes,
        // and the third makes sure that it takes none.
        const NONE: Fault = Fault::Delay(Duration::ZERO);
        for undone in [&[Fault::Unavailable][..], &[NONE, Fault::Unavailable], &[NONE, Fault::UnknownNotApplied]] {
            let (error, states) = ended(undone).await;
            assert_eq!(states, [true, false], "{undone:?}: {error}");
            assert!(error.contains("give the same command again to continue"), "{error}");
        }
        for (unknown, target) in [
            (&[NONE, Fault::UnknownApplied][..], true),
            (&[NONE, Fault::UnknownNotApplied, Fault::UnknownNotApplied][..], false),
        ] {
            let (error, states) = ended(unknown).await;
            assert_eq!(states, [false, target], "{unknown:?}: {error}");
            assert!(error.contains("stays read-only; give the same command again"), "{error}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_that_fails_because_of_damage_says_which_of_the_stores_is_damaged() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (source, target) = (opened(here.path()), opened(there.path()));
        let failure = async |source: Arc<dyn Store>, target: Arc<dyn Store>| {
            let copying = async {
                begin(source, target, "the source").await?.pass().await.map_err(of_copy)?;
                anyhow::Ok(())
            };
            format!("{:#}", copying.await.unwrap_err())
        };
        let of_target = failure(source.clone(), Arc::new(Damaged(target.clone()))).await;
        assert!(of_target.contains("the target is damaged, and not the source"), "{of_target}");
        let of_source = failure(Arc::new(Damaged(source)), target).await;
        assert!(of_source.contains("the source is damaged, and not the target"), "{of_source}");
    }
}
