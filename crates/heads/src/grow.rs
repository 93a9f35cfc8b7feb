//! Gives a container more shards when one of them has grown large, or new shards without its past
//! members.
//!
//! One of many children is a sample. The mark that announces it comes with a row that records how
//! many bytes the child's rows take. A writer that creates such a child adds up the samples of its
//! shard, and records that the container has to grow if they represent too many bytes. So creating
//! costs the same however large a container is, and nothing is counted.
//!
//! Growing rewrites all shards at once, and is safe for the same reasons as a rewrite. First the
//! head names the new shards beside the present ones. Then the present shards are scanned, and each
//! child that is not certainly gone is copied, all its marks in one step. Then the head names only
//! the new shards. Their number is a multiple of the earlier one, so a listing that began with
//! fewer shards finds the rest of each of its shards in some of the new ones. Any server continues
//! what another has begun. The old partitions are dropped once no page can still be reading them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{Class, Scan, Stored, Table, ValueKind, boxed, envelope};

use crate::chores::{Chore, Then};
use crate::container_body::ContainerBody;
use crate::containment::{Container, Parent};
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{self, Head};
use crate::keys;
use crate::keys::stored_path;
use crate::queue::WorkEntry;
use crate::queues::Queue;
use crate::revision::RevisionId;
use crate::rewrite::{Copied, Counted, DROPPED_ROWS_MAX};

/// The factor by which the number of shards grows.
pub const TIMES: u16 = 4;

/// If at least one of so many rows in a shard belongs to a past member, the same number of shards
/// suffices.
const DEAD_SHARE: u64 = 2;

/// The most shards: enough for more than a thousand million children with names of 20 bytes.
pub const SHARDS_MAX: u16 = 4_096;

/// Bytes of one page of a scan over samples or records.
const SCAN_BYTES: usize = 64 << 10;

/// A job: a container whose shards, which began with `first_epoch`, are to be replaced.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct GrowthJob {
    of: Of,
    incarnation: RevisionId,
    first_epoch: u32,
}

impl Stored for GrowthJob {
    const KIND: ValueKind = ValueKind::GrowingWork;
}

/// A container's shards before it grew.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Outgrown {
    of: Of,
    incarnation: RevisionId,
    children: ContainerBody,
}

impl Stored for Outgrown {
    const KIND: ValueKind = ValueKind::OutgrownWork;
}

/// A container, as records name it.
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

