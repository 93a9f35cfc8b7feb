//! Announces changes of heads, for the change feed.
//!
//! A switch of a head puts an *announcement* into the feed before the head: in the same list of
//! steps, or, on a store that does not apply a list as one, until it is acknowledged. It lies at a
//! *position*, an id that the switch mints when it begins. So whatever happens to the writer, a
//! change that was applied is announced. An announcement whose change was not
//! applied may stay behind, and is no event. A reader finds out by the head: a head that was
//! switched in carries the position of its announcement, also in the head log.
//!
//! Positions of one object rise, because a position is minted above the one in the head that is
//! replaced. So the order of positions is the order of changes for each object.
//!
//! A reader reads up to a position below which nothing is announced any more, and everything is
//! decided ([`Heads::announced_until`]):
//!
//! - If other processes may write, this is the [`Heads::horizon`]. What is below it is settled by
//!   [`Heads::settle_change`].
//! - If the store belongs to this process, it is the first position at which a switch is still at
//!   work, or the present.
//!
//! Announcements are in partitions of a *bucket* of time, over which their positions spread them
//! evenly. So a partition has a sixteenth of what is announced in ten minutes, whatever changes. A
//! list of the buckets that have any spares readers the empty ones.
//!
//! That a version is removed changes no head, and is no event. It is announced all the same, for
//! copies that follow the store. Nothing fences it: if its writer stalls or dies between the
//! announcement and the mark, followers may pass it without the mark, and the whole pass of a copy
//! brings that. A received version is announced likewise, when it came and when it was removed.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{
    Call, Class, Direction, NewRow, Outcome, Scan, Step, StoreError, Stored, Table, UnixMillis, ValueKind, boxed,
    envelope,
};

use crate::actor;
use crate::error::{ObjectsError, ObjectsResult, held_up_for_too_long};
use crate::handle::Heads;
use crate::head::{self, Body, Head, HeadRow, ObjectState};
use crate::keys;
use crate::positions::{Announcing, Open};
use crate::queue::bucket_of;
use crate::resource_body::{Kind, Membership};
use crate::retries::Tries;
use crate::revision::RevisionId;

/// The partitions of one bucket.
pub const FEED_SHARDS: u8 = 16;

/// The buckets of one list of buckets.
pub const LISTED_BUCKETS: u32 = 1_024;

/// Switches that were left before they were decided, and that one reader settles at once.
const SETTLED_AT_ONCE: usize = 100;

/// The bucket of a position: units of ten minutes since the Unix epoch.
pub fn feed_bucket_of(position: RevisionId) -> u32 {
    bucket_of(position.time())
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// It was created.
    Created,
    /// It was changed.
    Updated,
    /// It was deleted. A container may still hold children that are being deleted.
    Deleted,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A volume.
    Volume,
    /// A resource that is a description only.
    RdfSource,
    /// A Basic Container.
    BasicContainer,
    /// A Direct Container.
    DirectContainer,
    /// An Indirect Container.
    IndirectContainer,
    /// Bytes.
    Binary,
    /// A Basic Container that is an archival group.
    BasicGroup,
    /// A Direct Container that is an archival group.
    DirectGroup,
    /// An Indirect Container that is an archival group.
    IndirectGroup,
}

/// A change that was about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// What was to happen.
    pub change: Change,
    /// To which kind of object.
    pub kind: ObjectKind,
    /// The partition of the object.
    pub object: Bytes,
    /// The revision that was to be switched in.
    pub revision: RevisionId,
    /// The time by the writer's clock. Its position is not of an earlier time.
    pub at: UnixMillis,
    /// Whether the announcement was written with the head or not at all.
    pub is_certain: bool,
    /// In whose name the change was made, if that is to be known ([`crate::actor`]).
    pub actor: Option<String>,
    /// The program with which it was made, if that is to be known.
    pub agent: Option<String>,
    /// Whether it says something else: that the version which began with the revision was to be
    /// removed, or that a received version came or was removed when the object had the revision.
    pub is_removal: bool,
}

impl Stored for Announcement {
    const KIND: ValueKind = ValueKind::Announcement;
}

/// What a switch does to its object, for the feed; `None` if clients see nothing of it.
fn change_of(base: Option<&Head>, head: &Head) -> Option<Change> {
    let was_live = base.is_some_and(|base| base.state == ObjectState::Live);
    match head.state {
        ObjectState::Live if was_live => Some(Change::Updated),
        ObjectState::Live => Some(Change::Created),
        ObjectState::Deleting | ObjectState::Deleted if was_live => Some(Change::Deleted),
        ObjectState::Deleting | ObjectState::Deleted | ObjectState::Free => None,
    }
}

