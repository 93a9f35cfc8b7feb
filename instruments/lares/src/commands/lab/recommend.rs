//! `lares lab recommend`

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use lab::study::Study;
use lab::yaml::{self, Edits, YamlError};

use super::apply::recommended;
use super::{FolderArgs, refuse_candidate, refuse_simulated, with_exit_code};
use terminal::exit::CliError;
use terminal::output::Output;

/// Arguments of `lares lab recommend`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares lab recommend --folder compaction --workload writes --yaml /etc/cassandra/cassandra.yaml
  lares lab recommend --workload writes --yaml cassandra.yaml | patch --dry-run -p0
  lares lab recommend --workload writes --yaml /etc/cassandra/cassandra.yaml --write")]
pub struct RecommendArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// The workload whose recommendation is taken.
    #[arg(long, value_name = "NAME")]
    workload: String,
    /// Your node's `cassandra.yaml`.
    #[arg(long, value_name = "FILE")]
    yaml: PathBuf,
    /// Change the file. A copy of it, as it is now, stays beside it.
    #[arg(long)]
    write: bool,
    /// Also if the study is of a simulated node: a rehearsal.
    #[arg(long)]
    simulated: bool,
}

/// Prints the difference that the recommendation makes to a file.
pub fn run(args: &RecommendArgs) -> anyhow::Result<()> {
    let study = Study::read(&args.folder.folder).map_err(with_exit_code)?;
    refuse_candidate(&study)?;
    refuse_simulated(&study, args.simulated || !args.write)?;
    let change = recommended(&study, &args.workload)?;
    let edits = yaml::edits(study.plan(), &change.setting);
    let shown = args.yaml.display().to_string();
    let before = fs::read_to_string(&args.yaml).with_context(|| format!("reading {shown}"))?;
    let refused = |error: YamlError| CliError::Usage(format!("{shown} is not changed: {error}"));
    let after = yaml::edited(&before, &edits).map_err(refused)?;
    let differences = yaml::differences(&before, &change.beside).map_err(refused)?;
    let commit_log = yaml::commit_log(&before, &edits).map_err(refused)?;
    let diff = yaml::diff(&shown, &before, &after);
    let mut output = Output::stdout();
    // Its last line may be empty or end with a carriage return, and `patch` needs all of it.
    output.bytes(diff.as_bytes())?;
    output.finish()?;
    report_others(&edits);
    for line in commit_log {
        note!("{shown}: {line}");
    }
    if !differences.is_empty() {
        note!(
            "The change was measured beside other values than {shown} has, so its gain may be another: {}.",
            differences.join("; ")
        );
    }
    if diff.is_empty() {
        if edits.below.is_empty() {
            note!("{shown} has all of it already.");
        }
        return Ok(());
    }
    let back =
        args.folder.folder.join(format!("undo-{}-{}.diff", args.workload, jiff::Timestamp::now().as_microsecond()));
    fs::write(&back, yaml::diff(&shown, &after, &before)).with_context(|| format!("writing {}", back.display()))?;
    note!("The way back, as a difference: {}", back.display());
    if args.write {
        let copy = replace(&args.yaml, &before, &after).with_context(|| format!("changing {shown}"))?;
        note!("{shown} is changed; as it was, it is {}. The node reads it when it starts.", copy.display());
    }
    Ok(())
}

fn report_others(edits: &Edits) {
    if !edits.below.is_empty() {
        let keys: Vec<_> = edits.below.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        note!(
            "To be changed by hand, because it is below another key, no plain value, or needed by one of these: {}.",
            keys.join(", ")
        );
    }
    if !edits.elsewhere.is_empty() {
        note!("Not in this file: {}. `lares lab report` says what to do.", edits.elsewhere.join(", "));
    }
}

/// Replaces the text of a file, which keeps its mode and its owner, and stays whole whenever the
/// process ends. Returns the path of a copy of the file as it was.
fn replace(path: &Path, before: &str, after: &str) -> anyhow::Result<PathBuf> {
    // Not the link to it.
    let path = path.canonicalize()?;
    let folder = path.parent().context("it is in no folder")?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let copy = folder.join(format!("{name}.before-{}", jiff::Timestamp::now().as_second()));
    ensure!(!copy.exists(), "{} is there already", copy.display());
    let metadata = fs::metadata(&path)?;
    for (to, text) in [(&copy, before), (&path, after)] {
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(text.as_bytes())?;
        fs::set_permissions(new.path(), metadata.permissions())?;
        fchown(new.as_file(), Some(metadata.uid()), Some(metadata.gid()))?;
        new.as_file().sync_all()?;
        ensure!(fs::read_to_string(&path)? == before, "somebody else has changed it");
        new.persist(to)?;
    }
    File::open(folder)?.sync_all()?;
    Ok(copy)
}
