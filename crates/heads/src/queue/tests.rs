#![allow(clippy::unwrap_used)]
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use store::copying::LOCAL_PREFIX;
use store::null::NullStore;
use store::{Call, Capabilities, ManualClock, Row, Store, StoreResult, WalkPage, Wrapper};

use super::*;
use crate::chores::Chore;
use crate::options::LibraryOptions;
use crate::path::{PATH_BYTES_MAX, ResourcePath};
use crate::surroundings::Surroundings;

const START: UnixMillis = UnixMillis(1_750_000_000_000);

const MINUTE: Duration = Duration::from_secs(60);

/// It has one shard.
const QUEUE: Queue = Queue::Growing;

/// A store that keeps the mark of [`QUEUE`]. All buckets have the same records, from one on.
struct Marked {
    inner: NullStore,
    empty_before: AtomicU32,
    mark: Mutex<Option<Row>>,
    /// The buckets that were read.
    read: Mutex<BTreeSet<u32>>,
    walks: AtomicUsize,
    writes: AtomicUsize,
}

impl Wrapper for Marked {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn get(&self, _: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        assert_eq!((table, partition), (Table::Work, &keys::low_water_partition()));
        assert_eq!(*sort, keys::low_water(QUEUE.name()));
        Ok(self.mark.lock().clone())
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let buckets = scans.iter().filter_map(|(_, partition, _)| keys::queue_bucket(partition, QUEUE.name()));
        let buckets: Vec<u32> = buckets.collect();
        self.read.lock().extend(&buckets);
        let empty_before = self.empty_before.load(Ordering::Relaxed);
        match buckets.iter().all(|bucket| *bucket < empty_before) {
            true => Ok(vec![Rows::default(); scans.len()]),
            false => self.inner.scan_many(call, scans).await,
        }
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.walks.fetch_add(1, Ordering::Relaxed);
        self.inner.walk(call, table, from, max).await
    }

    async fn run(&self, _: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let mut mark = self.mark.lock();
        for step in steps {
            let Step::CompareAndWrite { sort, expect, guard, value, .. } = step else { panic!("{step:?}") };
            assert!(expect.holds(mark.as_ref()));
            *mark = Some(Row { sort, value, guard: Some(guard), expires_at: None });
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Outcome::Applied)
    }
}

struct Subject {
    heads: Heads,
    store: Arc<Marked>,
    clock: Arc<ManualClock>,
}

