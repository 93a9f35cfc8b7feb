//! Adds operations to a transaction: puts what they stage, then claims the head.
//!
//! Until then nothing refers to what was put, and the claim makes the operation count. A claim is
//! compared with what the client's request was evaluated against, so conditions that were checked
//! still hold, and hold until the transaction ends.

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{self, Head, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::{Binary, BytesPlace, Kind, ResourceBody, StoredDescription};
use heads::retries::Tries;
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::transaction::{Claim, Phase, Transaction, TransactionId, held};
use heads::{ContainerBody, Heads};
use sha2::{Digest, Sha256};
use store::{NewRow, Step, Table, ValueKind, envelope};

use crate::backlinks::gives_members;
use crate::create::{NewKind, NewResource, keeper};
use crate::describe::{DESCRIPTION_BYTES_MAX, PIECE_BYTES, PIECES_OF_A_STEP};
use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::resource::{Resource, Written};
use crate::staged::{Becomes, Operation, StagedResource};
use crate::update::Update;
use crate::upload::{Uploaded, UploadedPlace};

/// What a request found, so that an operation counts only if that still is so.
pub(crate) struct Found {
    /// The operation of the same transaction that counts so far.
    operation: Option<RevisionId>,
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

fn seen(head: &Head) -> (RevisionId, bool) {
    (head.revision, head.state == ObjectState::Live)
}

/// Rows to stage, and the bytes in them.
#[derive(Default)]
struct Staging {
    rows: Vec<NewRow>,
    bytes: u64,
    /// Steps that record links and owners of contents.
    links: Vec<Step>,
}

impl Staging {
    fn put(&mut self, sort: Bytes, kind: ValueKind, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.rows.push(NewRow::new(sort, envelope::seal(kind, bytes)));
    }

    /// Stages a description.
    fn describe(&mut self, operation: RevisionId, description: &Bytes) -> ObjectsResult<StoredDescription> {
        if description.len() > DESCRIPTION_BYTES_MAX {
            let len = description.len();
            let over = format!("a description of {len} bytes; at most {DESCRIPTION_BYTES_MAX} are allowed");
            return Err(ObjectsError::OverLimit(over));
        }
        let mut pieces = 0;
        for piece in description.chunks(PIECE_BYTES) {
            self.put(keys::staged_description(operation, pieces), ValueKind::StagedDescription, piece);
            pieces += 1;
        }
        Ok(StoredDescription { revision: operation, pieces, sha256: Sha256::digest(description).into() })
    }

    /// Stages bytes.
    fn keep(&mut self, operation: RevisionId, uploaded: &Uploaded, object: &Bytes) -> Binary {
        let place = match &uploaded.place {
            UploadedPlace::Small(bytes) => {
                self.put(keys::staged_content(operation), ValueKind::StagedContent, bytes);
                BytesPlace::Row
            }
            UploadedPlace::Content(id) => {
                self.links.push(keeper(*id, object));
                BytesPlace::Content(*id)
            }
            UploadedPlace::Elsewhere(elsewhere) => BytesPlace::Elsewhere(elsewhere.clone()),
        };
        Binary {
            revision: operation,
            place,
            len_bytes: uploaded.len_bytes,
            sha256: uploaded.sha256,
            media_type: uploaded.media_type.clone(),
            disposition: uploaded.disposition.clone(),
        }
    }

    /// The steps that put everything.
    fn steps(self, id: TransactionId) -> Vec<Step> {
        let put = |rows: &[NewRow]| {
            let (partition, rows) = (keys::transaction(id), rows.to_vec());
            Step::Put { table: Table::Work, partition, rows }
        };
        self.rows.chunks(PIECES_OF_A_STEP).map(put).chain(self.links).collect()
    }
}

impl Repository {
    /// The transaction of this handle, if operations may be added to it. It lasts at least half of
    /// `transaction_timeout` from now on.
    pub(crate) async fn open_transaction(&self, id: TransactionId) -> ResourceResult<Transaction> {
        let state = self.heads.present_transaction(id).await?.ok_or(ResourceError::NoTransaction(id))?;
        let timeout = self.heads.options().transaction_timeout;
        let state = match state.until.since(self.heads.now()) < timeout / 2 && state.phase == Phase::Open {
            true => {
                let until = self.heads.now().plus(timeout);
                let renewed = self.heads.change_transaction(id, &state, Phase::Open, until).await?;
                renewed.ok_or(ResourceError::NoTransaction(id))?
            }
            false => state,
        };
        match state.phase {
            Phase::Open => Ok(state),
            phase => Err(ResourceError::TransactionOver { id, phase }),
        }
    }

    /// Stages a new resource in a container, as the transaction sees that. `None`: another writer
    /// was faster, or holds the name.
    pub(crate) async fn stage_new(
        &self,
        id: TransactionId,
        (container, parent_incarnation, is_in_new): (&ResourcePath, RevisionId, bool),
        name: &str,
        base: Option<&HeadRow>,
        new: &NewResource,
    ) -> ResourceResult<Option<RevisionId>> {
        let path = container.child(name)?;
        let object = keys::resource_partition(&path);
        let found = Found::of(base, base.and_then(|row| self.own_claim(&row.head)));
        let operation = self.operation_above(base);
        let mut staging = Staging::default();
        let description = staging.describe(operation, &new.description)?;
        let kind = match &new.kind {
            NewKind::RdfSource => Kind::RdfSource,
            NewKind::Container(membership) => {
                Kind::Container { membership: membership.clone(), children: ContainerBody::new(0) }
            }
            NewKind::Binary(uploaded) => Kind::Binary(staging.keep(operation, uploaded, &object)),
        };
        staging.links.extend(new.members_for.iter().flat_map(|resource| gives_members(resource, &path)));
        staging.links.extend(self.refer(&path, &new.refers_to).await?);
        let staged = StagedResource {
            is_new: true,
            incarnation: operation,
            parent_incarnation,
            is_in_new,
            bytes_are_staged: matches!(kind, Kind::Binary(_)),
            body: ResourceBody { kind, description },
            description_is_staged: true,
            member: new.member.clone(),
        };
        let becomes = Becomes::Live(Box::new(staged));
        let is_staged = self.stage(id, &path, &found, operation, becomes, staging).await?;
        Ok(is_staged.then_some(operation))
    }

    /// Stages a change of a resource.
    pub(crate) async fn stage_update(
        &self,
        id: TransactionId,
        resource: &Resource,
        update: &Update,
    ) -> ResourceResult<Written> {
        let path = resource.path.clone();
        let object = keys::resource_partition(&path);
        let operation = self.operation_above(Some(&resource.row));
        let mut staged = self.staged_so_far(resource).await?;
        let mut staging = Staging::default();
        match update {
            Update::Description { description, membership, members_for, refers_to } => {
                staged.body.description = staging.describe(operation, description)?;
                staged.description_is_staged = true;
                if let Kind::Container { membership: stands, .. } = &mut staged.body.kind {
                    stands.clone_from(membership);
                    staging.links.extend(members_for.iter().flat_map(|resource| gives_members(resource, &path)));
                }
                staging.links.extend(self.refer(&path, refers_to).await?);
            }
            Update::Binary(uploaded) => {
                staged.body.kind = Kind::Binary(staging.keep(operation, uploaded, &object));
                staged.bytes_are_staged = true;
            }
            Update::Restored { .. } | Update::Snapshot => {
                return Err(ResourceError::NotInTransaction("versions are not made or restored"));
            }
        }
        let found = self.found(resource);
        match self.stage(id, &path, &found, operation, Becomes::Live(Box::new(staged)), staging).await? {
            true => Ok(Written { path, revision: operation }),
            false => Err(ResourceError::Moved(path)),
        }
    }

    /// Stages the deletion of a resource.
    pub(crate) fn stage_deletion<'a>(
        &'a self,
        id: TransactionId,
        resource: &'a Resource,
    ) -> BoxFuture<'a, ResourceResult<()>> {
        self.stage_one_deletion(id, resource).boxed()
    }

    async fn stage_one_deletion(&self, id: TransactionId, resource: &Resource) -> ResourceResult<()> {
        let path = &resource.path;
        if path.is_root() {
            return Err(ResourceError::Root);
        }
        let becomes = match self.staged_so_far(resource).await?.is_new {
            true => {
                // Its name may be used again in the transaction, without what is in it now.
                for name in self.staged_children(path).await?.into_keys() {
                    match self.resource(&path.child(&name)?).await {
                        Ok(child) => self.stage_deletion(id, &child).await?,
                        Err(ResourceError::Absent(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Becomes::Nothing
            }
            false => Becomes::Deleted,
        };
        let operation = self.operation_above(Some(&resource.row));
        match self.stage(id, path, &self.found(resource), operation, becomes, Staging::default()).await? {
            true => Ok(()),
            false => Err(ResourceError::Moved(path.clone())),
        }
    }

    fn found(&self, resource: &Resource) -> Found {
        Found::of(Some(&resource.row), self.own_claim(resource.head()))
    }

    fn operation_above(&self, base: Option<&HeadRow>) -> RevisionId {
        self.heads.revisions().mint_above(base.map_or(RevisionId::ZERO, |row| row.head.revision.max(row.head.floor)))
    }

    /// What the transaction makes of a resource so far.
    async fn staged_so_far(&self, resource: &Resource) -> ObjectsResult<StagedResource> {
        if let Some(claim) = self.own_claim(resource.head())
            && let Becomes::Live(staged) = self.operation(&resource.path, claim).await?.becomes
        {
            return Ok(*staged);
        }
        let mut body = resource.body.clone();
        if let Some(children) = body.container_mut() {
            // Its head says how many shards there are.
            *children = ContainerBody::new(0);
        }
        Ok(StagedResource {
            is_new: false,
            incarnation: resource.incarnation(),
            parent_incarnation: resource.head().parent_incarnation,
            is_in_new: false,
            body,
            description_is_staged: false,
            bytes_are_staged: false,
            member: None,
        })
    }

    /// Puts an operation and what it stages, and claims the head. Returns false if the head is not
    /// as it was found.
    async fn stage(
        &self,
        id: TransactionId,
        path: &ResourcePath,
        found: &Found,
        operation: RevisionId,
        becomes: Becomes,
        mut staging: Staging,
    ) -> ResourceResult<bool> {
        self.open_transaction(id).await?;
        let mut row = Operation { becomes, staged_bytes: 0 };
        row.staged_bytes = staging.bytes + head::seal(&row)?.len() as u64;
        self.refuse_over_limit(id, row.staged_bytes).await?;
        let row = head::seal(&row)?;
        staging.rows.push(NewRow::new(keys::operation(path, operation), row));
        let claim = Claim { transaction: id, operation };
        if !self.claim(&keys::resource_partition(path), found, claim, staging.steps(id)).await? {
            return Ok(false);
        }
        if !self.heads.keeps(Rule::OpenAfter) {
            return Ok(true);
        }
        // Whoever decided to commit before the claim may not have seen the operation.
        // The claim is there: if nothing is known now, what it names must not be given back.
        let state = self.heads.transaction(id).await.map_err(|error| error.if_unsure(true))?;
        match state.map(|state| state.phase) {
            Some(Phase::Open) => Ok(true),
            Some(phase) if phase.is_decided() => {
                let unknown = format!("the transaction was committed while /{path} was being added to it");
                Err(ObjectsError::Unknown(unknown).into())
            }
            Some(phase) => Err(ResourceError::TransactionOver { id, phase }),
            None => Err(ResourceError::NoTransaction(id)),
        }
    }

    /// Refuses an operation that is over a limit of its transaction. Operations that are added at
    /// the same time may together be over it.
    async fn refuse_over_limit(&self, id: TransactionId, more_bytes: u64) -> ResourceResult<()> {
        let options = self.heads.options();
        let (most, bytes_max) = (options.transaction_operations_max, options.transaction_bytes_max);
        let operations = self.operations(id, keys::operations()).await?;
        let (mut count, mut bytes) = (0, more_bytes);
        for (_, operation) in operations.values().flatten() {
            count += 1;
            bytes += operation.staged_bytes;
        }
        if count >= most {
            return Err(ObjectsError::OverLimit(format!("a transaction has at most {most} operations")).into());
        }
        if bytes > bytes_max {
            let over = format!("a transaction stages at most {bytes_max} bytes of descriptions and small contents");
            return Err(ObjectsError::OverLimit(over).into());
        }
        Ok(())
    }

    /// Claims a head, after the steps in `before`. Returns false if it is not as it was found.
    ///
    /// Errors: [`ObjectsError::Held`] if another transaction holds it; [`ObjectsError::Unknown`] if
    /// the claim may still arrive.
    async fn claim(&self, object: &Bytes, found: &Found, claim: Claim, before: Vec<Step>) -> ObjectsResult<bool> {
        let mut tries = Tries::default();
        let mut is_tried = false;
        loop {
            let read = self.heads.retry_transient(|| self.heads.head_at(object)).await;
            let row = read.map_err(|error| error.if_unsure(is_tried))?;
            let stands = row.as_ref().and_then(|row| row.head.claim);
            if stands == Some(claim) {
                return Ok(true);
            }
            let own = stands.filter(|stands| stands.transaction == claim.transaction);
            if let (None, Some(other)) = (own, stands)
                && let Err(state) = self.heads.claim_is_over(other).await.map_err(|error| error.if_unsure(is_tried))?
            {
                return Err(held(object, &state));
            }
            if !found.is_still(row.as_ref(), own) {
                return Ok(false);
            }
            let head = Head { claim: Some(claim), ..row.as_ref().map_or_else(Head::free, |row| row.head.clone()) };
            is_tried = true;
            let amended = self.heads.try_amend(object, row.as_ref(), head, before.clone()).await;
            if amended.map_err(|error| error.if_unsure(true))?.is_some() {
                return Ok(true);
            }
            if !tries.again().await {
                return Err(ObjectsError::Unknown(
                    "a head could not be claimed; the claim may still arrive".to_owned(),
                ));
            }
        }
    }
}

/// Gives up the claim of a transaction on an object, if it still has one.
pub(crate) async fn release(heads: &Heads, object: &Bytes, id: TransactionId) -> ObjectsResult<()> {
    let unclaimed = |head: Option<&Head>| {
        let head = head.filter(|head| head.claim.is_some_and(|claim| claim.transaction == id))?;
        Some(Head { claim: None, ..head.clone() })
    };
    heads.amend(object, unclaimed).await.map(|_| ())
}
