//! The versions of an object in order of time: its live heads, in its log and at present.
//!
//! A version begins with its revision and is in force until the next head. Each search reads the
//! head, then a few rows: the page of a revision is found by halving (`head_log.rs`). Entries of
//! the log are never removed, so what is found at a time stays the same; the rows of a version may
//! be gone, which [`Timeline::kept_from`] says. A resource's versions may also have marks
//! (`version_marks.rs`): those that were removed are passed over, and where versions are explicit,
//! only those with a mark are found.

mod newest_first;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use store::{Direction, Stamp, boxed};

use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::{Head, HeadRow, ObjectState};
use crate::keep::Keep;
use crate::revision::RevisionId;
use crate::version_marks::{AskedVersions, Listed, Marked, PageMarks};

/// Entries of the log that are read one after the other although none of them is wanted: a page of
/// it. After so many the next wanted one is found by skipping incarnations.
const HIDDEN_MAX: u32 = 1_024;

/// The versions of an object, as of one strong read of its head.
pub struct Timeline {
    heads: Heads,
    object: Bytes,
    row: HeadRow,
    kept_from: RevisionId,
    listed: Listed,
    /// The marks of the page that was read last, with its number.
    marks: Mutex<Option<(u64, Arc<PageMarks>)>>,
}

impl Keep {
    /// Whether a version can be read once it is replaced.
    pub fn keeps_versions(self) -> bool {
        !matches!(self, Self::None | Self::Newest(0))
    }
}

impl Heads {
    /// The versions of an object; `None` if it never existed.
    #[boxed]
    pub async fn timeline(&self, object: &Bytes, keep: Keep) -> ObjectsResult<Option<Timeline>> {
        let row = self.retry_transient(|| self.head_at(object)).await?;
        match row {
            Some(row) => Ok(Some(self.timeline_before(object, row, keep).await?)),
            None => Ok(None),
        }
    }

    /// The versions of an object as of a strong read of its head.
    #[boxed]
    pub async fn timeline_before(&self, object: &Bytes, row: HeadRow, keep: Keep) -> ObjectsResult<Timeline> {
        let listed = Listed::of(object, keep);
        let kept_from = match listed {
            // Marks say which ones are kept, wherever they are.
            Listed::Asked => RevisionId::ZERO,
            Listed::Kept | Listed::NotRemoved => {
                let kept = self.retry_transient(|| self.kept_from(object, &row.head, keep)).await?;
                kept.unwrap_or(row.head.revision).max(row.head.collected.unwrap_or(RevisionId::ZERO))
            }
        };
        let (heads, object, marks) = (self.clone(), object.clone(), Mutex::new(None));
        Ok(Timeline { heads, object, row, kept_from, listed, marks })
    }
}

impl Timeline {
    /// The head that was read.
    pub fn current(&self) -> &HeadRow {
        &self.row
    }

    /// The revision from which on versions are kept. Of earlier ones only the times are known.
    pub fn kept_from(&self) -> RevisionId {
        self.kept_from
    }

    /// Whether its marks allow a version to be read.
    #[boxed]
    pub async fn is_listed(&self, head: &Head) -> ObjectsResult<bool> {
        Ok(self.listed == Listed::Kept || self.listed.has(self.marked(head).await?))
    }

    async fn marked(&self, head: &Head) -> ObjectsResult<Marked> {
        let page = head.log_page();
        let known = self.marks.lock().as_ref().filter(|(of, _)| *of == page).map(|(_, marks)| marks.clone());
        let marks = match known {
            Some(marks) => marks,
            None => {
                let read = || self.heads.version_marks(&self.object, page);
                let marks = Arc::new(self.heads.retry_transient(read).await?);
                *self.marks.lock() = Some((page, marks.clone()));
                marks
            }
        };
        Ok(marks.get(&head.revision).copied().unwrap_or_default())
    }