/// The kind of an object with this head; `None` if it is none that clients see.
fn kind_of(head: &Head) -> Option<ObjectKind> {
    match &head.body {
        Body::Nothing | Body::Container(_) => None,
        Body::Volume(_) => Some(ObjectKind::Volume),
        Body::Resource(resource) => Some(match &resource.kind {
            Kind::RdfSource => ObjectKind::RdfSource,
            Kind::Container { membership, .. } => match (membership, head.is_group) {
                (Membership::Basic, false) => ObjectKind::BasicContainer,
                (Membership::Direct(_), false) => ObjectKind::DirectContainer,
                (Membership::Indirect(..), false) => ObjectKind::IndirectContainer,
                (Membership::Basic, true) => ObjectKind::BasicGroup,
                (Membership::Direct(_), true) => ObjectKind::DirectGroup,
                (Membership::Indirect(..), true) => ObjectKind::IndirectGroup,
            },
            Kind::Binary(_) => ObjectKind::Binary,
        }),
    }
}

fn put(partition: Bytes, sort: Bytes, value: Bytes) -> Step {
    Step::Put { table: Table::Work, partition, rows: vec![NewRow::new(sort, value)] }
}

impl Heads {
    /// Whether changes are announced: the settings want it.
    pub fn announces(&self) -> bool {
        !self.inner.options.feed_keep.is_zero()
    }

