//! Promises of the embedded engine beyond the suite: disk space, overload, deadlines, sweeps.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{folder, options};
use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt, TryStreamExt, stream};
use store::faults::Faults;
use store::limited::Limited;
use store::{
    Call, Class, Clock, ContentId, Deadline, Durability, Expect, FormatLevel, Guard, Lane, Limits, ManualClock, NewRow,
    NoRoom, Outcome, Removal, Stamp, Step, Store, StoreError, Table, UnixMillis,
};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;

struct Opened {
    store: Arc<EmbeddedStore>,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

fn open(options: EmbeddedOptions) -> Opened {
    open_in(folder(), options)
}

fn open_in(folder: TempDir, options: EmbeddedOptions) -> Opened {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
    Opened { store: EmbeddedStore::open(folder.path(), options, clock.clone()).unwrap(), clock, folder }
}

fn deadline() -> Deadline {
    Deadline::within(Duration::from_secs(30))
}

fn call() -> Call {
    Call::new(Class::Description, deadline())
}

fn put_row(row: NewRow) -> Step {
    Step::Put { table: Table::Objects, partition: "p".into(), rows: vec![row] }
}

fn put(sort: impl Into<Bytes>) -> Step {
    put_row(NewRow::new(sort, "value"))
}

async fn holds(store: &EmbeddedStore, sort: impl Into<Bytes>) -> bool {
    store.get(call(), Table::Objects, &"p".into(), &sort.into()).await.unwrap().is_some()
}

fn content_files(folder: &Path) -> usize {
    let shards = std::fs::read_dir(folder.join("contents")).unwrap();
    shards.map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap().count()).sum()
}

/// Not a `#[tokio::test]`, because the end of its runtime would wait for a flush that never ends.
#[test]
fn a_store_whose_tables_cannot_be_written_closes_with_an_error() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let closed = runtime.block_on(async {
        let Opened { store, folder, .. } = open(options());
        assert!(store.run(call(), vec![put("a")]).await.unwrap().is_applied());
        std::fs::remove_dir_all(folder.path().join("db")).unwrap();
        store.close().await
    });
    runtime.shutdown_background();
    let error = closed.unwrap_err().to_string();
    assert!(error.contains("flushing"), "{error}");
}

