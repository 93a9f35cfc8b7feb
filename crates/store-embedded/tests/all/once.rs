//! A reader that reads everything once (a check, a copy) leaves the engine's cache of blocks as it
//! was, and finds what other readers find.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{
    Call, Class, Deadline, Direction, Lane, Measured, NewRow, Removal, Row, Scan, Step, Store, SystemClock, Table,
};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;

use crate::support;

/// Rows of this table are replaced.
const TABLE: Table = Table::Work;

const PARTITIONS: u32 = 256;
const ROWS: u32 = 64;
const ROW_BYTES: usize = 1 << 10;

/// The cache of all lanes. Most of it is for this one, which has three times as many bytes of rows.
const CACHE_BYTES: u64 = 8 << 20;

/// Each of these is in another block.
const HOT: u32 = 64;

/// A memtable of this size is often full.
const SMALL_BYTES: u64 = 256 << 10;

/// Groups that are written while others read.
const GROUPS: u32 = 400;

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(60))).synced_within(Duration::from_secs(3_600))
}

fn key(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn all(direction: Direction, max_bytes: usize) -> Scan {
    Scan { direction, ..Scan::prefix("", max_bytes) }
}

async fn run(store: &EmbeddedStore, step: Step) {
    assert!(store.run(call(), vec![step]).await.unwrap().is_applied());
}

/// Blocks of the lane that were read from files so far.
fn from_files(store: &EmbeddedStore) -> u64 {
    let labels = [("source", "file".to_owned()), ("lane", Lane::Text.name().to_owned())];
    let measures = store.measures();
    let found = measures.iter().find(|measure| {
        let is_block_read = measure.family == "penates_embedded_block_reads_total";
        is_block_read && labels.iter().all(|label| measure.labels.contains(label))
    });
    match found.unwrap().value {
        Measured::Counter(count) => count,
        other => panic!("{other:?}"),
    }
}

/// Reads some rows as users do. Returns how many blocks were in no cache.
async fn read_hot(store: &EmbeddedStore) -> u64 {
    let before = from_files(store);
    for number in 0..HOT {
        let partition = key(number * (PARTITIONS / HOT));
        assert!(store.get(call(), TABLE, &partition, &key(number % ROWS)).await.unwrap().is_some());
    }
    from_files(store) - before
}

/// Reads everything in each way. Returns how many rows each of them found.
async fn read_all(store: &EmbeddedStore, call: Call) -> [usize; 4] {
    let mut found = [0; 4];
    for partition in (0..PARTITIONS).map(key) {
        let keys = (0..ROWS).map(|row| (partition.clone(), key(row))).collect();
        found[0] += store.get_many(call, TABLE, keys).await.unwrap().iter().flatten().count();
        let rows = store.scan(call, TABLE, &partition, all(Direction::Backward, 1 << 20)).await.unwrap().rows;
        found[1] += rows.len();
        let first = (TABLE, partition.clone(), all(Direction::Forward, 1));
        found[2] += store.scan_many(call, vec![first]).await.unwrap()[0].rows.len();
    }
    let mut from = None;
    loop {
        let page = store.walk(call, TABLE, from, 100).await.unwrap();
        found[3] += page.partitions.len();
        from = page.next;
        if from.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn what_users_read_stays_in_memory_while_a_check_reads_everything() {
    let folder = support::folder();
    // All rows are in one file once the store was closed, so that none are merged.
    let options = EmbeddedOptions { cache_bytes: CACHE_BYTES, memtable_bytes: 64 << 20, ..support::options() };
    let open = || EmbeddedStore::open(folder.path(), options.clone(), Arc::new(SystemClock)).unwrap();
    let store = open();
    for number in 0..PARTITIONS {
        let rows = (0..ROWS).map(|row| NewRow::new(key(row), vec![row as u8; ROW_BYTES])).collect();
        run(&store, Step::Put { table: TABLE, partition: key(number), rows }).await;
    }
    store.close().await.unwrap();
    drop(store);
    let store = open();
    let cold = read_hot(&store).await;
    assert!(cold >= u64::from(HOT), "{cold} blocks for {HOT} rows");
    read_hot(&store).await;
    let warm = read_hot(&store).await;
    let partitions = PARTITIONS as usize;
    let rows = partitions * ROWS as usize;
    let before = from_files(&store);
    assert_eq!(read_all(&store, call().once()).await, [rows, rows, partitions, partitions]);
    let read = from_files(&store) - before;
    assert!(read > 4 * u64::from(PARTITIONS), "{read} blocks: it has to read files");
    store.sweep(call()).await.unwrap();
    let after = read_hot(&store).await;
    let is_cached = warm < cold / 10 && after < cold / 10;
    assert!(is_cached, "{cold} blocks cold, {warm} warm, {after} after everything was read");
}

/// A store whose memtables are small.
fn small() -> (TempDir, Arc<EmbeddedStore>) {
    let folder = support::folder();
    let options = EmbeddedOptions { memtable_bytes: SMALL_BYTES, ..support::options() };
    let store = EmbeddedStore::open(folder.path(), options, Arc::new(SystemClock)).unwrap();
    (folder, store)
}

/// What a reader finds of ten partitions of twenty rows.
async fn found(store: &EmbeddedStore, call: Call) -> (Vec<Option<Row>>, Vec<Vec<Row>>, Vec<Bytes>) {
    let (mut rows, mut ranges) = (Vec::new(), Vec::new());
    for partition in (0..10).map(key) {
        for row in 0..20 {
            rows.push(store.get(call, TABLE, &partition, &key(row)).await.unwrap());
        }
        for direction in [Direction::Forward, Direction::Backward] {
            ranges.push(store.scan(call, TABLE, &partition, all(direction, 1 << 20)).await.unwrap().rows);
        }
        let middle = Scan { from: key(5), to: Some(key(15)), ..all(Direction::Backward, 20_000) };
        ranges.push(store.scan(call, TABLE, &partition, middle).await.unwrap().rows);
    }
    (rows, ranges, store.walk(call, TABLE, None, 1_000).await.unwrap().partitions)
}

#[tokio::test]
async fn it_finds_what_others_find_while_rows_are_replaced_and_removed_and_files_are_written_and_merged() {
    let (_folder, store) = small();
    let mut random = 1_u32;
    let mut draw = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    for round in 0..20_u8 {
        for _ in 0..20 {
            let (table, partition, row) = (TABLE, key(draw(10)), draw(20));
            let step = match draw(4) {
                0 => Step::Remove { table, partition, rows: Removal::Range(key(row), Some(key(row + 4))) },
                _ => Step::Put { table, partition, rows: vec![NewRow::new(key(row), vec![round; 4 << 10])] },
            };
            run(&store, step).await;
        }
        assert!(found(&store, call().once()).await == found(&store, call()).await, "round {round}");
    }
}

/// Reads two rows while groups replace both. The files are written and merged meanwhile if the
/// memtables are small.
async fn read_while_groups_are_written(store: &Arc<EmbeddedStore>, mut check: impl FnMut(Vec<Row>)) {
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 1..=GROUPS {
                let value = number.to_be_bytes().repeat(512);
                let rows = vec![NewRow::new(key(1), value.clone()), NewRow::new(key(2), value)];
                run(&store, Step::Put { table: TABLE, partition: key(0), rows }).await;
            }
        }
    });
    loop {
        let is_last = writing.is_finished();
        let keys = vec![(key(0), key(1)), (key(0), key(2))];
        let rows = store.get_many(call().once(), TABLE, keys).await.unwrap();
        check(rows.into_iter().flatten().collect());
        check(store.scan(call().once(), TABLE, &key(0), all(Direction::Forward, 1 << 20)).await.unwrap().rows);
        if is_last {
            break;
        }
    }
    writing.await.unwrap();
}

/// Groups may be seen in part at one moment, by any reader: the engine makes the group visible that
/// is being written when it has written or merged files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_misses_no_row_and_finds_no_earlier_one_while_files_are_written_and_merged() {
    let (_folder, store) = small();
    let mut last = BTreeMap::new();
    let check = |found: Vec<Row>| {
        assert!(found.len() >= last.len(), "a row is missing");
        for row in found {
            let (value, before) = (row.value.clone(), last.insert(row.sort, row.value));
            assert!(before.is_none_or(|before| before <= value), "an earlier value");
        }
    };
    read_while_groups_are_written(&store, check).await;
    assert!(last.len() == 2 && last.values().all(|value| value[..4] == GROUPS.to_be_bytes()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_never_finds_a_part_of_a_group() {
    let folder = support::folder();
    // No file is written meanwhile.
    let options = EmbeddedOptions { memtable_bytes: 64 << 20, ..support::options() };
    let store = EmbeddedStore::open(folder.path(), options, Arc::new(SystemClock)).unwrap();
    let check = |found: Vec<Row>| {
        let is_whole = found.is_empty() || found.len() == 2 && found[0].value == found[1].value;
        assert!(is_whole, "a part of a group");
    };
    read_while_groups_are_written(&store, check).await;
}
