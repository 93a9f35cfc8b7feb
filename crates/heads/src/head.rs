//! Heads: the only row of an object that changes.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use store::{Guard, Row, Stamp, Stored, Table, UnixMillis, ValueKind, stored};

use crate::claim::Claim;
use crate::container_body::ContainerBody;
use crate::error::{ObjectsError, ObjectsResult};
use crate::resource_body::ResourceBody;
use crate::revision::RevisionId;
use crate::rules::{Rule, Rules};
use crate::volume_body::VolumeBody;

/// The state of an object. An object that never existed has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectState {
    /// It can be read.
    Live,
    /// It is a container whose children are being deleted.
    Deleting,
    /// It is gone; its name is kept.
    Deleted,
    /// It is gone, and the name may be used again. The row itself is never deleted.
    Free,
}

/// A head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Its state.
    pub state: ObjectState,
    /// The id under which it was created.
    pub incarnation: RevisionId,
    /// The incarnation of the container in which it was created.
    pub parent_incarnation: RevisionId,
    /// The revision that clients see.
    pub revision: RevisionId,
    /// The number of its earlier heads. Each has an entry in the head log (`head_log.rs`).
    pub logged: u64,
    /// Versions named only by heads before this revision have been removed; `None` if no version
    /// has been removed.
    pub collected: Option<RevisionId>,
    /// No id at or below this may be switched in any more.
    pub floor: RevisionId,
    /// What is to be collected after the grace.
    pub condemned: Option<Condemned>,
    /// Its contents.
    pub body: Body,
    /// Where its revision is in the change feed, or the last earlier one that is; zero if none is.
    pub announced: RevisionId,
    /// The transaction that holds it, and what that makes of it once it is committed.
    pub claim: Option<Claim>,
    /// Whether it is a container that is an archival group: what is in it belongs together.
    pub is_group: bool,
}

/// All types of a head's fields are part of this kind: a change of any of them is a new version.
impl Stored for Head {
    const KIND: ValueKind = ValueKind::Head;
}

/// A condemnation: rows at or below `floor` that neither `named` nor a later head names will be
/// deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condemned {
    /// The revision that was current at that time (H0). Its rows stay.
    pub named: RevisionId,
    /// The highest condemned revision.
    pub floor: RevisionId,
    /// The time of the condemnation. The grace counts from here.
    pub at: UnixMillis,
}

/// The kind of object, with what a plan needs to know about it. Nearly all objects are volumes, so
/// the large variant costs nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    /// Nothing: the object is deleted, free, or only fenced.
    Nothing,
    /// A container.
    Container(ContainerBody),
    /// A volume.
    Volume(VolumeBody),
    /// A resource of the repository.
    Resource(ResourceBody),
}

impl Body {
    /// The shards of its children, if it can have children.
    pub fn container(&self) -> Option<&ContainerBody> {
        match self {
            Self::Container(container) => Some(container),
            Self::Resource(resource) => resource.container(),
            Self::Nothing | Self::Volume(_) => None,
        }
    }

    /// The resource, if it is one.
    pub fn resource(&self) -> Option<&ResourceBody> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Nothing | Self::Container(_) | Self::Volume(_) => None,
        }
    }

    /// The shards of its children, to be changed.
    pub fn container_mut(&mut self) -> Option<&mut ContainerBody> {
        match self {
            Self::Container(container) => Some(container),
            Self::Resource(resource) => resource.container_mut(),
            Self::Nothing | Self::Volume(_) => None,
        }
    }
}

/// A head as it was read, with the stamp to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadRow {
    /// The head.
    pub head: Head,
    /// The stamp that the next write compares.
    pub stamp: Stamp,
}

impl Head {
    /// The guard for writing this head: a new stamp, and the tag.
    pub fn guard(&self, stamp: Stamp, rules: Rules) -> Guard {
        Guard { stamp, tag: self.tag(rules) }
    }

    /// What other writers may require of this head without reading all of it: state, incarnation
    /// and, for a container, its shards and epochs.
    pub fn tag(&self, rules: Rules) -> Bytes {
        let mut tag = BytesMut::with_capacity(21);
        tag.put_u8(self.state as u8);
        tag.put_slice(&self.incarnation.0);
        if let Some(container) = self.body.container()
            && rules.keep(Rule::EpochReq)
        {
            let mut epochs = crc32fast::Hasher::new();
            epochs.update(&container.shards.to_be_bytes());
            epochs.update(&container.first_epoch.to_be_bytes());
            for shard in &container.rewritten {
                epochs.update(&shard.shard.to_be_bytes());
                epochs.update(&shard.current.to_be_bytes());
                epochs.update(&shard.next.map_or(0, |next| next.wrapping_add(1)).to_be_bytes());
            }
            if let Some(more) = container.growing {
                epochs.update(&more.shards.to_be_bytes());
                epochs.update(&more.first_epoch.to_be_bytes());
            }
            tag.put_u32(epochs.finalize());
        }
        tag.freeze()
    }

    /// The value to store.
    pub fn seal(&self) -> ObjectsResult<Bytes> {
        seal(self)
    }

    /// Whether the rows of `revision`, which was current at some time, are neither condemned nor
    /// collected: it is still current, or above all that was ever condemned, or was current when
    /// the present condemnation was made.
    pub fn keeps(&self, revision: RevisionId) -> bool {
        revision == self.revision
            || revision > self.floor
            || self.condemned.is_some_and(|condemned| condemned.named == revision)
    }

    /// When it became current, as exactly as is known: its position in the change feed, or its
    /// revision if it was not announced. A revision is minted when a change begins, which for an
    /// import may be hours earlier. Rises from head to head of an object.
    pub fn since(&self) -> RevisionId {
        self.announced.max(self.revision)
    }

    /// The volume, if it is a live one.
    pub fn live_volume(&self) -> Option<&VolumeBody> {
        match (&self.state, &self.body) {
            (ObjectState::Live, Body::Volume(volume)) => Some(volume),
            _ => None,
        }
    }

    /// The container, if it is a live one.
    pub fn live_container(&self) -> Option<&ContainerBody> {
        self.body.container().filter(|_| self.state == ObjectState::Live)
    }

    /// The resource, if it is a live one.
    pub fn live_resource(&self) -> Option<&ResourceBody> {
        match (&self.state, &self.body) {
            (ObjectState::Live, Body::Resource(resource)) => Some(resource),
            _ => None,
        }
    }
}

impl HeadRow {
    /// The head in a row of [`Table::Objects`].
    pub fn open(row: &Row) -> ObjectsResult<Self> {
        let guard =
            row.guard.as_ref().ok_or_else(|| ObjectsError::corrupt(Table::Objects, "a head without a guard"))?;
        Ok(Self { head: open(Table::Objects, &row.value)?, stamp: guard.stamp })
    }
}

/// Encodes and seals a value.
pub fn seal<T: Stored>(value: &T) -> ObjectsResult<Bytes> {
    stored::seal(value).map_err(|error| ObjectsError::Internal(format!("encoding: {error}")))
}

/// Opens and decodes a value. A value that cannot be decoded is damaged.
pub fn open<T: Stored>(table: Table, value: &Bytes) -> ObjectsResult<T> {
    stored::open(value).map_err(|error| ObjectsError::corrupt(table, &error.to_string()))
}

#[cfg(test)]
mod golden;
