//! The runs of an archive as a portal takes them: whole, or not at all and with the reason.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::data;
use super::folder::{Folder, failed};
use super::row::Row;
use super::{PortalError, Refused};
use crate::archive::{ArchiveError, ArchivedRun, UNFINISHED};
use crate::record::RunRecord;
use crate::report::{self, Ceiling};

/// What identifies the content of a bag. It is published, so that a reader can compare downloads.
const MANIFEST: &str = "manifest-sha256.txt";
/// The most bytes of it: some thousand workers.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// The row of a run in its folder, for the next publication.
const ROW: &str = "run.json";
/// The data for comparisons.
pub(super) const DATA: &str = "data.js";
/// The report, which the portal makes from the run's data. Scripts of a page that the run has brought along
/// would do what those of the portal may do.
pub(super) const REPORT: &str = "report.html";
/// What is copied from a run.
pub(super) const COPIED: [&str; 5] = ["summary.json", "record.json", "seconds.csv", "latencies.hlog", "plan.toml"];

/// Why a run is not published.
pub(super) enum Failure {
    /// The archive's fault.
    Refused(String),
    /// The portal cannot be written.
    Portal(PortalError),
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<PortalError> for Failure {
    fn from(error: PortalError) -> Self {
        Self::Portal(error)
    }
}

/// The name of the plan, whatever else this version or another one says there.
#[derive(Deserialize)]
struct Plan {
    name: String,
}

/// The runs of an archive, the newest first, and what else its folders hold.
pub(super) fn runs(archive: &Path) -> Result<(Vec<ArchivedRun>, Vec<Refused>), PortalError> {
    let runs = ArchivedRun::all(archive)?;
    let is_run = |folder: &PathBuf| runs.iter().any(|run| run.folder() == folder);
    let mut folders: Vec<_> = fs::read_dir(archive)
        .map_err(failed(archive))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed(archive))?;
    folders.retain(|folder| folder.is_dir() && !is_run(folder));
    folders.sort_unstable();
    let refused = |folder: &PathBuf| {
        let name = name(folder);
        let reason = match name.ends_with(UNFINISHED) {
            true => "the run is not finished, or was interrupted",
            false => "it is no bag with the record of a run",
        };
        Refused { name, reason: reason.to_owned() }
    };
    let refused = folders.iter().map(refused).collect();
    Ok((runs, refused))
}

/// The name of a folder.
pub(super) fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A file of a run that was not compared with its digests yet: a plain one, and not a long one.
fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let found = fs::symlink_metadata(path)?;
    match found.is_file() && found.len() <= MANIFEST_BYTES_MAX {
        true => fs::read(path),
        false => Err(io::Error::other("it is no file, or too long")),
    }
}

/// Publishes a run, unless the same bag was published before. Returns its row, with the ceiling of its
/// report. `ceiling` is that of the generator of a run.
pub(super) fn publish(
    run: &ArchivedRun,
    folder: &Folder,
    ceiling: impl Fn(&RunRecord) -> Option<Ceiling>,
) -> Result<Row, Failure> {
    let (id, manifest) = identified(run)?;
    match published(&folder.run(&id), &manifest) {
        Some(row) => Ok(row),
        None => write(run, folder, (&id, &manifest), ceiling),
    }
}

/// Publishes a run again, because the ceiling of its generator is another one than that of its report.
pub(super) fn publish_again(run: &ArchivedRun, folder: &Folder, ceiling: Option<Ceiling>) -> Result<Row, Failure> {
    let (id, manifest) = identified(run)?;
    write(run, folder, (&id, &manifest), |_| ceiling.clone())
}

/// The id of a run, and what identifies its content.
fn identified(run: &ArchivedRun) -> Result<(String, Vec<u8>), Failure> {
    let id = name(run.folder());
    if !is_plain(&id) {
        return Err(Failure::Refused("its name has other signs than letters, digits, and . _ -".to_owned()));
    }
    let manifest = run.folder().join(MANIFEST);
    let manifest = read_plain(&manifest).map_err(|error| Failure::Refused(format!("{MANIFEST}: {error}")))?;
    Ok((id, manifest))
}

/// Compares all files of a run with their digests, and writes its folder.
fn write(
    run: &ArchivedRun,
    folder: &Folder,
    (id, manifest): (&str, &[u8]),
    ceiling: impl Fn(&RunRecord) -> Option<Ceiling>,
) -> Result<Row, Failure> {
    run.verify()?;
    let record = run.record()?;
    if record.id != id {
        return Err(Failure::Refused(format!("it holds the run {}", record.id)));
    }
    let plan_toml = run.text("plan.toml")?;
    let plan: Plan = toml::from_str(&plan_toml).map_err(|error| Failure::Refused(format!("plan.toml: {error}")))?;
    let outcome = run.outcome()?;
    let row = Row { ceiling: ceiling(&record), ..Row::new(&record, &outcome, plan.name) };
    let mut seconds = run.seconds()?;
    seconds.sort_by_key(|second| second.at_s);
    let data = data::script(run, &record, &seconds, &plan_toml);
    let report = report::page(&report::Inputs {
        record: &record,
        judgement: &outcome.judgement,
        summary: &outcome.summary,
        seconds: &seconds,
        monitors: &run.monitors()?,
        events: &run.marks()?,
        plan_toml: &plan_toml,
        logs: &outcome.logs().collect::<Vec<_>>(),
        ceiling: row.ceiling.clone(),
        files: &COPIED,
    });

    let new = folder.begin_run()?;
    for name in COPIED {
        // Whether the archive or the portal is at fault, the run is not published.
        fs::copy(run.folder().join("data").join(name), new.path().join(name))
            .map_err(|error| Failure::Refused(format!("{name}: {error}")))?;
    }
    let json = serde_json::to_vec(&row).map_err(|error| Failure::Refused(error.to_string()))?;
    let written = [(REPORT, report.as_bytes()), (DATA, data.as_bytes()), (ROW, &json), (MANIFEST, manifest)];
    for (name, content) in written {
        let path = new.path().join(name);
        fs::write(&path, content).map_err(failed(&path))?;
    }
    folder.add_run(id, new)?;
    Ok(row)
}

/// The row of a run of which this bag was published.
fn published(folder: &Path, manifest: &[u8]) -> Option<Row> {
    if fs::read(folder.join(MANIFEST)).ok()? != manifest {
        return None;
    }
    serde_json::from_slice(&fs::read(folder.join(ROW)).ok()?).ok()
}

/// Whether a name is the same in a path, a URL and a fragment.
fn is_plain(name: &str) -> bool {
    !name.starts_with('.') && name.chars().all(|sign| sign.is_ascii_alphanumeric() || "._-".contains(sign))
}
