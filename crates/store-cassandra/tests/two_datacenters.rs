//! Two data centers: one is lost as a whole, then the other, then both at once. The test shows what
//! goes on, what is refused with a clear error, and that nothing acknowledged is lost.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Cluster, ClusterSpec, CommitlogSync, NodeId, Settings, Shape};
use futures::{StreamExt, TryStreamExt, stream};
use scylla::client::session_builder::SessionBuilder;
use store::{
    Call, Class, ContentId, Deadline, Direction, Expect, Guard, NewRow, Outcome, PlainValue, Removal, Row, Scan, Stamp,
    Step, Store, StoreError, StoreResult, SystemClock, Table,
};
use store_cassandra::testing::{can_run, settings};
use store_cassandra::{CassandraOptions, CassandraStore, Home, InitError, Initialised, Levels, Serial};

const TABLE: Table = Table::Objects;

/// The time limit of a call that should succeed: nodes share two cores with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit of a call that cannot succeed.
const SHORT: Duration = Duration::from_secs(3);

/// More than the lag of a healthy data center on a busy machine.
const NEAR: Duration = Duration::from_secs(10);

/// How many writes are acknowledged in each data center before both are killed.
const WRITES_EACH: usize = 100;

/// The data center where heads have their home.
const HOME: &str = "dc1";

/// The other one.
const AWAY: &str = "dc2";

/// The nodes of each.
const NODES_HOME: [NodeId; 2] = [NodeId(1), NodeId(2)];
const NODES_AWAY: [NodeId; 2] = [NodeId(3), NodeId(4)];

fn call(within: Duration) -> Call {
    Call::new(Class::Description, Deadline::within(within))
}

fn put(partition: &str) -> Step {
    let partition = Bytes::copy_from_slice(partition.as_bytes());
    Step::Put { table: TABLE, partition, rows: vec![NewRow::new("row", "v")] }
}

fn make_head(partition: &str) -> Step {
    Step::CompareAndWrite {
        table: TABLE,
        partition: Bytes::copy_from_slice(partition.as_bytes()),
        sort: "head".into(),
        expect: Expect::Absent,
        guard: Guard { stamp: Stamp::fresh(), tag: Bytes::new() },
        value: "v".into(),
    }
}

async fn surely(store: &CassandraStore, class: Class, step: Step) {
    let outcome = store.run(call(PATIENCE).of(class), vec![step]).await.unwrap();
    assert!(outcome.is_applied(), "{outcome:?}");
}

async fn get(store: &CassandraStore, call: Call, partition: &str, sort: &'static str) -> StoreResult<Option<Row>> {
    store.get(call, TABLE, &Bytes::copy_from_slice(partition.as_bytes()), &sort.into()).await
}

async fn has(store: &CassandraStore, partition: &str, sort: &'static str) -> bool {
    get(store, call(PATIENCE), partition, sort).await.unwrap().is_some()
}

/// A record in mode fast is written in the place of what there is, and read.
async fn record_goes_on(store: &CassandraStore, id: &'static str, value: &'static str) {
    let (table, everything) = (Table::Records, Removal::Range(Bytes::new(), None));
    let steps = vec![
        Step::Remove { table, partition: id.into(), rows: everything },
        Step::Put { table, partition: id.into(), rows: vec![NewRow::new("acity", value)] },
    ];
    let outcome = store.run(call(PATIENCE).by_clock(), steps).await.unwrap();
    assert!(outcome.is_applied(), "{outcome:?}");
    let all = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 << 10 };
    let found = store.scan(call(PATIENCE), table, &id.into(), all).await.unwrap().rows;
    assert_eq!(found.into_iter().map(|row| row.value).collect::<Vec<_>>(), [value]);
}

/// A record in mode atomic.
const ATOMIC: &str = "atomic";

/// A change of a record in mode atomic. It is made only if the record is as it was read.
async fn replace(store: &CassandraStore, within: Duration, before: Option<Bytes>, then: &str) -> StoreResult<Outcome> {
    let value = |value: Bytes| PlainValue { value, expires_at: None };
    let step = Step::Replace {
        table: Table::Records,
        partition: ATOMIC.into(),
        sort: Bytes::new(),
        expect: before.map(value),
        then: Some(value(Bytes::copy_from_slice(then.as_bytes()))),
    };
    store.run(call(within).of(Class::Record).having_read(), vec![step]).await
}

