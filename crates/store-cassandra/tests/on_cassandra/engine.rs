//! Promises beyond the suite: several servers with different clocks, heads inside removed ranges,
//! contents of several parts, and clear errors for a wrong set-up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::Cassandra;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use scylla::client::session_builder::SessionBuilder;
use store::suite::Subject;
use store::{
    Call, Class, Clock, ContentId, Deadline, Direction, Durability, Expect, Guard, Lane, ManualClock, Measured, NewRow,
    Outcome, PlainValue, Removal, Row, Scan, Stamp, Step, Store, StoreError, StoreResult, SystemClock, Table,
    UnixMillis, read_only,
};
use store_cassandra::testing::{fresh_options, shared_store};
use store_cassandra::{CassandraOptions, CassandraStore, ClassLevels, Initialised, Level, Levels, Replication};

const HOUR: Duration = Duration::from_secs(3_600);

const HOUR_MS: u64 = 3_600_000;

const TABLE: Table = Table::Objects;
const HEAD: Bytes = Bytes::from_static(b"\0");
const PARTITION: Bytes = Bytes::from_static(b"p");

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(30)))
}

fn put(rows: Vec<NewRow>) -> Step {
    Step::Put { table: TABLE, partition: PARTITION, rows }
}

fn remove(rows: Removal) -> Step {
    Step::Remove { table: TABLE, partition: PARTITION, rows }
}

fn write_head(sort: Bytes, expect: Expect, stamp: Stamp, value: u64) -> Step {
    let guard = Guard { stamp, tag: Bytes::new() };
    let value = Bytes::copy_from_slice(&value.to_be_bytes());
    Step::CompareAndWrite { table: TABLE, partition: PARTITION, sort, expect, guard, value }
}

async fn applied(store: &dyn Store, steps: Vec<Step>) {
    let outcome = store.run(call(), steps).await.unwrap();
    assert!(outcome.is_applied(), "{outcome:?}");
}

async fn get(store: &dyn Store, sort: &[u8]) -> Option<Row> {
    store.get(call().strong(), TABLE, &PARTITION, &Bytes::copy_from_slice(sort)).await.unwrap()
}

async fn sorts(store: &dyn Store) -> Vec<Bytes> {
    let all = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 << 20 };
    store.scan(call().strong(), TABLE, &PARTITION, all).await.unwrap().rows.into_iter().map(|row| row.sort).collect()
}

/// A clock that runs at the normal pace but is wrong by this much.
struct Wrong {
    ahead_ms: i64,
}

impl Clock for Wrong {
    fn now(&self) -> UnixMillis {
        UnixMillis(SystemClock.now().0.saturating_add_signed(self.ahead_ms))
    }
}

async fn opened(options: &CassandraOptions, ahead_ms: i64) -> Arc<dyn Store> {
    CassandraStore::open(options.clone(), Arc::new(Wrong { ahead_ms })).await.unwrap()
}

