//! Transactions: who began one, until when it lasts, and how it ended; and what it holds.
//!
//! A transaction is one plain row, its *state*, which only replacements change. So it is decided by
//! one write whether all of it happens or nothing: once its phase is [`Phase::Committing`], every
//! server carries it out; before that, any server may end it. That write also names the operations
//! that happen. What it stages is in the same partition. `repository` stages, carries out and
//! drops.
//!
//! The head of an object that it changes says so, by a [`Claim`]. Only compare-and-writes put and
//! remove claims, so no other writer switches a claimed head unseen. A claim of a transaction that
//! ended without being committed counts for nothing.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{Class, Outcome, PlainValue, Step, Stored, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::claim::{Claim, Holder, TransactionId};
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{HeadRow, open, seal};
use crate::keys;
use crate::queues::Queue;
use crate::retries::Tries;
use crate::revision::RevisionId;
use crate::rules::Rule;
use crate::switch::Amends;

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Operations may be added.
    Open,
    /// It is decided that all of it happens.
    Committing,
    /// All of it has happened.
    Committed,
    /// Its client gave it up.
    RolledBack,
    /// It was not renewed in time.
    Expired,
    /// A commit checks whether all of it can happen. No operation is added meanwhile.
    Closing,
}

impl Phase {
    /// Whether it is not decided yet what becomes of it.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::Open | Self::Closing)
    }

    /// Whether it is decided that all of it happens.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Committing | Self::Committed)
    }
}

/// The state of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// How far it is.
    pub phase: Phase,
    /// Who began it.
    pub owner: String,
    /// Since when the phase is this one.
    pub since: UnixMillis,
    /// When it expires while it is not decided, by the clock of the server that wrote this.
    pub until: UnixMillis,
    /// Another one for each write, so that no state comes back.
    nonce: [u8; 8],
    /// The operations that happen, once that is decided. No other one does.
    pub operations: Vec<RevisionId>,
}

impl Stored for Transaction {
    const KIND: ValueKind = ValueKind::Transaction;
}

/// The end of a try to change a state.
enum Replaced {
    Applied,
    /// Another state was found there.
    Refused,
}

impl Heads {
    /// Begins a transaction. A record of work is put first, so that whatever begins also ends.
    #[boxed]
    pub async fn begin_transaction(&self, owner: &str, life: Duration) -> ObjectsResult<(TransactionId, Transaction)> {
        let id = TransactionId(self.surroundings().random.bytes());
        let now = self.now();
        let until = now.plus(life);
        let nonce = self.nonce();
        let begun = Transaction {
            phase: Phase::Open,
            owner: owner.to_owned(),
            since: now,
            until,
            nonce,
            operations: Vec::new(),
        };
        let sort = Bytes::copy_from_slice(&id.0);
        // It is due at once: a pass counts the transactions that are open.
        let work = envelope::seal(ValueKind::TransactionWork, &now.0.to_be_bytes());
        let noted = self.queued(Queue::Transactions, now, &id.0, sort, work).put();
        match self.replace_state(id, None, Some(&begun), Some(noted), Amends::Adding).await? {
            Replaced::Applied => Ok((id, begun)),
            Replaced::Refused => Err(ObjectsError::Internal("the id of a transaction was drawn twice".to_owned())),
        }
    }

    /// The state of a transaction, read strongly; `None` if there is none, or if it is forgotten.
    #[boxed]
    pub async fn transaction(&self, id: TransactionId) -> ObjectsResult<Option<Transaction>> {
        let read = || async {
            let call = self.call(Class::Description).strong();
            let partition = keys::transaction(id);
            let row = self.store().get(call, Table::Work, &partition, &keys::transaction_state()).await?;
            row.map(|row| open(Table::Work, &row.value)).transpose()
        };
        self.retry_transient(read).await
    }

