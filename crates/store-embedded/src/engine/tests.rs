#![allow(clippy::unwrap_used)]
use std::sync::mpsc;
use std::thread::{self, ThreadId};

use store::{Class, Measured, NewRow, SystemClock};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::*;
use crate::opening::record::RecordFile;
use crate::opening::{record_path, versions};
use crate::space::Space;

const TABLE: Table = Table::Objects;

/// The longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(PATIENCE))
}

fn put() -> Step {
    Step::Put { table: TABLE, partition: "key".into(), rows: vec![NewRow::new("", "value")] }
}

/// A runtime with one worker more than there are processors, like the program's.
fn runtime() -> Runtime {
    let processors = std::thread::available_parallelism().unwrap().get();
    Builder::new_multi_thread().worker_threads(processors + 1).enable_all().build().unwrap()
}

/// A store with one row.
async fn with_a_row(folder: &Path) -> Arc<EmbeddedStore> {
    let store = EmbeddedStore::open(folder, EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
    assert!(store.run(call(), vec![put()]).await.unwrap().is_applied());
    store
}

/// A read from a disk that stalls while it is locked.
fn stalling(disk: Arc<Mutex<()>>) -> impl FnOnce(&View<'_>) -> StoreResult<()> + Send + 'static {
    move |_| {
        drop(disk.lock());
        Ok(())
    }
}

/// The groups that are written and synced after a write whose call demands a sync, and after the
/// store is closed.
async fn groups_synced(sync_delay: Duration) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { sync_delay, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder.path(), options, Arc::new(SystemClock)).unwrap();
    let record = record_path(&store.database().unwrap().folder.database(TABLE.lane()));
    let synced = || RecordFile::look(&record).unwrap().unwrap().group;
    assert!(store.run(call(), vec![put()]).await.unwrap().is_applied());
    let before = synced();
    store.close().await.unwrap();
    (before, synced())
}

/// A clock that notes the threads that ask it.
#[derive(Default)]
struct Asked(Mutex<HashSet<ThreadId>>);

impl Clock for Asked {
    fn now(&self) -> UnixMillis {
        self.0.lock().insert(thread::current().id());
        SystemClock.now()
    }
}

#[tokio::test]
async fn a_store_that_lets_syncs_wait_writes_on_the_thread_of_its_caller() {
    for (sync_delay, is_here) in [(Duration::ZERO, false), (Duration::from_secs(3_600), true)] {
        let folder = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions { sync_delay, ..EmbeddedOptions::default() };
        let asked = Arc::new(Asked::default());
        let store = EmbeddedStore::open(folder.path(), options, asked.clone()).unwrap();
        // The clock is asked before a list is decided, wherever that is.
        let is_written_here = async |list: Step| {
            asked.0.lock().clear();
            assert!(store.run(call(), vec![list]).await.unwrap().is_applied());
            asked.0.lock().iter().all(|asked| *asked == thread::current().id())
        };
        let begun = Instant::now();
        // Another thread may be about to wait for lists.
        while is_written_here(put()).await != is_here {
            assert!(is_here && begun.elapsed() < PATIENCE, "{sync_delay:?}");
        }
        // More than a few rows may have to be read from the disk.
        let rows = (0..=ROWS_READ_HERE_MAX).map(|row| NewRow::new(row.to_string(), "value")).collect();
        assert!(!is_written_here(Step::Put { table: TABLE, partition: "many".into(), rows }).await);
        store.close().await.unwrap();
    }
}

/// No group of a lane is committed, as during a cut, until the value is dropped or the time is over.
fn held(store: &EmbeddedStore, lane: Lane) -> mpsc::Sender<()> {
    let tables = store.database().unwrap().tables.of(lane).clone();
    let ((release, released), (hold, held)) = (mpsc::channel(), mpsc::channel());
    thread::spawn(move || {
        let _held = tables.hold();
        hold.send(()).unwrap();
        // It fails when the other end is dropped.
        let _: Result<(), _> = released.recv_timeout(PATIENCE);
    });
    held.recv().unwrap();
    release
}

/// Waits until lists of a lane wait for the committer or are in its hands, or until none do.
async fn until_committer_has_lists(store: &EmbeddedStore, lane: Lane, has_some: bool) {
    let label = ("lane", lane.name().to_owned());
    let is_it =
        |measure: &Measure| measure.family == "penates_store_writes_admitted_bytes" && measure.labels.contains(&label);
    let has_lists = || {
        let measure = store.measures().into_iter().find(is_it).unwrap();
        matches!(measure.value, Measured::Gauge(bytes) if bytes > 0.0)
    };
    let begun = Instant::now();
    while has_lists() != has_some {
        assert!(begun.elapsed() < PATIENCE, "whether the committer has lists: still not {has_some}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn records_of_the_audit_are_written_on_the_thread_of_their_writer_if_they_wait_for_nothing() {
    let (folder, asked) = (tempfile::tempdir().unwrap(), Arc::new(Asked::default()));
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), asked.clone()).unwrap();
    let is_written_here = async |class: Class, table: Table, sync_delay: Duration| {
        let call = Call::new(class, Deadline::within(PATIENCE)).synced_within(sync_delay).having_read();
        let list = Step::Put { table, partition: "key".into(), rows: vec![NewRow::new("", "value")] };
        asked.0.lock().clear();
        assert!(store.run(call, vec![list]).await.unwrap().is_applied());
        asked.0.lock().iter().all(|asked| *asked == thread::current().id())
    };
    let late = Duration::from_secs(3_600);
    let begun = Instant::now();
    // Another thread may be about to wait for lists.
    while !is_written_here(Class::Audit, Table::Audit, late).await {
        assert!(begun.elapsed() < PATIENCE, "it is left to the other thread");
    }
    assert!(!is_written_here(Class::Audit, Table::Audit, Duration::ZERO).await, "it would wait for a sync");
    assert!(!is_written_here(Class::Description, TABLE, late).await, "many may write at the same time");
    until_committer_has_lists(&store, Table::Audit.lane(), false).await;
    let held = held(&store, Table::Audit.lane());
    let given_back = async {
        until_committer_has_lists(&store, Table::Audit.lane(), true).await;
        drop(held);
    };
    let (is_here, ()) = tokio::join!(is_written_here(Class::Audit, Table::Audit, late), given_back);
    assert!(!is_here, "it would wait for the cut");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_write_is_synced_before_it_is_acknowledged_unless_the_program_lets_all_of_them_wait() {
    assert_eq!(groups_synced(Duration::ZERO).await, (1, 1));
    assert_eq!(groups_synced(Duration::from_secs(3_600)).await, (0, 1));
}

/// How a store closes after a write whose sync may wait so long, when the lane cannot write
/// rows to files any more.
async fn closed_after_a_failed_flush(sync_delay: Duration) -> StoreResult<()> {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { sync_delay, memtable_bytes: 64 << 10, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder.path(), options, Arc::new(SystemClock)).unwrap();
    assert!(store.run(call(), vec![put()]).await.unwrap().is_applied());
    let database = store.database().unwrap().folder.database(TABLE.lane());
    for number in 0..Space::count(TABLE.lane()) {
        std::fs::remove_dir_all(versions::tables(&versions::keyspace(&database, number))).unwrap();
    }
    // More than a memtable. It is acknowledged, unless the engine meets the failure before.
    let rows = vec![NewRow::new("", vec![7_u8; 1 << 20])];
    let large = Step::Put { table: TABLE, partition: "large".into(), rows };
    let outcome = store.run(call(), vec![large]).await.unwrap();
    assert!(matches!(outcome, Outcome::Applied | Outcome::Unknown { .. }), "{outcome:?}");
    let begun = Instant::now();
    while !store.health().await.refusing_writes.contains_key(&TABLE.lane()) {
        assert!(begun.elapsed() < PATIENCE, "the lane accepts writes");
        tokio::task::yield_now().await;
    }
    store.close().await
}

#[tokio::test]
async fn closing_fails_if_acknowledged_writes_are_not_synced_and_not_because_a_lane_refuses_writes() {
    closed_after_a_failed_flush(Duration::ZERO).await.unwrap();
    let closed = closed_after_a_failed_flush(Duration::from_secs(3_600)).await;
    let is_named = |what: &str| what.contains("lane text") && what.contains("not synced");
    assert!(matches!(&closed, Err(StoreError::Poisoned(what)) if is_named(what)), "{closed:?}");
}

#[test]
fn while_the_disk_stalls_reads_end_by_their_deadlines_and_cached_rows_are_read() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(())));
    let runtime = runtime();
    let stalls = disk.lock();
    let store = runtime.block_on(with_a_row(folder.path()));
    let workers = runtime.metrics().num_workers();
    let (end, ended) = mpsc::channel();
    for _ in 0..=workers {
        let (store, read, end) = (store.clone(), stalling(disk.clone()), end.clone());
        runtime.spawn(async move {
            let deadline = Deadline::within(Duration::from_millis(100));
            end.send(store.read_few(deadline, TABLE.lane(), 0, read).await)
        });
    }
    // Each of the others may keep a worker.
    for _ in 0..2 {
        let ended = ended.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(ended, Err(StoreError::DeadlinePassed)), "{ended:?}");
    }
    let (answer, answered) = mpsc::channel();
    let reader = store.clone();
    runtime.spawn(async move { answer.send(reader.get(call(), TABLE, &"key".into(), &Bytes::new()).await) });
    let row = answered.recv_timeout(PATIENCE).unwrap().unwrap();
    assert!(row.is_some());
    drop(stalls);
    for _ in 2..=workers {
        let ended = ended.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(ended, Ok(()) | Err(StoreError::DeadlinePassed)), "{ended:?}");
    }
}

