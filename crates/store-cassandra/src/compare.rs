//! Lightweight transactions: how guarded rows change, and how their outcome is found out.
//!
//! Each stamp is written once. A writer that finds its own stamp in a row knows that its write was
//! applied. If an answer was lost and the row has another stamp, the outcome is unknown, because
//! the write may have been applied and then replaced.

use bytes::Bytes;
use store::{Call, Expect, Guard, Row, Stamp, StoreError, Table};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::requests::{Bound, Parameter, Tries};
use crate::value::{stored_partition, stored_value};

/// The new state of a guarded row.
pub(crate) enum Become {
    /// It gets this guard and value.
    Changed { guard: Guard, value: Bytes },
    /// It is deleted.
    Gone,
}

/// A guarded row, its expected state and its new state.
pub(crate) struct Change {
    pub(crate) table: Table,
    pub(crate) partition: Bytes,
    pub(crate) sort: Bytes,
    pub(crate) expect: Expect,
    pub(crate) then: Become,
}

/// The outcome of a step.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was applied.
    Applied,
    /// It was certainly not applied; this row is stored instead.
    Refused(Option<Row>),
}

impl Engine {
    /// Changes a guarded row if it is as expected.
    pub(crate) async fn compare_and_write(&self, call: Call, change: &Change) -> Result<Ended, Failure> {
        let _lane = self.turns.enter(call, change.table, &change.partition).await?;
        let (commit, serial) = (self.levels.commit().consistency(), self.levels.serial());
        let (mut tries, mut unsure) = (Tries::until(call.deadline), None);
        let mut nth = 0;
        loop {
            // Before each try: once the home is left, or the clock is wrong, nothing more is
            // decided here.
            if let Err(error) = self.may_switch() {
                return Err(unsure.map_or(Failure::Refused(error), Failure::Unsure));
            }
            let sent = self.statement_of(change)?;
            let answer = self.requests.transact(call.deadline, commit, serial.consistency(), sent, nth).await;
            nth += 1;
            match &answer {
                Ok(true) => return Ok(Ended::Applied),
                Ok(false) => {}
                Err(Failure::Refused(_)) if unsure.is_none() => return answer.map(|_| Ended::Applied),
                Err(failure) => unsure = Some(failure.reason()),
            }
            let current =
                self.row_at(call.deadline, serial.read(), change.table, &change.partition, &change.sort).await;
            let current = match current {
                Ok(current) => current,
                // Sending the same transaction again also finds out its outcome.
                Err(error) if error.is_passing() && tries.again().await => continue,
                Err(error) => {
                    let why = unsure.unwrap_or_else(|| "it was refused".to_owned());
                    return Err(Failure::Unsure(format!("{why}; the stored row could not be read: {error}")));
                }
            };
            if change.is_done(current.as_ref()) {
                return Ok(Ended::Applied);
            }
            match &unsure {
                None => return Ok(Ended::Refused(current)),
                Some(reason) if !change.expect.holds(current.as_ref()) => {
                    return Err(Failure::Unsure(format!("{reason}; the row has been changed since")));
                }
                // The row has not changed, so the same transaction may be sent again: whichever try
                // arrives, it is applied once.
                Some(reason) => {
                    if !tries.again().await {
                        return Err(Failure::Unsure(reason.clone()));
                    }
                }
            }
        }
    }

    fn statement_of(&self, change: &Change) -> Result<Bound<'_>, Failure> {
        let statements = self.statements.of(change.table);
        let partition = stored_partition(&change.partition);
        let key = || vec![Parameter::Blob(partition.clone()), Parameter::Blob(change.sort.clone())];
        match (&change.then, change.expect) {
            (Become::Changed { guard, value }, expect) => {
                let head =
                    [stored_value(value, None), blob(guard.stamp), guard.tag.clone()].map(Parameter::Blob).to_vec();
                Ok(match expect {
                    Expect::Absent => (&statements.make, [key(), head].concat()),
                    Expect::Stamp(stamp) => {
                        (&statements.change, [head, key(), vec![Parameter::Blob(blob(stamp))]].concat())
                    }
                })
            }
            (Become::Gone, Expect::Stamp(stamp)) => {
                Ok((&statements.unmake, [key(), vec![Parameter::Blob(blob(stamp))]].concat()))
            }
            (Become::Gone, Expect::Absent) => {
                Err(Failure::Refused(StoreError::Invalid("an absent row cannot be deleted".to_owned())))
            }
        }
    }
}

impl Change {
    /// Whether the stored row shows that this change was applied.
    fn is_done(&self, current: Option<&Row>) -> bool {
        match &self.then {
            Become::Changed { guard, .. } => Expect::Stamp(guard.stamp).holds(current),
            Become::Gone => current.is_none(),
        }
    }
}

fn blob(stamp: Stamp) -> Bytes {
    Bytes::copy_from_slice(&stamp.0)
}
