#![allow(clippy::unwrap_used)]
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, mpsc};

use store::{Call, Class, Clock, ManualClock, Measure, Measured, NewRow, PlainValue, Removal, Step, Store};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::options::EmbeddedOptions;

const HOUR: Duration = Duration::from_secs(3_600);

/// The longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

fn call() -> Call {
    Call::new(Class::Record, Deadline::within(PATIENCE))
}

/// A store with a clock that shows the beginning of an hour.
struct Subject {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    store: Arc<EmbeddedStore>,
    /// The table in which rows are put: that of records, if a test changes nothing.
    table: Table,
}

impl Subject {
    fn new() -> Self {
        Self::with(EmbeddedOptions::default())
    }

    fn with(options: EmbeddedOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000 * 3_600_000)));
        let store = EmbeddedStore::open(folder.path(), options, clock.clone()).unwrap();
        Self { folder, clock, store, table: Table::Records }
    }

    /// Closes the store and opens it again.
    async fn reopen(&mut self) {
        self.store.close().await.unwrap();
        let options = EmbeddedOptions::default();
        self.store = EmbeddedStore::open(self.folder.path(), options, self.clock.clone()).unwrap();
    }

    async fn run(&self, step: Step) {
        assert!(self.store.run(call().synced_within(HOUR), vec![step]).await.unwrap().is_applied());
    }

    /// Puts a record that expires so much later; `None`: never.
    async fn put(&self, id: &'static str, life: Option<Duration>) {
        let expires_at = life.map(|life| self.clock.now().plus(life));
        let rows = vec![NewRow { sort: Bytes::new(), value: "v".into(), expires_at }];
        self.run(Step::Put { table: self.table, partition: id.into(), rows }).await;
    }

    /// Puts so many records that expire after an hour.
    async fn put_many(&self, count: usize) {
        let ids: Vec<&'static str> = (0..count).map(|id| &*id.to_string().leak()).collect();
        join_all(ids.into_iter().map(|id| self.put(id, Some(HOUR)))).await;
    }

    async fn remove(&self, id: &'static str) {
        let rows = Removal::Rows(vec![Bytes::new()]);
        self.run(Step::Remove { table: Table::Records, partition: id.into(), rows }).await;
    }

    async fn sweep(&self) -> u64 {
        self.store.sweep(call()).await.unwrap()
    }

    async fn lag(&self) -> Option<Duration> {
        self.store.health().await.reclaim_lag
    }

    /// Until the value is dropped, the committer of the table's lane halts before it writes.
    fn halted(&self) -> mpsc::Sender<()> {
        let tables = self.store.database().unwrap().tables.of(self.table.lane()).clone();
        let ((release, released), (hold, held)) = (mpsc::channel(), mpsc::channel());
        std::thread::spawn(move || {
            let _held = tables.hold();
            hold.send(()).unwrap();
            // It fails when the other end is dropped.
            let _: Result<(), _> = released.recv();
        });
        held.recv().unwrap();
        release
    }

    /// A measure of the table's lane.
    fn measured(&self, family: &str) -> Measured {
        let lane = ("lane", self.table.lane().name().to_owned());
        let is_it = |measure: &Measure| measure.family == family && measure.labels.contains(&lane);
        self.store.measures().into_iter().find(is_it).unwrap().value
    }

    fn gauge(&self, family: &str) -> f64 {
        match self.measured(family) {
            Measured::Gauge(value) => value,
            other => panic!("{family} is {other:?}"),
        }
    }

    /// The number of writes that were refused because others waited too long.
    fn refused(&self) -> u64 {
        match self.measured("penates_store_writes_refused_total") {
            Measured::Counter(value) => value,
            other => panic!("it is {other:?}"),
        }
    }

    /// Puts a row that lasts, in a task of its own.
    fn putting(&self, id: &'static str) -> JoinHandle<StoreResult<Outcome>> {
        let rows = vec![NewRow::new("", "v")];
        let put = Step::Put { table: self.table, partition: id.into(), rows };
        let store = self.store.clone();
        tokio::spawn(async move { store.run(call(), vec![put]).await })
    }

    /// Waits until so many writes of the table's lane wait for the committer, and until it has
    /// others in its hands or has none.
    async fn until(&self, waiting: f64, is_at_work: bool) {
        let begun = Instant::now();
        while self.gauge("penates_store_writes_waiting") != waiting
            || (self.gauge("penates_store_writes_admitted_bytes") > 0.0) != is_at_work
        {
            assert!(begun.elapsed() < PATIENCE, "{waiting} writes do not wait");
            tokio::task::yield_now().await;
        }
    }

    fn entries(&self, space: Space) -> usize {
        let database = self.store.database().unwrap();
        let view = database.tables.of(Lane::Records).view();
        view.range(space, (Bound::Unbounded, Bound::Unbounded)).unwrap().count()
    }

    /// Bytes of all files of records.
    fn bytes_in_files(&self) -> u64 {
        fn of(folder: &Path) -> u64 {
            let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            // A file may be deleted meanwhile.
            let bytes = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
            all.map(|path| if path.is_dir() { of(&path) } else { bytes(&path) }).sum()
        }
        of(&self.folder.path().join("db/records/keyspaces"))
    }

    async fn expiring(&self) -> Vec<u64> {
        self.store.health().await.expiring
    }
}

