//! The cache of whole records, as clients see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use store::suite::Subject;
use store::{Call, Class, Clock, Deadline, Direction, Measured, NewRow, Removal, Row, Scan, Step, Store, Table};

use crate::support::Embedded;

const TABLE: Table = Table::Records;

/// Records that are written together.
const PAIRS: u64 = 8;

fn call() -> Call {
    Call::new(Class::Record, Deadline::within(Duration::from_secs(60)))
}

fn put(id: impl Into<Bytes>, value: impl Into<Bytes>) -> Step {
    Step::Put { table: TABLE, partition: id.into(), rows: vec![NewRow::new("", value)] }
}

async fn run(store: &dyn Store, steps: Vec<Step>) {
    assert!(store.run(call(), steps).await.unwrap().is_applied());
}

async fn get(store: &dyn Store, id: &'static str) -> Option<Bytes> {
    store.get(call(), TABLE, &id.into(), &Bytes::new()).await.unwrap().map(|row| row.value)
}

async fn get_many(store: &dyn Store, ids: &[&'static str]) -> Vec<Option<Bytes>> {
    let keys = ids.iter().map(|id| (Bytes::from(*id), Bytes::new())).collect();
    let rows = store.get_many(call(), TABLE, keys).await.unwrap();
    rows.into_iter().map(|row| row.map(|row| row.value)).collect()
}

fn some(value: &'static str) -> Option<Bytes> {
    Some(Bytes::from(value))
}

/// How many rows were found in the cache, and how many were not.
fn rows_read(store: &dyn Store) -> [u64; 2] {
    let measures = store.measures();
    ["cache", "database"].map(|source| {
        let label = ("source", source.to_owned());
        let of_rows = measures.iter().filter(|measure| measure.family == "penates_embedded_row_reads_total");
        let found: Vec<Measured> =
            of_rows.filter(|measure| measure.labels.contains(&label)).map(|measure| measure.value).collect();
        match found[..] {
            [Measured::Counter(rows)] => rows,
            _ => panic!("{source}: {found:?}"),
        }
    })
}

#[tokio::test]
async fn a_record_that_was_read_by_its_key_is_cached_and_listings_neither_fill_nor_use_the_cache() {
    let subject = Embedded::bare();
    let store = subject.store();
    run(&*store, ["a", "b", "c"].map(|id| put(id, id)).to_vec()).await;
    let list = async || {
        assert_eq!(store.walk(call(), TABLE, None, 10).await.unwrap().partitions.len(), 3);
        assert_eq!(store.walk_rows(call(), TABLE, None, 10, 1 << 20).await.unwrap().rows.len(), 3);
        let all = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 << 20 };
        assert_eq!(store.scan(call(), TABLE, &"a".into(), all).await.unwrap().rows.len(), 1);
    };
    list().await;
    assert_eq!(rows_read(&*store), [0, 0]);
    for reads in [[0, 1], [1, 1]] {
        assert_eq!(get(&*store, "a").await, some("a"));
        assert_eq!(rows_read(&*store), reads);
    }
    for reads in [[2, 2], [4, 2]] {
        assert_eq!(get_many(&*store, &["a", "b"]).await, [some("a"), some("b")]);
        assert_eq!(rows_read(&*store), reads);
    }
    list().await;
    assert_eq!(rows_read(&*store), [4, 2]);
    assert_eq!(get(&*store, "c").await, some("c"));
    assert_eq!(rows_read(&*store), [4, 3]);
}

#[tokio::test]
async fn a_cached_record_is_read_as_it_was_written_last_and_not_after_it_was_removed() {
    let subject = Embedded::bare();
    let store = subject.store();
    for value in ["first", "second"] {
        run(&*store, vec![put("id", value), put("other", "v")]).await;
        for _ in 0..2 {
            assert_eq!(get(&*store, "id").await, some(value));
            assert_eq!(get_many(&*store, &["id", "other"]).await, [some(value), some("v")]);
        }
    }
    let everything = Removal::Range(Bytes::new(), None);
    run(&*store, vec![Step::Remove { table: TABLE, partition: "id".into(), rows: everything }]).await;
    assert_eq!(get(&*store, "id").await, None);
    assert_eq!(get_many(&*store, &["id", "other"]).await, [None, some("v")]);
}