/// What that record is.
async fn record(store: &CassandraStore) -> Option<Bytes> {
    let call = call(PATIENCE).of(Class::Record);
    store.get(call, Table::Records, &ATOMIC.into(), &Bytes::new()).await.unwrap().map(|row| row.value)
}

/// Changes it. Until a node has noticed that others are down, an outcome may be unknown: then the
/// record is read and changed again.
async fn record_changes(store: &CassandraStore, then: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = record(store).await;
        if before.as_deref() == Some(then.as_bytes()) {
            return;
        }
        let changed = replace(store, PATIENCE, before, then).await;
        if matches!(changed, Ok(Outcome::Applied)) {
            return;
        }
        assert!(Instant::now() < deadline, "{then}: {changed:?}");
    }
}

/// It cannot be changed where it has no home.
async fn record_is_read_only(store: &CassandraStore) {
    let error = replace(store, PATIENCE, record(store).await, "homeless").await.unwrap_err();
    assert!(matches!(&error, StoreError::ReadOnly(_)), "{error}");
}

/// It cannot be changed while a data center is lost and all of them decide. It is read all the same.
async fn record_waits_for_the_other(store: &CassandraStore) {
    let before = record(store).await;
    let changing = async || replace(store, SHORT, before.clone(), "undecided").await.err();
    refused(changing, |error| matches!(error, StoreError::Unavailable(_))).await;
    assert_eq!(record(store).await, before);
}

