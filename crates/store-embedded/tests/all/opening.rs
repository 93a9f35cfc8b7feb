//! A database with a missing, foreign, truncated or outdated part: it is refused before anything is
//! opened, nothing on the disk is changed, the error names the file, and salvage copies what is
//! left.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{copied, files, folder, options};
use bytes::Bytes;
use store::{
    Call, Class, Deadline, Lane, NewRow, Scan, Step, Store, StoreError, StoreResult, SystemClock, Table, ValueKind,
    envelope,
};
use store_embedded::{EmbeddedOptions, EmbeddedStore, salvage};
use tempfile::TempDir;

/// Rows that are in files of rows.
const FLUSHED: u32 = 20;

/// Rows that only the journal holds, each in a group of its own.
const IN_JOURNAL: u32 = 12;

fn call() -> Call {
    Call::new(Class::Content, Deadline::within(Duration::from_secs(60)))
}

fn open(folder: &Path) -> StoreResult<Arc<EmbeddedStore>> {
    EmbeddedStore::open(folder, options(), Arc::new(SystemClock))
}

fn value(row: u32) -> Bytes {
    envelope::seal(ValueKind::Trial, &row.to_be_bytes().repeat(500))
}

async fn put(store: &EmbeddedStore, row: u32) {
    // A row in each of two tables of text, and one in the other lane.
    let rows = || vec![NewRow::new(row.to_be_bytes().to_vec(), value(row))];
    let text = [Table::Objects, Table::Children].map(|table| Step::Put { table, partition: "p".into(), rows: rows() });
    assert!(store.run(call(), text.into()).await.unwrap().is_applied());
    let service = Step::Put { table: Table::Audit, partition: "p".into(), rows: rows() };
    assert!(store.run(call(), vec![service]).await.unwrap().is_applied());
}

/// The folder of a process that died: some rows are in files, some in the journal alone.
async fn died() -> TempDir {
    let lived = folder();
    let store = open(lived.path()).unwrap();
    for row in 0..FLUSHED {
        put(&store, row).await;
    }
    store.close().await.unwrap();
    let store = open(lived.path()).unwrap();
    for row in FLUSHED..FLUSHED + IN_JOURNAL {
        put(&store, row).await;
    }
    // So few rows stay in memory, so nothing is flushed or merged now.
    let died = copied(lived.path());
    store.close().await.unwrap();
    died
}

async fn rows(store: &EmbeddedStore, table: Table) -> Vec<u32> {
    let page = store.scan(call(), table, &"p".into(), Scan::prefix("", usize::MAX)).await.unwrap();
    let row = |row: &store::Row| u32::from_be_bytes(row.sort[..].try_into().unwrap());
    page.rows.iter().for_each(|found| assert_eq!(found.value, value(row(found))));
    page.rows.iter().map(row).collect()
}

/// The journals of text, oldest first.
fn journals(folder: &Path) -> Vec<PathBuf> {
    journals_of(folder, "text")
}

/// The journals of a lane, oldest first.
fn journals_of(folder: &Path, lane: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(folder.join("db").join(lane)).unwrap().map(|entry| entry.unwrap().path());
    let mut journals: Vec<_> = names.filter(|path| path.extension().is_some_and(|kind| kind == "jnl")).collect();
    journals.sort();
    journals
}

/// The ends of the groups of a journal.
fn ends(journal: &[u8]) -> Vec<usize> {
    let ends = journal.windows(4).enumerate().filter(|(_, window)| window == b"FJL\x03");
    ends.map(|(at, _)| at + 4).collect()
}

/// The file of rows of the table of text that has the most.
fn largest_file_of_rows(folder: &Path) -> PathBuf {
    let all = files(&folder.join("db/text/keyspaces")).into_iter();
    let of_rows = all.filter(|(path, _)| path.parent().is_some_and(|parent| parent.ends_with("tables")));
    of_rows.max_by_key(|(_, content)| content.len()).unwrap().0
}

/// The folder of the keyspace of that file.
fn largest_keyspace(folder: &Path) -> PathBuf {
    largest_file_of_rows(folder).ancestors().nth(2).unwrap().to_path_buf()
}

