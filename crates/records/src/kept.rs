//! What servers that share a store keep about its records as a whole: about how late it is, and
//! which of them walks over all records.
//!
//! Each is a row of [`Table::Work`] that holds a [`Record`]. A server that changes one compares.
//! Copies of the store do not have these rows ([`store::copying::LOCAL_PREFIX`]).

use std::time::Duration;

use bytes::Bytes;
use store::{Call, Class, Deadline, Outcome, PlainValue, Row, Step, StoreError, Table, UnixMillis, boxed};

use crate::attributes::Attribute;
use crate::record::Record;
use crate::records::{Records, RecordsError, by, decoded, sealed};

/// The partition of these rows.
pub(crate) const PARTITION: Bytes = Bytes::from_static(b"local/records");

/// The row with the time.
const TIME: Bytes = Bytes::from_static(b"time");

/// The row about the walk, and its attributes: the server that walks, until when the others leave
/// it that, and where the walk goes on.
const WALK: Bytes = Bytes::from_static(b"walk");
const SERVER: Bytes = Bytes::from_static(b"server");
const LEASED_UNTIL: Bytes = Bytes::from_static(b"leased_until");
const FROM: Bytes = Bytes::from_static(b"from");

/// A kept time that is ahead of the clock by more than this counts as a mistake of the past:
/// records would not expire until the clock has caught up.
pub const AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The turn to walk over all records of a store that servers share.
#[derive(Clone, Debug)]
pub struct WalkTurn {
    /// Where the walk goes on; `None`: at the first record.
    pub from: Option<Bytes>,
    server: Bytes,
    lease: Duration,
    /// What the row holds.
    stored: PlainValue,
}

/// What the row about the walk says.
struct Walk {
    server: Bytes,
    leased_until: UnixMillis,
    from: Option<Bytes>,
}

impl Walk {
    fn record(&self) -> Record {
        let until = Bytes::from(self.leased_until.0.to_string());
        let from = self.from.clone().map(|from| (FROM, from));
        let values = [(SERVER, self.server.clone()), (LEASED_UNTIL, until)].into_iter().chain(from);
        Record::attributes(values.map(|(name, value)| (name, Attribute::lasting(value))).collect())
    }

    /// `None`: the row is damaged.
    fn of(row: &Row) -> Option<Self> {
        let record = decoded(&row.value).ok()?;
        let attributes = record.as_attributes().ok()?;
        let value = |name: &Bytes| attributes.get(name).map(|attribute| attribute.value.clone());
        Some(Self { server: value(&SERVER)?, leased_until: time(&value(&LEASED_UNTIL)?)?, from: value(&FROM) })
    }
}

impl Records {
    /// Lets records begin at the time that servers of a shared store have kept, if the clock is
    /// behind it by at most [`AHEAD_MAX`]. Returns by how much it is behind.
    #[boxed]
    pub async fn begin_at_kept_time(&self, deadline: Deadline) -> Result<Duration, RecordsError> {
        if !self.is_shared() {
            return Ok(Duration::ZERO);
        }
        let usual = call(deadline);
        let row = match self.kept(usual.strong(), &TIME).await {
            // A time that is a little older is better than none.
            Err(RecordsError::Store(StoreError::Unavailable(_))) => self.kept(usual, &TIME).await?,
            read => read?,
        };
        let Some(row) = row else { return Ok(Duration::ZERO) };
        let kept = time_of(&row).ok_or_else(|| RecordsError::Damaged("the kept time is none".to_owned()))?;
        let ahead = kept.since(self.now());
        if ahead <= AHEAD_MAX {
            self.not_before(kept);
        }
        Ok(ahead)
    }

