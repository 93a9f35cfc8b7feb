//! Reads pages of the feed, forward and back.
//!
//! A page reads the shards of one bucket at a time, from the cursor on, and merges them. Memory is
//! bounded by the size of the page, whatever lies behind it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use heads::announce::{Announcement, FEED_SHARDS, feed_bucket_of, position_of};
use heads::feed_mark::first_position_of;
use heads::{Heads, ObjectsError, RevisionId, head, keys};
use store::{Class, Direction, Scan, Table, UnixMillis, boxed};

use crate::buckets::next_listed;
use crate::event::{Cursor, Event, FeedError, RemovedVersion};
use crate::live::Live;

/// The most events of a page.
pub const PAGE_EVENTS_MAX: usize = 1_000;

/// Bytes of an announcement, about.
const ANNOUNCEMENT_BYTES: usize = 256;

/// The least and the most bytes of one shard that one round reads.
const SHARD_BYTES: Range<usize> = (2 << 10)..(64 << 10);

/// Rounds of one page. A page ends early if it reads only announcements of changes that were not
/// made.
const ROUNDS_MAX: usize = 64;

/// Removed versions of a page after which it ends early.
const PAGE_REMOVED_MAX: usize = 1_000;

/// Announcements that are looked up at the same time.
const LOOKED_UP_AT_ONCE: usize = 16;

/// The feed of a store. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    pub(crate) heads: Heads,
    pub(crate) live: Arc<Live>,
}

/// Some events, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The events.
    pub events: Vec<Event>,
    /// The versions that were removed in the same part of the feed, oldest first. A page that was
    /// read back has none.
    pub removed: Vec<RemovedVersion>,
    /// Where to read on. A page that was read forward: behind it; back: before it.
    pub end: Option<Cursor>,
    /// Whether nothing is left for now in the direction of reading.
    pub is_last: bool,
}

/// The part of the feed that a page may read: positions from the first one to before the second.
struct Span {
    positions: Range<RevisionId>,
    direction: Direction,
}

/// What an announcement has to say.
enum Entry {
    Event(Event),
    Removed(RemovedVersion),
}

impl Feed {
    /// The feed of a store.
    pub fn new(heads: Heads) -> Self {
        Self { heads, live: Arc::default() }
    }

    /// Refuses if there is no feed.
    fn check(&self) -> Result<(), FeedError> {
        if self.heads.announces() {
            // Elsewhere than where heads are decided, announcements may arrive late.
            return Ok(self.heads.store().check_home()?);
        }
        Err(FeedError::Off)
    }

    /// The cursor of a reader that wants only what happens from now on.
    ///
    /// It is not behind the newest event, or the horizon, or the mark. So later events are behind
    /// it, also those of a process that starts after its clock was set back.
    #[boxed]
    pub async fn now(&self) -> Result<Cursor, FeedError> {
        self.check()?;
        let until = self.heads.announced_until().await?;
        let settled = RevisionId::first_at(self.heads.horizon()).min(until).max(self.mark().await?);
        let newest = self.page(&Span { positions: settled..until, direction: Direction::Backward }, 1).await?;
        Ok(newest.events.first().map_or(Cursor(before(settled)), |event| event.cursor))
    }

    /// The cursor of a reader that reads everything at a time, and wants the changes that it then
    /// did not see. Some that it saw are behind the cursor too: a position is minted before its
    /// change is made, and the clocks of writers differ.
    #[boxed]
    pub async fn since(&self, time: UnixMillis) -> Result<Cursor, FeedError> {
        self.check()?;
        let begun = RevisionId::first_at(self.heads.horizon_at(time));
        let mark = self.mark().await?;
        // What is below the mark was made before the time, and cannot be read any more.
        Ok(Cursor(if time >= mark.time() { begun.max(before(mark)) } else { begun }))
    }

