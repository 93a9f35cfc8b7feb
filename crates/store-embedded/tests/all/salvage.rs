//! Salvage copies what can be read of a damaged data folder, names what cannot, and does not change
//! the source.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{copied, file_of, files, flip, folder, options};
use bytes::Bytes;
use futures::{StreamExt, stream};
use store::{
    Call, Class, Deadline, Expect, Guard, Lane, NewRow, Scan, Stamp, Step, Store, StoreError, SystemClock, Table,
    UnixMillis, ValueKind, envelope,
};
use store_embedded::{EmbeddedStore, Loss, salvage};
use tempfile::TempDir;

const ROWS: u32 = 200;

/// Two versions of a row.
const OLDER: &str = "an older version";
const NEWER: &str = "the newest of all";

fn call() -> Call {
    Call::new(Class::Content, Deadline::within(Duration::from_secs(60)))
}

fn open(folder: &Path) -> Arc<EmbeddedStore> {
    EmbeddedStore::open(folder, options(), Arc::new(SystemClock)).unwrap()
}

fn value(row: u32) -> Bytes {
    envelope::seal(ValueKind::Trial, &row.to_be_bytes().repeat(3_000))
}

fn head(stamp: Stamp) -> Step {
    Step::CompareAndWrite {
        table: Table::Objects,
        partition: "head".into(),
        sort: "h".into(),
        expect: Expect::Absent,
        guard: Guard { stamp, tag: Bytes::from_static(b"tag") },
        value: envelope::seal(ValueKind::Trial, b"a head"),
    }
}

/// The tables of the lanes of small rows.
fn small_tables() -> impl Iterator<Item = Table> {
    Lane::Service.tables().chain(Lane::Records.tables())
}

/// Rows of all lanes, some that expire, a head and a content; a part of them only in the journal.
async fn fill(store: &Arc<EmbeddedStore>, stamp: Stamp) -> store::ContentId {
    for row in 0..ROWS {
        let rows = vec![NewRow::new("r", value(row))];
        let partition = Bytes::from(format!("p{row:03}"));
        assert!(
            store.run(call(), vec![Step::Put { table: Table::Objects, partition, rows }]).await.unwrap().is_applied()
        );
    }
    assert!(store.run(call(), vec![head(stamp)]).await.unwrap().is_applied());
    for table in small_tables() {
        let expires_at = table.info().may_expire.then_some(UnixMillis(u64::MAX));
        let expiring = NewRow { expires_at, ..NewRow::new("e", envelope::seal(ValueKind::Trial, b"ends")) };
        let rows = vec![NewRow::new("a", envelope::seal(ValueKind::Trial, b"who")), expiring];
        assert!(store.run(call(), vec![Step::Put { table, partition: "p".into(), rows }]).await.unwrap().is_applied());
    }
    store.put_content(call(), "owner".into(), stream::iter([Ok("content".into())]).boxed()).await.unwrap()
}

fn break_a_block_of_text(folder: &Path) {
    let tables = files(&folder.join("db/text/keyspaces"));
    let (path, mut content) = tables.into_iter().max_by_key(|(_, content)| content.len()).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x10;
    fs::write(path, content).unwrap();
}

async fn salvaged_rows(store: &Arc<EmbeddedStore>) -> u32 {
    let mut there = 0;
    for row in 0..ROWS {
        let partition = Bytes::from(format!("p{row:03}"));
        if let Some(found) = store.get(call(), Table::Objects, &partition, &"r".into()).await.unwrap() {
            assert_eq!(found.value, value(row));
            there += 1;
        }
    }
    there
}

async fn assert_the_rest_is_there(store: &Arc<EmbeddedStore>, stamp: Stamp, content: store::ContentId) {
    let found = store.get(call(), Table::Objects, &"head".into(), &"h".into()).await.unwrap().unwrap();
    assert_eq!(found.guard, Some(Guard { stamp, tag: Bytes::from_static(b"tag") }));
    for table in small_tables() {
        let page = store.scan(call(), table, &"p".into(), Scan::prefix("", usize::MAX)).await.unwrap();
        assert_eq!(page.rows.len(), 2, "of {table}");
    }
    let mut pieces = store.read_content(call(), content, 0..100).await.unwrap().unwrap();
    assert_eq!(pieces.next().await.unwrap().unwrap(), "content");
}