impl Subject {
    fn over(inner: NullStore) -> Self {
        let (walks, writes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (mark, read) = (Mutex::new(None), Mutex::new(BTreeSet::new()));
        let store = Arc::new(Marked { inner, empty_before: AtomicU32::new(0), mark, read, walks, writes });
        let clock = Arc::new(ManualClock::new(START));
        let surroundings = Surroundings::of_this_machine(clock.clone());
        let heads = Heads::new(store.clone(), surroundings, LibraryOptions::default());
        Self { heads, store, clock }
    }

    /// A store where a walk finds records in buckets that are so many before the present one.
    fn with_records(buckets_ago: &[u32]) -> Self {
        let partition = |ago: &u32| keys::queue(QUEUE.name(), bucket_of(START) - ago, 0);
        let record = Row { sort: "record".into(), value: Bytes::new(), guard: None, expires_at: None };
        let inner = NullStore::new().with_partitions(Table::Work, buckets_ago.iter().map(partition).collect());
        Self::over(inner.with_rows(Table::Work, vec![record]))
    }

    /// Makes a pass, and returns how many walks and how many writes of the mark that took.
    async fn pass(&self) -> (usize, usize) {
        let mut tally = self.heads.tally(Chore::Growing);
        let mut pass = self.heads.pass(QUEUE).await.unwrap();
        while self.heads.next_due(&mut pass, &mut tally).await.unwrap().is_some() {}
        self.heads.end_pass(pass).await.unwrap();
        self.counted()
    }

    /// Walks and writes of the mark since the last call.
    fn counted(&self) -> (usize, usize) {
        (self.store.walks.swap(0, Ordering::Relaxed), self.store.writes.swap(0, Ordering::Relaxed))
    }

    /// The bucket that the mark names.
    fn marked(&self) -> u32 {
        let row = self.store.mark.lock().clone().unwrap();
        u32::from_be_bytes(envelope::open(ValueKind::LowWater, &row.value).unwrap()[..].try_into().unwrap())
    }

    /// Puts a mark, as another server does.
    fn mark(&self, bucket: u32) {
        let guard = Guard { stamp: self.heads.stamp(), tag: Bytes::new() };
        let value = envelope::seal(ValueKind::LowWater, &bucket.to_be_bytes());
        let row = Row { sort: keys::low_water(QUEUE.name()), value, guard: Some(guard), expires_at: None };
        *self.store.mark.lock() = Some(row);
    }
}

#[tokio::test]
async fn the_first_pass_of_an_idle_queue_leaves_a_mark_and_later_ones_do_not_walk() {
    let subject = Subject::over(NullStore::new());
    assert_eq!(subject.pass().await, (1, 1));
    assert!(subject.marked() < bucket_of(START), "servers still put records there");
    // It is written once in ten minutes: more often it would say the same.
    let mut of_an_hour = (0, 0);
    for _ in 0..60 {
        subject.clock.advance(MINUTE);
        let (walks, writes) = subject.pass().await;
        of_an_hour = (of_an_hour.0 + walks, of_an_hour.1 + writes);
    }
    assert_eq!(of_an_hour, (0, 6));
}

#[tokio::test]
async fn a_mark_that_a_walk_leaves_hides_no_records() {
    let subject = Subject::with_records(&[20]);
    let first = bucket_of(START) - 20;
    for expected in [(1, 1), (0, 0), (0, 0)] {
        assert_eq!(subject.pass().await, expected);
        assert_eq!(subject.marked(), first);
    }
}

#[tokio::test]
async fn a_mark_that_is_far_behind_and_right_is_not_written_again_and_one_above_records_goes_back() {
    let ago = BEHIND_MAX + 100;
    let first = bucket_of(START) - ago;
    let subject = Subject::with_records(&[ago]);
    for expected in [(1, 1), (1, 0), (1, 0)] {
        assert_eq!(subject.pass().await, expected);
        assert_eq!(subject.marked(), first);
    }
    // As a server does whose clock is ahead.
    subject.mark(first + 10);
    assert_eq!(subject.pass().await, (1, 1));
    assert_eq!(subject.marked(), first);
}

#[tokio::test]
async fn after_a_walk_a_pass_reads_only_what_it_found_and_the_mark_moves_up_to_the_first_records() {
    // The first of them is two years old.
    let closed: [u32; 3] = [105_000, 30, 20];
    let subject = Subject::with_records(&closed);
    let (present, open_from) = (bucket_of(START), subject.heads.open_from(START));
    // Its work is done meanwhile.
    subject.store.empty_before.store(present - 30, Ordering::Relaxed);
    assert_eq!(subject.pass().await, (1, 1));
    let found = closed.into_iter().map(|ago| present - ago);
    let expected: BTreeSet<u32> = found.chain(open_from..=present).collect();
    assert_eq!(*subject.store.read.lock(), expected);
    assert_eq!(subject.marked(), present - 30);
    // So is everything else.
    subject.store.empty_before.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(subject.pass().await, (0, 1));
    assert_eq!(subject.marked(), open_from);
}

#[tokio::test]
async fn a_mark_that_a_walk_leaves_moves_past_all_closed_buckets_if_they_are_empty_by_then() {
    let subject = Subject::with_records(&[105_000, 30]);
    subject.store.empty_before.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(subject.pass().await, (1, 1));
    assert_eq!(subject.marked(), subject.heads.open_from(START));
}

#[tokio::test]
async fn a_pass_that_ends_at_a_limit_leaves_a_mark_and_is_no_complete_one() {
    let subject = Subject::with_records(&[30, 20]);
    subject.store.empty_before.store(bucket_of(START) - 20, Ordering::Relaxed);
    let mut tally = subject.heads.tally(Chore::Growing);
    let mut pass = subject.heads.pass(QUEUE).await.unwrap();
    assert!(subject.heads.next_due(&mut pass, &mut tally).await.unwrap().is_some());
    subject.heads.leave_pass(pass).await.unwrap();
    assert_eq!((subject.counted(), subject.marked()), ((1, 1), bucket_of(START) - 20));
    assert_eq!(subject.heads.due_work(QUEUE), Due::default());
    assert_eq!(subject.pass().await, (0, 0), "the next one walks");
    assert!(subject.heads.due_work(QUEUE).records > 0);
}

/// A store that several servers share. It notes the steps of each write.
struct Shared {
    inner: NullStore,
    ran: Mutex<Vec<Step>>,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { inner: NullStore::new(), ran: Mutex::new(Vec::new()) })
    }
}

impl Wrapper for Shared {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, ..self.inner.capabilities() }
    }

    async fn run(&self, _: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        self.ran.lock().extend(steps);
        Ok(Outcome::Applied)
    }
}

/// Records changes of one resource with a long path, until so many bytes are recorded. Returns the
/// bytes in each partition, by bucket and shard.
fn recorded(heads: &Heads, bytes: u64) -> BTreeMap<(u32, u8), u64> {
    let name = "n".repeat(127);
    let path = ResourcePath::of_names(std::iter::repeat_n(&*name, PATH_BYTES_MAX / 128)).unwrap();
    let mut recorded: BTreeMap<(u32, u8), u64> = BTreeMap::new();
    while recorded.values().sum::<u64>() < bytes {
        let sort = keys::superseded(heads.revisions().mint(), &path);
        let subject = path.as_str().as_bytes();
        let record = heads.queued(Queue::Superseded, heads.now(), subject, sort, Bytes::from_static(&[0; 7]));
        let Step::Put { partition, rows, .. } = record.put() else { panic!() };
        let bucket = keys::queue_bucket(&partition, Queue::Superseded.name()).unwrap();
        let row = row_bytes(&rows[0].sort, rows[0].value.len());
        *recorded.entry((bucket, *partition.last().unwrap())).or_default() += row;
    }
    recorded
}

