//! Marks on single versions: that a client asked for one, and that one was removed.
//!
//! Where versions are kept only if a client asks for them ([`Keep::Explicit`]), a version is one
//! that has a mark. Elsewhere each head that the policy keeps is a version, unless it has a mark
//! that it was removed. A removed version never comes back.
//!
//! A mark is a row without a value, written once. It is in the page of the head log that has the
//! entry of its version, or will have it. So no partition grows with the number of marks, and who
//! copies a page copies its marks.
//!
//! The mark of a version that a client asks for is put before its head is switched in. The mark of
//! a switch that failed names no head, and readers pass over it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use bytes::Bytes;
use store::{Class, Direction, NewRow, Scan, Step, Table, ValueKind, boxed, envelope};

use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{Head, HeadRow};
use crate::keep::Keep;
use crate::keys;
use crate::mark::VersionMark;
use crate::revision::RevisionId;

/// Bytes of one page of a scan.
const SCAN_BYTES: usize = 64 << 10;

/// Which versions of an object can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All that the policy keeps: there are no marks on versions of such an object.
    Kept,
    /// All that the policy keeps, but not those that were removed.
    NotRemoved,
    /// Those that a client asked for, but not those that were removed.
    Asked,
}

/// The marks on one version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    asked: bool,
    removed: bool,
}

/// The marks on the versions of one page of a head log.
pub type PageMarks = BTreeMap<RevisionId, Marked>;

impl Marked {
    /// Whether it was removed.
    pub fn removed(self) -> bool {
        self.removed
    }

    fn add(&mut self, mark: VersionMark) {
        match mark {
            VersionMark::Asked => self.asked = true,
            VersionMark::Removed => self.removed = true,
        }
    }
}

impl Listed {
    /// Which versions of an object can be read where so much is kept.
    pub fn of(object: &Bytes, keep: Keep) -> Self {
        match keys::resource_of_partition(object) {
            None => Self::Kept,
            Some(_) if keep == Keep::Explicit => Self::Asked,
            Some(_) => Self::NotRemoved,
        }
    }

    /// Whether a version with these marks is one of them.
    pub fn has(self, marked: Marked) -> bool {
        match self {
            Self::Kept => true,
            Self::NotRemoved => !marked.removed,
            Self::Asked => marked.asked && !marked.removed,
        }
    }
}

impl Head {
    /// The page of the head log that has its entry, or will have it.
    pub fn log_page(&self) -> u64 {
        self.logged / keys::LOG_PAGE_ENTRIES
    }

    /// The step that marks its version.
    pub fn mark_step(&self, object: &Bytes, mark: VersionMark) -> Step {
        let row = NewRow::new(keys::version_mark(self.revision, mark), seal_mark());
        Step::Put { table: Table::Objects, partition: keys::log_page(object, self.log_page()), rows: vec![row] }
    }
}

/// The value of a mark.
pub fn seal_mark() -> Bytes {
    envelope::seal(ValueKind::VersionMark, &[])
}

impl Heads {
    /// The marks on the versions of a page of an object's head log.
    #[boxed]
    pub async fn version_marks(&self, object: &Bytes, page: u64) -> ObjectsResult<PageMarks> {
        let partition = keys::log_page(object, page);
        let mut marks = PageMarks::new();
        let mut rest = Some(Scan::prefix(keys::version_mark_prefix(), SCAN_BYTES));
        while let Some(scan) = rest {
            let call = self.call(Class::Description).strong();
            let read = self.store().scan(call, Table::Objects, &partition, scan.clone()).await?;
            for row in read.rows {
                let (revision, mark) = keys::version_mark_of(&row.sort)
                    .ok_or_else(|| ObjectsError::corrupt(Table::Objects, "a strange mark on a version"))?;
                marks.entry(revision).or_default().add(mark);
            }
            rest = scan.resumed(read.next);
        }
        Ok(marks)
    }
}

