//! Giving a container more shards when one of them has grown large, or as many without its past members.
//!
//! One of many children is a sample: with the mark that announces it goes a row that says how many bytes its rows take. Who creates such
//! a child adds up the samples of its shard, and records that the container is to grow if they stand for too much; so creating costs the
//! same however large a container is, and nobody counts.
//!
//! Growing is rewriting all shards at once, and safe for the same reasons: the head names the shards that are to be beside those that
//! are; then these are scanned, and each child that is not surely gone is copied, all its marks in one step; then the head names the new
//! ones alone. There are a multiple of the shards before, so that a listing that began with fewer finds in some of them what is left of
//! each of its own. Any server goes on with what another has begun; the old partitions are dropped once no page can still be reading them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{Class, NewRow, Scan, Table, envelope};

use crate::containment::{Container, Parent};
use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{self, ContainerBody, Head};
use crate::keys;
use crate::library::Library;
use crate::passes::{Chore, Then};
use crate::queue::{Entry, Queue};
use crate::resources::stored_path;
use crate::revision::RevisionId;
use crate::rewrite::{Copied, Counted, DROPPED_ROWS_MAX};

/// How many times as many shards there are afterwards.
const TIMES: u16 = 4;

/// If one of so many rows of a shard is of a past member, as many shards as before will do.
const DEAD_SHARE: u64 = 2;

/// So many shards are enough: names of 20 bytes for more than a thousand million children.
const SHARDS_MAX: u16 = 4_096;

/// Bytes that a row takes besides its key and its payload: the envelope, and what Cassandra writes of a row and its cell.
pub(crate) const ROW_BYTES: usize = 20;

/// Bytes of one page of a scan over samples or records.
const SCAN_BYTES: usize = 64 << 10;

/// Which children are samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampling {
    one_of: u32,
}

impl Sampling {
    /// Whether a child is one, which follows from its incarnation, so that it stays one wherever it is copied.
    fn includes(self, incarnation: RevisionId) -> bool {
        crc32fast::hash(&incarnation.0).is_multiple_of(self.one_of.max(1))
    }

    /// The row that says how many bytes the rows of a child take, if it is a sample: its two marks, and the change that it makes.
    pub fn row(self, name: &str, incarnation: RevisionId, note: &Bytes) -> Option<NewRow> {
        let bytes = u32::try_from(sampled_bytes(name.len()) + note.len()).unwrap_or(u32::MAX);
        self.includes(incarnation).then(|| NewRow::new(keys::sample(incarnation), envelope::seal(&bytes.to_be_bytes())))
    }
}

/// Bytes of a key that is a kind and a revision.
const REVISION_KEY: usize = 17;

/// Bytes of a mark of a child whose name has so many.
const fn mark_bytes(name: usize) -> usize {
    name + REVISION_KEY + 1 + ROW_BYTES
}

/// Bytes that a sample counts for a child whose name has so many: its two marks, and the change that it makes.
pub(crate) const fn sampled_bytes(name: usize) -> usize {
    2 * mark_bytes(name) + REVISION_KEY + ROW_BYTES
}

/// Bytes that the child comes to when it is gone: all four marks, the last with a revision, and two changes.
pub(crate) const fn past_bytes(name: usize) -> usize {
    4 * mark_bytes(name) + size_of::<RevisionId>() + 2 * (REVISION_KEY + ROW_BYTES)
}

/// A container that is to have other shards than those that began with `first_epoch`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    of: Of,
    incarnation: RevisionId,
    first_epoch: u32,
}

/// What a container was before it was given more shards.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Outgrown {
    of: Of,
    incarnation: RevisionId,
    children: ContainerBody,
}

/// Which container, as a record tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Of {
    Volumes,
    Resource(String),
}

impl Of {
    fn container(container: &Container) -> Self {
        match container {
            Container::Volumes => Self::Volumes,
            Container::At(path) => Self::Resource(path.to_string()),
        }
    }

    fn stored(&self) -> ObjectsResult<Container> {
        Ok(match self {
            Self::Volumes => Container::Volumes,
            Self::Resource(path) => Container::At(stored_path(path)?),
        })
    }
}