#[test]
fn what_one_server_records_of_one_subject_fills_no_partition_beyond_its_share_and_the_rest_is_due_later() {
    let clock = Arc::new(ManualClock::new(START));
    let heads = |store: Arc<dyn Store>| {
        Heads::new(store, Surroundings::of_this_machine(clock.clone()), LibraryOptions::default())
    };
    let shared = heads(Shared::new());
    let (present, shards) = (bucket_of(START), u64::from(Queue::Superseded.shards()));
    // A little is in one partition, however often it is recorded.
    let mut partitions = recorded(&shared, SHARE_BYTES / 2);
    assert_eq!(partitions.keys().map(|(bucket, _)| *bucket).collect::<Vec<_>>(), [present]);
    for (partition, bytes) in recorded(&shared, shards * SHARE_BYTES) {
        *partitions.entry(partition).or_default() += bytes;
    }
    assert!(partitions.values().all(|bytes| *bytes <= SHARE_BYTES), "{partitions:?}");
    let of_bucket = |bucket| partitions.keys().filter(|(of, _)| *of == bucket).count() as u64;
    assert_eq!((of_bucket(present), of_bucket(present + 2)), (shards, 0));
    assert!((1..shards).contains(&of_bucket(present + 1)), "{partitions:?}");
    // What is over is forgotten, and what is to come is not.
    clock.advance(BUCKET);
    assert_eq!(shared.inner.filled.0.lock().keys().map(|(bucket, _)| *bucket).min(), Some(present));
    recorded(&shared, 1);
    assert_eq!(shared.inner.filled.0.lock().keys().map(|(bucket, _)| *bucket).min(), Some(present + 1));
    // No other process has to find room in a store of its own.
    assert_eq!(recorded(&heads(Arc::new(NullStore::new())), 2 * SHARE_BYTES).len(), 1);
}

#[test]
fn a_record_as_large_as_a_share_finds_a_place_and_so_does_one_in_the_last_bucket() {
    let filled = Filled::default();
    for bucket in [7, 8] {
        assert_eq!(filled.place(QUEUE, (7, 0), u64::MAX, 7), (bucket, 0));
    }
    assert_eq!(filled.place(QUEUE, (u32::MAX, 0), SHARE_BYTES, 7), (u32::MAX, 0));
    assert_eq!(filled.place(QUEUE, (u32::MAX, 0), 1, 7), (u32::MAX, 0), "there is no later bucket");
}

#[tokio::test]
async fn a_record_that_would_be_moved_to_where_it_is_stays_there() {
    let (store, clock) = (Shared::new(), Arc::new(ManualClock::new(START)));
    let heads = Heads::new(store.clone(), Surroundings::of_this_machine(clock), LibraryOptions::default());
    let present = bucket_of(START);
    // The clock was set back after the record was read, and what is before its bucket is full.
    heads.inner.filled.place(QUEUE, (present + 1, 0), SHARE_BYTES, present);
    let entry = |bucket| WorkEntry {
        queue: QUEUE,
        bucket,
        partition: keys::queue(QUEUE.name(), bucket, 0),
        sort: Bytes::from_static(b"record"),
        value: Bytes::new(),
    };
    let until = START.plus(BUCKET);
    let written = || -> Vec<Bytes> {
        std::mem::take(&mut *store.ran.lock()).iter().map(|step| step.partition().clone()).collect()
    };
    heads.postpone(&[entry(present + 2)], b"", until).await.unwrap();
    assert_eq!(written(), Vec::<Bytes>::new());
    heads.postpone(&[entry(present)], b"", until).await.unwrap();
    assert_eq!(written(), [present + 2, present].map(|bucket| keys::queue(QUEUE.name(), bucket, 0)));
}

#[test]
fn marks_are_not_copied_to_another_store() {
    assert!(keys::low_water_partition().starts_with(LOCAL_PREFIX));
}

#[test]
fn a_bucket_is_open_while_a_switch_may_put_records_there_however_short_a_call_is() {
    let (call_timeout, clock_skew_max) = (Duration::from_millis(1), Duration::ZERO);
    let options = LibraryOptions { call_timeout, clock_skew_max, switch_within: MINUTE, ..LibraryOptions::default() };
    let surroundings = Surroundings::of_this_machine(Arc::new(ManualClock::new(START)));
    let heads = Heads::new(Arc::new(NullStore::new()), surroundings, options);
    // Its last record is made at the end of the bucket.
    let (bucket, end) = (bucket_of(START), begin_of(bucket_of(START) + 1));
    assert_eq!(heads.open_from(end.plus(MINUTE)), bucket);
    assert_eq!(heads.open_from(end.plus(2 * MINUTE)), bucket + 1);
}
