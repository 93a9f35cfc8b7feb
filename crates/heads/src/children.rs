//! Reads the children of a shard in the order of names, and unites the marks of all its epochs.

use std::collections::VecDeque;

use bytes::Bytes;
use store::{Call, Class, Direction, NewRow, Row, Scan, Strength, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::containment::{mark_row, removed_by, removed_value};
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::keys;
use crate::mark::{Mark, Marks, Settled};
use crate::revision::RevisionId;

/// Bytes of each scan page after the first.
const SCAN_BYTES: usize = 64 << 10;

/// A name with all its incarnations that are not settled dead.
pub struct Name {
    /// The name.
    pub name: String,
    /// Each incarnation with its marks, the oldest first.
    pub incarnations: Vec<Marked>,
}

/// One incarnation of a name.
pub struct Child {
    /// The name.
    pub name: String,
    /// The incarnation with its marks.
    pub marked: Marked,
}

/// An incarnation and its marks.
pub struct Marked {
    /// The incarnation's id.
    pub incarnation: RevisionId,
    /// Its marks.
    pub marks: Marks,
    /// The note from when it was announced.
    pub note: Bytes,
    /// The revision that removed it, if it was removed.
    pub removed_by: Option<RevisionId>,
}

impl Name {
    /// Whether a head has to be read.
    pub fn unsettled(&self) -> bool {
        self.incarnations.iter().any(|marked| marked.marks.settled() == Settled::Unsettled)
    }

    /// The incarnation that its marks alone show to be live.
    pub fn settled_live(&self) -> Option<&Marked> {
        self.incarnations.iter().find(|marked| marked.marks.settled() == Settled::Live)
    }
}

impl Child {
    /// Bytes of its name and its note.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.marked.note.len()
    }

    fn add(&mut self, read: Read) {
        self.marked.marks.add(read.mark);
        match read.mark {
            Mark::Added => self.marked.note = read.value,
            Mark::Removed => self.marked.removed_by = read.removed_by,
            Mark::Confirmed | Mark::Removing => {}
        }
    }

    /// Its marks as rows for another partition.
    pub fn rows(&self, expires_at: Option<UnixMillis>) -> Vec<NewRow> {
        let Marked { incarnation, marks, note, removed_by } = &self.marked;
        let value = |mark| match mark {
            Mark::Added => note.clone(),
            Mark::Removed => removed_value(*removed_by),
            Mark::Confirmed | Mark::Removing => Bytes::new(),
        };
        let row = |mark| NewRow { expires_at, ..mark_row(&self.name, *incarnation, mark, &value(mark)) };
        marks.iter().map(row).collect()
    }
}

/// The room that is left on a page of children. The page ends with the child that takes the last of
/// it: their number is bounded, and so is what they take in memory.
pub(crate) struct Room {
    children: usize,
    bytes: usize,
}

impl Room {
    /// The room for `max` children, and for the bytes that a page of a listing has.
    pub(crate) fn new(heads: &Heads, max: usize) -> Self {
        Self { children: max, bytes: heads.inner.options.listing_bytes.max(1) }
    }

    /// How many more children there is room for.
    pub(crate) fn children(&self) -> usize {
        if self.bytes > 0 { self.children } else { 0 }
    }

    /// Takes room for a child of so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.children = self.children.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The children of one shard in the order of names, each with the united marks of all epochs. Holds
/// one page of each epoch, however many there are.
pub struct Children {
    epochs: Vec<Epoch>,
    strength: Strength,
    direction: Direction,
    /// A child that was read and belongs to the next name.
    ahead: Option<Child>,
}

/// The unused marks that were read of one epoch, and the rest of its scan.
struct Epoch {
    partition: Bytes,
    read: VecDeque<Read>,
    rest: Option<Scan>,
}

/// A mark that was read.
struct Read {
    name: String,
    incarnation: RevisionId,
    mark: Mark,
    value: Bytes,
    removed_by: Option<RevisionId>,
}

impl Read {
    fn open(row: &Row) -> ObjectsResult<Self> {
        let corrupt = |detail: &str| ObjectsError::corrupt(Table::Children, detail);
        let (name, incarnation, mark) = keys::child_of(&row.sort).ok_or_else(|| corrupt("a strange key"))?;
        let value = envelope::open(ValueKind::ChildMark, &row.value).map_err(|error| corrupt(&error.to_string()))?;
        let removed_by = match mark {
            Mark::Removed => removed_by(&value).ok_or_else(|| corrupt("a mark of a removal by no revision"))?,
            _ => None,
        };
        Ok(Self { name: name.to_owned(), incarnation, mark, value, removed_by })
    }
}

impl Children {
    /// The children of these partitions, from a key on.
    pub fn new(partitions: impl Iterator<Item = Bytes>, from: Bytes, strength: Strength) -> Self {
        Self::between(partitions, from, None, Direction::Forward, strength)
    }

