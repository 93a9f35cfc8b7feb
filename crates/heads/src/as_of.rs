//! The members of a container as of a time.
//!
//! A child was a member from its incarnation until the revision that removed it, which its marks
//! say. If they settle nothing, its head and its head log do. Children are in the shards, and past
//! ones also in partitions of their own (`past.rs`). The shards are read first, then the partitions
//! of past members, so that a child that is moved meanwhile is not missed. A partition that is
//! filled since the listing began, or was just being filled, is read together with the shard that
//! it is filled from, and not again: its children are still in both.
//!
//! A listing holds one page, however many members there are.

use std::collections::VecDeque;

use bytes::Bytes;
use store::{Scan, Strength, boxed};

use crate::children::{Child, Children, Room};
use crate::container_body::ContainerBody;
use crate::containment::Container;
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{HeadRow, ObjectState};
use crate::keys;
use crate::list::Found;
use crate::mark::Settled;
use crate::revision::RevisionId;

/// Bytes of one page of the list of partitions of past members.
const INDEX_BYTES: usize = 16 << 10;

/// A listing of the members of one incarnation of a container as of a time.
pub struct MembersAsOf {
    heads: Heads,
    container: Container,
    incarnation: RevisionId,
    /// The time: all revisions below this one.
    below: RevisionId,
    /// Children count that were removed by this revision or later.
    removed_from: RevisionId,
    /// Whether children also count that were created later.
    counts_later: bool,
    /// Whether children are left out that are there, as their marks say.
    skips_present: bool,
    /// The shards when the listing began.
    began: ContainerBody,
    place: Place,
}

/// A member as of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastMember {
    /// Its name and note.
    pub found: Found,
    /// The incarnation that was the member.
    pub incarnation: RevisionId,
}

/// Where a listing continues.
enum Place {
    /// In a shard, after a name.
    Shard(u16, Option<String>),
    /// In the first of these partitions of past members, from this key on; then in those that the
    /// rest of their list names.
    Past { partitions: VecDeque<Bytes>, from: Bytes, rest: Option<Scan> },
    /// At the end.
    End,
}

impl Heads {
    /// Begins to list the members that an incarnation of a container had when exactly the revisions
    /// below `below` had been made. The incarnation need not exist any more.
    #[boxed]
    pub async fn members_as_of(
        &self,
        container: &Container,
        incarnation: RevisionId,
        below: RevisionId,
    ) -> ObjectsResult<MembersAsOf> {
        let (heads, container) = (self.clone(), container.clone());
        let began = shards_of(self, &container, incarnation).await?;
        let place = Place::Shard(0, None);
        let (removed_from, counts_later, skips_present) = (below, false, false);
        Ok(MembersAsOf {
            heads,
            container,
            incarnation,
            below,
            removed_from,
            counts_later,
            skips_present,
            began,
            place,
        })
    }

    /// Begins to list the members that an incarnation of a container may have had then, if changes
    /// count from when they were made ([`crate::head::Head::since`]) and not from when they began.
    /// Their heads say which of them were there. A name may have several incarnations.
    #[boxed]
    pub async fn possible_members_as_of(
        &self,
        container: &Container,
        incarnation: RevisionId,
        below: RevisionId,
    ) -> ObjectsResult<MembersAsOf> {
        // What began before may have been made later.
        let removed_from = RevisionId::first_at(self.horizon_at(below.time()));
        Ok(MembersAsOf { removed_from, ..self.members_as_of(container, incarnation, below).await? })
    }

    /// Begins to list the members that an incarnation of a container had when it was deleted:
    /// `deleted` is the revision of that. The clock of a server that created one of them may have
    /// been ahead of the clock by which the container was deleted. That child counts too.
    #[boxed]
    pub async fn last_members(
        &self,
        container: &Container,
        incarnation: RevisionId,
        deleted: RevisionId,
    ) -> ObjectsResult<MembersAsOf> {
        Ok(MembersAsOf { counts_later: true, ..self.members_as_of(container, incarnation, deleted).await? })
    }

