//! Collects generations of volumes that no head names: a compare-and-write of the head condemns
//! them, and after the grace they are removed.
//!
//! A writer that replaces, deletes or begins to import a volume leaves a record in
//! [`store::Table::Work`]. The collector visits only the volumes of these records. Any number of
//! servers may collect at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use hathi::VolumeId;
use heads::chores::{Chore, Tally, Then};
use heads::containment::Container;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Body, Condemned, Head, HeadRow, ObjectState};
use heads::keep::Keep;
use heads::keys;
use heads::queue::WorkEntry;
use heads::queues::Queue;
use heads::revision::RevisionId;
use heads::rules::Rule;
use store::{Scan, Table, UnixMillis, boxed};

use crate::generations::list;
use crate::handle::Volumes;

/// Bounds of one pass of the collector.
#[derive(Clone, Copy, Debug)]
pub struct CollectLimits {
    /// The most volumes that one pass changes; visiting costs little.
    pub volumes_max: u64,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self { volumes_max: 1_000 }
    }
}

/// The results of one pass of the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Volumes that were visited.
    pub volumes: u64,
    /// Volumes with a new condemnation.
    pub condemned: u64,
    /// Generations that were removed.
    pub removed: u64,
    /// Volumes that have to wait for the grace, a pin, or an import that may still run.
    pub waiting: u64,
    /// Volumes that are finished; their records are removed.
    pub finished: u64,
    /// Volumes that failed; the log has the reasons.
    pub failed: u64,
    /// Shards of the container that were rewritten without past members.
    pub shards_rewritten: u64,
}

/// The result for one volume.
enum Progress {
    Condemned,
    Removed(u64),
    /// Nothing can be done before this time, or nothing is known about when.
    Waiting(UnixMillis),
    /// Nothing is left to do. Writers of the records may still be at work.
    Finished,
}

/// The revisions under which these records were left.
fn revisions_of(records: &[WorkEntry]) -> impl Iterator<Item = RevisionId> {
    records.iter().filter_map(|entry| keys::collecting_of(entry.sort())).map(|(revision, _)| revision)
}

impl Volumes {
    /// Makes one pass over all recorded work: condemns what no head names, and removes what was
    /// condemned at least a grace ago and is not pinned. Also visits the next shard of the
    /// container, which may have to be rewritten. A later pass continues unfinished work.
    #[boxed]
    pub async fn collect_once(&self, limits: CollectLimits) -> ObjectsResult<Collected> {
        let mut collected = Collected::default();
        if !self.heads.is_home() {
            return Ok(collected);
        }
        let mut tally = self.heads.tally(Chore::Volumes);
        let done = self.collect_volumes(limits, &mut tally, &mut collected).await;
        match tally.take("the container of volumes", self.tend_next_shard().await)? {
            Some(is_rewritten) => collected.shards_rewritten = u64::from(is_rewritten),
            None => collected.failed += 1,
        }
        done.map(|()| collected)
    }

    async fn collect_volumes(
        &self,
        limits: CollectLimits,
        tally: &mut Tally<'_>,
        collected: &mut Collected,
    ) -> ObjectsResult<()> {
        let mut pass = self.heads.pass(Queue::Collecting).await?;
        while let Some(entries) = self.heads.next_due(&mut pass, tally).await? {
            let mut volumes: BTreeMap<VolumeId, Vec<WorkEntry>> = BTreeMap::new();
            for entry in entries {
                match keys::collecting_of(entry.sort()) {
                    Some((_, id)) => volumes.entry(id).or_default().push(entry),
                    None => {
                        let strange = Err(ObjectsError::corrupt(Table::Work, "a record of no volume"));
                        let record = (std::slice::from_ref(&entry), &entry.sort()[..]);
                        self.heads.dealt_with::<()>(tally, record, strange).await?;
                        collected.failed += 1;
                    }
                }
            }
            for (id, records) in volumes {
                if collected.condemned + collected.removed >= limits.volumes_max {
                    return self.heads.leave_pass(pass).await;
                }
                collected.volumes += 1;
                let now = self.heads.now();
                let progress = self.heads.retry_transient(|| self.collect_volume(&id, &records)).await;
                let outcome = progress.map(|(progress, complete)| {
                    let then = match progress {
                        Progress::Condemned => Then::Partly(complete, now.plus(self.heads.options().grace)),
                        Progress::Removed(_) => Then::Partly(complete, now),
                        Progress::Waiting(until) => Then::Partly(complete, until),
                        Progress::Finished => Then::Finished,
                    };
                    (progress, then)
                });
                match self.heads.dealt_with(tally, (&records, id.as_str().as_bytes()), outcome).await? {
                    Some(Progress::Condemned) => collected.condemned += 1,
                    Some(Progress::Removed(generations)) => collected.removed += generations,
                    Some(Progress::Waiting(_)) => collected.waiting += 1,
                    Some(Progress::Finished) => collected.finished += 1,
                    None => collected.failed += 1,
                }
            }
        }
        self.heads.end_pass(pass).await
    }