    /// The children of these partitions, from the last name before a key to the first; `None`: from
    /// the last of all.
    pub fn backward(partitions: impl Iterator<Item = Bytes>, to: Option<Bytes>) -> Self {
        Self::between(partitions, Bytes::new(), to, Direction::Backward, Strength::Usual)
    }

    fn between(
        partitions: impl Iterator<Item = Bytes>,
        from: Bytes,
        to: Option<Bytes>,
        direction: Direction,
        strength: Strength,
    ) -> Self {
        // The rows before the first name record when the shard changed.
        let scan = Scan { from: from.max(keys::first_child()), to, direction, max_bytes: Scan::FEW_BYTES };
        let epoch = |partition| Epoch { partition, read: VecDeque::new(), rest: Some(scan.clone()) };
        Self { epochs: partitions.map(epoch).collect(), strength, direction, ahead: None }
    }

    /// The next names that are not settled dead: at most `max`, and fewer if they have as many bytes
    /// as a page of a listing. Empty if there are no more.
    #[boxed]
    pub async fn take(&mut self, heads: &Heads, max: usize) -> ObjectsResult<Vec<Name>> {
        let mut names: Vec<Name> = Vec::new();
        let mut room = Room::new(heads, max);
        loop {
            let child = match self.ahead.take() {
                Some(child) => child,
                None => match self.next(heads).await? {
                    Some(child) => child,
                    None => return Ok(names),
                },
            };
            if child.marked.marks.settled() == Settled::Dead {
                continue;
            }
            let is_full = room.children() == 0;
            room.take(child.bytes());
            match names.last_mut().filter(|last| last.name == child.name) {
                Some(last) => match self.direction {
                    Direction::Forward => last.incarnations.push(child.marked),
                    Direction::Backward => last.incarnations.insert(0, child.marked),
                },
                None if is_full => {
                    self.ahead = Some(child);
                    return Ok(names);
                }
                None => names.push(Name { name: child.name, incarnations: vec![child.marked] }),
            }
        }
    }

    /// The next child; `None` if there are no more.
    pub async fn next(&mut self, heads: &Heads) -> ObjectsResult<Option<Child>> {
        let mut first: Option<(String, RevisionId)> = None;
        for epoch in &mut self.epochs {
            let Some((name, incarnation)) = epoch.peek(heads, self.strength).await? else { continue };
            let comes_first = first.as_ref().is_none_or(|(known, of)| match self.direction {
                Direction::Forward => (name, incarnation) < (known, *of),
                Direction::Backward => (name, incarnation) > (known, *of),
            });
            if comes_first {
                first = Some((name.to_owned(), incarnation));
            }
        }
        let Some((name, incarnation)) = first else { return Ok(None) };
        let marked = Marked { incarnation, marks: Marks::default(), note: Bytes::new(), removed_by: None };
        let mut child = Child { name, marked };
        for epoch in &mut self.epochs {
            while epoch.peek(heads, self.strength).await? == Some((&child.name, incarnation)) {
                if let Some(read) = epoch.read.pop_front() {
                    child.add(read);
                }
            }
        }
        Ok(Some(child))
    }
}

impl Epoch {
    /// Name and incarnation of the next mark; reads a page if necessary.
    async fn peek(&mut self, heads: &Heads, strength: Strength) -> ObjectsResult<Option<(&str, RevisionId)>> {
        while self.read.is_empty() && self.rest.is_some() {
            self.read_page(heads, strength).await?;
        }
        Ok(self.read.front().map(|read| (read.name.as_str(), read.incarnation)))
    }

    #[boxed]
    async fn read_page(&mut self, heads: &Heads, strength: Strength) -> ObjectsResult<()> {
        let Some(scan) = self.rest.take() else { return Ok(()) };
        let page = heads
            .retry_transient(|| async {
                let call = Call { strength, ..heads.call(Class::Description) };
                Ok(heads.inner.store.scan(call, Table::Children, &self.partition, scan.clone()).await?)
            })
            .await?;
        self.rest = scan.resumed(page.next).map(|rest| Scan { max_bytes: SCAN_BYTES, ..rest });
        for row in &page.rows {
            self.read.push_back(Read::open(row)?);
        }
        Ok(())
    }
}