/// Reads the heads of the versions that a client asked for, in order.
pub struct AskedVersions<'a> {
    heads: &'a Heads,
    object: &'a Bytes,
    row: &'a HeadRow,
    direction: Direction,
    revisions: std::ops::Range<RevisionId>,
    /// The pages that are still to be read.
    pages: RangeInclusive<u64>,
    /// The marked revisions of a page that are still to be returned.
    marked: VecDeque<RevisionId>,
}

impl<'a> AskedVersions<'a> {
    /// Those of an object with this head, from a revision on and below another.
    #[boxed]
    pub async fn new(
        heads: &'a Heads,
        object: &'a Bytes,
        row: &'a HeadRow,
        revisions: std::ops::Range<RevisionId>,
        direction: Direction,
    ) -> ObjectsResult<Self> {
        let log = heads.log_before(object, &row.head);
        let first = log.page_of(revisions.start).await?;
        let last = match revisions.end <= row.head.revision {
            true => log.page_of(revisions.end).await?,
            false => row.head.log_page(),
        };
        Ok(Self { heads, object, row, direction, revisions, pages: first..=last, marked: VecDeque::new() })
    }

    /// The next one.
    pub async fn next(&mut self) -> ObjectsResult<Option<Head>> {
        loop {
            while let Some(revision) = self.marked.pop_front() {
                if revision == self.row.head.revision {
                    return Ok(Some(self.row.head.clone()));
                }
                let log = self.heads.log_before(self.object, &self.row.head);
                if let Some(head) = log.entry(revision).await? {
                    return Ok(Some(head));
                }
            }
            let page = match self.direction {
                Direction::Forward => self.pages.next(),
                Direction::Backward => self.pages.next_back(),
            };
            let Some(page) = page else { return Ok(None) };
            let marks = self.heads.version_marks(self.object, page).await?;
            let listed = marks.into_iter().filter(|(_, marked)| Listed::Asked.has(*marked));
            let wanted = listed.map(|(revision, _)| revision).filter(|revision| self.revisions.contains(revision));
            self.marked = match self.direction {
                Direction::Forward => wanted.collect(),
                Direction::Backward => wanted.rev().collect(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_removed_version_is_never_listed_and_marks_count_in_any_order() {
        let marked = |marks: &str| {
            let mut all = Marked::default();
            marks.bytes().for_each(|byte| all.add(VersionMark::from_byte(byte).unwrap()));
            [Listed::Kept, Listed::NotRemoved, Listed::Asked].map(|listed| listed.has(all))
        };
        assert_eq!(marked(""), [true, true, false]);
        assert_eq!(marked("a"), [true, true, true]);
        assert_eq!(marked("r"), [true, false, false]);
        assert_eq!((marked("ar"), marked("ra")), ([true, false, false], [true, false, false]));
    }

    #[test]
    fn a_mark_has_these_bytes_and_lies_beside_the_entry_of_its_version() {
        let head = Head { revision: RevisionId([7; 16]), logged: 1_024, ..Head::free() };
        let Step::Put { table, partition, rows } = head.mark_step(&Bytes::from_static(b"r/a"), VersionMark::Asked)
        else {
            panic!()
        };
        assert_eq!((table, &partition[..]), (Table::Objects, &b"r/a\0l\0\0\0\0\0\0\0\x01"[..]));
        assert_eq!(rows[0].sort, [&[0x0B][..], &[7; 16], b"a"].concat());
        assert_eq!(envelope::open(ValueKind::VersionMark, &rows[0].value).unwrap(), &[][..]);
        assert_eq!(keys::version_mark_of(&rows[0].sort), Some((head.revision, VersionMark::Asked)));
        for strange in [&rows[0].sort[..17], &[&rows[0].sort[..], b"a"].concat(), &keys::log(head.revision)] {
            assert_eq!(keys::version_mark_of(strange), None);
        }
        let Step::Put { partition: entry, .. } = head.log_step(&Bytes::from_static(b"r/a")).unwrap() else { panic!() };
        assert_eq!(entry, partition);
    }
}
