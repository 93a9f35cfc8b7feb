//! Expired attributes of records that nobody changes are deleted, and nothing else is.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use records::{Attribute, Draft, Dropped, Mode, Record, Records};
use store::faults::{Fault, Faults, Kind};
use store::{
    Call, Class, Clock, Deadline, ManualClock, NewRow, Row, RowPage, Step, Store, StoreResult, Table, UnixMillis,
    Wrapper, stored,
};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;

use crate::support::Subject;
use crate::support::stores::{Gate, Shared};

const NOW: UnixMillis = UnixMillis(1_750_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const ID: Bytes = Bytes::from_static(b"profile");
const COUNT: Bytes = Bytes::from_static(b"count");

fn within() -> Deadline {
    Deadline::within(MINUTE)
}

fn call() -> Call {
    Call::new(Class::Record, within())
}

/// A store in a folder, by a clock that is moved by hand.
struct Folder {
    _folder: TempDir,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
        Self { _folder: folder, clock, store }
    }

    /// Its records, within a wrapper of the store.
    fn records(&self, store: Arc<dyn Store>) -> Records {
        Records::new(store, self.clock.clone())
    }

    async fn row(&self, id: &Bytes) -> Row {
        self.store.get(call(), Table::Records, id, &Bytes::new()).await.unwrap().unwrap()
    }
}