#[tokio::test]
async fn everything_in_a_sound_folder_is_copied_even_rows_that_only_the_journal_holds() {
    let (source, target) = (folder(), folder());
    let stamp = Stamp::fresh();
    let store = open(source.path());
    let content = fill(&store, stamp).await;
    let held = salvage(source.path(), &target.path().join("early"), |_| {});
    assert!(matches!(held, Err(StoreError::Held { .. })), "{held:?}");
    // Closing would write all rows to files, so this copies the folder of a process that died.
    let died = copied(source.path());
    store.close().await.unwrap();

    let before = files(died.path());
    let mut reported = 0;
    let salvaged = salvage(died.path(), target.path(), |progress| reported = progress.bytes).unwrap();
    assert_eq!((salvaged.losses, salvaged.contents, salvaged.bytes), (Vec::new(), 1, reported));
    assert!(files(died.path()) == before, "the source was changed");
    let again = salvage(died.path(), target.path(), |_| {});
    assert!(matches!(again, Err(StoreError::Invalid(_))), "{again:?}");
    let store = open(target.path());
    assert_eq!(salvaged_rows(&store).await, ROWS);
    assert_the_rest_is_there(&store, stamp, content).await;
}

#[tokio::test]
async fn a_folder_that_a_process_has_open_is_refused_even_if_its_lock_was_deleted() {
    let (source, target) = (folder(), folder());
    let store = open(source.path());
    fs::remove_file(source.path().join("lock")).unwrap();
    let held = salvage(source.path(), target.path(), |_| {});
    assert!(matches!(held, Err(StoreError::Held { .. })), "{held:?}");
    assert!(!target.path().join("format").exists(), "a store was made");
    store.close().await.unwrap();
    salvage(source.path(), target.path(), |_| {}).unwrap();
}

#[tokio::test]
async fn everything_around_a_broken_block_is_copied_and_the_gap_is_named() {
    let (source, target) = (folder(), folder());
    let stamp = Stamp::fresh();
    let store = open(source.path());
    let content = fill(&store, stamp).await;
    store.close().await.unwrap();
    break_a_block_of_text(source.path());
    let before = files(source.path());
    let mut totals = BTreeSet::new();
    let salvaged = salvage(source.path(), target.path(), |progress| {
        totals.insert(progress.bytes_total);
    })
    .unwrap();
    assert!(files(source.path()) == before, "the source was changed");
    assert_eq!(totals.len(), 1, "the total of the progress is not known from the beginning: {totals:?}");

    let [loss] = &salvaged.losses[..] else { panic!("{:?}", salvaged.losses) };
    let row = |partition: &Option<Bytes>| -> u32 {
        std::str::from_utf8(&partition.as_ref().unwrap()[1..]).unwrap().parse().unwrap()
    };
    let gap = row(&loss.before) - row(&loss.after) - 1;
    assert!(loss.table == Table::Objects && (1..=4).contains(&gap), "{loss:?}");
    let store = open(target.path());
    assert_eq!(salvaged_rows(&store).await, ROWS - gap);
    assert_the_rest_is_there(&store, stamp, content).await;
}

#[tokio::test]
async fn a_content_whose_file_is_missing_or_cut_is_named_and_no_file_is_made_for_it() {
    let source = folder();
    let store = open(source.path());
    let mut ids = Vec::new();
    for _ in 0..3 {
        let content = stream::iter([Ok(Bytes::from_static(b"content"))]).boxed();
        ids.push(store.put_content(call(), "owner".into(), content).await.unwrap());
    }
    store.close().await.unwrap();
    fs::remove_file(file_of(source.path(), ids[0])).unwrap();
    fs::write(file_of(source.path(), ids[1]), "cont").unwrap();
    let target = folder();
    let salvaged = salvage(source.path(), target.path(), |_| {}).unwrap();
    assert_eq!((salvaged.contents, salvaged.losses.len()), (1, 2), "{:?}", salvaged.losses);
    let is_there = |id: &store::ContentId| file_of(target.path(), *id).exists();
    assert_eq!(ids.iter().map(is_there).collect::<Vec<_>>(), [false, false, true]);

    // The target cannot take the last one.
    let full = folder();
    fs::create_dir(full.path().join("contents")).unwrap();
    fs::write(file_of(full.path(), ids[2]).parent().unwrap(), "no folder").unwrap();
    let failed = salvage(source.path(), full.path(), |_| {});
    assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
}

