//! Transactions: begins, renews and rolls back (`decide.rs` commits); and what a server does about
//! those that nobody ends.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use heads::chores::{Chore, Then};
use heads::claim::TransactionId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::keys;
use heads::queue::WorkEntry;
use heads::queues::Queue;
use heads::transaction::{Phase, Transaction};
use store::{Class, Removal, Step, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::claim::release;
use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::open_count::{OpenOnes, TooMany};

/// How long it is known how a transaction ended.
pub const REMEMBERED: Duration = Duration::from_secs(3_600);

/// Operations that are checked, carried out or dropped at the same time.
pub(crate) const AT_ONCE: usize = 16;

/// Counts of transactions, for monitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionCounts {
    /// Open ones in the store, as of this server's last pass, and those that were begun here since.
    pub open: u64,
    /// Committed by this server.
    pub committed: u64,
    /// Rolled back by this server.
    pub rolled_back: u64,
    /// Found to be expired by this server.
    pub expired: u64,
    /// Requests that were refused here because a transaction held what they change, and commits
    /// that were refused.
    pub conflicts: u64,
}

impl Repository {
    /// The same repository as a transaction sees it. Changes through it are added to the
    /// transaction.
    #[must_use]
    pub fn in_transaction(&self, id: TransactionId) -> Self {
        Self { transaction: Some(id), ..self.clone() }
    }

    /// The transaction of this handle.
    pub fn transaction(&self) -> Option<TransactionId> {
        self.transaction
    }

    /// Counts of transactions.
    pub fn transaction_counts(&self) -> TransactionCounts {
        let tallies = &self.inner.transactions;
        TransactionCounts {
            open: tallies.open.open(),
            committed: tallies.committed.load(Ordering::Relaxed),
            rolled_back: tallies.rolled_back.load(Ordering::Relaxed),
            expired: tallies.expired.load(Ordering::Relaxed),
            conflicts: tallies.conflicts.load(Ordering::Relaxed),
        }
    }

