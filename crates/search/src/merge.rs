//! Reads the shards of a list as one list, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use heads::{Heads, ObjectsResult, ResourcePath, RevisionId};
use store::{Class, Direction, Row, Scan, Table, stored};

use crate::document::{Document, Indexed};
use crate::keys::{self, Facet, List};
use crate::plan::Driver;
use crate::query::{Field, Place};
use crate::state::Generation;

/// The most bytes of a shard that are read at once, after the first page.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// The least bytes of a shard that are read at once.
const PAGE_BYTES_MIN: usize = 256;

/// Bytes of the first pages of all shards together, if there are many.
const FIRST_BYTES: usize = 1 << 20;

/// Bytes of later pages of all shards together.
const BYTES_MAX: usize = 4 << 20;

/// A possible result.
pub struct Candidate {
    /// Its place in the order of the driver.
    pub place: Bytes,
    /// Its path.
    pub path: ResourcePath,
    /// What of the path it is.
    pub facet: Facet,
    /// The value of its entry, which the document of the path has to have too.
    pub value: Bytes,
    /// The document, if it was read already.
    pub document: Option<Arc<Document>>,
}

/// What is next.
pub enum Next {
    /// A candidate.
    Candidate(Candidate),
    /// The limits are reached. Everything up to this place was looked at.
    Cut(Place),
    /// There are no more.
    End,
}

/// A range of a shard.
struct Source {
    partition: Bytes,
    /// What is left to read; `None`: nothing.
    rest: Option<Scan>,
    skipped: usize,
    rows: VecDeque<Row>,
    ready: VecDeque<Candidate>,
    /// Up to which place candidates of it were made; `None`: none were.
    read_to: Option<Bytes>,
}

/// Ranges of shards that are read in one order.
pub struct Merge<'a> {
    heads: &'a Heads,
    list: List,
    is_descending: bool,
    after: Option<Place>,
    sources: Vec<Source>,
    rows_used: usize,
    page_bytes_max: usize,
}

impl<'a> Merge<'a> {
    /// What a driver yields of a generation, behind a place.
    pub fn new(
        heads: &'a Heads,
        generation: Generation,
        driver: &Driver,
        after: Option<&Place>,
        is_descending: bool,
    ) -> Self {
        let mut sources = Vec::new();
        for range in driver.ranges.iter().cloned() {
            let range = match after {
                None => range,
                Some(Place(place)) if driver.list == List::Documents => range.documents_behind(place, is_descending),
                Some(Place(place)) => range.behind(place, is_descending),
            };
            if range.is_empty() {
                continue;
            }
            let direction = if is_descending { Direction::Backward } else { Direction::Forward };
            let scan = Scan { from: range.from, to: range.to, direction, max_bytes: 0 };
            let only = range.path.map(|path| keys::shard_of(&path, generation.shards));
            let shards = only.map_or(0..generation.shards, |shard| shard..shard + 1);
            sources.extend(shards.map(|shard| Source {
                partition: keys::partition(generation.number, driver.list, shard),
                rest: Some(scan.clone()),
                skipped: range.skipped,
                rows: VecDeque::new(),
                ready: VecDeque::new(),
                read_to: None,
            }));
        }
        let share = |bytes: usize, max: usize| (bytes / sources.len().max(1)).clamp(PAGE_BYTES_MIN, max);
        let (first, page_bytes_max) = (share(FIRST_BYTES, Scan::FEW_BYTES), share(BYTES_MAX, PAGE_BYTES_MAX));
        sources.iter_mut().filter_map(|source| source.rest.as_mut()).for_each(|scan| scan.max_bytes = first);
        debug_assert!(driver.list != List::Documents || driver.order == Field::Path);
        Self { heads, list: driver.list, is_descending, after: after.cloned(), sources, rows_used: 0, page_bytes_max }
    }

    /// The rows that were used so far. Each shard has a page that was read ahead.
    pub fn rows_used(&self) -> usize {
        self.rows_used
    }

    /// The next one. `is_over` says of the rows that were used whether they are too many; it is not
    /// asked before each shard was read beyond the place at which the search began, so that it always
    /// gets further.
    pub async fn next(&mut self, is_over: &(dyn Fn(usize) -> bool + Sync)) -> ObjectsResult<Next> {
        let is_filled = self.fill(is_over).await?;
        let first = self.first();
        if is_filled {
            return Ok(first.and_then(|at| self.take(at)).map_or(Next::End, Next::Candidate));
        }
        // Sources without a candidate have none up to where they were read.
        let open = self.sources.iter().filter(|source| source.is_open()).filter_map(|source| source.read_to.clone());
        let bound = open.reduce(|one, other| if self.is_before(&other, &one) { other } else { one });
        let bound = bound.unwrap_or_default();
        let is_within = |at: &usize| {
            self.sources[*at].ready.front().is_some_and(|candidate| !self.is_before(&bound, &candidate.place))
        };
        match first.filter(is_within).and_then(|at| self.take(at)) {
            Some(candidate) => Ok(Next::Candidate(candidate)),
            None => Ok(Next::Cut(Place(bound))),
        }
    }