#[tokio::test]
async fn a_lane_without_a_readable_file_is_named_and_the_rows_of_its_journal_are_copied() {
    let (source, target) = (folder(), folder());
    let store = open(source.path());
    fill(&store, Stamp::fresh()).await;
    store.close().await.unwrap();
    for (path, _) in files(&source.path().join("db/text/keyspaces")) {
        fs::write(path, b"nothing that was ever written").unwrap();
    }
    let salvaged = salvage(source.path(), target.path(), |_| {}).unwrap();
    let lost: Vec<Table> = salvaged.losses.iter().map(|loss| loss.table).collect();
    assert_eq!(lost, Lane::Text.tables().collect::<Vec<_>>());
    let store = open(target.path());
    assert_eq!(salvaged_rows(&store).await, ROWS);
    assert!(store.get(call(), Table::Audit, &"p".into(), &"a".into()).await.unwrap().is_some());
}

fn sealed(text: &str) -> Bytes {
    envelope::seal(ValueKind::Trial, text.as_bytes())
}

/// The folder of a closed store. A row of each of these tables has two versions, in a file each.
async fn with_two_versions(tables: &[Table], is_guarded: bool) -> TempDir {
    let folder = folder();
    let mut expect = Expect::Absent;
    for text in [OLDER, NEWER] {
        let store = open(folder.path());
        let stamp = Stamp::fresh();
        for table in tables.iter().copied() {
            let (partition, value) = (Bytes::from_static(b"p"), sealed(text));
            let step = if is_guarded {
                let guard = Guard { stamp, tag: Bytes::new() };
                Step::CompareAndWrite { table, partition, sort: "s".into(), expect, guard, value }
            } else {
                Step::Put { table, partition, rows: vec![NewRow::new("s", value)] }
            };
            assert!(store.run(call(), vec![step]).await.unwrap().is_applied());
        }
        expect = Expect::Stamp(stamp);
        store.close().await.unwrap();
    }
    folder
}

/// Salvages a folder. Returns the version of a row of each of these tables in the copy, and the
/// losses.
async fn salvaged_versions<const N: usize>(
    source: &Path,
    tables: [Table; N],
) -> ([Option<&'static str>; N], Vec<Loss>) {
    let target = folder();
    let salvaged = salvage(source, target.path(), |_| {}).unwrap();
    let store = open(target.path());
    let mut versions = [None; N];
    for (table, version) in tables.into_iter().zip(&mut versions) {
        let row = store.get(call(), table, &"p".into(), &"s".into()).await.unwrap();
        *version = row.map(|row| *[OLDER, NEWER].iter().find(|text| row.value == sealed(text)).unwrap());
    }
    store.close().await.unwrap();
    (versions, salvaged.losses)
}

/// The folder of a table: they are made in this order, after that of the engine's own marks.
fn keyspace_of(folder: &Path, table: Table) -> PathBuf {
    let place = table.lane().tables().position(|other| other == table).unwrap();
    folder.join("db").join(table.lane().name()).join("keyspaces").join((place + 2).to_string())
}

/// The older and the newer file of rows of a table.
fn files_of_rows(folder: &Path, table: Table) -> [PathBuf; 2] {
    let names = fs::read_dir(keyspace_of(folder, table).join("tables")).unwrap();
    let mut files: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|path| path.file_name().unwrap().to_str().unwrap().parse::<u64>().unwrap());
    files.try_into().unwrap()
}

fn journals(folder: &Path, lane: Lane) -> Vec<PathBuf> {
    let names = fs::read_dir(folder.join("db").join(lane.name())).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|kind| kind == "jnl")).collect()
}

/// Begins a new journal in place of the others, as the engine does in time: all their rows are in
/// files.
fn begin_journal(folder: &Path, lane: Lane) {
    let journals = journals(folder, lane);
    let number = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let next = journals.iter().map(number).max().unwrap() + 1;
    journals.iter().for_each(|journal| fs::remove_file(journal).unwrap());
    fs::write(folder.join("db").join(lane.name()).join(format!("{next}.jnl")), b"").unwrap();
}

