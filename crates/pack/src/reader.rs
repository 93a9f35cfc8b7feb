//! Reading from a source, and comparing every answer with the archive.

use crate::archive::MAX_SEQ;
use crate::frame::MAX_TEXT_BYTES;
use crate::source::{ArchiveError, MEMBERS_PER_CALL, Pass, Source};
use crate::spec::MAX_NAME_BYTES;
use crate::{Archive, GroupPages, Level, Member, PageMember};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;

/// Text per job of the pool, in bytes (or one page, if it is longer).
pub(crate) const JOB_TEXT_BYTES: u64 = 256 * 1024;

/// Longest frame of a member in bytes. Incompressible text grows by far less.
const FRAME_MAX_BYTES: u32 = MAX_TEXT_BYTES + MAX_TEXT_BYTES / 16;

/// An archive with its source.
pub(crate) struct Reader<S> {
    pub(crate) archive: Arc<Archive>,
    pub(crate) source: Arc<S>,
}

impl<S> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Self { archive: self.archive.clone(), source: self.source.clone() }
    }
}

impl<S: Source> Reader<S> {
    pub(crate) fn mismatch(&self, group: usize, reason: &'static str) -> ArchiveError<S::Error> {
        mismatch(&self.archive, group, reason)
    }

    /// A batch of members of a group that begins with the page `from`.
    pub(crate) async fn members(
        &self,
        pass: Pass,
        group: usize,
        from: u32,
    ) -> Result<Cow<'_, [PageMember]>, ArchiveError<S::Error>> {
        members(&self.archive, &*self.source, pass, group, from).await
    }

    /// The frames of the first of some pages, `from` being the index of the first. Where the frames
    /// have to be inflated, no more than what makes one job.
    pub(crate) async fn frames(
        &self,
        group: usize,
        from: u32,
        pages: &[PageMember],
        max_bytes: usize,
    ) -> Result<Vec<Bytes>, ArchiveError<S::Error>> {
        let pages = if self.archive.level == Level::Frames { pages } else { &pages[..job_len(pages)] };
        let to = from + pages.len() as u32;
        let frames = self.source.frames(group, from..to, max_bytes).await.map_err(ArchiveError::Source)?;
        if frames.is_empty() || frames.len() > pages.len() {
            return Err(self.mismatch(group, "another number of frames than asked for"));
        }
        for (frame, page) in frames.iter().zip(pages) {
            self.check_frame(group, frame, &page.member)?;
        }
        Ok(frames)
    }

    /// The frame of a group's METS document.
    pub(crate) async fn mets_frame(&self, group: usize, mets: &Member) -> Result<Bytes, ArchiveError<S::Error>> {
        let frame = self.source.mets_frame(group).await.map_err(ArchiveError::Source)?;
        self.check_frame(group, &frame, mets)?;
        Ok(frame)
    }

    fn check_frame(&self, group: usize, frame: &Bytes, member: &Member) -> Result<(), ArchiveError<S::Error>> {
        if frame.len() == member.frame_len as usize {
            Ok(())
        } else {
            Err(self.mismatch(group, "a frame has another length than its member says"))
        }
    }
}

/// How many of some pages form one job: at least one.
fn job_len(pages: &[PageMember]) -> usize {
    let mut text_bytes = 0;
    let fit = pages.iter().take_while(|page| {
        text_bytes += u64::from(page.member.size);
        text_bytes <= JOB_TEXT_BYTES
    });
    fit.count().max(1).min(pages.len())
}

pub(crate) fn mismatch<E: std::error::Error>(archive: &Archive, group: usize, reason: &'static str) -> ArchiveError<E> {
    ArchiveError::Mismatch { group: archive.groups[group].name.clone(), reason }
}

/// Number of pages of a group, after checking the group's description.
pub(crate) fn page_count<E: std::error::Error>(archive: &Archive, group: usize) -> Result<u32, ArchiveError<E>> {
    let described = &archive.groups[group];
    if described.name.len() > MAX_NAME_BYTES {
        return Err(mismatch(archive, group, "its name is too long"));
    }
    if described.mets.is_some_and(|mets| !is_in_range(&mets)) {
        return Err(mismatch(archive, group, "its METS document is too long"));
    }
    u32::try_from(described.pages.sums().count).map_err(|_| mismatch(archive, group, "it has too many pages"))
}

/// A batch of members of a group that begins with the page `from`: at least one, unless the pages
/// end before.
pub(crate) async fn members<'a, S: Source>(
    archive: &'a Archive,
    source: &S,
    pass: Pass,
    group: usize,
    from: u32,
) -> Result<Cow<'a, [PageMember]>, ArchiveError<S::Error>> {
    let members = match &archive.groups[group].pages {
        GroupPages::Some(pages) => {
            let from = pages.len().min(from as usize);
            let to = pages.len().min(from + MEMBERS_PER_CALL as usize);
            Cow::Borrowed(&pages[from..to])
        }
        GroupPages::All { .. } => {
            let to = page_count(archive, group)?.min(from.saturating_add(MEMBERS_PER_CALL));
            if from >= to {
                return Ok(Cow::Borrowed(&[]));
            }
            let members = source.members(pass, group, from..to).await.map_err(ArchiveError::Source)?;
            if members.len() != (to - from) as usize {
                return Err(mismatch(archive, group, "another number of members than asked for"));
            }
            Cow::Owned(members)
        }
    };
    if members.iter().all(|page| page.seq <= MAX_SEQ && is_in_range(&page.member)) {
        Ok(members)
    } else {
        Err(mismatch(archive, group, "a page's number or length is out of range"))
    }
}

fn is_in_range(member: &Member) -> bool {
    member.size <= MAX_TEXT_BYTES && member.frame_len <= FRAME_MAX_BYTES
}

/// Reads the pages of a group run by run. In report mode it skips those that are left out.
pub(crate) struct PageRuns {
    group: usize,
    count: u32,
    batch: Vec<PageMember>,
    /// Index of the batch's first page that has not been read.
    next: u32,
    /// Set if a page of the batch could not be read. The rest is then read page by page, to find
    /// out which.
    is_careful: bool,
}

impl PageRuns {
    pub(crate) fn new(group: usize, count: u32) -> Self {
        Self { group, count, batch: Vec::new(), next: 0, is_careful: false }
    }

    /// Some pages with their index and frame; `None` after the last.
    pub(crate) async fn next<S: Source>(
        &mut self,
        reader: &Reader<S>,
    ) -> Result<Option<Vec<(u32, PageMember, Bytes)>>, ArchiveError<S::Error>> {
        loop {
            if self.batch.is_empty() {
                if self.next >= self.count {
                    return Ok(None);
                }
                self.batch = reader.members(Pass::Contents, self.group, self.next).await?.into_owned();
                self.is_careful = false;
            }
            let asked = if self.is_careful { &self.batch[..1] } else { &self.batch[..] };
            let is_single = asked.len() == 1;
            match reader.frames(self.group, self.next, asked, reader.source.piece_bytes()).await {
                Ok(frames) => {
                    let first = self.next;
                    self.next += frames.len() as u32;
                    let pages = self.batch.drain(..frames.len());
                    return Ok(Some(
                        (first..).zip(pages).zip(frames).map(|((i, page), frame)| (i, page, frame)).collect(),
                    ));
                }
                Err(ArchiveError::Source(_)) if reader.archive.descriptors && !is_single => self.is_careful = true,
                Err(ArchiveError::Source(error))
                    if reader.archive.descriptors && reader.source.omit(self.group, self.next, &error) =>
                {
                    self.batch.remove(0);
                    self.next += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
