//! Writes that let their sync wait. The death of the process loses none of them. A power failure
//! may lose any part of what was not synced: then the store opens, and has the writes until the
//! first that was lost. What was synced is missed as ever.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{copied, folder, options};
use bytes::Bytes;
use store::{Call, Class, Deadline, Durability, NewRow, Step, Store, StoreError, StoreResult, SystemClock, Table};
use store_embedded::EmbeddedStore;
use tempfile::TempDir;

/// No sync comes by itself so early.
const LATE: Duration = Duration::from_secs(3_600);

fn call() -> Call {
    Call::new(Class::Record, Deadline::within(Duration::from_secs(60)))
}

fn open(folder: &Path) -> StoreResult<Arc<EmbeddedStore>> {
    EmbeddedStore::open(folder, options(), Arc::new(SystemClock))
}

/// Puts records, each in a group of its own.
async fn put(store: &EmbeddedStore, call: Call, numbers: Range<u32>) {
    for number in numbers {
        let partition = Bytes::copy_from_slice(&number.to_be_bytes());
        let rows = vec![NewRow::new("", vec![number as u8; 5_000])];
        let steps = vec![Step::Put { table: Table::Records, partition, rows }];
        assert!(store.run(call, steps).await.unwrap().is_applied());
    }
}

async fn records(store: &EmbeddedStore) -> Vec<u32> {
    let page = store.walk(call(), Table::Records, None, usize::MAX).await.unwrap();
    page.partitions.iter().map(|id| u32::from_be_bytes(id[..].try_into().unwrap())).collect()
}

/// A copy of the record from after the first writes.
const FIRST_RECORD: &str = "first.record";

fn record(folder: &Path) -> PathBuf {
    folder.join("db/records.record")
}

fn journal(folder: &Path) -> PathBuf {
    folder.join("db/records/0.jnl")
}

/// The folder of a process that died, with its journal up to the last group, and where each group
/// ends. `writes` are put in turn, some at once and some late.
async fn died(writes: &[(Call, Range<u32>)]) -> (TempDir, Vec<u8>, Vec<usize>) {
    let lived = folder();
    let store = open(lived.path()).unwrap();
    let mut first_record = None;
    for (call, numbers) in writes {
        put(&store, *call, numbers.clone()).await;
        first_record.get_or_insert_with(|| fs::read(record(lived.path())).unwrap());
    }
    fs::write(lived.path().join(FIRST_RECORD), first_record.unwrap()).unwrap();
    let died = copied(lived.path());
    store.close().await.unwrap();
    let content = fs::read(journal(died.path())).unwrap();
    let ends: Vec<usize> =
        content.windows(4).enumerate().filter(|(_, window)| window == b"FJL\x03").map(|(at, _)| at + 4).collect();
    let end = *ends.last().unwrap();
    fs::write(journal(died.path()), &content[..end]).unwrap();
    (died, content[..end].to_vec(), ends)
}

/// Opens a copy with another journal.
fn opened(died: &TempDir, content: &[u8]) -> (TempDir, StoreResult<Arc<EmbeddedStore>>) {
    let copy = copied(died.path());
    fs::write(journal(copy.path()), content).unwrap();
    let store = open(copy.path());
    (copy, store)
}

/// Asserts that the store opens with the first so many records, and goes on.
async fn assert_left(what: &str, died: &TempDir, content: &[u8], left: usize) {
    let (copy, store) = opened(died, content);
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut expected: Vec<u32> = (0..left as u32).collect();
    assert_eq!(records(&store).await, expected, "{what}");
    put(&store, call().synced_within(LATE), 100..102).await;
    put(&store, call(), 102..103).await;
    put(&store, call().synced_within(LATE), 103..104).await;
    expected.extend(100..104);
    assert_eq!(records(&store).await, expected, "{what}");
    drop(copied(copy.path()));
    store.close().await.unwrap();
    assert_eq!(records(&open(copy.path()).unwrap()).await, expected, "{what}, opened again");
}

fn assert_refused(what: &str, died: &TempDir, content: &[u8]) {
    match opened(died, content).1 {
        Err(StoreError::Unreadable { detail, .. }) => assert!(detail.contains("0.jnl"), "{what}: {detail}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: it was opened"),
    }
}

const SYNCED: usize = 4;
const ALL: usize = 10;

#[tokio::test]
async fn any_loss_of_what_was_not_synced_leaves_what_was_written_before_it() {
    let late = call().synced_within(LATE);
    let (died, content, ends) = died(&[(call(), 0..SYNCED as u32), (late, SYNCED as u32..ALL as u32)]).await;
    assert_eq!(ends.len(), ALL);
    assert_left("nothing is lost if the process dies", &died, &content, ALL).await;
    for left in SYNCED..ALL {
        let begin = ends[left - 1];
        let middle = (begin + ends[left]) / 2;
        assert_left("the journal ends early", &died, &content[..begin], left).await;
        assert_left("the journal ends within a group", &died, &content[..middle], left).await;
        let mut hole = content.clone();
        hole[begin + 100..middle].fill(0);
        assert_left("a group is lost, later ones are not", &died, &hole, left).await;
        // The last group alone reached the disk.
        let mut tail = content.clone();
        tail[begin..ends[ALL - 2]].fill(0);
        let left = if left == ALL - 1 { ALL } else { left };
        assert_left("all but the last are lost", &died, &tail, left).await;
    }
}

#[tokio::test]
async fn what_was_synced_is_missed_although_later_writes_were_not() {
    let late = call().synced_within(LATE);
    let writes = [(call(), 0..3), (late, 3..6), (call().durable(Durability::Synced), 6..7), (late, 7..9)];
    let (died, content, ends) = died(&writes).await;
    let hole = |lost: usize, len: usize| {
        let mut content = content[..len].to_vec();
        let begin = if lost == 0 { 0 } else { ends[lost - 1] };
        content[begin + 100..ends[lost]].fill(0);
        content
    };
    for lost in 0..7 {
        assert_refused("a synced group is lost", &died, &hole(lost, content.len()));
    }
    assert_left("a group that was not synced", &died, &hole(7, content.len()), 7).await;
    // A power failure may leave an old record. The journal still shows what was synced.
    fs::copy(died.path().join(FIRST_RECORD), record(died.path())).unwrap();
    for lost in 1..7 {
        assert_refused("a synced group is lost, and the record is old", &died, &hole(lost, content.len()));
    }
    // The power failed during the sync of group 6: its own bytes were written, earlier ones not.
    assert_left("the sync of several groups ended early", &died, &hole(4, ends[6]), 4).await;
    assert_refused("a group before them", &died, &hole(2, ends[6]));
}

#[tokio::test]
async fn a_write_that_wants_to_survive_a_power_failure_does_not_wait() {
    let late = call().synced_within(LATE);
    let (died, content, ends) = died(&[(late.durable(Durability::Synced), 0..3)]).await;
    let mut hole = content.clone();
    hole[ends[0] + 100..ends[1]].fill(0);
    assert_refused("it was synced", &died, &hole);
}