#[tokio::test]
async fn a_disk_without_headroom_refuses_writes_and_goes_on_reading() {
    let folder = folder();
    let clock = Arc::new(ManualClock::new(UnixMillis(0)));
    let store = EmbeddedStore::open(folder.path(), options(), clock.clone()).unwrap();
    assert!(store.run(call(), vec![put("a")]).await.unwrap().is_applied());
    let record = Step::Put { table: Table::Records, partition: "r".into(), rows: vec![NewRow::new("", "value")] };
    assert!(store.run(call(), vec![record.clone()]).await.unwrap().is_applied());
    let free = store.health().await.free_bytes.unwrap();
    store.close().await.unwrap();

    // Space for small writes (half of the headroom), but not for more.
    let scarce = EmbeddedOptions { headroom_bytes: free + free / 2, ..options() };
    let store = EmbeddedStore::open(folder.path(), scarce, clock.clone()).unwrap();
    let bulk = |sort: &str| Step::Put {
        table: Table::Objects,
        partition: "p".into(),
        rows: vec![NewRow::new(sort.to_owned(), vec![0; 32 << 10])],
    };
    let refused = store.run(call(), vec![bulk("b")]).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert!(store.run(call(), vec![put("small")]).await.unwrap().is_applied());
    let no_room = async |store: &EmbeddedStore| store.health().await.no_room.map(|(refused, _)| refused);
    assert_eq!(no_room(&store).await, Some(NoRoom::ForMuch));
    assert!(store.health().await.refusing_writes.contains_key(&Lane::Records));
    let refused = store.run(call(), vec![record]).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    let remove = Step::Remove { table: Table::Records, partition: "r".into(), rows: Removal::Rows(vec![Bytes::new()]) };
    assert!(store.run(call(), vec![remove]).await.unwrap().is_applied());
    store.close().await.unwrap();

    // Space for removals (a quarter of the headroom) and the audit, but not for more.
    let scarcer = EmbeddedOptions { headroom_bytes: 3 * free, ..options() };
    let store = EmbeddedStore::open(folder.path(), scarcer, clock.clone()).unwrap();
    let refused = store.run(call(), vec![put("b")]).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    let audit = Step::Put { table: Table::Audit, partition: "p".into(), rows: vec![NewRow::new("who", "what")] };
    let refused = store.run(call(), vec![audit.clone()]).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "the class of a call decides, not the table: {refused:?}");
    assert!(store.run(call().of(Class::Audit), vec![audit]).await.unwrap().is_applied());
    let upload = store.put_content(call(), "owner".into(), stream::iter([Ok("bytes".into())]).boxed()).await;
    assert!(matches!(upload, Err(StoreError::Full(_))), "{upload:?}");
    assert!(store.health().await.refusing_writes.contains_key(&Lane::Text));
    assert_eq!(no_room(&store).await, Some(NoRoom::ForChanges));
    assert!(holds(&store, "a").await && !holds(&store, "b").await);
    assert!(store.run(call().removing(), vec![put("a mark")]).await.unwrap().is_applied());
    let bulk = store.run(call().removing(), vec![bulk("b")]).await;
    assert!(matches!(bulk, Err(StoreError::Full(_))), "bulk is no step of a removal: {bulk:?}");
    let remove = Step::Remove { table: Table::Objects, partition: "p".into(), rows: Removal::Rows(vec!["a".into()]) };
    assert!(store.run(call(), vec![remove]).await.unwrap().is_applied());
    assert!(!holds(&store, "a").await);
    store.close().await.unwrap();

    // Space for the audit alone.
    let full = EmbeddedOptions { headroom_bytes: 20 * free, ..options() };
    let store = EmbeddedStore::open(folder.path(), full, clock).unwrap();
    let remove =
        Step::Remove { table: Table::Objects, partition: "p".into(), rows: Removal::Rows(vec!["small".into()]) };
    let refused = store.run(call(), vec![remove]).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    let audit = Step::Put { table: Table::Audit, partition: "p".into(), rows: vec![NewRow::new("who else", "what")] };
    assert!(store.run(call().of(Class::Audit), vec![audit]).await.unwrap().is_applied());
    assert_eq!(no_room(&store).await, Some(NoRoom::ForRemovals));
    let refusing = store.health().await.refusing_writes;
    assert_eq!(
        refusing.into_keys().collect::<Vec<_>>(),
        [Lane::Text, Lane::Records],
        "reading is audited, so it goes on"
    );
}

/// Everything in a folder, the folder included, with its mode.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let found = std::fs::metadata(folder).unwrap();
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| modes(&path));
    [(folder.to_path_buf(), found.permissions().mode() & 0o777)].into_iter().chain(below).collect()
}