    /// Keeps the time of a shared store for servers that start later, unless what is kept is behind
    /// it by at most `behind`. Nothing is kept before this process knows of a record, nor where
    /// nothing is decided: away from the home data center, or by a wrong clock.
    #[boxed]
    pub async fn keep_time(&self, deadline: Deadline, behind: Duration) -> Result<(), RecordsError> {
        if !self.is_shared() || !self.mode.is_agreed() || self.store.check_home().is_err() {
            return Ok(());
        }
        let row = self.kept(call(deadline), &TIME).await?;
        let now = self.now();
        let is_kept = |kept: UnixMillis| kept.plus(behind) >= now && kept.since(now) <= AHEAD_MAX;
        if row.as_ref().and_then(time_of).is_some_and(is_kept) {
            return Ok(());
        }
        let then = Record::text(Bytes::from(now.0.to_string()));
        // If it is refused, another server has just kept the time.
        self.replace(deadline, TIME, row.as_ref().map(PlainValue::of), &then).await.map(|_| ())
    }

    /// Takes the turn to walk over all records of a shared store, which this server keeps for so
    /// long; `None`: another one has it. Where clocks differ, two servers may have it at once. That
    /// does no harm, because a walk compares what it writes.
    ///
    /// Errors: [`StoreError::ReadOnly`] where nothing can be changed.
    #[boxed]
    pub async fn take_walk(
        &self,
        deadline: Deadline,
        server: &Bytes,
        lease: Duration,
    ) -> Result<Option<WalkTurn>, RecordsError> {
        self.store.check_home()?;
        let row = self.kept(call(deadline).strong(), &WALK).await?;
        let walk = row.as_ref().and_then(Walk::of);
        let now = self.now();
        if walk.as_ref().is_some_and(|walk| walk.server != *server && walk.leased_until > now) {
            return Ok(None);
        }
        let from = walk.and_then(|walk| walk.from);
        let walk = Walk { server: server.clone(), leased_until: now.plus(lease), from };
        let stored = self.replace(deadline, WALK, row.as_ref().map(PlainValue::of), &walk.record()).await?;
        Ok(stored.map(|stored| WalkTurn { from: walk.from, server: walk.server, lease, stored }))
    }

    /// Keeps where a walk goes on, and the turn for as long again. Nothing is kept if another
    /// server has taken the turn meanwhile.
    #[boxed]
    pub async fn keep_walk(&self, deadline: Deadline, turn: WalkTurn, from: Option<Bytes>) -> Result<(), RecordsError> {
        let WalkTurn { from: _, server, lease, stored } = turn;
        let walk = Walk { server, leased_until: self.now().plus(lease), from };
        self.replace(deadline, WALK, Some(stored), &walk.record()).await.map(|_| ())
    }

    /// One of the rows.
    async fn kept(&self, call: Call, sort: &Bytes) -> Result<Option<Row>, RecordsError> {
        Ok(by(call.deadline, self.store.get(call, Table::Work, &PARTITION, sort)).await?)
    }

    /// Writes a row that is as expected. Returns what it holds; `None`: it is not as expected.
    async fn replace(
        &self,
        deadline: Deadline,
        sort: Bytes,
        expect: Option<PlainValue>,
        then: &Record,
    ) -> Result<Option<PlainValue>, RecordsError> {
        let then = sealed(self.store.as_ref(), then)?;
        let (table, partition) = (Table::Work, PARTITION);
        let step = Step::Replace { table, partition, sort, expect, then: Some(then.clone()) };
        match by(deadline, self.store.run(call(deadline), vec![step])).await? {
            Outcome::Applied => Ok(Some(then)),
            Outcome::Refused { .. } => Ok(None),
            Outcome::Unknown { reason } => Err(RecordsError::Unknown(reason)),
        }
    }
}

/// A call about these rows.
pub(crate) fn call(deadline: Deadline) -> Call {
    Call::new(Class::Description, deadline)
}

/// The time that a row holds; `None`: the row is damaged.
fn time_of(row: &Row) -> Option<UnixMillis> {
    time(decoded(&row.value).ok()?.as_text().ok()?)
}

fn time(text: &[u8]) -> Option<UnixMillis> {
    str::from_utf8(text).ok()?.parse().ok().map(UnixMillis)
}
