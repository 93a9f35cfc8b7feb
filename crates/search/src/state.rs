//! What is stored of the index as a whole: which generation answers, how far it is, and which
//! server writes it. One row, which is changed by compare-and-write.

use bytes::Bytes;
use feed::Cursor;
use heads::guarded::Known;
use heads::{Heads, ObjectsResult};
use serde::{Deserialize, Serialize};
use store::{Class, Expect, Stored, Table, UnixMillis, ValueKind, stored};

use crate::keys::{self, List};

/// The least number of shards of a list.
pub(crate) const SHARDS_MIN: u16 = 16;

/// The most.
pub(crate) const SHARDS_MAX: u16 = 4_096;

/// A generation whose largest list has more bytes for each shard is rebuilt with more of them.
pub const GENERATION_BYTES: u64 = 32 << 20;

/// The state of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Everything of the feed up to here is in the generations. `None`: the first one is to be
    /// begun.
    pub(crate) cursor: Option<Cursor>,
    /// The generation that answers.
    pub(crate) live: Option<Generation>,
    /// Whether changes may be missing in it, because the feed had dropped them.
    pub(crate) misses_changes: bool,
    /// The generation that is being built.
    pub(crate) building: Option<Building>,
    /// Those that are to be deleted, and since when.
    pub(crate) replaced: Vec<(Generation, UnixMillis)>,
    /// The number of the newest generation. Numbers are not used again.
    pub(crate) newest: u32,
    /// The server that writes: a number that it drew when it started.
    pub(crate) server: [u8; 16],
    /// When the others may count it as dead.
    pub(crate) leased_until: UnixMillis,
    /// Why an operator or the index itself wants a new generation.
    pub(crate) wanted: Option<String>,
}

impl Stored for State {
    const KIND: ValueKind = ValueKind::SearchState;
}

/// A generation of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generation {
    /// Its number.
    pub(crate) number: u32,
    /// The shards of each list.
    pub(crate) shards: u16,
    /// About how many resources are in it.
    pub(crate) resources: u64,
    /// About how many bytes each list has.
    pub(crate) bytes: [u64; List::ALL.len()],
}

/// A generation that is being built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Building {
    /// It has the changes since the building began, and what was walked over.
    pub(crate) generation: Generation,
    /// Where the walk over everything continues.
    pub(crate) walk: Option<Bytes>,
    /// Whether the walk has ended.
    pub(crate) is_walked: bool,
    /// When it began.
    pub(crate) begun: UnixMillis,
    /// Why.
    pub(crate) why: String,
}

/// What operators see of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether a complete generation answers, and some server keeps it up to date.
    pub is_complete: bool,
    /// About how many resources are in the generation that answers.
    pub resources: u64,
    /// About how many bytes it takes.
    pub bytes: u64,
    /// The shards of each of its lists.
    pub shards: u16,
    /// Up to when changes are in the index, by the clocks of the servers that made them.
    pub until: Option<UnixMillis>,
    /// Why a new generation is being built, since when, and how many resources are in it.
    pub building: Option<(String, UnixMillis, u64)>,
}

impl State {
    /// The generation that answers, and whether nothing is missing in it.
    pub(crate) fn answering(&self) -> Option<(Generation, bool)> {
        let live = self.live.map(|live| (live, !self.misses_changes));
        live.or_else(|| self.building.as_ref().map(|building| (building.generation, false)))
    }

    pub(crate) fn status(&self) -> Status {
        let (answering, is_complete) = self.answering().unwrap_or_default();
        let building = self.building.as_ref();
        Status {
            is_complete,
            resources: answering.resources,
            bytes: answering.bytes.iter().sum(),
            shards: answering.shards,
            until: self.cursor.map(Cursor::time),
            building: building.map(|it| (it.why.clone(), it.begun, it.generation.resources)),
        }
    }

    /// Begins to build a generation, with as many shards as the present one needs by now.
    pub(crate) fn begin_building(&mut self, begun: UnixMillis, why: String) {
        self.newest += 1;
        let shards = self.live.map_or(SHARDS_MIN, Generation::shards_wanted);
        let generation = Generation { number: self.newest, shards, ..Generation::default() };
        // Another one that was not finished is given up.
        let given_up = self.building.replace(Building { generation, walk: None, is_walked: false, begun, why });
        self.replaced.extend(given_up.map(|building| (building.generation, begun)));
        self.wanted = None;
    }