/// A record that lasts, with attributes of so many bytes that expire so much later, or never.
fn record(attributes: &[(&'static str, usize, Option<Duration>)]) -> Record {
    let attributes = attributes.iter().map(|(name, bytes, life)| {
        let expires_at = life.map(|life| NOW.plus(life));
        (Bytes::from(*name), Attribute { value: Bytes::from(vec![b'x'; *bytes]), expires_at })
    });
    Record::attributes(attributes.collect())
}

async fn put(records: &Records, id: &Bytes, record: &Record) {
    let put = |drafts: &mut [Draft]| drafts[0].put(record.clone());
    records.change(within(), std::slice::from_ref(id), put).await.unwrap();
}

/// One step over all records.
async fn drop_expired(records: &Records) -> Dropped {
    let dropped = records.drop_expired(within(), None, (1_000, 1 << 20)).await.unwrap();
    assert!(dropped.stopped_by.is_none() && dropped.next.is_none(), "{dropped:?}");
    dropped
}

#[tokio::test]
async fn a_record_that_lasts_gets_shorter_and_keeps_what_is_seen_of_it() {
    let folder = Folder::new();
    let records = folder.records(folder.store.clone());
    let lasting = record(&[("old", 2_000, Some(MINUTE)), ("city", 10, None), ("plan", 20, Some(HOUR))]);
    let expiring = Record { expires_at: Some(NOW.plus(2 * HOUR)), ..lasting.clone() };
    let by_its_parts = record(&[("old", 2_000, Some(MINUTE)), ("plan", 20, Some(HOUR))]);
    let ids = ["lasting", "expiring", "parts"].map(Bytes::from);
    for (id, record) in ids.iter().zip([&lasting, &expiring, &by_its_parts]) {
        put(&records, id, record).await;
    }
    folder.clock.advance(MINUTE);
    let seen = records.read_listed(within(), &ids).await.unwrap();
    let mut before = Vec::new();
    for id in &ids {
        before.push(folder.row(id).await);
    }
    let dropped = drop_expired(&records).await;
    assert_eq!(dropped.records, 3);
    let (mut freed, mut written) = (0, 0);
    for (id, before) in ids.iter().zip(&before) {
        let after = folder.row(id).await;
        assert!(before.value.len() - after.value.len() > 2_000, "{id:?}");
        assert_eq!(after.expires_at, before.expires_at, "{id:?}");
        freed += before.value.len() - after.value.len();
        written += after.value.len();
    }
    assert_eq!((dropped.freed_bytes, dropped.written_bytes), (freed as u64, written as u64));
    assert_eq!(records.read_listed(within(), &ids).await.unwrap(), seen);
    assert_eq!(drop_expired(&records).await.records, 0, "there is nothing left to delete");
}

#[tokio::test]
async fn a_record_with_little_that_has_expired_is_not_written() {
    let folder = Folder::new();
    let records = folder.records(folder.store.clone());
    let small = record(&[("old", 100, Some(MINUTE)), ("stays", 900, None)]);
    let whole = Record { expires_at: Some(NOW.plus(MINUTE)), ..record(&[("old", 2_000, Some(MINUTE))]) };
    let kept = [
        ("a little", small),
        ("a quarter", record(&[("old", 200, Some(MINUTE)), ("stays", 400, None)])),
        ("a text", Record::text(Bytes::from(vec![b'x'; 2_000]))),
        ("all of it", whole),
        ("nothing", record(&[("plan", 2_000, Some(HOUR))])),
    ];
    for (id, record) in &kept {
        put(&records, &Bytes::from(*id), record).await;
    }
    folder.clock.advance(MINUTE);
    let before = folder.row(&"a little".into()).await;
    assert_eq!(drop_expired(&records).await.records, 1, "it is a quarter");
    assert_eq!(folder.row(&"a little".into()).await, before);
    let quarter = stored::open::<Record>(&folder.row(&"a quarter".into()).await.value).unwrap();
    assert_eq!(quarter, record(&[("stays", 400, None)]));
}

/// A store in which a row changes between a walk and what comes of it.
struct Meanwhile {
    inner: Arc<dyn Store>,
    put: Mutex<Option<NewRow>>,
}

impl Wrapper for Meanwhile {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        max_bytes: usize,
    ) -> StoreResult<RowPage> {
        let page = self.inner.walk_rows(call, table, from, max, max_bytes).await?;
        let row = self.put.lock().take();
        if let Some(row) = row {
            let put = Step::Put { table: Table::Records, partition: ID, rows: vec![row] };
            assert!(self.inner.run(call, vec![put]).await?.is_applied());
        }
        Ok(page)
    }
}

#[tokio::test]
async fn a_change_after_the_record_was_read_wins() {
    for is_shared in [false, true] {
        let folder = Folder::new();
        let changed = record(&[("city", 30, None)]);
        let row = NewRow::new("", stored::seal(&changed).unwrap());
        let meanwhile = Arc::new(Meanwhile { inner: folder.store.clone(), put: Mutex::new(None) });
        let records = match is_shared {
            false => folder.records(meanwhile.clone()),
            true => folder.records(Arc::new(Shared(meanwhile.clone()))),
        };
        put(&records, &ID, &record(&[("old", 2_000, Some(MINUTE)), ("city", 10, None)])).await;
        folder.clock.advance(MINUTE);
        *meanwhile.put.lock() = Some(row);
        assert_eq!(drop_expired(&records).await.records, 0);
        assert_eq!(records.read(within(), &ID).await.unwrap(), Some(changed));
    }
}

#[tokio::test]
async fn a_record_that_is_being_changed_is_passed_over() {
    let folder = Folder::new();
    let gate = Arc::new(Gate::new(folder.store.clone()));
    let records = Arc::new(folder.records(gate.clone()));
    put(&records, &ID, &record(&[("old", 2_000, Some(MINUTE)), ("city", 10, None)])).await;
    folder.clock.advance(MINUTE);
    let changed = record(&[("city", 30, None)]);
    let closed = gate.closed().await;
    let changing = tokio::spawn({
        let (records, changed) = (records.clone(), changed.clone());
        async move { put(&records, &ID, &changed).await }
    });
    gate.keeps_waiting().await;
    assert_eq!(drop_expired(&records).await.records, 0, "it does not wait for the change");
    drop(closed);
    changing.await.unwrap();
    assert_eq!(records.read(within(), &ID).await.unwrap(), Some(changed));
}

/// Adds to a record again and again, each time with something that expires.
async fn count(records: &Records, clock: &ManualClock) {
    for _ in 0..50 {
        let expires_at = Some(clock.now().plus(MINUTE));
        let change = |drafts: &mut [Draft]| {
            drafts[0].change_attributes(|attributes| {
                attributes.set("old".into(), Attribute { value: Bytes::from(vec![b'x'; 2_000]), expires_at });
                attributes.increment(&COUNT, 1)
            })
        };
        records.change(within(), &[ID], change).await.unwrap().unwrap();
        clock.advance(MINUTE);
    }
}

#[tokio::test]
async fn no_change_of_many_clients_is_lost_while_expired_attributes_are_deleted() {
    let folder = Folder::new();
    let records = folder.records(folder.store.clone()).synced_within(HOUR);
    put(&records, &ID, &record(&[("city", 10, None)])).await;
    let drop_again_and_again = async {
        for _ in 0..100 {
            drop_expired(&records).await;
        }
    };
    tokio::join!(count(&records, &folder.clock), count(&records, &folder.clock), drop_again_and_again);
    let record = records.read(within(), &ID).await.unwrap().unwrap();
    assert_eq!(record.as_attributes().unwrap().get(&COUNT), Some(&Attribute::lasting("100".into())));
}

#[tokio::test]
async fn steps_go_over_all_records_one_after_the_other() {
    let folder = Folder::new();
    let records = folder.records(folder.store.clone()).synced_within(HOUR);
    let ids: Vec<Bytes> = (0..5_u8).map(|number| Bytes::from(vec![b'r', number])).collect();
    for id in &ids {
        put(&records, id, &record(&[("old", 2_000, Some(MINUTE)), ("city", 10, None)])).await;
    }
    folder.clock.advance(MINUTE);
    let (mut from, mut steps) = (None, Vec::new());
    loop {
        let dropped = records.drop_expired(within(), from, (2, usize::MAX)).await.unwrap();
        steps.push(dropped.records);
        from = dropped.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(steps, [2_u64, 2, 1]);
    let bytes = records.drop_expired(within(), None, (1_000, 1)).await.unwrap();
    assert_eq!((bytes.next, bytes.records), (Some(ids[0].clone()), 0), "one record is more than one byte");
}

#[tokio::test]
async fn a_store_that_servers_share_is_walked_once_one_knows_of_a_record_and_mode_fast_is_left_alone() {
    let folder = Folder::new();
    let faults = Arc::new(Faults::new(folder.store.clone()));
    let shared: Arc<dyn Store> = Arc::new(Shared(faults.clone()));
    let records = folder.records(shared.clone());
    assert!(!records.drops_expired());
    assert_eq!((drop_expired(&records).await.read_bytes, faults.steps_seen()), (0, 0));
    put(&records, &ID, &record(&[("old", 2_000, Some(MINUTE)), ("city", 10, None)])).await;
    folder.clock.advance(MINUTE);
    for fast in [shared, folder.store.clone()] {
        let fast = Records::in_mode(fast, folder.clock.clone(), Mode::Fast);
        assert!(!fast.drops_expired() && drop_expired(&fast).await.read_bytes == 0);
    }
    let before = folder.row(&ID).await.value.len();
    let dropped = drop_expired(&records).await;
    assert_eq!((dropped.records, dropped.freed_bytes), (1, (before - folder.row(&ID).await.value.len()) as u64));
    assert_eq!(records.read(within(), &ID).await.unwrap(), Some(record(&[("city", 10, None)])));
}

#[tokio::test]
async fn a_write_that_fails_in_a_store_that_servers_share_ends_the_page() {
    let folder = Folder::new();
    let faults = Arc::new(Faults::new(folder.store.clone()));
    let records = folder.records(Arc::new(Shared(faults.clone())));
    let ids: Vec<Bytes> = (0..5_u8).map(|number| Bytes::from(vec![b'r', number])).collect();
    for id in &ids {
        put(&records, id, &record(&[("old", 2_000, Some(MINUTE)), ("city", 10, None)])).await;
    }
    folder.clock.advance(MINUTE);
    faults.next(Kind::Run, Fault::Unavailable);
    let dropped = records.drop_expired(within(), None, (2, usize::MAX)).await.unwrap();
    assert!(dropped.records == 0 && dropped.stopped_by.is_some(), "{dropped:?}");
    let rest = records.drop_expired(within(), dropped.next, (1_000, usize::MAX)).await.unwrap();
    assert_eq!((rest.records, rest.next), (3, None), "what is left of the page waits for the next pass");
}

#[tokio::test]
async fn a_watched_record_counts_as_unchanged_and_answers_stay() {
    let clock = Arc::new(ManualClock::new(NOW));
    let subject = Subject::by_clock(clock.clone()).await;
    let mut connection = subject.connect();
    let old = "x".repeat(2_000);
    for words in [
        &["HSET", "profile", "city", "Ulm", "old", old.as_str()][..],
        &["HEXPIRE", "profile", "60", "FIELDS", "1", "old"],
        &["EXPIRE", "profile", "7200"],
    ] {
        connection.ask(words).await;
    }
    clock.advance(MINUTE);
    let ttl = connection.ask(&["PTTL", "profile"]).await;
    assert_eq!(connection.ask(&["WATCH", "profile"]).await.text(), "OK");
    assert_eq!(drop_expired(&subject.records).await.records, 1);
    for (words, answer) in [
        (&["MULTI"][..], "OK"),
        (&["HGETALL", "profile"], "QUEUED"),
        (&["EXEC"], "city Ulm"),
        (&["HLEN", "profile"], "1"),
        (&["HTTL", "profile", "FIELDS", "2", "city", "old"], "-1 -2"),
    ] {
        assert_eq!(connection.ask(words).await.text(), answer, "{words:?}");
    }
    assert_eq!(connection.ask(&["PTTL", "profile"]).await, ttl);
}