impl Heads {
    /// Records that a container has to grow, if the child that was created in it is a sample and
    /// its shard is too large. If this fails, the next sample does it.
    pub async fn note_size(&self, parent: &Parent, name: &str, incarnation: RevisionId) {
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
                let payload =
                    envelope::open(ValueKind::ChildSample, &row.value).map_err(|error| corrupt(&error.to_string()))?;
                let sampled = payload[..].try_into().map_err(|_| corrupt("a sample of another length"))?;
                bytes += u64::from(u32::from_be_bytes(sampled)) * u64::from(self.inner.options.sample_one_of.max(1));
            }
            scan = range.resumed(page.next);
        }
        if bytes < self.inner.options.shard_bytes_max {
            return Ok(());
        }
        let (incarnation, first_epoch) = (parent.incarnation(), parent.body().first_epoch);
        let job = head::seal(&GrowthJob { of: Of::container(parent.container()), incarnation, first_epoch })?;
        let sort = keys::growing(incarnation, first_epoch);
        let record = self.queued(Queue::Growing, self.now(), &[], sort, job).put();
        self.put_acknowledged(Class::Description, vec![record]).await
    }

    /// Gives new shards to the containers that need them, and drops the old partitions of those
    /// that grew at least a grace ago. Returns how many containers grew. A later call continues
    /// unfinished work.
    #[boxed]
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

    async fn grow_recorded(&self, record: &WorkEntry) -> ObjectsResult<(Grew, Then)> {
        let grew = self.grow(&head::open(Table::Work, &record.value)?).await?;
        Ok((grew, self.finished_if(grew != Grew::NotNow)))
    }

    async fn drop_recorded(&self, record: &WorkEntry, rows_left: &mut u64) -> ObjectsResult<((), Then)> {
        let is_done = self.drop_outgrown(&head::open(Table::Work, &record.value)?, rows_left).await?;
        Ok(((), self.finished_if(is_done)))
    }

    /// The container as it is now, if it is live at this incarnation.
    async fn live_container(&self, of: &Of, incarnation: RevisionId) -> ObjectsResult<Option<Parent>> {
        match self.retry_transient(|| async { self.parent(&of.stored()?).await }).await {
            Ok(parent) => Ok(Some(parent).filter(|parent| parent.incarnation() == incarnation)),
            Err(ObjectsError::Gone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn grow(&self, job: &GrowthJob) -> ObjectsResult<Grew> {
        let Some(current) = self.live_container(&job.of, job.incarnation).await? else { return Ok(Grew::Before) };
        if current.body().first_epoch != job.first_epoch {
            return Ok(Grew::Before);
        }
        let begun = match current.body().growing {
            Some(_) => Some(current.body().clone()),
            None => current.body().about_to_grow(self.times(&current).await?),
        };
        // A shard is being rewritten.
        let Some(begun) = begun else { return Ok(Grew::NotNow) };
        if *current.body() != begun && !self.name_shards(&current, current.body(), &begun).await? {
            return Ok(Grew::NotNow);
        }
        self.copy_all(&current, &begun).await?;
        let Some(grown) = begun.grown() else { return Ok(Grew::NotNow) };
        let record = Outgrown {
            of: job.of.clone(),
            incarnation: job.incarnation,
            children: ContainerBody { growing: None, ..begun.clone() },
        };
        let sort = keys::growing(job.incarnation, job.first_epoch);
        let record = self.queued(Queue::Outgrown, self.now(), &[], sort, head::seal(&record)?).put();
        self.put_acknowledged(Class::Description, vec![record]).await?;
        match self.name_shards(&current, &begun, &grown).await? {
            true => Ok(Grew::Now),
            false => Ok(Grew::NotNow),
        }
    }

    /// The factor by which the number of shards has to grow. Names are spread evenly, so one shard
    /// is like another.
    async fn times(&self, parent: &Parent) -> ObjectsResult<u16> {
        let Counted { rows, dead } = self.count_rows(parent, 0).await?;
        Ok(if dead * DEAD_SHARE >= rows { 1 } else { TIMES })
    }

    /// Copies the contents of all shards to the new ones.
    async fn copy_all(&self, parent: &Parent, begun: &ContainerBody) -> ObjectsResult<()> {
        let Some(more) = begun.growing else { return Ok(()) };
        for shard in 0..begun.shards {
            let (epoch, shards, next) = (begun.epochs(shard).current, more.shards, more.first_epoch);
            self.copy_members(Copied { parent, shard, epoch, shards, next }).await?;
        }
        Ok(())
    }

    /// Makes the container's head name the shards `to`, if it still names those of `from`. Returns
    /// whether it names `to` now.
    async fn name_shards(&self, parent: &Parent, from: &ContainerBody, to: &ContainerBody) -> ObjectsResult<bool> {
        let change = |head: Option<&Head>| {
            let head = head.filter(|head| head.incarnation == parent.incarnation())?;
            head.live_container().filter(|container| *container == from)?;
            let mut head = head.clone();
            head.body.container_mut().map(|container| container.clone_from(to))?;
            Some(head)
        };
        let row = self.amend(&parent.container().partition(), &change).await?;
        Ok(row.as_ref().and_then(|row| row.head.live_container()) == Some(to))
    }

    /// Drops the partitions that a container has outgrown, a grace after that was noticed. Returns
    /// true if nothing is left to do about them.
    async fn drop_outgrown(&self, outgrown: &Outgrown, rows_left: &mut u64) -> ObjectsResult<bool> {
        let Outgrown { of, incarnation, children } = outgrown;
        let container = of.stored()?;
        let shards = self.last_shards_of(&container.partition(), *incarnation).await?;
        if shards.is_some_and(|shards| shards.first_epoch == children.first_epoch) {
            // The shards are not replaced yet. If the container is gone, they never will be, and
            // are dropped or kept with the container.
            return Ok(self.live_container(of, *incarnation).await?.is_none());
        }
        // Each call notes since when a partition waits.
        let mut is_done = true;
        for (shard, epoch) in children.all_places() {
            is_done &= self.drop_epoch(&container.children_partition(*incarnation, shard, epoch), rows_left).await?;
        }
        Ok(is_done)
    }
}

/// The outcome of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grew {
    /// The container has new shards.
    Now,
    /// It had new shards already, or is gone.
    Before,
    /// A later call has to do it.
    NotNow,
}