#[test]
fn a_sweep_rests_nine_times_as_long_as_its_steps_until_it_is_late() {
    let ms = Duration::from_millis;
    for (step, took, lag, rest) in [
        (ms(2), ms(1), Duration::ZERO, ms(18)),
        (ms(2), ms(1), LAG_MAX, ms(18)),
        (ms(100), ms(1), LAG_MAX, REST_MAX),
        (ms(2), ms(1), LAG_MAX + ms(1), ms(3)),
        (ms(100), ms(90), HOUR, REST_LATE_MAX),
    ] {
        assert_eq!(rest_after(step, Reclaimed { took, lag }), rest, "{step:?} {took:?} {lag:?}");
    }
}

#[tokio::test]
async fn a_record_has_one_entry_however_often_its_expiry_changes() {
    let subject = Subject::new();
    for life in 1..2_000_u64 {
        subject.put("session", Some(HOUR + Duration::from_millis(life * 7_919 % 100_000))).await;
    }
    assert_eq!(subject.entries(Space::Expiries), 1);
    subject.put("session", None).await;
    assert_eq!(subject.entries(Space::Expiries), 0);
    subject.put("session", Some(HOUR)).await;
    subject.put("session", Some(HOUR)).await;
    subject.put("other", Some(HOUR)).await;
    assert_eq!(subject.entries(Space::Expiries), 2);
    subject.remove("other").await;
    assert_eq!(subject.entries(Space::Expiries), 1);
    subject.clock.advance(HOUR);
    assert_eq!(subject.sweep().await, 1);
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
}

#[tokio::test]
async fn lists_of_one_group_leave_the_entry_of_the_last() {
    let subject = Subject::new();
    let puts = (1..200).map(|life| subject.put("session", Some(HOUR + Duration::from_millis(life))));
    join_all(puts).await;
    assert_eq!(subject.entries(Space::Expiries), 1);
    subject.clock.advance(HOUR * 2);
    subject.sweep().await;
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
}

#[tokio::test]
async fn more_than_one_commit_of_expired_rows_are_reclaimed_and_their_lag_is_known() {
    const IDS: usize = 2 * ROWS_PER_COMMIT + 10;
    let subject = Subject::new();
    subject.put_many(IDS).await;
    subject.put("stays", None).await;
    assert_eq!(subject.lag().await, None);
    subject.clock.advance(HOUR + Duration::from_secs(7));
    let tables = subject.store.database().unwrap().tables.of(Lane::Records).clone();
    let mut sweep = RowSweep::begin(&tables);
    assert!(subject.store.sweep_some(call().deadline, Lane::Records, &mut sweep).await.unwrap());
    assert_eq!(subject.entries(Space::Expiries), IDS - ROWS_PER_COMMIT);
    assert_eq!(subject.lag().await, Some(Duration::from_secs(7)), "it is known after each commit");
    drop(sweep);
    assert_eq!(subject.sweep().await, (IDS - ROWS_PER_COMMIT) as u64);
    assert_eq!(subject.lag().await, Some(Duration::from_secs(7)));
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
    assert_eq!(subject.sweep().await, 0);
    assert_eq!(subject.lag().await, Some(Duration::ZERO));
}

