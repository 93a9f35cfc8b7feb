//! Reading what a shard holds, in the order of names, with the marks of all its epochs united.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use store::{Call, Class, Direction, Row, Scan, Strength, Table, envelope};

use crate::containment::{Mark, Marks, Settled};
use crate::error::{ObjectsError, ObjectsResult};
use crate::keys;
use crate::library::Library;
use crate::revision::RevisionId;

/// Bytes of the first page of a scan over marks: few, because most shards hold few, and an engine answers a small scan sooner.
const FIRST_SCAN_BYTES: usize = 4 << 10;

/// Bytes of those that follow.
const SCAN_BYTES: usize = 64 << 10;

/// A name with all incarnations under which it has marks.
pub(crate) struct Name {
    /// The name.
    pub(crate) name: String,
    /// Each incarnation with its marks.
    pub(crate) incarnations: Vec<Marked>,
}

/// One incarnation of a name.
pub(crate) struct Marked {
    /// Which.
    pub(crate) incarnation: RevisionId,
    /// Its marks.
    pub(crate) marks: Marks,
    /// What was said of it when it was announced.
    pub(crate) note: Bytes,
}

impl Name {
    /// Whether a head has to be asked.
    pub(crate) fn unsettled(&self) -> bool {
        self.incarnations.iter().any(|marked| marked.marks.settled() == Settled::Unsettled)
    }

    /// The incarnation of which marks alone say that it is live.
    pub(crate) fn settled_live(&self) -> Option<&Marked> {
        self.incarnations.iter().find(|marked| marked.marks.settled() == Settled::Live)
    }

    fn is_dead(&self) -> bool {
        self.incarnations.iter().all(|marked| marked.marks.settled() == Settled::Dead)
    }

    fn add(&mut self, read: Read) {
        let Read { incarnation, mark, note, .. } = read;
        let at = self.incarnations.iter().position(|marked| marked.incarnation == incarnation).unwrap_or_else(|| {
            self.incarnations.push(Marked { incarnation, marks: Marks::default(), note: Bytes::new() });
            self.incarnations.len() - 1
        });
        let marked = &mut self.incarnations[at];
        marked.marks.add(mark);
        if mark == Mark::Added {
            marked.note = note;
        }
    }
}

/// The names of one shard in order, with the marks of all its epochs united.
pub(crate) struct Children {
    epochs: Vec<Epoch>,
    strength: Strength,
}

/// What was read of one epoch and not used yet, and what is to be read.
struct Epoch {
    partition: Bytes,
    read: VecDeque<Read>,
    rest: Option<Scan>,
}

/// A mark as it was read.
struct Read {
    name: String,
    incarnation: RevisionId,
    mark: Mark,
    note: Bytes,
}

impl Read {
    fn open(row: &Row) -> ObjectsResult<Self> {
        let corrupt = |detail: &str| ObjectsError::corrupt(Table::Children, detail);
        let (name, incarnation, mark) = keys::child_of(&row.sort).ok_or_else(|| corrupt("a strange key"))?;
        let note = envelope::open(&row.value).map_err(|error| corrupt(&error.to_string()))?;
        Ok(Self { name: name.to_owned(), incarnation, mark, note })
    }
}

impl Children {
    /// Those of these partitions, from a key on.
    pub(crate) fn new(partitions: impl Iterator<Item = Bytes>, from: Bytes, strength: Strength) -> Self {
        // What comes before the first name says when the shard changed.
        let from = from.max(keys::first_child());
        let scan = Scan { from, to: None, direction: Direction::Forward, max_bytes: FIRST_SCAN_BYTES };
        let epoch = |partition| Epoch { partition, read: VecDeque::new(), rest: Some(scan.clone()) };
        Self { epochs: partitions.map(epoch).collect(), strength }
    }

    /// The next names that are not settled dead, at most `max`; none: there are no more.
    pub(crate) async fn take(&mut self, library: &Library, max: usize) -> ObjectsResult<Vec<Name>> {
        let mut names = Vec::new();
        while names.len() < max {
            let Some(name) = self.next(library).await? else { break };
            if !name.is_dead() {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The next name; `None`: there are no more.
    pub(crate) async fn next(&mut self, library: &Library) -> ObjectsResult<Option<Name>> {
        let mut first: Option<String> = None;
        for epoch in &mut self.epochs {
            if let Some(name) = epoch.peek(library, self.strength).await?
                && first.as_deref().is_none_or(|known| name < known)
            {
                first = Some(name.to_owned());
            }
        }
        let Some(name) = first else { return Ok(None) };
        let mut united = Name { name, incarnations: Vec::new() };
        for epoch in &mut self.epochs {
            while epoch.peek(library, self.strength).await? == Some(&united.name) {
                if let Some(read) = epoch.read.pop_front() {
                    united.add(read);
                }
            }
        }
        Ok(Some(united))
    }
}

/// The last names of a shard that are not settled dead, the greatest first, at most `max`.
pub(crate) async fn last_names(
    library: &Library,
    partitions: impl Iterator<Item = Bytes>,
    max: usize,
) -> ObjectsResult<Vec<String>> {
    let mut names: BTreeMap<String, Name> = BTreeMap::new();
    for partition in partitions {
        let mut live: BTreeSet<String> = BTreeSet::new();
        let from = keys::first_child();
        let mut rest = Some(Scan { from, to: None, direction: Direction::Backward, max_bytes: SCAN_BYTES });
        while let Some(scan) = rest.take() {
            let read = library.patiently(|| async {
                let call = library.call(Class::Description);
                Ok(library.inner.store.scan(call, Table::Children, &partition, scan.clone()).await?)
            });
            let page = read.await?;
            for row in &page.rows {
                let read = Read::open(row)?;
                let known = names
                    .entry(read.name.clone())
                    .or_insert_with_key(|name| Name { name: name.clone(), incarnations: Vec::new() });
                let name = read.name.clone();
                known.add(read);
                match known.is_dead() {
                    true => live.remove(&name),
                    false => live.insert(name),
                };
            }
            // One more, since not all marks of the smallest may be read yet.
            rest = scan.resumed(page.next).filter(|_| live.len() <= max);
        }
    }
    let live = names.into_values().rev().filter(|name| !name.is_dead());
    Ok(live.take(max).map(|name| name.name).collect())
}

impl Epoch {
    /// The name of the next mark, read if need be.
    async fn peek(&mut self, library: &Library, strength: Strength) -> ObjectsResult<Option<&str>> {
        while self.read.is_empty() {
            let Some(scan) = self.rest.take() else { return Ok(None) };
            let page = library
                .patiently(|| async {
                    let call = Call { strength, ..library.call(Class::Description) };
                    Ok(library.inner.store.scan(call, Table::Children, &self.partition, scan.clone()).await?)
                })
                .await?;
            self.rest = scan.resumed(page.next).map(|rest| Scan { max_bytes: SCAN_BYTES, ..rest });
            for row in &page.rows {
                self.read.push_back(Read::open(row)?);
            }
        }
        Ok(self.read.front().map(|read| read.name.as_str()))
    }
}
