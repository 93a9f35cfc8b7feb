//! What a transaction has staged, and how its own requests see it.
//!
//! An operation is a row that is written once, in the partition of the transaction. A resource is
//! changed by the operation that its head's claim names, and by no other. So a later operation on
//! the same resource replaces the earlier one when the claim is switched, like any change.

use std::collections::BTreeMap;

use bytes::Bytes;
use heads::claim::{Claim, TransactionId};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{self, Body, Head, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::{Binary, BytesPlace, ResourceBody};
use heads::revision::RevisionId;
use serde::{Deserialize, Serialize};
use store::{Class, Scan, Stored, Strength, Table, ValueKind, envelope};

use crate::handle::Repository;
use crate::read::Child;
use crate::resource::Resource;

/// Bytes of one page of a scan over operations.
pub(crate) const SCAN_BYTES: usize = 64 << 10;

/// Heads that are read in one batch. Each may be as large as a row.
const BATCH_HEADS: usize = 100;

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    /// What the resource becomes.
    pub becomes: Becomes,
    /// Bytes of the rows that it staged.
    pub staged_bytes: u64,
    /// Whether the resource is an archival group then.
    pub is_group: bool,
}

impl Stored for Operation {
    const KIND: ValueKind = ValueKind::StagedOperation;
}

/// What an operation makes of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Becomes {
    /// Nothing: the transaction created the resource and deleted it, or it is an archival group that
    /// the transaction holds because of what it changes in it.
    Nothing,
    /// It is deleted.
    Deleted,
    /// It is created, or changed.
    Live(Box<StagedResource>),
}

/// A resource that a transaction creates or changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StagedResource {
    /// Whether the transaction creates it.
    pub is_new: bool,
    /// Its incarnation; of a new one, the id of the operation that created it first.
    pub incarnation: RevisionId,
    /// The incarnation of its container, likewise.
    pub parent_incarnation: RevisionId,
    /// Whether the transaction creates its container.
    pub is_in_new: bool,
    /// Whether it is a container that a request created only to create something in it. It counts
    /// if something in it does.
    pub is_implied: bool,
    /// What its head is going to say. Staged parts are named by the operation that staged them.
    pub body: ResourceBody,
    /// Whether its description is staged.
    pub description_is_staged: bool,
    /// Whether its bytes are staged.
    pub bytes_are_staged: bool,
    /// The member that its container derives from it, if it is new and not that member itself.
    pub member: Option<String>,
}

impl StagedResource {
    /// The bytes, if they are staged.
    pub(crate) fn staged_bytes(&self) -> Option<&Binary> {
        self.body.binary().filter(|_| self.bytes_are_staged)
    }

    /// The head as the transaction sees it. `current` is the head that there is.
    fn head(&self, operation: RevisionId, current: &Head, new_shards: u16) -> Head {
        let mut body = self.body.clone();
        if let Some(children) = body.container_mut() {
            // Shards may have been rewritten since the operation was staged.
            match current.live_container().filter(|_| !self.is_new) {
                Some(standing) => children.clone_from(standing),
                None => *children = heads::ContainerBody::new(new_shards),
            }
        }
        Head {
            state: ObjectState::Live,
            incarnation: self.incarnation,
            parent_incarnation: self.parent_incarnation,
            revision: operation,
            body: Body::Resource(body),
            ..current.clone()
        }
    }
}

/// An operation with its id.
pub(crate) type Numbered = (RevisionId, Operation);

/// Operations, with the resources that they are on.
pub(crate) type Operations = Vec<(ResourcePath, Numbered)>;

/// What a transaction makes of a child of a container, as far as a listing shows. An operation may
/// be as large as a row, so a listing does not hold all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StagedChild {
    /// It is deleted.
    Deleted,
    /// It is created.
    New {
        /// The member that its container derives from it, if it is not that member itself.
        member: Option<String>,
    },
}

impl StagedChild {
    /// What an operation makes of a child; `None` if the listing stays as it is.
    fn of(operation: Operation) -> Option<Self> {
        match operation.becomes {
            Becomes::Deleted => Some(Self::Deleted),
            Becomes::Live(staged) if staged.is_new => Some(Self::New { member: staged.member }),
            Becomes::Live(_) | Becomes::Nothing => None,
        }
    }
}

