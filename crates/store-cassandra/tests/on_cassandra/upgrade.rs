//! Two programs on one keyspace: one that knows a level more than the other. Each program has a
//! kind of value of which only the later one knows the second version.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::stored::{self, StoredError};
use store::{
    Call, Class, Deadline, FormatLevel, ManualClock, NewRow, Step, Store, StoreError, Stored, Table, UnixMillis,
    ValueKind, envelope,
};
use store_cassandra::testing::fresh_options;
use store_cassandra::{CassandraOptions, CassandraStore};

const EARLIER: FormatLevel = FormatLevel::NEWEST;
const LATER: FormatLevel = EARLIER.next();

/// The type as the later program has it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Trial {
    first: u8,
    added: u8,
}

impl Stored for Trial {
    const KIND: ValueKind = ValueKind::Trial;
    const VERSION: u8 = 2;

    fn decode(version: u8, payload: &[u8]) -> Result<Self, StoredError> {
        match version {
            1 => Ok(Self { first: stored::decode(payload)?, added: 0 }),
            2 => stored::decode(payload),
            version => Err(envelope::EnvelopeError::Version { kind: Self::KIND, version }.into()),
        }
    }

    fn encode(&self, level: FormatLevel) -> Result<(u8, Vec<u8>), StoredError> {
        match level >= LATER {
            true => Ok((2, stored::encode(self)?)),
            false => Ok((1, stored::encode(&self.first)?)),
        }
    }
}

/// The type as the earlier program has it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct EarlierTrial(u8);

impl Stored for EarlierTrial {
    const KIND: ValueKind = ValueKind::Trial;
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(30)))
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(UnixMillis(1_000_000)))
}

fn program(options: &CassandraOptions, newest_level: FormatLevel) -> CassandraOptions {
    CassandraOptions { newest_level, ..options.clone() }
}

async fn write(store: &CassandraStore, sort: &'static str, value: &Trial) {
    let rows = vec![NewRow::new(sort, stored::seal_for(store.level(), value).unwrap())];
    let put = Step::Put { table: Table::Audit, partition: "p".into(), rows };
    assert!(store.run(call(), vec![put]).await.unwrap().is_applied());
}

