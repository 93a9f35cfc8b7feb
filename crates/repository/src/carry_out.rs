//! Carries out a transaction that is decided. Any server may, several at once, and as often as it
//! takes: an operation is carried out by switching the head that carries a claim of the
//! transaction, so it happens once. The decision names the operations. A claim may name a later
//! one, of a request that is going to be refused.
//!
//! Resources are created and changed from the top down, and then deleted from the bottom up. So
//! nothing is listed that is not reachable. What was deleted since with a container above it is
//! left out, as if the transaction had been committed just before that. An archival group that is
//! there is changed or given up with the deletions, so it is held until everything in it is carried
//! out.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use heads::actor::{self, BY_TOKEN};
use heads::claim::{Claim, Holder, TransactionId};
use heads::containment::{Container, Parent};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Body, Head, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::{BytesPlace, Kind, ResourceBody};
use heads::retries::{Tries, changes_all_the_time};
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::switch::{Switch, Switched};
use store::{Table, ValueKind};

use crate::claim::release;
use crate::create::{Made, NewKind, NewResource};
use crate::decide::{Counting, deleted_of, is_below};
use crate::describe;
use crate::error::ResourceError;
use crate::handle::Repository;
use crate::resource::Resource;
use crate::staged::{Becomes, Operation, StagedResource};
use crate::transactions::AT_ONCE;
use crate::upload::{Uploaded, UploadedPlace};

/// The outcome of one try of an operation.
enum Carried {
    /// It is carried out.
    Out,
    /// Nothing is left that it could change.
    Superfluous,
    /// Something changed meanwhile; it is tried again.
    Not,
}