#[tokio::test]
async fn only_its_owner_may_read_a_data_folder_and_one_that_is_open_to_others_is_closed() {
    let folder = folder();
    let data = folder.path().join("data");
    // Files that existed before, as after restoring a backup.
    std::fs::create_dir(&data).unwrap();
    for _ in 0..2 {
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
        let store = EmbeddedStore::open(&data, options(), Arc::new(ManualClock::new(UnixMillis(0)))).unwrap();
        assert_eq!(modes(&data)[0].1, 0o700);
        assert!(store.run(call(), vec![put("a")]).await.unwrap().is_applied());
        store.put_content(call(), "owner".into(), stream::iter([Ok("bytes".into())]).boxed()).await.unwrap();
        store.close().await.unwrap();
        let all = modes(&data);
        assert!(all.len() > 40, "{all:?}");
        for (path, mode) in all {
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        }
        std::fs::set_permissions(data.join("db/text/version"), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
}

#[tokio::test]
async fn a_plain_put_of_a_guarded_row_is_refused() {
    let opened = open(options());
    for table in [Table::Objects, Table::Records] {
        let guard = Guard { stamp: Stamp::fresh(), tag: Bytes::new() };
        let (partition, sort, value) = (Bytes::from("p"), Bytes::from("head"), Bytes::from("head"));
        let partition_of_head = partition.clone();
        let head =
            Step::CompareAndWrite { table, partition: partition_of_head, sort, expect: Expect::Absent, guard, value };
        assert!(opened.store.run(call(), vec![head]).await.unwrap().is_applied());
        // Where plain rows expire, the committer looks at what it replaces. Elsewhere it believes a
        // caller that has read it.
        let calls = [Some(call()), (table == Table::Records).then(|| call().having_read())];
        for call in calls.into_iter().flatten() {
            let put = Step::Put { table, partition: partition.clone(), rows: vec![NewRow::new("head", "plain")] };
            let plain = opened.store.run(call, vec![put]).await;
            assert!(matches!(plain, Err(StoreError::Invalid(_))), "{plain:?}");
        }
    }
}

/// A clock at which the committer stops as long as the test wants.
#[derive(Default)]
struct Gate {
    stopped: parking_lot::Mutex<bool>,
    opened: parking_lot::Condvar,
}

impl Gate {
    fn stop(&self, stop: bool) {
        *self.stopped.lock() = stop;
        self.opened.notify_all();
    }
}

impl Clock for Gate {
    fn now(&self) -> UnixMillis {
        if std::thread::current().name() == Some("commit-text") {
            self.opened.wait_while(&mut self.stopped.lock(), |stopped| *stopped);
        }
        UnixMillis(0)
    }
}

#[tokio::test]
async fn a_write_that_still_waits_at_its_deadline_is_withdrawn() {
    let folder = folder();
    let gate = Arc::new(Gate::default());
    let store = EmbeddedStore::open(folder.path(), options(), gate.clone()).unwrap();
    gate.stop(true);
    let soon = Call::new(Class::Description, Deadline::within(Duration::from_millis(50)));
    let answer = store.run(soon, vec![put("late")]).await;
    assert!(matches!(answer, Err(StoreError::Overloaded(_))), "{answer:?}");
    gate.stop(false);
    // Once a later write is through, the earlier one would be too.
    assert!(store.run(call(), vec![put("later")]).await.unwrap().is_applied());
    assert!(!holds(&store, "late").await);
}

/// Deadlines from none to ample: some pass before the write is queued, some while it is, and some
/// after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_run_out_of_time_report_true_outcomes() {
    // On a disk, where a sync takes time.
    let opened = open_in(tempfile::tempdir().unwrap(), options());
    let writes = (0..400_u64).map(|number| {
        let store = opened.store.clone();
        tokio::spawn(async move {
            let late = Call::new(Class::Description, Deadline::within(Duration::from_micros(number * 20)));
            (number, store.run(late, vec![put(number.to_string())]).await)
        })
    });
    for write in writes.collect::<Vec<_>>() {
        let (number, answer) = write.await.unwrap();
        let held = async || holds(&opened.store, number.to_string()).await;
        match answer {
            Ok(Outcome::Applied) => assert!(held().await, "write {number} was acknowledged"),
            Ok(Outcome::Unknown { .. }) => {}
            Ok(outcome) => panic!("{outcome:?}"),
            Err(error) => {
                assert!(matches!(error, StoreError::Overloaded(_)), "{error}");
                assert!(!held().await, "write {number} was refused: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_small_queue_accepts_all_writes_one_after_the_other() {
    let opened = open(EmbeddedOptions { max_queued_bytes: 1, max_queue_age: Duration::from_secs(30), ..options() });
    let writes = (0..20).map(|number| {
        let store = opened.store.clone();
        tokio::spawn(async move { store.run(call(), vec![put(number.to_string())]).await })
    });
    for write in writes.collect::<Vec<_>>() {
        assert!(write.await.unwrap().unwrap().is_applied());
    }
}

#[tokio::test]
async fn a_write_survives_a_power_failure_and_is_refused_if_it_must_survive_more() {
    let opened = open(options());
    let run = |durability| opened.store.run(call().durable(durability), vec![put("a")]);
    assert!(run(Durability::Synced).await.unwrap().is_applied());
    let refused = run(Durability::Replicated).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotDurable { given: Durability::Synced, .. }), "{refused}");
}

#[tokio::test]
async fn a_sweep_deletes_expired_rows_permanently() {
    let opened = open(options());
    let begin = opened.clock.now();
    let expiring = |sort: &'static str, after_ms| {
        let expires_at = Some(begin.plus(Duration::from_millis(after_ms)));
        put_row(NewRow { expires_at, ..NewRow::new(sort, "value") })
    };
    let steps = vec![expiring("soon", 10), expiring("late", 20), put("never"), expiring("renewed", 10)];
    assert!(opened.store.run(call(), steps).await.unwrap().is_applied());
    assert!(opened.store.run(call(), vec![expiring("renewed", 20)]).await.unwrap().is_applied());
    assert_eq!(opened.store.sweep(call()).await.unwrap(), 0);

    opened.clock.set(begin.plus(Duration::from_millis(10)));
    opened.store.sweep(call()).await.unwrap();
    // If the clock is set back, a row that has only expired would be visible again.
    opened.clock.set(begin);
    let mut held = Vec::new();
    for sort in ["soon", "late", "never", "renewed"] {
        held.push(holds(&opened.store, sort).await);
    }
    assert_eq!(held, [false, true, true, true]);
    opened.clock.set(begin.plus(Duration::from_millis(20)));
    assert_eq!(opened.store.sweep(call()).await.unwrap(), 2);
}

#[tokio::test]
async fn a_sweep_reaches_the_engine_through_every_wrapper() {
    let opened = open(options());
    let store: Arc<dyn Store> = Arc::new(Limited::new(opened.store.clone(), Limits::default()));
    let store = Faults::new(store);
    let expires_at = Some(opened.clock.now());
    let rows = vec![NewRow { expires_at, ..NewRow::new("sort", "value") }];
    let put = Step::Put { table: Table::Children, partition: "p".into(), rows };
    assert!(store.run(call(), vec![put]).await.unwrap().is_applied());
    assert_eq!(store.sweep(call()).await.unwrap(), 1);
}

/// Such a reader gets longer pieces.
#[tokio::test]
async fn a_content_is_the_same_for_a_reader_that_reads_everything_once() {
    let opened = open(options());
    let bytes: Vec<u8> = (0..2_500_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let pieces = stream::iter([Ok(bytes.clone().into())]).boxed();
    let id = opened.store.put_content(call(), "owner".into(), pieces).await.unwrap();
    for range in [0..bytes.len(), 1_000_000..1_100_000, 70_000..2_400_001, 2_499_999..bytes.len()] {
        let wanted = range.start as u64..range.end as u64;
        let read = opened.store.read_content(call().once(), id, wanted).await.unwrap().unwrap();
        let read: Vec<Bytes> = read.try_collect().await.unwrap();
        assert!(read.concat() == bytes[range.clone()], "bytes {range:?} are others");
    }
}

#[tokio::test]
async fn a_sweep_deletes_leftovers_of_uploads_and_nothing_else() {
    let opened = open(options());
    let sealed = stream::iter([Ok("sealed".into())]).boxed();
    opened.store.put_content(call(), "owner".into(), sealed).await.unwrap();

    let (mut pieces, content) = mpsc::channel(1);
    let upload = tokio::spawn({
        let store = opened.store.clone();
        async move { store.put_content(call(), "owner".into(), content.boxed()).await }
    });
    pieces.send(Ok("begun".into())).await.unwrap();
    has_content_files(&opened, 2).await;
    assert_eq!(opened.store.sweep(call()).await.unwrap(), 0, "it is still uploading");
    // It ends without a chance to clean up. Nothing waits for its lease.
    upload.abort();
    assert!(upload.await.unwrap_err().is_cancelled());
    assert_eq!(opened.store.sweep(call()).await.unwrap(), 1);
    assert_eq!(opened.store.sweep(call()).await.unwrap(), 0);
    assert_eq!(content_files(opened.folder.path()), 1);
    assert_eq!(opened.store.walk(call(), Table::Contents, None, 10).await.unwrap().partitions.len(), 1);
}

#[tokio::test]
async fn an_upload_of_a_process_that_has_ended_is_condemned_at_once() {
    let (opened, copy, id) = (open(options()), folder(), ContentId::fresh());
    let (mut pieces, content) = mpsc::channel(1);
    let upload = opened.store.put_content_as(call(), id, "owner".into(), content.boxed());
    let mut upload = std::pin::pin!(upload);
    pieces.send(Ok("begun".into())).await.unwrap();
    let begun = async {
        has_content_files(&opened, 1).await;
        assert!(!opened.store.condemn_content(call(), id).await.unwrap(), "it is still uploading");
        // As its process would leave it, were it killed now.
        copy_folder(opened.folder.path(), copy.path());
        std::fs::remove_file(copy.path().join("lock")).unwrap();
    };
    tokio::select! {
        ended = &mut upload => panic!("the upload has ended: {ended:?}"),
        () = begun => {}
    }
    let later = open_in(copy, options());
    assert!(later.store.condemn_content(call(), id).await.unwrap());
    assert!(later.store.delete_content(call(), id).await.unwrap());
    assert_eq!(content_files(later.folder.path()), 0);
}

/// Waits until the store has so many files of contents.
async fn has_content_files(opened: &Opened, files: usize) {
    let began = Instant::now();
    while content_files(opened.folder.path()) != files {
        assert!(began.elapsed() < Duration::from_secs(60), "the upload did not begin");
        tokio::task::yield_now().await;
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to)
        } else {
            _ = std::fs::copy(entry.path(), to).unwrap()
        }
    }
}

/// Puts a content of three blocks.
async fn put_content(store: &EmbeddedStore, byte: u8) -> ContentId {
    let content = stream::iter([Ok(vec![byte; 150_000].into())]).boxed();
    store.put_content(call(), "owner".into(), content).await.unwrap()
}

async fn is_readable(store: &EmbeddedStore, id: ContentId) -> bool {
    let Some(content) = store.read_content(call(), id, 0..u64::MAX).await.unwrap() else { return false };
    content.try_fold(0, async |len, piece| Ok(len + piece.len())).await.unwrap() == 150_000
}

/// For how long a file that the database does not know is kept in a test.
const GRACE: Duration = Duration::from_secs(4 * 3_600);

/// Sweeps once an hour, for so long. Returns what was swept.
async fn swept_hourly(store: &EmbeddedStore, clock: &ManualClock, hours: u32) -> u64 {
    let mut swept = 0;
    for _ in 0..hours {
        clock.advance(Duration::from_secs(3_600));
        swept += store.sweep(call()).await.unwrap();
    }
    swept
}

#[tokio::test]
async fn a_clock_that_was_wrong_deletes_no_content_that_the_database_does_not_know() {
    let Opened { store, clock, folder } = open(options());
    let file = crate::support::file_of(folder.path(), ContentId([7; 16]));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "perhaps the only copy").unwrap();
    let today = 1_700_000_000_000;
    let ahead = today + 40 * 24 * 3_600_000;
    // The machine has no clock of its own: it shows 1970 until it learns the time.
    clock.set(UnixMillis(0));
    assert_eq!(store.sweep(call()).await.unwrap(), 0);
    store.close().await.unwrap();
    drop(store);
    let store = EmbeddedStore::open(folder.path(), options(), clock.clone()).unwrap();
    for shown in [today, ahead, today] {
        clock.set(UnixMillis(shown));
        assert_eq!(store.sweep(call()).await.unwrap(), 0, "at {shown}");
    }
    assert!(file.exists());
    assert_eq!(store.health().await.unknown_contents, 1);
}