    /// Visits a volume. Also returns the sort keys of those records for which nothing is left to do,
    /// whatever is left for the others: something always waits for the grace in a volume that
    /// changes all the time.
    async fn collect_volume(&self, id: &VolumeId, records: &[WorkEntry]) -> ObjectsResult<(Progress, BTreeSet<Bytes>)> {
        // Before anything is read, so that all that these writers did is found.
        let ended: BTreeSet<RevisionId> =
            revisions_of(records).filter(|revision| self.heads.requests_passed(revision.time())).collect();
        let row = self.head(id).await?;
        // Of revisions below this one nothing is left, nor of what they superseded.
        let oldest = self.oldest_besides(id, row.as_ref()).await?;
        let (progress, settled) = match row.as_ref().and_then(|row| row.head.condemned) {
            Some(condemned) if self.heads.grace_passed(self.heads.grace_from(condemned)) => {
                (self.remove_condemned(id, condemned).await?, oldest.min(condemned.floor))
            }
            // A record of the last that is condemned stays until the condemnation is lifted.
            Some(condemned) => {
                let until = condemned.at.plus(self.heads.options().grace);
                (Progress::Waiting(until), oldest.min(condemned.floor))
            }
            None => match self.condemn(id, row, records).await? {
                Progress::Finished => (Progress::Finished, RevisionId::LAST),
                progress => (progress, oldest),
            },
        };
        let is_complete = |record: &&WorkEntry| {
            let revision = keys::collecting_of(record.sort()).map(|(revision, _)| revision);
            revision.is_some_and(|revision| ended.contains(&revision) && revision < settled)
        };
        let complete: BTreeSet<Bytes> =
            records.iter().filter(is_complete).map(|record| record.sort().clone()).collect();
        let progress = match progress {
            Progress::Finished if complete.len() < records.len() => {
                Progress::Waiting(self.heads.at_work_until(revisions_of(records)).unwrap_or(self.heads.now()))
            }
            progress => progress,
        };
        Ok((progress, complete))
    }

    /// The first generation in the list besides that of the head.
    async fn oldest_besides(&self, id: &VolumeId, row: Option<&HeadRow>) -> ObjectsResult<RevisionId> {
        let partition = keys::volume_partition(id);
        let named = row.and_then(|row| row.head.live_volume()).map(|volume| volume.generation);
        let mut scan = Some(list());
        while let Some(window) = scan {
            let (generations, rest) = self.listed_generations(&partition, window).await?;
            if let Some(oldest) = generations.into_iter().find(|generation| Some(*generation) != named) {
                return Ok(oldest);
            }
            scan = rest;
        }
        Ok(RevisionId::LAST)
    }

    /// Condemns what the head does not name.
    async fn condemn(&self, id: &VolumeId, row: Option<HeadRow>, records: &[WorkEntry]) -> ObjectsResult<Progress> {
        let now = self.heads.now();
        let named = row.as_ref().map_or(RevisionId::ZERO, |row| row.head.revision);
        let pinned = self.pinned_revisions(id).await?;
        // A generation above the head may belong to a running import: it is left alone for a grace.
        let is_over = |generation: &RevisionId| *generation < named || self.heads.grace_passed(generation.time());
        let (mut floor, mut is_unnamed) = (None, false);
        let mut scan = Some(list());
        while let Some(window) = scan {
            let (unnamed, rest) = self.unnamed_generations(id, row.as_ref(), None, window).await?;
            is_unnamed |= !unnamed.is_empty();
            let doomed = unnamed.into_iter().filter(|generation| !pinned.contains(generation)).filter(is_over);
            floor = doomed.max().or(floor);
            scan = rest;
        }
        if !is_unnamed {
            if let Keep::For(time) = self.heads.options().history.volumes
                && now < named.time().plus(time)
            {
                let kept = self.heads.kept_until(time, revisions_of(records).chain([named]));
                let until = self.heads.at_work_until(revisions_of(records));
                return Ok(Progress::Waiting(until.map_or(kept, |until| until.min(kept))));
            }
            return Ok(Progress::Finished);
        }
        let Some(floor) = floor else { return Ok(Progress::Waiting(now)) };
        let current = row.as_ref().map_or_else(Head::free, |row| row.head.clone());
        let condemned = Condemned { named, floor, at: self.heads.now() };
        let floor = if self.heads.keeps(Rule::Floor) { current.floor.max(floor) } else { current.floor };
        let head = Head { floor, condemned: Some(condemned), ..current };
        let partition = keys::volume_partition(id);
        let amended = self.heads.try_amend(&partition, row.as_ref(), head, Vec::new()).await?;
        // If the head moved, or the outcome is unknown, the next pass reads the present state.
        Ok(if amended.is_some() { Progress::Condemned } else { Progress::Waiting(now) })
    }