impl Repository {
    /// Carries out those operations of a transaction that its decision names, in the name of who
    /// began it.
    pub(crate) fn carry_out<'a>(
        &'a self,
        id: TransactionId,
        owner: &'a str,
        named: &'a [RevisionId],
    ) -> BoxFuture<'a, ObjectsResult<()>> {
        let carried = self.carry_out_all(id, named);
        // A pass, perhaps of another server, works for no request.
        match owner.strip_prefix(BY_TOKEN).filter(|_| self.heads.options().feed_actors) {
            Some(token) => actor::acting(token, actor::agent(), carried).boxed(),
            None => carried.boxed(),
        }
    }

    async fn carry_out_all(&self, id: TransactionId, named: &[RevisionId]) -> ObjectsResult<()> {
        let operations = self.operations_named(id, named).await?;
        let deleted = deleted_of(&operations);
        let mut made: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        let mut ended: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (path, operation) in operations {
            let is_last = match &operation.1.becomes {
                Becomes::Live(staged) => !staged.is_new && operation.1.is_group && self.heads.keeps(Rule::GroupLast),
                Becomes::Deleted => true,
                Becomes::Nothing => self.heads.keeps(Rule::GroupLast),
            };
            let phase = if is_last { &mut ended } else { &mut made };
            phase.entry(path.names().count()).or_default().push((path, operation));
        }
        for operations in made.into_values().chain(ended.into_values().rev()) {
            let mut carried: Vec<BoxFuture<'_, ObjectsResult<()>>> = Vec::with_capacity(operations.len());
            for (path, (_, operation)) in operations {
                let becomes = if is_below(&path, &deleted) { Becomes::Nothing } else { operation.becomes };
                let operation = Operation { becomes, ..operation };
                carried.push(async move { self.carry_out_one(id, &path, operation).await }.boxed());
            }
            stream::iter(carried).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        }
        Ok(())
    }

    /// Those operations of a transaction.
    async fn operations_named(&self, id: TransactionId, named: &[RevisionId]) -> ObjectsResult<Counting> {
        let named: HashSet<&RevisionId> = named.iter().collect();
        let mut counting = Counting::new();
        for (path, mut operations) in self.operations(id, keys::operations()).await? {
            let counts = match self.heads.keeps(Rule::OnlyNamed) {
                true => operations.into_iter().find(|(id, _)| named.contains(id)),
                false => operations.pop(),
            };
            counting.extend(counts.map(|counts| (path, counts)));
        }
        Ok(counting)
    }

    /// Carries out what an operation makes of one resource.
    async fn carry_out_one(&self, id: TransactionId, path: &ResourcePath, operation: Operation) -> ObjectsResult<()> {
        let object = keys::resource_partition(path);
        let mut tries = Tries::default();
        loop {
            let Some((row, claim)) = self.claimed(&object, id).await? else { return Ok(()) };
            let carried = match &operation.becomes {
                Becomes::Nothing => Ok(Carried::Superfluous),
                Becomes::Deleted => self.carry_out_deletion(path, row, claim).await,
                Becomes::Live(staged) if staged.is_new => {
                    self.carry_out_creation(path, row, claim, staged, operation.is_group).await
                }
                Becomes::Live(staged) => self.carry_out_update(path, row, claim, staged).await,
            };
            match carried {
                Ok(Carried::Out) => return Ok(()),
                Ok(Carried::Superfluous) => return release(&self.heads, &object, id).await,
                Ok(Carried::Not) => {}
                // Another server may have carried it out, and dropped what was staged.
                Err(error) if error.is_damage() && self.claimed(&object, id).await?.is_none() => return Ok(()),
                Err(error) => return Err(error),
            }
            if !tries.again().await {
                return Err(changes_all_the_time(format!("/{path}"), false));
            }
        }
    }

    /// A head and the claim of a transaction on it; `None` if it has none.
    async fn claimed(&self, object: &Bytes, id: TransactionId) -> ObjectsResult<Option<(HeadRow, Claim)>> {
        let row = self.heads.retry_transient(|| self.heads.head_at(object)).await?;
        let claim = row.as_ref().and_then(|row| row.head.claim).filter(|claim| claim.transaction == id);
        Ok(row.zip(claim))
    }

    /// The container of a resource, if it is still the one that the transaction saw.
    async fn container_of(
        &self,
        path: &ResourcePath,
        staged: Option<(TransactionId, &StagedResource)>,
    ) -> ObjectsResult<Option<Parent>> {
        let Some(above) = path.parent() else { return Ok(None) };
        let container = Container::At(above.clone());
        let parent = match self.heads.retry_transient(|| self.heads.parent(&container)).await {
            Ok(parent) => parent,
            Err(ObjectsError::Gone(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_it = match staged {
            None => true,
            Some((id, staged)) if staged.is_in_new => {
                let made = keys::made_container(&above, parent.incarnation());
                self.staged_row(id, ValueKind::MadeContainer, &made).await?.is_some()
            }
            Some((_, staged)) => parent.incarnation() == staged.parent_incarnation,
        };
        Ok(Some(parent).filter(|_| is_it))
    }

    async fn carry_out_creation(
        &self,
        path: &ResourcePath,
        row: HeadRow,
        claim: Claim,
        staged: &StagedResource,
        is_group: bool,
    ) -> ObjectsResult<Carried> {
        let Some(parent) = self.container_of(path, Some((claim.transaction, staged))).await? else {
            return Ok(Carried::Superfluous);
        };
        let (id, body) = (claim.transaction, &staged.body);
        let kind = match &body.kind {
            Kind::RdfSource => NewKind::RdfSource,
            Kind::Container { membership, .. } if is_group => NewKind::Group(membership.clone()),
            Kind::Container { membership, .. } => NewKind::Container(membership.clone()),
            Kind::Binary(_) => NewKind::Binary(self.staged_upload(id, body).await?),
        };
        let description = self.staged_description(id, body).await?.ok_or_else(no_description)?;
        // Links were recorded when it was staged.
        let (members_for, refers_to) = (None, Vec::new());
        let new = NewResource { kind, description, member: staged.member.clone(), members_for, refers_to };
        match self.try_create_as(&parent, path.name(), Some(row), &new, Holder::Claim(claim)).await {
            Ok(Made::Created(_)) => Ok(Carried::Out),
            Ok(Made::Not) => Ok(Carried::Not),
            Err(error) => Err(objects(error)),
        }
    }

    async fn carry_out_update(
        &self,
        path: &ResourcePath,
        row: HeadRow,
        claim: Claim,
        staged: &StagedResource,
    ) -> ObjectsResult<Carried> {
        let live = row.head.live_resource().filter(|_| row.head.incarnation == staged.incarnation);
        let Some(mut body) = live.cloned() else { return Ok(Carried::Superfluous) };
        let (id, partition) = (claim.transaction, keys::resource_partition(path));
        let revision = self.heads.revisions().mint_above(row.head.revision.max(row.head.floor));
        let mut rows = Vec::new();
        if staged.description_is_staged {
            let description = self.staged_description(id, &staged.body).await?.ok_or_else(no_description)?;
            (rows, body.description) = describe::put(&partition, revision, &description)?;
        }
        if let (Kind::Container { membership: current, .. }, Kind::Container { membership, .. }) =
            (&mut body.kind, &staged.body.kind)
        {
            current.clone_from(membership);
        }
        if staged.bytes_are_staged {
            let uploaded = self.staged_upload(id, &staged.body).await?;
            body.kind = Kind::Binary(uploaded.keep(&partition, revision, &mut rows));
        }
        rows.extend(self.superseding(path, revision));
        let head = Head { revision, body: Body::Resource(body), ..row.head.clone() };
        let (base, holder) = (Some(row), Holder::Claim(claim));
        let switch = Switch { partition, base, head, before: rows, after: Vec::new(), unsure: false, holder };
        match self.heads.switch(switch).await? {
            Switched::Applied => Ok(Carried::Out),
            Switched::Moved | Switched::Fenced | Switched::Required { .. } => Ok(Carried::Not),
        }
    }

    async fn carry_out_deletion(&self, path: &ResourcePath, row: HeadRow, claim: Claim) -> ObjectsResult<Carried> {
        let parent_incarnation = row.head.parent_incarnation;
        let Some(parent) = self.container_of(path, None).await? else { return Ok(Carried::Superfluous) };
        if row.head.state != ObjectState::Live || parent.incarnation() != parent_incarnation {
            return Ok(Carried::Superfluous);
        }
        let Some(resource) = Resource::of(path.clone(), row) else { return Ok(Carried::Superfluous) };
        match self.delete_as(&resource, Holder::Claim(claim)).await {
            // What was in it may follow.
            Ok(()) | Err(ResourceError::Deleting { .. }) => Ok(Carried::Out),
            Err(ResourceError::Moved(_)) => Ok(Carried::Not),
            Err(error) => Err(objects(error)),
        }
    }

    /// Staged bytes, as if they had just been uploaded.
    async fn staged_upload(&self, id: TransactionId, body: &ResourceBody) -> ObjectsResult<Uploaded> {
        let missing = || ObjectsError::corrupt(Table::Work, "bytes that a transaction staged are missing");
        let binary = body.binary().ok_or_else(missing)?;
        let place = match &binary.place {
            BytesPlace::Row => UploadedPlace::Small(self.staged_content(id, binary).await?.ok_or_else(missing)?),
            BytesPlace::Content(content) => UploadedPlace::Content(*content),
            BytesPlace::Elsewhere(elsewhere) => UploadedPlace::Elsewhere(elsewhere.clone()),
        };
        Ok(Uploaded {
            place,
            len_bytes: binary.len_bytes,
            sha256: binary.sha256,
            digests: Vec::new(),
            media_type: binary.media_type.clone(),
            disposition: binary.disposition.clone(),
        })
    }
}

fn no_description() -> ObjectsError {
    ObjectsError::corrupt(Table::Work, "a description that a transaction staged is missing")
}

/// The error of the domain in an error of a resource.
fn objects(error: ResourceError) -> ObjectsError {
    match error {
        ResourceError::Objects(error) => error,
        error => ObjectsError::Internal(error.to_string()),
    }
}