#[tokio::test]
async fn a_sweep_that_runs_out_of_time_is_no_failure_and_notes_its_lag() {
    let subject = Subject::new();
    subject.put("session", Some(HOUR)).await;
    subject.clock.advance(HOUR + Duration::from_secs(7));
    let halted = subject.halted();
    // As much time as it takes here to find what has expired.
    let mut time = Duration::from_millis(10);
    while subject.lag().await.is_none() {
        assert!(time < PATIENCE, "nothing is found");
        let call = Call::new(Class::Record, Deadline::within(time));
        assert_eq!(subject.store.sweep(call).await.unwrap(), 0);
        time *= 2;
    }
    assert_eq!(subject.lag().await, Some(Duration::from_secs(7)));
    drop(halted);
    subject.sweep().await;
    assert_eq!(subject.entries(Space::Expiries), 0, "the next sweep continues");
}

#[tokio::test]
async fn a_sweep_that_is_refused_for_the_moment_goes_on_and_one_that_is_refused_all_the_time_has_failed() {
    // A write is refused as long as another one waits.
    let subject = Subject::with(EmbeddedOptions { max_queue_age: Duration::ZERO, ..EmbeddedOptions::default() });
    for id in ["a", "b", "c"] {
        subject.put(id, Some(HOUR)).await;
    }
    subject.clock.advance(HOUR * 2);
    subject.until(0.0, false).await;
    let halted = subject.halted();
    let committed = subject.putting("committed");
    subject.until(0.0, true).await;
    let waiting = subject.putting("waiting");
    subject.until(1.0, true).await;
    // As much time as it takes here to find what has expired.
    let mut time = Duration::from_millis(10);
    let failure = loop {
        match subject.store.sweep(Call::new(Class::Record, Deadline::within(time))).await {
            Ok(swept) => assert_eq!(swept, 0),
            Err(failure) => break failure,
        }
        assert!(time < PATIENCE, "nothing is found");
        time *= 2;
    };
    assert!(matches!(failure, StoreError::Overloaded(_)), "{failure}");
    let (refused, begun) = (subject.refused(), Instant::now());
    let sweep = tokio::spawn({
        let store = subject.store.clone();
        async move { store.sweep(call()).await }
    });
    while subject.refused() < refused + 2 {
        assert!(!sweep.is_finished() && begun.elapsed() < PATIENCE, "it is not tried again");
        tokio::task::yield_now().await;
    }
    drop(halted);
    for write in [committed, waiting] {
        assert!(write.await.unwrap().unwrap().is_applied());
    }
    assert_eq!(sweep.await.unwrap().unwrap(), 3);
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 2));
}

#[tokio::test]
async fn a_lane_that_refuses_all_the_time_does_not_hold_up_the_next_sweep_of_records() {
    let options = EmbeddedOptions { max_queue_age: Duration::ZERO, ..EmbeddedOptions::default() };
    let mut subject = Subject::with(options);
    subject.put("record", Some(HOUR)).await;
    subject.table = Table::Selections;
    subject.put("selection", Some(HOUR)).await;
    subject.clock.advance(HOUR * 2);
    subject.until(0.0, false).await;
    let halted = subject.halted();
    let committed = subject.putting("committed");
    subject.until(0.0, true).await;
    let waiting = subject.putting("waiting");
    subject.until(1.0, true).await;
    let sweep = subject.store.sweep(Call::new(Class::Record, Deadline::within(HOUR)));
    let swept = timeout(PATIENCE, sweep).await.unwrap();
    assert!(matches!(swept, Err(StoreError::Overloaded(_))), "{swept:?}");
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
    drop(halted);
    for write in [committed, waiting] {
        assert!(write.await.unwrap().unwrap().is_applied());
    }
}

#[tokio::test]
async fn a_sweep_of_a_store_that_is_closed_does_not_wait() {
    let subject = Subject::new();
    subject.store.close().await.unwrap();
    let sweep = subject.store.sweep(Call::new(Class::Record, Deadline::within(HOUR)));
    let swept = timeout(PATIENCE, sweep).await.unwrap();
    assert!(matches!(swept, Err(StoreError::Unavailable(_))), "{swept:?}");
}

