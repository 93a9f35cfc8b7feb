//! Failed volumes with reasons, reported to the user and in a list for programs.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use hathi::{DiscoverError, VolumeError, VolumeId};
use heads::ObjectsError;
use indexmap::IndexSet;
use serde::Serialize;
use serde_json::Value;
use store::StoreError;
use tempfile::NamedTempFile;

use crate::client::ClientError;
use crate::exit::{self, CliError};

/// A volume that could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedVolume {
    /// The path of its files, if it has files. Invalid UTF-8 is replaced.
    pub path: Option<String>,
    /// Its id, if known.
    pub id: Option<VolumeId>,
    /// The kind of failure, as a word.
    pub kind: &'static str,
    /// What went wrong, for people.
    pub reason: String,
    /// Whether no other volume could be imported either (as with a full disk).
    #[serde(skip)]
    pub stops_all: bool,
}

impl FailedVolume {
    fn new(kind: &'static str, error: &(dyn std::error::Error + 'static)) -> Self {
        Self { path: None, id: None, kind, reason: exit::full_message(error), stops_all: false }
    }

    /// A volume that the import did not come to, or a folder of which it may have left some.
    pub(super) fn skipped(path: &Path, id: Option<&VolumeId>) -> Self {
        let reason = "it was not tried, or not all of it: the import ended before".to_owned();
        Self { path: None, id: None, kind: "skipped", reason, stops_all: false }.of(Some(path), id)
    }

    /// Adds path and id.
    pub fn of(mut self, path: Option<&Path>, id: Option<&VolumeId>) -> Self {
        self.path = self.path.or(path.map(|path| path.to_string_lossy().into_owned()));
        self.id = self.id.or(id.cloned());
        self
    }
}

impl From<VolumeError> for FailedVolume {
    fn from(error: VolumeError) -> Self {
        Self::new(error.kind(), &error)
    }
}

impl From<DiscoverError> for FailedVolume {
    fn from(error: DiscoverError) -> Self {
        let (kind, path, id) = match &error {
            DiscoverError::MissingMets { zip, .. } => ("missing-mets", Some(zip), None),
            DiscoverError::MissingZip { mets, .. } => ("missing-zip", Some(mets), None),
            DiscoverError::NoSuchVolume { id, zip } => ("not-found", Some(zip), Some(id)),
            DiscoverError::Name { path, .. } => ("name", Some(path), None),
            DiscoverError::NotAVolume(path) | DiscoverError::NotAFile(path) => ("not-a-volume", Some(path), None),
            DiscoverError::Io { path, .. } => ("io", Some(path), None),
        };
        let named = path.and_then(|path| hathi::id_at(path));
        Self::new(kind, &error).of(path.map(PathBuf::as_path), id.or(named.as_ref()))
    }
}

impl From<ObjectsError> for FailedVolume {
    fn from(error: ObjectsError) -> Self {
        let kind = match &error {
            ObjectsError::Source(source) => source.kind(),
            ObjectsError::Conflict(_) => "conflict",
            ObjectsError::OverLimit(_) | ObjectsError::Store(StoreError::Limit { .. }) => "over-limit",
            ObjectsError::Unknown(_) => "unknown",
            ObjectsError::Store(StoreError::Full(_)) => "full",
            _ if error.is_passing() => "unavailable",
            _ if error.is_damage() => "damaged",
            _ => "store",
        };
        let stops_all = matches!(
            &error,
            ObjectsError::Store(StoreError::Full(_) | StoreError::Poisoned(_) | StoreError::ReadOnly(_))
        );
        Self { stops_all, ..Self::new(kind, &error) }
    }
}