    /// The time from which on changes are promised to be kept.
    pub(crate) fn oldest_promised(&self) -> UnixMillis {
        let keep = u64::try_from(self.heads.options().feed_keep.as_millis()).unwrap_or(u64::MAX);
        UnixMillis(self.heads.now().0.saturating_sub(keep))
    }

    /// The first position of the oldest bucket of which something is promised.
    fn promised(&self) -> RevisionId {
        first_position_of(feed_bucket_of(RevisionId::first_at(self.oldest_promised())))
    }

    /// The position behind which nothing is missing. Until the first pass marks it, it is what is
    /// promised.
    async fn mark(&self) -> Result<RevisionId, FeedError> {
        let mark = self.heads.feed_mark().await?.position;
        Ok(if mark == RevisionId::ZERO { self.promised() } else { mark })
    }

    /// The events behind a cursor, at most `max` of them.
    ///
    /// Errors: [`FeedError::Dropped`] if some of them may have been dropped, or were never announced.
    #[boxed]
    pub async fn after(&self, cursor: Cursor, max: usize) -> Result<Page, FeedError> {
        self.check()?;
        let until = self.heads.announced_until().await?;
        let mark = self.mark().await?;
        let from = match cursor {
            Cursor::BEGINNING => mark.max(self.promised()),
            Cursor(position) => position.successor(),
        };
        let kept_days = self.heads.options().feed_keep.as_secs() / (24 * 3_600);
        if from < mark {
            return Err(FeedError::Dropped { kept_days });
        }
        let mut page = self.page(&Span { positions: from..until, direction: Direction::Forward }, max).await?;
        // Buckets may have been dropped while they were read.
        if from < self.heads.feed_mark().await?.position {
            return Err(FeedError::Dropped { kept_days });
        }
        if page.end.is_none() {
            // So far nothing can be added any more, even by a process whose clock was set back.
            let idle = RevisionId::first_at(self.heads.horizon()).min(until);
            page.end = Some(Cursor(before(idle)).max(Cursor(before(from))));
        }
        Ok(page)
    }

    /// The events before a cursor, at most `max` of them; without one, the newest.
    #[boxed]
    pub async fn before(&self, cursor: Option<Cursor>, max: usize) -> Result<Page, FeedError> {
        self.check()?;
        let until = self.heads.announced_until().await?;
        let until = cursor.map_or(until, |cursor| cursor.0.min(until));
        let positions = self.mark().await?.max(self.promised())..until;
        let mut page = self.page(&Span { positions, direction: Direction::Backward }, max).await?;
        page.events.reverse();
        Ok(page)
    }

    /// Reads a page. Its end is the last event or removal that was read, or how far it came without
    /// one.
    async fn page(&self, span: &Span, max: usize) -> Result<Page, FeedError> {
        let max = max.clamp(1, PAGE_EVENTS_MAX);
        let mut page = Page::default();
        let Range { start, end } = span.positions;
        let mut left = start..end;
        for _ in 0..ROUNDS_MAX {
            if left.is_empty() {
                page.is_last = true;
                break;
            }
            let buckets = feed_bucket_of(left.start)..feed_bucket_of(before(left.end)).saturating_add(1);
            let Some(bucket) = next_listed(&self.heads, buckets, span.direction).await? else {
                page.is_last = true;
                break;
            };
            let read_to = self.round(bucket, &left, span.direction, max, &mut page).await?;
            if page.events.len() >= max {
                page.end = page.events.last().map(|event| event.cursor);
                return Ok(page);
            }
            match span.direction {
                Direction::Forward => left.start = left.start.max(read_to),
                Direction::Backward => left.end = left.end.min(read_to),
            }
            if page.removed.len() >= PAGE_REMOVED_MAX {
                break;
            }
        }
        let last_removed = page.removed.last().map(|removed| removed.cursor);
        let last = page.events.last().map(|event| event.cursor).max(last_removed);
        page.end = match (page.is_last, span.direction) {
            (true, _) => last,
            // Everything up to here was read, and some of it was no event.
            (false, Direction::Forward) => Some(Cursor(before(left.start))),
            (false, Direction::Backward) => Some(Cursor(left.end)),
        };
        Ok(page)
    }