#[tokio::test]
async fn a_write_that_comes_during_a_sweep_waits_for_one_of_its_commits_only() {
    const IDS: usize = 2 * ROWS_PER_COMMIT;
    let subject = Subject::new();
    subject.put_many(IDS).await;
    let life = HOUR + Duration::from_millis(1);
    let last = PlainValue { value: "v".into(), expires_at: Some(subject.clock.now().plus(life)) };
    subject.put("last", Some(life)).await;
    subject.clock.advance(HOUR * 2);
    subject.until(0.0, false).await;
    let halted = subject.halted();
    let sweep = tokio::spawn({
        let store = subject.store.clone();
        async move { store.sweep(call()).await }
    });
    subject.until(0.0, true).await;
    // It applies only before the last row is removed.
    let replace = Step::Replace {
        table: Table::Records,
        partition: "last".into(),
        sort: Bytes::new(),
        expect: Some(last),
        then: Some(PlainValue { value: "new".into(), expires_at: None }),
    };
    let write = tokio::spawn({
        let store = subject.store.clone();
        async move { store.run(call(), vec![replace]).await }
    });
    subject.until(1.0, true).await;
    drop(halted);
    assert!(write.await.unwrap().unwrap().is_applied());
    assert_eq!(sweep.await.unwrap().unwrap(), IDS as u64);
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
}

#[tokio::test]
async fn what_expires_in_each_coming_hour_is_counted() {
    let mut subject = Subject::new();
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    subject.put("a", minutes(10)).await;
    subject.put("b", minutes(70)).await;
    subject.put("c", minutes(24 * 60)).await;
    subject.put("d", None).await;
    assert!(subject.expiring().await.is_empty(), "nothing was counted yet");
    subject.sweep().await;
    let counts = |first: &[u64]| [first, &vec![0; 24 - first.len()]].concat();
    assert_eq!(subject.expiring().await, counts(&[1, 1]));
    // What changes is counted at once.
    subject.put("a", minutes(80)).await;
    subject.put("d", minutes(130)).await;
    assert_eq!(subject.expiring().await, counts(&[0, 2, 1]));
    subject.remove("b").await;
    subject.put("d", None).await;
    assert_eq!(subject.expiring().await, counts(&[0, 1, 0]));
    // An hour comes within the horizon.
    subject.clock.advance(HOUR);
    subject.sweep().await;
    let mut expected = counts(&[1]);
    expected[23] = 1;
    assert_eq!(subject.expiring().await, expected);
    subject.reopen().await;
    subject.sweep().await;
    assert_eq!(subject.expiring().await, expected);
    subject.clock.advance(HOUR);
    subject.sweep().await;
    assert_eq!(subject.expiring().await[..2], [0, 0]);
}

#[tokio::test]
async fn an_hour_that_was_counted_in_part_is_counted_again_before_its_number_is_too_low() {
    let subject = Subject::new();
    subject.put_many(1_001).await;
    let tables = subject.store.database().unwrap().tables.of(Lane::Records).clone();
    // Without any time one hour is counted, and no more of it than between two looks at the
    // deadline.
    let count = || tables.count_expiring(subject.clock.now(), UnixMillis(0), Deadline::within(Duration::ZERO)).unwrap();
    count();
    count();
    assert_eq!(subject.expiring().await, [0, 1_000]);
    let gone = (0..500).map(|id: u32| subject.remove(id.to_string().leak()));
    join_all(gone).await;
    assert_eq!(subject.expiring().await, [0, 500]);
    subject.sweep().await;
    assert_eq!(subject.expiring().await[..3], [0, 501, 0]);
}

#[tokio::test]
async fn a_sweep_begins_where_the_last_one_ended_and_finds_what_is_due_before_that() {
    let subject = Subject::new();
    let start = subject.clock.now();
    let tables = subject.store.database().unwrap().tables.of(Lane::Records).clone();
    let begins = || expiry::time(&RowSweep::begin(&tables).after.unwrap());
    assert_eq!(begins(), Some(UnixMillis(0)));
    subject.put_many(ROWS_PER_COMMIT + 10).await;
    subject.clock.advance(HOUR * 3);
    assert_eq!(subject.sweep().await, ROWS_PER_COMMIT as u64 + 10);
    assert_eq!(begins(), Some(subject.clock.now()));
    // The clock is set back, and a row expires before that time.
    subject.clock.set(start.plus(HOUR));
    subject.put("early", Some(HOUR)).await;
    subject.clock.advance(HOUR);
    assert_eq!(begins(), Some(subject.clock.now()));
    assert_eq!(subject.sweep().await, 1);
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
}