impl Library {
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling { one_of: self.inner.options.sample_one_of }
    }

    /// Records that a container is to grow, if the child that was created in it is a sample and its shard is too large. Whoever fails to
    /// leaves it to the next one.
    pub(crate) async fn note_size(&self, parent: &Parent, name: &str, incarnation: RevisionId) {
        if !self.sampling().includes(incarnation) || parent.shards() > SHARDS_MAX / TIMES {
            return;
        }
        if let Err(error) = self.note_if_large(parent, &parent.target(name)).await {
            tracing::debug!(container = %parent.container().name(), %error, "its size was not looked at");
        }
    }

    async fn note_if_large(&self, parent: &Parent, partition: &Bytes) -> ObjectsResult<()> {
        let mut bytes = 0;
        let mut scan = Some(Scan::prefix(keys::sample_prefix(), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.call(Class::Description);
            let page = self.inner.store.scan(call, Table::Children, partition, range.clone()).await?;
            for row in &page.rows {
                let corrupt = |detail: &str| ObjectsError::corrupt(Table::Children, detail);
                let payload = envelope::open(&row.value).map_err(|error| corrupt(&error.to_string()))?;
                let sampled = payload[..].try_into().map_err(|_| corrupt("a sample of another length"))?;
                bytes += u64::from(u32::from_be_bytes(sampled)) * u64::from(self.inner.options.sample_one_of.max(1));
            }
            scan = range.resumed(page.next);
        }
        if bytes < self.inner.options.shard_bytes_max {
            return Ok(());
        }
        let (incarnation, first_epoch) = (parent.incarnation(), parent.body().first_epoch);
        let job = head::seal(&Job { of: Of::container(parent.container()), incarnation, first_epoch })?;
        let sort = keys::growing(incarnation, first_epoch);
        let record = self.queued(Queue::Growing, self.inner.surroundings.clock.now(), &[], sort).put(job);
        self.put_acknowledged(Class::Description, vec![record]).await
    }

    /// Gives other shards to the containers that were found to need them, and drops the partitions of those that grew a grace ago. Answers
    /// how many containers grew. Whatever it does not end, a later call does.
    pub async fn grow_containers(&self) -> ObjectsResult<u64> {
        let mut grown = 0;
        if !self.is_home() {
            return Ok(grown);
        }
        let mut tally = self.tally(Chore::Growing);
        let mut pass = self.pass(Queue::Growing).await?;
        while let Some(entries) = self.next_due(&mut pass, &mut tally).await? {
            for entry in &entries {
                let grew = self.grow_recorded(entry).await;
                let record = (std::slice::from_ref(entry), &entry.sort()[..]);
                grown += u64::from(self.dealt_with(&mut tally, record, grew).await? == Some(Grew::Now));
            }
        }
        self.end_pass(pass).await?;
        let mut rows_left = DROPPED_ROWS_MAX;
        let mut pass = self.pass(Queue::Outgrown).await?;
        while let Some(entries) = self.next_due(&mut pass, &mut tally).await? {
            for entry in &entries {
                let dropped = self.drop_recorded(entry, &mut rows_left).await;
                self.dealt_with(&mut tally, (std::slice::from_ref(entry), &entry.sort()[..]), dropped).await?;
            }
        }
        self.end_pass(pass).await?;
        Ok(grown)
    }

    async fn grow_recorded(&self, record: &Entry) -> ObjectsResult<(Grew, Then)> {
        let grew = self.grow(&head::open(Table::Work, &record.value)?).await?;
        Ok((grew, self.finished_if(grew != Grew::NotNow)))
    }

    async fn drop_recorded(&self, record: &Entry, rows_left: &mut u64) -> ObjectsResult<((), Then)> {
        let is_done = self.drop_outgrown(&head::open(Table::Work, &record.value)?, rows_left).await?;
        Ok(((), self.finished_if(is_done)))
    }

    /// The container as it stands, if it is live at this incarnation.
    async fn live_container(&self, of: &Of, incarnation: RevisionId) -> ObjectsResult<Option<Parent>> {
        match self.patiently(|| async { self.parent(&of.stored()?).await }).await {
            Ok(parent) => Ok(Some(parent).filter(|parent| parent.incarnation() == incarnation)),
            Err(ObjectsError::Gone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn grow(&self, job: &Job) -> ObjectsResult<Grew> {
        let Some(stands) = self.live_container(&job.of, job.incarnation).await? else { return Ok(Grew::Before) };
        if stands.body().first_epoch != job.first_epoch {
            return Ok(Grew::Before);
        }
        let begun = match stands.body().growing {
            Some(_) => Some(stands.body().clone()),
            None => stands.body().about_to_grow(self.times(&stands).await?),
        };
        // A shard is being rewritten.
        let Some(begun) = begun else { return Ok(Grew::NotNow) };
        if *stands.body() != begun && !self.name_shards(&stands, stands.body(), &begun).await? {
            return Ok(Grew::NotNow);
        }
        self.copy_all(&stands, &begun).await?;
        let Some(grown) = begun.grown() else { return Ok(Grew::NotNow) };
        let record = Outgrown {
            of: job.of.clone(),
            incarnation: job.incarnation,
            children: ContainerBody { growing: None, ..begun.clone() },
        };
        let sort = keys::growing(job.incarnation, job.first_epoch);
        let record =
            self.queued(Queue::Outgrown, self.inner.surroundings.clock.now(), &[], sort).put(head::seal(&record)?);
        self.put_acknowledged(Class::Description, vec![record]).await?;
        match self.name_shards(&stands, &begun, &grown).await? {
            true => Ok(Grew::Now),
            false => Ok(Grew::NotNow),
        }
    }

    /// How many times as many shards will do. Names are spread evenly, so that one shard is like another.
    async fn times(&self, parent: &Parent) -> ObjectsResult<u16> {
        let Counted { rows, dead } = self.count_rows(parent, 0).await?;
        Ok(if dead * DEAD_SHARE >= rows { 1 } else { TIMES })
    }

    /// Copies what is in all shards to those that are to be.
    async fn copy_all(&self, parent: &Parent, begun: &ContainerBody) -> ObjectsResult<()> {
        let Some(more) = begun.growing else { return Ok(()) };
        for shard in 0..begun.shards {
            let (epoch, shards, next) = (begun.epochs(shard).current, more.shards, more.first_epoch);
            self.copy_members(Copied { parent, shard, epoch, shards, next }).await?;
        }
        Ok(())
    }

    /// Has the head of the container name other shards, if it names those of `from` still; whether it names those of `to` now.
    async fn name_shards(&self, parent: &Parent, from: &ContainerBody, to: &ContainerBody) -> ObjectsResult<bool> {
        let change = |head: Option<&Head>| {
            let head = head.filter(|head| head.incarnation == parent.incarnation())?;
            head.live_container().filter(|container| *container == from)?;
            let mut head = head.clone();
            head.body.container_mut().map(|container| container.clone_from(to))?;
            Some(head)
        };
        let row = self.amend(&parent.container().partition(), change).await?;
        Ok(row.as_ref().and_then(|row| row.head.live_container()) == Some(to))
    }

    /// Drops the partitions that a container has outgrown, a grace after that was noticed. True: nothing is left to do about them.
    async fn drop_outgrown(&self, outgrown: &Outgrown, rows_left: &mut u64) -> ObjectsResult<bool> {
        let Outgrown { of, incarnation, children } = outgrown;
        let container = of.stored()?;
        let shards = self.last_shards_of(&container.partition(), *incarnation).await?;
        if shards.is_some_and(|shards| shards.first_epoch == children.first_epoch) {
            // It has not come to that yet; or never does, and what is in them is dropped or kept as the container is.
            return Ok(self.live_container(of, *incarnation).await?.is_none());
        }
        // Of each it is noted since when it waits.
        let mut is_done = true;
        for (shard, epoch) in children.all_places() {
            is_done &= self.drop_epoch(&container.children_partition(*incarnation, shard, epoch), rows_left).await?;
        }
        Ok(is_done)
    }
}

/// What came of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grew {
    /// The container has other shards.
    Now,
    /// It had others already, or is not there any more.
    Before,
    /// It is for a later call.
    NotNow,
}
