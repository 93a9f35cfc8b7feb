//! Where volumes come from.

use std::fs;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::Stream;
use hathi::{VolumeError, VolumeFiles, VolumeId, VolumeParts, VolumeReader};
use tokio::sync::mpsc;

use super::FailedVolume;

/// Volumes that are found ahead of their import.
const FOUND_AHEAD: usize = 64;

/// A volume in memory.
#[derive(Clone, Debug)]
pub struct MemoryVolume {
    /// Its ZIP.
    pub zip: Bytes,
    /// Its METS.
    pub mets: Bytes,
    /// Its record, if it has one.
    pub record: Option<Bytes>,
}

/// A volume that is to be imported.
#[derive(Clone, Debug)]
pub enum Source {
    /// Its files.
    Files(VolumeFiles),
    /// It is in memory.
    Memory(MemoryVolume),
}

impl Source {
    /// Where its ZIP is, if that is a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Files(files) => Some(&files.zip),
            Self::Memory(_) => None,
        }
    }

    /// Its id, where that is known without reading it.
    pub fn id(&self) -> Option<&VolumeId> {
        match self {
            Self::Files(files) => files.id.as_ref(),
            Self::Memory(_) => None,
        }
    }

    /// Bytes of its ZIP; 0 where the file cannot be asked (reading it will tell why).
    pub fn zip_bytes(&self) -> u64 {
        match self {
            Self::Files(files) => zip_bytes(files),
            Self::Memory(volume) => volume.zip.len() as u64,
        }
    }
}

impl Source {
    /// Reads which volume it is, and how many pages it has; the pages themselves are not read.
    pub(super) async fn identify(&self) -> Result<(VolumeId, u64), VolumeError> {
        let source = self.clone();
        let identifying = move || match &source {
            Self::Files(files) => identity(files.open()?),
            Self::Memory(volume) => identity(volume.parts()),
        };
        let identified = tokio::task::spawn_blocking(identifying).await;
        identified.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

impl MemoryVolume {
    /// Its parts, to be read out of memory.
    pub fn parts(&self) -> VolumeParts<Cursor<Bytes>> {
        VolumeParts {
            id: None,
            zip: Cursor::new(self.zip.clone()),
            mets: self.mets.to_vec(),
            record: self.record.as_ref().map(|record| record.to_vec()),
        }
    }
}

fn zip_bytes(files: &VolumeFiles) -> u64 {
    fs::metadata(&files.zip).map_or(0, |metadata| metadata.len())
}

/// The volumes found under some paths, while they are found. `size` is told of each ZIP's bytes by a second, faster search that
/// runs ahead, so that the time left can be told early without remembering millions of paths.
pub fn from_paths(
    paths: Vec<PathBuf>,
    size: impl Fn(u64) + Send + 'static,
) -> impl Stream<Item = Result<Source, FailedVolume>> {
    let measured = paths.clone();
    tokio::task::spawn_blocking(move || {
        measured.iter().flat_map(|path| hathi::discover(path)).flatten().for_each(|files| size(zip_bytes(&files)));
    });
    found(move |send| {
        for volume in paths.iter().flat_map(|path| hathi::discover(path)) {
            if !send(volume.map_err(FailedVolume::from)) {
                return;
            }
        }
    })
}

/// The volumes of a list of ids under a pairtree's root.
pub fn from_ids(
    root: PathBuf,
    ids: Vec<VolumeId>,
    size: impl Fn(u64) + Send + 'static,
) -> impl Stream<Item = Result<Source, FailedVolume>> {
    found(move |send| {
        for id in ids {
            let located = hathi::locate(&root, &id);
            if let Ok(files) = &located {
                size(zip_bytes(files));
            }
            if !send(located.map_err(FailedVolume::from)) {
                return;
            }
        }
    })
}

/// Runs a search on a thread of its own; `send` waits while enough is found ahead, and is false when nobody wants more.
fn found(
    search: impl FnOnce(&dyn Fn(Result<VolumeFiles, FailedVolume>) -> bool) + Send + 'static,
) -> impl Stream<Item = Result<Source, FailedVolume>> {
    let (sender, receiver) = mpsc::channel(FOUND_AHEAD);
    tokio::task::spawn_blocking(move || search(&|found| sender.blocking_send(found.map(Source::Files)).is_ok()));
    futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}

fn identity<R: Read + Seek>(parts: VolumeParts<R>) -> Result<(VolumeId, u64), VolumeError> {
    let volume = VolumeReader::new(parts)?;
    Ok((volume.id().clone(), volume.page_count() as u64))
}