impl From<ClientError> for FailedVolume {
    fn from(error: ClientError) -> Self {
        let kind = match error.status().map(|status| status.as_u16()) {
            None if error.passing_after().is_some() => "unreachable",
            Some(401 | 403) => "not-allowed",
            Some(409) => "conflict",
            Some(413) => "over-limit",
            Some(400 | 415 | 422) => "refused",
            Some(504) => "unknown",
            Some(507) => "full",
            Some(429 | 503) => "unavailable",
            _ => "server",
        };
        Self { stops_all: error.stops_all(), ..Self::new(kind, &error) }
    }
}

/// The paths in a list that an earlier import wrote, each once.
pub fn failed_paths(list: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = |why: String| CliError::Usage(format!("the list {} cannot be read: {why}", list.display()));
    let text = std::fs::read_to_string(list).map_err(|error| cannot(error.to_string()))?;
    let mut paths = IndexSet::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let failed: Value = serde_json::from_str(line).map_err(|error| cannot(format!("line {number}: {error}")))?;
        let path = failed["path"].as_str().ok_or_else(|| cannot(format!("line {number} has no path")))?;
        paths.insert(PathBuf::from(path));
    }
    match paths.is_empty() {
        true => Err(cannot("it names no volume".to_owned()).into()),
        false => Ok(paths.into_iter().collect()),
    }
}

/// The list of failed volumes.
pub struct FailedList {
    to: To,
}

/// Where a list is written, besides standard error.
enum To {
    Nowhere,
    /// A file, which was empty or not there.
    File(File),
    /// A file that is to replace the one at this path.
    Beside(NamedTempFile, PathBuf),
}

impl FailedList {
    /// A list on standard error alone.
    pub fn shown() -> Self {
        Self { to: To::Nowhere }
    }

    /// A list on standard error and in `file`: one JSON object per line, each written at once. If the
    /// import reads `again`, the list of an earlier one, and that is the same file, its contents stay
    /// until [`finish`](Self::finish).
    pub fn new(file: Option<&Path>, again: Option<&Path>) -> anyhow::Result<Self> {
        let Some(file) = file else { return Ok(Self::shown()) };
        let making = || format!("making {}", file.display());
        let place = |path: &Path| path.canonicalize().ok();
        let to = match place(file).filter(|place_of_file| again.and_then(place).as_ref() == Some(place_of_file)) {
            None => To::File(File::create(file).with_context(making)?),
            Some(replaced) => {
                let folder = replaced.parent().unwrap_or(Path::new("/"));
                let permissions = replaced.metadata().with_context(making)?.permissions();
                let beside = tempfile::Builder::new().prefix(".penates.").suffix(".unfinished").tempfile_in(folder);
                let beside = beside.with_context(making)?;
                beside.as_file().set_permissions(permissions).with_context(making)?;
                To::Beside(beside, replaced)
            }
        };
        Ok(Self { to })
    }

    /// Completes its file, once the import has ended.
    pub fn finish(self) -> anyhow::Result<()> {
        if let To::Beside(file, replaced) = self.to {
            file.persist(&replaced).with_context(|| format!("replacing {}", replaced.display()))?;
        }
        Ok(())
    }

    /// Adds a volume.
    pub fn add(&mut self, volume: &FailedVolume) -> anyhow::Result<()> {
        let name = volume.id.as_ref().map(ToString::to_string).or(volume.path.clone()).unwrap_or_default();
        note!("failed: {name}: {}", exit::without_name(&volume.reason, &name));
        self.write(volume)
    }

    /// Adds what was not tried, to its file alone.
    pub fn skip(&mut self, skipped: &[FailedVolume]) -> anyhow::Result<()> {
        skipped.iter().try_for_each(|volume| self.write(volume))
    }

    fn write(&mut self, volume: &FailedVolume) -> anyhow::Result<()> {
        let file = match &mut self.to {
            To::Nowhere => return Ok(()),
            To::File(file) => file,
            To::Beside(file, _) => file.as_file_mut(),
        };
        let mut line = serde_json::to_vec(volume).context("encoding a failure")?;
        line.push(b'\n');
        file.write_all(&line).context("writing the list of failures")
    }
}
