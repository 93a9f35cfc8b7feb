//! `penates salvage`

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use heads::keys;
use library::{Library, SetRight};
use serde_json::{Value, json};
use store::{FormatLevel, Lane, Store, SystemClock, Table};
use store_embedded::{EmbeddedOptions, EmbeddedStore, Loss, Salvaged};

use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use crate::settings::{self, Flags, Settings};
use crate::{audited, local, progress};

/// Arguments of `penates salvage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates salvage --store ./data --to ./rescued
  penates salvage --store ./data --to ./rescued --lost lost.txt
  penates import --store ./rescued --ids lost.txt /data/pairtree")]
pub struct SalvageArgs {
    /// The new data folder, which must not exist or be empty.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Write the ids of volumes that lost something to this file, one per line, for `import --ids`.
    #[arg(long, value_name = "FILE")]
    lost: Option<PathBuf>,
    /// How the summary is printed.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: SalvageArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let source = settings.path.clone();
    // It gets its name when it is complete, so that an interrupted salvage is never mistaken for a
    // finished one.
    let unfinished = unfinished(&args.to)?;
    local::refuse_root(&args.to).map_err(local::cannot_open)?;
    let salvaged = copy(source, unfinished.clone()).await?;
    let set_right = set_right(&settings, &unfinished, &salvaged).await?;
    fs::rename(&unfinished, &args.to).with_context(|| format!("naming {}", args.to.display()))?;
    let parent = args.to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).context("syncing the new folder's name")?;
    if let Some(list) = &args.lost {
        let ids: String = needed(&set_right).map(|id| format!("{id}\n")).collect();
        fs::write(list, ids).with_context(|| format!("writing {}", list.display()))?;
    }
    print(&args, &salvaged, &set_right)?;
    let is_all = salvaged.losses.is_empty()
        && salvaged.level.is_some()
        && set_right.lost.is_empty()
        && set_right.damaged.is_empty()
        && set_right.lost_resources.is_empty()
        && set_right.damaged_resources.is_empty();
    if is_all { Ok(()) } else { Err(CliError::Incomplete.into()) }
}

/// The working folder until everything is done.
fn unfinished(to: &Path) -> anyhow::Result<PathBuf> {
    let mut name = to.file_name().ok_or_else(|| CliError::Usage("--to names no folder".to_owned()))?.to_owned();
    name.push(".unfinished");
    let unfinished = to.with_file_name(name);
    for folder in [to, &unfinished] {
        if !local::is_empty(folder) {
            return Err(CliError::Usage(format!("there is something in {} already", folder.display())).into());
        }
    }
    Ok(unfinished)
}

async fn copy(source: PathBuf, target: PathBuf) -> anyhow::Result<Salvaged> {
    let bar = progress::bytes(Some(0));
    let summary = bar.clone();
    let copying = tokio::task::spawn_blocking(move || {
        store_embedded::salvage(&source, &target, |progress| {
            summary.set_length(progress.bytes_total.max(progress.bytes));
            summary.set_position(progress.bytes);
        })
    });
    let salvaged = copying.await.context("copying")?;
    bar.finish_and_clear();
    salvaged.map_err(local::cannot_open)
}

async fn set_right(settings: &Settings, folder: &Path, salvaged: &Salvaged) -> anyhow::Result<SetRight> {
    let (options, folder) = (EmbeddedOptions::default(), folder.to_owned());
    let opening = tokio::task::spawn_blocking(move || EmbeddedStore::open(&folder, options, Arc::new(SystemClock)));
    let store: Arc<dyn Store> = opening.await.context("opening the copy")??;
    let library = Library::open(store.clone(), Arc::new(SystemClock), settings.server.library_options()).await?;
    let is_text_incomplete = salvaged.losses.iter().any(|loss| loss.table.lane() == Lane::Text);
    let bar = progress::volumes(0);
    let set_right = library
        .set_right(is_text_incomplete, |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })
        .await;
    bar.finish_and_clear();
    drop(library);
    let losses = salvaged.losses.len();
    audited::note(settings, store.clone(), "salvage", Some(format!("{} rows; {losses} losses", salvaged.rows))).await?;
    store.close().await.context("closing the copy")?;
    Ok(set_right?)
}

