//! What the tests of collecting share.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use objects::{CollectLimits, Collected, Library, Queue, RevisionId, keys};
use store::Table;

use crate::support::{Faulty, id};

pub const HOUR: Duration = Duration::from_secs(3_600);

pub async fn collect(library: &Library) -> Collected {
    let collected = library.collect_once(CollectLimits::default()).await.unwrap();
    assert_eq!(collected.failed, 0);
    collected
}

/// The generations of which t.a has rows.
pub fn generations(faulty: &Faulty) -> BTreeSet<RevisionId> {
    let partition = keys::volume_partition(&id("t.a"));
    let of_kind = |(table, kind): (Table, Bytes)| {
        let sorts = faulty.store.sorts(table, &partition).into_iter().filter(move |sort| sort.starts_with(&kind));
        sorts.filter_map(|sort| keys::revision_of(&sort))
    };
    keys::generation_prefixes().into_iter().flat_map(of_kind).collect()
}

pub fn records(faulty: &Faulty) -> usize {
    faulty.store.records(Queue::Collecting)
}

pub async fn revision(library: &Library) -> RevisionId {
    library.volume(&id("t.a")).await.unwrap().revision
}