    /// Counts a request that was refused because a transaction holds what it changes.
    pub fn note_conflict(&self) {
        self.inner.transactions.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins a transaction. `owner` names the client in messages to others, and is the only one
    /// that may go on with it.
    ///
    /// Fails with [`ResourceError::TooManyTransactions`] if too many are open.
    #[boxed]
    pub async fn begin_transaction(&self, owner: &str) -> ResourceResult<(TransactionId, Transaction)> {
        let options = self.heads.options();
        let (all_max, one_max) = (options.transactions_max, options.transactions_of_one_max);
        let place = self.inner.transactions.open.begin(owner, all_max, one_max);
        let place = place.map_err(|TooMany { open, of_owner, first_ends }| {
            let first_ends = first_ends.filter(|ends| *ends > self.heads.now());
            ResourceError::TooManyTransactions { open, of_owner, owner: owner.to_owned(), first_ends }
        })?;
        let begun = self.heads.begin_transaction(owner, options.transaction_timeout).await?;
        place.begun(begun.1.until);
        Ok(begun)
    }

    /// The state of a transaction; an open one that has expired is ended first.
    ///
    /// Fails with [`ResourceError::NoTransaction`] if there is none of this owner.
    #[boxed]
    pub async fn transaction_of(&self, id: TransactionId, owner: &str) -> ResourceResult<Transaction> {
        let state = self.heads.present_transaction(id).await?.filter(|state| state.owner == owner);
        state.ok_or(ResourceError::NoTransaction(id))
    }

    /// Renews an open transaction.
    #[boxed]
    pub async fn renew_transaction(&self, id: TransactionId, owner: &str) -> ResourceResult<Transaction> {
        let state = self.open_of(id, owner).await?;
        let until = self.heads.now().plus(self.heads.options().transaction_timeout);
        let renewed = self.heads.change_transaction(id, &state, Phase::Open, until).await?;
        match renewed.ok_or(ResourceError::NoTransaction(id))? {
            renewed if renewed.phase == Phase::Open => Ok(renewed),
            over => Err(ResourceError::TransactionOver { id, phase: over.phase }),
        }
    }

    /// The transaction of a request that is part of it. It lasts at least half of
    /// `transaction_timeout` from now on.
    #[boxed]
    pub async fn continue_transaction(&self, id: TransactionId, owner: &str) -> ResourceResult<Transaction> {
        let state = self.open_of(id, owner).await?;
        self.renewed_in_time(id, state).await
    }

    async fn open_of(&self, id: TransactionId, owner: &str) -> ResourceResult<Transaction> {
        match self.transaction_of(id, owner).await? {
            state if state.phase == Phase::Open => Ok(state),
            state => Err(ResourceError::TransactionOver { id, phase: state.phase }),
        }
    }

    /// Gives up an open transaction, and drops all of it.
    #[boxed]
    pub async fn roll_back_transaction(&self, id: TransactionId, owner: &str) -> ResourceResult<()> {
        let mut state = self.transaction_of(id, owner).await?;
        if state.phase == Phase::RolledBack {
            return Err(ResourceError::TransactionOver { id, phase: state.phase });
        }
        while state.phase.is_undecided() {
            let until = state.until;
            let changed = self.heads.change_transaction(id, &state, Phase::RolledBack, until).await?;
            state = changed.ok_or(ResourceError::NoTransaction(id))?;
        }
        if state.phase != Phase::RolledBack {
            return Err(ResourceError::TransactionOver { id, phase: state.phase });
        }
        self.inner.transactions.rolled_back.fetch_add(1, Ordering::Relaxed);
        self.inner.transactions.open.ended(&state.owner);
        // If this fails, a pass drops the rest. Claims of it count for nothing.
        if let Err(error) = self.drop_staged(id).await {
            tracing::warn!(transaction = %id, %error, "what a transaction staged is dropped later");
        }
        Ok(())
    }

    /// Notes that a transaction is carried out, and drops what it staged.
    pub(crate) async fn end_committed(&self, id: TransactionId, state: &Transaction) -> ObjectsResult<()> {
        let ended = self.heads.change_transaction(id, state, Phase::Committed, state.until).await?;
        if ended.is_some_and(|ended| ended.phase == Phase::Committed) {
            self.inner.transactions.committed.fetch_add(1, Ordering::Relaxed);
            self.inner.transactions.open.ended(&state.owner);
        }
        if let Err(error) = self.drop_staged(id).await {
            tracing::warn!(transaction = %id, %error, "what a transaction staged is dropped later");
        }
        Ok(())
    }

    /// Drops what a transaction that has ended left: claims, contents that no head names, rows.
    async fn drop_staged(&self, id: TransactionId) -> ObjectsResult<()> {
        let operations = self.operations(id, keys::operations()).await?;
        let mut drops: Vec<BoxFuture<'_, ObjectsResult<()>>> = Vec::with_capacity(operations.len());
        for (path, operations) in operations {
            let drop = async move {
                let object = keys::resource_partition(&path);
                release(&self.heads, &object, id).await?;
                for (_, operation) in operations {
                    if let Some(content) = operation.content() {
                        self.drop_content(content, &object).await?;
                    }
                }
                Ok(())
            };
            drops.push(drop.boxed());
        }
        stream::iter(drops).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        let rows = Removal::Range(keys::staged_from(), None);
        let step = Step::Remove { table: Table::Work, partition: keys::transaction(id), rows };
        self.heads.put_acknowledged(Class::Description, vec![step]).await
    }

    /// Makes one pass over transactions: ends those that have expired, carries out those that were
    /// decided at least `age_min` ago and on which this process does not work, drops what they
    /// left, and forgets them. Returns how many it ended or carried out.
    #[boxed]
    pub async fn end_transactions(&self, age_min: Duration) -> ObjectsResult<u64> {
        let mut ended = 0;
        if !self.heads.is_home() {
            return Ok(ended);
        }
        let mut open: HashMap<String, OpenOnes> = HashMap::new();
        self.inner.transactions.open.pass_begins();
        let mut tally = self.heads.tally(Chore::Transactions);
        let mut pass = self.heads.pass(Queue::Transactions).await?;
        while let Some(entries) = self.heads.next_due(&mut pass, &mut tally).await? {
            let mut visits = Vec::with_capacity(entries.len());
            for entry in &entries {
                visits.push(self.end_transaction(entry, age_min).boxed());
            }
            let visited: Vec<_> = stream::iter(visits).buffered(AT_ONCE).collect().await;
            for (entry, outcome) in entries.iter().zip(visited) {
                let outcome = outcome.map(|(visited, then)| {
                    if let Visited::Open(owner, until) = &visited {
                        open.entry(owner.clone()).or_default().add(*until);
                    }
                    (matches!(visited, Visited::Ended), then)
                });
                let record = (std::slice::from_ref(entry), &entry.sort()[..]);
                ended += u64::from(self.heads.dealt_with(&mut tally, record, outcome).await?.unwrap_or(false));
            }
        }
        self.heads.end_pass(pass).await?;
        self.inner.transactions.open.counted(open);
        Ok(ended)
    }

    async fn end_transaction(&self, entry: &WorkEntry, age_min: Duration) -> ObjectsResult<(Visited, Then)> {
        let id = entry.sort()[..].try_into().map(TransactionId);
        let id = id.map_err(|_| ObjectsError::corrupt(Table::Work, "a record of no transaction"))?;
        let now = self.heads.now();
        let Some(state) = self.heads.present_transaction(id).await? else {
            // It may be about to begin: its record comes first.
            let begun = envelope::open(ValueKind::TransactionWork, &entry.value).ok();
            let begun = begun.and_then(|begun| begun[..].try_into().ok()).map_or(0, u64::from_be_bytes);
            let until = self.heads.expires(UnixMillis(begun).plus(REMEMBERED));
            return Ok((Visited::Other, self.finished_or_later(now, until)));
        };
        match state.phase {
            Phase::Open | Phase::Closing => Ok((Visited::Open(state.owner.clone(), state.until), Then::Later(now))),
            Phase::Committing => {
                let partition = keys::transaction(id);
                let running = self.inner.running_jobs.begin(&partition);
                if running.is_none() || now.since(state.since) < age_min {
                    return Ok((Visited::Other, Then::Later(now)));
                }
                self.carry_out(id, &state.owner, &state.operations).await?;
                self.end_committed(id, &state).await?;
                Ok((Visited::Ended, Then::Later(now.plus(REMEMBERED))))
            }
            Phase::Committed | Phase::RolledBack | Phase::Expired => {
                self.drop_staged(id).await?;
                let until = self.heads.expires(state.since.plus(REMEMBERED));
                // Its record is visited twice: when it has ended, and when it is forgotten.
                let is_found = state.phase == Phase::Expired && now < until;
                if is_found {
                    self.inner.transactions.expired.fetch_add(1, Ordering::Relaxed);
                }
                if now >= until {
                    self.heads.forget_transaction(id, &state).await?;
                }
                let visited = if is_found { Visited::Ended } else { Visited::Other };
                Ok((visited, self.finished_or_later(now, until)))
            }
        }
    }

    fn finished_or_later(&self, now: UnixMillis, until: UnixMillis) -> Then {
        if now >= until { Then::Finished } else { Then::Later(until) }
    }
}

/// What a pass found about a transaction.
enum Visited {
    /// It is open, of this owner, and ends at this time.
    Open(String, UnixMillis),
    /// It was ended or carried out by this pass.
    Ended,
    /// Something else.
    Other,
}
