//! Records in a store.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{
    Call, Class, Clock, Condition, Deadline, NewRow, Outcome, Removal, Step, Store, StoreError, StoreResult, Stored,
    Table, UnixMillis, ValueKind, stored,
};
use thiserror::Error;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::{sleep, timeout_at};

use crate::draft::Draft;
use crate::record::Record;

/// Changes of so many records can be under way at once.
const TURNS: usize = 1 << 12;

/// The sort key of a record's row.
const ROW: Bytes = Bytes::new();

/// The longest id in bytes.
pub const ID_BYTES_MAX: usize = 1_024;

/// An engine that ends a call by its deadline has so much time to say what became of it.
const LAST_WORD: Duration = Duration::from_millis(1);

/// How long one look at whether a write has ended may take, and the pause before the next.
const LOOK: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Stored for Record {
    const KIND: ValueKind = ValueKind::Record;
}

/// Why a request for records has no answer.
#[derive(Debug, Error)]
pub enum RecordsError {
    /// The store refuses it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Whether the change was made is not known.
    #[error("whether the change was made is not known: {0}")]
    Unknown(String),
    /// An id is empty or too long.
    #[error("the id of a record has 1 to {ID_BYTES_MAX} bytes, not {0}")]
    Id(usize),
    /// A record is too large to be stored.
    #[error("a record has at most {max} bytes, not {bytes}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A stored record cannot be decoded.
    #[error("the record is damaged: {0}")]
    Damaged(String),
}

/// The records of a store that belongs to this process. Each change of a record is one write, which
/// is acknowledged when it is durable. Changes of one record happen one after the other. Each call
/// ends by its deadline, even if the store does not answer.
pub struct Records {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    hasher: RandomState,
    turns: Vec<Arc<Mutex<()>>>,
}

/// Turns to change records.
type Turns = Vec<OwnedMutexGuard<()>>;

/// Some ids, and where to read on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdPage {
    /// Ids, each once.
    pub ids: Vec<Bytes>,
    /// The argument for the next page; `None`: all ids were read.
    pub next: Option<Bytes>,
}

impl Records {
    /// The records of `store`.
    ///
    /// Errors: [`StoreError::Invalid`] if several processes may have the store open.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        if store.capabilities().is_shared {
            let why = "records need a store that belongs to one server, such as a data folder";
            return Err(StoreError::Invalid(why.to_owned()));
        }
        let turns = (0..TURNS).map(|_| Arc::default()).collect();
        Ok(Self { store, clock, hasher: RandomState::new(), turns })
    }

    /// The record of an id as it is seen now.
    pub async fn read(&self, deadline: Deadline, id: &Bytes) -> Result<Option<Record>, RecordsError> {
        check_id(id)?;
        let row = by(deadline, self.store.get(call(deadline), Table::Records, id, &ROW)).await?;
        self.live(row.map(|row| row.value))
    }

    /// The records of many ids, in their order.
    pub async fn read_many(&self, deadline: Deadline, ids: &[Bytes]) -> Result<Vec<Option<Record>>, RecordsError> {
        ids.iter().try_for_each(check_id)?;
        let keys = ids.iter().map(|id| (id.clone(), ROW)).collect();
        let rows = by(deadline, self.store.get_many(call(deadline), Table::Records, keys)).await?;
        rows.into_iter().map(|row| self.live(row.map(|row| row.value))).collect()
    }

    /// Changes records: all of them or none. `change` gets a draft for each of the ids, which are
    /// all different. It returns when the change is durable.
    pub async fn change<T>(
        &self,
        deadline: Deadline,
        ids: &[Bytes],
        change: impl FnOnce(&mut [Draft]) -> T,
    ) -> Result<T, RecordsError> {
        let turns = self.turns(deadline, ids).await?;
        let now = self.clock.now();
        let stored = self.read_many(deadline, ids).await?;
        let mut drafts: Vec<Draft> = stored.into_iter().map(|record| Draft::new(record, now)).collect();
        let answer = change(&mut drafts);
        let changes = ids.iter().zip(drafts).filter_map(|(id, draft)| Some((id, draft.change()?)));
        let steps = changes.map(|(id, record)| self.step(id, record)).collect::<Result<Vec<_>, _>>()?;
        if steps.is_empty() {
            return Ok(answer);
        }
        self.write(deadline, turns, steps).await?;
        Ok(answer)
    }

    /// Runs steps in a task of its own, which also ends if the caller goes away. It keeps the turns
    /// until the write has ended, so that the next change begins with what this one left.
    async fn write(&self, deadline: Deadline, turns: Turns, steps: Vec<Step>) -> Result<(), RecordsError> {
        let store = self.store.clone();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let key = steps.first().map(|step| step.partition().clone()).unwrap_or_default();
            let outcome = store.run(call(deadline), steps).await;
            let may_be_under_way = matches!(outcome, Ok(Outcome::Unknown { .. }));
            // A caller that went away has dropped its receiver.
            let _ = answer.send(outcome);
            if may_be_under_way {
                wait_for_writes(store.as_ref(), key).await;
            }
            drop(turns);
        });
        match timeout_at(deadline.0 + LAST_WORD, answered).await {
            Ok(Ok(outcome)) => match outcome? {
                Outcome::Applied => Ok(()),
                Outcome::Unknown { reason } => Err(RecordsError::Unknown(reason)),
                Outcome::Refused { .. } => {
                    Err(RecordsError::Unknown("a write without a condition was refused".to_owned()))
                }
            },
            Ok(Err(_)) => Err(RecordsError::Unknown("the write failed, see the log".to_owned())),
            Err(_) => Err(RecordsError::Unknown("the store did not answer in time".to_owned())),
        }
    }

    /// Some ids of stored records, some of which may have expired meanwhile. A record that is there
    /// during the whole walk is found.
    pub async fn ids(&self, deadline: Deadline, from: Option<Bytes>, max: usize) -> Result<IdPage, RecordsError> {
        let page = by(deadline, self.store.walk(call(deadline), Table::Records, from, max)).await?;
        Ok(IdPage { ids: page.partitions, next: page.next })
    }

    fn live(&self, value: Option<Bytes>) -> Result<Option<Record>, RecordsError> {
        let Some(value) = value else { return Ok(None) };
        let record: Record = stored::open(&value).map_err(|error| RecordsError::Damaged(error.to_string()))?;
        Ok(record.live(self.clock.now()))
    }

    fn step(&self, id: &Bytes, record: Option<Record>) -> Result<Step, RecordsError> {
        let (table, partition) = (Table::Records, id.clone());
        let Some(record) = record else {
            return Ok(Step::Remove { table, partition, rows: Removal::Rows(vec![ROW]) });
        };
        let value = stored::seal(&record).map_err(|error| RecordsError::Damaged(error.to_string()))?;
        let (bytes, max) = (value.len(), self.store.limits().value_bytes);
        if bytes > max {
            return Err(RecordsError::TooLarge { bytes, max });
        }
        Ok(Step::Put { table, partition, rows: vec![NewRow { sort: ROW, value, expires_at: record.last_expiry() }] })
    }

    /// The turns of some ids, always in the same order, so that no two callers wait for each other.
    async fn turns(&self, deadline: Deadline, ids: &[Bytes]) -> Result<Turns, RecordsError> {
        let places: BTreeSet<usize> =
            ids.iter().map(|id| self.hasher.hash_one(id) as usize % self.turns.len()).collect();
        let mut turns = Vec::with_capacity(places.len());
        for place in places {
            let turn = timeout_at(deadline.0, self.turns[place].clone().lock_owned()).await;
            turns.push(turn.map_err(|_| StoreError::DeadlinePassed)?);
        }
        Ok(turns)
    }

    /// The time by the store's clock.
    pub fn now(&self) -> UnixMillis {
        self.clock.now()
    }
}

