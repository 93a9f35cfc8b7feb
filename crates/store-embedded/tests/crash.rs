//! The engine under kill -9, and on a disk that refuses a write.
//!
//! This program starts itself again as a process that writes. That process prints what was
//! acknowledged, and is killed after a random number of acknowledgements. Then the store is opened
//! again and compared with the output: nothing acknowledged may be lost, and no list may be there
//! by half. All rounds use the same data folder. `PENATES_CRASH_ROUNDS` sets the number of rounds
//! (10 by default), `PENATES_CRASH_SEED` the seed (random by default, and printed).
//!
//! The process is also killed at each stage of making a store, and while it writes so much that
//! journals are sealed and deleted. What it leaves must open, and nothing of it may be taken for
//! damage.

#![allow(clippy::unwrap_used)]

#[path = "all/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::{
    Call, Class, ContentId, Deadline, Expect, Guard, Lane, NewRow, Outcome, Removal, Scan, Stamp, Step, Store,
    StoreError, SystemClock, Table,
};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

/// Writers of the process that is killed, each with its own lists.
const WRITERS: u64 = 6;

/// How many of its last lists a writer keeps.
const WINDOW: u64 = 40;

/// How many contents are kept between two rounds; the others are deleted.
const CONTENTS: usize = 50;

/// A writer also uploads a content after each of this number of lists.
const CONTENT_EVERY: u64 = 10;

/// Set for the process that writes: its role.
const ROLE: &str = "PENATES_CRASH_ROLE";

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_default();
    match std::env::var(ROLE).as_deref() {
        Ok("writer") => runtime().block_on(write_until_killed(Path::new(&folder))),
        Ok("maker") => runtime().block_on(make(Path::new(&folder))),
        Ok("bulk") => runtime().block_on(write_bulk_until_killed(Path::new(&folder))),
        Ok("poisoned") => runtime().block_on(write_until_poisoned(Path::new(&folder))),
        Ok(role) => panic!("no such role: {role}"),
        Err(_) => {
            nothing_acknowledged_is_lost_and_no_list_is_half_there();
            journals_that_come_and_go_are_no_damage();
            a_store_that_was_being_made_is_made_at_the_next_start();
            a_failed_write_poisons_and_loses_nothing_acknowledged();
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn open(folder: &Path) -> Arc<EmbeddedStore> {
    // Small memtables, so that flushes and compactions are under way when the process dies.
    let options = EmbeddedOptions { memtable_bytes: 256 << 10, ..support::options() };
    EmbeddedStore::open(folder, options, Arc::new(SystemClock)).unwrap()
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(60)))
}

fn head_partition(writer: u64) -> Bytes {
    format!("head {writer}").into()
}

fn rows_partition(writer: u64) -> Bytes {
    format!("rows {writer}").into()
}

/// The row of a list in a table, different from that of any other list.
fn value(writer: u64, list: u64, table: Table) -> Bytes {
    let mut random = StdRng::seed_from_u64(writer << 48 | list << 8 | table as u64);
    let mut value = vec![0; random.random_range(0..6000)];
    random.fill(&mut value[..]);
    value.into()
}

/// The tables to which each list writes one row.
const TABLES: [Table; 2] = [Table::Objects, Table::Children];

/// List number `list` of a writer: switches the head to it, puts its rows, and removes those of the
/// list that is now too old.
fn list(writer: u64, list: u64, current: Option<Stamp>) -> (Vec<Step>, Stamp) {
    let stamp = Stamp::fresh();
    let mut steps = Vec::new();
    for table in TABLES {
        let rows = vec![NewRow::new(list.to_be_bytes().to_vec(), value(writer, list, table))];
        steps.push(Step::Put { table, partition: rows_partition(writer), rows });
        if let Some(old) = list.checked_sub(WINDOW) {
            let rows = Removal::Rows(vec![old.to_be_bytes().to_vec().into()]);
            steps.push(Step::Remove { table, partition: rows_partition(writer), rows });
        }
    }
    steps.push(Step::CompareAndWrite {
        table: Table::Objects,
        partition: head_partition(writer),
        sort: "head".into(),
        expect: current.map_or(Expect::Absent, Expect::Stamp),
        guard: Guard { stamp, tag: Bytes::new() },
        value: list.to_be_bytes().to_vec().into(),
    });
    (steps, stamp)
}