impl Repository {
    /// The claim of this handle's transaction on a head, if it has one.
    pub(crate) fn own_claim(&self, head: &Head) -> Option<Claim> {
        head.claim.filter(|claim| Some(claim.transaction) == self.transaction)
    }

    /// An operation of a transaction.
    pub(crate) async fn operation(&self, path: &ResourcePath, claim: Claim) -> ObjectsResult<Operation> {
        let (partition, sort) = (keys::transaction(claim.transaction), keys::operation(path, claim.operation));
        let read = || async {
            let call = self.heads.call(Class::Description).strong();
            Ok(self.heads.store().get(call, Table::Work, &partition, &sort).await?)
        };
        let row = self.heads.retry_transient(read).await?;
        let missing = || ObjectsError::corrupt(Table::Work, &format!("what a transaction makes of /{path} is missing"));
        head::open(Table::Work, &row.ok_or_else(missing)?.value)
    }

    /// The operations of a transaction under a prefix of their keys, by path; of each path in the
    /// order of their ids. All of them are in memory then.
    pub(crate) async fn operations(
        &self,
        id: TransactionId,
        prefix: Bytes,
    ) -> ObjectsResult<BTreeMap<ResourcePath, Vec<Numbered>>> {
        let mut found: BTreeMap<ResourcePath, Vec<Numbered>> = BTreeMap::new();
        let mut rest = Some(Scan::prefix(prefix, SCAN_BYTES));
        while let Some(range) = rest {
            let (some, next) = self.some_operations(id, range).await?;
            for (path, numbered) in some {
                found.entry(path).or_default().push(numbered);
            }
            rest = next;
        }
        Ok(found)
    }

    /// Some operations of a transaction, in the order of their paths, and of their ids; with the
    /// range of the others.
    pub(crate) async fn some_operations(
        &self,
        id: TransactionId,
        range: Scan,
    ) -> ObjectsResult<(Operations, Option<Scan>)> {
        let partition = keys::transaction(id);
        let read = || async {
            let call = self.heads.call(Class::Description).strong();
            Ok(self.heads.store().scan(call, Table::Work, &partition, range.clone()).await?)
        };
        let page = self.heads.retry_transient(read).await?;
        let mut some = Vec::with_capacity(page.rows.len());
        for row in &page.rows {
            let strange = || ObjectsError::corrupt(Table::Work, "an operation on no resource");
            let (path, operation) = keys::operation_of(&row.sort).ok_or_else(strange)?;
            let numbered = (operation, head::open(Table::Work, &row.value)?);
            some.push((keys::stored_path(path)?, numbered));
        }
        Ok((some, range.resumed(page.next)))
    }

    /// Heads as the transaction of this handle sees them. `paths` are theirs, in the same order.
    pub(crate) async fn as_staged(
        &self,
        paths: Vec<ResourcePath>,
        heads: Vec<Option<HeadRow>>,
    ) -> ObjectsResult<Vec<Option<HeadRow>>> {
        if self.transaction.is_none() {
            return Ok(heads);
        }
        let mut seen = Vec::with_capacity(heads.len());
        for (path, row) in paths.into_iter().zip(heads) {
            seen.push(match row {
                Some(row) => Some(self.one_as_staged(&path, row).await?),
                None => None,
            });
        }
        Ok(seen)
    }

    /// A head as the transaction of this handle sees it.
    pub(crate) async fn one_as_staged(&self, path: &ResourcePath, row: HeadRow) -> ObjectsResult<HeadRow> {
        let Some(claim) = self.own_claim(&row.head) else { return Ok(row) };
        let Operation { becomes, is_group, .. } = self.operation(path, claim).await?;
        let head = match becomes {
            Becomes::Nothing => return Ok(row),
            Becomes::Deleted => Head { state: ObjectState::Deleted, body: Body::Nothing, is_group, ..row.head },
            Becomes::Live(staged) => {
                let head = staged.head(claim.operation, &row.head, self.heads.options().resource_shards);
                Head { is_group, ..head }
            }
        };
        Ok(HeadRow { head, ..row })
    }

    /// Whether the transaction of this handle creates the resource of this head.
    pub(crate) async fn is_new_here(&self, path: &ResourcePath, head: &Head) -> ObjectsResult<bool> {
        let Some(claim) = self.own_claim(head) else { return Ok(false) };
        let operation = self.operation(path, claim).await?;
        Ok(matches!(operation.becomes, Becomes::Live(staged) if staged.is_new))
    }