    /// Begins to announce a switch; `None` if it is not announced.
    pub(crate) async fn announce(
        &self,
        object: &Bytes,
        base: Option<&HeadRow>,
        head: &Head,
    ) -> ObjectsResult<Option<Announcing<'_>>> {
        let base = base.map(|base| &base.head);
        let seen = base.filter(|_| head.state != ObjectState::Live).unwrap_or(head);
        let (Some(change), Some(kind), true) = (change_of(base, head), kind_of(seen), self.announces()) else {
            return Ok(None);
        };
        self.catch_up_once().await?;
        let floor = base.map_or(RevisionId::ZERO, |base| base.announced.max(base.revision));
        let (actor, agent) = (actor::current(), actor::agent().map(|agent| agent.to_string()));
        let (object, revision) = (object.clone(), head.revision);
        let (at, is_certain) = (self.now(), self.inner.store.capabilities().has_atomic_lists);
        let announcement =
            Announcement { change, kind, object, revision, at, is_certain, actor, agent, is_removal: false };
        self.begin_to_announce(&announcement, floor).map(Some)
    }

    /// Puts steps that remove a version, one of an object's heads before the `current` one, and
    /// announces it: before the steps or, on a store that applies lists of steps as one, with them.
    /// The steps are small.
    #[boxed]
    pub async fn put_removal(
        &self,
        object: &Bytes,
        removed: &Head,
        current: &Head,
        mut steps: Vec<Step>,
    ) -> ObjectsResult<()> {
        // Before the position is minted, as for a switch.
        let until = self.now().plus(self.inner.options.switch_within);
        let (Some(kind), true) = (kind_of(removed), self.announces()) else {
            return self.put_removing(steps).await;
        };
        self.catch_up_once().await?;
        let (at, is_certain) = (self.now(), self.inner.store.capabilities().has_atomic_lists);
        let announcement = Announcement {
            change: Change::Updated,
            kind,
            object: object.clone(),
            revision: removed.revision,
            at,
            is_certain,
            // The audit names who did it. No reader of the feed sees this.
            actor: None,
            agent: None,
            is_removal: true,
        };
        let mut announcing = self.begin_to_announce(&announcement, current.announced.max(current.revision))?;
        let call = || self.call(Class::Description).removing();
        let mut tries = Tries::default();
        while let Err(error) = self.announce_first(&mut announcing, call(), until).await {
            if !error.is_passing() || !tries.again().await || self.now() >= until {
                // Nothing of the removal is on its way.
                announcing.ended(true);
                return Err(error);
            }
        }
        steps.splice(0..0, announcing.steps.iter().cloned());
        let put = self.put_removing(steps).await;
        if put.is_ok() {
            announcing.acknowledged();
        }
        announcing.ended(put.is_ok());
        put
    }

    /// Announces that a received version came or was removed. `version` is its state as a head. If
    /// it cannot be announced, the whole pass of a copy brings it.
    ///
    /// The announcement names the revision of the `current` head, not the one that wrote the
    /// version. A follower copies from there on, so it passes over no head that is switched in
    /// meanwhile.
    #[boxed]
    pub async fn announce_received(&self, object: &Bytes, version: &Head, current: &Head) {
        if !self.announces() {
            return;
        }
        let seen = Head { revision: current.revision, ..version.clone() };
        if let Err(error) = self.put_removal(object, &seen, current, Vec::new()).await {
            tracing::warn!(object = %object.escape_ascii(), %error, "a received version could not be announced");
        }
    }

    /// Begins to announce at a position above `floor`. Positions must be above those of earlier
    /// processes by now ([`Heads::catch_up_once`]).
    fn begin_to_announce(&self, announcement: &Announcement, floor: RevisionId) -> ObjectsResult<Announcing<'_>> {
        let positions = &self.inner.positions;
        let Announcement { object, revision, .. } = announcement;
        let value = head::seal(announcement)?;
        // Readers of a shared store wait for the horizon.
        let alone = || Open { object: object.clone(), revision: *revision, is_left: false };
        let alone = (!self.is_shared()).then(alone);
        let (position, listed) = positions.begin(alone, self.horizon(), || self.inner.feed_clock.mint_above(floor));
        let bucket = feed_bucket_of(position);
        let mut announcing = Announcing { positions, position, bucket, steps: Vec::new(), is_settled: false };
        if listed < bucket {
            let value = envelope::seal(ValueKind::FeedBucket, &bucket.to_be_bytes());
            let sort = keys::feed_bucket(bucket);
            announcing.steps.push(put(keys::feed_buckets(bucket / LISTED_BUCKETS), sort, value.clone()));
            if !self.is_shared() {
                announcing.steps.push(put(keys::feed_ends(), keys::feed_newest(), value));
            }
        }
        // One object may change all the time, and positions differ.
        let shard = crc32fast::hash(&position.0) % u32::from(FEED_SHARDS);
        let partition = keys::feed(bucket, u8::try_from(shard).unwrap_or(0));
        announcing.steps.push(put(partition, Bytes::copy_from_slice(&position.0), value));
        Ok(announcing)
    }

    /// Announces a switch before it is tried, on a store that does not apply lists of steps as one.
    /// Does nothing if that was done.
    ///
    /// Refuses if the announcement was acknowledged so late that readers may have passed its
    /// position ([`Heads::horizon`]): the machine was suspended meanwhile, say. Readers that pass
    /// the position later find the announcement, and fence the switch if it is not applied by then.
    pub(crate) async fn announce_first(
        &self,
        announcing: &mut Announcing<'_>,
        call: Call,
        until: UnixMillis,
    ) -> ObjectsResult<()> {
        if announcing.steps.is_empty() || self.inner.store.capabilities().has_atomic_lists {
            return Ok(());
        }
        // Elsewhere the switch would be refused.
        self.inner.store.check_home()?;
        match self.inner.store.run(call, announcing.steps.clone()).await? {
            Outcome::Applied => {}
            Outcome::Unknown { reason } => return Err(StoreError::Unavailable(reason).into()),
            Outcome::Refused { step, .. } => {
                return Err(ObjectsError::Internal(format!("step {step} of an announcement was refused")));
            }
        }
        announcing.acknowledged();
        if self.now() >= until.plus(self.inner.options.call_timeout) {
            return Err(held_up_for_too_long());
        }
        Ok(())
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.inner.store.capabilities().is_shared
    }

    /// Makes sure, once in the life of a process, that positions are above those of earlier ones.
    async fn catch_up_once(&self) -> ObjectsResult<()> {
        self.inner.positions.caught_up.get_or_try_init(|| self.catch_up()).await.map(|_| ())
    }

    /// Makes sure that positions are above those of earlier processes, even if the clock was set
    /// back. Other processes that write at the same time need none of it: see
    /// [`Heads::announced_until`].
    async fn catch_up(&self) -> ObjectsResult<()> {
        if self.is_shared() {
            return Ok(());
        }
        match self.above_earlier_positions().await {
            // The feed must not keep anybody from changing objects.
            Err(error) if error.is_damage() => {
                tracing::warn!(%error, "the newest change of the feed cannot be read; positions begin at the present");
                Ok(())
            }
            done => done,
        }
    }

    async fn above_earlier_positions(&self) -> ObjectsResult<()> {
        let newest = Scan::prefix(keys::feed_newest(), 1);
        let rows = self.first_rows(Table::Work, &keys::feed_ends(), newest).await?;
        let newest = rows.first().map(|row| open_bucket(&row.value)).transpose()?;
        // A copy of a store of several processes does not say which bucket is the newest, and their
        // clocks may have been ahead of this one.
        let now = self.now();
        let ahead = bucket_of(now)..=bucket_of(now.plus(self.inner.options.clock_skew_max));
        for bucket in ahead.chain(newest) {
            for shard in 0..FEED_SHARDS {
                let last = Scan { direction: Direction::Backward, ..Scan::prefix(Bytes::new(), 1) };
                let rows = self.first_rows(Table::Work, &keys::feed(bucket, shard), last).await?;
                if let Some(row) = rows.first() {
                    self.inner.feed_clock.mint_above(position_of(&row.sort)?);
                }
            }
        }
        self.inner.feed_clock.mint_above(self.feed_mark().await?.position);
        Ok(())
    }

    /// A position above those of all changes until now, as far as this process knows them; on a
    /// store of one process, also of those that earlier processes made.
    #[boxed]
    pub async fn present_position(&self) -> ObjectsResult<RevisionId> {
        self.catch_up_once().await?;
        Ok(self.inner.feed_clock.mint())
    }

    /// The position below which nothing is announced any more, and below which everything that was
    /// is decided, or can be by [`Heads::has_happened`].
    #[boxed]
    pub async fn announced_until(&self) -> ObjectsResult<RevisionId> {
        if self.is_shared() {
            return Ok(RevisionId::first_at(self.horizon()));
        }
        self.catch_up_once().await?;
        let positions = &self.inner.positions;
        let left: Vec<(RevisionId, Open)> = {
            let open = positions.open.lock();
            let left = open.iter().filter(|(_, open)| open.is_left).take(SETTLED_AT_ONCE);
            left.map(|(position, open)| (*position, open.clone())).collect()
        };
        for (position, Open { object, revision, .. }) in left {
            // A store that refuses writes settles nothing; then it takes until the horizon.
            let is_settled = self.settle_change(&object, revision).await.is_ok();
            if is_settled || position.time() < self.horizon() {
                positions.open.lock().remove(&position);
            }
        }
        let open = positions.open.lock();
        let now = self.inner.feed_clock.mint();
        Ok(open.first_key_value().map_or(now, |(position, _)| *position))
    }

    /// Fails unless everything below a position is decided, so that what is read as of it never
    /// changes: with [`ObjectsError::Invalid`] if that takes until the horizon, and with
    /// [`ObjectsError::Overloaded`] if it takes as long as a switch that is at work. Without
    /// announcements nothing is known, and nothing is refused.
    #[boxed]
    pub async fn check_settled(&self, position: RevisionId) -> ObjectsResult<()> {
        if !self.announces() || position <= self.announced_until().await? {
            return Ok(());
        }
        if self.is_shared() {
            let unsettled = self.now().since(self.horizon()).as_secs();
            return Err(ObjectsError::Invalid(format!(
                "changes of the last {unsettled} seconds may still be under way on some server: request an earlier time"
            )));
        }
        Err(ObjectsError::Overloaded("a change of that time is still being made".to_owned()))
    }

    /// Whether an announced change was made. If that is open, makes sure that it never is from now
    /// on. Only for positions below [`Heads::announced_until`].
    #[boxed]
    pub async fn has_happened(&self, position: RevisionId, announced: &Announcement) -> ObjectsResult<bool> {
        if announced.is_certain {
            return Ok(true);
        }
        let Announcement { object, revision, .. } = announced;
        loop {
            if let Some(head) = self.head_of(object, *revision).await? {
                return Ok(head.announced == position);
            }
            if !self.settle_change(object, *revision).await? {
                return Ok(false);
            }
        }
    }

    /// The head that a revision switched in; `None` if neither the head nor its log shows it.
    async fn head_of(&self, object: &Bytes, revision: RevisionId) -> ObjectsResult<Option<Head>> {
        let read = || async {
            let Some(HeadRow { head, .. }) = self.head_at(object).await? else { return Ok(None) };
            match head.revision == revision {
                true => Ok(Some(head)),
                false => self.log_before(object, &head).entry(revision).await,
            }
        };
        self.retry_transient(read).await
    }

    /// Waits until a switch of this process has ended, since this was called last. For one waiter.
    #[boxed]
    pub async fn switch_ended(&self) {
        self.inner.positions.ended.notified().await;
    }
}

/// The position in a key of the feed.
pub fn position_of(sort: &[u8]) -> ObjectsResult<RevisionId> {
    let bytes = sort.try_into().map_err(|_| ObjectsError::corrupt(Table::Work, "a position has 16 bytes"))?;
    Ok(RevisionId(bytes))
}

/// The bucket in a value of the feed.
pub fn open_bucket(value: &Bytes) -> ObjectsResult<u32> {
    let payload = envelope::open(ValueKind::FeedBucket, value);
    let bytes = payload.ok().and_then(|payload| payload[..].try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or_else(|| ObjectsError::corrupt(Table::Work, "no bucket of the feed"))
}

#[cfg(test)]
mod tests;