#[tokio::test]
async fn contents_that_an_older_database_does_not_know_are_kept_for_a_grace_period_and_reported() {
    let (backup, newer, older) = (folder(), open(options()), folder());
    let known = put_content(&newer.store, 1).await;
    newer.store.close().await.unwrap();
    copy_folder(&newer.folder.path().join("db"), backup.path());
    let newer = open_in(newer.folder, options());
    let unknown = put_content(&newer.store, 2).await;
    newer.store.close().await.unwrap();
    // The database of the backup beside today's contents.
    copy_folder(newer.folder.path(), older.path());
    std::fs::remove_dir_all(older.path().join("db")).unwrap();
    copy_folder(backup.path(), &older.path().join("db"));
    std::fs::remove_file(older.path().join("lock")).unwrap();
    let graced = || EmbeddedOptions { unknown_content_grace: GRACE, ..options() };
    let older = open_in(older, graced());
    let file = crate::support::file_of(older.folder.path(), unknown);

    assert_eq!(older.store.health().await.unknown_contents, 0, "nobody has looked yet");
    for _ in 0..3 {
        assert_eq!(older.store.sweep(call()).await.unwrap(), 0);
        assert_eq!(older.store.health().await.unknown_contents, 1);
    }
    assert_eq!(swept_hourly(&older.store, &older.clock, 3).await, 0, "the grace is not over");
    // Somebody puts the newer database back in its place.
    older.store.close().await.unwrap();
    drop(older.store);
    std::fs::remove_dir_all(older.folder.path().join("db")).unwrap();
    copy_folder(&newer.folder.path().join("db"), &older.folder.path().join("db"));
    let restored = EmbeddedStore::open(older.folder.path(), graced(), older.clock.clone()).unwrap();
    assert_eq!(restored.sweep(call()).await.unwrap(), 0);
    assert_eq!(restored.health().await.unknown_contents, 0);
    assert!(is_readable(&restored, known).await && is_readable(&restored, unknown).await);
    assert!(!file.with_extension("unknown").exists(), "a content that is known again is still noted as unknown");

    // Nobody does.
    restored.close().await.unwrap();
    drop(restored);
    std::fs::remove_dir_all(older.folder.path().join("db")).unwrap();
    copy_folder(backup.path(), &older.folder.path().join("db"));
    let reopened = || EmbeddedStore::open(older.folder.path(), graced(), older.clock.clone()).unwrap();
    let store = reopened();
    assert_eq!(store.sweep(call()).await.unwrap(), 0, "the grace period begins again");
    assert_eq!(swept_hourly(&store, &older.clock, 2).await, 0);
    store.close().await.unwrap();
    drop(store);
    // A restart does not change it.
    let store = reopened();
    older.clock.advance(Duration::from_secs(2 * 3_600) - Duration::from_millis(1));
    assert_eq!(store.sweep(call()).await.unwrap(), 0, "the grace is not over");
    older.clock.advance(Duration::from_millis(1));
    assert_eq!(store.sweep(call()).await.unwrap(), 1);
    assert!(!file.exists() && !file.with_extension("unknown").exists());
    assert_eq!(store.health().await.unknown_contents, 0);
    assert!(is_readable(&store, known).await);
}

