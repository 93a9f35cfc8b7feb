//! Shared by the tests of collecting.

use std::collections::BTreeSet;
use std::time::Duration;

use heads::{Queue, RevisionId, keys};
use library::Library;
use store::Table;
use volumes::{CollectLimits, Collected};

use crate::support::{Faulty, id};

pub const HOUR: Duration = Duration::from_secs(3_600);

pub async fn collect(library: &Library) -> Collected {
    let collected = library.volumes.collect_once(CollectLimits::default()).await.unwrap();
    assert_eq!(collected.failed, 0);
    collected
}

/// The listed generations of t.a. Asserts that no others have rows.
pub fn generations(faulty: &Faulty) -> BTreeSet<RevisionId> {
    let partition = keys::volume_partition(&id("t.a"));
    let of_table = |table| {
        let parts = faulty.store.partitions(table).into_iter().filter(|part| keys::object_of(part) == partition);
        parts.filter_map(|part| keys::part_of(&part)).map(|(generation, _)| generation)
    };
    let stored: BTreeSet<_> = [Table::Objects, Table::Packs, Table::Damage].into_iter().flat_map(of_table).collect();
    let own = faulty.store.sorts(Table::Objects, &partition).into_iter();
    let listed = own.filter(|sort| sort.starts_with(&keys::generation_prefix()));
    let listed: BTreeSet<_> = listed.filter_map(|sort| keys::revision_of(&sort)).collect();
    assert!(stored.is_subset(&listed), "{stored:?} are there, {listed:?} are listed");
    listed
}

pub fn records(faulty: &Faulty) -> usize {
    faulty.store.records(Queue::Collecting)
}

pub async fn revision(library: &Library) -> RevisionId {
    library.volumes.volume(&id("t.a")).await.unwrap().revision
}