    /// Removes generations at or below the floor that were neither named nor kept when they were
    /// condemned, except pinned ones; then lifts the condemnation. Later heads are above the floor,
    /// so they name none of these generations. What was kept then and is not any more is condemned
    /// by a later pass, so that its readers have a grace too.
    async fn remove_condemned(&self, id: &VolumeId, condemned: Condemned) -> ObjectsResult<Progress> {
        let partition = keys::volume_partition(id);
        let pinned = match self.heads.keeps(Rule::PinScan) {
            true => self.pinned_revisions(id).await?,
            false => BTreeSet::new(),
        };
        let row = self.head(id).await?;
        let mut removed = 0;
        let to = Some(keys::generation(condemned.floor.successor()));
        let mut scan = Some(Scan { to, ..list() });
        while let Some(window) = scan {
            let (mut doomed, rest) = self.unnamed_generations(id, row.as_ref(), Some(condemned), window).await?;
            doomed.retain(|generation| {
                let was_named = *generation == condemned.named && self.heads.keeps(Rule::H0);
                *generation <= condemned.floor && !was_named && !pinned.contains(generation)
            });
            for generation in &doomed {
                self.remove_generation(&partition, *generation).await?;
            }
            removed += doomed.len() as u64;
            scan = rest;
        }
        self.heads
            .amend(&partition, &|head| {
                let head = head.filter(|head| head.condemned == Some(condemned))?;
                Some(Head { condemned: None, ..head.clone() })
            })
            .await?;
        Ok(Progress::Removed(removed))
    }

    /// Returns the generations in a page of the list that may have rows, and that neither the head
    /// nor the history names, and the rest of the list. The history is the one that was kept when
    /// `condemned` was made, or the present one.
    async fn unnamed_generations(
        &self,
        id: &VolumeId,
        row: Option<&HeadRow>,
        condemned: Option<Condemned>,
        window: Scan,
    ) -> ObjectsResult<(BTreeSet<RevisionId>, Option<Scan>)> {
        let partition = keys::volume_partition(id);
        let (mut generations, rest) = self.listed_generations(&partition, window).await?;
        let mut strike = |head: &Head| {
            if let Body::Volume(volume) = &head.body {
                generations.remove(&volume.generation);
            }
        };
        if let Some(row) = row {
            if row.head.state == ObjectState::Live {
                strike(&row.head);
            }
            let keep = self.heads.options().history.volumes;
            let kept_from = match condemned {
                None => self.heads.kept_from(&partition, &row.head, keep).await?,
                Some(Condemned { named, at, .. }) => {
                    self.heads.kept_from_then(&partition, &row.head, keep, named, at).await?
                }
            };
            if let Some(kept_from) = kept_from {
                let log = self.heads.log_before(&partition, &row.head);
                let mut kept = log.from(kept_from).await?;
                while let Some(head) = kept.next_head().await? {
                    strike(&head);
                }
            }
        }
        Ok((generations, rest))
    }

    /// Visits the next shard of volumes: continues a rewrite that was begun, drops what an earlier
    /// one left, or begins a rewrite if that is worthwhile. Returns whether the shard was
    /// rewritten. [`Volumes::collect_once`] does this too.
    pub async fn tend_next_shard(&self) -> ObjectsResult<bool> {
        if !self.heads.is_home() {
            return Ok(false);
        }
        let parent = self.heads.retry_transient(|| self.heads.parent(&Container::Volumes)).await?;
        let shard = self.inner.shard_in_turn.fetch_add(1, Ordering::Relaxed) % parent.shards().max(1);
        self.heads.tend_shard(&parent, shard).await
    }
}
