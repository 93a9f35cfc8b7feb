//! The contents of a container's head.

use serde::{Deserialize, Serialize};

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
pub fn shard_of(name: &str, shards: u16) -> u16 {
    let shard = crc32fast::hash(name.as_bytes()) % u32::from(shards.max(1));
    u16::try_from(shard).unwrap_or(0)
}

impl ShardEpochs {
    /// The epoch to which new rows go.
    pub fn target(&self) -> u32 {
        self.next.unwrap_or(self.current)
    }
}