    /// Whether a version was removed.
    #[boxed]
    pub async fn is_removed(&self, head: &Head) -> ObjectsResult<bool> {
        Ok(self.listed != Listed::Kept && self.marked(head).await?.removed())
    }

    /// A version, if its marks allow it to be read.
    async fn if_listed(&self, row: Option<HeadRow>) -> ObjectsResult<Option<HeadRow>> {
        match row {
            Some(row) if is_version(&row.head) && self.is_listed(&row.head).await? => Ok(Some(row)),
            _ => Ok(None),
        }
    }

    /// The versions that a client asked for, from a revision on and below another.
    async fn asked(&self, from: RevisionId, to: RevisionId, direction: Direction) -> ObjectsResult<AskedVersions<'_>> {
        AskedVersions::new(&self.heads, &self.object, &self.row, from..to, direction).await
    }

    /// The first of these that `is_wanted`.
    async fn first_asked(
        &self,
        from: RevisionId,
        to: RevisionId,
        direction: Direction,
        is_wanted: impl Fn(&Head) -> bool,
    ) -> ObjectsResult<Option<HeadRow>> {
        let read = || async {
            let mut asked = self.asked(from, to, direction).await?;
            while let Some(head) = asked.next().await? {
                if is_version(&head) && is_wanted(&head) {
                    return Ok(Some(self.as_row(head)));
                }
            }
            Ok(None)
        };
        self.heads.retry_transient(read).await
    }

    fn as_row(&self, head: Head) -> HeadRow {
        if head.revision == self.row.head.revision { self.row.clone() } else { logged(head) }
    }

    /// The newest version below a revision that `is_shown`, kept or not, unless its marks hide it.
    #[boxed]
    pub async fn newest_below(&self, below: RevisionId, is_shown: Shown) -> ObjectsResult<Option<HeadRow>> {
        if self.listed == Listed::Asked {
            return self.first_asked(RevisionId::ZERO, below, Direction::Backward, is_shown).await;
        }
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            let mut below = below;
            let mut row = match self.row.head.revision < below {
                true => Some(self.row.clone()),
                false => log.newest_below(below).await?.map(logged),
            };
            while let Some(found) = row {
                let is_of_kind = is_version(&found.head) && is_shown(&found.head);
                if is_of_kind && self.is_listed(&found.head).await? {
                    return Ok(Some(found));
                }
                // All versions of an incarnation are of one kind.
                let is_other_kind = is_version(&found.head) && !is_of_kind;
                below = if is_other_kind { found.head.incarnation } else { found.head.revision };
                row = log.newest_below(below).await?.map(logged);
            }
            Ok(None)
        };
        self.heads.retry_transient(read).await
    }

    /// The newest version of an incarnation, kept or not, unless its marks hide it.
    #[boxed]
    pub async fn newest_of(&self, incarnation: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        if self.listed == Listed::Asked {
            let is_of = |head: &Head| head.incarnation == incarnation;
            return self.first_asked(incarnation, RevisionId::LAST, Direction::Backward, is_of).await;
        }
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            let mut row = match self.row.head.incarnation > incarnation {
                true => log.newest_of(incarnation).await?.map(logged),
                false => Some(self.row.clone()),
            };
            while let Some(found) = row.take_if(|row| row.head.incarnation == incarnation) {
                if is_version(&found.head) && self.is_listed(&found.head).await? {
                    return Ok(Some(found));
                }
                row = log.newest_below(found.head.revision).await?.map(logged);
            }
            Ok(None)
        };
        self.heads.retry_transient(read).await
    }

    /// The version that was in force when exactly the revisions below `below` had been made; `None`
    /// if there was none, for example because it was deleted, or if its marks hide it.
    #[boxed]
    pub async fn in_force(&self, below: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        self.if_listed(self.live_below(below).await?).await
    }

    /// Whether the version that was in force then was removed.
    #[boxed]
    pub async fn was_removed(&self, below: RevisionId) -> ObjectsResult<bool> {
        match self.live_below(below).await? {
            Some(row) => self.is_removed(&row.head).await,
            None => Ok(false),
        }
    }

    async fn live_below(&self, below: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        let read = || async {
            Ok(match self.row.head.revision < below {
                true => Some(self.row.clone()),
                false => self.heads.log_before(&self.object, &self.row.head).newest_below(below).await?.map(logged),
            })
        };
        Ok(self.heads.retry_transient(read).await?.filter(|row| is_version(&row.head)))
    }

    /// The version that was in force when exactly the changes below a position had been made
    /// ([`Head::since`]); `None` if there was none. If everything below it is settled
    /// ([`Heads::check_settled`]), this never changes.
    #[boxed]
    pub async fn then(&self, below: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            let mut row = Some(self.row.clone());
            if self.row.head.revision >= below {
                row = log.newest_below(below).await?.map(logged);
            }
            // Revisions are older than positions: what began before may have come later.
            while let Some(begun) = row.as_ref().filter(|row| row.head.since() >= below) {
                row = log.newest_below(begun.head.revision).await?.map(logged);
            }
            Ok(row)
        };
        self.if_listed(self.heads.retry_transient(read).await?).await
    }

    /// The version that begins with a revision, kept or not, unless its marks hide it.
    #[boxed]
    pub async fn version(&self, revision: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        if self.row.head.revision == revision {
            return self.if_listed(Some(self.row.clone())).await;
        }
        let log = self.heads.log_before(&self.object, &self.row.head);
        let entry = self.heads.retry_transient(|| log.entry(revision)).await?;
        self.if_listed(entry.map(logged)).await
    }

    /// The first head of a version from a revision on, listed or not.
    #[boxed]
    pub async fn first_ever(&self, from: RevisionId) -> ObjectsResult<Option<RevisionId>> {
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            // Nearly always the first one is a version.
            if let Some(first) = log.oldest_from(from).await? {
                if is_version(&first) {
                    return Ok(Some(first.revision));
                }
                let mut entries = log.from(first.revision.successor()).await?;
                while let Some(head) = entries.next_head().await? {
                    if is_version(&head) {
                        return Ok(Some(head.revision));
                    }
                }
            }
            Ok(Some(&self.row.head).filter(|head| head.revision >= from && is_version(head)).map(|head| head.revision))
        };
        self.heads.retry_transient(read).await
    }

    /// The oldest version from a revision on that `is_shown`, kept or not, unless its marks hide it.
    #[boxed]
    pub async fn oldest_from(&self, from: RevisionId, is_shown: Shown) -> ObjectsResult<Option<HeadRow>> {
        if self.listed == Listed::Asked {
            return self.first_asked(from, RevisionId::LAST, Direction::Forward, is_shown).await;
        }
        self.heads.retry_transient(|| self.oldest_shown(from, is_shown)).await
    }

    async fn oldest_shown(&self, from: RevisionId, is_shown: Shown) -> ObjectsResult<Option<HeadRow>> {
        let is_wanted = |head: &Head| is_version(head) && is_shown(head);
        let log = self.heads.log_before(&self.object, &self.row.head);
        if let Some(first) = log.oldest_from(from).await? {
            if is_wanted(&first) && self.is_listed(&first).await? {
                return Ok(Some(logged(first)));
            }
            let mut entries = log.from(first.revision.successor()).await?;
            let mut hidden = 0;
            while let Some(head) = entries.next_head().await? {
                if is_wanted(&head) {
                    if self.is_listed(&head).await? {
                        return Ok(Some(logged(head)));
                    }
                    continue;
                }
                hidden += 1;
                if hidden > HIDDEN_MAX {
                    let Some(next) = self.first_of_oldest(head.revision, is_shown).await? else { return Ok(None) };
                    entries = log.from(next.head.revision).await?;
                    hidden = 0;
                }
            }
        }
        let current = Some(&self.row).filter(|row| row.head.revision >= from && is_wanted(&row.head)).cloned();
        self.if_listed(current).await
    }

    /// The same from the newest version back, which skips each incarnation at once.
    async fn first_of_oldest(&self, from: RevisionId, is_shown: Shown) -> ObjectsResult<Option<HeadRow>> {
        let log = self.heads.log_before(&self.object, &self.row.head);
        let mut row = Some(self.row.clone());
        let mut oldest = None;
        while let Some(found) = row.take_if(|row| row.head.revision >= from) {
            let is_version = is_version(&found.head);
            let below = if is_version { found.head.incarnation } else { found.head.revision };
            if is_version && is_shown(&found.head) {
                oldest = Some(found);
            }
            row = log.newest_below(below).await?.map(logged);
        }
        let Some(oldest) = oldest else { return Ok(None) };
        let first = log.oldest_from(oldest.head.incarnation.max(from)).await?;
        Ok(Some(first.map_or(oldest, logged)))
    }

    /// At most `max` versions from a revision on and below another that `is_shown`, kept or not, but
    /// not hidden by its marks, oldest first. `view` makes an entry of each.
    pub async fn page<T>(
        &self,
        from: RevisionId,
        to: RevisionId,
        max: usize,
        is_shown: Shown,
        view: impl Fn(&Head) -> T,
    ) -> ObjectsResult<Vec<T>> {
        Ok(self.page_of_heads(from, to, max, is_shown).await?.iter().map(view).collect())
    }

    #[boxed]
    async fn page_of_heads(
        &self,
        from: RevisionId,
        to: RevisionId,
        max: usize,
        is_shown: Shown,
    ) -> ObjectsResult<Vec<Head>> {
        let is_wanted = |head: &Head| is_version(head) && is_shown(head) && (from..to).contains(&head.revision);
        let asked = || async {
            let (mut asked, mut found) = (self.asked(from, to, Direction::Forward).await?, Vec::new());
            while found.len() < max
                && let Some(head) = asked.next().await?
            {
                found.extend(is_wanted(&head).then_some(head));
            }
            Ok(found)
        };
        if self.listed == Listed::Asked {
            return self.heads.retry_transient(asked).await;
        }
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            let mut found = Vec::new();
            let mut entries = log.between(from, to).await?;
            let mut hidden = 0;
            while found.len() < max
                && let Some(head) = entries.next_head().await?
            {
                let revision = head.revision;
                if is_wanted(&head) {
                    if self.is_listed(&head).await? {
                        found.push(head);
                    }
                    hidden = 0;
                } else {
                    hidden += 1;
                }
                if hidden > HIDDEN_MAX {
                    let next = self.first_of_oldest(revision, is_shown).await?;
                    entries = log.between(next.map_or(to, |row| row.head.revision), to).await?;
                    hidden = 0;
                }
            }
            if found.len() < max && is_wanted(&self.row.head) && self.is_listed(&self.row.head).await? {
                found.push(self.row.head.clone());
            }
            Ok(found)
        };
        self.heads.retry_transient(read).await
    }
}

/// A version in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its revision.
    pub revision: RevisionId,
    /// The incarnation that it is of.
    pub incarnation: RevisionId,
    /// The number of heads before it.
    pub place: u64,
}

impl Version {
    /// The version that begins with a head.
    pub fn of(head: &Head) -> Self {
        Self { revision: head.revision, incarnation: head.incarnation, place: head.logged }
    }

    /// Whether nothing happened between it and an earlier one, listed or not.
    pub fn follows(&self, earlier: &Self) -> bool {
        self.place == earlier.place + 1
    }
}

/// Chooses among versions by what never changes in an incarnation.
pub type Shown = fn(&Head) -> bool;

/// Whether a head is a version: it can be read.
fn is_version(head: &Head) -> bool {
    head.state == ObjectState::Live
}

/// An entry of the log as a row. Its stamp is that of no head, so a writer that compares with it is
/// refused.
fn logged(head: Head) -> HeadRow {
    HeadRow { head, stamp: Stamp([0; 16]) }
}
