//! Offsets of everything in an archive of known length.

use crate::entry::{End, EntryHeader};
use crate::layout::PageEntries;
use crate::names::{self, PageNames};
use crate::reader::{members, mismatch, page_count};
use crate::source::{ArchiveError, Pass, Source};
use crate::spec::LIMIT32;
use crate::{Archive, Level, Sums};
use std::ops::Range;

/// Offsets of an archive's parts, computed from sums: 16 bytes per group.
pub(crate) struct Map {
    /// Start of the pages and METS of each group, and as the last element their end.
    pub(crate) groups: Vec<u64>,
    /// The one entry that has the pages of all groups, with its name, if the layout has it.
    pub(crate) one: Option<(&'static str, EntryHeader)>,
    /// Offset of the entry `ERROR.err`, if there is one.
    pub(crate) errors_at: u64,
    /// Start of the central directory's records of each group, and their end, as above. All are
    /// equal if groups have no entries of their own.
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
        let one = archive.one_entry();
        let mut at = one.map_or(0, |(name, entry)| entry.local_len(name.len()));
        for group in 0..archive.groups.len() {
            page_count::<S::Error>(archive, group)?;
            groups.push(at);
            at += local_len(archive, group);
        }
        groups.push(at);
        let errors_at = one.map_or(at, |(name, entry)| entry.len(name.len()));

        let errors = archive.errors.as_ref().map(|text| names::errors_entry(text));
        let central_at = errors_at + errors.map_or(0, |entry| entry.len(names::ERRORS.len()));
        let mut central = Vec::with_capacity(groups.len());
        at = central_at + one.map_or(0, |(name, entry)| entry.central_len(name.len(), 0));
        for (group, &group_at) in groups.iter().enumerate().take(archive.groups.len()) {
            central.push(at);
            at += central_len(archive, source, group, group_at, groups[group + 1]).await?;
        }
        central.push(at);
        at += errors.map_or(0, |entry| entry.central_len(names::ERRORS.len(), errors_at));
        let end = End { entries: archive.entry_count(), central_at, central_len: at - central_at };
        Ok(Self { groups, one, errors_at, central, end })
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

/// Length in bytes of a group's pages and METS: entries, or a part of the one entry.
fn local_len(archive: &Archive, index: usize) -> u64 {
    let (level, group) = (archive.level, &archive.groups[index]);
    let (utf8, sums) = (!group.name.is_ascii(), group.pages.sums());
    let Some(names) = archive.names(index) else { return names::contents_len(level, &sums) };
    let directory_len = names.directory.map_or(0, |name| EntryHeader::directory(name.as_bytes()).len(name.len()));
    let pages_len = match names.pages {
        PageEntries::Apart(names) => {
            let empty = names::joined_entry(level, utf8, &Sums::default(), 0);
            sums.count * empty.len(names.len()) + names::contents_len(level, &sums)
        }
        PageEntries::Joined(name) => archive.joined_entry(index).len(name.len()),
    };
    let mets_len = group.mets.map_or(0, |mets| names::member_entry(level, utf8, &mets).len(names.mets.len()));
    directory_len + pages_len + mets_len
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
    let Some(names) = archive.names(index) else { return Ok(0) };
    let (mut len, mut pages_at) = (0, at);
    if let Some(name) = names.directory {
        let entry = EntryHeader::directory(name.as_bytes());
        len += entry.central_len(name.len(), at);
        pages_at += entry.len(name.len());
    }
    len += match names.pages {
        PageEntries::Apart(names) => pages_central_len(archive, source, index, &names, pages_at..end).await?,
        PageEntries::Joined(name) => archive.joined_entry(index).central_len(name.len(), pages_at),
    };
    if let Some(mets) = group.mets {
        let entry = names::member_entry(level, !group.name.is_ascii(), &mets);
        len += entry.central_len(names.mets.len(), end - entry.len(names.mets.len()));
    }
    Ok(len)
}

/// Length in bytes of the central directory's records of a group's single pages, whose entries
/// are, with that of the METS document, `within` these bytes.
async fn pages_central_len<S: Source>(
    archive: &Archive,
    source: &S,
    index: usize,
    names: &PageNames,
    within: Range<u64>,
) -> Result<u64, ArchiveError<S::Error>> {
    let Range { start: at, end } = within;
    let (level, utf8, name_len) = (archive.level, !archive.groups[index].name.is_ascii(), names.len());
    let empty = names::joined_entry(level, utf8, &Sums::default(), 0);
    let count = page_count(archive, index)?;
    if end <= LIMIT32 || at >= LIMIT32 {
        return Ok(u64::from(count) * empty.central_len(name_len, at));
    }
    let (mut len, mut page_at, mut next) = (0, at, 0);
    while next < count {
        let members = members(archive, source, Pass::Lengths, index, next).await?;
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
