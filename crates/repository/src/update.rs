//! Changes resources: writes new rows first, then the head, compared with the one that was read.

use bytes::Bytes;
use futures::FutureExt;
use heads::Keep;
use heads::claim::Holder;
use heads::head::{Body, Head};
use heads::keys;
use heads::mark::VersionMark;
use heads::path::ResourcePath;
use heads::resource_body::{Kind, Membership};
use heads::switch::{Switch, Switched};
use store::boxed;

use crate::describe;
use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::resource::{Resource, Written};
use crate::upload::Uploaded;

/// A change of a resource.
#[derive(Clone, Debug)]
pub enum Update {
    /// A new description.
    Description {
        /// The new description.
        description: Bytes,
        /// The new membership rule of a container; ignored for other resources.
        membership: Membership,
        /// The resource of this repository to which the container gives members, if not to itself.
        members_for: Option<ResourcePath>,
        /// The resources of this repository that it refers to and the previous description did not,
        /// each once.
        refers_to: Vec<ResourcePath>,
    },
    /// New bytes.
    Binary(Uploaded),
    /// The state of a version, for a client that asked for it: its description and, of a binary, its
    /// bytes.
    Restored {
        /// The bytes of a binary, unless it has them now.
        bytes: Option<Uploaded>,
        /// As in [`Update::Description`].
        description: Bytes,
        /// Likewise.
        membership: Membership,
        /// Likewise.
        members_for: Option<ResourcePath>,
        /// Likewise.
        refers_to: Vec<ResourcePath>,
    },
    /// The same state as a new version, for a client that asked for it. The resource is not
    /// modified by it.
    Snapshot,
}

impl Repository {
    /// Changes a resource. Fails with [`ResourceError::Moved`] if another writer changed it since
    /// it was read. Then nothing is changed.
    #[boxed]
    pub async fn update(&self, resource: &Resource, update: &Update) -> ResourceResult<Written> {
        if let Some(id) = self.transaction {
            return self.stage_update(id, resource, update).boxed().await;
        }
        self.refuse_in_held(resource.group_around()).await?;
        let path = resource.path.clone();
        let base = resource.head();
        let partition = keys::resource_partition(&path);
        let revision = self.heads.revisions().mint_above(base.revision.max(base.floor));
        let mut body = resource.body.clone();
        let mut rows = Vec::new();
        match update {
            Update::Description { description, membership, members_for, refers_to }
            | Update::Restored { description, membership, members_for, refers_to, .. } => {
                (rows, body.description) = describe::put(&partition, revision, description)?;
                if let Kind::Container { membership: current, .. } = &mut body.kind {
                    current.clone_from(membership);
                    if let Some(resource) = members_for {
                        rows.extend(self.gives_members(resource, &path).await?);
                    }
                }
                rows.extend(self.refer(&path, refers_to).await?);
            }
            Update::Binary(_) | Update::Snapshot => {}
        }
        let is_asked_for = matches!(update, Update::Snapshot | Update::Restored { .. });
        if is_asked_for && self.heads.options().kept_at(&path) == Keep::Explicit {
            let next = Head { revision, logged: base.logged_with_it(), ..base.clone() };
            rows.push(next.mark_step(&partition, VersionMark::Asked));
        }
        if let Update::Binary(uploaded) | Update::Restored { bytes: Some(uploaded), .. } = update {
            body.kind = Kind::Binary(uploaded.keep(&partition, revision, &mut rows));
        }
        rows.extend(self.superseding(&path, revision));
        let head = Head { revision, body: Body::Resource(body), ..base.clone() };
        let base = Some(resource.row.clone());
        let holder = Holder::Nobody;
        let switch = Switch { partition, base, head, before: rows, after: Vec::new(), unsure: false, holder };
        match self.heads.switch(switch).await? {
            Switched::Applied => Ok(Written { path, revision }),
            Switched::Moved | Switched::Fenced | Switched::Required { .. } => Err(ResourceError::Moved(path)),
        }
    }
}