    /// Changes the state of a transaction from one that was read. Returns the state that is stored
    /// then, which is another one if another server was first; `None` if it is forgotten.
    #[boxed]
    pub async fn change_transaction(
        &self,
        id: TransactionId,
        from: &Transaction,
        phase: Phase,
        until: UnixMillis,
    ) -> ObjectsResult<Option<Transaction>> {
        let since = if phase == from.phase { from.since } else { self.now() };
        // It renews, closes or ends the transaction, and makes no promise of room.
        let then = Transaction { phase, since, until, ..from.clone() };
        self.replace_transaction(id, from, then, Amends::Removing).await
    }

    /// Decides that these operations of a transaction happen, and no others. `adds`: some of them
    /// create or change something. Then it is refused when disk space runs low, as other small
    /// writes are; what was decided is carried out as long as anything can be deleted. Otherwise
    /// like [`Heads::change_transaction`].
    #[boxed]
    pub async fn decide_transaction(
        &self,
        id: TransactionId,
        from: &Transaction,
        operations: Vec<RevisionId>,
        adds: bool,
    ) -> ObjectsResult<Option<Transaction>> {
        let decided = Transaction { phase: Phase::Committing, since: self.now(), operations, ..from.clone() };
        let amends = if adds { Amends::Adding } else { Amends::Removing };
        self.replace_transaction(id, from, decided, amends).await
    }

    async fn replace_transaction(
        &self,
        id: TransactionId,
        from: &Transaction,
        then: Transaction,
        amends: Amends,
    ) -> ObjectsResult<Option<Transaction>> {
        let then = Transaction { nonce: self.nonce(), ..then };
        match self.replace_state(id, Some(from), Some(&then), None, amends).await? {
            Replaced::Applied => Ok(Some(then)),
            Replaced::Refused => self.transaction(id).await,
        }
    }

    /// Forgets a transaction that has ended.
    #[boxed]
    pub async fn forget_transaction(&self, id: TransactionId, ended: &Transaction) -> ObjectsResult<()> {
        self.replace_state(id, Some(ended), None, None, Amends::Removing).await.map(|_| ())
    }

    /// The state of a transaction after this server's clock has ended it, if it was time for that.
    /// Another server, whose clock is behind, may have promised the time at which it expires.
    #[boxed]
    pub async fn present_transaction(&self, id: TransactionId) -> ObjectsResult<Option<Transaction>> {
        match self.transaction(id).await? {
            Some(late) if late.phase.is_undecided() && self.now() >= self.expires(late.until) => {
                self.change_transaction(id, &late, Phase::Expired, late.until).await
            }
            state => Ok(state),
        }
    }

    /// Whether a claim is of no transaction that could still be committed, or is being committed.
    /// Ends the transaction if it has expired.
    ///
    /// Only a decided end counts. A writer that went by its clock alone could take an object from a
    /// transaction that another server, with another clock, is about to commit.
    #[boxed]
    pub async fn claim_is_over(&self, claim: Claim) -> ObjectsResult<Result<(), Transaction>> {
        let state = match self.keeps(Rule::EndFirst) {
            true => self.present_transaction(claim.transaction).await?,
            false => self.transaction(claim.transaction).await?.filter(|state| self.now() < state.until),
        };
        Ok(match state {
            Some(state) if state.phase.is_undecided() || state.phase == Phase::Committing => Err(state),
            _ => Ok(()),
        })
    }

    /// Whether a head may be switched in the name of `holder`; false if it is not claimed as the
    /// holder says.
    ///
    /// Errors: [`ObjectsError::Held`] if a transaction holds it.
    pub(crate) async fn may_switch(
        &self,
        partition: &Bytes,
        base: Option<&HeadRow>,
        holder: Holder,
    ) -> ObjectsResult<bool> {
        let claim = base.and_then(|base| base.head.claim);
        match (holder, claim) {
            (Holder::Claim(held), claim) => Ok(claim == Some(held)),
            (Holder::Above, _) | (Holder::Nobody, None) => Ok(true),
            (Holder::Nobody, Some(_)) if !self.keeps(Rule::Claim) => Ok(true),
            (Holder::Nobody, Some(claim)) => match self.claim_is_over(claim).await? {
                Ok(()) => Ok(true),
                Err(state) => Err(held(partition, &state)),
            },
        }
    }

