//! Collecting what no head names: condemned by a compare-and-write of the head, removed once the grace has passed.
//!
//! Whoever replaces, deletes or only begins to import a volume leaves a record in [`store::Table::Work`]; the collector looks at
//! the volumes of these records and at no others. Any number of servers may collect at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hathi::VolumeId;
use store::row::prefix_end;
use store::{Class, Removal, Scan, Step, UnixMillis};

use crate::error::ObjectsResult;
use crate::head::{Condemned, Head, HeadRow};
use crate::history::Keep;
use crate::keys;
use crate::library::Library;
use crate::queue::{Entry, Queue};
use crate::revision::RevisionId;

/// When versions that are kept for a time are looked at again.
pub(crate) const LOOKED_AT_AGAIN: Duration = Duration::from_secs(3_600);

/// Bounds of one pass of the collector.
#[derive(Clone, Copy, Debug)]
pub struct CollectLimits {
    /// Volumes at which something is changed; looking costs little.
    pub volumes_max: u64,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self { volumes_max: 1_000 }
    }
}

/// What one pass of the collector did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Volumes that were looked at.
    pub volumes: u64,
    /// Volumes of which something was condemned.
    pub condemned: u64,
    /// Generations that were removed.
    pub removed: u64,
    /// Volumes that have to wait: for the grace, a pin or an import that may still run.
    pub waiting: u64,
    /// Volumes that are done with; their records are gone.
    pub finished: u64,
    /// Volumes that could not be dealt with now; why is in the log.
    pub failed: u64,
    /// Shards of the container that were rewritten without what is past.
    pub shards_rewritten: u64,
}

/// What was done to one volume.
enum Progress {
    Condemned,
    Removed(u64),
    /// Nothing can be done before this time, or nobody knows before when.
    Waiting(UnixMillis),
    /// There is nothing left to do, and nobody who left these records is at work any more.
    Finished,
}

impl Library {
    /// One pass over all recorded work: condemns what no head names, and removes what was condemned longer than the grace ago
    /// and nobody pinned; and looks at one shard of the container, the next in turn, whether it should be rewritten. Whatever a
    /// pass does not end, a later one does.
    pub async fn collect_once(&self, limits: CollectLimits) -> ObjectsResult<Collected> {
        let collected = self.collect_volumes(limits).await;
        let shards_rewritten = u64::from(self.tend_next_shard().await?);
        Ok(Collected { shards_rewritten, ..collected? })
    }

    async fn collect_volumes(&self, limits: CollectLimits) -> ObjectsResult<Collected> {
        let mut collected = Collected::default();
        if !self.is_home() {
            return Ok(collected);
        }
        let mut pass = self.pass(Queue::Collecting).await?;
        while let Some(entries) = self.next_due(&mut pass).await? {
            for (id, records) in by_volume(entries) {
                if collected.condemned + collected.removed >= limits.volumes_max {
                    return Ok(collected);
                }
                collected.volumes += 1;
                let now = self.inner.surroundings.clock.now();
                let until = match self.patiently(|| self.collect_volume(&id, &records)).await {
                    Ok(Progress::Condemned) => {
                        collected.condemned += 1;
                        now.plus(self.inner.options.grace)
                    }
                    Ok(Progress::Removed(generations)) => {
                        collected.removed += generations;
                        now
                    }
                    Ok(Progress::Waiting(until)) => {
                        collected.waiting += 1;
                        until
                    }
                    Ok(Progress::Finished) => {
                        collected.finished += 1;
                        self.finish(&records).await?;
                        continue;
                    }
                    Err(error) if error.is_passing() => return Err(error),
                    Err(error) => {
                        tracing::warn!(volume = %id, %error, "a volume could not be collected");
                        collected.failed += 1;
                        now
                    }
                };
                self.postpone(&records, id.as_str().as_bytes(), until).await?;
            }
        }
        self.end_pass(pass).await?;
        Ok(collected)
    }

    async fn collect_volume(&self, id: &VolumeId, records: &[Entry]) -> ObjectsResult<Progress> {
        let row = self.head(id).await?;
        match row.as_ref().and_then(|row| row.head.condemned) {
            Some(condemned) if self.grace_passed(condemned.at) => self.remove_condemned(id, condemned).await,
            Some(condemned) => Ok(Progress::Waiting(condemned.at.plus(self.inner.options.grace))),
            None => self.condemn(id, row, records).await,
        }
    }

