//! Searches: reads candidates, looks their documents up, and keeps those that meet all conditions.
//!
//! If the conditions leave few candidates of some list, all of those are read and then sorted.
//! Otherwise candidates are read in the order of the results, until there are enough. Both give the
//! same results, because the place of a result follows from its document alone. Neither keeps more
//! documents than those of a page, wherever the page begins.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use heads::{Heads, ObjectsResult, ResourcePath};
use store::{Class, Direction, Scan, Table};

use crate::document::{Document, Indexed};
use crate::keys::{self, Facet, List};
use crate::merge::{Candidate, Merge, Next, newest};
use crate::plan::{Driver, Plan};
use crate::query::{Place, Query};
use crate::state::Generation;

/// The most candidates that are read of a list before they are sorted.
const SORTED_MAX: usize = 2_000;

/// The most lists that are tried for having few entries.
const TRIED_MAX: usize = 3;

/// Candidates whose documents are looked up together.
const LOOKED_UP: usize = 128;

/// The most time that a search may be given: the indexer keeps what a search reads for longer.
pub const TIME_MAX: Duration = Duration::from_secs(600);

/// How much a search may read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows of the index, about.
    pub rows: usize,
    /// Time, at most [`TIME_MAX`].
    pub time: Duration,
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its path.
    pub path: ResourcePath,
    /// What of the path it is.
    pub facet: Facet,
    /// What is known of it.
    pub document: Arc<Document>,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The results, in order.
    pub hits: Vec<Hit>,
    /// Where to go on; `None`: there are no more.
    pub next: Option<Place>,
    /// How many more results are left out there at the beginning, because so many of the query's
    /// offset were not found yet.
    pub offset_left: usize,
    /// How many results there are in all, if they were to be counted, and were.
    pub total: Option<u64>,
    /// Whether the search ended at its limits. Then there may be fewer results than were asked for,
    /// or none, although more are behind `next`.
    pub is_cut: bool,
    /// Whether the results were to be counted, and the search ended at its limits before all were.
    pub is_count_cut: bool,
    /// Whether the index has everything. It has not while it is built for the first time, after it
    /// was away for longer than the change feed keeps changes, and while the feed is off.
    pub is_complete: bool,
}

/// A search at work.
pub(crate) struct Finding<'a> {
    pub(crate) heads: &'a Heads,
    pub(crate) generation: Generation,
    pub(crate) query: &'a Query,
    pub(crate) limits: Limits,
    pub(crate) begun: Instant,
    /// The trees that the agent may read; `None`: everything.
    pub(crate) trees: Option<&'a [ResourcePath]>,
}

/// The results so far.
#[derive(Default)]
struct Page {
    found: Found,
    /// How many results there were, also those that were left out.
    matched: usize,
    /// The last place that was looked at.
    examined: Option<Place>,
    /// The place of the last result.
    found_at: Option<Place>,
    /// The place of the last result that is on the page.
    given: Option<Place>,
}