#[tokio::test]
async fn a_sweep_continues_where_the_previous_one_ended() {
    let opened = open(EmbeddedOptions { contents_per_sweep: 10, ..options() });
    let mut ids: Vec<_> = stream::iter(0..25).then(|_| put_content(&opened.store, 1)).collect().await;
    ids.sort();
    assert!(opened.store.condemn_content(call(), ids[24]).await.unwrap());
    for swept in [0, 0, 1, 0] {
        assert_eq!(opened.store.sweep(call()).await.unwrap(), swept);
    }
    // The last folder of files is checked too.
    let unknown = crate::support::file_of(opened.folder.path(), ContentId([0xFF; 16]));
    std::fs::create_dir_all(unknown.parent().unwrap()).unwrap();
    std::fs::write(&unknown, "no header knows it").unwrap();
    for _ in 0..4 {
        assert_eq!(opened.store.sweep(call()).await.unwrap(), 0);
    }
    assert_eq!(opened.store.health().await.unknown_contents, 1);
}

#[tokio::test]
async fn a_deleted_content_leaves_no_row() {
    let opened = open(options());
    let id = put_content(&opened.store, 1).await;
    let rows = async || {
        let all = store::Scan::prefix("", 1 << 20);
        opened.store.scan(call(), Table::Contents, &id.0.to_vec().into(), all).await.unwrap().rows.len()
    };
    assert_eq!(rows().await, 2, "a header and a row of checksums");
    assert!(opened.store.condemn_content(call(), id).await.unwrap());
    assert!(opened.store.delete_content(call(), id).await.unwrap());
    assert_eq!(rows().await, 0);
}