    /// The children of a container that the transaction of this handle deletes, by name, and if
    /// `with_new` those that it creates. What it created in a container that it deleted since is not
    /// among those of a new one at the same path.
    pub(crate) async fn staged_children(
        &self,
        container: &Resource,
        with_new: bool,
    ) -> ObjectsResult<BTreeMap<String, StagedChild>> {
        let mut staged = BTreeMap::new();
        let Some(id) = self.transaction else { return Ok(staged) };
        let mut rest = Some(Scan::prefix(keys::operations_in(&container.path), SCAN_BYTES));
        while let Some(range) = rest {
            let (counting, next) = self.some_that_count(id, container, range).await?;
            for (path, (_, operation)) in counting {
                match StagedChild::of(operation).filter(|child| with_new || *child == StagedChild::Deleted) {
                    Some(child) => _ = staged.insert(path.name().to_owned(), child),
                    // An earlier operation may have counted a moment ago.
                    None => _ = staged.remove(path.name()),
                }
            }
            rest = next;
        }
        Ok(staged)
    }

    /// The last operation of the transaction of this handle that counts for a child of a container;
    /// `None` if there is none.
    pub(crate) async fn last_staged(&self, container: &Resource) -> ObjectsResult<Option<RevisionId>> {
        let mut last = None;
        let Some(id) = self.transaction else { return Ok(last) };
        let mut rest = Some(Scan::prefix(keys::operations_in(&container.path), SCAN_BYTES));
        while let Some(range) = rest {
            let (counting, next) = self.some_that_count(id, container, range).await?;
            last = last.max(counting.iter().map(|(_, (operation, _))| *operation).max());
            rest = next;
        }
        Ok(last)
    }

    /// Of some operations of a transaction, those that count for children of a container; with the
    /// range of the other operations.
    async fn some_that_count(
        &self,
        id: TransactionId,
        container: &Resource,
        range: Scan,
    ) -> ObjectsResult<(Operations, Option<Scan>)> {
        let is_in_it = |operation: &Operation| match &operation.becomes {
            Becomes::Live(staged) => staged.parent_incarnation == container.incarnation(),
            Becomes::Nothing | Becomes::Deleted => true,
        };
        let (mut operations, rest) = self.some_operations(id, range).await?;
        operations
            .retain(|(child, (_, operation))| child.parent().as_ref() == Some(&container.path) && is_in_it(operation));
        let mut counting = Vec::with_capacity(operations.len());
        let mut waiting = operations.into_iter();
        loop {
            let mut batch: Operations = waiting.by_ref().take(BATCH_HEADS).collect();
            if batch.is_empty() {
                return Ok((counting, rest));
            }
            let mut paths: Vec<_> = batch.iter().map(|(path, _)| path.clone()).collect();
            // Those on one resource follow each other.
            paths.dedup();
            let partitions: Vec<_> = paths.iter().map(keys::resource_partition).collect();
            let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
            let mut claimed = BTreeMap::new();
            for (path, row) in paths.into_iter().zip(heads) {
                let claim = row?.and_then(|row| self.own_claim(&row.head));
                claimed.extend(claim.map(|claim| (path, claim.operation)));
            }
            batch.retain(|(path, (operation, _))| claimed.get(path) == Some(operation));
            counting.append(&mut batch);
        }
    }

    /// Takes from a page of children those that the transaction deletes, and adds those that it
    /// creates.
    pub(crate) fn with_staged(staged: BTreeMap<String, StagedChild>, children: &mut Vec<Child>) {
        children.retain(|child| staged.get(&child.name) != Some(&StagedChild::Deleted));
        children.extend(staged.into_iter().filter_map(|(name, child)| match child {
            StagedChild::New { member } => Some(Child { name, member }),
            StagedChild::Deleted => None,
        }));
    }

    /// A row that a transaction staged; `None` if it staged none at this key.
    pub(crate) async fn staged_row(
        &self,
        id: TransactionId,
        kind: ValueKind,
        sort: &Bytes,
    ) -> ObjectsResult<Option<Bytes>> {
        let partition = keys::transaction(id);
        let read = || async {
            let call = self.heads.call(Class::Description).strong();
            Ok(self.heads.store().get(call, Table::Work, &partition, sort).await?)
        };
        let row = self.heads.retry_transient(read).await?;
        let damaged = |error: envelope::EnvelopeError| ObjectsError::corrupt(Table::Work, &error.to_string());
        row.map(|row| envelope::open(kind, &row.value).map_err(damaged)).transpose()
    }

