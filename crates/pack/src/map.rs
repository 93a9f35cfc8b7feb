//! Offsets of everything in an archive of known length.

use crate::entry::{End, Entry};
use crate::names::{self, PageNames};
use crate::reader::{members, mismatch, page_count};
use crate::source::{ArchiveError, Source};
use crate::spec::LIMIT32;
use crate::{Archive, Layout, Level, Sums, crc32_combine};
use std::ops::Range;

/// Offsets of an archive's parts, computed from sums: 16 bytes per group.
pub(crate) struct Map {
    /// Start of the pages and METS of each group, and as the last element their end.
    pub(crate) groups: Vec<u64>,
    /// The entry of [`Layout::WordSeq`].
    pub(crate) wordseq: Option<Entry>,
    /// Offset of the entry `ERROR.err`, if there is one.
    pub(crate) errors_at: u64,
    /// Start of the central directory's records of each group, and their end, as above. With
    /// [`Layout::WordSeq`] all are equal.
    pub(crate) central: Vec<u64>,
    /// The end, with the place of the whole central directory.
    pub(crate) end: End,
}

impl Map {
    /// Whether an archive's length can be known beforehand.
    pub(crate) fn is_possible(archive: &Archive) -> bool {
        !archive.descriptors && !matches!(archive.level, Level::Recompressed(_))
    }

    /// Places everything. It asks the source for members only of a group of single pages that
    /// crosses 4 GiB, because the central directory's records grow from there on.
    pub(crate) async fn new<S: Source>(archive: &Archive, source: &S) -> Result<Self, ArchiveError<S::Error>> {
        let mut groups = Vec::with_capacity(archive.groups.len() + 1);
        let wordseq = wordseq_entry(archive);
        let mut at = wordseq.map_or(0, |entry| entry.local_len(names::WORDSEQ.len()));
        for group in 0..archive.groups.len() {
            page_count::<S::Error>(archive, group)?;
            groups.push(at);
            at += local_len(archive, group);
        }
        groups.push(at);
        let errors_at = if let Some(entry) = wordseq { entry.len(names::WORDSEQ.len()) } else { at };

        let errors = archive.errors.as_ref().map(|text| names::errors_entry(text));
        let central_at = errors_at + errors.map_or(0, |entry| entry.len(names::ERRORS.len()));
        let mut central = Vec::with_capacity(groups.len());
        at = central_at + wordseq.map_or(0, |entry| entry.central_len(names::WORDSEQ.len(), 0));
        for (group, &group_at) in groups.iter().enumerate().take(archive.groups.len()) {
            central.push(at);
            at += central_len(archive, source, group, group_at, groups[group + 1]).await?;
        }
        central.push(at);
        at += errors.map_or(0, |entry| entry.central_len(names::ERRORS.len(), errors_at));
        let end = End { entries: archive.entry_count(), central_at, central_len: at - central_at };
        Ok(Self { groups, wordseq, errors_at, central, end })
    }

    /// Offset of the central directory's record of `ERROR.err`, if there is one.
    pub(crate) fn central_errors_at(&self) -> u64 {
        self.central.last().copied().unwrap_or(self.end.central_at)
    }

    /// The groups whose pages or METS lie in a range of the archive, at least in part.
    pub(crate) fn groups_within(&self, range: &Range<u64>) -> Range<usize> {
        let (starts, ends) = (&self.groups[..self.groups.len() - 1], &self.groups[1..]);
        let first = ends.partition_point(|&end| end <= range.start);
        first..starts.partition_point(|&start| start < range.end).max(first)
    }

    /// Length of the whole archive in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.end.central_at + self.end.central_len + self.end.len()
    }
}

/// The one entry of [`Layout::WordSeq`], if the archive has it; its sizes in the local header.
pub(crate) fn wordseq_entry(archive: &Archive) -> Option<Entry> {
    if archive.layout != Layout::WordSeq || archive.groups.is_empty() {
        return None;
    }
    let (mut sums, mut crc32) = (Sums::default(), 0);
    for group in &archive.groups {
        let of_group = group.pages.sums();
        crc32 = crc32_combine(crc32, group.pages.crc32(), of_group.bytes);
        sums.add(of_group);
    }
    Some(names::joined_entry(archive.level, false, &sums, crc32))
}