/// The last list of a writer that the store shows.
async fn last_list(store: &EmbeddedStore, writer: u64) -> Option<(u64, Stamp)> {
    let head = store.get(call().strong(), Table::Objects, &head_partition(writer), &"head".into()).await.unwrap()?;
    Some((u64::from_be_bytes(head.value[..].try_into().unwrap()), head.guard.unwrap().stamp))
}

fn print_line(line: String) {
    let mut out = std::io::stdout().lock();
    // The parent may have closed its end already: then it has killed this process, or is about to.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn write_until_killed(folder: &Path) {
    let store = open(folder);
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write_lists(store.clone(), writer)));
    futures::future::join_all(writers).await.into_iter().for_each(|ended| ended.unwrap());
}

async fn write_lists(store: Arc<EmbeddedStore>, writer: u64) {
    let last = last_list(&store, writer).await;
    let (mut next, mut current) = last.map_or((0, None), |(list, stamp)| (list + 1, Some(stamp)));
    loop {
        let (steps, stamp) = list(writer, next, current);
        let outcome = store.run(call(), steps).await.unwrap();
        assert!(outcome.is_applied(), "writer {writer}, list {next}: {outcome:?}");
        print_line(format!("list {writer} {next}"));
        if next % CONTENT_EVERY == 0 {
            let pieces = TABLES.map(|table| Ok(value(writer, next, table)));
            let id = store.put_content(call(), head_partition(writer), stream::iter(pieces).boxed()).await.unwrap();
            print_line(format!("content {writer} {next} {id}"));
        }
        (next, current) = (next + 1, Some(stamp));
    }
}

fn start(role: &str, folder: &Path, limit_file_kib: Option<u64>) -> (Child, BufReader<ChildStdout>) {
    let program = std::env::current_exe().unwrap();
    let mut command = match limit_file_kib {
        None => Command::new(program),
        Some(kib) => {
            // With the signal ignored, a write beyond the limit fails like one to a broken disk.
            let mut shell = Command::new("bash");
            shell.args(["-c", r#"trap "" XFSZ; ulimit -f "$0"; exec "$@""#]).arg(kib.to_string()).arg(program);
            shell
        }
    };
    let mut child = command.arg(folder).env(ROLE, role).stdout(Stdio::piped()).spawn().unwrap();
    let heard = BufReader::new(child.stdout.take().unwrap());
    (child, heard)
}

/// The output of the process that was killed.
#[derive(Default)]
struct Told {
    /// The last acknowledged list of each writer.
    lists: BTreeMap<u64, u64>,
    contents: Vec<(u64, u64, ContentId)>,
    /// Contents that were deleted since, as far as the parent knows.
    deleted: Vec<ContentId>,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["list", writer, list] => {
                self.lists.insert(writer.parse().unwrap(), list.parse().unwrap());
            }
            ["content", writer, list, id] => {
                let id = ContentId(u128::from_str_radix(id, 16).unwrap().to_be_bytes());
                self.contents.push((writer.parse().unwrap(), list.parse().unwrap(), id));
            }
            _ => panic!("what is {line:?}?"),
        }
    }
}

fn from_env<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