    /// A description that a transaction staged; `None` if it is not staged.
    pub(crate) async fn staged_description(
        &self,
        id: TransactionId,
        body: &ResourceBody,
    ) -> ObjectsResult<Option<Bytes>> {
        let mut description = Vec::new();
        for piece in 0..body.description.pieces {
            let sort = keys::staged_description(body.description.revision, piece);
            match self.staged_row(id, ValueKind::StagedDescription, &sort).await? {
                Some(text) => description.push(text),
                None if piece == 0 => return Ok(None),
                None => return Err(ObjectsError::corrupt(Table::Work, "a piece of a staged description is missing")),
            }
        }
        Ok(Some(match description.len() {
            1 => description.remove(0),
            _ => Bytes::from(description.concat()),
        }))
    }

    /// The few bytes that a transaction staged; `None` if they are not staged.
    pub(crate) async fn staged_content(&self, id: TransactionId, binary: &Binary) -> ObjectsResult<Option<Bytes>> {
        match binary.place {
            BytesPlace::Row => {
                self.staged_row(id, ValueKind::StagedContent, &keys::staged_content(binary.revision)).await
            }
            BytesPlace::Content(_) | BytesPlace::Elsewhere(_) => Ok(None),
        }
    }
}

impl Operation {
    /// The large content that it staged.
    pub(crate) fn content(&self) -> Option<store::ContentId> {
        let Becomes::Live(resource) = &self.becomes else { return None };
        match &resource.staged_bytes()?.place {
            BytesPlace::Content(id) => Some(*id),
            BytesPlace::Row | BytesPlace::Elsewhere(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use heads::ContainerBody;
    use heads::resource_body::{Kind, MemberRule, Membership, Relation, StoredDescription};

    /// Operations that together have every variant, and their payloads without the last field, which
    /// is `is_group`.
    fn golden() -> [(Operation, Vec<u8>); 3] {
        let rule = MemberRule { resource: "s".to_owned(), relation: Relation::HasMember("h".to_owned()) };
        let resource = StagedResource {
            is_new: true,
            incarnation: RevisionId([1; 16]),
            parent_incarnation: RevisionId([2; 16]),
            is_in_new: false,
            is_implied: true,
            body: ResourceBody {
                kind: Kind::Container { membership: Membership::Direct(rule), children: ContainerBody::new(4) },
                description: StoredDescription { revision: RevisionId([3; 16]), pieces: 2, sha256: [4; 32] },
            },
            description_is_staged: true,
            bytes_are_staged: false,
            member: Some("m".to_owned()),
        };
        let of_resource = [
            &[2, 1][..],
            &[1; 16],
            &[2; 16],
            &[0, 1],
            &[1],
            b"\x01\x01s\x00\x01h",
            &[4, 0, 0, 0],
            &[3; 16],
            &[2],
            &[4; 32],
            &[1, 0, 1],
            b"\x01m",
        ];
        let operation = |becomes| Operation { becomes, staged_bytes: 300, is_group: false };
        let stored = |becomes: &[u8]| [becomes, &[0xac, 2]].concat();
        [
            (operation(Becomes::Nothing), stored(&[0])),
            (operation(Becomes::Deleted), stored(&[1])),
            (operation(Becomes::Live(Box::new(resource))), stored(&of_resource.concat())),
        ]
    }

    #[test]
    fn operations_have_these_bytes_and_are_read_from_them() {
        for ((operation, begin), is_group) in golden().into_iter().zip([false, true, true]) {
            let (operation, payload) =
                (Operation { is_group, ..operation }, [&begin[..], &[u8::from(is_group)]].concat());
            let sealed = envelope::seal(ValueKind::StagedOperation, &payload);
            assert_eq!(head::seal(&operation).unwrap(), sealed, "{operation:?}");
            assert_eq!(Operation::decode(1, &payload).unwrap(), operation);
            for len in 0..payload.len() {
                assert!(Operation::decode(1, &payload[..len]).is_err(), "{operation:?} is read from {len} bytes");
            }
        }
    }
}
