//! Records that are read again and again stay in the engine's caches while volumes are written and
//! read, because their lane has caches of its own, and while all records are listed. A listing
//! leaves the cache of whole records as it is, and looks each block up once. An import over stored
//! records reads each of them by its key, which does not replace there what is read more often.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{
    Call, Class, Deadline, Lane, Measure, Measured, NewRow, PlainValue, Scan, Step, Store, SystemClock, Table,
};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::support;

/// The cache of all lanes. An eighth of it is for blocks of records, and an eighth for whole ones.
const CACHE_BYTES: u64 = 32 << 20;

/// Records of 1 KiB: eight times the cache of their blocks.
const RECORDS: u32 = 32 << 10;
const RECORD_BYTES: usize = 1 << 10;

/// Packs of text: twice the cache of all lanes.
const PACKS: u32 = 1 << 10;
const PACK_BYTES: usize = 64 << 10;

/// Each of these is in another block.
const HOT: u32 = 100;

/// One record of so many is imported again: together twice the cache of whole ones.
const IMPORTED_OF: u32 = 4;

fn call() -> Call {
    Call::new(Class::Record, Deadline::within(Duration::from_secs(60)))
}

fn id(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// A counter of what was read of the records, by where it was found.
fn counter(store: &EmbeddedStore, family: &str, source: &str) -> u64 {
    let labels = [("source", source.to_owned()), ("lane", Lane::Records.name().to_owned())];
    let measures = store.measures();
    let is_it =
        |measure: &&Measure| measure.family == family && labels.iter().all(|label| measure.labels.contains(label));
    match measures.iter().find(is_it).unwrap().value {
        Measured::Counter(count) => count,
        other => panic!("{other:?}"),
    }
}

/// What the engine's caches did not have.
#[derive(Clone, Copy, Debug)]
struct Missed {
    /// Blocks that were read from files.
    blocks: u64,
    /// Records that were not in the cache of whole ones.
    records: u64,
}

impl Missed {
    fn is_little_beside(self, cold: Self) -> bool {
        self.blocks < cold.blocks / 10 && self.records < cold.records / 10
    }
}

/// Reads the hot records: first as ranges, which the cache of whole records does not answer, and
/// then by their keys.
async fn read_hot(store: &EmbeddedStore) -> Missed {
    let blocks = || counter(store, "penates_embedded_block_reads_total", "file");
    let records = || counter(store, "penates_embedded_row_reads_total", "database");
    let ids = || (0..HOT).map(|number| id(number * (RECORDS / HOT)));
    let (blocks_before, records_before) = (blocks(), records());
    for id in ids() {
        let all = Scan::prefix("", Scan::FEW_BYTES);
        assert_eq!(store.scan(call(), Table::Records, &id, all).await.unwrap().rows.len(), 1);
    }
    let blocks = blocks() - blocks_before;
    for id in ids() {
        assert!(store.get(call(), Table::Records, &id, &Bytes::new()).await.unwrap().is_some());
    }
    Missed { blocks, records: records() - records_before }
}

async fn put(store: &EmbeddedStore, table: Table, number: u32, bytes: usize) {
    let rows = vec![NewRow::new("", vec![number as u8; bytes])];
    let steps = vec![Step::Put { table, partition: id(number), rows }];
    assert!(store.run(call().synced_within(Duration::from_secs(3_600)), steps).await.unwrap().is_applied());
}

/// Reads all records, in pages. Returns how many there are.
async fn list(store: &EmbeddedStore) -> usize {
    let (mut count, mut from) = (0, None);
    loop {
        let page = store.walk_rows(call(), Table::Records, from, 1_000, 16 << 20).await.unwrap();
        count += page.rows.len();
        from = page.next;
        if from.is_none() {
            return count;
        }
    }
}

/// Reads all ids, in pages. Returns how many there are.
async fn list_ids(store: &EmbeddedStore) -> usize {
    let (mut count, mut from) = (0, None);
    loop {
        let page = store.walk(call(), Table::Records, from, 1_000).await.unwrap();
        count += page.partitions.len();
        from = page.next;
        if from.is_none() {
            return count;
        }
    }
}

/// Replaces records as an import does: it reads each, and writes it if it is as it was read.
async fn import(store: &EmbeddedStore) {
    for number in (0..RECORDS).step_by(IMPORTED_OF as usize) {
        let (table, partition, sort) = (Table::Records, id(number), Bytes::new());
        let found = store.get(call(), table, &partition, &sort).await.unwrap().unwrap();
        let then = PlainValue { value: Bytes::from(vec![!(number as u8); RECORD_BYTES]), expires_at: None };
        let step = Step::Replace { table, partition, sort, expect: Some(PlainValue::of(&found)), then: Some(then) };
        let write = call().having_read().synced_within(Duration::from_secs(3_600));
        assert!(store.run(write, vec![step]).await.unwrap().is_applied());
    }
}

#[tokio::test]
async fn records_that_are_read_often_stay_cached_while_all_are_listed_and_volumes_are_written_and_read() {
    let folder = support::folder();
    let options = EmbeddedOptions { cache_bytes: CACHE_BYTES, ..support::options() };
    let open = || EmbeddedStore::open(folder.path(), options.clone(), Arc::new(SystemClock)).unwrap();
    let store = open();
    for number in 0..RECORDS {
        put(&store, Table::Records, number, RECORD_BYTES).await;
    }
    store.close().await.unwrap();
    drop(store);
    let store = open();
    let cold = read_hot(&store).await;
    assert!(cold.blocks >= u64::from(HOT) && cold.records == u64::from(HOT), "{cold:?}");
    read_hot(&store).await;
    let warm = read_hot(&store).await;
    for number in 0..PACKS {
        put(&store, Table::Packs, number, PACK_BYTES).await;
    }
    for number in (0..PACKS).chain(0..PACKS) {
        assert!(store.get(call(), Table::Packs, &id(number), &Bytes::new()).await.unwrap().is_some());
    }
    let after = read_hot(&store).await;
    let is_cached = warm.is_little_beside(cold) && after.is_little_beside(cold);
    assert!(is_cached, "{cold:?} cold, {warm:?} warm, {after:?} after volumes were written and read");
    for (what, count) in [("records", list(&store).await), ("ids", list_ids(&store).await)] {
        assert_eq!(count, RECORDS as usize, "{what}");
    }
    let listed = read_hot(&store).await;
    assert!(listed.is_little_beside(cold), "{cold:?} cold, {listed:?} after all records were listed twice");
    import(&store).await;
    // What is written moves to other blocks. The whole records stay, those that were replaced too.
    let imported = read_hot(&store).await;
    assert!(imported.records < cold.records / 10, "{cold:?} cold, {imported:?} after an import over records");
}