fn replace_folder(from: &Path, to: &Path) {
    fs::remove_dir_all(to).unwrap();
    for (path, content) in files(from) {
        let path = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Asserts that opening is refused, names the file, and changes nothing.
fn assert_refused(what: &str, folder: &Path, named: &str) {
    let before = files(folder);
    match open(folder) {
        Err(StoreError::Unreadable { detail, .. }) => assert!(detail.contains(named), "{what}: {detail}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: it was opened"),
    }
    let after = files(folder);
    let changed = before.keys().chain(after.keys()).find(|path| before.get(*path) != after.get(*path));
    assert_eq!(changed, None, "{what}: opening changed something");
}

/// Salvages what is left. Asserts that nothing is changed, and that losses are reported if rows are
/// missing. Returns the rows of each table in the copy.
async fn salvaged(what: &str, source: &Path) -> [Vec<u32>; 3] {
    let before = files(source);
    let target = folder();
    let salvaged = salvage(source, target.path(), |_| {}).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(files(source) == before, "{what}: salvage changed the source");
    let store = open(target.path()).unwrap();
    let found =
        [rows(&store, Table::Objects).await, rows(&store, Table::Children).await, rows(&store, Table::Audit).await];
    store.close().await.unwrap();
    let is_whole = found.iter().all(|rows| rows.len() == (FLUSHED + IN_JOURNAL) as usize);
    assert!(is_whole || !salvaged.losses.is_empty(), "{what}: salvage says that nothing is lost");
    found
}

/// What is left of a table.
enum Left {
    All,
    /// The rows in files of rows.
    Flushed,
    /// All rows but some of those that only the journal holds.
    Most,
    Nothing,
}

impl Left {
    fn check(&self, what: &str, rows: &[u32]) {
        let all: Vec<u32> = (0..FLUSHED + IN_JOURNAL).collect();
        let flushed = &all[..FLUSHED as usize];
        match self {
            Left::All => assert_eq!(rows, all, "{what}"),
            Left::Flushed => assert_eq!(rows, flushed, "{what}"),
            Left::Most => assert!(rows.len() > flushed.len() && rows.len() < all.len(), "{what}: {rows:?}"),
            Left::Nothing => assert!(rows.is_empty(), "{what}: {rows:?}"),
        }
    }
}

/// What is done to the folder of a process that died, what the error names, and what salvage finds
/// of its lane. (The journal goes back to the beginning here, so it also holds the rows that are in
/// files.)
type Damage = (&'static str, fn(&Path), &'static str, Left);

const DAMAGES: [Damage; 17] = [
    (
        "the list of a table's files is gone",
        |folder| fs::remove_file(largest_keyspace(folder).join("current")).unwrap(),
        "current",
        Left::All,
    ),
    (
        "the folder of a table is gone",
        |folder| fs::remove_dir_all(largest_keyspace(folder)).unwrap(),
        "keyspaces/",
        Left::All,
    ),
    (
        "the list of the list of names is gone",
        |folder| fs::remove_file(folder.join("db/text/keyspaces/0/current")).unwrap(),
        "keyspaces/0/current",
        Left::All,
    ),
    (
        "the list of names is gone",
        |folder| fs::remove_dir_all(folder.join("db/text/keyspaces/0")).unwrap(),
        "keyspaces/0",
        Left::All,
    ),
    (
        "all tables are gone",
        |folder| fs::remove_dir_all(folder.join("db/text/keyspaces")).unwrap(),
        "keyspaces",
        Left::All,
    ),
    ("the version is gone", |folder| fs::remove_file(folder.join("db/text/version")).unwrap(), "version", Left::All),
    (
        "a bit of a list's checksum is flipped",
        |folder| flip(&largest_keyspace(folder).join("current"), 12),
        "keyspaces/",
        Left::All,
    ),
    ("a file of rows is gone", |folder| fs::remove_file(largest_file_of_rows(folder)).unwrap(), "tables/", Left::All),
    (
        "a file of rows is cut",
        |folder| {
            let path = largest_file_of_rows(folder);
            let content = fs::read(&path).unwrap();
            fs::write(&path, &content[..content.len() / 2]).unwrap();
        },
        "tables/",
        Left::All,
    ),
    (
        "all journals are gone",
        |folder| journals(folder).iter().for_each(|journal| fs::remove_file(journal).unwrap()),
        ".jnl",
        Left::Flushed,
    ),
    ("the journal is empty", |folder| fs::write(&journals(folder)[0], b"").unwrap(), ".jnl", Left::Flushed),
    (
        "the journal is cut between two groups",
        |folder| {
            let path = &journals(folder)[0];
            let content = fs::read(path).unwrap();
            let ends = ends(&content);
            fs::write(path, &content[..ends[ends.len() - 3]]).unwrap();
        },
        ".jnl",
        Left::Most,
    ),
    (
        "the journal is cut within a group",
        |folder| {
            let path = &journals(folder)[0];
            let content = fs::read(path).unwrap();
            fs::write(path, &content[..content.len() - 100]).unwrap();
        },
        ".jnl",
        Left::Most,
    ),
    (
        "a part of the journal is zeros",
        |folder| {
            let path = &journals(folder)[0];
            let mut content = fs::read(path).unwrap();
            let ends = ends(&content);
            content[ends[ends.len() - 4]..ends[ends.len() - 3]].fill(0);
            fs::write(path, content).unwrap();
        },
        ".jnl",
        Left::Most,
    ),
    (
        "the beginning of a group in the journal has a flipped bit",
        |folder| {
            let path = &journals(folder)[0];
            let ends = ends(&fs::read(path).unwrap());
            flip(path, ends[ends.len() - 4]);
        },
        ".jnl",
        Left::Most,
    ),
    ("the record is gone", |folder| fs::remove_file(folder.join("db/text.record")).unwrap(), "text.record", Left::All),
    (
        "the database of a lane is gone",
        |folder| fs::remove_dir_all(folder.join("db/text")).unwrap(),
        "db/text",
        Left::Nothing,
    ),
];

fn flip(file: &Path, at: usize) {
    let mut content = fs::read(file).unwrap();
    content[at] ^= 4;
    fs::write(file, content).unwrap();
}

#[tokio::test]
async fn missing_truncated_or_flipped_files_are_refused_and_named_and_salvage_copies_the_rest() {
    let died = died().await;
    for (what, damage, named, left) in DAMAGES {
        let damaged = copied(died.path());
        damage(damaged.path());
        assert_refused(what, damaged.path(), named);
        let [objects, children, audit] = salvaged(what, damaged.path()).await;
        left.check(what, &objects);
        left.check(what, &children);
        Left::All.check(what, &audit);
    }
}

/// Opening a lane cuts the torn end off its journal.
#[tokio::test]
async fn a_lane_that_is_refused_leaves_those_of_all_lanes_as_they_were() {
    let died = died().await;
    for lane in Lane::ALL.map(Lane::name) {
        let damaged = copied(died.path());
        for other in Lane::ALL.map(Lane::name).into_iter().filter(|other| *other != lane) {
            let journal = journals_of(damaged.path(), other).pop().unwrap();
            fs::OpenOptions::new().append(true).open(journal).unwrap().write_all(b"torn").unwrap();
        }
        let record = format!("{lane}.record");
        fs::remove_file(damaged.path().join("db").join(&record)).unwrap();
        assert_refused(&format!("the record of {lane} is gone"), damaged.path(), &record);
    }
}

/// The folder of a table of text: they are made in this order, after that of the engine's own
/// marks.
fn keyspace_of(folder: &Path, table: Table) -> PathBuf {
    let place = table.lane().tables().position(|other| other == table).unwrap();
    folder.join("db/text/keyspaces").join((place + 2).to_string())
}

/// What was copied from another store over a part of this one.
type Foreign = (&'static str, fn(&Path, &Path), &'static str);

const FOREIGN: [Foreign; 4] = [
    (
        "a file of rows of another store",
        |other, folder| {
            let path = largest_file_of_rows(folder);
            let same = other.join(path.strip_prefix(folder).unwrap());
            fs::copy(same, path).unwrap();
        },
        "tables/",
    ),
    (
        "a whole table of another store",
        |other, folder| replace_folder(&keyspace_of(other, Table::Objects), &keyspace_of(folder, Table::Objects)),
        "keyspaces/",
    ),
    (
        "a journal of another store",
        |other, folder| {
            fs::copy(&journals(other)[0], &journals(folder)[0]).unwrap();
        },
        ".jnl",
    ),
    (
        "a lane of another store, without its record",
        |other, folder| replace_folder(&other.join("db/text"), &folder.join("db/text")),
        "keyspaces/",
    ),
];

#[tokio::test]
async fn files_of_another_store_are_refused_and_salvage_leaves_them_out() {
    let (died, other) = (died().await, died().await);
    for (what, swap, named) in FOREIGN {
        let mixed = copied(died.path());
        swap(other.path(), mixed.path());
        assert_refused(what, mixed.path(), named);
        salvaged(what, mixed.path()).await;
    }
}

#[tokio::test]
async fn an_outdated_part_is_refused() {
    let lived = folder();
    let store = open(lived.path()).unwrap();
    put(&store, 0).await;
    store.close().await.unwrap();
    let earlier = copied(lived.path());
    let store = open(lived.path()).unwrap();
    for row in 1..10 {
        put(&store, row).await;
    }
    store.close().await.unwrap();
    let later = lived.path();

    let older_table = copied(later);
    replace_folder(&keyspace_of(earlier.path(), Table::Objects), &keyspace_of(older_table.path(), Table::Objects));
    assert_refused("a table of an older backup", older_table.path(), "keyspaces/");

    let older_journal = copied(later);
    fs::copy(&journals(earlier.path())[0], &journals(older_journal.path())[0]).unwrap();
    assert_refused("a journal of an older backup", older_journal.path(), ".jnl");

    let older_lane = copied(later);
    replace_folder(&earlier.path().join("db/text"), &older_lane.path().join("db/text"));
    assert_refused("a lane of an older backup", older_lane.path(), "");

    // A backup as a whole is consistent.
    let store = open(earlier.path()).unwrap();
    assert_eq!(rows(&store, Table::Objects).await, [0]);
}

/// A full journal is sealed and continued in the next. Here one is split into three files: for the
/// engine that is the same.
fn split_journal(folder: &Path) -> [PathBuf; 3] {
    let [journal] = &journals(folder)[..] else { panic!("there are several journals") };
    let first: u64 = journal.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let content = fs::read(journal).unwrap();
    let ends = ends(&content);
    let (one, two) = (ends[ends.len() - 7], ends[ends.len() - 4]);
    let parts = [&content[..one], &content[one..two], &content[two..]];
    let mut paths = [(); 3].map(|()| PathBuf::new());
    for (number, part) in parts.into_iter().enumerate() {
        paths[number] = folder.join("db/text").join(format!("{}.jnl", first + number as u64));
        fs::write(&paths[number], part).unwrap();
    }
    paths
}

#[tokio::test]
async fn a_missing_sealed_journal_is_detected_wherever_it_is() {
    let died = died().await;
    let whole = copied(died.path());
    split_journal(whole.path());
    let store = open(whole.path()).unwrap();
    assert_eq!(rows(&store, Table::Objects).await.len(), (FLUSHED + IN_JOURNAL) as usize);
    drop(store);
    for missing in 0..3 {
        let damaged = copied(died.path());
        let parts = split_journal(damaged.path());
        fs::remove_file(&parts[missing]).unwrap();
        assert_refused(&format!("journal {missing} of three"), damaged.path(), ".jnl");
        let [objects, ..] = salvaged("a missing journal", damaged.path()).await;
        Left::Most.check("a missing journal", &objects);
    }
}

/// The rows of a table that is written to seldom are in the journal alone for long, while the marks
/// of the groups and the rows of another table are in files.
#[tokio::test]
async fn a_sealed_journal_is_missed_while_any_table_needs_it_and_not_once_the_engine_has_deleted_it() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let lived = folder();
    // So small that few groups fill the memtable of the marks.
    let small = EmbeddedOptions { memtable_bytes: 32 << 10, ..options() };
    let store = EmbeddedStore::open(lived.path(), small, Arc::new(SystemClock)).unwrap();
    let put = async |table: Table, value: Bytes| {
        let step = Step::Put { table, partition: "p".into(), rows: vec![NewRow::new("row", value)] };
        assert!(store.run(call(), vec![step]).await.unwrap().is_applied());
    };
    put(Table::Children, "seldom".into()).await;
    // The engine seals a journal when it has 64 MB and a memtable is full.
    for _ in 0..8 {
        put(Table::Objects, vec![7_u8; 8 << 20].into()).await;
    }
    let (first, second) = (lived.path().join("db/text/0.jnl"), lived.path().join("db/text/1.jnl"));
    let files_of_marks = lived.path().join("db/text/keyspaces/1/tables");
    let has_files_of_marks = || fs::read_dir(&files_of_marks).is_ok_and(|mut files| files.next().is_some());
    let begun = Instant::now();
    while !second.exists() || !has_files_of_marks() {
        assert!(begun.elapsed() < PATIENCE, "the journal is not sealed, or the marks are in no file");
        put(Table::Objects, "often".into()).await;
    }
    // Nothing in memory is written to files, as if the process had died.
    drop(store);
    assert!(first.exists(), "the table that is written to seldom does not need the journal");

    let aside = lived.path().join("aside");
    fs::rename(&first, &aside).unwrap();
    match open(lived.path()) {
        Err(StoreError::Unreadable { detail, .. }) => assert!(detail.contains("0.jnl is missing"), "{detail}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened without its oldest journal"),
    }
    fs::rename(&aside, &first).unwrap();

    let seldom = async |store: &EmbeddedStore| {
        let row = store.get(call(), Table::Children, &"p".into(), &"row".into()).await.unwrap();
        assert_eq!(row.unwrap().value, "seldom");
    };
    let store = open(lived.path()).unwrap();
    seldom(&store).await;
    // Now the engine writes the rows of the sealed journal to files, and deletes it. No group is
    // written, so the record does not learn of it.
    let begun = Instant::now();
    while first.exists() {
        assert!(begun.elapsed() < PATIENCE, "the engine does not delete the journal");
        tokio::task::yield_now().await;
    }
    drop(store);
    seldom(&open(lived.path()).unwrap()).await;
}

/// The `lock` of the data folder is gone, but the engine's own are there.
#[tokio::test]
async fn a_second_process_cuts_nothing_off_a_journal_that_is_written_to() {
    let lived = folder();
    let store = open(lived.path()).unwrap();
    put(&store, 0).await;
    // So a journal ends while a group is written to it.
    let journal = journals(lived.path()).remove(0);
    let mut content = fs::read(&journal).unwrap();
    content.extend([7; 100]);
    fs::write(&journal, &content).unwrap();
    fs::remove_file(lived.path().join("lock")).unwrap();
    let second = open(lived.path());
    assert!(matches!(second, Err(StoreError::Held { .. })), "{:?}", second.err());
    assert!(fs::read(&journal).unwrap() == content, "something was cut off");
    assert_eq!(rows(&store, Table::Objects).await, [0]);
}

/// An unfinished group, made from a valid one.
type Torn = (&'static str, fn(&[u8]) -> Vec<u8>);

#[tokio::test]
async fn the_torn_end_of_the_last_group_is_not_damage() {
    let died = died().await;
    let torn: [Torn; 5] = [
        ("a group with a hole", |group| {
            let mut torn = group.to_vec();
            // Within the value of its first row.
            torn[300..1500].fill(0);
            // Turned into the next group by its mark.
            let at = torn.windows(4).position(|window| window == b"mark").unwrap() + 4 + 16;
            torn[at] += 1;
            torn
        }),
        ("zeros", |_| vec![0; 1 << 20]),
        ("half a group", |group| group[..group.len() / 2].to_vec()),
        ("half a group and zeros", |group| [&group[..group.len() / 2], &vec![0; 70_000]].concat()),
        ("bytes without a meaning", |_| (0..=255).rev().cycle().take(5000).collect()),
    ];
    for (what, tail) in torn {
        let folder = copied(died.path());
        let journal = &journals(folder.path())[0];
        let mut content = fs::read(journal).unwrap();
        let ends = ends(&content);
        let last = content[ends[ends.len() - 2]..].to_vec();
        content.extend(tail(&last));
        fs::write(journal, content).unwrap();
        let store = open(folder.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(rows(&store, Table::Objects).await.len(), (FLUSHED + IN_JOURNAL) as usize, "{what}");
        put(&store, 1000).await;
        store.close().await.unwrap();
        let store = open(folder.path()).unwrap_or_else(|error| panic!("{what}, opened again: {error}"));
        assert_eq!(rows(&store, Table::Objects).await.len(), (FLUSHED + IN_JOURNAL + 1) as usize, "{what}");
    }
}

/// Checksums cover every bit that matters, and there are two slots: one flipped bit costs nothing
/// and hides nothing.
#[tokio::test]
async fn a_flipped_bit_in_the_record_costs_nothing_and_flips_in_both_slots_are_refused() {
    let died = died().await;
    let record = |folder: &Path| folder.join("db/text.record");
    let len = fs::metadata(record(died.path())).unwrap().len() as usize;
    for at in (0..64).chain(len / 2..len / 2 + 64).step_by(7) {
        let folder = copied(died.path());
        flip(&record(folder.path()), at);
        let store = open(folder.path()).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert_eq!(rows(&store, Table::Objects).await.len(), (FLUSHED + IN_JOURNAL) as usize);
    }
    let folder = copied(died.path());
    flip(&record(folder.path()), 20);
    flip(&record(folder.path()), len / 2 + 20);
    assert_refused("both halves of the record", folder.path(), "text.record");
}

/// A store that was closed has all its rows in files.
#[tokio::test]
async fn an_emptied_or_lost_journal_is_detected_even_after_a_clean_end() {
    let lived = folder();
    let store = open(lived.path()).unwrap();
    put(&store, 0).await;
    store.close().await.unwrap();
    let found: BTreeMap<_, _> = files(lived.path());
    assert!(!found.is_empty());
    let emptied = copied(lived.path());
    fs::write(&journals(emptied.path())[0], b"").unwrap();
    assert_refused("an emptied journal", emptied.path(), ".jnl");
    let lost = copied(lived.path());
    fs::remove_file(&journals(lost.path())[0]).unwrap();
    assert_refused("a lost journal", lost.path(), ".jnl");
}
