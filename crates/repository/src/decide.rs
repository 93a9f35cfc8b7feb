//! Commits a transaction: decides that all of it happens, and carries it out.
//!
//! First the transaction is closed: an operation that is added from then on does not count, unless
//! the decision names it. Then the server reads which operations count, checks that each can be
//! carried out, and switches the state to [`Phase::Committing`], with their ids. That decides it.
//! From then on any server carries them out (`carry_out.rs`), as often as it takes.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use heads::claim::TransactionId;
use heads::error::ObjectsError;
use heads::keys;
use heads::path::ResourcePath;
use heads::retries::Tries;
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::transaction::{Phase, Transaction};

use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::staged::{Becomes, Numbered};
use crate::transactions::AT_ONCE;

/// The operations of a transaction that count: one of each resource.
pub(crate) type Counting = BTreeMap<ResourcePath, Numbered>;

/// What is decided of a transaction.
#[derive(Default)]
struct Decision {
    /// The operations that happen.
    operations: Vec<RevisionId>,
    /// Whether one of them creates or changes something.
    adds: bool,
}

impl Repository {
    /// Commits a transaction: all of it, or nothing. Returns once all of it is there. If this fails
    /// after it was decided, the error is [`ResourceError::Committing`], and any server goes on. A
    /// transaction that was committed already needs nothing more.
    ///
    /// Fails with [`ObjectsError::Conflict`] if something of it can no longer be carried out. Then
    /// nothing is, and the transaction stays open.
    pub fn commit_transaction<'a>(&'a self, id: TransactionId, owner: &'a str) -> BoxFuture<'a, ResourceResult<()>> {
        self.commit(id, owner).boxed()
    }

    async fn commit(&self, id: TransactionId, owner: &str) -> ResourceResult<()> {
        let state = self.transaction_of(id, owner).await?;
        // Passes of this server leave it alone meanwhile.
        let _running = self.inner.running_jobs.begin(&keys::transaction(id));
        if !self.heads.keeps(Rule::DecideFirst) {
            self.carry_out(id, &state.owner, &self.operations_that_count(id).await?.operations).await?;
        }
        let state = self.decide(id, state).await?;
        match state.phase {
            Phase::Committed => return Ok(()),
            Phase::Committing => {}
            phase => return Err(ResourceError::TransactionOver { id, phase }),
        }
        let committing = |error: ObjectsError| ResourceError::Committing { id, why: error.to_string() };
        self.carry_out(id, &state.owner, &state.operations).await.map_err(committing)?;
        self.end_committed(id, &state).await.map_err(committing)
    }

    /// Decides a transaction, unless it is decided or has ended. Returns its state then.
    async fn decide(&self, id: TransactionId, mut state: Transaction) -> ResourceResult<Transaction> {
        let mut tries = Tries::default();
        while state.phase.is_undecided() {
            let next = match state.phase {
                Phase::Open if self.heads.keeps(Rule::CloseFirst) => {
                    self.heads.change_transaction(id, &state, Phase::Closing, state.until).await?
                }
                _ => self.decide_closed(id, &state).await?,
            };
            let was_closed = state.phase == Phase::Closing;
            state = next.ok_or(ResourceError::NoTransaction(id))?;
            if was_closed && state.phase.is_undecided() && !tries.again().await {
                let changed = "the transaction is being changed all the time".to_owned();
                return Err(ObjectsError::Overloaded(changed).into());
            }
        }
        Ok(state)
    }

    /// Decides a closed transaction. If that fails, it is opened again; if that fails too, by the
    /// next request that waits for it. If it was decided or has ended in spite of that, this is what
    /// counts: another server ends what has expired, and then others may take what it held.
    async fn decide_closed(&self, id: TransactionId, state: &Transaction) -> ResourceResult<Option<Transaction>> {
        let decided = match self.operations_that_count(id).await {
            Ok(Decision { operations, adds }) => {
                self.heads.decide_transaction(id, state, operations, adds).await.map_err(ResourceError::from)
            }
            Err(error) => Err(error),
        };
        if decided.is_err()
            && let Ok(Some(current)) = self.heads.change_transaction(id, state, Phase::Open, state.until).await
            && !current.phase.is_undecided()
        {
            return Ok(Some(current));
        }
        decided
    }