    /// The source with the first candidate of all that are ready.
    fn first(&self) -> Option<usize> {
        let ready = self.sources.iter().enumerate().filter_map(|(at, source)| Some((&source.ready.front()?.place, at)));
        ready.reduce(|one, other| if self.is_before(other.0, one.0) { other } else { one }).map(|(_, at)| at)
    }

    fn take(&mut self, at: usize) -> Option<Candidate> {
        self.sources[at].ready.pop_front()
    }

    fn is_before(&self, one: &Bytes, other: &Bytes) -> bool {
        if self.is_descending { one > other } else { one < other }
    }

    /// Whether a source was read beyond the place at which the search began.
    fn got_further(&self, source: &Source) -> bool {
        let after = self.after.as_ref().map(|Place(after)| after);
        source.read_to.as_ref().is_some_and(|read_to| after.is_none_or(|after| self.is_before(after, read_to)))
    }

    /// Reads until each source has a candidate, or nothing left. `false`: until it was over.
    async fn fill(&mut self, is_over: &(dyn Fn(usize) -> bool + Sync)) -> ObjectsResult<bool> {
        loop {
            let mut wanting = Vec::new();
            for (at, source) in self.sources.iter_mut().enumerate() {
                self.rows_used += source.prepare(self.list, self.is_descending);
                if source.is_open() {
                    wanting.push(at);
                }
            }
            if wanting.is_empty() {
                return Ok(true);
            }
            if wanting.iter().all(|at| self.got_further(&self.sources[*at])) && is_over(self.rows_used) {
                return Ok(false);
            }
            let scans = wanting.iter().filter_map(|at| {
                let source = &self.sources[*at];
                Some((Table::Work, source.partition.clone(), source.rest.clone()?))
            });
            let scans: Vec<_> = scans.collect();
            let read = async || {
                let call = self.heads.call(Class::Description);
                Ok(self.heads.store().scan_many(call, scans.clone()).await?)
            };
            let pages = self.heads.retry_transient(read).await?;
            for ((at, page), (_, _, scan)) in wanting.into_iter().zip(pages).zip(scans) {
                let source = &mut self.sources[at];
                source.rows.extend(page.rows);
                let max_bytes = self.page_bytes_max.min(scan.max_bytes * 4);
                source.rest = Scan { max_bytes, ..scan }.resumed(page.next);
            }
        }
    }
}

impl Source {
    /// Whether it may have candidates, and none is ready.
    fn is_open(&self) -> bool {
        self.ready.is_empty() && self.rest.is_some()
    }

    /// Makes candidates of rows, if there are none. Returns how many rows it used.
    fn prepare(&mut self, list: List, is_descending: bool) -> usize {
        let rows_before = self.rows.len();
        while self.ready.is_empty() && !self.rows.is_empty() {
            if list != List::Documents {
                let candidate = self.rows.pop_front().and_then(|row| entry(list, self.skipped, &row));
                self.read_to = candidate.as_ref().map(|candidate| candidate.place.clone()).or(self.read_to.take());
                self.ready.extend(candidate);
                continue;
            }
            let Some((path, _)) = self.rows.front().and_then(|row| keys::document_of(&row.sort)) else {
                self.rows.pop_front();
                continue;
            };
            let prefix = keys::documents_of(path.as_str());
            let count = self.rows.iter().take_while(|row| row.sort.starts_with(&prefix)).count();
            if count == self.rows.len() && self.rest.is_some() {
                // There may be more of this path.
                break;
            }
            let last = if is_descending { Facet::Itself } else { Facet::Description };
            self.read_to = Some(keys::place(&[], path.as_str(), last));
            let newest = newest(self.rows.drain(..count));
            let Some((_, Indexed::Live(document))) = newest else { continue };
            let document = Arc::new(document);
            let candidate = |facet: &Facet| Candidate {
                place: keys::place(&[], path.as_str(), *facet),
                path: path.clone(),
                facet: *facet,
                value: Bytes::new(),
                document: Some(document.clone()),
            };
            match is_descending {
                true => self.ready.extend(document.facets().iter().rev().map(candidate)),
                false => self.ready.extend(document.facets().iter().map(candidate)),
            }
        }
        rows_before - self.rows.len()
    }
}

/// The candidate of an entry.
fn entry(list: List, skipped: usize, row: &Row) -> Option<Candidate> {
    let keys::EntryKey { value_len, place_len, path, facet } = keys::entry_of(list, &row.sort)?;
    let place = row.sort.slice(skipped.min(place_len)..place_len);
    Some(Candidate { place, path, facet, value: row.sort.slice(..value_len), document: None })
}

/// The document of a path with the highest revision, among its rows.
pub fn newest(rows: impl IntoIterator<Item = Row>) -> Option<(RevisionId, Indexed)> {
    let of_row = |row: Row| {
        let (path, revision) = keys::document_of(&row.sort)?;
        match stored::open(&row.value) {
            Ok(indexed) => Some((revision, indexed)),
            Err(error) => {
                tracing::warn!(%path, %error, "a row of the search index is damaged; `penates search rebuild` makes it anew");
                None
            }
        }
    };
    rows.into_iter().filter_map(of_row).max_by_key(|(revision, _)| *revision)
}