#[tokio::test]
async fn a_cached_record_is_not_seen_any_more_once_it_has_expired() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let subject = Embedded::bare();
    let store = subject.store();
    let expires_at = Some(subject.clock().now().plus(HOUR));
    let rows = vec![NewRow { sort: Bytes::new(), value: "v".into(), expires_at }];
    run(&*store, vec![Step::Put { table: TABLE, partition: "id".into(), rows }, put("other", "v")]).await;
    for _ in 0..2 {
        assert_eq!(get_many(&*store, &["id", "other"]).await, [some("v"), some("v")]);
    }
    subject.clock().advance(HOUR);
    assert_eq!(get(&*store, "id").await, None);
    assert_eq!(get_many(&*store, &["id", "other"]).await, [None, some("v")]);
    assert_eq!(store.sweep(call()).await.unwrap(), 1);
    run(&*store, vec![put("id", "new")]).await;
    assert_eq!(get(&*store, "id").await, some("new"));
}

#[tokio::test]
async fn a_task_that_reads_nothing_but_cached_records_gives_others_their_turn() {
    /// Far more than Tokio lets a task do before others have their turn.
    const READS_MAX: u64 = 10_000;
    let subject = Embedded::bare();
    let store = subject.store();
    run(&*store, vec![put("id", "v"), put("other", "v")]).await;
    assert_eq!(get_many(&*store, &["id", "other"]).await, [some("v"), some("v")]);
    let [_, missed] = rows_read(&*store);
    for is_many in [false, true] {
        let has_run = Arc::new(AtomicBool::new(false));
        let other = has_run.clone();
        let other = tokio::spawn(async move { other.store(true, Ordering::SeqCst) });
        let mut reads = 0;
        while !has_run.load(Ordering::SeqCst) {
            assert!(reads < READS_MAX, "the other task has no turn (several rows: {is_many})");
            reads += 1;
            if is_many {
                assert_eq!(get_many(&*store, &["id", "other"]).await, [some("v"), some("v")]);
            } else {
                assert_eq!(get(&*store, "id").await, some("v"));
            }
        }
        other.await.unwrap();
    }
    let [_, missed_since] = rows_read(&*store);
    assert_eq!(missed_since, missed, "all were cached");
}

fn id_of(pair: u64, half: u64) -> Bytes {
    Bytes::from(format!("{pair} {half}"))
}

fn counter(row: Option<&Row>) -> u64 {
    row.map_or(0, |row| u64::from_be_bytes(row.value[..].try_into().unwrap()))
}

/// Reads each pair in turn until the writer has ended, and then some times more.
async fn read_counters(store: Arc<dyn Store>, written: Arc<[AtomicU64; PAIRS as usize]>, has_ended: Arc<AtomicBool>) {
    let mut seen = [0; PAIRS as usize];
    let (mut turn, mut turns_left) = (0, 8 * PAIRS);
    while turns_left > 0 {
        if has_ended.load(Ordering::SeqCst) {
            turns_left -= 1;
        }
        turn += 1;
        let (pair, half) = (turn % PAIRS, turn / PAIRS % 2);
        let least = written[pair as usize].load(Ordering::SeqCst);
        let read = match turn / PAIRS % 4 {
            0 | 1 => counter(store.get(call(), TABLE, &id_of(pair, half), &Bytes::new()).await.unwrap().as_ref()),
            _ => {
                let keys = [0, 1].map(|half| (id_of(pair, half), Bytes::new())).to_vec();
                let rows = store.get_many(call(), TABLE, keys).await.unwrap();
                let [one, other] = &rows[..] else { panic!("{rows:?}") };
                let (one, other) = (counter(one.as_ref()), counter(other.as_ref()));
                assert_eq!(one, other, "pair {pair} was written together");
                one
            }
        };
        assert!(read >= least, "pair {pair}: {read} was read after {least} was acknowledged");
        assert!(read >= seen[pair as usize], "pair {pair}: {read} was read after {}", seen[pair as usize]);
        seen[pair as usize] = read;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counters_only_grow_for_each_reader_while_they_are_written() {
    const WRITES: u64 = 1_000;
    // One of them writes on the thread of its caller, the other through the committer.
    for subject in [Embedded::of_loads(), Embedded::bare()] {
        let (store, has_ended) = (subject.store(), Arc::new(AtomicBool::new(false)));
        let written: Arc<[AtomicU64; PAIRS as usize]> = Arc::default();
        let read = |_| tokio::spawn(read_counters(store.clone(), written.clone(), has_ended.clone()));
        let readers: Vec<_> = (0..3).map(read).collect();
        for number in 1..=WRITES {
            let pair = number % PAIRS;
            let value = Bytes::copy_from_slice(&number.to_be_bytes());
            run(&*store, [0, 1].map(|half| put(id_of(pair, half), value.clone())).to_vec()).await;
            written[pair as usize].store(number, Ordering::SeqCst);
        }
        has_ended.store(true, Ordering::SeqCst);
        for reader in readers {
            reader.await.unwrap();
        }
        let [cached, _] = rows_read(&*store);
        assert!(cached > 0, "nothing was read from the cache");
    }
}