/// Whether heads may be lost that nothing names any more: a loss of heads without bounds.
fn may_miss_some(salvaged: &Salvaged) -> bool {
    let is_boundless = |loss: &Loss| loss.table == Table::Objects && loss.after.is_none() && loss.before.is_none();
    salvaged.losses.iter().any(is_boundless)
}

/// The volumes to import again.
fn needed(set_right: &SetRight) -> impl Iterator<Item = String> {
    let damaged = set_right.damaged.iter().map(|verified| &verified.id);
    let mut ids: Vec<String> = set_right.lost.iter().chain(damaged).map(ToString::to_string).collect();
    ids.sort_unstable();
    ids.into_iter()
}

fn print(args: &SalvageArgs, salvaged: &Salvaged, set_right: &SetRight) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if args.output.json {
        let damaged = set_right.damaged.iter().map(|found| json!({"id": found.id, "members": found.damaged.len()}));
        output.json(&json!({
            "rows": salvaged.rows,
            "bytes": salvaged.bytes,
            "contents": salvaged.contents,
            "volumes": set_right.volumes,
            "level": salvaged.level.map(FormatLevel::number),
            "lost": set_right.lost,
            "lost_is_complete": !may_miss_some(salvaged),
            "damaged": damaged.collect::<Vec<_>>(),
            "resources": set_right.resources,
            "lost_resources": set_right.lost_resources.iter().map(|path| format!("/{path}")).collect::<Vec<_>>(),
            "damaged_resources": set_right.damaged_resources.keys().map(|path| format!("/{path}")).collect::<Vec<_>>(),
            "unreadable": salvaged.losses.iter().map(as_json).collect::<Vec<_>>(),
        }))?;
        return output.finish();
    }
    if salvaged.level.is_none() {
        output.line("the file `format` cannot be read: the new store has the newest level")?;
    }
    for loss in &salvaged.losses {
        output.line(summary(loss))?;
    }
    for id in &set_right.lost {
        output.line(format!("lost {id}"))?;
    }
    for found in &set_right.damaged {
        output.line(format!("damaged {}: {} of its members", found.id, found.damaged.len()))?;
    }
    for path in &set_right.lost_resources {
        output.line(format!("lost /{path} of the repository, with all that was in it"))?;
    }
    for (path, why) in &set_right.damaged_resources {
        output.line(format!("damaged /{path} of the repository: {why}"))?;
    }
    output.line(format!("{} resources of the repository", set_right.resources))?;
    output.line(format!(
        "{} volumes, {} of them damaged; {}{} lost ({} rows, {}, in {})",
        set_right.volumes,
        set_right.damaged.len(),
        if may_miss_some(salvaged) { "at least " } else { "" },
        set_right.lost.len(),
        salvaged.rows,
        human_bytes(salvaged.bytes),
        args.to.display(),
    ))?;
    if salvaged.losses.iter().any(|loss| loss.table == Table::Records) {
        output.line("Records between the ids above are lost: import them from an export, or restore a backup.")?;
    }
    if may_miss_some(salvaged) {
        output.line(
            "What else is lost cannot be named: import everything again, and load the repository from a backup.",
        )?;
    } else if !set_right.lost.is_empty() || !set_right.damaged.is_empty() {
        output.line("Import what is lost or damaged again to repair it.")?;
    }
    output.finish()
}

/// The name of a partition for people: the id, if it belongs to a volume.
fn place(partition: Option<&bytes::Bytes>) -> Option<String> {
    let partition = partition?;
    Some(match keys::volume_of_partition(&keys::object_of(partition)) {
        Some(id) => id.to_string(),
        None => partition.escape_ascii().to_string(),
    })
}

fn as_json(loss: &Loss) -> Value {
    json!({
        "table": loss.table.name(),
        "after": place(loss.after.as_ref()),
        "before": place(loss.before.as_ref()),
        "reason": loss.detail,
    })
}

fn summary(loss: &Loss) -> String {
    let bound = |partition| place(partition).unwrap_or_else(|| "the end".to_owned());
    let (after, before) = (bound(loss.after.as_ref()), bound(loss.before.as_ref()));
    format!("unreadable in {}, from {after} to {before}: {}", loss.table, loss.detail)
}