impl Finding<'_> {
    pub(crate) async fn run(&self) -> ObjectsResult<Found> {
        let Plan { in_order, selective } = Plan::of(self.query, self.trees);
        let mut rows_used = 0;
        for driver in selective.iter().take(TRIED_MAX) {
            // The rest is for reading in order.
            if rows_used > self.limits.rows / 4 || self.begun.elapsed() > self.limits.time / 4 {
                break;
            }
            let (few, read) = self.few(driver).await?;
            rows_used += read;
            if let Some(few) = few {
                return self.sorted(driver.list, few).await;
            }
        }
        self.stream(&in_order, rows_used).await
    }

    /// The candidates of a driver, if they are few, without documents; and how many rows were read.
    async fn few(&self, driver: &Driver) -> ObjectsResult<(Option<Vec<Candidate>>, usize)> {
        let mut merge = Merge::new(self.heads, self.generation, driver, None, false);
        let (mut few, mut count) = (Vec::new(), 0);
        let is_over = |rows_used| rows_used > 2 * SORTED_MAX;
        loop {
            match merge.next(&is_over).await? {
                Next::Candidate(candidate) if count < SORTED_MAX => {
                    count += 1;
                    few.extend(self.without_document(driver.list, candidate));
                }
                Next::Candidate(_) | Next::Cut(_) => return Ok((None, merge.rows_used())),
                Next::End => return Ok((Some(few), merge.rows_used())),
            }
        }
    }

    /// A candidate without its document. If that was read, the candidate gets its place in the
    /// order of the results; `None`: it is none of them.
    fn without_document(&self, list: List, mut candidate: Candidate) -> Option<Candidate> {
        let Some(document) = candidate.document.take() else { return Some(candidate) };
        if !self.is_found(list, &candidate, &document) {
            return None;
        }
        let Place(place) = document.place(self.query.order(), &candidate.path, candidate.facet);
        Some(Candidate { place, ..candidate })
    }

    /// Sorts the results among few candidates, and looks up the documents of those on the page.
    async fn sorted(&self, list: List, candidates: Vec<Candidate>) -> ObjectsResult<Found> {
        let Query { is_descending, after, max, offset, .. } = self.query;
        let mut matched: HashMap<(ResourcePath, Facet), Place> = HashMap::new();
        let is_behind = |place: &Place| match after {
            Some(after) if *is_descending => place < after,
            Some(after) => place > after,
            None => true,
        };
        let mut candidates = candidates.into_iter();
        loop {
            let some: Vec<_> = candidates.by_ref().take(LOOKED_UP).collect();
            if some.is_empty() {
                break;
            }
            for (place, of) in self.places(list, some).await? {
                if is_behind(&place) {
                    matched.entry(of).or_insert(place);
                }
            }
        }
        let mut in_order: Vec<_> = matched.into_iter().map(|(of, place)| (place, of)).collect();
        in_order.sort_unstable();
        if *is_descending {
            in_order.reverse();
        }
        let mut page = Page { matched: in_order.len(), ..Page::default() };
        let candidate =
            |(Place(place), (path, facet))| Candidate { place, path, facet, value: Bytes::new(), document: None };
        let mut of_page = in_order.into_iter().skip(*offset).take(*max).map(candidate);
        loop {
            let some: Vec<_> = of_page.by_ref().take(LOOKED_UP).collect();
            if some.is_empty() {
                break;
            }
            for (place, hit) in self.hits(List::Documents, some).await? {
                let place = Place(place);
                page.examined = Some(place.clone());
                match hit {
                    Some(hit) => {
                        page.found.hits.push(hit);
                        page.given = Some(place);
                    }
                    // It was changed just now.
                    None => page.matched -= 1,
                }
            }
        }
        Ok(page.end(self.query, true))
    }

    /// The places of those among some candidates without documents that are results.
    async fn places(
        &self,
        list: List,
        candidates: Vec<Candidate>,
    ) -> ObjectsResult<Vec<(Place, (ResourcePath, Facet))>> {
        if list == List::Documents {
            let place = |Candidate { place, path, facet, .. }: Candidate| (Place(place), (path, facet));
            return Ok(candidates.into_iter().map(place).collect());
        }
        let order = self.query.order();
        let hits = self.hits(list, candidates).await?.into_iter().filter_map(|(_, hit)| hit);
        let place = |Hit { path, facet, document }: Hit| (document.place(order, &path, facet), (path, facet));
        Ok(hits.map(place).collect())
    }

    /// Reads candidates in the order of the results.
    async fn stream(&self, driver: &Driver, rows_before: usize) -> ObjectsResult<Found> {
        let Query { is_descending, after, .. } = self.query;
        let mut merge = Merge::new(self.heads, self.generation, driver, after.as_ref(), *is_descending);
        let mut page = Page::default();
        let mut looked_up = 0;
        let is_over_with = |looked_up: usize| {
            move |rows_used| {
                let rows = rows_before + rows_used + looked_up;
                rows >= self.limits.rows || self.begun.elapsed() >= self.limits.time
            }
        };
        loop {
            let (mut some, mut cut) = (Vec::new(), None);
            let is_over = is_over_with(looked_up);
            // A page is mostly full at once.
            let wanted = LOOKED_UP.min(self.query.max + self.query.offset + 1).max(16);
            let is_at_end = loop {
                match merge.next(&is_over).await? {
                    Next::End => break true,
                    Next::Cut(place) => {
                        cut = Some(place);
                        break false;
                    }
                    Next::Candidate(candidate) => {
                        let is_behind = match after {
                            Some(Place(after)) if *is_descending => candidate.place < *after,
                            Some(Place(after)) => candidate.place > *after,
                            None => true,
                        };
                        if is_behind {
                            some.push(candidate);
                        }
                        if some.len() == wanted {
                            break false;
                        }
                    }
                }
            };
            looked_up += if driver.list == List::Documents { 0 } else { some.len() };
            for (place, hit) in self.hits(driver.list, some).await? {
                let place = Place(place);
                // An entry that was replaced just now may be beside the one that replaces it.
                let is_again = page.found_at.as_ref() == Some(&place);
                let Some(hit) = hit.filter(|_| !is_again) else {
                    page.examined = Some(place);
                    continue;
                };
                if !page.add(self.query, place, hit) {
                    return Ok(page.end(self.query, false));
                }
            }
            if is_at_end {
                return Ok(page.end(self.query, true));
            }
            if cut.is_some() || is_over_with(looked_up)(merge.rows_used()) {
                page.examined = cut.or(page.examined);
                // A full page lacks nothing but the number of all results.
                page.found.is_cut = page.found.hits.len() < self.query.max;
                page.found.is_count_cut = self.query.counts && after.is_none();
                return Ok(page.end(self.query, false));
            }
        }
    }

    fn may_read(&self, path: &ResourcePath) -> bool {
        self.trees.is_none_or(|trees| trees.iter().any(|tree| path.is_within(tree)))
    }

    /// The results among some candidates, each with its place.
    async fn hits(&self, list: List, candidates: Vec<Candidate>) -> ObjectsResult<Vec<(Bytes, Option<Hit>)>> {
        let paths = candidates.iter().filter(|candidate| candidate.document.is_none());
        let mut documents =
            documents(self.heads, self.generation, paths.map(|candidate| &candidate.path)).await?.into_iter();
        let hit = |mut candidate: Candidate| {
            let document = candidate.document.take().or_else(|| documents.next().flatten());
            let document = document.filter(|document| self.is_found(list, &candidate, document));
            let Candidate { place, path, facet, .. } = candidate;
            (place, document.map(|document| Hit { path, facet, document }))
        };
        Ok(candidates.into_iter().map(hit).collect())
    }

    /// Whether a candidate with this document is a result.
    fn is_found(&self, list: List, Candidate { path, facet, value, .. }: &Candidate, document: &Document) -> bool {
        let has_value = || document.values(list, *facet).iter().any(|of_document| of_document[..] == value[..]);
        document.facets().contains(facet)
            && (list == List::Documents || has_value())
            && self.query.matches(path, *facet, document)
            && self.may_read(path)
    }
}

