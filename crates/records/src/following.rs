//! Changes of one record of a store that belongs to this process. Each follows the one before it,
//! without waiting until that is durable.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use store::{Deadline, NewRow, Outcome, PlainValue, Removal, Step, StoreError, Table};
use tokio::time::timeout_at;

use crate::draft::Draft;
use crate::records::{LAST_WORD, ROW, Records, RecordsError, by, call, decoded, sealed, wait_for_writes};
use crate::turns::{Link, Turn};
use crate::unbroken::Unbroken;

impl Records {
    /// Changes a record. A change is written only if the record is as it found it, which includes
    /// what others have not made durable yet. It begins again if it is refused.
    ///
    /// Its answer comes when the change is durable. So does one that changes nothing, because it may
    /// be about what others have not made durable yet: it writes what it saw.
    pub(crate) async fn change_following<T>(
        &self,
        deadline: Deadline,
        id: &Bytes,
        counts: bool,
        mut change: impl FnMut(&mut [Draft]) -> T,
    ) -> Result<T, RecordsError> {
        while !deadline.passed() {
            let turn = self.place(id).turn(deadline).await?;
            let left = turn.left(deadline, id).await?;
            let before = match &left {
                Some(left) => left.clone(),
                None => self.stored(deadline, id, counts).await?,
            };
            let record = before.as_ref().map(|value| decoded(&value.value)).transpose()?;
            let mut draft = [Draft::new(record, self.now())];
            let answer = change(&mut draft);
            let [draft] = draft;
            let then = match (draft.change(), &left) {
                (Some(record), _) => record.map(|record| sealed(self.store.as_ref(), &record)).transpose()?,
                (None, Some(left)) => left.clone(),
                (None, None) => return Ok(answer),
            };
            self.mode.settle(deadline).await?;
            // The first one compares too. Otherwise it could overwrite one behind it that the store
            // decides earlier, if a change between them left what was there before.
            let step = follow(id, before, then.clone());
            let link = turn.begin(id, then);
            match self.give(deadline, turn, link, step, self.sync_delay()).await? {
                Outcome::Applied => return Ok(answer),
                Outcome::Refused { .. } => {}
                Outcome::Unknown { reason } => return Err(RecordsError::Unknown(reason)),
            }
        }
        Err(StoreError::DeadlinePassed.into())
    }

    /// What is stored of a record. `counts` says whether that is asking for it.
    async fn stored(&self, deadline: Deadline, id: &Bytes, counts: bool) -> Result<Option<PlainValue>, RecordsError> {
        let row = by(deadline, self.store.get(call(deadline), Table::Records, id, &ROW)).await?;
        if counts {
            self.count(id, row.as_ref());
        }
        Ok(row.as_ref().map(PlainValue::of))
    }

    /// Gives a write to the store, then the turn to the next change, and waits for the outcome. If the
    /// caller goes away, the write goes on without it.
    pub(crate) async fn give(
        &self,
        deadline: Deadline,
        turn: Turn,
        link: Link,
        step: Step,
        sync_delay: Duration,
    ) -> Result<Outcome, RecordsError> {
        let (store, key) = (self.store.clone(), step.partition().clone());
        let mut write = Unbroken::new(async move {
            let outcome = store.run(call(deadline).having_read().synced_within(sync_delay), vec![step]).await;
            match &outcome {
                Ok(Outcome::Applied) => link.applied(),
                Ok(Outcome::Unknown { .. }) => {
                    link.uncertain();
                    tokio::spawn(async move {
                        wait_for_writes(store.as_ref(), key).await;
                        drop(link);
                    });
                }
                Ok(Outcome::Refused { .. }) | Err(_) => drop(link),
            }
            outcome
        });
        // The first poll puts it into the queue of the store.
        let first = poll_fn(|context| Poll::Ready(Pin::new(&mut write).poll(context))).await;
        drop(turn);
        if let Poll::Ready(outcome) = first {
            return Ok(outcome?);
        }
        let late = Outcome::Unknown { reason: "the store did not answer in time".to_owned() };
        timeout_at(deadline.0 + LAST_WORD, write).await.map_or(Ok(late), |outcome| Ok(outcome?))
    }
}

/// The step that leaves `then` where nothing else is under way.
pub(crate) fn begin(id: &Bytes, then: Option<PlainValue>) -> Step {
    let (table, partition) = (Table::Records, id.clone());
    match then {
        Some(PlainValue { value, expires_at }) => {
            Step::Put { table, partition, rows: vec![NewRow { sort: ROW, value, expires_at }] }
        }
        None => Step::Remove { table, partition, rows: Removal::Rows(vec![ROW]) },
    }
}

/// The step that leaves `then` only if there is what is expected.
pub(crate) fn follow(id: &Bytes, expect: Option<PlainValue>, then: Option<PlainValue>) -> Step {
    Step::Replace { table: Table::Records, partition: id.clone(), sort: ROW, expect, then }
}