    /// Reads some of a bucket, until a page has `max` events. Returns the position that the next
    /// round begins with (forward) or ends before (back).
    async fn round(
        &self,
        bucket: u32,
        left: &Range<RevisionId>,
        direction: Direction,
        max: usize,
        page: &mut Page,
    ) -> Result<RevisionId, FeedError> {
        let (shards, wanted) = (usize::from(FEED_SHARDS), max - page.events.len());
        // Somewhat more than an even share, so that most pages take one round.
        let share = (2 * wanted * ANNOUNCEMENT_BYTES / shards).clamp(SHARD_BYTES.start, SHARD_BYTES.end);
        let key = |position: RevisionId| Bytes::copy_from_slice(&position.0);
        let scan = Scan { from: key(left.start), to: Some(key(left.end)), direction, max_bytes: share };
        let read = || async {
            let scans = (0..FEED_SHARDS).map(|shard| (Table::Work, keys::feed(bucket, shard), scan.clone()));
            Ok(self.heads.store().scan_many(self.heads.call(Class::Description).strong(), scans.collect()).await?)
        };
        let pages = self.heads.retry_transient(read).await?;
        let mut found: Vec<(RevisionId, Bytes)> = Vec::new();
        // Of a shard that was not read to its end, nothing is known beyond its last row.
        let mut known = match direction {
            Direction::Forward => first_position_of(bucket.saturating_add(1)),
            Direction::Backward => first_position_of(bucket),
        };
        for rows in pages {
            let last = rows.rows.last().map(|row| position_of(&row.sort)).transpose()?;
            if let (Some(_), Some(last)) = (&rows.next, last) {
                known = match direction {
                    Direction::Forward => known.min(last.successor()),
                    Direction::Backward => known.max(last),
                };
            }
            for row in rows.rows {
                found.push((position_of(&row.sort)?, row.value));
            }
        }
        found.retain(|(position, _)| match direction {
            Direction::Forward => *position < known,
            Direction::Backward => *position >= known,
        });
        found.sort_unstable_by_key(|(position, _)| *position);
        if direction == Direction::Backward {
            found.reverse();
        }
        let entry = |(position, value)| self.entry(position, value);
        // In order, and no more than are wanted: looking one up may write.
        let mut all = std::pin::pin!(stream::iter(found).map(entry).buffered(LOOKED_UP_AT_ONCE));
        while page.events.len() < max
            && let Some(entry) = all.try_next().await?
        {
            match entry {
                Some(Entry::Event(event)) => page.events.push(event),
                Some(Entry::Removed(removed)) if direction == Direction::Forward => page.removed.push(removed),
                Some(Entry::Removed(_)) | None => {}
            }
        }
        Ok(known)
    }

    /// What an announcement has to say; `None` if its change was not made.
    async fn entry(&self, position: RevisionId, value: Bytes) -> Result<Option<Entry>, FeedError> {
        let announced: Announcement = head::open(Table::Work, &value).map_err(|error| damaged(position, error))?;
        if announced.is_removal {
            let Announcement { object, revision, .. } = announced;
            return Ok(Some(Entry::Removed(RemovedVersion { cursor: Cursor(position), object, revision })));
        }
        if !self.heads.has_happened(position, &announced).await? {
            return Ok(None);
        }
        Ok(Event::of(position, announced).map(Entry::Event))
    }
}

/// Names the place of damage, so that a reader can go on behind it.
fn damaged(position: RevisionId, error: ObjectsError) -> ObjectsError {
    ObjectsError::corrupt(Table::Work, &format!("the change at {position} of the feed cannot be read: {error}"))
}

/// The position directly before another.
fn before(position: RevisionId) -> RevisionId {
    RevisionId(u128::from_be_bytes(position.0).saturating_sub(1).to_be_bytes())
}
