//! `penates load`

mod bag;
mod dspace;
mod fedora;
mod foreign;
mod loader;
mod ocfl;
mod ocfl_volume;
mod report;
mod source;
mod timeline;
mod volumes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use preservation::ocfl::is_root;
use store::{Clock, ManualClock};

use crate::cli::{StoreArgs, WriteArgs};
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use crate::reach::{self, Reached};
use crate::resources::{BaseArgs, repository};
use crate::settings::{self, Flags};
use fedora::{FedoraRoot, is_fedora};
use heads::{Keep, ResourcePath, VOLUMES};
use loader::{Counts, Loader};
use report::Report;
use timeline::{Archive, Loaded};

/// What to do about resources that not everyone could read where they come from.
const READABLE: &str = "warning: everything loaded is readable by whoever may read, also what was not for everyone \
    there: limit who reads (auth.read = \"token\", and tokens with --scope rest:/TREE), or delete it";

/// Arguments of `penates load`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates load letters-2026
  penates load letters-2026 --server https://books.example.org
  penates load fcrepo/data/ocfl-root --store ./moved --init --report moved.ndjson
  penates load aips --report moved.ndjson
  penates load --into deposits/2026-7 /data/bags/deposit-7")]
pub struct LoadArgs {
    /// The folder that `penates export` made: a bag, or a storage root of OCFL. Or the storage root of
    /// a Fedora 6. Or a folder with the packages of a DSpace (AIP), or one of them.
    source: PathBuf,
    /// Load the files of any valid bag, or the objects of any storage root of OCFL, below this
    /// container, which is created.
    #[arg(long, value_name = "RESOURCE")]
    into: Option<String>,
    /// Write what could not be taken over to this file, as lines of JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "into")]
    report: Option<PathBuf>,
    /// Only check all of it. Nothing is loaded.
    #[arg(long, conflicts_with = "into")]
    check: bool,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// Where.
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs it.
pub async fn run(args: LoadArgs) -> anyhow::Result<()> {
    let source = &args.source;
    check_place(source)?;
    if !args.check {
        // What is loaded is checked first, which may take hours.
        reach::refuse_vacant(&args.write)?;
    }
    let (reached, counts) = match &args.into {
        Some(into) => {
            let into =
                ResourcePath::parse(into.trim_matches('/')).map_err(|error| CliError::Usage(error.to_string()))?;
            if into.is_root() {
                return Err(CliError::Usage("name a container, as in --into letters".to_owned()).into());
            }
            load_foreign(&args, &into).await?
        }
        None if source.join("bagit.txt").exists() => {
            if args.report.is_some() {
                return Err(CliError::Usage("a load of a bag has no report".to_owned()).into());
            }
            let bag = bag::checked(source).await?;
            if args.check {
                return Ok(());
            }
            let reached = Reached::open_or_make(&args.write).await?;
            let counts = async {
                let counts = bag::load(bag, &loader(&args, &reached).await?).await?;
                volumes::load(source, &reached.client).await.map(|volumes| counts.with(&volumes))
            };
            let counts = counts.await;
            (reached, counts)
        }
        None if is_root(source) => return load_root(&args).await,
        None if dspace::is_export(source).await? => return load_packages(&args).await,
        None => {
            let what = "neither a bag, nor a storage root of OCFL, nor packages of a DSpace";
            let within = ["ocfl-root", "data/ocfl-root"].map(|name| source.join(name));
            let hint = within.iter().find(|within| is_root(within));
            let hint = hint.map(|within| format!("; {} is one", within.display())).unwrap_or_default();
            bail!(
                "{} is {what}: there is no bagit.txt, no 0=ocfl_1.1 or 0=ocfl_1.0, and no ZIP with a mets.xml{hint}",
                source.display()
            );
        }
    };
    reached.close().await?;
    let counts = counts?;
    print_counts(&counts, Vec::new())?;
    if counts.failed > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// Refuses a place where nothing is, and an object of OCFL, which is loaded with its storage root.
fn check_place(source: &Path) -> anyhow::Result<()> {
    let shown = source.display();
    source.metadata().with_context(|| format!("there is no {shown}"))?;
    let is_object = |version: &str| source.join(format!("0=ocfl_object_{version}")).exists();
    ensure!(
        !["1.0", "1.1"].into_iter().any(is_object),
        "{shown} is an object of OCFL: name the storage root that it is in, which has a file 0=ocfl_1.1 or 0=ocfl_1.0"
    );
    Ok(())
}

/// Prints what was loaded.
fn print_counts(counts: &Counts, more: Vec<String>) -> anyhow::Result<()> {
    let Counts { new, unchanged, failed, bytes } = counts;
    let mut output = Output::stdout();
    let bytes = human_bytes(*bytes);
    output.line(format!("loaded {new} resources ({bytes} of bytes), {unchanged} unchanged, {failed} failed"))?;
    more.iter().try_for_each(|line| output.line(line))?;
    output.finish()
}

/// Loads a storage root of OCFL that `penates export` or Fedora wrote.
async fn load_root(args: &LoadArgs) -> anyhow::Result<()> {
    let source = &args.source;
    let report = Arc::new(Report::create(args.report.as_deref())?);
    let root = match is_fedora(source).await? {
        true => Root::Fedora(Arc::new(fedora::checked(source, report.clone()).await?)),
        false => Root::Own(Arc::new(ocfl::checked(source, report.clone()).await?)),
    };
    let archive = root.archive();
    if args.check {
        return print_checked(&format!("{} objects with {} versions", archive.len(), archive.versions()), &report);
    }
    if args.write.reach.server().is_none() {
        check_history(&args.write.reach.store, archive)?;
    }
    let clock = Arc::new(ManualClock::new(archive.begin()));
    // The same for each load of it, from whatever folder.
    let place = source.canonicalize().with_context(|| source.display().to_string())?.display().to_string();
    let (reached, mark) = Reached::open_for_load(&args.write, &place, clock.clone()).await?;
    let shown = mark.as_ref().map(|(mark, _)| (clock.clone(), mark.newest()));
    let loaded = async {
        let loader = Arc::new(loader(args, &reached).await?);
        if let Some((mark, folder)) = &mark {
            // From here on the store may have a part of this load only.
            mark.write(folder).with_context(|| folder.display().to_string())?;
        }
        let Loaded { counts, failed } = timeline::load(archive, &loader, shown, &report).await?;
        let mut lines = Vec::new();
        if let Root::Fedora(root) = &root {
            let is_here = reached.holds_folder();
            let verified = timeline::verify(archive, &loader, is_here, failed, &report).await?;
            lines.push(format!("verified {verified} resources with all of their versions"));
            lines.extend(fedora::keep_acls(root, &loader, &report).await?);
            root.clone().note_changes(report.clone()).await?;
        }
        anyhow::Ok((counts, lines))
    };
    let loaded = loaded.await;
    // Changes whose sync waited may be lost: then the mark stays that of an unfinished load.
    reached.close().await.context("the load is not finished: repeat it")?;
    let (counts, lines) = loaded?;
    if let Some((mark, folder)) = mark {
        // No change has a time that the clock did not show.
        mark.finish(&folder, archive.end().max(clock.now()))?;
    }
    print_loaded(&counts, lines, &report)
}

/// Refuses to load versions into a store that keeps some of them only: what is there later does not say
/// how many of them were made, so a load could neither go on nor compare.
fn check_history(store: &StoreArgs, archive: &Archive) -> anyhow::Result<()> {
    let options = settings::load(store, Flags::of(store)?)?.settings.server.library_options();
    let some_of = |path: &str| {
        let keep = options.kept_at(&ResourcePath::parse(path).ok()?);
        let is_some = keep.keeps_versions() && matches!(keep, Keep::Newest(_) | Keep::For(_));
        is_some.then_some(keep)
    };
    let found = archive.resources().filter_map(|path| Some((path, some_of(path)?)));
    let Some((path, keep)) = found.min_by_key(|(path, _)| *path) else { return Ok(()) };
    let (setting, all) = match keep == options.history.resources {
        true => ("history.resources", "all"),
        false => ("history.trees", "[]"),
    };
    let why = format!("{setting} keeps only some versions of /{path} ({keep}), and a load needs all of them");
    Err(CliError::Usage(format!("{why}: repeat it with --set {setting}={all}")).into())
}

/// Loads packages of a DSpace.
async fn load_packages(args: &LoadArgs) -> anyhow::Result<()> {
    let report = Arc::new(Report::create(args.report.as_deref())?);
    let export = Arc::new(dspace::checked(&args.source, report.clone()).await?);
    if args.check {
        return print_checked(&format!("{} packages with {} files", export.len(), export.files()), &report);
    }
    let reached = Reached::open_or_make(&args.write).await?;
    let loaded = async { dspace::load(&export, &loader(args, &reached).await?, &report).await }.await;
    reached.close().await?;
    let dspace::Loaded { counts, verified, updated } = loaded?;
    let mut lines = vec![format!("verified {verified} resources")];
    if updated.packages > 0 {
        let dspace::Updated { packages, replaced, deleted } = updated;
        lines.push(format!("{packages} packages changed: {replaced} resources replaced, {deleted} deleted"));
    }
    print_loaded(&counts, lines, &report)
}

/// Prints what was checked, and ends with what the report says.
fn print_checked(what: &str, report: &Report) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    output.line(format!("checked {what}"))?;
    report.finish()?.iter().try_for_each(|line| output.line(line))?;
    output.finish()?;
    if report.has_failures() { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// Prints what was loaded, warns of what was not for everyone, and ends with what came of it.
fn print_loaded(counts: &Counts, mut lines: Vec<String>, report: &Report) -> anyhow::Result<()> {
    lines.extend(report.finish()?);
    print_counts(counts, lines)?;
    if report.has_restricted() {
        note!("{READABLE}");
    }
    if counts.failed > 0 || report.has_failures() { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// A path at which a client may make a resource.
///
/// # Errors
/// Why it is none.
fn checked_path(path: &str) -> Result<ResourcePath, String> {
    let path = ResourcePath::parse(path).map_err(|error| error.to_string())?;
    match path.names().next() == Some(VOLUMES) || path.names().any(|name| name.starts_with("fcr:")) {
        true => Err(format!("a path below `{VOLUMES}`, or with `fcr:`, is the server's own")),
        false => Ok(path),
    }
}

/// A checked storage root.
enum Root {
    Own(Arc<Archive>),
    Fedora(Arc<FedoraRoot>),
}

impl Root {
    fn archive(&self) -> &Arc<Archive> {
        match self {
            Self::Own(archive) => archive,
            Self::Fedora(root) => &root.archive,
        }
    }
}

/// Loads what another program wrote. All of it is checked before a store is made.
async fn load_foreign(args: &LoadArgs, into: &ResourcePath) -> anyhow::Result<(Reached, anyhow::Result<Counts>)> {
    let source = &args.source;
    if is_root(source) {
        let objects = foreign::ocfl::checked(source).await?;
        let reached = Reached::open_or_make(&args.write).await?;
        let counts = async { foreign::ocfl::load(&objects, into, &loader(args, &reached).await?).await }.await;
        return Ok((reached, counts));
    }
    let bag = foreign::bag::checked(source).await?;
    let reached = Reached::open_or_make(&args.write).await?;
    let counts = async { foreign::bag::load(bag, into, &loader(args, &reached).await?).await }.await;
    Ok((reached, counts))
}

async fn loader(args: &LoadArgs, reached: &Reached) -> anyhow::Result<Loader> {
    let root = repository(&reached.client, &args.base).await?;
    Ok(Loader { client: reached.client.clone(), base: args.base.clone(), root })
}