#[tokio::test]
async fn a_row_that_was_found_before_the_clock_was_set_back_is_found_again() {
    let subject = Subject::new();
    let start = subject.clock.now();
    subject.put("session", Some(HOUR)).await;
    subject.clock.advance(HOUR * 2);
    subject.until(0.0, false).await;
    let halted = subject.halted();
    let committed = subject.putting("committed");
    subject.until(0.0, true).await;
    let sweep = tokio::spawn({
        let store = subject.store.clone();
        async move { store.sweep(call()).await }
    });
    subject.until(1.0, true).await;
    subject.clock.set(start);
    drop(halted);
    assert!(committed.await.unwrap().unwrap().is_applied());
    sweep.await.unwrap().unwrap();
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (1, 2));
    subject.clock.advance(HOUR);
    assert_eq!(subject.sweep().await, 1);
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
}

/// So many records expire.
const MANY: usize = 5_000;

/// A store that has this many expiring records and another one in files, and the bytes of these.
async fn with_many_in_files() -> (Subject, u64) {
    let mut subject = Subject::new();
    subject.put_many(MANY).await;
    subject.put("stays", None).await;
    subject.reopen().await;
    let before = subject.bytes_in_files();
    assert!(before > 100_000, "{before}");
    (subject, before)
}

/// Sweeps until the files of records have at most a fifth of so many bytes.
async fn until_space_comes_back(subject: &Subject, before: u64) {
    let begun = Instant::now();
    while subject.bytes_in_files() > before / 5 {
        assert!(begun.elapsed() < PATIENCE, "{} of {before} bytes are left", subject.bytes_in_files());
        assert_eq!(subject.sweep().await, 0);
    }
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
}

#[tokio::test]
async fn the_space_of_records_comes_back_after_most_have_expired() {
    let (mut subject, before) = with_many_in_files().await;
    subject.clock.advance(HOUR * 2);
    assert_eq!(subject.sweep().await, MANY as u64);
    until_space_comes_back(&subject, before).await;
    subject.reopen().await;
    let stays = subject.store.get(call(), Table::Records, &"stays".into(), &Bytes::new()).await.unwrap();
    assert_eq!(stays.unwrap().value, "v");
    assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
}

#[tokio::test]
async fn the_space_of_records_comes_back_after_a_restart() {
    let (mut subject, before) = with_many_in_files().await;
    let gone = (0..MANY).map(|id| subject.remove(id.to_string().leak()));
    join_all(gone).await;
    subject.reopen().await;
    assert!(subject.bytes_in_files() > before, "nothing is merged yet");
    until_space_comes_back(&subject, before).await;
}

#[tokio::test]
async fn a_sweep_beside_another_one_notes_no_lag() {
    let subject = Subject::new();
    subject.put("session", Some(HOUR)).await;
    subject.clock.advance(HOUR * 2);
    let tables = subject.store.database().unwrap().tables.of(Lane::Records).clone();
    let other = RowSweep::begin(&tables);
    assert_eq!(subject.sweep().await, 0);
    assert_eq!(subject.lag().await, None);
    drop(other);
    assert_eq!(subject.sweep().await, 1);
    assert_eq!(subject.lag().await, Some(HOUR));
}

#[tokio::test]
async fn a_count_of_what_expires_begins_where_sweeps_have_ended() {
    let subject = Subject::new();
    let tables = subject.store.database().unwrap().tables.of(Lane::Records).clone();
    let (now, minutes) = (subject.clock.now(), |minutes: u64| Duration::from_secs(60 * minutes));
    for (id, expires_in) in [("a", 10), ("b", 50), ("c", 70)] {
        subject.put(id, Some(minutes(expires_in))).await;
    }
    subject.clock.advance(minutes(20));
    assert_eq!(subject.sweep().await, 1);
    assert_eq!(tables.first_due().time(), subject.clock.now());
    let sweep = RowSweep::begin(&tables);
    assert_eq!(tables.first_due().time(), UnixMillis(0), "a sweep is at work");
    drop(sweep);
    // As if sweeps had ended later than they have.
    let other = Subject::new();
    let tables = other.store.database().unwrap().tables.of(Lane::Records).clone();
    for (id, expires_in) in [("a", 10), ("b", 50), ("c", 70)] {
        other.put(id, Some(minutes(expires_in))).await;
    }
    tables.count_expiring(now, now.plus(minutes(20)), Deadline::within(HOUR)).unwrap();
    assert_eq!(other.expiring().await[..3], [1, 1, 0]);
}