/// What is lost of a table, and the versions of a token and of a head that salvage copies.
type Lost = (&'static str, fn(&Path, Table), [Option<&'static str>; 2]);

const LOST: [Lost; 8] = [
    ("nothing", |_, _| {}, [Some(NEWER), Some(NEWER)]),
    (
        "the newer file, whose rows the journal has too",
        |folder, table| fs::remove_file(&files_of_rows(folder, table)[1]).unwrap(),
        [Some(NEWER), Some(NEWER)],
    ),
    (
        "the newer file",
        |folder, table| {
            begin_journal(folder, table.lane());
            fs::remove_file(&files_of_rows(folder, table)[1]).unwrap();
        },
        [None, Some(OLDER)],
    ),
    (
        "the older file",
        |folder, table| {
            begin_journal(folder, table.lane());
            fs::remove_file(&files_of_rows(folder, table)[0]).unwrap();
        },
        [Some(NEWER), Some(NEWER)],
    ),
    (
        "the file that names the list of files",
        |folder, table| {
            begin_journal(folder, table.lane());
            fs::remove_file(keyspace_of(folder, table).join("current")).unwrap();
        },
        [Some(NEWER), Some(NEWER)],
    ),
    (
        "the journals",
        |folder, table| {
            journals(folder, table.lane()).iter().for_each(|journal| fs::remove_file(journal).unwrap());
        },
        [None, Some(NEWER)],
    ),
    (
        "the journals and the newer file",
        |folder, table| {
            journals(folder, table.lane()).iter().for_each(|journal| fs::remove_file(journal).unwrap());
            fs::remove_file(&files_of_rows(folder, table)[1]).unwrap();
        },
        [None, Some(OLDER)],
    ),
    (
        "the record",
        |folder, table| fs::remove_file(folder.join("db").join(format!("{}.record", table.lane()))).unwrap(),
        [None, Some(NEWER)],
    ),
];

#[tokio::test]
async fn a_revoked_token_does_not_come_back_whatever_is_lost_and_what_is_certain_is_copied() {
    const TABLES: [Table; 2] = [Table::Tokens, Table::Objects];
    let closed = with_two_versions(&TABLES, true).await;
    let with_new_journals = copied(closed.path());
    TABLES.iter().for_each(|table| begin_journal(with_new_journals.path(), table.lane()));
    let salvaged = salvaged_versions(with_new_journals.path(), TABLES).await;
    assert_eq!(salvaged, ([Some(NEWER); 2], vec![]), "new journals are a loss");
    for (what, damage, expected) in LOST {
        let damaged = copied(closed.path());
        TABLES.iter().for_each(|table| damage(damaged.path(), *table));
        let (versions, losses) = salvaged_versions(damaged.path(), TABLES).await;
        assert_eq!(versions, expected, "{what}: {losses:?}");
        for table in TABLES {
            assert_eq!(losses.iter().any(|loss| loss.table == table), what != "nothing", "{what}: {losses:?}");
        }
        let is_told = losses.iter().any(|loss| loss.detail.starts_with("1 rows are left out"));
        assert_eq!(is_told, expected[0].is_none(), "{what}: {losses:?}");
    }
}

#[tokio::test]
async fn an_earlier_record_within_a_broken_block_is_left_out_and_an_earlier_page_of_the_audit_is_copied() {
    const TABLES: [Table; 3] = [Table::Records, Table::Selections, Table::Audit];
    let closed = with_two_versions(&TABLES, false).await;
    for lane in [Lane::Records, Lane::Service] {
        begin_journal(closed.path(), lane);
    }
    for table in TABLES {
        let [_, newer] = files_of_rows(closed.path(), table);
        let content = fs::read(&newer).unwrap();
        let at = content.windows(NEWER.len()).position(|window| window == NEWER.as_bytes()).unwrap();
        flip(&newer, at as u64);
    }
    let (versions, losses) = salvaged_versions(closed.path(), TABLES).await;
    assert_eq!(versions, [None, None, Some(OLDER)], "{losses:?}");
    let lost: BTreeSet<Table> = losses.iter().map(|loss| loss.table).collect();
    assert_eq!(lost, BTreeSet::from(TABLES));
}