#[tokio::test]
async fn a_store_that_is_dropped_without_closing_releases_its_folder() {
    let opened = open(options());
    assert!(opened.store.run(call(), vec![put("a")]).await.unwrap().is_applied());
    drop(opened.store);
    let store = EmbeddedStore::open(opened.folder.path(), options(), opened.clock.clone()).unwrap();
    assert!(holds(&store, "a").await);
}

#[tokio::test]
async fn bulk_writes_larger_than_all_memtables_are_all_stored() {
    let opened = open(EmbeddedOptions { memtable_bytes: 256 << 10, ..options() });
    let writes = (0..120_u32).map(|number| {
        let store = opened.store.clone();
        tokio::spawn(async move {
            let rows = (0..8_u32).map(|row| NewRow::new(row.to_be_bytes().to_vec(), vec![7; 32 << 10])).collect();
            let step = Step::Put { table: Table::Objects, partition: number.to_be_bytes().to_vec().into(), rows };
            store.run(call(), vec![step]).await
        })
    });
    for write in writes.collect::<Vec<_>>() {
        assert!(write.await.unwrap().unwrap().is_applied());
    }
    opened.store.close().await.unwrap();
    let store = EmbeddedStore::open(opened.folder.path(), options(), opened.clock.clone()).unwrap();
    let walk = store.walk(call(), Table::Objects, None, 1000).await.unwrap();
    assert_eq!(walk.partitions.len(), 120);
    for partition in walk.partitions {
        let page = store.scan(call(), Table::Objects, &partition, store::Scan::prefix("", 1 << 20)).await.unwrap();
        assert_eq!(page.rows.len(), 8);
    }
}

