//! Flipped bytes on the disk are reported and never served.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Embedded, file_of, files, flip, folder, options};
use bytes::Bytes;
use futures::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::copying::{Copier, Patience};
use store::suite::{Damaging, Subject};
use store::{
    Call, Class, ContentId, Deadline, Lane, ManualClock, NewRow, Row, Scan, Step, Store, StoreError, StoreResult,
    SystemClock, Table, UnixMillis, ValueKind, envelope,
};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

const ROWS: u32 = 200;

fn call() -> Call {
    Call::new(Class::Content, Deadline::within(Duration::from_secs(60)))
}

fn open(folder: &Path) -> StoreResult<Arc<EmbeddedStore>> {
    EmbeddedStore::open(folder, options(), Arc::new(SystemClock))
}

fn payload(row: u32) -> Vec<u8> {
    let mut payload = vec![0; 12_000];
    StdRng::seed_from_u64(row.into()).fill(&mut payload[..]);
    payload
}

/// Writes rows and has them flushed to files: closing flushes this many.
async fn write_rows(folder: &Path) {
    let store = open(folder).unwrap();
    for first in (0..ROWS).step_by(50) {
        let rows = (first..first + 50)
            .map(|row| NewRow::new(row.to_be_bytes().to_vec(), envelope::seal(ValueKind::Trial, &payload(row))))
            .collect();
        let step = Step::Put { table: Table::Objects, partition: "p".into(), rows };
        assert!(store.run(call(), vec![step]).await.unwrap().is_applied());
    }
    store.close().await.unwrap();
}

fn files_of_tables(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.join("db/text/keyspaces")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
        }
    }
    files.retain(|file| file.parent().is_some_and(|folder| folder.ends_with("tables")));
    files
}

/// Whether damage was reported. Panics if anything wrong was served.
fn is_reported(row: u32, read: StoreResult<Option<Row>>) -> bool {
    match read {
        Ok(Some(found)) => match envelope::open(ValueKind::Trial, &found.value) {
            Ok(found) => {
                assert!(found == payload(row), "row {row} was served with another value");
                false
            }
            Err(_) => true,
        },
        Ok(None) => panic!("row {row} is reported as absent"),
        Err(StoreError::Corrupt { table: Table::Objects, .. }) => true,
        Err(error) => panic!("row {row}: {error}"),
    }
}

/// Whether a store with a damaged file reports it, on opening or on reading.
async fn reports_damage(folder: &Path) -> bool {
    let store = match open(folder) {
        Ok(store) => store,
        Err(StoreError::Unreadable { .. }) => return true,
        Err(error) => panic!("{error}"),
    };
    let mut reported = false;
    for row in 0..ROWS {
        let sort = Bytes::copy_from_slice(&row.to_be_bytes());
        reported |= is_reported(row, store.get(call(), Table::Objects, &"p".into(), &sort).await);
    }
    match store.scan(call(), Table::Objects, &"p".into(), Scan::prefix("", usize::MAX)).await {
        Ok(page) => {
            assert_eq!(page.rows.len(), ROWS as usize, "a scan left out rows");
            for (row, found) in (0..).zip(page.rows) {
                reported |= is_reported(row, Ok(Some(found)));
            }
        }
        Err(StoreError::Corrupt { .. }) => reported = true,
        Err(error) => panic!("{error}"),
    }
    store.close().await.unwrap();
    reported
}

#[tokio::test]
async fn a_flipped_byte_in_a_file_of_rows_is_reported_and_never_served() {
    let folder = folder();
    write_rows(folder.path()).await;
    assert!(!reports_damage(folder.path()).await, "damage is reported where there is none");
    let files = files_of_tables(folder.path());
    let largest = files.into_iter().max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap();
    let len = fs::metadata(&largest).unwrap().len();
    assert!(len > u64::from(ROWS) * 12_000, "the rows are not in this file");

    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    // Nearly all of the file is data blocks; its last part is index, filter and table of contents.
    let mut places: Vec<u64> = (0..15).map(|_| random.random_range(0..len)).collect();
    places.extend((0..10).map(|_| random.random_range(len - 2000..len)));
    let mut reported = 0;
    for at in places {
        flip(&largest, at);
        println!("byte {at} of {len}");
        reported += u32::from(reports_damage(folder.path()).await);
        flip(&largest, at);
    }
    assert!(reported >= 15, "only {reported} of 25 flips were reported");
}