/// The text entry of a group in [`Layout::Volumes`], its sizes in the local header.
pub(crate) fn text_entry(archive: &Archive, group: usize) -> Entry {
    let group = &archive.groups[group];
    names::joined_entry(archive.level, !group.name.is_ascii(), &group.pages.sums(), group.pages.crc32())
}

/// Length in bytes of a group's pages and METS: entries, or with [`Layout::WordSeq`] a part of the
/// one entry.
fn local_len(archive: &Archive, index: usize) -> u64 {
    let (level, group) = (archive.level, &archive.groups[index]);
    let utf8 = !group.name.is_ascii();
    let sums = group.pages.sums();
    let pages = match archive.layout {
        Layout::Pages => {
            let directory = names::directory(group);
            let empty = names::joined_entry(level, utf8, &Sums::default(), 0);
            let entry_overhead = empty.len(PageNames::new(group).len());
            let directory_len = Entry::directory(&directory).len(directory.len());
            directory_len + sums.count * entry_overhead + names::contents_len(level, &sums)
        }
        Layout::Volumes => text_entry(archive, index).len(names::text(group).len()),
        Layout::WordSeq => names::contents_len(level, &sums),
    };
    let mets = names::mets_of(archive.layout, group);
    let mets_name_len = names::mets(archive.layout, group).len();
    pages + mets.map_or(0, |mets| names::member_entry(level, utf8, &mets).len(mets_name_len))
}

/// Length in bytes of the central directory's records of a group that lies from `at` to `end`.
async fn central_len<S: Source>(
    archive: &Archive,
    source: &S,
    index: usize,
    at: u64,
    end: u64,
) -> Result<u64, ArchiveError<S::Error>> {
    let (level, group) = (archive.level, &archive.groups[index]);
    let utf8 = !group.name.is_ascii();
    let pages = match archive.layout {
        Layout::Pages => {
            let directory = names::directory(group);
            let entry = Entry::directory(&directory);
            let directory_len = entry.central_len(directory.len(), at);
            let pages_at = at + entry.len(directory.len());
            directory_len + pages_central_len(archive, source, index, pages_at, end).await?
        }
        Layout::Volumes => text_entry(archive, index).central_len(names::text(group).len(), at),
        Layout::WordSeq => 0,
    };
    let Some(mets) = names::mets_of(archive.layout, group) else { return Ok(pages) };
    let (entry, name_len) = (names::member_entry(level, utf8, &mets), names::mets(archive.layout, group).len());
    Ok(pages + entry.central_len(name_len, end - entry.len(name_len)))
}

/// Length in bytes of the central directory's records of a group's single pages, whose entries
/// begin at `at` and, with the METS document, end at `end`.
async fn pages_central_len<S: Source>(
    archive: &Archive,
    source: &S,
    index: usize,
    at: u64,
    end: u64,
) -> Result<u64, ArchiveError<S::Error>> {
    let (level, group) = (archive.level, &archive.groups[index]);
    let utf8 = !group.name.is_ascii();
    let name_len = PageNames::new(group).len();
    let empty = names::joined_entry(level, utf8, &Sums::default(), 0);
    let count = page_count(archive, index)?;
    if end <= LIMIT32 || at >= LIMIT32 {
        return Ok(u64::from(count) * empty.central_len(name_len, at));
    }
    let (mut len, mut page_at, mut next) = (0, at, 0);
    while next < count {
        let members = members(archive, source, index, next).await?;
        for page in members.iter() {
            let entry = names::member_entry(level, utf8, &page.member);
            len += entry.central_len(name_len, page_at);
            page_at += entry.len(name_len);
        }
        next += members.len() as u32;
    }
    if page_at > end {
        return Err(mismatch(archive, index, "its members are longer than its sums say"));
    }
    Ok(len)
}
