//! Changing a resource: new rows first, then its head, compared with what was read.

use bytes::Bytes;

use crate::head::{Body, Head};
use crate::keys;
use crate::library::Library;
use crate::resources::backlinks::gives_members;
use crate::resources::body::{Kind, Membership};
use crate::resources::path::ResourcePath;
use crate::resources::upload::Uploaded;
use crate::resources::{Resource, ResourceError, ResourceResult, Written, describe};
use crate::switch::{Switch, Switched};

/// What is to change.
#[derive(Clone, Debug)]
pub enum Update {
    /// What is said of it.
    Description {
        /// The new description.
        description: Bytes,
        /// The new rule of membership of a container; of what is none it is not looked at.
        membership: Membership,
        /// The resource of this repository to which the container gives members, if not to itself.
        members_for: Option<ResourcePath>,
        /// The resources of this repository that it refers to, and that the description before it did not, each once.
        refers_to: Vec<ResourcePath>,
    },
    /// Its bytes.
    Binary(Uploaded),
}

impl Library {
    /// Changes a resource. [`ResourceError::Moved`] if somebody else changed it since it was read; nothing is changed then.
    pub async fn update_resource(&self, resource: &Resource, update: &Update) -> ResourceResult<Written> {
        let path = resource.path.clone();
        let base = resource.head();
        let partition = keys::resource_partition(&path);
        let revision = self.inner.revisions.mint_above(base.revision.max(base.floor));
        let mut body = resource.body.clone();
        let mut rows = Vec::new();
        match update {
            Update::Description { description, membership, members_for, refers_to } => {
                (rows, body.description) = describe::put(&partition, revision, description)?;
                if let Kind::Container { membership: stands, .. } = &mut body.kind {
                    stands.clone_from(membership);
                    rows.extend(members_for.iter().flat_map(|resource| gives_members(resource, &path)));
                }
                rows.extend(self.refer(&path, refers_to).await?);
            }
            Update::Binary(uploaded) => body.kind = Kind::Binary(uploaded.keep(&partition, revision, &mut rows)),
        }
        rows.extend(self.superseding(&path, revision));
        let head = Head { revision, body: Body::Resource(body), ..base.clone() };
        let base = Some(resource.row.clone());
        match self.switch(Switch { partition, base, head, before: rows, after: Vec::new(), unsure: false }).await? {
            Switched::Applied => Ok(Written { path, revision }),
            Switched::Moved | Switched::Fenced | Switched::Required { .. } => Err(ResourceError::Moved(path)),
        }
    }
}