/// This holds before merging meets the broken block, and after it, when writes are refused.
#[tokio::test]
async fn rows_beside_a_broken_block_stay_readable_and_no_write_is_lost_silently() {
    let folder = folder();
    write_rows(folder.path()).await;
    let files = files_of_tables(folder.path());
    let largest = files.into_iter().max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap();
    flip(&largest, fs::metadata(&largest).unwrap().len() / 2);

    let store = EmbeddedStore::open(
        folder.path(),
        EmbeddedOptions { memtable_bytes: 1 << 20, ..options() },
        Arc::new(SystemClock),
    )
    .unwrap();
    let mut written = Vec::new();
    for row in ROWS..2 * ROWS {
        let put = NewRow::new(row.to_be_bytes().to_vec(), envelope::seal(ValueKind::Trial, &payload(row)));
        let step = Step::Put { table: Table::Objects, partition: "p".into(), rows: vec![put] };
        match store.run(call(), vec![step]).await {
            Ok(outcome) if outcome.is_applied() => written.push(row),
            Ok(_) | Err(StoreError::Poisoned(_)) => {
                assert!(
                    store.health().await.refusing_writes.contains_key(&Lane::Text),
                    "writes are refused, but not reported as refused"
                );
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut reported = 0;
    for row in (0..ROWS).chain(written) {
        let sort = Bytes::copy_from_slice(&row.to_be_bytes());
        reported += usize::from(is_reported(row, store.get(call(), Table::Objects, &"p".into(), &sort).await));
    }
    assert!((1..=4).contains(&reported), "{reported} rows are damaged, a block holds three");
}

/// Writes the same rows again and again, so that files are merged, until writes of text are
/// refused.
async fn write_until_text_is_refused(store: &EmbeddedStore) -> StoreError {
    for row in (0..ROWS).cycle().take(50 * ROWS as usize) {
        let put = NewRow::new(row.to_be_bytes().to_vec(), envelope::seal(ValueKind::Trial, &payload(row)));
        let step = Step::Put { table: Table::Objects, partition: "p".into(), rows: vec![put] };
        match store.run(call(), vec![step]).await {
            Ok(_) => {}
            Err(error @ StoreError::Poisoned(_)) => return error,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("merging never met the broken block");
}

#[tokio::test]
async fn a_broken_block_of_text_that_merging_meets_does_not_stop_the_service_lane() {
    let folder = folder();
    write_rows(folder.path()).await;
    let files = files_of_tables(folder.path());
    let largest = files.into_iter().max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap();
    let options = EmbeddedOptions { memtable_bytes: 1 << 20, ..options() };
    let store = EmbeddedStore::open(folder.path(), options, Arc::new(SystemClock)).unwrap();
    // Only now: what is merged while the store opens must not meet it.
    flip(&largest, fs::metadata(&largest).unwrap().len() / 2);
    let refused = write_until_text_is_refused(&store).await;
    assert!(refused.to_string().contains("lane text"), "{refused}");

    let health = store.health().await;
    assert_eq!(health.refusing_writes.into_keys().collect::<Vec<_>>(), [Lane::Text]);
    for table in Lane::Service.tables() {
        let step = Step::Put { table, partition: "p".into(), rows: vec![NewRow::new("a", "v")] };
        assert!(store.run(call(), vec![step]).await.unwrap().is_applied());
    }
    store.close().await.unwrap();
    let store = open(folder.path()).unwrap();
    for table in Lane::Service.tables() {
        assert!(store.get(call(), table, &"p".into(), &"a".into()).await.unwrap().is_some(), "of {table}");
    }
}

/// The journal holds rows that are in no file yet.
#[tokio::test]
async fn a_flipped_byte_of_a_value_in_the_journal_is_reported_when_it_is_replayed() {
    let folder = folder();
    let store = open(folder.path()).unwrap();
    for row in 0..20 {
        let rows = vec![NewRow::new(u32::to_be_bytes(row).to_vec(), envelope::seal(ValueKind::Trial, &payload(row)))];
        let step = Step::Put { table: Table::Objects, partition: "p".into(), rows };
        assert!(store.run(call(), vec![step]).await.unwrap().is_applied());
    }
    store.close().await.unwrap();
    let names = fs::read_dir(folder.path().join("db/text")).unwrap().map(|entry| entry.unwrap().path());
    let journal = names.filter(|name| name.extension().is_some_and(|kind| kind == "jnl")).max().unwrap();
    let content = fs::read(&journal).unwrap();
    for row in [0, 7, 19] {
        let begin = payload(row)[..64].to_vec();
        let at = content.windows(64).position(|window| window == begin).expect("the row is not in the journal");
        for within in [0, 5000, 11_999] {
            flip(&journal, at as u64 + within);
            match open(folder.path()) {
                Err(StoreError::Unreadable { .. }) => {}
                Err(error) => panic!("{error}"),
                Ok(_) => panic!("a flipped byte {within} of row {row} was taken for what was written"),
            }
            fs::write(&journal, &content).unwrap();
        }
    }
    let store = open(folder.path()).unwrap();
    let page = store.scan(call(), Table::Objects, &"p".into(), Scan::prefix("", usize::MAX)).await.unwrap();
    assert_eq!(page.rows.len(), 20);
}

#[tokio::test]
async fn a_damaged_content_is_left_out_of_a_copy_and_named_and_everything_else_is_copied() {
    let (source, target) = (Embedded::bare(), Embedded::bare());
    let mut ids = Vec::new();
    for byte in 1..4 {
        let content = stream::iter([Ok(Bytes::from(vec![byte; 300_000]))]).boxed();
        ids.push(source.store().put_content(call(), "owner".into(), content).await.unwrap());
    }
    source.flip_bit(ids[0], 200_000).await;
    source.lose_bytes(ids[1]).await;
    let copier = Copier::begin(source.store(), target.store(), "the source", Patience::default()).await.unwrap();
    copier.pass().await.unwrap();
    assert!(copier.pass().await.unwrap().found_nothing());
    copier.verify().await.unwrap();
    let mut damaged = ids[..2].to_vec();
    damaged.sort();
    assert_eq!(copier.damaged_contents(), damaged);
    copier.end().await.unwrap();
    for (id, is_there) in ids.iter().zip([false, false, true]) {
        assert_eq!(target.store().content_header(call(), *id).await.unwrap().is_some(), is_there);
    }
}

/// Breaks a block in the middle of the largest file of rows within a folder.
fn break_a_block(folder: &Path) {
    let all = files(folder).into_iter();
    let of_rows = all.filter(|(path, _)| path.parent().is_some_and(|parent| parent.ends_with("tables")));
    let (largest, content) = of_rows.max_by_key(|(_, content)| content.len()).unwrap();
    flip(&largest, content.len() as u64 / 2);
}

#[tokio::test]
async fn a_broken_block_of_headers_ends_no_sweep_of_contents_or_of_their_files() {
    const CONTENTS: u64 = 100;
    let folder = folder();
    let store = open(folder.path()).unwrap();
    for _ in 0..CONTENTS {
        let content = stream::iter([Ok(Bytes::from_static(b"content"))]).boxed();
        // A block holds three such headers.
        let id = store.put_content(call(), vec![b'o'; 1_000].into(), content).await.unwrap();
        assert!(store.condemn_content(call(), id).await.unwrap());
    }
    store.close().await.unwrap();
    break_a_block(&folder.path().join("db/text/keyspaces"));
    let unknown = file_of(folder.path(), ContentId([0; 16]));
    fs::create_dir_all(unknown.parent().unwrap()).unwrap();
    fs::write(unknown, "no header names it").unwrap();

    let store = open(folder.path()).unwrap();
    let swept = store.sweep(call()).await.unwrap();
    assert!((CONTENTS - 15..CONTENTS).contains(&swept), "{swept} of {CONTENTS} contents are swept");
    assert_eq!(store.health().await.unknown_contents, 1);
    assert_eq!(store.sweep(call()).await.unwrap(), 0, "what cannot be read stays");
}

#[tokio::test]
async fn a_broken_block_keeps_no_other_expired_record_from_being_reclaimed() {
    const RECORDS: u64 = 400;
    // Of the records, and of the list of when they expire: a block of that holds some thirty.
    for (keyspace, left_max) in [(2, 15), (3, 80)] {
        let folder = folder();
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let open = || EmbeddedStore::open(folder.path(), options(), clock.clone()).unwrap();
        let put = |number: u64| {
            let expires_at = Some(UnixMillis(2_000_000 + number));
            let rows = vec![NewRow { sort: Bytes::new(), value: vec![7_u8; 500].into(), expires_at }];
            let partition = [&number.to_be_bytes()[..], &[b'p'; 100]].concat().into();
            Step::Put { table: Table::Records, partition, rows }
        };
        let store = open();
        assert!(store.run(call(), (0..RECORDS).map(put).collect()).await.unwrap().is_applied());
        store.close().await.unwrap();
        drop(store);
        break_a_block(&folder.path().join(format!("db/records/keyspaces/{keyspace}")));

        let store = open();
        assert_eq!(store.sweep(call()).await.unwrap(), 0, "keyspace {keyspace}: a forecast is no failure");
        clock.advance(Duration::from_secs(3_600));
        let swept = store.sweep(call()).await.unwrap();
        assert!((RECORDS - left_max..RECORDS).contains(&swept), "keyspace {keyspace}: {swept} records are reclaimed");
        assert_eq!(store.sweep(call()).await.unwrap(), 0, "keyspace {keyspace}: what cannot be read stays");
    }
}

#[tokio::test]
async fn a_broken_block_in_files_with_deleted_records_refuses_no_write() {
    const RECORDS: u64 = 3_000;
    let folder = folder();
    let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
    let open = || EmbeddedStore::open(folder.path(), options(), clock.clone()).unwrap();
    let put = |name: String, expires_at| {
        let rows = vec![NewRow { sort: Bytes::new(), value: vec![7_u8; 500].into(), expires_at }];
        Step::Put { table: Table::Records, partition: name.into(), rows }
    };
    let store = open();
    let expiring = (0..RECORDS).map(|number| put(format!("record {number}"), Some(UnixMillis(2_000_000))));
    assert!(store.run(call(), expiring.collect()).await.unwrap().is_applied());
    store.close().await.unwrap();
    drop(store);
    break_a_block(&folder.path().join("db/records/keyspaces/2"));
    clock.advance(Duration::from_secs(3_600));
    let store = open();
    let swept = store.sweep(call()).await.unwrap();
    assert!((RECORDS - 15..RECORDS).contains(&swept), "{swept} records are reclaimed");
    for round in 0..10 {
        assert!(store.run(call(), vec![put(format!("new {round}"), None)]).await.unwrap().is_applied());
        assert_eq!(store.sweep(call()).await.unwrap(), 0);
    }
    // Waits for the merge, which leaves a file that is in no list.
    store.close().await.unwrap();
    drop(store);
    let all = files(&folder.path().join("db/records/keyspaces/2/tables"));
    assert!(all.len() >= 3, "a merge was not tried: {:?}", all.keys());
    let store = open();
    assert_eq!(store.health().await.refusing_writes.len(), 0);
    let new = store.get(call(), Table::Records, &"new 9".into(), &Bytes::new()).await.unwrap();
    assert_eq!(new.unwrap().value, vec![7_u8; 500]);
}