/// Adds one to the head's count until that is applied. It finds out outcomes as the protocols do:
/// a writer that replaces a head logs it first, so that its own stamp is in the head or in the log.
/// Returns every stamp that was refused, and the one that was applied.
async fn add_one(store: &dyn Store) -> (Vec<Stamp>, Stamp) {
    let mut refused = Vec::new();
    loop {
        let head = get(store, &HEAD).await;
        let count = head.as_ref().map_or(0, |row| u64::from_be_bytes(row.value[..].try_into().unwrap()));
        let current = head.map(|row| row.guard.unwrap().stamp);
        let stamp = Stamp::fresh();
        let entry = current.map(|current| put(vec![NewRow::new(log_key(current), "")]));
        let head = write_head(HEAD, current.map_or(Expect::Absent, Expect::Stamp), stamp, count + 1);
        match store.run(call(), entry.into_iter().chain([head]).collect()).await {
            Ok(Outcome::Applied) => return (refused, stamp),
            Ok(Outcome::Unknown { .. }) if is_there(store, stamp).await => return (refused, stamp),
            Ok(Outcome::Refused { .. } | Outcome::Unknown { .. }) => refused.push(stamp),
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
    }
}

/// Whether a head of this stamp was ever written: it stands, or was replaced.
async fn is_there(store: &dyn Store, stamp: Stamp) -> bool {
    let current = get(store, &HEAD).await.and_then(|row| row.guard);
    current.is_some_and(|guard| guard.stamp == stamp) || get(store, &log_key(stamp)).await.is_some()
}

fn log_key(stamp: Stamp) -> Vec<u8> {
    [&[1], &stamp.0[..]].concat()
}

/// Rows of one list may belong to several classes: an import's last list contains page text, and a
/// copy is sent as content. A strong read can miss a row that is written at another level than it
/// is read at, and the row would be taken for damaged.
#[tokio::test(flavor = "multi_thread")]
async fn each_row_is_written_at_the_level_of_its_own_class_in_any_list() {
    let Some(options) = fresh_options().await else { return };
    // Content needs two replicas, but there is only one.
    let session = SessionBuilder::new().known_node(options.address.hosts()[0].clone()).build().await.unwrap();
    let keyspace = options.address.keyspace();
    let two =
        format!("ALTER KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': '2'}}");
    session.query_unpaged(two, ()).await.unwrap();
    let levels = Levels {
        description: ClassLevels::both(Level::One),
        content: ClassLevels { read: Level::One, write: Level::Two },
        ..Levels::default()
    };
    let store = CassandraStore::open(CassandraOptions { levels, ..options }, Arc::new(SystemClock)).await.unwrap();
    for class in [Class::Description, Class::Content] {
        let run = async |table: Table, seconds: u64| {
            let call = Call::new(class, Deadline::within(Duration::from_secs(seconds)));
            let step = Step::Put { table, partition: PARTITION, rows: vec![NewRow::new("sort", "value")] };
            store.run(call, vec![step]).await
        };
        let description = run(Table::Objects, 60).await;
        assert!(matches!(description, Ok(Outcome::Applied)), "{class:?}: {description:?}");
        let content = run(Table::Packs, 5).await;
        assert!(!matches!(content, Ok(Outcome::Applied)), "{class:?}: page text is written at another level");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_whose_clocks_are_seconds_apart_lose_no_update() {
    let Some(options) = fresh_options().await else { return };
    let stores = [opened(&options, -7_000).await, opened(&options, 0).await, opened(&options, 7_000).await];
    let times = 10;
    let writers = stores.iter().map(|store| {
        let store = store.clone();
        tokio::spawn(async move { stream::iter(0..times).then(|_| add_one(store.as_ref())).collect::<Vec<_>>().await })
    });
    let (mut applied, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for writer in writers.collect::<Vec<_>>() {
        for (lost, won) in writer.await.unwrap() {
            refused.extend(lost);
            applied.insert(won);
        }
    }
    assert_eq!(applied.len(), times * stores.len());
    for store in &stores {
        let head = get(store.as_ref(), &HEAD).await.unwrap();
        assert_eq!(u64::from_be_bytes(head.value[..].try_into().unwrap()), applied.len() as u64);
        let logged: BTreeSet<Bytes> = sorts(store.as_ref()).await.into_iter().filter(|sort| *sort != HEAD).collect();
        let replaced = applied.iter().filter(|stamp| **stamp != head.guard.as_ref().unwrap().stamp);
        assert_eq!(logged, replaced.map(|stamp| Bytes::from(log_key(*stamp))).collect());
        assert!(refused.iter().all(|stamp| !logged.contains(&log_key(*stamp)[..])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_lags_removes_rows_of_one_ahead_and_can_put_them_again() {
    let Some(options) = fresh_options().await else { return };
    let (ahead, behind) = (opened(&options, 60_000).await, opened(&options, -60_000).await);
    let rows = || ["a", "b", "c"].map(|sort| NewRow::new(sort, "v")).to_vec();
    applied(ahead.as_ref(), vec![put(rows())]).await;
    applied(behind.as_ref(), vec![remove(Removal::Rows(vec!["a".into()]))]).await;
    assert_eq!(sorts(ahead.as_ref()).await, ["b", "c"]);
    applied(behind.as_ref(), vec![remove(Removal::Range("b".into(), None))]).await;
    assert!(sorts(ahead.as_ref()).await.is_empty());
    applied(behind.as_ref(), vec![put(rows())]).await;
    assert_eq!(sorts(ahead.as_ref()).await, ["a", "b", "c"], "acknowledged, and shadowed by the removal");
}

#[tokio::test]
async fn heads_stay_wherever_they_are_in_a_removed_range() {
    let Some(subject) = Cassandra::bare().await else { return };
    let store = subject.store();
    let heads = ["a", "c", "c\0", "e", "m0300"];
    for head in heads {
        applied(store.as_ref(), vec![write_head(head.into(), Expect::Absent, Stamp::fresh(), 1)]).await;
    }
    let mut rows: Vec<NewRow> = ["", "b", "c\0\0", "d", "f", "z"].map(|sort| NewRow::new(sort, "v")).to_vec();
    rows.extend((0..600).map(|number| NewRow::new(format!("m{number:04}x"), "v")));
    applied(store.as_ref(), vec![put(rows.clone())]).await;
    applied(store.as_ref(), vec![remove(Removal::Range("b".into(), Some("n".into())))]).await;
    assert_eq!(sorts(store.as_ref()).await, ["", "a", "c", "c\0", "e", "m0300", "z"]);
    applied(store.as_ref(), vec![remove(Removal::Range("".into(), None))]).await;
    assert_eq!(sorts(store.as_ref()).await, heads);
}

/// The content has more than two parts and is read from within one into the next. Its deletion has
/// begun with the first part, as an earlier program did it.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_of_several_parts_is_read_back_and_deleted_completely_also_after_an_interruption() {
    let Some(subject) = Cassandra::bare().await else { return };
    let store = subject.store();
    let piece =
        Bytes::from((0..1_000_003_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>());
    let pieces = 70;
    let content = stream::iter(vec![piece.clone(); pieces]).map(Ok).boxed();
    let id = store.put_content(call(), "owner".into(), content).await.unwrap();
    let begins = 31_999_000_u64;
    let read = store.read_content(call(), id, begins..begins + 3_000_000).await.unwrap().unwrap();
    let read: Vec<Bytes> = read.try_collect().await.unwrap();
    let whole = piece.repeat(36);
    assert!(read.concat() == whole[begins as usize..begins as usize + 3_000_000], "other bytes came back");

    let raw = SessionBuilder::new().known_nodes(subject.options().address.hosts()).build().await.unwrap();
    let keyspace = subject.options().address.keyspace();
    let parts = async || {
        let select = format!("SELECT DISTINCT content, part FROM {keyspace}.content_chunks");
        raw.query_unpaged(select, ()).await.unwrap().into_rows_result().unwrap().rows_num()
    };
    assert_eq!(parts().await, 3);
    assert!(store.condemn_content(call(), id).await.unwrap());
    let first = format!("DELETE FROM {keyspace}.content_chunks WHERE content = 0x{id} AND part = 0");
    raw.query_unpaged(first, ()).await.unwrap();
    assert_eq!(parts().await, 2);
    assert!(store.delete_content(call(), id).await.unwrap());
    assert_eq!(parts().await, 0);
    assert_eq!(store.content_header(call(), id).await.unwrap(), None);
}

/// Very many such clients would otherwise hold up everybody else.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_go_on_reading_a_content_hold_no_place_among_the_requests() {
    let Some(store) = shared_store(Arc::new(SystemClock)).await else { return };
    let (len, begin) = (1_u64 << 20, 128_u64 << 10);
    let content = stream::iter([Ok(Bytes::from(vec![7_u8; len as usize]))]).boxed();
    let id = store.put_content(call(), "owner".into(), content).await.unwrap();
    let mut reading = Vec::new();
    for _ in 0..8 {
        let mut content = store.read_content(call(), id, 0..len).await.unwrap().unwrap();
        assert_eq!(content.next().await.unwrap().unwrap().len() as u64, begin);
        reading.push(content);
    }
    let at_work = || {
        let measures = store.measures().into_iter();
        measures.filter(|measure| measure.family == "penates_cassandra_requests_at_work").map(|measure| measure.value)
    };
    assert_eq!(at_work().count(), 1);
    let deadline = Instant::now() + Duration::from_secs(30);
    while at_work().any(|requests| requests != Measured::Gauge(0.0)) {
        assert!(Instant::now() < deadline, "requests keep their places");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for rest in reading {
        let rest: Vec<Bytes> = rest.try_collect().await.unwrap();
        assert_eq!(rest.iter().map(Bytes::len).sum::<usize>() as u64, len - begin);
    }
}

/// A copy deletes what an interrupted one has left of a content, and then stores it under its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_lags_deletes_a_content_of_one_ahead_and_can_store_it_again() {
    let Some(options) = fresh_options().await else { return };
    let (ahead, behind) = (opened(&options, 60_000).await, opened(&options, -60_000).await);
    let content = || stream::iter([Bytes::from_static(b"text")]).map(Ok).boxed();
    let id = ahead.put_content(call(), "owner".into(), content()).await.unwrap();
    assert!(behind.condemn_content(call(), id).await.unwrap());
    assert!(behind.delete_content(call(), id).await.unwrap());
    behind.put_content_as(call(), id, "owner".into(), content()).await.unwrap();
    let read = ahead.read_content(call(), id, 0..4).await.unwrap().unwrap();
    let read: Vec<Bytes> = read.try_collect().await.unwrap();
    assert_eq!(read.concat(), b"text", "acknowledged, and shadowed by the removal");
}

async fn open(options: CassandraOptions) -> StoreResult<Arc<CassandraStore>> {
    CassandraStore::open(options, Arc::new(SystemClock)).await
}

#[tokio::test]
async fn a_schema_of_another_version_is_refused_and_not_changed() {
    let Some(options) = fresh_options().await else { return };
    let raw = SessionBuilder::new().known_nodes(options.address.hosts()).build().await.unwrap();
    let keyspace = options.address.keyspace();
    let set = async |value: &str| {
        let update = format!("UPDATE {keyspace}.meta SET value = '{value}' WHERE key = 'format'");
        raw.query_unpaged(update, ()).await.unwrap();
    };
    set("penates-keyspace 99").await;
    let refused = open(options.clone()).await.err().unwrap();
    assert!(matches!(&refused, StoreError::Format { found, .. } if found == "penates-keyspace 99"), "{refused}");
    assert!(CassandraStore::initialise(&options, None, false).await.is_err());
    // Builds before 0.1.0 wrote a number, which is no level.
    for number in ["1", "5", "11"] {
        set(number).await;
        let opened = open(options.clone()).await.err();
        let raised = CassandraStore::raise_level(&options, &SystemClock).await.err();
        for refused in [opened, raised] {
            assert!(matches!(refused, Some(StoreError::Unreleased { .. })), "{refused:?}");
        }
        assert!(CassandraStore::initialise(&options, None, false).await.is_err());
        let rows = raw.query_unpaged(format!("SELECT key, value FROM {keyspace}.meta"), ()).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let rows: Vec<(String, String)> = rows.rows().unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, [("format".to_owned(), number.to_owned())], "something was written");
    }
}

#[tokio::test]
async fn an_existing_store_is_not_made_again_and_keeps_its_replication() {
    let Some(options) = fresh_options().await else { return };
    let again = CassandraStore::initialise(&options, Some(&Replication::one("dc1", 1)), false).await.unwrap();
    assert_eq!(again, Initialised::WasThere);
}

#[tokio::test]
async fn a_clock_that_is_far_from_the_nodes_is_refused() {
    let Some(options) = fresh_options().await else { return };
    let options = CassandraOptions { clock_skew_max: Some(10 * HOUR), ..options };
    open(options.clone()).await.unwrap();
    // By more than half of what two servers may differ by.
    for now in [SystemClock.now().0 - 6 * HOUR_MS, SystemClock.now().0 + 6 * HOUR_MS] {
        let clock = Arc::new(ManualClock::new(UnixMillis(now)));
        let refused = CassandraStore::open(options.clone(), clock.clone()).await.err().unwrap();
        assert!(matches!(&refused, StoreError::Invalid(why) if why.contains("clock")), "{refused}");
        let refused = CassandraStore::raise_level(&options, clock.as_ref()).await.err().unwrap();
        assert!(matches!(&refused, StoreError::Invalid(why) if why.contains("clock")), "{refused}");
    }
}

#[tokio::test]
async fn a_store_whose_clock_has_gone_wrong_switches_no_heads_and_goes_on_reading() {
    let Some(options) = fresh_options().await else { return };
    let options = CassandraOptions { clock_skew_max: Some(10 * HOUR), ..options };
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let store = CassandraStore::open(options, clock.clone()).await.unwrap();
    let first = Stamp::fresh();
    applied(store.as_ref(), vec![write_head(HEAD, Expect::Absent, first, 1)]).await;
    // Its lease has ended since, so the next call renews it first.
    clock.advance(6 * HOUR);
    assert!(get(store.as_ref(), &HEAD).await.is_some());
    let switch = write_head(HEAD, Expect::Stamp(first), Stamp::fresh(), 2);
    let refused = store.run(call(), vec![switch]).await.unwrap_err();
    assert!(matches!(&refused, StoreError::ReadOnly(why) if why.contains("clock")), "{refused}");
    assert!(matches!(store.check_home(), Err(StoreError::ReadOnly(_))), "nothing is repaired");
    let by_clock = Call { is_by_clock: true, ..call() };
    let record = Step::Put { table: Table::Records, partition: PARTITION, rows: vec![NewRow::new("a", "v")] };
    assert!(matches!(store.run(by_clock, vec![record]).await, Err(StoreError::ReadOnly(_))), "it would hide others");
    assert_eq!(store.sweep(call()).await.unwrap(), 0);
    let refusing: Vec<Lane> = store.health().await.refusing_writes.into_keys().collect();
    assert_eq!(refusing, [Lane::Text, Lane::Records]);
}

#[tokio::test]
async fn an_upload_of_a_server_whose_clock_is_behind_is_not_ended_by_another_one() {
    let Some(options) = fresh_options().await else { return };
    let options = CassandraOptions { clock_skew_max: Some(10 * HOUR), ..options };
    let open = async |ms| {
        let clock = Arc::new(ManualClock::new(UnixMillis(ms)));
        CassandraStore::open(options.clone(), clock).await.unwrap()
    };
    let now = SystemClock.now().0;
    let (behind, ahead) = (open(now - 2 * HOUR_MS).await, open(now + 2 * HOUR_MS).await);
    let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
    let rest = stream::once(async move {
        wait.await.unwrap();
        Ok(Bytes::from_static(b"xt"))
    });
    let content = stream::iter([Ok(Bytes::from_static(b"te"))]).chain(rest).boxed();
    let patient = Call { deadline: Deadline::within(HOUR), ..call() };
    let uploading = tokio::spawn(async move { behind.put_content(patient, "owner".into(), content).await });
    let deadline = Instant::now() + Duration::from_secs(60);
    let id = loop {
        let page = ahead.walk(call(), Table::Contents, None, 1).await.unwrap();
        if let Some(partition) = page.partitions.first() {
            break ContentId(partition[..].try_into().unwrap());
        }
        assert!(Instant::now() < deadline, "the upload does not begin");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(!ahead.condemn_content(call(), id).await.unwrap());
    assert_eq!(ahead.sweep(call()).await.unwrap(), 0);
    go_on.send(()).unwrap();
    assert_eq!(uploading.await.unwrap().unwrap(), id);
}

#[tokio::test]
async fn levels_that_the_replicas_can_never_meet_are_refused() {
    let Some(options) = fresh_options().await else { return };
    let levels = Levels { audit: ClassLevels { read: Level::One, write: Level::Two }, ..Levels::default() };
    let refused = open(CassandraOptions { levels, ..options }).await.err().unwrap().to_string();
    assert!(refused.contains("TWO") && refused.contains("Audit"), "{refused}");
}

#[tokio::test]
async fn every_level_that_one_replica_meets_reads_what_it_wrote() {
    let Some(options) = fresh_options().await else { return };
    for level in [Level::One, Level::Quorum, Level::All, Level::LocalQuorum, Level::EachQuorum, Level::LocalOne] {
        let levels = Levels { description: ClassLevels::both(level), ..Levels::default() };
        let store = open(CassandraOptions { levels, ..options.clone() }).await.unwrap();
        let sort = level.to_string();
        applied(store.as_ref(), vec![put(vec![NewRow::new(sort.clone(), "v")])]).await;
        assert!(get(store.as_ref(), sort.as_bytes()).await.is_some(), "{level}");
        let usual = store.get(call(), TABLE, &PARTITION, &Bytes::from(sort)).await.unwrap();
        assert!(usual.is_some(), "{level}");
    }
}

#[tokio::test]
async fn an_unreachable_cluster_is_reported_in_time() {
    let address = "cassandra://127.0.0.1:1/books".parse().unwrap();
    let options = CassandraOptions { connect_timeout: Duration::from_secs(5), ..CassandraOptions::new(address) };
    let began = Instant::now();
    let error = open(options).await.err().unwrap();
    assert!(matches!(&error, StoreError::Unavailable(_)) && error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn with_one_copy_a_write_that_must_survive_a_power_failure_is_refused() {
    let Some(subject) = Cassandra::bare().await else { return };
    let write = vec![put(vec![NewRow::new("a", "v")])];
    let refused = subject.store().run(call().durable(Durability::Synced), write).await.unwrap_err();
    assert!(matches!(refused, StoreError::NotDurable { given: Durability::Written, .. }), "{refused}");
}

/// An `INSERT` without a time to live would leave a row without a value for ever.
#[tokio::test]
async fn cassandra_deletes_all_of_a_replaced_row_after_it_has_expired() {
    let Some(options) = fresh_options().await else { return };
    let store = open(options.clone()).await.unwrap();
    let table = Table::Records;
    let lasts = Some(PlainValue { value: "lasts".into(), expires_at: None });
    let ends = Some(PlainValue { value: "ends".into(), expires_at: Some(SystemClock.now().plus(HOUR)) });
    // Not by a put first: that has the microsecond of its client, and a compare-and-write has the
    // millisecond of its node, which may be earlier.
    for (expect, then) in [(None, lasts.clone()), (lasts, ends)] {
        applied(store.as_ref(), vec![Step::Replace { table, partition: PARTITION, sort: "a".into(), expect, then }])
            .await;
    }

    let raw = SessionBuilder::new().known_nodes(options.address.hosts()).build().await.unwrap();
    let records = format!("{}.{table}", options.address.keyspace());
    let left = raw.query_unpaged(format!("SELECT TTL(value) FROM {records}"), ()).await.unwrap();
    let (seconds,) = left.into_rows_result().unwrap().single_row::<(i32,)>().unwrap();
    let (least, most) = (HOUR.as_secs(), 2 * HOUR.as_secs());
    assert!((least..=most).contains(&u64::try_from(seconds).unwrap()), "{seconds} s");

    // As when its time to live has passed.
    let delete = format!("DELETE value FROM {records} WHERE partition = ? AND sort = ?");
    let stored_partition = [&[1], &PARTITION[..]].concat();
    raw.query_unpaged(delete, (stored_partition, b"a".to_vec())).await.unwrap();
    let rows = raw.query_unpaged(format!("SELECT partition FROM {records}"), ()).await.unwrap();
    assert_eq!(rows.into_rows_result().unwrap().rows_num(), 0);
}

/// Runs a list on a record, which counts by the clock.
async fn by_clock(store: &dyn Store, step: impl FnOnce(Table, Bytes) -> Step) {
    let outcome = store.run(call().by_clock(), vec![step(Table::Records, PARTITION)]).await.unwrap();
    assert!(outcome.is_applied(), "{outcome:?}");
}

async fn put_by_clock(store: &dyn Store, value: &'static str) {
    let rows = vec![NewRow::new("a", value)];
    by_clock(store, |table, partition| Step::Put { table, partition, rows }).await;
}

async fn replace_by_clock(store: &dyn Store, expect: &'static str, then: &'static str) {
    let [expect, then] = [expect, then].map(|value| Some(PlainValue { value: value.into(), expires_at: None }));
    by_clock(store, |table, partition| Step::Replace { table, partition, sort: "a".into(), expect, then }).await;
}

async fn record(store: &dyn Store) -> Option<Bytes> {
    let found = store.get(call().strong(), Table::Records, &PARTITION, &"a".into()).await.unwrap();
    found.map(|row| row.value)
}

/// A server that sets an expiry reads the value and writes it again. Another write may have an
/// earlier time than the clock of that server shows, and must win all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_by_the_clock_loses_against_every_other_write() {
    let Some(options) = fresh_options().await else { return };
    let (usual, ahead) = (opened(&options, 0).await, opened(&options, 60_000).await);
    put_by_clock(usual.as_ref(), "usual").await;
    replace_by_clock(ahead.as_ref(), "usual", "replaced").await;
    put_by_clock(usual.as_ref(), "later").await;
    assert_eq!(record(usual.as_ref()).await.unwrap(), "later");
    // What is replaced keeps its place among the writes.
    put_by_clock(ahead.as_ref(), "ahead").await;
    replace_by_clock(usual.as_ref(), "ahead", "replaced").await;
    put_by_clock(opened(&options, 30_000).await.as_ref(), "between").await;
    assert_eq!(record(usual.as_ref()).await.unwrap(), "replaced");
    let (latest, rows) = (opened(&options, 90_000).await, Removal::Range(Bytes::new(), None));
    by_clock(latest.as_ref(), |table, partition| Step::Remove { table, partition, rows }).await;
    assert_eq!(record(usual.as_ref()).await, None);
}

/// A server with a wrong clock puts a record of work, and another one removes it, whose clock is
/// right and stays so.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_removes_what_a_wrong_clock_wrote_does_not_take_its_time() {
    let Some(options) = fresh_options().await else { return };
    let (wrong, right) = (opened(&options, 3_600_000).await, opened(&options, 0).await);
    for rows in [Removal::Rows(vec!["a".into()]), Removal::Range("a".into(), None)] {
        applied(wrong.as_ref(), vec![put(vec![NewRow::new("a", "v")])]).await;
        applied(right.as_ref(), vec![remove(rows)]).await;
    }
    put_by_clock(right.as_ref(), "earlier").await;
    put_by_clock(opened(&options, 1_000).await.as_ref(), "later").await;
    assert_eq!(record(right.as_ref()).await.unwrap(), "later");
    // Usual rows that it puts again count, as ever.
    applied(right.as_ref(), vec![put(vec![NewRow::new("a", "again")])]).await;
    assert_eq!(get(right.as_ref(), b"a").await.unwrap().value, "again");
}

/// Otherwise an acknowledged `read-only on` would have no effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_becomes_read_only_whatever_the_clock_of_the_server_that_said_so_before() {
    let Some(options) = fresh_options().await else { return };
    let [ahead, usual, behind] = [60_000, 0, -60_000].map(|ahead_ms| opened(&options, ahead_ms));
    let (ahead, usual, behind) = (ahead.await, usual.await, behind.await);
    let reason = async || read_only::reason(usual.as_ref()).await.unwrap();
    for (store, said) in
        [(&ahead, Some("first")), (&usual, None), (&behind, Some("second")), (&behind, None), (&usual, Some("third"))]
    {
        read_only::set(store.as_ref(), said).await.unwrap();
        assert_eq!(reason().await.as_deref(), said);
    }
    // A reason takes the place of another one without a gap, so the later write time counts.
    read_only::set(ahead.as_ref(), Some("fourth")).await.unwrap();
    let hidden = read_only::set(opened(&options, 0).await.as_ref(), Some("fifth")).await;
    assert!(matches!(&hidden, Err(StoreError::Unavailable(why)) if why.contains("fourth")), "{hidden:?}");
    read_only::set(usual.as_ref(), None).await.unwrap();
    // As an earlier program with a clock that was ahead removed it.
    let raw = SessionBuilder::new().known_nodes(options.address.hosts()).build().await.unwrap();
    let (keyspace, at) = (options.address.keyspace(), (SystemClock.now().0 + 3_600_000) * 1_000);
    let removed = format!("DELETE FROM {keyspace}.work USING TIMESTAMP {at} WHERE partition = ? AND sort = ?");
    let stored_partition = [&[1], &read_only::PARTITION[..]].concat();
    raw.query_unpaged(removed, (stored_partition, b"reason".to_vec())).await.unwrap();
    let hidden = read_only::set(usual.as_ref(), Some("sixth")).await;
    assert!(matches!(&hidden, Err(StoreError::Unavailable(why)) if why.contains("clock")), "{hidden:?}");
}

/// Both clocks stand still, so that no time that the test takes lets one overtake the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_on_after_what_it_replaced_unless_another_clock_is_far_ahead() {
    let Some(options) = fresh_options().await else { return };
    let now = SystemClock.now();
    let stopped =
        async |ahead| CassandraStore::open(options.clone(), Arc::new(ManualClock::new(now.plus(ahead)))).await.unwrap();
    let usual = stopped(Duration::ZERO).await;
    for (ahead, last) in [(Duration::from_millis(500), "next"), (Duration::from_secs(60), "replaced")] {
        let ahead = stopped(ahead).await;
        put_by_clock(ahead.as_ref(), "ahead").await;
        replace_by_clock(usual.as_ref(), "ahead", "replaced").await;
        put_by_clock(usual.as_ref(), "next").await;
        assert_eq!(record(ahead.as_ref()).await.unwrap(), last);
    }
}

/// Tests of other crates share a keyspace, and each has a part of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_keyspace_walks_and_scans_its_own_partitions_alone() {
    let Some(store) = shared_store(Arc::new(SystemClock)).await else { return };
    let other = shared_store(Arc::new(SystemClock)).await.unwrap();
    let mut names: BTreeSet<Bytes> = (0..40).map(|number| Bytes::from(format!("p{number}"))).collect();
    for partition in names.iter().cloned() {
        let rows = vec![NewRow::new("a", "v")];
        applied(store.as_ref(), vec![Step::Put { table: TABLE, partition, rows }]).await;
    }
    applied(other.as_ref(), vec![put(vec![NewRow::new("a", "other")])]).await;
    let (partition, rows) = (Bytes::from("p7"), Removal::Range(Bytes::new(), None));
    names.remove(&partition);
    applied(store.as_ref(), vec![Step::Remove { table: TABLE, partition, rows }]).await;

    let (mut walked, mut from) = (Vec::new(), None);
    loop {
        let page = store.walk(call(), TABLE, from, 7).await.unwrap();
        assert!(page.partitions.len() <= 7, "{page:?}");
        walked.extend(page.partitions);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(walked.len(), names.len(), "each comes once");
    assert_eq!(walked.into_iter().collect::<BTreeSet<_>>(), names);

    let all = || Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 << 20 };
    let scans = ["p1", "p7", "p", "p2"].map(|name| (TABLE, Bytes::from(name), all())).to_vec();
    let pages = store.scan_many(call(), scans).await.unwrap();
    assert_eq!(pages.iter().map(|page| page.rows.len()).collect::<Vec<_>>(), [1, 0, 0, 1]);
}
