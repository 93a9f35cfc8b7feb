//! A source with its volumes in memory, for tests and benches of this crate and others.

use crate::archive::{Group, GroupPages};
use crate::{Frame, PageMember, Pass, Source, crc32_combine};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A volume in memory. Cloned frames share their bytes, so one frame is enough for a volume of any
/// size.
#[derive(Clone, Debug)]
pub struct MemoryVolume {
    /// Name of the volume's entries.
    pub name: Box<str>,
    /// The pages in METS order, with their sequence numbers.
    pub pages: Vec<(u32, Frame)>,
    /// Indexes into `pages` that an archive requests, in order. `None` for all, as
    /// [`GroupPages::All`].
    pub selected: Option<Vec<usize>>,
    /// The METS document, if requested.
    pub mets: Option<Frame>,
}

/// Error of a source in memory: a page or a METS document that it was set to miss.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("nothing is stored of group {group}, page {page:?}")]
pub struct MissingError {
    /// Index of the group.
    pub group: usize,
    /// Index of the page; `None` for the METS document.
    pub page: Option<u32>,
}

/// Volumes in memory, as the groups of an archive, with counters of calls.
#[derive(Debug)]
pub struct MemorySource {
    volumes: Vec<MemoryVolume>,
    piece_bytes: usize,
    missing: Vec<(usize, Option<u32>)>,
    late_errors: Option<Bytes>,
    frames_read: AtomicU64,
    members_read: AtomicU64,
    groups_begun: AtomicU64,
}

impl MemoryVolume {
    /// The frames of an archive, in its order.
    fn wanted(&self) -> Box<dyn ExactSizeIterator<Item = &(u32, Frame)> + Send + '_> {
        match &self.selected {
            None => Box::new(self.pages.iter()),
            Some(selected) => Box::new(selected.iter().map(|&index| &self.pages[index])),
        }
    }

    fn wanted_at(&self, index: u32) -> &(u32, Frame) {
        let index = index as usize;
        &self.pages[self.selected.as_ref().map_or(index, |selected| selected[index])]
    }

    /// The volume as a group of an archive.
    pub fn group(&self) -> Group {
        let members = self.wanted().map(|(seq, frame)| PageMember { seq: *seq, member: frame.member() });
        let members: Box<[PageMember]> = members.collect();
        let pages = if self.selected.is_some() {
            GroupPages::Some(members)
        } else {
            let joined =
                |crc32, page: &PageMember| crc32_combine(crc32, page.member.crc32, u64::from(page.member.size));
            let crc32 = members.iter().fold(0, joined);
            GroupPages::All { sums: members.iter().map(|page| &page.member).collect(), crc32 }
        };
        Group { name: self.name.clone(), pages, mets: self.mets.as_ref().map(Frame::member) }
    }
}

impl MemorySource {
    /// A source of these volumes with pieces of 256 KiB.
    pub fn new(volumes: Vec<MemoryVolume>) -> Self {
        Self {
            volumes,
            piece_bytes: 256 * 1024,
            missing: Vec::new(),
            late_errors: None,
            frames_read: AtomicU64::new(0),
            members_read: AtomicU64::new(0),
            groups_begun: AtomicU64::new(0),
        }
    }

    /// With pieces of another length in bytes.
    pub fn with_piece_bytes(mut self, piece_bytes: usize) -> Self {
        self.piece_bytes = piece_bytes;
        self
    }

    /// Makes a page unreadable: a group and the index of a page in it, or `None` for its METS
    /// document. In report mode it is left out, and `late_errors` is the text of `ERROR.err`.
    pub fn with_missing(mut self, group: usize, page: Option<u32>, late_errors: &str) -> Self {
        self.missing.push((group, page));
        self.late_errors = Some(Bytes::copy_from_slice(late_errors.as_bytes()));
        self
    }

    /// The volumes.
    pub fn volumes(&self) -> &[MemoryVolume] {
        &self.volumes
    }

    /// The groups of an archive of all volumes.
    pub fn groups(&self) -> Vec<Group> {
        self.volumes.iter().map(MemoryVolume::group).collect()
    }

    /// Number of frames read, METS included.
    pub fn frames_read(&self) -> u64 {
        self.frames_read.load(Relaxed)
    }

    /// Number of members read.
    pub fn members_read(&self) -> u64 {
        self.members_read.load(Relaxed)
    }

    /// How often the contents of a group were started.
    pub fn groups_begun(&self) -> u64 {
        self.groups_begun.load(Relaxed)
    }

    fn check(&self, group: usize, page: Option<u32>) -> Result<(), MissingError> {
        if self.missing.contains(&(group, page)) { Err(MissingError { group, page }) } else { Ok(()) }
    }
}

#[async_trait]
impl Source for MemorySource {
    type Error = MissingError;

    async fn members(&self, _pass: Pass, group: usize, pages: Range<u32>) -> Result<Vec<PageMember>, MissingError> {
        self.members_read.fetch_add(u64::from(pages.end - pages.start), Relaxed);
        let volume = &self.volumes[group];
        let member = |page| {
            let (seq, frame) = volume.wanted_at(page);
            PageMember { seq: *seq, member: frame.member() }
        };
        Ok(pages.map(member).collect())
    }

    async fn frames(&self, group: usize, pages: Range<u32>, max_bytes: usize) -> Result<Vec<Bytes>, MissingError> {
        let volume = &self.volumes[group];
        let (mut frames, mut bytes) = (Vec::new(), 0);
        for page in pages {
            let frame = &volume.wanted_at(page).1.bytes;
            bytes += frame.len();
            if !frames.is_empty() && bytes > max_bytes {
                break;
            }
            self.check(group, Some(page))?;
            frames.push(frame.clone());
        }
        self.frames_read.fetch_add(frames.len() as u64, Relaxed);
        Ok(frames)
    }

    async fn mets_frame(&self, group: usize) -> Result<Bytes, MissingError> {
        self.check(group, None)?;
        self.frames_read.fetch_add(1, Relaxed);
        let mets = self.volumes[group].mets.as_ref();
        mets.map(|frame| frame.bytes.clone()).ok_or(MissingError { group, page: None })
    }

    async fn before_group(&self, _group: usize) -> Result<(), MissingError> {
        self.groups_begun.fetch_add(1, Relaxed);
        Ok(())
    }

    fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    fn omit(&self, group: usize, page: u32, _error: &MissingError) -> bool {
        self.missing.contains(&(group, Some(page)))
    }

    fn omit_mets(&self, group: usize, _error: &MissingError) -> bool {
        self.missing.contains(&(group, None))
    }

    fn late_errors(&self) -> Option<Bytes> {
        self.late_errors.clone()
    }
}
