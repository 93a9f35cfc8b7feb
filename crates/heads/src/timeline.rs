//! The versions of an object in order of time: its live heads, in its log and at present.
//!
//! A version begins with its revision and is in force until the next head. Each search reads the
//! head, then a few rows: the page of a revision is found by halving (`head_log.rs`). Entries of
//! the log are never removed, so what is found at a time stays the same; the rows of a version may
//! be gone, which [`Timeline::kept_from`] says.

use bytes::Bytes;
use store::Stamp;

use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::{Head, HeadRow, ObjectState};
use crate::keep::Keep;
use crate::revision::RevisionId;

/// Entries of the log that are read one after the other although none of them is wanted: a page of
/// it. After so many the next wanted one is found by skipping incarnations.
const HIDDEN_MAX: u32 = 1_024;

/// The versions of an object, as of one strong read of its head.
pub struct Timeline {
    heads: Heads,
    object: Bytes,
    row: HeadRow,
    kept_from: RevisionId,
}

impl Keep {
    /// Whether a version can be read once it is replaced.
    pub fn keeps_versions(self) -> bool {
        !matches!(self, Self::None | Self::Newest(0))
    }
}

impl Heads {
    /// The versions of an object; `None` if it never existed.
    pub async fn timeline(&self, object: &Bytes, keep: Keep) -> ObjectsResult<Option<Timeline>> {
        let row = self.retry_transient(|| self.head_at(object)).await?;
        match row {
            Some(row) => Ok(Some(self.timeline_before(object, row, keep).await?)),
            None => Ok(None),
        }
    }

    /// The versions of an object as of a strong read of its head.
    pub async fn timeline_before(&self, object: &Bytes, row: HeadRow, keep: Keep) -> ObjectsResult<Timeline> {
        let kept = self.retry_transient(|| self.kept_from(object, &row.head, keep)).await?;
        let kept = kept.unwrap_or(row.head.revision);
        let kept_from = kept.max(row.head.collected.unwrap_or(RevisionId::ZERO));
        Ok(Timeline { heads: self.clone(), object: object.clone(), row, kept_from })
    }
}

impl Timeline {
    /// The head that was read.
    pub fn stands(&self) -> &HeadRow {
        &self.row
    }

    /// The revision from which on versions are kept. Of earlier ones only the times are known.
    pub fn kept_from(&self) -> RevisionId {
        self.kept_from
    }

    /// The newest version below a revision that `is_shown`, kept or not.
    pub async fn newest_below(&self, below: RevisionId, is_shown: Shown) -> ObjectsResult<Option<HeadRow>> {
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            let mut below = below;
            let mut row = match self.row.head.revision < below {
                true => Some(self.row.clone()),
                false => log.newest_below(below).await?.map(logged),
            };
            while let Some(found) = row {
                if is_version(&found.head) && is_shown(&found.head) {
                    return Ok(Some(found));
                }
                // All versions of an incarnation are of one kind.
                below = if is_version(&found.head) { found.head.incarnation } else { found.head.revision };
                row = log.newest_below(below).await?.map(logged);
            }
            Ok(None)
        };
        self.heads.retry_transient(read).await
    }

    /// The newest version of an incarnation, kept or not.
    pub async fn newest_of(&self, incarnation: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            let mut row = Some(self.row.clone());
            while let Some(found) = row.take_if(|row| row.head.incarnation >= incarnation) {
                if found.head.incarnation == incarnation && is_version(&found.head) {
                    return Ok(Some(found));
                }
                let is_other = found.head.incarnation != incarnation;
                let below = if is_other { found.head.incarnation } else { found.head.revision };
                row = log.newest_below(below).await?.map(logged);
            }
            Ok(None)
        };
        self.heads.retry_transient(read).await
    }

    /// The version that was in force when exactly the revisions below `below` had been made; `None`
    /// if there was none, for example because it was deleted.
    pub async fn in_force(&self, below: RevisionId) -> ObjectsResult<Option<HeadRow>> {
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
        Ok(self.heads.retry_transient(read).await?.filter(|row| is_version(&row.head)))
    }

    /// The version that begins with a revision, kept or not.
    pub async fn version(&self, revision: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        if self.row.head.revision == revision {
            return Ok(Some(self.row.clone()).filter(|row| is_version(&row.head)));
        }
        let log = self.heads.log_before(&self.object, &self.row.head);
        let entry = self.heads.retry_transient(|| log.entry(revision)).await?;
        Ok(entry.map(logged).filter(|row| is_version(&row.head)))
    }

    /// The oldest version from a revision on that `is_shown`, kept or not.
    pub async fn oldest_from(&self, from: RevisionId, is_shown: Shown) -> ObjectsResult<Option<HeadRow>> {
        self.heads.retry_transient(|| self.oldest_shown(from, is_shown)).await
    }

    async fn oldest_shown(&self, from: RevisionId, is_shown: Shown) -> ObjectsResult<Option<HeadRow>> {
        let is_wanted = |head: &Head| is_version(head) && is_shown(head);
        let log = self.heads.log_before(&self.object, &self.row.head);
        if let Some(first) = log.oldest_from(from).await? {
            if is_wanted(&first) {
                return Ok(Some(logged(first)));
            }
            let mut entries = log.from(first.revision.successor()).await?;
            let mut hidden = 0;
            while let Some(head) = entries.next_head().await? {
                if is_wanted(&head) {
                    return Ok(Some(logged(head)));
                }
                hidden += 1;
                if hidden > HIDDEN_MAX {
                    return self.first_of_oldest(head.revision, is_shown).await;
                }
            }
        }
        Ok(Some(&self.row).filter(|row| row.head.revision >= from && is_wanted(&row.head)).cloned())
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

    /// At most `max` versions from a revision on and below another that `is_shown`, kept or not,
    /// oldest first. `view` makes an entry of each.
    pub async fn page<T>(
        &self,
        from: RevisionId,
        to: RevisionId,
        max: usize,
        is_shown: Shown,
        view: impl Fn(&Head) -> T,
    ) -> ObjectsResult<Vec<T>> {
        let is_wanted = |head: &Head| is_version(head) && is_shown(head) && (from..to).contains(&head.revision);
        let read = || async {
            let log = self.heads.log_before(&self.object, &self.row.head);
            let mut found = Vec::new();
            let mut entries = log.between(from, to).await?;
            let mut hidden = 0;
            while found.len() < max
                && let Some(head) = entries.next_head().await?
            {
                if is_wanted(&head) {
                    found.push(view(&head));
                    hidden = 0;
                } else {
                    hidden += 1;
                }
                if hidden > HIDDEN_MAX {
                    let next = self.first_of_oldest(head.revision, is_shown).await?;
                    entries = log.between(next.map_or(to, |row| row.head.revision), to).await?;
                    hidden = 0;
                }
            }
            if found.len() < max && is_wanted(&self.row.head) {
                found.push(view(&self.row.head));
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
}

impl Version {
    /// The version that begins with a head.
    pub fn of(head: &Head) -> Self {
        Self { revision: head.revision, incarnation: head.incarnation }
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
