//! Heads: the only row of an object that changes.

use bytes::{BufMut, Bytes, BytesMut};
use pack::Sums;
use serde::{Deserialize, Serialize};
use store::{Guard, Row, Stamp, Stored, Table, UnixMillis, ValueKind, stored};

use crate::directory::Entry;
use crate::error::{ObjectsError, ObjectsResult};
use crate::resources::body::ResourceBody;
use crate::revision::RevisionId;
use crate::rules::{Rule, Rules};

/// The state of an object. An object that never existed has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
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
    pub state: State,
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

/// A container's shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerBody {
    /// The number of shards.
    pub shards: u16,
    /// The epoch with which each shard began.
    pub first_epoch: u32,
    /// The shards that have another epoch by now.
    pub rewritten: Vec<ShardEpochs>,
    /// New shards, to which all children are being copied.
    pub growing: Option<MoreShards>,
}

/// The new shards of a container that grows. Their number is equal to the earlier one or a multiple
/// of it, so that each child stays among the shards that its own shard becomes. New rows go there.
/// Meanwhile no shard is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoreShards {
    /// The number of shards.
    pub shards: u16,
    /// The epoch with which each of them begins. No earlier shard had it.
    pub first_epoch: u32,
}

/// The epochs of one shard: where its rows are, and where they are being copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEpochs {
    /// The shard's number.
    pub shard: u16,
    /// The epoch of its rows.
    pub current: u32,
    /// The epoch to which they are being copied; new rows go there.
    pub next: Option<u32>,
}

impl ContainerBody {
    /// The shards of a new container.
    pub fn new(shards: u16) -> Self {
        Self::beginning(MoreShards { shards, first_epoch: 0 })
    }

    fn beginning(MoreShards { shards, first_epoch }: MoreShards) -> Self {
        Self { shards, first_epoch, rewritten: Vec::new(), growing: None }
    }

    /// The epochs of a shard.
    pub fn epochs(&self, shard: u16) -> ShardEpochs {
        let known = self.rewritten.iter().find(|epochs| epochs.shard == shard).copied();
        known.unwrap_or(ShardEpochs { shard, current: self.first_epoch, next: None })
    }

    /// The same shards, with other epochs for one of them.
    pub fn with_epochs(&self, epochs: ShardEpochs) -> Self {
        let mut rewritten = self.rewritten.clone();
        rewritten.retain(|known| known.shard != epochs.shard);
        rewritten.push(epochs);
        rewritten.sort_unstable_by_key(|known| known.shard);
        Self { rewritten, ..self.clone() }
    }

    /// The same shards, about to grow by this factor; `None` if that cannot begin now.
    pub fn about_to_grow(&self, times: u16) -> Option<Self> {
        if self.growing.is_some() || self.rewritten.iter().any(|epochs| epochs.next.is_some()) {
            return None;
        }
        let last = self.rewritten.iter().map(|epochs| epochs.current).max().unwrap_or(self.first_epoch);
        let growing = MoreShards { shards: self.shards.checked_mul(times)?, first_epoch: last + 1 };
        Some(Self { growing: Some(growing), ..self.clone() })
    }

    /// The shards after all children are copied to the new ones.
    pub fn grown(&self) -> Option<Self> {
        self.growing.map(Self::beginning)
    }

    /// The shard and the epoch to which new rows of a child go.
    pub fn target(&self, name: &str) -> (u16, u32) {
        match self.growing {
            Some(more) => (shard_of(name, more.shards), more.first_epoch),
            None => {
                let shard = shard_of(name, self.shards);
                (shard, self.epochs(shard).target())
            }
        }
    }

    /// The shards and epochs that hold the children of a shard, if there were only `shards` of
    /// them. The number of shards is a multiple of `shards`. Includes those that are being filled.
    pub fn places(&self, shard: u16, shards: u16) -> Vec<(u16, u32)> {
        let within = |of: u16| (0..of).filter(move |within| within % shards.max(1) == shard);
        let now = within(self.shards).map(|shard| self.epochs(shard));
        let now =
            now.flat_map(|epochs| std::iter::once(epochs.current).chain(epochs.next).map(move |e| (epochs.shard, e)));
        let more =
            self.growing.into_iter().flat_map(|more| within(more.shards).map(move |shard| (shard, more.first_epoch)));
        now.chain(more).collect()
    }

    /// All shards and epochs that may hold children, or may have held some since the container has
    /// this number of shards.
    pub fn all_places(&self) -> impl Iterator<Item = (u16, u32)> {
        let epochs = |shard| (self.first_epoch..=self.epochs(shard).target()).map(move |epoch| (shard, epoch));
        let more =
            self.growing.into_iter().flat_map(|more| (0..more.shards).map(move |shard| (shard, more.first_epoch)));
        (0..self.shards).flat_map(epochs).chain(more)
    }
}

/// The shard of a name among `shards`. For a multiple of `shards`, the name's shard is congruent to
/// this one modulo `shards`.
pub(crate) fn shard_of(name: &str, shards: u16) -> u16 {
    let shard = crc32fast::hash(name.as_bytes()) % u32::from(shards.max(1));
    u16::try_from(shard).unwrap_or(0)
}

impl ShardEpochs {
    /// The epoch to which new rows go.
    pub fn target(&self) -> u32 {
        self.next.unwrap_or(self.current)
    }
}

/// A volume: sums for plans, and the places of its METS and record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeBody {
    /// The revision that wrote its directory, fixity and packs. They are keyed by it.
    pub generation: RevisionId,
    /// Sums over its pages (METS and record are not pages).
    pub pages: Sums,
    /// CRC-32 of all pages joined.
    pub pages_crc32: u32,
    /// Its METS.
    pub mets: Entry,
    /// Its metadata record, if the source had one.
    pub record: Option<Entry>,
    /// How many members carry a damage mark.
    pub damaged: u32,
    /// SHA-256 over (sequence, size, CRC-32) of the source ZIP's pages.
    pub members_digest: [u8; 32],
    /// SHA-256 of the METS.
    pub mets_sha256: [u8; 32],
    /// SHA-256 of the record.
    pub record_sha256: Option<[u8; 32]>,
    /// `rightsAttributes` of the record.
    pub rights: Option<String>,
    /// `accessProfile` of the record.
    pub access_profile: Option<String>,
    /// `title` of the record, at most 1,000 characters.
    pub title: Option<String>,
    /// `pubDate` of the record.
    pub pub_date: Option<String>,
    /// `language` of the record.
    pub language: Option<String>,
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

    /// The volume, if it is a live one.
    pub fn live_volume(&self) -> Option<&VolumeBody> {
        match (&self.state, &self.body) {
            (State::Live, Body::Volume(volume)) => Some(volume),
            _ => None,
        }
    }

    /// The container, if it is a live one.
    pub fn live_container(&self) -> Option<&ContainerBody> {
        self.body.container().filter(|_| self.state == State::Live)
    }

    /// The resource, if it is a live one.
    pub fn live_resource(&self) -> Option<&ResourceBody> {
        match (&self.state, &self.body) {
            (State::Live, Body::Resource(resource)) => Some(resource),
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
