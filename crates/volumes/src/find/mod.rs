//! Finds volumes by conditions on what is known of them.
//!
//! A search reads the heads of all volumes, some at a time, and holds no more than those. It waits
//! for its party's turn at the store each time, and goes no further than its reader asks. Names of
//! authors are not in heads: they are read from the records, and only of volumes that satisfy all
//! other conditions.

mod conditions;
mod described;
mod field;
mod first;
mod order;
mod sorted;

use area::Area;
use budget::Party;
use futures::Stream;
use futures::stream::{self, StreamExt, TryStreamExt};
use hathi::{VolumeId, record_names};
use heads::error::{ObjectsError, ObjectsResult};
use heads::list::ListToken;
use store::Strength;

use crate::handle::Volumes;
use crate::list::Listing;
use crate::read::Volume;

pub use conditions::{Condition, ConditionError, Conditions, Test, Text, parse_range};
pub use described::Described;
pub use field::Field;
pub use first::{Found, Held};
pub use order::{Order, Place};
pub use sorted::{Part, Sorted};

/// Volumes whose heads are read at a time.
const HEADS_AT_ONCE: usize = 256;

/// Records that are read at the same time.
const RECORDS_AT_ONCE: usize = 4;

/// Memory of a search, in bytes: the heads that it reads at a time, with titles of a thousand
/// characters.
const HEADS_BYTES: u64 = 1 << 20;

/// Memory of records that are read at the same time, in bytes. Few have more than some thousand
/// bytes, and none more than a MiB.
const RECORDS_BYTES: u64 = 1 << 20;

/// A search.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// What volumes must satisfy.
    pub conditions: Conditions,
    /// Whether to read names of authors, which takes a read of its own for each volume that is
    /// found.
    pub with_author: bool,
    /// Where to begin.
    pub after: Option<ListToken>,
    /// Where to search. Nothing is read of volumes that are not within.
    pub area: Area,
}

impl Finding {
    fn reads_records(&self) -> bool {
        self.with_author || self.conditions.ask(of_record)
    }
}

/// Volumes that are found among some hundred, and where the search continues.
#[derive(Clone, Debug)]
pub struct FoundPage {
    /// The volumes.
    pub volumes: Vec<Described>,
    listing: Listing,
}

impl FoundPage {
    /// Where the search continues; `None` at its end.
    pub fn next(&self) -> Option<&ListToken> {
        self.listing.next.as_ref()
    }

    /// Where the search continues after one of the volumes.
    pub fn after(&self, id: &VolumeId) -> Option<ListToken> {
        let is_last = self.listing.next.is_none() && self.listing.volumes.last() == Some(id);
        if is_last { None } else { self.listing.after(id) }
    }
}

/// A search that is under way: its place among the bulk requests, and its memory.
struct Searching {
    volumes: Volumes,
    finding: Finding,
    party: Party,
    /// Where the next page begins; `None` at the end.
    next: Option<Option<ListToken>>,
    held: Held,
}

impl Volumes {
    /// Volumes that satisfy conditions, a page after the other, in the order of listings. It takes a
    /// place among the bulk requests of its party until it is dropped.
    pub async fn find(
        &self,
        finding: Finding,
        party: Party,
    ) -> ObjectsResult<impl Stream<Item = ObjectsResult<FoundPage>> + Send + use<>> {
        let searching = self.searching(finding, party).await?;
        let next = |mut searching: Searching| async move {
            let page = searching.page(usize::MAX).await?;
            Ok(page.map(|page| (page, searching)))
        };
        Ok(stream::try_unfold(searching, next).boxed())
    }

    /// Begins a search.
    async fn searching(&self, finding: Finding, party: Party) -> ObjectsResult<Searching> {
        let admission = self.inner.fairness.admit(party.clone())?;
        let bytes = HEADS_BYTES + if finding.reads_records() { RECORDS_BYTES } else { 0 };
        let share = self.inner.memory.reserve(&party, bytes).await?;
        let next = Some(finding.after.clone());
        Ok(Searching { volumes: self.clone(), finding, party, next, held: Held { _admission: admission, share } })
    }
}

impl Searching {
    /// The next volumes that are found, at most `room`; `None` at the end. If there are as many, the
    /// search has not looked at all those after them.
    async fn page(&mut self, room: usize) -> ObjectsResult<Option<FoundPage>> {
        let Some(after) = self.next.take() else { return Ok(None) };
        let turn = self.volumes.inner.fairness.turn(&self.party).await?;
        let finds_all = self.finding.conditions.0.is_empty() && !self.finding.area.is_limited();
        let heads_at_once = if finds_all { HEADS_AT_ONCE.min(room) } else { HEADS_AT_ONCE };
        let listing = self.volumes.list(after.as_ref(), heads_at_once).await?;
        let within = listing.volumes.iter().filter(|id| self.finding.area.has_volume(id));
        let within: Vec<VolumeId> = within.cloned().collect();
        let heads = self.volumes.heads(&within, Strength::Usual).await?;
        let mut found = Vec::new();
        for (id, head) in within.iter().zip(heads) {
            let head = match head {
                Err(error) if error.is_damage() => {
                    tracing::warn!(%id, %error, "a search leaves out a volume whose head cannot be read");
                    continue;
                }
                head => head?,
            };
            // A volume that was deleted since it was listed has no contents any more.
            let Some((revision, body)) =
                head.as_ref().and_then(|row| Some((row.head.revision, row.head.live_volume()?)))
            else {
                continue;
            };
            let described = Described::of(id.clone(), body);
            if self.finding.conditions.hold(&described, |field| !of_record(field)) {
                found.push((described, Volume { id: id.clone(), revision, body: body.clone() }));
            }
        }
        let volumes = match self.finding.reads_records() {
            true => self.with_authors(found, room).await?,
            false => found.into_iter().map(|(described, _)| described).take(room).collect(),
        };
        drop(turn);
        self.next = listing.next.clone().map(Some);
        Ok(Some(FoundPage { volumes, listing }))
    }

    /// Adds the names of authors, and leaves out what does not satisfy the conditions on them. Once
    /// there are `room`, no more records are read.
    async fn with_authors(&self, found: Vec<(Described, Volume)>, room: usize) -> ObjectsResult<Vec<Described>> {
        let read = |(described, volume): (Described, Volume)| async {
            let id = volume.id.clone();
            let names = match self.volumes.record_of(volume).await {
                Ok(Some(record)) => record.text().map(|json| record_names(&json)),
                Ok(None) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
            match names {
                Err(error) if error.is_damage() => {
                    tracing::warn!(%id, %error, "a search finds no author, because the record cannot be read");
                    Ok::<_, ObjectsError>(described)
                }
                names => Ok(described.with_names(&names?)),
            }
        };
        let satisfies = |described: &Described| std::future::ready(self.finding.conditions.hold(described, of_record));
        let at_once = RECORDS_AT_ONCE.min(room);
        stream::iter(found).map(read).buffered(at_once).try_filter(satisfies).take(room).try_collect().await
    }
}

/// Whether a field is only in the record, and not in the head.
fn of_record(field: Field) -> bool {
    field == Field::Author
}
