//! Records that are read again and again stay in the engine's caches while volumes are written and
//! read, because their lane has caches of its own, and while all records are listed, because that
//! leaves the cache of whole records as it is. One test alone is in this program, because it looks
//! at what the whole process reads.

#![allow(clippy::unwrap_used)]

#[path = "all/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{Call, Class, Deadline, NewRow, Step, Store, SystemClock, Table};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

/// Records of 1 KiB: sixteen times the cache of their lane.
const RECORDS: u32 = 32 << 10;
const RECORD_BYTES: usize = 1 << 10;

/// The cache of all lanes.
const CACHE_BYTES: u64 = 8 << 20;

/// Packs of text: four times that.
const PACKS: u32 = 512;
const PACK_BYTES: usize = 64 << 10;

/// Each of these is in another block.
const HOT: u32 = 100;

fn call() -> Call {
    Call::new(Class::Record, Deadline::within(Duration::from_secs(60)))
}

fn id(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Bytes that this process has read from files, cached by the operating system or not.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

async fn read_hot(store: &EmbeddedStore) -> u64 {
    let before = bytes_read();
    for number in 0..HOT {
        let id = id(number * (RECORDS / HOT));
        assert!(store.get(call(), Table::Records, &id, &Bytes::new()).await.unwrap().is_some());
    }
    bytes_read() - before
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
    read_hot(&store).await;
    let warm = read_hot(&store).await;
    for number in 0..PACKS {
        put(&store, Table::Packs, number, PACK_BYTES).await;
    }
    for number in (0..PACKS).chain(0..PACKS) {
        assert!(store.get(call(), Table::Packs, &id(number), &Bytes::new()).await.unwrap().is_some());
    }
    let after = read_hot(&store).await;
    assert!(warm < cold / 10 && after < cold / 10, "bytes read: {cold} cold, {warm} warm, {after} after");
    for (what, count) in [("records", list(&store).await), ("ids", list_ids(&store).await)] {
        assert_eq!(count, RECORDS as usize, "{what}");
    }
    let listed = read_hot(&store).await;
    assert!(listed < cold / 10, "bytes read: {cold} cold, {listed} after all records were listed twice");
}
