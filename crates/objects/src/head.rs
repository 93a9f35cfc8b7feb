//! Heads: the one row of an object that changes.

use bytes::{BufMut, Bytes, BytesMut};
use pack::Sums;
use serde::{Deserialize, Serialize};
use store::{Guard, Row, Stamp, Table, UnixMillis, envelope};

use crate::directory::Entry;
use crate::error::{ObjectsError, ObjectsResult};
use crate::resources::body::ResourceBody;
use crate::revision::RevisionId;
use crate::rules::{Rule, Rules};

/// What an object is right now. There is no row for one that never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It can be read.
    Live,
    /// A container whose children are being deleted.
    Deleting,
    /// Gone; its name is kept.
    Deleted,
    /// Gone, and the name may be used again. Never becomes "no row" again.
    Free,
}

/// A head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Whether it is there.
    pub state: State,
    /// The id under which it was created.
    pub incarnation: RevisionId,
    /// The incarnation of the container it was created in.
    pub parent_incarnation: RevisionId,
    /// What clients see.
    pub revision: RevisionId,
    /// How many heads it had before this one, each with an entry of the head log (`head_log.rs`).
    pub logged: u64,
    /// Versions that only heads before this one name have been removed; `None`: no version has been.
    pub collected: Option<RevisionId>,
    /// No id at or below it may be switched in any more.
    pub floor: RevisionId,
    /// What is to be collected, once the grace has passed.
    pub condemned: Option<Condemned>,
    /// What it is.
    pub body: Body,
}

/// A condemnation: the rows at or below `floor` that neither `named` nor any later head names will be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condemned {
    /// The revision that was current then (H0); its rows stay.
    pub named: RevisionId,
    /// The highest revision that is condemned.
    pub floor: RevisionId,
    /// When: the grace counts from here.
    pub at: UnixMillis,
}

/// What kind of object, with what a plan wants to know of it. Nearly all are volumes, so the large variant costs nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    /// Nothing: deleted, free, or only fenced.
    Nothing,
    /// A container.
    Container(ContainerBody),
    /// A volume.
    Volume(VolumeBody),
    /// A resource of the repository.
    Resource(ResourceBody),
}

impl Body {
    /// Where its children are, if it can have some.
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

    /// The same, to be changed.
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
    /// How many shards its children are spread over.
    pub shards: u16,
    /// The epoch that each of them began with.
    pub first_epoch: u32,
    /// The shards whose epoch is another by now.
    pub rewritten: Vec<ShardEpochs>,
    /// Other shards, to which all children are being copied.
    pub growing: Option<MoreShards>,
}

/// The shards that a container is to have: a multiple of those before, so that each child stays among those that its shard becomes, or as many.
/// New rows go there. While there are some, no shard is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoreShards {
    /// How many.
    pub shards: u16,
    /// The epoch that each of them begins with: no shard before had it.
    pub first_epoch: u32,
}

/// The epochs of one shard: where its rows are, and where they are being copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEpochs {
    /// Which shard.
    pub shard: u16,
    /// Where its rows are.
    pub current: u32,
    /// Where they are being copied to; new rows go there.
    pub next: Option<u32>,
}

impl ContainerBody {
    /// That of a new container.
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

    /// The same, with other epochs of one shard.
    pub fn with_epochs(&self, epochs: ShardEpochs) -> Self {
        let mut rewritten = self.rewritten.clone();
        rewritten.retain(|known| known.shard != epochs.shard);
        rewritten.push(epochs);
        rewritten.sort_unstable_by_key(|known| known.shard);
        Self { rewritten, ..self.clone() }
    }

    /// The same, about to have so many times as many shards; `None`: it cannot be begun with now.
    pub fn about_to_grow(&self, times: u16) -> Option<Self> {
        if self.growing.is_some() || self.rewritten.iter().any(|epochs| epochs.next.is_some()) {
            return None;
        }
        let last = self.rewritten.iter().map(|epochs| epochs.current).max().unwrap_or(self.first_epoch);
        let growing = MoreShards { shards: self.shards.checked_mul(times)?, first_epoch: last + 1 };
        Some(Self { growing: Some(growing), ..self.clone() })
    }

    /// What it is once all children are copied to the shards that it is to have.
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

    /// Where the children of a shard are, were there only `shards`, of which their number is a multiple: shards and epochs, those that are
    /// being filled included.
    pub fn places(&self, shard: u16, shards: u16) -> Vec<(u16, u32)> {
        let within = |of: u16| (0..of).filter(move |within| within % shards.max(1) == shard);
        let now = within(self.shards).map(|shard| self.epochs(shard));
        let now =
            now.flat_map(|epochs| std::iter::once(epochs.current).chain(epochs.next).map(move |e| (epochs.shard, e)));
        let more =
            self.growing.into_iter().flat_map(|more| within(more.shards).map(move |shard| (shard, more.first_epoch)));
        now.chain(more).collect()
    }

    /// All shards and epochs at which there may be children, or may have been since it has so many shards.
    pub fn all_places(&self) -> impl Iterator<Item = (u16, u32)> {
        let epochs = |shard| (self.first_epoch..=self.epochs(shard).target()).map(move |epoch| (shard, epoch));
        let more =
            self.growing.into_iter().flat_map(|more| (0..more.shards).map(move |shard| (shard, more.first_epoch)));
        (0..self.shards).flat_map(epochs).chain(more)
    }
}

/// The shard of a name, of so many. Of a multiple of so many it is one that is the same modulo that number.
pub(crate) fn shard_of(name: &str, shards: u16) -> u16 {
    let shard = crc32fast::hash(name.as_bytes()) % u32::from(shards.max(1));
    u16::try_from(shard).unwrap_or(0)
}

impl ShardEpochs {
    /// Where new rows go.
    pub fn target(&self) -> u32 {
        self.next.unwrap_or(self.current)
    }
}

/// A volume: sums for plans, and where its METS and record are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeBody {
    /// The revision that wrote its directory, fixity and packs: they are keyed by it.
    pub generation: RevisionId,
    /// Sums over its pages (METS and record are not pages).
    pub pages: Sums,
    /// CRC-32 of all pages joined.
    pub pages_crc32: u32,
    /// Its METS.
    pub mets: Entry,
    /// Its metadata record, if it came with one.
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

/// A head as it was read: with the stamp to compare with.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadRow {
    /// The head.
    pub head: Head,
    /// Compared by the next write.
    pub stamp: Stamp,
}

impl Head {
    /// The guard for writing this head: a fresh stamp, and the tag.
    pub fn guard(&self, stamp: Stamp, rules: Rules) -> Guard {
        Guard { stamp, tag: self.tag(rules) }
    }

    /// What others may require of this head without reading all of it: state, incarnation, and for a container its shards and epochs.
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
pub fn seal<T: Serialize>(value: &T) -> ObjectsResult<Bytes> {
    let encoded = postcard::to_stdvec(value).map_err(|error| ObjectsError::Internal(format!("encoding: {error}")))?;
    Ok(envelope::seal(&encoded))
}

/// Opens and decodes a value; what cannot be decoded is damaged.
pub fn open<T: serde::de::DeserializeOwned>(table: Table, value: &Bytes) -> ObjectsResult<T> {
    let payload = envelope::open(value).map_err(|error| ObjectsError::corrupt(table, &error.to_string()))?;
    postcard::from_bytes(&payload).map_err(|error| ObjectsError::corrupt(table, &error.to_string()))
}