/// Waits until a write of one data center is visible in the other.
async fn arrives(store: &CassandraStore, partition: &str, sort: &'static str) {
    let (began, deadline) = (Instant::now(), Instant::now() + Duration::from_secs(300));
    while !has(store, partition, sort).await {
        assert!(Instant::now() < deadline, "{partition} does not arrive");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!("{partition}/{sort} was seen after {:.1?}", began.elapsed());
}

/// Waits until a store reports a suitable lag of another data center. Returns that lag.
async fn lag(store: &CassandraStore, datacenter: &str, will_do: impl Fn(Duration) -> bool) -> Duration {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let behind = store.health().await.replication_lag.get(datacenter).copied();
        match behind.filter(|lag| will_do(*lag)) {
            Some(lag) => return lag,
            None => assert!(Instant::now() < deadline, "{datacenter} is reported to be {behind:?} behind"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A large content is stored and read again.
async fn content_comes_and_goes(store: &CassandraStore) {
    let piece = Bytes::from(vec![7; 300_000]);
    let content = stream::iter([Ok(piece.clone())]).boxed();
    let id: ContentId = store.put_content(call(PATIENCE).of(Class::Content), "owner".into(), content).await.unwrap();
    let read = store.read_content(call(PATIENCE).of(Class::Content), id, 0..u64::MAX).await.unwrap().unwrap();
    let read: Vec<Bytes> = read.try_collect().await.unwrap();
    assert!(read.concat() == piece);
}

struct Two(Cluster);

impl Two {
    fn options(&self, keyspace: &str, datacenter: &str, serial: Serial) -> CassandraOptions {
        let hosts: Vec<String> = self.0.contact_points().iter().map(ToString::to_string).collect();
        CassandraOptions {
            local_datacenter: Some(datacenter.to_owned()),
            levels: Levels { serial, ..Levels::default() },
            connect_timeout: PATIENCE,
            ..CassandraOptions::new(format!("cassandra://{}/{keyspace}", hosts.join(",")).parse().unwrap())
        }
    }

    async fn open(&self, keyspace: &str, datacenter: &str, serial: Serial) -> Arc<CassandraStore> {
        let options = self.options(keyspace, datacenter, serial);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match CassandraStore::open(options.clone(), Arc::new(SystemClock)).await {
                Ok(store) => return store,
                // Nodes that come and go are not all known at once.
                Err(error) => assert!(error.is_passing() && Instant::now() < deadline, "{error}"),
            }
        }
    }

    fn kill(&self, nodes: &[NodeId]) {
        eprintln!("killing {nodes:?}");
        std::thread::scope(|scope| {
            nodes.iter().for_each(|node| drop(scope.spawn(|| self.0.kill(*node).unwrap())));
        });
    }

    fn start_all(&self) {
        let began = Instant::now();
        tokio::task::block_in_place(|| self.0.start_all().unwrap());
        eprintln!("all nodes are up after {:.1?}", began.elapsed());
    }
}

/// Repeats a call until it is refused for a suitable reason: until a node has noticed that others
/// are down, the outcome may be unknown.
async fn refused(mut ask: impl AsyncFnMut() -> Option<StoreError>, will_do: impl Fn(&StoreError) -> bool) -> String {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut last = String::new();
    while Instant::now() < deadline {
        match ask().await {
            Some(error) if will_do(&error) => return error.to_string(),
            error => last = format!("{error:?}"),
        }
    }
    panic!("it is not refused for the expected reason: {last}")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "four nodes for some minutes: `cargo xtask proofs` runs it"]
async fn one_of_two_data_centers_goes_on_alone_and_nothing_acknowledged_is_lost() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let group = CommitlogSync::Group { window: Duration::from_millis(10) };
    let settings = Settings { heap_mib: Some(256), commitlog_sync: group, ..settings() };
    let shape = Shape { datacenters: 2, nodes_per_datacenter: 2 };
    let two = Two(Cluster::open(folder.path(), &ClusterSpec { settings, ..ClusterSpec::new(shape) }).unwrap());
    two.start_all();
    let replication = format!("{HOME}=2,{AWAY}=2").parse().unwrap();
    for keyspace in ["everywhere", "homely"] {
        let options = two.options(keyspace, HOME, Serial::Serial);
        let deadline = Instant::now() + PATIENCE;
        let made = loop {
            match CassandraStore::initialise(&options, Some(&replication), false).await {
                // Clients do not see all nodes at once that have just met.
                Err(InitError::TooFewNodes { .. }) if Instant::now() < deadline => {}
                made => break made.unwrap(),
            }
        };
        assert_eq!(made, Initialised::Made);
    }
    heads_get_a_home(&two).await;
    a_data_center_is_added(&two).await;
    let [here, there] = [two.open("everywhere", HOME, Serial::Serial), two.open("everywhere", AWAY, Serial::Serial)];
    let (here, there) = (here.await, there.await);
    let [home, away] = [two.open("homely", HOME, Serial::LocalSerial), two.open("homely", AWAY, Serial::LocalSerial)];
    let (home, away) = (home.await, away.await);

    // All are up. A change on which all data centers decide is decided once.
    for number in 0..5 {
        let head = format!("contended {number}");
        let race = [&here, &there].map(|store| store.run(call(PATIENCE), vec![make_head(&head)]));
        let outcomes = futures::future::try_join_all(race).await.unwrap();
        // A writer that was not told that it won may have won all the same.
        assert!(outcomes.iter().filter(|outcome| outcome.is_applied()).count() <= 1, "{outcomes:?}");
        assert!(get(&there, call(PATIENCE).strong(), &head, "head").await.unwrap().is_some(), "{outcomes:?}");
    }
    // So is one of a record in mode atomic.
    let race = [&here, &there].map(|store| replace(store, PATIENCE, None, "raced"));
    let outcomes = futures::future::try_join_all(race).await.unwrap();
    assert!(outcomes.iter().filter(|outcome| outcome.is_applied()).count() <= 1, "{outcomes:?}");
    for (store, then) in [(&here, "here"), (&there, "there"), (&home, "home")] {
        record_changes(store, then).await;
    }
    assert_eq!(record(&here).await.unwrap(), "there");
    record_is_read_only(&away).await;
    // A strong read sees what was just written in the other data center.
    surely(&here, Class::Description, put("strong")).await;
    assert!(get(&there, call(PATIENCE).strong(), "strong", "row").await.unwrap().is_some());
    // Heads with a home are switched there, and arrive elsewhere.
    surely(&home, Class::Description, make_head("before")).await;
    arrives(&away, "before", "head").await;
    let (before, lists) = (get(&home, call(PATIENCE), "before", "head").await.unwrap(), vec![put("a"), make_head("a")]);
    let error = away.run(call(PATIENCE), lists).await.unwrap_err();
    assert!(matches!(&error, StoreError::ReadOnly(why) if why.contains(HOME) && why.contains(AWAY)), "{error}");
    assert!(!has(&away, "a", "row").await, "a part of what was refused is there");

    // An upgrade sees the servers of all data centers.
    let seen =
        async || CassandraStore::upgrading(&two.options("homely", HOME, Serial::LocalSerial), &SystemClock).await;
    assert_eq!(seen().await.unwrap().servers.len(), 2);

    // Each data center knows how far the other is behind.
    lag(&away, HOME, |lag| lag < NEAR).await;
    lag(&home, AWAY, |lag| lag < NEAR).await;

    two.kill(&NODES_AWAY);
    // The home is left: everything goes on.
    for (class, name) in [(Class::Description, "d"), (Class::Content, "c"), (Class::Record, "r"), (Class::Audit, "a")] {
        surely(&home, class, put(&format!("away lost, {name}"))).await;
        surely(&here, class, put(&format!("away lost, {name}"))).await;
    }
    for store in [&home, &here] {
        record_goes_on(store, "record", "away lost").await;
    }
    record_changes(&home, "away lost").await;
    surely(&home, Class::Description, make_head("away lost")).await;
    assert!(get(&home, call(PATIENCE).strong(), "away lost", "head").await.unwrap().is_some());
    content_comes_and_goes(&home).await;
    // Another server starts, but the level cannot be raised past servers that are not seen.
    two.open("homely", HOME, Serial::LocalSerial).await.close().await.unwrap();
    assert!(seen().await.is_err());
    // Where all data centers decide, nothing is decided, and calls that need all data fail with an
    // error; the rest goes on.
    assert!(has(&here, "strong", "row").await);
    let switching = async || here.run(call(SHORT), vec![make_head("undecided")]).await.err();
    let said = refused(switching, |error| matches!(error, StoreError::Unavailable(_))).await;
    assert!(said.to_uppercase().contains("SERIAL"), "{said}");
    record_waits_for_the_other(&here).await;
    let reading = async || get(&here, call(SHORT).strong(), "strong", "row").await.err();
    let said = refused(reading, |error| matches!(error, StoreError::Unavailable(_))).await;
    assert!(said.to_uppercase().contains("EACH"), "{said}");

    // As long as nothing arrives from there, its lag grows.
    let behind = lag(&home, AWAY, |lag| lag > NEAR).await;
    lag(&home, AWAY, |lag| lag > behind + NEAR).await;

    two.start_all();
    lag(&home, AWAY, |lag| lag < NEAR).await;
    arrives(&away, "away lost, d", "row").await;
    arrives(&away, "away lost", "head").await;
    surely(&here, Class::Description, make_head("undecided")).await;
    record_changes(&here, "together again").await;

    two.kill(&NODES_HOME);
    // The remaining data center reads, and writes records and content; heads wait for their home.
    assert_eq!(get(&away, call(PATIENCE).strong(), "before", "head").await.unwrap(), before);
    for (class, name) in [(Class::Content, "c"), (Class::Record, "r"), (Class::Audit, "a")] {
        surely(&away, class, put(&format!("home lost, {name}"))).await;
        assert!(has(&away, &format!("home lost, {name}"), "row").await);
    }
    // Where all data centers decide heads, records still need no other data center.
    for store in [&away, &there] {
        record_goes_on(store, "record", "home lost").await;
    }
    record_waits_for_the_other(&there).await;
    record_is_read_only(&away).await;
    assert!(record(&away).await.is_some());
    let error = away.run(call(PATIENCE), vec![make_head("homeless")]).await.unwrap_err();
    assert!(matches!(&error, StoreError::ReadOnly(_)), "{error}");
    two.start_all();
    arrives(&home, "home lost, c", "row").await;

    both_are_killed_at_once(&two, [&home, &away]).await;
}

/// A keyspace of one data center gets copies in the other one. A store that is open switches no
/// heads any more, and one that is opened again knows where the copies are.
async fn a_data_center_is_added(two: &Two) {
    let options = two.options("grown", HOME, Serial::LocalSerial);
    let replication = format!("{HOME}=2").parse().unwrap();
    CassandraStore::initialise(&options, Some(&replication), false).await.unwrap();
    let store = two.open("grown", HOME, Serial::LocalSerial).await;
    surely(&store, Class::Description, make_head("before")).await;
    let raw = SessionBuilder::new().known_nodes(options.address.hosts()).build().await.unwrap();
    let both = format!("{{'class': 'NetworkTopologyStrategy', '{HOME}': '2', '{AWAY}': '2'}}");
    raw.query_unpaged(format!("ALTER KEYSPACE grown WITH replication = {both}"), ()).await.unwrap();
    let switching = async || store.run(call(SHORT), vec![make_head("after")]).await.err();
    let said = refused(switching, |error| matches!(error, StoreError::ReadOnly(_))).await;
    assert!(said.contains(AWAY) && said.contains("program again"), "{said}");
    assert!(store.check_home().is_err(), "what depends on strong reads rests");
    let again = CassandraStore::open(options, Arc::new(SystemClock)).await.err();
    assert!(matches!(&again, Some(StoreError::Invalid(why)) if why.contains("penates home")), "{again:?}");
    two.open("grown", HOME, Serial::Serial).await;
}

/// Heads get a home. Settings that do not fit are refused, before and afterwards, and so are homes
/// that cannot be.
async fn heads_get_a_home(two: &Two) {
    let is_refused = |error: Option<StoreError>, named: &str| {
        assert!(matches!(&error, Some(StoreError::Invalid(why)) if why.contains(named)), "{named}: {error:?}");
    };
    let open = |serial| CassandraStore::open(two.options("homely", HOME, serial), Arc::new(SystemClock));
    let [here, there] = [HOME, AWAY].map(|datacenter| two.options("homely", datacenter, Serial::LocalSerial));
    is_refused(open(Serial::LocalSerial).await.err(), "penates home");
    is_refused(CassandraStore::settle_home(&here, HOME).await.err(), "penates home --leave");
    is_refused(CassandraStore::take_home(&there).await.err(), "no data center is lost");
    // It may be repeated.
    for _ in 0..2 {
        CassandraStore::leave_home(&there).await.unwrap();
        assert_eq!(CassandraStore::home(&here).await.unwrap(), Home::Nowhere);
    }
    is_refused(CassandraStore::settle_home(&here, "elsewhere").await.err(), "elsewhere");
    for _ in 0..2 {
        CassandraStore::settle_home(&there, HOME).await.unwrap();
        assert_eq!(CassandraStore::home(&there).await.unwrap(), Home::At(HOME.to_owned()));
    }
    is_refused(CassandraStore::settle_home(&there, AWAY).await.err(), "penates home --leave");
    is_refused(CassandraStore::take_home(&there).await.err(), "no data center is lost");
    is_refused(open(Serial::Serial).await.err(), "LOCAL_SERIAL");
}

/// While rows are written in both and heads at home, all nodes are killed at once. Acknowledged
/// rows are there afterwards.
async fn both_are_killed_at_once(two: &Two, stores: [&Arc<CassandraStore>; 2]) {
    let killed = Arc::new(AtomicBool::new(false));
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let writers = stores.into_iter().enumerate().map(|(which, store)| {
        let (store, killed, counts) = (store.clone(), killed.clone(), counts.clone());
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for number in 0.. {
                if killed.load(Ordering::SeqCst) {
                    break;
                }
                let (partition, heads) = (format!("{which}, {number}"), which == 0);
                let (step, sort) = if heads { (make_head(&partition), "head") } else { (put(&partition), "row") };
                if let Ok(Outcome::Applied) = store.run(call(SHORT), vec![step]).await {
                    acknowledged.push((partition, sort));
                    counts[which].fetch_add(1, Ordering::SeqCst);
                }
            }
            acknowledged
        })
    });
    let writers: Vec<_> = writers.collect();
    let deadline = Instant::now() + PATIENCE;
    while counts.iter().any(|count| count.load(Ordering::SeqCst) < WRITES_EACH) {
        assert!(Instant::now() < deadline, "not enough is acknowledged: {counts:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::task::block_in_place(|| two.0.kill_all().unwrap());
    killed.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.push(writer.await.unwrap());
    }
    two.start_all();
    for (store, acknowledged) in stores.iter().zip(&acknowledged) {
        for (partition, sort) in acknowledged {
            let deadline = Instant::now() + PATIENCE;
            let there = loop {
                match get(store, call(PATIENCE), partition, sort).await {
                    Ok(row) => break row.is_some(),
                    // The driver finds the nodes again one after the other.
                    Err(error) => assert!(error.is_passing() && Instant::now() < deadline, "{error}"),
                }
            };
            assert!(there, "{partition} was acknowledged and is lost");
        }
    }
    let counts: Vec<usize> = acknowledged.iter().map(Vec::len).collect();
    eprintln!("{counts:?} writes were acknowledged in the two data centers before both were killed; all are there");
}
