//! Claims heads for operations of transactions, takes claims back, and finds those on archival
//! groups.
//!
//! A claim is compared with what the client's request was evaluated against ([`Found`]).

use bytes::Bytes;
use heads::Heads;
use heads::claim::{Claim, TransactionId};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Head, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::retries::{Tries, changes_all_the_time};
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::switch::{Amended, Amends};
use heads::transaction::{Phase, Transaction, held};
use store::{NewRow, Removal, Stamp, Step, Table};

use crate::handle::Repository;

/// What a request found, so that an operation counts only if that still is so.
pub(crate) struct Found {
    /// The operation of the same transaction that counts so far.
    pub(crate) operation: Option<RevisionId>,
    /// Otherwise the revision of the head, and whether it is live.
    seen: (RevisionId, bool),
}

impl Found {
    /// From the head that a request read, as the transaction sees it.
    pub(crate) fn of(row: Option<&HeadRow>, own: Option<Claim>) -> Self {
        let seen = row.map_or((RevisionId::ZERO, false), |row| seen(&row.head));
        Self { operation: own.map(|claim| claim.operation), seen }
    }

    /// Whether a head is still as it was found. `own`: the claim of the transaction on it.
    fn is_still(&self, row: Option<&HeadRow>, own: Option<Claim>) -> bool {
        match self.operation {
            Some(operation) => own.is_some_and(|own| own.operation == operation),
            None => own.is_none() && row.map_or((RevisionId::ZERO, false), |row| seen(&row.head)) == self.seen,
        }
    }
}

/// The outcome of a claim.
pub(crate) enum Claimed {
    /// The head has it.
    Put,
    /// It was surely not put, and never will be. The error, if another transaction holds the head.
    Not(Option<ObjectsError>),
    /// That is not known, because of this.
    Unclear(String),
}

fn seen(head: &Head) -> (RevisionId, bool) {
    (head.revision, head.state == ObjectState::Live)
}

impl Repository {
    /// Claims a head, after the steps in `before`.
    ///
    /// A claim is an amendment, which no log records. A try whose outcome is unknown may still be
    /// applied while the head has the stamp that it compares, and no longer once that has changed.
    pub(crate) async fn claim(
        &self,
        object: &Bytes,
        found: &Found,
        claim: Claim,
        before: Vec<Step>,
        amends: Amends,
    ) -> ObjectsResult<Claimed> {
        let mut tries = Tries::default();
        // What the last try of unknown outcome compared.
        let mut unknown: Option<Option<Stamp>> = None;
        loop {
            let read = self.heads.retry_transient(|| async {
                match unknown {
                    Some(_) => self.heads.decided_head_at(object).await,
                    None => self.heads.head_at(object).await,
                }
            });
            let row = match (read.await, unknown) {
                (Ok(row), _) => row,
                (Err(error), None) => return Err(error),
                (Err(error), Some(_)) => return Ok(Claimed::Unclear(error.to_string())),
            };
            let current = row.as_ref().and_then(|row| row.head.claim);
            if current == Some(claim) {
                return Ok(Claimed::Put);
            }
            let own = current.filter(|current| current.transaction == claim.transaction);
            if let (None, Some(other)) = (own, current) {
                match self.heads.claim_is_over(other).await {
                    Ok(Ok(())) => {}
                    Ok(Err(state)) => return Ok(self.lost(claim, unknown, Some(held(object, &state))).await),
                    Err(error) if unknown.is_some() => return Ok(Claimed::Unclear(error.to_string())),
                    Err(error) => return Err(error),
                }
            }
            if !found.is_still(row.as_ref(), own) {
                return match (own, unknown) {
                    // It may have taken the place of this one.
                    (Some(_), Some(_)) => {
                        Ok(Claimed::Unclear("another request of the transaction changed the same".to_owned()))
                    }
                    _ => Ok(self.lost(claim, unknown, None).await),
                };
            }
            let head = Head { claim: Some(claim), ..row.as_ref().map_or_else(Head::free, |row| row.head.clone()) };
            match self.heads.amend_once(object, row.as_ref(), head, before.clone(), amends).await {
                Ok(Amended::Applied(_)) => return Ok(Claimed::Put),
                Ok(Amended::Refused) => {}
                Ok(Amended::Unknown) => unknown = Some(row.as_ref().map(|row| row.stamp)),
                Err(error) if unknown.is_some() => return Ok(Claimed::Unclear(error.to_string())),
                Err(error) => return Err(error),
            }
            if !tries.again().await {
                return match unknown {
                    Some(_) => Ok(Claimed::Unclear("a claim may still arrive".to_owned())),
                    None => Err(changes_all_the_time("a head", false)),
                };
            }
        }
    }