fn nothing_acknowledged_is_lost_and_no_list_is_half_there() {
    let rounds = from_env("PENATES_CRASH_ROUNDS", 10_u32);
    let seed = from_env("PENATES_CRASH_SEED", rand::random::<u64>());
    println!("kill -9: {rounds} rounds, PENATES_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut heard = Told::default();
    for round in 0..rounds {
        let heard_before_kill = random.random_range(1..300);
        let (mut child, lines) = start("writer", folder.path(), None);
        let mut lines = lines.lines().map(Result::unwrap);
        for line in lines.by_ref().take(heard_before_kill) {
            heard.hear(&line);
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..3000)));
        child.kill().unwrap();
        // Output that was printed before the kill took effect counts too.
        lines.for_each(|line| heard.hear(&line));
        let status = child.wait().unwrap();
        assert!(!status.success() && status.code().is_none(), "round {round}: the writer ended by itself: {status}");
        runtime().block_on(async {
            let store = open(folder.path());
            check(&store, &heard).await;
            delete_old_contents(&store, &mut heard).await;
            store.close().await.unwrap();
        });
    }
    runtime().block_on(check_leftovers(folder.path()));
    let lists: u64 = heard.lists.values().map(|last| last + 1).sum();
    println!(
        "kill -9: {lists} acknowledged lists and {} contents are all there, none by half",
        heard.contents.len() + heard.deleted.len()
    );
}

/// The tables to which a number of the bulk writer goes, and the bytes of its row in each. About
/// sixty rows of the first one fill a journal. Those of the second one keep their journal from being
/// deleted until they are flushed too.
const BULK: [(Table, usize); 2] = [(Table::Packs, 1 << 20), (Table::Objects, 10)];

/// Rounds of the bulk writer in one folder, from which nothing is deleted.
const BULK_ROUNDS: u32 = 2;

/// The most bytes that are read of a table at once.
const PAGE_BYTES: usize = 8 << 20;

fn bulk_value(number: u32, bytes: usize) -> Vec<u8> {
    vec![number as u8; bytes]
}

async fn put_bulk(store: &EmbeddedStore, number: u32) {
    let steps = BULK.map(|(table, bytes)| Step::Put {
        table,
        partition: "bulk".into(),
        rows: vec![NewRow::new(number.to_be_bytes().to_vec(), bulk_value(number, bytes))],
    });
    assert!(store.run(call(), steps.into()).await.unwrap().is_applied());
}

/// The numbers in a table, in their order. Each has its value.
async fn bulk_numbers(store: &EmbeddedStore, (table, bytes): (Table, usize)) -> Vec<u32> {
    let (mut numbers, mut rest) = (Vec::new(), Some(Scan::prefix("", PAGE_BYTES)));
    while let Some(scan) = rest {
        let page = store.scan(call(), table, &"bulk".into(), scan.clone()).await.unwrap();
        for row in &page.rows {
            let number = u32::from_be_bytes(row.sort[..].try_into().unwrap());
            assert!(row.value == bulk_value(number, bytes), "number {number}, table {table}: another value");
            numbers.push(number);
        }
        rest = scan.resumed(page.next);
    }
    numbers
}

/// Writes the numbers that follow those in the store.
async fn write_bulk_until_killed(folder: &Path) {
    let store = open(folder);
    let first = bulk_numbers(&store, BULK[1]).await.last().map_or(0, |last| last + 1);
    for number in first.. {
        put_bulk(&store, number).await;
        print_line(format!("bulk {number}"));
    }
}

fn journals_that_come_and_go_are_no_damage() {
    let rounds = from_env("PENATES_CRASH_ROUNDS", 10_u32).div_ceil(4);
    let folders = (0..rounds).step_by(BULK_ROUNDS as usize);
    let acknowledged: u32 = folders.map(|done| kill_while_journals_are_sealed(BULK_ROUNDS.min(rounds - done))).sum();
    println!("kill -9: {rounds} times while journals were sealed, all {acknowledged} acknowledged numbers are there");
}