    /// Condemns what the head does not name; or, if there is nothing, forgets the records that are old enough.
    async fn condemn(&self, id: &VolumeId, row: Option<HeadRow>, records: &[Entry]) -> ObjectsResult<Progress> {
        let now = self.inner.surroundings.clock.now();
        let named = row.as_ref().map_or(RevisionId::ZERO, |row| row.head.revision);
        let unnamed = self.unnamed_generations(id, row.as_ref()).await?;
        if unnamed.is_empty() {
            if let Keep::For(time) = self.inner.options.history.volumes
                && now < named.time().plus(time)
            {
                return Ok(Progress::Waiting(now.plus(LOOKED_AT_AGAIN)));
            }
            // Whoever left a record a grace ago cannot be at work any more.
            let revisions = records.iter().filter_map(|entry| keys::collecting_of(entry.sort())).map(|(of, _)| of);
            let until = revisions.map(|revision| revision.time().plus(self.inner.options.grace)).max();
            let until = until.unwrap_or_default();
            return Ok(if until > now { Progress::Waiting(until) } else { Progress::Finished });
        }
        let pinned = self.pinned_revisions(id).await?;
        // What is above the head may be an import that still runs: it is left alone for as long as a grace.
        let is_over = |generation: &RevisionId| *generation < named || self.grace_passed(generation.time());
        let doomed = unnamed.into_iter().filter(|generation| !pinned.contains(generation)).filter(is_over);
        let Some(floor) = doomed.max() else { return Ok(Progress::Waiting(now)) };
        let stands = row.as_ref().map_or_else(Head::free, |row| row.head.clone());
        let condemned = Condemned { named, floor, at: self.inner.surroundings.clock.now() };
        let head = Head { floor: stands.floor.max(floor), condemned: Some(condemned), ..stands };
        let partition = keys::volume_partition(id);
        let amended = self.try_amend(&partition, row.as_ref(), head, Vec::new(), Vec::new()).await?;
        // If the head moved, or nobody knows, the next pass sees what stands there.
        Ok(if amended.is_some() { Progress::Condemned } else { Progress::Waiting(now) })
    }

    /// Removes what is at or below the floor and was not named when it was condemned, except what is pinned; then lifts the
    /// condemnation. Heads since then are above the floor, so they name nothing of it.
    async fn remove_condemned(&self, id: &VolumeId, condemned: Condemned) -> ObjectsResult<Progress> {
        let partition = keys::volume_partition(id);
        let pinned = self.pinned_revisions(id).await?;
        let row = self.head(id).await?;
        let mut doomed = self.unnamed_generations(id, row.as_ref()).await?;
        doomed.retain(|generation| {
            *generation <= condemned.floor && *generation != condemned.named && !pinned.contains(generation)
        });
        for generation in &doomed {
            let steps = keys::generation_prefixes().map(|(table, kind)| {
                let first = keys::generation_rows(&kind, *generation);
                let rows = Removal::Range(first.clone(), prefix_end(&first));
                Step::Remove { table, partition: partition.clone(), rows }
            });
            self.put_acknowledged(Class::Content, steps.into()).await?;
        }
        self.amend(&partition, |head| {
            let head = head.filter(|head| head.condemned == Some(condemned))?;
            Some(Head { condemned: None, ..head.clone() })
        })
        .await?;
        Ok(Progress::Removed(doomed.len() as u64))
    }

    /// The generations of which there are rows, but which the head does not name.
    async fn unnamed_generations(&self, id: &VolumeId, row: Option<&HeadRow>) -> ObjectsResult<BTreeSet<RevisionId>> {
        let mut generations = self.generations(id).await?;
        if let Some(volume) = row.and_then(|row| row.head.live_volume()) {
            generations.remove(&volume.generation);
        }
        if let (Some(row), true) = (row, self.inner.options.history.volumes != Keep::None && !generations.is_empty()) {
            let log = self.head_log(&keys::volume_partition(id)).await?;
            let kept = self.inner.options.history.volumes.count(&log, &row.head, self.inner.surroundings.clock.now());
            let kept = log.iter().rev().take(kept).filter_map(Head::live_volume);
            kept.for_each(|volume| _ = generations.remove(&volume.generation));
        }
        Ok(generations)
    }

    /// The generations of which there are rows. Reads one row of each and kind, and jumps over the others.
    async fn generations(&self, id: &VolumeId) -> ObjectsResult<BTreeSet<RevisionId>> {
        let partition = keys::volume_partition(id);
        let mut generations = BTreeSet::new();
        for (table, kind) in keys::generation_prefixes() {
            let mut scan = Scan::prefix(kind.clone(), 1);
            loop {
                let call = self.call(Class::Description).strong();
                let page = self.inner.store.scan(call, table, &partition, scan.clone()).await?;
                let Some(generation) = page.rows.first().and_then(|row| keys::revision_of(&row.sort)) else { break };
                generations.insert(generation);
                let Some(from) = prefix_end(&keys::generation_rows(&kind, generation)) else { break };
                scan.from = from;
            }
        }
        Ok(generations)
    }

    pub(crate) fn grace_passed(&self, since: UnixMillis) -> bool {
        self.inner.surroundings.clock.now().since(since) >= self.inner.options.grace
    }
}

/// The volumes that records are of.
fn by_volume(entries: Vec<Entry>) -> BTreeMap<VolumeId, Vec<Entry>> {
    let mut volumes: BTreeMap<VolumeId, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        if let Some((_, id)) = keys::collecting_of(entry.sort()) {
            volumes.entry(id).or_default().push(entry);
        }
    }
    volumes
}