    /// Begins to list the members that an incarnation of a container, which is there, ever had and may
    /// have lost.
    #[boxed]
    pub async fn lost_members(&self, container: &Container, incarnation: RevisionId) -> ObjectsResult<MembersAsOf> {
        // None was removed before the first revision.
        let ever = self.last_members(container, incarnation, RevisionId::ZERO).await?;
        Ok(MembersAsOf { skips_present: true, ..ever })
    }
}

/// The present shards of an incarnation, or its last ones.
async fn shards_of(heads: &Heads, container: &Container, incarnation: RevisionId) -> ObjectsResult<ContainerBody> {
    let partition = container.partition();
    let read = || async { heads.last_shards_of(&partition, incarnation).await };
    heads.retry_transient(read).await?.ok_or_else(|| ObjectsError::Gone(container.name()))
}

impl MembersAsOf {
    /// About `max` more members, and fewer if they have very long notes; `None` if there are no
    /// more. In each page and each shard they are in the order of names.
    #[boxed]
    pub async fn more(&mut self, max: usize) -> ObjectsResult<Option<Vec<PastMember>>> {
        loop {
            let found = match std::mem::replace(&mut self.place, Place::End) {
                Place::Shard(shard, after) if shard < self.began.shards => self.of_shard(shard, after, max).await?,
                Place::Shard(..) => {
                    let rest = Some(Scan::prefix(Bytes::new(), INDEX_BYTES));
                    self.place = Place::Past { partitions: VecDeque::new(), from: Bytes::new(), rest };
                    continue;
                }
                Place::Past { partitions, from, rest } => self.of_past(partitions, from, rest, max).await?,
                Place::End => return Ok(None),
            };
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
    }

    async fn of_shard(&mut self, shard: u16, after: Option<String>, max: usize) -> ObjectsResult<Vec<PastMember>> {
        // The shards may have been rewritten meanwhile.
        let current = shards_of(&self.heads, &self.container, self.incarnation).await?;
        let places = current.places(shard, self.began.shards).into_iter();
        let mut partitions: Vec<_> =
            places.map(|(shard, epoch)| self.container.children_partition(self.incarnation, shard, epoch)).collect();
        let was_being_copied = self.began.growing.is_some() || self.began.epochs(shard).next.is_some();
        if was_being_copied || current != self.began {
            partitions.extend(self.filled_since(shard).await?);
        }
        let from = after.as_deref().map_or_else(Bytes::new, keys::after_child);
        let children = Children::new(partitions.into_iter(), from, Strength::Usual);
        let (found, last) = self.members_among(children, max).await?;
        self.place = match last {
            Some(name) => Place::Shard(shard, Some(name)),
            None => Place::Shard(shard + 1, None),
        };
        Ok(found)
    }

    async fn of_past(
        &mut self,
        mut partitions: VecDeque<Bytes>,
        from: Bytes,
        rest: Option<Scan>,
        max: usize,
    ) -> ObjectsResult<Vec<PastMember>> {
        let Some(partition) = partitions.front().cloned() else {
            let Some(scan) = rest else { return Ok(Vec::new()) };
            let (listed, rest) = self.heads.past_partitions(&self.container, self.incarnation, Some(scan)).await?;
            for (entry, partition) in listed {
                if !self.is_filled_since(&entry)? {
                    partitions.push_back(partition);
                }
            }
            if !partitions.is_empty() || rest.is_some() {
                self.place = Place::Past { partitions, from: Bytes::new(), rest };
            }
            return Ok(Vec::new());
        };
        let children = Children::new(std::iter::once(partition), from, Strength::Usual);
        let (found, last) = self.members_among(children, max).await?;
        let from = match last {
            Some(name) => keys::after_child(&name),
            None => {
                partitions.pop_front();
                Bytes::new()
            }
        };
        self.place = Place::Past { partitions, from, rest };
        Ok(found)
    }

    /// The partitions of past members that are filled from a shard since the listing began.
    async fn filled_since(&self, shard: u16) -> ObjectsResult<Vec<Bytes>> {
        let from = keys::past_index(0, self.began.epochs(shard).current);
        let mut scan = Some(Scan { from, ..Scan::prefix(Bytes::new(), INDEX_BYTES) });
        let mut filled = Vec::new();
        while let Some(some) = scan {
            let (listed, next) = self.heads.past_partitions(&self.container, self.incarnation, Some(some)).await?;
            for (entry, partition) in listed {
                let (of, _) = place_of(&entry)?;
                if of % self.began.shards == shard && self.is_filled_since(&entry)? {
                    filled.push(partition);
                }
            }
            scan = next;
        }
        Ok(filled)
    }

    /// Whether an entry in the list of partitions of past members is as new as the listing. Epochs
    /// rise, also when there are more shards.
    fn is_filled_since(&self, entry: &[u8]) -> ObjectsResult<bool> {
        let (shard, epoch) = place_of(entry)?;
        Ok(epoch >= self.began.epochs(shard % self.began.shards).current)
    }

    /// Some members among these children, and the name after which to continue if there may be
    /// more.
    async fn members_among(
        &self,
        mut children: Children,
        max: usize,
    ) -> ObjectsResult<(Vec<PastMember>, Option<String>)> {
        let mut candidates: Vec<Child> = Vec::new();
        let mut room = Room::new(&self.heads, max);
        let mut last = None;
        while let Some(child) = children.next(&self.heads).await? {
            // All incarnations of a name are on one page.
            if room.children() == 0 && candidates.last().is_some_and(|last| last.name != child.name) {
                last = candidates.last().map(|child| child.name.clone());
                break;
            }
            if self.may_be_member(&child) {
                room.take(child.bytes());
                candidates.push(child);
            }
        }
        Ok((self.members_of(candidates).await?, last))
    }

    /// Whether a child's marks allow that it was a member.
    fn may_be_member(&self, child: &Child) -> bool {
        let marked = &child.marked;
        // Without the intent they are a repetition of marks that are elsewhere.
        !(self.skips_present && marked.marks.settled() == Settled::Live)
            && (self.counts_later || marked.incarnation < self.below)
            && marked.marks.added()
            && (!marked.marks.removed() || marked.removed_by.is_some_and(|by| by >= self.removed_from))
    }

    /// Those children that were members.
    async fn members_of(&self, candidates: Vec<Child>) -> ObjectsResult<Vec<PastMember>> {
        let is_unsettled = |child: &Child| child.marked.marks.settled() == Settled::Unsettled;
        let asked = candidates.iter().filter(|child| is_unsettled(child));
        let asked: Vec<_> = asked.map(|child| self.container.child_partition(&child.name)).collect();
        let mut heads = match asked.is_empty() {
            true => Vec::new(),
            false => self.heads.retry_transient(|| self.heads.heads_at(&asked, Strength::Strong)).await?,
        }
        .into_iter();
        let mut found = Vec::with_capacity(candidates.len());
        for child in candidates {
            if is_unsettled(&child) && !self.was_member(&child, heads.next()).await? {
                continue;
            }
            let incarnation = child.marked.incarnation;
            found.push(PastMember { found: Found { name: child.name, note: child.marked.note }, incarnation });
        }
        Ok(found)
    }

    /// Whether a child that its marks do not settle was a member, by its head. A child whose head
    /// cannot be read is left out, as in a present listing.
    async fn was_member(&self, child: &Child, head: Option<ObjectsResult<Option<HeadRow>>>) -> ObjectsResult<bool> {
        let incarnation = child.marked.incarnation;
        match head {
            Some(Ok(Some(row))) if row.head.state == ObjectState::Live && row.head.incarnation == incarnation => {
                Ok(true)
            }
            Some(Err(error)) if !error.is_damage() => Err(error),
            Some(Err(error)) => {
                tracing::warn!(name = %child.name, %error, "a head that a listing asks cannot be read");
                Ok(false)
            }
            _ => {
                let partition = self.container.child_partition(&child.name);
                let end = || async { self.heads.end_of(&partition, incarnation).await };
                let end = self.heads.retry_transient(end).await?;
                Ok(end.is_some_and(|end| end.revision >= self.removed_from))
            }
        }
    }
}

fn place_of(entry: &[u8]) -> ObjectsResult<(u16, u32)> {
    let strange = || ObjectsError::corrupt(store::Table::Children, "a strange key in a list of past members");
    keys::past_index_of(entry).ok_or_else(strange)
}