    /// Refuses a change without a transaction of something in an archival group, if a transaction
    /// holds the group.
    ///
    /// This is a look, and no fence: a transaction that claims the group between it and the change
    /// does not stop the change. That counts as made before the transaction took the group. A claim
    /// that was put before this call is always found. What is in no group costs no read.
    ///
    /// Fails with [`ObjectsError::Held`] if one holds it.
    pub(crate) async fn refuse_in_held(&self, group: Option<&ResourcePath>) -> ObjectsResult<()> {
        let Some(group) = group.filter(|_| self.heads.keeps(Rule::LookGroup)) else { return Ok(()) };
        let object = keys::resource_partition(group);
        let row = self.heads.retry_transient(|| self.heads.head_at(&object)).await?;
        let Some(claim) = row.and_then(|row| row.head.claim) else { return Ok(()) };
        self.heads.claim_is_over(claim).await?.map_err(|state| held(&object, &state))
    }

    /// The outcome of a claim that a head does not have, and whose tries cannot arrive any more.
    ///
    /// While the transaction is open, a claim of it ends only with what it is on. Otherwise a try
    /// of unknown outcome may have been applied, and ended with the transaction.
    async fn lost(&self, claim: Claim, unknown: Option<Option<Stamp>>, why: Option<ObjectsError>) -> Claimed {
        if unknown.is_none() {
            return Claimed::Not(why);
        }
        match self.heads.transaction(claim.transaction).await {
            Ok(Some(Transaction { phase: Phase::Open, .. })) => Claimed::Not(why),
            Ok(_) => Claimed::Unclear("the transaction ended meanwhile".to_owned()),
            Err(error) => Claimed::Unclear(error.to_string()),
        }
    }

    /// Removes an operation that was surely lost. Otherwise its transaction could not be committed,
    /// because nobody knows of an operation without a claim whether its client got an answer.
    pub(crate) async fn forget_operation(&self, id: TransactionId, row: NewRow) {
        let (table, partition, sort) = (Table::Work, keys::transaction(id), row.sort.clone());
        // Its put may be late. Once it has arrived, the removal is later than it.
        let put = Step::Put { table, partition: partition.clone(), rows: vec![row] };
        let removal = Step::Remove { table, partition, rows: Removal::Rows(vec![sort]) };
        if let Err(error) = self.heads.put_removing(vec![put, removal]).await {
            tracing::warn!(transaction = %id, %error, "a lost operation stays, and prevents a commit");
        }
    }

    /// Takes back a claim that does not count, and restores that of an operation that does. If this
    /// fails, the next writer that meets the claim finds that it does not count.
    pub(crate) async fn withdraw(&self, object: &Bytes, claim: Claim, before: Option<RevisionId>) {
        let before = before.map(|operation| Claim { operation, ..claim });
        let withdrawn = |head: Option<&Head>| {
            let head = head.filter(|head| head.claim == Some(claim))?;
            Some(Head { claim: before, ..head.clone() })
        };
        if let Err(error) = self.heads.amend(object, &withdrawn).await {
            tracing::warn!(transaction = %claim.transaction, %error, "a claim that does not count stays");
        }
    }
}

/// Gives up the claim of a transaction on an object, if it still has one.
pub(crate) async fn release(heads: &Heads, object: &Bytes, id: TransactionId) -> ObjectsResult<()> {
    let unclaimed = |head: Option<&Head>| {
        let head = head.filter(|head| head.claim.is_some_and(|claim| claim.transaction == id))?;
        Some(Head { claim: None, ..head.clone() })
    };
    heads.amend(object, &unclaimed).await.map(|_| ())
}
