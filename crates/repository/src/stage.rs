//! Adds operations to a transaction: puts what they stage, then claims the head (`claim.rs`).
//!
//! Until then nothing refers to what was put, and the claim makes the operation count. A claim is
//! compared with what the client's request was evaluated against, so conditions that were checked
//! still hold, and hold until the transaction ends. A request that adds an operation while another
//! one commits is answered after the decision, which names the operations that happen.

use bytes::Bytes;
use futures::FutureExt;
use heads::claim::{Claim, TransactionId};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{self, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::{Binary, BytesPlace, Kind, ResourceBody, StoredDescription};
use heads::retries::{Tries, changes_all_the_time};
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::switch::Amends;
use heads::transaction::{Phase, Transaction};
use heads::{ContainerBody, Heads};
use sha2::{Digest, Sha256};
use store::{NewRow, Scan, Step, Table, ValueKind, envelope};

use crate::claim::{Claimed, Found};
use crate::create::{NewKind, NewResource, keeper};
use crate::describe::{DESCRIPTION_BYTES_MAX, PIECE_BYTES, PIECES_OF_A_STEP};
use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::resource::{Resource, Written};
use crate::staged::{Becomes, Operation, SCAN_BYTES, StagedResource};
use crate::update::Update;
use crate::upload::{Uploaded, UploadedPlace};

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
        self.renewed_in_time(id, state).await
    }

    /// The same for a state that was just read.
    pub(crate) async fn renewed_in_time(&self, id: TransactionId, state: Transaction) -> ResourceResult<Transaction> {
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

    /// The state of a transaction once no commit is checking it. A commit that checks for long may
    /// be of a server that died; then the transaction is opened again.
    ///
    /// Errors: [`ObjectsError::Unknown`] if it is closed again and again.
    async fn checked_transaction(&self, id: TransactionId) -> ObjectsResult<Option<Transaction>> {
        let mut tries = Tries::default();
        loop {
            let Some(state) = self.heads.transaction(id).await? else { return Ok(None) };
            if state.phase != Phase::Closing {
                return Ok(Some(state));
            }
            if !tries.again().await {
                let opened = self.heads.change_transaction(id, &state, Phase::Open, state.until).await?;
                return match opened {
                    Some(Transaction { phase: Phase::Closing, .. }) => {
                        Err(ObjectsError::Unknown(format!("the transaction {id} is being committed")))
                    }
                    state => Ok(state),
                };
            }
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
        is_implied: bool,
    ) -> ResourceResult<Option<RevisionId>> {
        let path = container.child(name)?;
        let object = keys::resource_partition(&path);
        let found = Found::of(base, base.and_then(|row| self.own_claim(&row.head)));
        let room = self.room_for(id, &path).await?;
        let operation = self.operation_above(base, &room);
        let mut staging = Staging::default();
        let description = staging.describe(operation, &new.description)?;
        let kind = match &new.kind {
            NewKind::RdfSource => Kind::RdfSource,
            NewKind::Container(membership) | NewKind::Group(membership) => {
                Kind::Container { membership: membership.clone(), children: ContainerBody::new(0) }
            }
            NewKind::Binary(uploaded) => Kind::Binary(staging.keep(operation, uploaded, &object)),
        };
        if let Some(resource) = &new.members_for {
            staging.links.extend(self.gives_members(resource, &path).await?);
        }
        staging.links.extend(self.refer(&path, &new.refers_to).await?);
        let staged = StagedResource {
            is_new: true,
            incarnation: operation,
            parent_incarnation,
            is_in_new,
            is_implied,
            bytes_are_staged: matches!(kind, Kind::Binary(_)),
            body: ResourceBody { kind, description },
            description_is_staged: true,
            member: new.member.clone(),
        };
        let makes = Makes { becomes: Becomes::Live(Box::new(staged)), is_group: matches!(new.kind, NewKind::Group(_)) };
        let is_staged = self.stage((id, room), &path, &found, operation, makes, staging).await?;
        Ok(is_staged.then_some(operation))
    }

    /// Holds an archival group for a transaction that is about to change something in it, so that
    /// no other transaction does. The group itself stays as it is.
    ///
    /// Fails with [`ObjectsError::Held`] if another one holds it.
    pub(crate) async fn hold_group(&self, id: TransactionId, group: &ResourcePath) -> ResourceResult<()> {
        if !self.heads.keeps(Rule::HoldGroup) {
            return Ok(());
        }
        let object = keys::resource_partition(group);
        let mut tries = Tries::default();
        loop {
            let row = self.heads.retry_transient(|| self.heads.head_at(&object)).await?;
            // What is in a deleted one cannot be changed any more.
            let Some(row) = row.filter(|row| row.head.state == ObjectState::Live) else { return Ok(()) };
            if self.own_claim(&row.head).is_some() {
                return Ok(());
            }
            let found = Found::of(Some(&row), None);
            let room = self.room_for(id, group).await?;
            let operation = self.operation_above(Some(&row), &room);
            let makes = Makes { becomes: Becomes::Nothing, is_group: true };
            if self.stage((id, room), group, &found, operation, makes, Staging::default()).await? {
                return Ok(());
            }
            if !tries.again().await {
                return Err(changes_all_the_time(format!("/{group}"), false).into());
            }
        }
    }

    /// The same for a resource that is changed, if it is in a group.
    async fn hold_group_of(&self, id: TransactionId, resource: &Resource) -> ResourceResult<()> {
        match resource.group_around() {
            Some(group) => self.hold_group(id, group).boxed().await,
            None => Ok(()),
        }
    }

    /// Stages a change of a resource.
    pub(crate) async fn stage_update(
        &self,
        id: TransactionId,
        resource: &Resource,
        update: &Update,
    ) -> ResourceResult<Written> {
        let path = resource.path.clone();
        self.hold_group_of(id, resource).await?;
        let object = keys::resource_partition(&path);
        let room = self.room_for(id, &path).await?;
        let operation = self.operation_above(Some(&resource.row), &room);
        let mut staged = StagedResource { is_implied: false, ..self.staged_so_far(resource).await? };
        let mut staging = Staging::default();
        match update {
            Update::Description { description, membership, members_for, refers_to } => {
                staged.body.description = staging.describe(operation, description)?;
                staged.description_is_staged = true;
                if let Kind::Container { membership: current, .. } = &mut staged.body.kind {
                    current.clone_from(membership);
                    if let Some(resource) = members_for {
                        staging.links.extend(self.gives_members(resource, &path).await?);
                    }
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
        let makes = Makes { becomes: Becomes::Live(Box::new(staged)), is_group: resource.is_group() };
        match self.stage((id, room), &path, &found, operation, makes, staging).await? {
            true => Ok(Written { path, revision: operation }),
            false => Err(ResourceError::Moved(path)),
        }
    }

    /// Stages the deletion of a resource. What the transaction created in it goes with it.
    pub(crate) async fn stage_deletion(&self, id: TransactionId, resource: &Resource) -> ResourceResult<()> {
        let path = &resource.path;
        if path.is_root() {
            return Err(ResourceError::Root);
        }
        let becomes = match self.staged_so_far(resource).await?.is_new {
            true => Becomes::Nothing,
            false => Becomes::Deleted,
        };
        self.hold_group_of(id, resource).await?;
        let room = self.room_for(id, path).await?;
        let operation = self.operation_above(Some(&resource.row), &room);
        let makes = Makes { becomes, is_group: false };
        match self.stage((id, room), path, &self.found(resource), operation, makes, Staging::default()).await? {
            true => Ok(()),
            false => Err(ResourceError::Moved(path.clone())),
        }
    }

    fn found(&self, resource: &Resource) -> Found {
        Found::of(Some(&resource.row), self.own_claim(resource.head()))
    }

    /// An id above those of earlier operations on the resource, whichever server minted them.
    fn operation_above(&self, base: Option<&HeadRow>, room: &Room) -> RevisionId {
        let floor = base.map_or(RevisionId::ZERO, |row| row.head.revision.max(row.head.floor));
        self.heads.revisions().mint_above(floor.max(room.last_operation))
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
            is_implied: false,
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
        (id, room): (TransactionId, Room),
        path: &ResourcePath,
        found: &Found,
        operation: RevisionId,
        Makes { becomes, is_group }: Makes,
        mut staging: Staging,
    ) -> ResourceResult<bool> {
        self.open_transaction(id).await?;
        let amends = match &becomes {
            Becomes::Live(_) => Amends::Adding,
            Becomes::Deleted | Becomes::Nothing => Amends::Removing,
        };
        let mut row = Operation { becomes, staged_bytes: 0, is_group };
        row.staged_bytes = staging.bytes + head::seal(&row)?.len() as u64;
        room.refuse_over_limit(&self.heads, row.staged_bytes)?;
        let row = NewRow::new(keys::operation(path, operation), head::seal(&row)?);
        staging.rows.push(row.clone());
        let (object, claim) = (keys::resource_partition(path), Claim { transaction: id, operation });
        let unclear = match self.claim(&object, found, claim, staging.steps(id), amends).await? {
            Claimed::Not(why) => {
                if self.heads.keeps(Rule::ForgetLost) {
                    self.forget_operation(id, row).await;
                }
                return why.map_or(Ok(false), |why| Err(why.into()));
            }
            Claimed::Put if !self.heads.keeps(Rule::OpenAfter) => return Ok(true),
            Claimed::Put => None,
            Claimed::Unclear(why) => Some(ObjectsError::Unknown(why)),
        };
        // A commit may have closed the transaction before the claim was put. The claim may
        // be there: if nothing is known now, what it names must not be given back.
        let state = self.checked_transaction(id).await.map_err(|error| error.if_unsure(true))?;
        match (state, unclear) {
            (Some(state), _) if state.phase.is_decided() && state.operations.contains(&operation) => Ok(true),
            (Some(Transaction { phase: Phase::Open, .. }), None) => Ok(true),
            (Some(Transaction { phase: Phase::Open, .. }), Some(unclear)) => Err(unclear.into()),
            (Some(state), _) => {
                let before = found.operation.filter(|before| state.operations.contains(before));
                self.withdraw(&object, claim, before).await;
                Err(ResourceError::TransactionOver { id, phase: state.phase })
            }
            (None, _) => Err(ResourceError::NoTransaction(id)),
        }
    }

    /// What there is room for in a transaction. Operations that are added at the same time may
    /// together be over a limit.
    async fn room_for(&self, id: TransactionId, path: &ResourcePath) -> ObjectsResult<Room> {
        let mut room = Room { operations: 0, bytes: 0, last_operation: RevisionId::ZERO };
        // One page after the other, because each operation may be as large as a row.
        let mut rest = Some(Scan::prefix(keys::operations(), SCAN_BYTES));
        while let Some(range) = rest {
            let (some, next) = self.some_operations(id, range).await?;
            for (of, (operation, Operation { staged_bytes, .. })) in some {
                room.operations += 1;
                room.bytes += staged_bytes;
                if of == *path {
                    room.last_operation = operation;
                }
            }
            rest = next;
        }
        Ok(room)
    }
}

/// What an operation makes of a resource, and whether that is an archival group then.
struct Makes {
    becomes: Becomes,
    is_group: bool,
}

/// What a transaction has staged so far.
struct Room {
    operations: usize,
    bytes: u64,
    /// The last operation on the resource that another one is added for.
    last_operation: RevisionId,
}

impl Room {
    /// Refuses an operation that stages so many bytes, if it is over a limit.
    fn refuse_over_limit(&self, heads: &Heads, more_bytes: u64) -> ObjectsResult<()> {
        let options = heads.options();
        let (most, bytes_max) = (options.transaction_operations_max, options.transaction_bytes_max);
        if self.operations >= most {
            return Err(ObjectsError::OverLimit(format!("a transaction has at most {most} operations")));
        }
        if self.bytes + more_bytes > bytes_max {
            let over = format!("a transaction stages at most {bytes_max} bytes of descriptions and small contents");
            return Err(ObjectsError::OverLimit(over));
        }
        Ok(())
    }
}
