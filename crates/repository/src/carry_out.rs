//! Carries out a transaction that is decided. Any server may, several at once, and as often as it
//! takes: an operation is carried out by switching the head that carries its claim, so it happens
//! once.
//!
//! Resources are created and changed from the top down, and then deleted from the bottom up. So
//! nothing is listed that is not reachable. What was deleted since with a container above it is
//! left out, as if the transaction had been committed just before that.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use heads::containment::{Container, Parent};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Body, Head, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::{BytesPlace, Kind, ResourceBody};
use heads::retries::{Tries, changes_all_the_time};
use heads::switch::{Switch, Switched};
use heads::transaction::{Claim, Holder, TransactionId};
use store::Table;

use crate::create::{Made, NewKind, NewResource};
use crate::describe;
use crate::error::ResourceError;
use crate::handle::Repository;
use crate::resource::Resource;
use crate::stage::release;
use crate::staged::{Becomes, StagedResource};
use crate::transactions::{AT_ONCE, deleted_of, is_below};
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
    /// Carries out what a transaction has staged.
    pub(crate) fn carry_out(&self, id: TransactionId) -> BoxFuture<'_, ObjectsResult<()>> {
        self.carry_out_all(id).boxed()
    }

    async fn carry_out_all(&self, id: TransactionId) -> ObjectsResult<()> {
        let operations = self.operations(id, keys::operations()).await?;
        let deleted = deleted_of(&operations);
        let mut made: BTreeMap<usize, Vec<ResourcePath>> = BTreeMap::new();
        let mut ended: BTreeMap<usize, Vec<ResourcePath>> = BTreeMap::new();
        for path in operations.into_keys() {
            let phase = if deleted.contains(&path) { &mut ended } else { &mut made };
            phase.entry(path.names().count()).or_default().push(path);
        }
        for paths in made.into_values().chain(ended.into_values().rev()) {
            let mut carried: Vec<BoxFuture<'_, ObjectsResult<()>>> = Vec::with_capacity(paths.len());
            for path in paths {
                let is_dropped = is_below(&path, &deleted);
                carried.push(async move { self.carry_out_one(id, &path, is_dropped).await }.boxed());
            }
            stream::iter(carried).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        }
        Ok(())
    }

    /// Carries out the operation on one resource. `is_dropped`: the transaction deletes what it is
    /// in.
    async fn carry_out_one(&self, id: TransactionId, path: &ResourcePath, is_dropped: bool) -> ObjectsResult<()> {
        let object = keys::resource_partition(path);
        let mut tries = Tries::default();
        loop {
            let row = self.heads.retry_transient(|| self.heads.head_at(&object)).await?;
            let claim = row.as_ref().and_then(|row| row.head.claim).filter(|claim| claim.transaction == id);
            let (Some(row), Some(claim)) = (row, claim) else { return Ok(()) };
            let carried = match self.operation(path, claim).await?.becomes {
                _ if is_dropped => Carried::Superfluous,
                Becomes::Nothing => Carried::Superfluous,
                Becomes::Deleted => self.carry_out_deletion(path, row, claim).await?,
                Becomes::Live(staged) if staged.is_new => self.carry_out_creation(path, row, claim, &staged).await?,
                Becomes::Live(staged) => self.carry_out_update(path, row, claim, &staged).await?,
            };
            match carried {
                Carried::Out => return Ok(()),
                Carried::Superfluous => return release(&self.heads, &object, id).await,
                Carried::Not => {}
            }
            if !tries.again().await {
                return Err(changes_all_the_time(format!("/{path}"), false));
            }
        }
    }

    /// The container of a resource, if it is still the one that the transaction saw.
    async fn container_of(
        &self,
        path: &ResourcePath,
        staged: Option<&StagedResource>,
    ) -> ObjectsResult<Option<Parent>> {
        let Some(above) = path.parent() else { return Ok(None) };
        let container = Container::At(above);
        match self.heads.retry_transient(|| self.heads.parent(&container)).await {
            Ok(parent) => Ok(Some(parent).filter(|parent| {
                staged.is_none_or(|staged| staged.is_in_new || parent.incarnation() == staged.parent_incarnation)
            })),
            Err(ObjectsError::Gone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn carry_out_creation(
        &self,
        path: &ResourcePath,
        row: HeadRow,
        claim: Claim,
        staged: &StagedResource,
    ) -> ObjectsResult<Carried> {
        let Some(parent) = self.container_of(path, Some(staged)).await? else { return Ok(Carried::Superfluous) };
        let (id, body) = (claim.transaction, &staged.body);
        let kind = match &body.kind {
            Kind::RdfSource => NewKind::RdfSource,
            Kind::Container { membership, .. } => NewKind::Container(membership.clone()),
            Kind::Binary(_) => NewKind::Binary(self.staged_upload(id, body).await?),
        };
        let description = self.staged_description(id, body).await?.unwrap_or_default();
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
            let description = self.staged_description(id, &staged.body).await?.unwrap_or_default();
            (rows, body.description) = describe::put(&partition, revision, &description)?;
        }
        if let (Kind::Container { membership: stands, .. }, Kind::Container { membership, .. }) =
            (&mut body.kind, &staged.body.kind)
        {
            stands.clone_from(membership);
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
            Ok(()) => Ok(Carried::Out),
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

/// The error of the domain in an error of a resource.
fn objects(error: ResourceError) -> ObjectsError {
    match error {
        ResourceError::Objects(error) => error,
        error => ObjectsError::Internal(error.to_string()),
    }
}