#[test]
fn timers_fire_while_the_worker_that_waited_for_them_reads_from_a_disk_that_stalls() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(())));
    let runtime = runtime();
    let _stalls = disk.lock();
    let store = runtime.block_on(with_a_row(folder.path()));
    let (fire, fired) = mpsc::channel();
    runtime.spawn(async move {
        sleep(Duration::from_millis(100)).await;
        fire.send(())
    });
    let read = stalling(disk.clone());
    runtime.spawn(async move {
        sleep(Duration::from_millis(20)).await;
        // All workers sleep by now, but for the one that waited for timers and goes on here.
        store.read_few(call().deadline, TABLE.lane(), 0, read).await
    });
    fired.recv_timeout(PATIENCE).unwrap();
}

#[tokio::test]
async fn a_read_that_finds_no_place_takes_the_one_that_is_given_back_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_a_row(folder.path()).await;
    let held = store.prompt.place().unwrap();
    assert!(store.prompt.place().is_none(), "there is one place for one worker");
    let (place, ()) = tokio::join!(store.place(), async { drop(held) });
    assert!(place.is_some());
}

#[test]
fn a_task_that_gives_others_their_turn_does_not_wait_for_one_that_blocks_its_thread() {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (end, ended) = mpsc::channel();
    let (_blocks, blocked) = mpsc::channel::<()>();
    runtime.spawn(async move {
        // It has the next turn on this thread.
        tokio::spawn(async move { blocked.recv() });
        after_others().await;
        end.send(())
    });
    ended.recv_timeout(PATIENCE).unwrap();
}

#[tokio::test]
async fn a_batch_of_rows_ends_at_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_a_row(folder.path()).await;
    let database = store.database().unwrap();
    let tables = database.tables.of(TABLE.lane());
    let wanted = ["key", "none"].map(|key| Wanted::look_up(tables, TABLE, key.as_bytes(), &Bytes::new()));
    let get = |until| {
        let get = |view: &View<'_>| get_each(view, TABLE, &wanted, store.now(), until);
        store.read_here(call().deadline, TABLE.lane(), get)
    };
    let rows = get(call().deadline).unwrap();
    assert_eq!(rows.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    let late = get(Deadline::within(Duration::ZERO));
    assert!(matches!(late, Err(StoreError::DeadlinePassed)), "{late:?}");
}