async fn read<T: Stored>(store: &CassandraStore, sort: &'static str) -> T {
    let row = store.get(call(), Table::Audit, &"p".into(), &sort.into()).await.unwrap().unwrap();
    stored::open(&row.value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_programs_work_on_one_store_until_it_is_raised_and_then_the_earlier_one_is_refused() {
    let Some(options) = fresh_options().await else { return };
    let (earlier, later) = (program(&options, EARLIER), program(&options, LATER));
    let clock = clock();
    let [old, new] = [&earlier, &later].map(|options| CassandraStore::open(options.clone(), clock.clone()));
    let (old, new) = (old.await.unwrap(), new.await.unwrap());
    assert_eq!([old.level(), new.level()], [EARLIER, EARLIER]);

    // Each reads what the other writes.
    write(&new, "new", &Trial { first: 1, added: 2 }).await;
    assert_eq!(read::<EarlierTrial>(&old, "new").await, EarlierTrial(1));
    write(&old, "old", &Trial { first: 3, added: 4 }).await;
    assert_eq!(read::<Trial>(&new, "old").await, Trial { first: 3, added: 0 });

    // The earlier one hinders, and nothing changes.
    let found = CassandraStore::upgrading(&later, clock.as_ref()).await.unwrap();
    assert_eq!((found.level, found.servers.len(), found.hindering(LATER).len()), (EARLIER, 2, 1));
    let (before, now) = CassandraStore::raise_level(&later, clock.as_ref()).await.unwrap();
    assert_eq!((before, now.level, now.hindering(LATER).len()), (EARLIER, EARLIER, 1));
    assert_eq!(read::<EarlierTrial>(&old, "new").await, EarlierTrial(1));

    old.close().await.unwrap();
    let (before, now) = CassandraStore::raise_level(&later, clock.as_ref()).await.unwrap();
    assert_eq!((before, now.level, now.servers.len()), (EARLIER, LATER, 1));
    let refused = CassandraStore::open(earlier.clone(), clock.clone()).await.err().unwrap();
    assert!(matches!(refused, StoreError::Format { .. }), "{refused}");

    // The open store learns it when it renews its lease. Old values stay as they are.
    clock.advance(Duration::from_secs(301));
    write(&new, "new 2", &Trial { first: 5, added: 6 }).await;
    assert_eq!(read::<Trial>(&new, "new 2").await, Trial { first: 5, added: 0 }, "sealed before it learned");
    assert_eq!(new.level(), LATER);
    write(&new, "new 3", &Trial { first: 7, added: 8 }).await;
    assert_eq!(read::<Trial>(&new, "new 3").await, Trial { first: 7, added: 8 });
    assert_eq!(read::<Trial>(&new, "old").await, Trial { first: 3, added: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_lease_ended_before_the_level_was_raised_reads_and_writes_nothing() {
    let Some(options) = fresh_options().await else { return };
    let (earlier, later) = (program(&options, EARLIER), program(&options, LATER));
    let (suspended, awake) = (clock(), clock());
    let old = CassandraStore::open(earlier, suspended.clone()).await.unwrap();
    write(&old, "old", &Trial { first: 1, added: 0 }).await;

    // For as long as its lease lasts, the level stays.
    awake.advance(Duration::from_secs(299));
    let (_, now) = CassandraStore::raise_level(&later, awake.as_ref()).await.unwrap();
    assert_eq!((now.level, now.hindering(LATER).len()), (EARLIER, 1));
    awake.advance(Duration::from_secs(2));
    let (_, now) = CassandraStore::raise_level(&later, awake.as_ref()).await.unwrap();
    assert_eq!(now.level, LATER);

    suspended.advance(Duration::from_secs(301));
    let read = old.get(call(), Table::Audit, &"p".into(), &"old".into()).await;
    assert!(matches!(read, Err(StoreError::Format { .. })), "{read:?}");
    let put = Step::Put { table: Table::Audit, partition: "p".into(), rows: vec![NewRow::new("a", "b")] };
    assert!(matches!(old.run(call(), vec![put]).await, Err(StoreError::Format { .. })));
    let found = CassandraStore::upgrading(&later, awake.as_ref()).await.unwrap();
    assert_eq!(found.servers, [], "a server that was refused holds no lease");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_joins_while_the_level_is_being_raised_is_refused_and_one_that_is_there_goes_on() {
    let Some(options) = fresh_options().await else { return };
    let (earlier, later) = (program(&options, EARLIER), program(&options, LATER));
    let clock = clock();
    let old = CassandraStore::open(earlier.clone(), clock.clone()).await.unwrap();
    store_cassandra::testing::intend(&later, LATER).await;
    let refused = CassandraStore::open(earlier, clock.clone()).await.err().unwrap();
    assert!(matches!(refused, StoreError::Format { .. }), "{refused}");
    write(&old, "old", &Trial { first: 1, added: 0 }).await;
    // An interrupted raising is repeated. While the old server is there, it withdraws.
    let (_, now) = CassandraStore::raise_level(&later, clock.as_ref()).await.unwrap();
    assert_eq!((now.level, now.hindering(LATER).len()), (EARLIER, 1));
    let again = CassandraStore::open(program(&options, EARLIER), clock.clone()).await.unwrap();
    for store in [old, again] {
        store.close().await.unwrap();
    }
    let (_, now) = CassandraStore::raise_level(&later, clock.as_ref()).await.unwrap();
    assert_eq!(now.level, LATER);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_raises_nothing_leaves_the_intention_of_a_newer_one() {
    let Some(options) = fresh_options().await else { return };
    let (earlier, later) = (program(&options, EARLIER), program(&options, LATER));
    let clock = clock();
    store_cassandra::testing::intend(&later, LATER).await;
    let (_, now) = CassandraStore::raise_level(&earlier, clock.as_ref()).await.unwrap();
    assert_eq!(now.level, EARLIER);
    let refused = CassandraStore::open(earlier, clock.clone()).await.err().expect("the level is being raised");
    assert!(matches!(refused, StoreError::Format { .. }), "{refused}");
    let (_, now) = CassandraStore::raise_level(&later, clock.as_ref()).await.unwrap();
    assert_eq!(now.level, LATER);
}