    /// Lets the generation that was built answer.
    pub(crate) fn switch(&mut self, now: UnixMillis) {
        let Some(Building { generation, .. }) = self.building.take() else { return };
        self.replaced.extend(self.live.replace(generation).map(|replaced| (replaced, now)));
        self.misses_changes = false;
    }
}

impl Generation {
    /// The bytes of the largest list.
    fn largest_bytes(self) -> u64 {
        self.bytes.into_iter().max().unwrap_or_default()
    }

    /// Whether its partitions have become too large.
    pub(crate) fn is_outgrown(self) -> bool {
        self.shards < SHARDS_MAX && self.largest_bytes() > GENERATION_BYTES * u64::from(self.shards)
    }

    /// A number of shards with which its partitions are at most half as large as they may be.
    fn shards_wanted(self) -> u16 {
        let wanted = (2 * self.largest_bytes()).div_ceil(GENERATION_BYTES).max(1).next_power_of_two();
        u16::try_from(wanted).unwrap_or(SHARDS_MAX).clamp(SHARDS_MIN, SHARDS_MAX)
    }

    /// Its partitions.
    pub(crate) fn partitions(self) -> impl Iterator<Item = Bytes> {
        let of_list = move |list| (0..self.shards).map(move |shard| keys::partition(self.number, list, shard));
        List::ALL.into_iter().flat_map(of_list)
    }
}

/// Reads the state, strongly.
pub(crate) async fn read(heads: &Heads) -> ObjectsResult<Known<State>> {
    let row = heads.guarded_rows(Table::Work, keys::state_partition(), vec![keys::state()]).await?.pop().flatten();
    Known::of(Table::Work, row)
}

/// Reads the state as searches need it: it may be a moment old.
pub(crate) async fn read_lately(heads: &Heads) -> ObjectsResult<Option<State>> {
    let get = async || {
        let call = heads.call(Class::Description);
        Ok(heads.store().get(call, Table::Work, &keys::state_partition(), &keys::state()).await?)
    };
    let row = heads.retry_transient(get).await?;
    // A damaged one is written anew by the server that writes the index.
    Ok(row.and_then(|row| stored::open(&row.value).ok()))
}

/// Writes the state; `None`: another server has changed it.
pub(crate) async fn write(heads: &Heads, state: &State, expect: Expect) -> ObjectsResult<Option<Expect>> {
    heads.write_guarded(Table::Work, keys::state_partition(), keys::state(), state, expect).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A change of these bytes is a change of the stored format.
    #[test]
    fn the_bytes_of_the_stored_state_do_not_change() {
        let generation = Generation { number: 1, shards: 16, resources: 2, bytes: [3, 4, 5, 6, 7, 8] };
        let walk = Some(Bytes::from_static(b"w"));
        let building = Building { generation, walk, is_walked: true, begun: UnixMillis(9), why: "y".to_owned() };
        let state = State {
            cursor: Cursor::parse(&"0a".repeat(16)),
            live: Some(generation),
            misses_changes: true,
            building: Some(building),
            replaced: vec![(generation, UnixMillis(11))],
            newest: 12,
            server: [13; 16],
            leased_until: UnixMillis(14),
            wanted: Some("z".to_owned()),
        };
        let hex =
            |value: &State| stored::encode(value).unwrap().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (ten, thirteen) = ("0a".repeat(16), "0d".repeat(16));
        let one = "011002030405060708";
        let expected = format!("01{ten}01{one}0101{one}0101770109017901{one}0b0c{thirteen}0e01017a");
        assert_eq!(hex(&state), expected);
        assert_eq!(hex(&State::default()), format!("0000000000{}00{}0000", "", "00".repeat(16)));
        assert_eq!(stored::open::<State>(&stored::seal(&state).unwrap()).unwrap(), state);
    }

    #[test]
    fn a_generation_that_has_outgrown_its_shards_gets_enough_for_twice_as_much() {
        let mut state = State::default();
        state.begin_building(UnixMillis(0), "the first".to_owned());
        state.switch(UnixMillis(0));
        let live = state.live.as_mut().unwrap();
        assert_eq!((live.shards, live.is_outgrown()), (SHARDS_MIN, false));
        live.bytes[1] = 17 * GENERATION_BYTES;
        assert!(live.is_outgrown());
        state.begin_building(UnixMillis(1), "it has grown".to_owned());
        let shards = state.building.as_ref().unwrap().generation.shards;
        assert_eq!(shards, 64);
        state.begin_building(UnixMillis(2), "again".to_owned());
        state.switch(UnixMillis(3));
        assert_eq!(state.replaced.iter().map(|(generation, _)| generation.number).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(state.live.unwrap().number, 3);
    }
}
