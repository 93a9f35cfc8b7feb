//! A resource, as it was read.

use heads::head::{Head, HeadRow};
use heads::path::ResourcePath;
use heads::resource_body::{Kind, ResourceBody};
use heads::revision::RevisionId;

/// A live resource, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub(crate) path: ResourcePath,
    pub(crate) row: HeadRow,
    pub(crate) body: ResourceBody,
    /// The archival group that it is or is in, if it was found by its path.
    pub(crate) group: Option<ResourcePath>,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The path of the resource.
    pub path: ResourcePath,
    /// The new revision.
    pub revision: RevisionId,
}

impl Resource {
    /// The live resource of this head.
    pub(crate) fn of(path: ResourcePath, row: HeadRow) -> Option<Self> {
        let body = row.head.live_resource()?.clone();
        Some(Self { path, row, body, group: None })
    }

    /// Its path.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }

    /// Its kind.
    pub fn kind(&self) -> &Kind {
        &self.body.kind
    }

    /// Whether it is an archival group.
    pub fn is_group(&self) -> bool {
        self.row.head.is_group
    }

    /// The archival group that it is in, if it was found by its path. A group is in none.
    pub(crate) fn group_around(&self) -> Option<&ResourcePath> {
        self.group.as_ref().filter(|group| **group != self.path)
    }

    /// The contents of its head.
    pub fn body(&self) -> &ResourceBody {
        &self.body
    }

    /// The id under which it was created.
    pub fn incarnation(&self) -> RevisionId {
        self.row.head.incarnation
    }

    /// The revision that was read.
    pub fn revision(&self) -> RevisionId {
        self.row.head.revision
    }

    /// Whether its path never had another revision, also of a resource that was deleted there.
    pub fn is_first(&self) -> bool {
        self.row.head.logged == 0
    }

    /// The revision of its description.
    pub fn description_revision(&self) -> RevisionId {
        // A container that the server made has never had one.
        self.body.description.revision.max(self.row.head.incarnation)
    }

    pub(crate) fn head(&self) -> &Head {
        &self.row.head
    }
}