fn call(deadline: Deadline) -> Call {
    Call::new(Class::Record, deadline)
}

/// The answer of a store, by a deadline.
async fn by<T>(deadline: Deadline, answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    timeout_at(deadline.0 + LAST_WORD, answer).await.unwrap_or(Err(StoreError::DeadlinePassed))
}

/// Waits until all writes that were begun have ended: one thread of a lane decides on its lists in
/// their order, so it has decided on those before this one. A store that refuses writes from now on
/// ends the wait too.
async fn wait_for_writes(store: &dyn Store, key: Bytes) {
    loop {
        let look =
            Step::Require { table: Table::Records, partition: key.clone(), sort: ROW, condition: Condition::Absent };
        match store.run(call(Deadline::within(LOOK)), vec![look]).await {
            Ok(Outcome::Unknown { .. }) | Err(StoreError::Overloaded(_) | StoreError::DeadlinePassed) => {
                sleep(LOOK_AGAIN).await;
            }
            Ok(_) | Err(_) => return,
        }
    }
}

fn check_id(id: &Bytes) -> Result<(), RecordsError> {
    if (1..=ID_BYTES_MAX).contains(&id.len()) { Ok(()) } else { Err(RecordsError::Id(id.len())) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::attributes::{Attribute, Attributes};

    /// Whoever changes these bytes has changed what is stored.
    #[test]
    fn stored_records_keep_their_bytes() {
        assert_eq!((Record::KIND.number(), Record::VERSION), (52, 1));
        let text = Record { expires_at: Some(UnixMillis(5)), ..Record::text(Bytes::from_static(b"ab")) };
        let expiring = Attribute { value: Bytes::from_static(b"v"), expires_at: Some(UnixMillis(300)) };
        let lasting = Attribute::lasting(Bytes::new());
        let attributes: Attributes =
            [(Bytes::from_static(b"f"), expiring), (Bytes::from_static(b"g"), lasting)].into_iter().collect();
        for (record, bytes) in [
            (text, &b"\x00\x02ab\x01\x05"[..]),
            (Record::attributes(attributes), b"\x01\x02\x01f\x01v\x01\xAC\x02\x01g\x00\x00\x00"),
        ] {
            assert_eq!(stored::encode(&record).unwrap(), bytes);
            assert_eq!(stored::decode::<Record>(bytes).unwrap(), record);
        }
    }
}