    fn nonce(&self) -> [u8; 8] {
        self.surroundings().random.bytes()
    }

    /// Replaces a state. The nonce shows whether an earlier try was applied. If it was applied and
    /// replaced again, the caller sees that by the phase that follows.
    async fn replace_state(
        &self,
        id: TransactionId,
        expect: Option<&Transaction>,
        then: Option<&Transaction>,
        before: Option<Step>,
        amends: Amends,
    ) -> ObjectsResult<Replaced> {
        let plain = |state: Option<&Transaction>| -> ObjectsResult<Option<PlainValue>> {
            state.map(|state| Ok(PlainValue { value: seal(state)?, expires_at: None })).transpose()
        };
        let (expect, then) = (plain(expect)?, plain(then)?);
        let (partition, sort) = (keys::transaction(id), keys::transaction_state());
        let replace = Step::Replace { table: Table::Work, partition, sort, expect: expect.clone(), then: then.clone() };
        let steps: Vec<Step> = before.into_iter().chain([replace]).collect();
        let mut tries = Tries::default();
        let mut unsure = false;
        loop {
            let call = amends.call(self.call(Class::Description));
            let failure = match self.store().run(call, steps.clone()).await {
                Ok(Outcome::Applied) => return Ok(Replaced::Applied),
                Ok(Outcome::Refused { current, .. }) => {
                    let is_own = current.as_ref().map(PlainValue::of) == then;
                    return Ok(if unsure && is_own { Replaced::Applied } else { Replaced::Refused });
                }
                Ok(Outcome::Unknown { reason }) => {
                    unsure = true;
                    ObjectsError::Unknown(reason)
                }
                Err(error) if error.is_passing() => ObjectsError::from(error).if_unsure(unsure),
                Err(error) => return Err(ObjectsError::from(error).if_unsure(unsure)),
            };
            if !tries.again().await {
                return Err(failure);
            }
        }
    }
}

/// The error for an object that a transaction holds.
pub fn held(partition: &[u8], state: &Transaction) -> ObjectsError {
    let object = String::from_utf8_lossy(partition);
    let object = object.strip_prefix('r').map_or_else(|| object.to_string(), str::to_owned);
    ObjectsError::Held { object, holder: state.owner.clone(), until: state.until }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_in_no_other_form() {
        let id = TransactionId([0xAB; 16]);
        assert_eq!(id.to_string(), "abababab-abab-abab-abab-abababababab");
        assert_eq!(TransactionId::parse(&id.to_string()), Some(id));
        for other in ["", "abababababababababababababababab", "ABABABAB-abab-abab-abab-abababababab", "x"] {
            assert_eq!(TransactionId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_held_object_is_named_as_its_address_is() {
        let state = Transaction {
            phase: Phase::Open,
            owner: "token ann".to_owned(),
            since: UnixMillis(0),
            until: UnixMillis(1_000),
            nonce: [0; 8],
            operations: Vec::new(),
        };
        let error = held(b"r/a/b", &state).to_string();
        assert_eq!(error, "/a/b is held by a transaction of token ann until 1970-01-01T00:00:01Z");
    }

    /// Every later program reads these bytes.
    #[test]
    fn the_stored_bytes_of_a_state_do_not_change() {
        let state = Transaction {
            phase: Phase::Committing,
            owner: "local".to_owned(),
            since: UnixMillis(1_000),
            until: UnixMillis(2),
            nonce: [7; 8],
            operations: vec![RevisionId([9; 16])],
        };
        let value = seal(&state).unwrap();
        assert_eq!(value[..3], [3, 70, 1]);
        assert_eq!(value[7..], [&b"\x01\x05local\xe8\x07\x02"[..], &[7; 8], &[1], &[9; 16]].concat());
        let phases = [Phase::Open, Phase::Committing, Phase::Committed, Phase::RolledBack, Phase::Expired];
        for (number, phase) in (0..).zip(phases.into_iter().chain([Phase::Closing])) {
            assert_eq!(postcard::to_stdvec(&phase).unwrap(), [number]);
        }
    }
}
