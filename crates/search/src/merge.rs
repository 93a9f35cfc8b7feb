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

/// A range of a shard.
struct Source {
    partition: Bytes,
    /// What is left to read; `None`: nothing.
    rest: Option<Scan>,
    skipped: usize,
    rows: VecDeque<Row>,
    ready: VecDeque<Candidate>,
}

/// Ranges of shards that are read in one order.
pub struct Merge<'a> {
    heads: &'a Heads,
    list: List,
    is_descending: bool,
    sources: Vec<Source>,
    rows_read: usize,
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
            let scan = Scan { from: range.from, to: range.to, direction, max_bytes: Scan::FEW_BYTES };
            let only = range.path.map(|path| keys::shard_of(&path, generation.shards));
            let shards = only.map_or(0..generation.shards, |shard| shard..shard + 1);
            sources.extend(shards.map(|shard| Source {
                partition: keys::partition(generation.number, driver.list, shard),
                rest: Some(scan.clone()),
                skipped: range.skipped,
                rows: VecDeque::new(),
                ready: VecDeque::new(),
            }));
        }
        debug_assert!(driver.list != List::Documents || driver.order == Field::Path);
        Self { heads, list: driver.list, is_descending, sources, rows_read: 0 }
    }

    /// The rows that were read so far.
    pub fn rows_read(&self) -> usize {
        self.rows_read
    }

    /// The next one; `None`: there are no more.
    pub async fn next(&mut self) -> ObjectsResult<Option<Candidate>> {
        self.fill().await?;
        let first = self.sources.iter().enumerate().filter_map(|(at, source)| Some((&source.ready.front()?.place, at)));
        let next = if self.is_descending { first.max() } else { first.min() };
        let Some(at) = next.map(|(_, at)| at) else { return Ok(None) };
        Ok(self.sources[at].ready.pop_front())
    }

    /// Reads until each source has a candidate, or nothing left.
    async fn fill(&mut self) -> ObjectsResult<()> {
        loop {
            let mut wanting = Vec::new();
            for (at, source) in self.sources.iter_mut().enumerate() {
                source.prepare(self.list, self.is_descending);
                if source.ready.is_empty() && source.rest.is_some() {
                    wanting.push(at);
                }
            }
            if wanting.is_empty() {
                return Ok(());
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
                self.rows_read += page.rows.len();
                let source = &mut self.sources[at];
                source.rows.extend(page.rows);
                let max_bytes = PAGE_BYTES_MAX.min(scan.max_bytes * 4);
                source.rest = Scan { max_bytes, ..scan }.resumed(page.next);
            }
        }
    }
}

impl Source {
    /// Makes candidates of rows, if there are none.
    fn prepare(&mut self, list: List, is_descending: bool) {
        while self.ready.is_empty() && !self.rows.is_empty() {
            if list != List::Documents {
                let row = self.rows.pop_front();
                self.ready.extend(row.and_then(|row| entry(list, self.skipped, &row)));
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
                return;
            }
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