impl Page {
    /// Adds a result. `false`: no more are needed.
    fn add(&mut self, query: &Query, place: Place, hit: Hit) -> bool {
        let is_full = self.found.hits.len() >= query.max;
        if is_full && !query.counts {
            return false;
        }
        self.matched += 1;
        if !is_full && self.matched > query.offset {
            self.found.hits.push(hit);
            self.given = Some(place.clone());
        }
        self.found_at = Some(place.clone());
        self.examined = Some(place);
        true
    }

    fn end(mut self, query: &Query, is_at_end: bool) -> Found {
        let given = self.found.hits.len();
        let is_full = given >= query.max;
        let is_more = !is_at_end || self.matched > query.offset.saturating_add(given);
        let next = if is_full { self.given } else { self.examined };
        self.found.next = next.filter(|_| is_more);
        self.found.offset_left = if given > 0 { 0 } else { query.offset.saturating_sub(self.matched) };
        // Behind a place only the rest would be counted.
        self.found.total = (is_at_end && query.counts && query.after.is_none()).then_some(self.matched as u64);
        self.found
    }
}

/// The documents of paths, in their order.
pub(crate) async fn documents(
    heads: &Heads,
    generation: Generation,
    paths: impl Iterator<Item = &ResourcePath>,
) -> ObjectsResult<Vec<Option<Arc<Document>>>> {
    let scan = |path: &ResourcePath| {
        let path = path.as_str();
        let shard = keys::shard_of(path, generation.shards);
        let (from, to) = (keys::documents_of(path), Some(keys::after_documents_of(path)));
        let scan = Scan { from, to, direction: Direction::Backward, max_bytes: 1 };
        (Table::Work, keys::partition(generation.number, List::Documents, shard), scan)
    };
    let scans: Vec<_> = paths.map(scan).collect();
    if scans.is_empty() {
        return Ok(Vec::new());
    }
    let read = async || Ok(heads.store().scan_many(heads.call(Class::Description), scans.clone()).await?);
    let pages = heads.retry_transient(read).await?;
    let document = |page: store::Rows| match newest(page.rows) {
        Some((_, Indexed::Live(document))) => Some(Arc::new(document)),
        _ => None,
    };
    Ok(pages.into_iter().map(document).collect())
}
