//! The sources of volumes.

use std::fs;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use hathi::{DiscoverError, Mets, PagesOf, VolumeError, VolumeFiles, VolumeId, VolumeParts, VolumeReader};
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

/// A volume to import.
#[derive(Clone, Debug)]
pub enum Source {
    /// Its files.
    Files(VolumeFiles),
    /// Its files, with pages that were replaced, and that its METS does not describe.
    Replaced(VolumeFiles),
    /// A volume in memory.
    Memory(MemoryVolume),
}

impl Source {
    /// The path of its ZIP, if that is a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Files(files) | Self::Replaced(files) => Some(&files.zip),
            Self::Memory(_) => None,
        }
    }

    /// Its id, if known without reading it.
    pub fn id(&self) -> Option<&VolumeId> {
        match self {
            Self::Files(files) | Self::Replaced(files) => files.id.as_ref(),
            Self::Memory(_) => None,
        }
    }

    /// Its id as far as the place of its files or its METS says it, for a report.
    pub fn named(&self) -> Option<VolumeId> {
        let in_mets = || {
            let mets: Bytes = match self {
                // It may be what was refused because of its length.
                Self::Files(files) | Self::Replaced(files) => files.read_mets().ok()?.into(),
                Self::Memory(volume) => volume.mets.clone(),
            };
            Mets::parse(&mets).ok()?.id?.parse().ok()
        };
        self.id().cloned().or_else(in_mets)
    }

    /// Bytes of its ZIP; 0 if the file cannot be examined (reading it will report why).
    pub fn zip_bytes(&self) -> u64 {
        match self {
            Self::Files(files) | Self::Replaced(files) => zip_bytes(files),
            Self::Memory(volume) => volume.zip.len() as u64,
        }
    }

    /// What its pages must agree with.
    pub fn pages(&self) -> PagesOf {
        match self {
            Self::Files(_) | Self::Memory(_) => PagesOf::Mets,
            Self::Replaced(_) => PagesOf::Zip,
        }
    }
}

impl Source {
    /// Reads its id and number of pages, but not the pages.
    pub async fn identify(&self) -> Result<(VolumeId, u64), VolumeError> {
        let source = self.clone();
        let identifying = move || match &source {
            Self::Files(files) | Self::Replaced(files) => identity(files.open()?, source.pages()),
            Self::Memory(volume) => identity(volume.parts(), source.pages()),
        };
        let identified = tokio::task::spawn_blocking(identifying).await;
        identified.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

impl MemoryVolume {
    /// Its parts, from memory.
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

/// The volumes to find in the file system.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// All volumes at these paths or below.
    Paths(Vec<PathBuf>),
    /// Volumes with these ids.
    Ids {
        /// The root of the pairtree they are in.
        root: PathBuf,
        /// The ids.
        ids: Vec<VolumeId>,
    },
}

impl Wanted {
    /// Finds them, one after the other. Each comes with the place of its path or id among those
    /// that are wanted.
    fn find(&self) -> Box<dyn Iterator<Item = (usize, Result<VolumeFiles, DiscoverError>)> + '_> {
        match self {
            Self::Paths(paths) => Box::new(
                (0..).zip(paths).flat_map(|(place, path)| hathi::discover(path).map(move |found| (place, found))),
            ),
            Self::Ids { root, ids } => Box::new((0..).zip(ids).map(|(place, id)| (place, hathi::locate(root, id)))),
        }
    }

    /// Calls `size` with the bytes of each ZIP. This runs ahead of the import, so that the
    /// remaining time is known early without remembering millions of paths.
    pub fn measure(self, size: impl Fn(u64) + Send + 'static) {
        let sizes = move || self.find().flat_map(|(_, found)| found).for_each(|files| size(zip_bytes(&files)));
        tokio::task::spawn_blocking(sizes);
    }

    /// The volumes, found on a thread of its own, some ahead of their import.
    pub fn sources(self) -> impl Stream<Item = Result<Source, FailedVolume>> {
        self.placed_sources().map(|(_, source)| source)
    }

    /// The same, each with the place of its path or id among those that are wanted.
    pub fn placed_sources(self) -> impl Stream<Item = (usize, Result<Source, FailedVolume>)> {
        let (sender, receiver) = mpsc::channel(FOUND_AHEAD);
        tokio::task::spawn_blocking(move || {
            for (place, found) in self.find() {
                let source = found.map(Source::Files).map_err(FailedVolume::from);
                if sender.blocking_send((place, source)).is_err() {
                    return;
                }
            }
        });
        futures::stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
    }

    /// What was not tried if an import began something of so many paths or ids, in their order. It
    /// searches no folder, because that could take hours: a folder of which more may be left is one
    /// entry.
    pub fn rest(&self, begun: usize) -> Vec<FailedVolume> {
        match self {
            Self::Paths(paths) => {
                let may_have_more = |last: &usize| paths.get(*last).is_some_and(|path| path.is_dir());
                let from = begun.checked_sub(1).filter(may_have_more).unwrap_or(begun);
                let rest = paths.get(from..).unwrap_or_default();
                rest.iter().map(|path| FailedVolume::skipped(path, hathi::id_at(path).as_ref())).collect()
            }
            Self::Ids { root, ids } => {
                let rest = ids.get(begun..).unwrap_or_default();
                rest.iter().map(|id| FailedVolume::skipped(&hathi::zip_path(root, id), Some(id))).collect()
            }
        }
    }
}

fn identity<R: Read + Seek>(parts: VolumeParts<R>, pages: PagesOf) -> Result<(VolumeId, u64), VolumeError> {
    let volume = VolumeReader::of(parts, pages)?;
    Ok((volume.id().clone(), volume.page_count() as u64))
}