    /// The operations of a transaction that count: those that claims name. Refuses what cannot be
    /// carried out: a resource, or what it is in, was deleted with a container; or it is not known
    /// whether the last operation on it counts.
    async fn operations_that_count(&self, id: TransactionId) -> ResourceResult<Decision> {
        let seen = self.in_transaction(id);
        let operations = self.operations(id, keys::operations()).await?;
        let last = operations.iter().filter_map(|(path, all)| Some((path.clone(), all.last()?.clone())));
        let deleted = deleted_of(&last.collect());
        let mut checks: Vec<BoxFuture<'_, ResourceResult<Option<_>>>> = Vec::with_capacity(operations.len());
        for (path, operations) in operations {
            checks.push(seen.counting_of(path, operations, &deleted).boxed());
        }
        let checked: Vec<_> =
            stream::iter(checks).buffer_unordered(AT_ONCE).try_collect().await.inspect_err(|error| {
                if matches!(error, ResourceError::Objects(ObjectsError::Conflict(_))) {
                    self.note_conflict();
                }
            })?;
        Ok(without_idle_containers(checked.into_iter().flatten().collect()))
    }

    /// The operation on a resource that counts, if one does. `deleted`: what the transaction
    /// deletes.
    async fn counting_of(
        &self,
        path: ResourcePath,
        operations: Vec<Numbered>,
        deleted: &BTreeSet<ResourcePath>,
    ) -> ResourceResult<Option<(ResourcePath, Numbered)>> {
        let object = keys::resource_partition(&path);
        let row = self.heads.retry_transient(|| self.heads.head_at(&object)).await?;
        let own = row.as_ref().and_then(|row| self.own_claim(&row.head));
        let is_claimed = |numbered: &Numbered| own.is_some_and(|own| own.operation == numbered.0);
        if is_below(&path, deleted) {
            return Ok(operations.into_iter().find(is_claimed).map(|numbered| (path, numbered)));
        }
        let Some(last) = operations.into_iter().next_back() else { return Ok(None) };
        if !is_claimed(&last) {
            let why = "was deleted with what it was in, or the outcome of the last request about it is not known: \
                       repeat that request, or roll back";
            return Err(refused(&path, why));
        }
        if let Becomes::Live(staged) = &last.1.becomes {
            match self.resource(&path).await {
                Ok(_) => {}
                // Nobody else could delete a container that only the transaction sees.
                Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) if staged.is_in_new => return Ok(None),
                Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => {
                    return Err(refused(&path, "is in what was deleted"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some((path, last)))
    }
}

fn refused(path: &ResourcePath, why: &str) -> ResourceError {
    ObjectsError::Conflict(format!("the transaction cannot be committed: /{path} {why}")).into()
}

/// These operations, without containers that a request created only to create something
/// in them, and then did not.
fn without_idle_containers(counting: Counting) -> Decision {
    let mut needed = BTreeSet::new();
    let mut decision = Decision::default();
    // What is in a container comes after it.
    for (path, (id, operation)) in counting.into_iter().rev() {
        let is_implied = matches!(&operation.becomes, Becomes::Live(staged) if staged.is_implied);
        if !is_implied || needed.contains(&path) {
            decision.operations.push(id);
            decision.adds |= matches!(operation.becomes, Becomes::Live(_));
            needed.extend(path.parent());
        }
    }
    decision
}

/// The resources that a transaction deletes.
pub(crate) fn deleted_of(operations: &Counting) -> BTreeSet<ResourcePath> {
    let deleted = operations.iter().filter(|(_, (_, operation))| operation.becomes == Becomes::Deleted);
    deleted.map(|(path, _)| path.clone()).collect()
}

/// Whether a resource is in one of these, however deep.
pub(crate) fn is_below(path: &ResourcePath, containers: &BTreeSet<ResourcePath>) -> bool {
    path.parent().is_some_and(|above| containers.contains(&above) || is_below(&above, containers))
}
