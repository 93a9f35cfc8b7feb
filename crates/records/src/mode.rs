//! How the records of a store change, and how a keyspace remembers it.
//!
//! The two modes keep records in different rows, so servers of one keyspace must agree. The first
//! server that writes a record there writes the mode into a row of the keyspace. From then on
//! servers of the other mode refuse everything about records. That row is not copied to other
//! stores. Where it is missing, the rows of any record show the mode.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use store::{
    Call, Class, Deadline, Direction, Outcome, PlainValue, Row, Scan, Step, Store, StoreError, StoreResult, Table,
    boxed, stored,
};
use tokio::time::{Instant, sleep};

use crate::kept::{PARTITION, call};
use crate::record::{Content, Record};
use crate::records::{ROW, RecordsError, by};

/// The row with the mode, beside what else a store keeps about its records as a whole.
const SORT: Bytes = Bytes::from_static(b"mode");

/// The pause after an unknown outcome.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// For how long a reader takes it that there is still no record. A writer always looks.
const VACANT_FOR: Duration = Duration::from_secs(1);

/// How the records of a store change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each change is decided by what is stored, and no change is lost.
    #[default]
    Atomic,
    /// The last write of an attribute wins, and nothing is read before it. Only for stores that
    /// several processes share.
    Fast,
}

impl Mode {
    const ALL: [(Mode, &'static str); 2] = [(Mode::Atomic, "atomic"), (Mode::Fast, "fast")];

    /// The mode that the store has recorded. It never changes, so any read that finds it will do.
    async fn recorded(store: &dyn Store, deadline: Deadline) -> Result<Option<Self>, RecordsError> {
        for call in [call(deadline), call(deadline).strong()] {
            if let Some(row) = by(deadline, store.get(call, Table::Work, &PARTITION, &SORT)).await? {
                return Self::of_row(&row).map(Some);
            }
        }
        Ok(None)
    }

    /// The mode that the rows of some record show; `None`: there is no record.
    #[boxed]
    pub async fn of_any_record(store: &dyn Store, call: Call) -> StoreResult<Option<Self>> {
        let mut from = None;
        loop {
            let page = store.walk(call, Table::Records, from, 1).await?;
            for id in page.partitions {
                let first = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 };
                let rows = store.scan(call, Table::Records, &id, first).await?.rows;
                // It may have expired meanwhile.
                if let Some(row) = rows.first() {
                    return Ok(Some(if row.sort == ROW { Self::Atomic } else { Self::Fast }));
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(None);
            }
        }
    }

    fn of_row(row: &Row) -> Result<Self, RecordsError> {
        let record: Record = stored::open(&row.value).map_err(|error| RecordsError::Damaged(error.to_string()))?;
        let Content::Text(text) = &record.content else { return Err(unknown(record)) };
        let mode = Self::ALL.into_iter().find(|(_, name)| name.as_bytes() == text);
        mode.map(|(mode, _)| mode).ok_or_else(|| unknown(record))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(mode, _)| mode == self).map_or("", |(_, name)| name))
    }
}

fn unknown(record: Record) -> RecordsError {
    RecordsError::Damaged(format!("the mode of the records is none that this program knows: {record:?}"))
}

/// The mode of this process, and whether it is that of the store.
pub(crate) struct KnownMode {
    pub(crate) mode: Mode,
    store: Arc<dyn Store>,
    /// Whether the records that are there are in this mode.
    is_agreed: AtomicBool,
    /// Whether the store has it recorded. It stays recorded for ever.
    is_recorded: AtomicBool,
    /// Until when it counts as known that there is no record.
    vacant_until: Mutex<Option<Instant>>,
}

impl KnownMode {
    pub(crate) fn new(store: Arc<dyn Store>, mode: Mode) -> Self {
        // A store of one process has mode atomic, so it need not be recorded.
        let is_given = mode == Mode::Atomic && !store.capabilities().is_shared;
        Self {
            mode,
            store,
            is_agreed: AtomicBool::new(is_given),
            is_recorded: AtomicBool::new(is_given),
            vacant_until: Mutex::default(),
        }
    }

    /// Whether this process knows that there are records in its mode, or that none has to look.
    pub(crate) fn is_agreed(&self) -> bool {
        self.is_agreed.load(Ordering::Relaxed)
    }

    /// Refuses if the records are in the other mode. As long as there are none, calls look for some
    /// now and then, because that asks all nodes.
    pub(crate) async fn check(&self, deadline: Deadline) -> Result<(), RecordsError> {
        let is_vacant = || self.vacant_until.lock().is_some_and(|until| Instant::now() < until);
        if self.is_agreed() || is_vacant() { Ok(()) } else { self.look(deadline).await }
    }

    /// Likewise, and always looks.
    pub(crate) async fn look(&self, deadline: Deadline) -> Result<(), RecordsError> {
        if self.mode == Mode::Fast && !self.store.capabilities().is_shared {
            return Err(RecordsError::FastAlone);
        }
        if let Some(stored) = Mode::recorded(self.store.as_ref(), deadline).await? {
            return self.agree_for_ever(stored);
        }
        let call = Call::new(Class::Record, deadline).strong();
        let shown = by(deadline, Mode::of_any_record(self.store.as_ref(), call)).await?;
        match shown {
            Some(stored) => self.agree(stored),
            None => {
                *self.vacant_until.lock() = Some(Instant::now() + VACANT_FOR);
                Ok(())
            }
        }
    }

    fn agree_for_ever(&self, stored: Mode) -> Result<(), RecordsError> {
        self.agree(stored)?;
        self.is_recorded.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn agree(&self, stored: Mode) -> Result<(), RecordsError> {
        if stored != self.mode {
            return Err(RecordsError::OtherMode { stored, ours: self.mode });
        }
        self.is_agreed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Records the mode before the first record. Servers of both modes may do this at the same
    /// time: one of them wins.
    pub(crate) async fn settle(&self, deadline: Deadline) -> Result<(), RecordsError> {
        if self.is_recorded.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.look(deadline).await?;
        if self.is_recorded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = Record::text(Bytes::from(self.mode.to_string()));
        let value = stored::seal(&text).map_err(|error| RecordsError::Damaged(error.to_string()))?;
        let then = Some(PlainValue { value, expires_at: None });
        let step = Step::Replace { table: Table::Work, partition: PARTITION, sort: SORT, expect: None, then };
        while !deadline.passed() {
            let stored = match by(deadline, self.store.run(call(deadline), vec![step.clone()])).await? {
                Outcome::Applied => Some(self.mode),
                Outcome::Refused { current, .. } => current.map(|row| Mode::of_row(&row)).transpose()?,
                Outcome::Unknown { .. } => None,
            };
            if let Some(stored) = stored {
                return self.agree_for_ever(stored);
            }
            // To write it again does no harm: it never changes.
            sleep(LOOK_AGAIN).await;
        }
        Err(StoreError::DeadlinePassed.into())
    }
}