/// Kills the bulk writer so many times in one folder. Returns how many numbers it has acknowledged.
fn kill_while_journals_are_sealed(rounds: u32) -> u32 {
    let folder = support::folder();
    let (mut newest, mut heard, mut last) = (0, 0, None::<u32>);
    for _ in 0..rounds {
        let (mut child, lines) = start("bulk", folder.path(), None);
        let mut numbers = lines.lines().map(|line| line.unwrap()["bulk ".len()..].parse::<u32>().unwrap());
        let mut hear = |number: u32| {
            assert!(last.is_none_or(|last| number > last), "{number} comes after {last:?}");
            heard += 1;
            last = Some(number);
        };
        // The process dies when the second journal is written to and the first may be gone.
        let journals = || journals_of_text(folder.path());
        hear(numbers.next().expect("the writer ended by itself"));
        while journals().last().is_none_or(|id| *id <= newest) {
            hear(numbers.next().expect("the writer ended by itself"));
        }
        newest = *journals().last().unwrap();
        child.kill().unwrap();
        // Output that was printed before the kill took effect counts too.
        numbers.for_each(hear);
        child.wait().unwrap();
        let last = last.unwrap();
        runtime().block_on(async {
            let store = open(folder.path());
            let [bulk, small] = [bulk_numbers(&store, BULK[0]).await, bulk_numbers(&store, BULK[1]).await];
            assert_eq!(bulk, small, "a number is there by half");
            assert!(bulk.iter().copied().eq(0..bulk.len() as u32), "a number is lost: {bulk:?}");
            assert!(bulk.last() >= Some(&last), "{last} was acknowledged, the last is {:?}", bulk.last());
            store.close().await.unwrap();
        });
    }
    heard
}

fn journals_of_text(folder: &Path) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(folder.join("db/text")) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut ids: Vec<u64> = names.filter_map(|name| name.strip_suffix(".jnl")?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

async fn make(folder: &Path) {
    let store = open(folder);
    print_line("made".to_owned());
    store.close().await.unwrap();
}

/// The stages of making a store.
const STAGES: [&str; 12] = [
    "lock",
    "making",
    "making/db/text/lock",
    "making/db/text/0.jnl",
    "making/db/text/version",
    "making/db/text/keyspaces/0/current",
    "making/db/text/keyspaces/4/v0",
    "making/db/text/keyspaces/1/database",
    "making/db/service/keyspaces/2/current",
    "making/db/service.record",
    "making/format",
    "format",
];

fn a_store_that_was_being_made_is_made_at_the_next_start() {
    let mut killed_early = 0;
    for stage in STAGES {
        // On a disk, where syncs give the parent the time to see each stage.
        let folder = tempfile::tempdir().unwrap();
        let (mut child, lines) = start("maker", folder.path(), None);
        while !folder.path().join(stage).exists() && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed_early += u32::from(lines.lines().next().is_none());
        runtime().block_on(async {
            let store = open(folder.path());
            put_bulk(&store, 1).await;
            store.close().await.unwrap();
            let store = open(folder.path());
            assert!(
                store
                    .get(call(), Table::Objects, &"bulk".into(), &1_u32.to_be_bytes().to_vec().into())
                    .await
                    .unwrap()
                    .is_some()
            );
        });
        assert!(!folder.path().join("making").exists(), "{stage}: what was left over is still there");
    }
    assert!(killed_early > 0, "each maker was done before it was killed");
    println!(
        "kill -9: {killed_early} of {} stores were killed before they were made, and were made then",
        STAGES.len()
    );
}

async fn check(store: &EmbeddedStore, heard: &Told) {
    for writer in 0..WRITERS {
        check_writer(store, writer, heard.lists.get(&writer).copied()).await;
    }
    for (writer, list, id) in &heard.contents {
        let pieces = store.read_content(call(), *id, 0..u64::MAX).await.unwrap();
        let pieces = pieces.unwrap_or_else(|| panic!("acknowledged content {id} is lost"));
        let content = pieces.try_collect::<Vec<Bytes>>().await.unwrap().concat();
        let expected = TABLES.map(|table| value(*writer, *list, table)).concat();
        assert!(content == expected, "content {id} is not what was acknowledged");
    }
    for id in &heard.deleted {
        assert!(store.content_header(call(), *id).await.unwrap().is_none(), "deleted content {id} came back");
    }
}

async fn delete_old_contents(store: &EmbeddedStore, heard: &mut Told) {
    let old = heard.contents.len().saturating_sub(CONTENTS);
    for (_, _, id) in heard.contents.drain(..old) {
        assert!(store.condemn_content(call(), id).await.unwrap());
        assert!(store.delete_content(call(), id).await.unwrap());
        heard.deleted.push(id);
    }
}

/// Leftovers of killed uploads are swept at once, and only sealed contents remain.
async fn check_leftovers(folder: &Path) {
    let store = EmbeddedStore::open(folder, support::options(), Arc::new(SystemClock)).unwrap();
    let swept = store.sweep(Call::new(Class::Content, Deadline::within(Duration::from_secs(60)))).await.unwrap();
    let headers = store.walk(call(), Table::Contents, None, usize::MAX).await.unwrap().partitions.len();
    let shards = std::fs::read_dir(folder.join("contents")).unwrap();
    let files: usize = shards.map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap().count()).sum();
    assert_eq!(files, headers, "files without header, or headers without file");
    println!("kill -9: {swept} broken uploads were swept, {files} contents are left");
}

