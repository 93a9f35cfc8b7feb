//! Transactions: begins, renews, commits and rolls back; and what a server does about those that
//! nobody ends.
//!
//! To commit, a server checks that everything can be carried out, and then switches the state of
//! the transaction to [`Phase::Committing`]. That decides it. From then on any server carries it
//! out (`carry_out.rs`), as often as it takes. Whoever finds another end before drops it all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use heads::chores::{Chore, Then};
use heads::error::{ObjectsError, ObjectsResult};
use heads::keys;
use heads::path::ResourcePath;
use heads::queue::{Queue, WorkEntry};
use heads::rules::Rule;
use heads::transaction::{Phase, Transaction, TransactionId};
use parking_lot::Mutex;
use store::{Class, Removal, Step, Table, UnixMillis, ValueKind, envelope};

use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::stage::release;
use crate::staged::{Becomes, Numbered};

/// How long it is known how a transaction ended.
pub const REMEMBERED: Duration = Duration::from_secs(3_600);

/// Operations that are checked, carried out or dropped at the same time.
pub(crate) const AT_ONCE: usize = 16;

/// The operations of a transaction, by path; of each path in the order of their ids.
pub(crate) type Operations = BTreeMap<ResourcePath, Vec<Numbered>>;

/// What this server knows about open transactions, and what it did.
#[derive(Default)]
pub(crate) struct Tallies {
    /// Open transactions by their owners: as of the last pass, and those begun here since.
    open: Mutex<HashMap<String, u64>>,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    expired: AtomicU64,
    conflicts: AtomicU64,
}

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
            open: tallies.open.lock().values().sum(),
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
    /// Fails with [`ObjectsError::OverLimit`] if too many are open.
    pub async fn begin_transaction(&self, owner: &str) -> ResourceResult<(TransactionId, Transaction)> {
        let options = self.heads.options();
        {
            let open = self.inner.transactions.open.lock();
            let (of_all, of_one) = (open.values().sum::<u64>(), open.get(owner).copied().unwrap_or(0));
            if of_all >= options.transactions_max || of_one >= options.transactions_of_one_max {
                let over = format!("{of_all} transactions are open, {of_one} of them of {owner}");
                return Err(ObjectsError::OverLimit(over).into());
            }
        }
        let begun = self.heads.begin_transaction(owner, options.transaction_timeout).await?;
        *self.inner.transactions.open.lock().entry(owner.to_owned()).or_default() += 1;
        Ok(begun)
    }

    /// The state of a transaction; an open one that has expired is ended first.
    ///
    /// Fails with [`ResourceError::NoTransaction`] if there is none of this owner.
    pub async fn transaction_of(&self, id: TransactionId, owner: &str) -> ResourceResult<Transaction> {
        let state = self.heads.present_transaction(id).await?.filter(|state| state.owner == owner);
        let state = state.ok_or(ResourceError::NoTransaction(id))?;
        if state.phase == Phase::Expired {
            self.forget_open(&state.owner);
        }
        Ok(state)
    }

    /// Renews an open transaction.
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
    pub async fn continue_transaction(&self, id: TransactionId, owner: &str) -> ResourceResult<Transaction> {
        self.open_of(id, owner).await?;
        self.open_transaction(id).await
    }

    async fn open_of(&self, id: TransactionId, owner: &str) -> ResourceResult<Transaction> {
        match self.transaction_of(id, owner).await? {
            state if state.phase == Phase::Open => Ok(state),
            state => Err(ResourceError::TransactionOver { id, phase: state.phase }),
        }
    }

    /// Commits a transaction: all of it, or nothing. Returns once all of it is there. If this fails
    /// after it was decided, the error is [`ResourceError::Committing`], and any server goes on.
    ///
    /// Fails with [`ObjectsError::Conflict`] if something of it can no longer be carried out. Then
    /// nothing is, and the transaction stays open.
    pub fn commit_transaction<'a>(&'a self, id: TransactionId, owner: &'a str) -> BoxFuture<'a, ResourceResult<()>> {
        self.commit(id, owner).boxed()
    }

    async fn commit(&self, id: TransactionId, owner: &str) -> ResourceResult<()> {
        let mut state = self.transaction_of(id, owner).await?;
        let partition = keys::transaction(id);
        // Passes of this server leave it alone meanwhile.
        let _running = self.inner.running_jobs.begin(&partition);
        if !self.heads.keeps(Rule::DecideFirst) {
            self.carry_out(id).await?;
        }
        let mut tries = heads::retries::Tries::default();
        while state.phase == Phase::Open {
            self.refuse_impossible(id).await.inspect_err(|_| self.note_conflict())?;
            let until = state.until;
            let changed = self.heads.change_transaction(id, &state, Phase::Committing, until).await?;
            state = changed.ok_or(ResourceError::NoTransaction(id))?;
            if state.phase == Phase::Open && !tries.again().await {
                let renewed = "the transaction is being renewed all the time".to_owned();
                return Err(ObjectsError::Overloaded(renewed).into());
            }
        }
        if state.phase != Phase::Committing {
            return Err(ResourceError::TransactionOver { id, phase: state.phase });
        }
        let committing = |error: ObjectsError| ResourceError::Committing { id, why: error.to_string() };
        self.carry_out(id).await.map_err(committing)?;
        self.end_committed(id, &state).await.map_err(committing)
    }

    /// Gives up an open transaction, and drops all of it.
    pub async fn roll_back_transaction(&self, id: TransactionId, owner: &str) -> ResourceResult<()> {
        let mut state = self.open_of(id, owner).await?;
        while state.phase == Phase::Open {
            let until = state.until;
            let changed = self.heads.change_transaction(id, &state, Phase::RolledBack, until).await?;
            state = changed.ok_or(ResourceError::NoTransaction(id))?;
        }
        if state.phase != Phase::RolledBack {
            return Err(ResourceError::TransactionOver { id, phase: state.phase });
        }
        self.inner.transactions.rolled_back.fetch_add(1, Ordering::Relaxed);
        self.forget_open(&state.owner);
        // If this fails, a pass drops the rest. Claims of it count for nothing.
        if let Err(error) = self.drop_staged(id).await {
            tracing::warn!(transaction = %id, %error, "what a transaction staged is dropped later");
        }
        Ok(())
    }

    /// Refuses to commit what cannot be carried out: a resource, or what it is in, was deleted with
    /// a container; or the last operation on it never counted.
    async fn refuse_impossible(&self, id: TransactionId) -> ResourceResult<()> {
        let seen = self.in_transaction(id);
        let operations = self.operations(id, keys::operations()).await?;
        let deleted = deleted_of(&operations);
        let mut checks: Vec<BoxFuture<'_, ResourceResult<()>>> = Vec::with_capacity(operations.len());
        for (path, operations) in &operations {
            if let Some(last) = operations.last() {
                checks.push(seen.refuse_impossible_one(path, last, &deleted).boxed());
            }
        }
        stream::iter(checks).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    async fn refuse_impossible_one(
        &self,
        path: &ResourcePath,
        (last, operation): &Numbered,
        deleted: &BTreeSet<ResourcePath>,
    ) -> ResourceResult<()> {
        if is_below(path, deleted) {
            return Ok(());
        }
        let refused = |why: &str| {
            Err(ObjectsError::Conflict(format!("the transaction cannot be committed: /{path} {why}")).into())
        };
        let object = keys::resource_partition(path);
        let row = self.heads.retry_transient(|| self.heads.head_at(&object)).await?;
        let own = row.as_ref().and_then(|row| self.own_claim(&row.head));
        if own.is_none_or(|own| own.operation != *last) {
            let why = "was deleted with what it was in, or the outcome of the last request about it is not known: \
                       repeat that request, or roll back";
            return refused(why);
        }
        if let Becomes::Live(_) = operation.becomes {
            match self.resource(path).await {
                Ok(_) => {}
                Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => return refused("is in what was deleted"),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Notes that a transaction is carried out, and drops what it staged.
    async fn end_committed(&self, id: TransactionId, state: &Transaction) -> ObjectsResult<()> {
        let ended = self.heads.change_transaction(id, state, Phase::Committed, state.until).await?;
        if ended.is_some_and(|ended| ended.phase == Phase::Committed) {
            self.inner.transactions.committed.fetch_add(1, Ordering::Relaxed);
            self.forget_open(&state.owner);
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
    /// decided at least `age_min` ago and on which this process does not work, drops what they left,
    /// and forgets them. Returns how many it ended or carried out.
    pub async fn end_transactions(&self, age_min: Duration) -> ObjectsResult<u64> {
        let mut ended = 0;
        if !self.heads.is_home() || !self.heads.has_transactions() {
            return Ok(ended);
        }
        let mut open = HashMap::new();
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
                    if let Visited::Open(owner) = &visited {
                        *open.entry(owner.clone()).or_default() += 1;
                    }
                    (matches!(visited, Visited::Ended), then)
                });
                let record = (std::slice::from_ref(entry), &entry.sort()[..]);
                ended += u64::from(self.heads.dealt_with(&mut tally, record, outcome).await?.unwrap_or(false));
            }
        }
        self.heads.end_pass(pass).await?;
        *self.inner.transactions.open.lock() = open;
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
            return Ok((Visited::Other, self.finished_or_later(now, UnixMillis(begun).plus(REMEMBERED))));
        };
        match state.phase {
            Phase::Open => Ok((Visited::Open(state.owner.clone()), Then::Later(now))),
            Phase::Committing => {
                let partition = keys::transaction(id);
                let running = self.inner.running_jobs.begin(&partition);
                if running.is_none() || now.since(state.since) < age_min {
                    return Ok((Visited::Other, Then::Later(now)));
                }
                self.carry_out(id).await?;
                self.end_committed(id, &state).await?;
                Ok((Visited::Ended, Then::Later(now.plus(REMEMBERED))))
            }
            Phase::Committed | Phase::RolledBack | Phase::Expired => {
                self.drop_staged(id).await?;
                let until = state.since.plus(REMEMBERED);
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

    /// One open transaction less, until the next pass counts them.
    fn forget_open(&self, owner: &str) {
        if let Some(open) = self.inner.transactions.open.lock().get_mut(owner) {
            *open = open.saturating_sub(1);
        }
    }
}

/// What a pass found about a transaction.
enum Visited {
    /// It is open, and of this owner.
    Open(String),
    /// It was ended or carried out by this pass.
    Ended,
    /// Something else.
    Other,
}

/// The resources that a transaction deletes.
pub(crate) fn deleted_of(operations: &Operations) -> BTreeSet<ResourcePath> {
    let last_is_deletion = |operations: &Vec<Numbered>| {
        operations.last().is_some_and(|(_, operation)| operation.becomes == Becomes::Deleted)
    };
    let deleted = operations.iter().filter(|(_, operations)| last_is_deletion(operations));
    deleted.map(|(path, _)| path.clone()).collect()
}

/// Whether a resource is in one of these, however deep.
pub(crate) fn is_below(path: &ResourcePath, containers: &BTreeSet<ResourcePath>) -> bool {
    path.parent().is_some_and(|above| containers.contains(&above) || is_below(&above, containers))
}