/// The programs of two releases use one folder.
#[tokio::test]
async fn a_folder_keeps_its_level_until_it_is_raised_and_then_earlier_programs_refuse_it() {
    let later = EmbeddedOptions { newest_level: FormatLevel::NEWEST.next(), ..options() };
    let Opened { store, clock, folder } = open(options());
    assert!(store.run(call(), vec![put_row(NewRow::new("a", "value"))]).await.unwrap().is_applied());
    store.close().await.unwrap();
    drop(store);
    // A later program leaves the level as it is.
    let folder = folder.path();
    let reopened = |options: &EmbeddedOptions| EmbeddedStore::open(folder, options.clone(), clock.clone());
    let new = reopened(&later).unwrap();
    assert_eq!(new.level(), FormatLevel::NEWEST);
    assert!(matches!(EmbeddedStore::raise_level(folder, &later), Err(StoreError::Held { .. })));
    new.close().await.unwrap();
    drop(new);
    assert!(reopened(&options()).is_ok(), "the earlier program can come back");

    let raised = FormatLevel::NEWEST.next();
    assert_eq!(EmbeddedStore::raise_level(folder, &options()).unwrap(), [FormatLevel::NEWEST; 2]);
    assert_eq!(EmbeddedStore::raise_level(folder, &later).unwrap(), [FormatLevel::NEWEST, raised]);
    assert_eq!(EmbeddedStore::raise_level(folder, &later).unwrap(), [raised; 2]);
    assert!(matches!(reopened(&options()), Err(StoreError::Format { .. })));
    assert!(matches!(EmbeddedStore::level_of(folder, &options()), Err(StoreError::Format { .. })));
    let new = reopened(&later).unwrap();
    assert_eq!(new.level(), raised);
    assert!(new.get(call(), Table::Objects, &"p".into(), &"a".into()).await.unwrap().is_some());
}