async fn check_writer(store: &EmbeddedStore, writer: u64, acknowledged: Option<u64>) {
    let shown = last_list(store, writer).await.map(|(list, _)| list);
    assert!(shown >= acknowledged, "writer {writer}: list {acknowledged:?} was acknowledged, the last is {shown:?}");
    let ends = shown.map_or(0, |last| last + 1);
    let begins = ends.saturating_sub(WINDOW);
    for table in TABLES {
        let scan = Scan::prefix("", usize::MAX);
        let page = store.scan(call(), table, &rows_partition(writer), scan).await.unwrap();
        let lists: Vec<u64> =
            page.rows.iter().map(|row| u64::from_be_bytes(row.sort[..].try_into().unwrap())).collect();
        let expected: Vec<u64> = (begins..ends).collect();
        assert_eq!(lists, expected, "writer {writer}, table {table}: a list is there by half");
        for (list, row) in lists.iter().zip(&page.rows) {
            assert!(row.value == value(writer, *list, table), "writer {writer}, list {list}: another value");
        }
    }
}

/// The file size limit of the process that writes: less than the size of a full journal.
const POISON_KIB: u64 = 1024;

fn a_failed_write_poisons_and_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    runtime().block_on(async { open(folder.path()).close().await.unwrap() });
    let (mut child, lines) = start("poisoned", folder.path(), Some(POISON_KIB));
    let mut heard = Told::default();
    lines.lines().for_each(|line| heard.hear(&line.unwrap()));
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    runtime().block_on(async { check(&open(folder.path()), &heard).await });
    println!("failed write: poisoned after {} acknowledged lists, all there", heard.lists[&0] + 1);
}

async fn write_until_poisoned(folder: &Path) {
    let store = open(folder);
    let mut current = None;
    for next in 0.. {
        let (steps, stamp) = list(0, next, current);
        match store.run(call(), steps).await {
            Ok(Outcome::Applied) => print_line(format!("list 0 {next}")),
            Ok(Outcome::Unknown { .. }) => break,
            // A thread of the database met the limit first.
            Err(StoreError::Poisoned(_)) => break,
            answer => panic!("{answer:?}"),
        }
        assert!(next < 10_000, "the limit of the file size does nothing");
        current = Some(stamp);
    }
    let (steps, _) = list(1, 0, None);
    let refused = store.run(call(), steps).await;
    assert!(matches!(refused, Err(StoreError::Poisoned(_))), "{refused:?}");
    assert!(store.health().await.refusing_writes.contains_key(&Lane::Text));
    assert!(last_list(&store, 0).await.is_some(), "a poisoned store does not read");
}
