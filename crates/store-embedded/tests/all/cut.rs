//! Cuts of a store that is written to.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use store::{Call, Class, ContentId, Cut, Deadline, NewRow, Scan, Step, Store, StoreError, SystemClock, Table};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

/// The longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> EmbeddedOptions {
    // Small memtables, so that files are made, merged and deleted all the time.
    EmbeddedOptions { memtable_bytes: 128 << 10, ..crate::support::options() }
}

fn open(folder: &Path) -> Result<Arc<EmbeddedStore>, StoreError> {
    EmbeddedStore::open(folder, options(), Arc::new(SystemClock))
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(PATIENCE))
}

/// Copies what belongs to a cut.
fn copy(data: &Path, cut: &Cut, to: &Path) {
    let root = data.join(&cut.folder);
    for (path, mut content) in crate::support::files(&root) {
        let name = path.strip_prefix(&root).unwrap();
        if let Some(len) = cut.lengths.get(name.to_str().unwrap()) {
            content.truncate(*len as usize);
        }
        fs::create_dir_all(to.join(name).parent().unwrap()).unwrap();
        fs::write(to.join(name), content).unwrap();
    }
    for keyspace in cut.checksums.keys().chain(cut.lengths.keys()) {
        assert!(to.join(keyspace).exists(), "{keyspace} is described, and not there");
    }
    // Folders without files.
    for lane in ["text", "service", "records"] {
        for number in 0.. {
            let keyspace = to.join("db").join(lane).join("keyspaces").join(number.to_string());
            if !keyspace.exists() {
                break;
            }
            fs::create_dir_all(keyspace.join("tables")).unwrap();
        }
    }
}

/// Puts number `number` of a writer, in two tables of a lane as one list, and then in another lane.
async fn put(store: &EmbeddedStore, writer: u64, number: u64) {
    let key = number.to_be_bytes().to_vec();
    let step = |table, bytes: usize| Step::Put {
        table,
        partition: writer.to_string().into(),
        rows: vec![NewRow::new(key.clone(), vec![number as u8; bytes])],
    };
    let text = vec![step(Table::Objects, 3_000), step(Table::Packs, 20_000)];
    assert!(store.run(call(), text).await.unwrap().is_applied());
    assert!(store.run(call(), vec![step(Table::Selections, 100)]).await.unwrap().is_applied());
}

async fn numbers(store: &EmbeddedStore, table: Table, writer: u64) -> Vec<u64> {
    let scan = Scan::prefix("", 64 << 20);
    let rows = store.scan(call(), table, &writer.to_string().into(), scan).await.unwrap();
    assert!(rows.next.is_none());
    rows.rows.iter().map(|row| u64::from_be_bytes(row.sort[..].try_into().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn each_cut_of_a_busy_store_opens_with_all_that_was_acknowledged_before_it() {
    let data = crate::support::folder();
    let store = open(data.path()).unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let acknowledged: Arc<[AtomicU64; 3]> = Arc::default();
    let writers = (0..3).map(|writer| {
        let (store, ends, acknowledged) = (store.clone(), ends.clone(), acknowledged.clone());
        tokio::spawn(async move {
            let mut contents: Vec<ContentId> = Vec::new();
            for number in 1.. {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                put(&store, writer, number).await;
                acknowledged[writer as usize].store(number, Ordering::SeqCst);
                let pieces = stream::iter([Ok(Bytes::from(vec![7; 5_000]))]).boxed();
                contents.push(store.put_content(call(), Bytes::from("owner"), pieces).await.unwrap());
                if number % 2 == 0 {
                    let old = contents.remove(0);
                    assert!(store.condemn_content(call(), old).await.unwrap());
                    assert!(store.delete_content(call(), old).await.unwrap());
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut before_last = 0;
    for round in 0..4 {
        let began = Instant::now();
        while acknowledged[0].load(Ordering::SeqCst) < before_last + 40 {
            assert!(began.elapsed() < PATIENCE, "the writers do not go on");
            tokio::task::yield_now().await;
        }
        let before: Vec<u64> = acknowledged.iter().map(|last| last.load(Ordering::SeqCst)).collect();
        before_last = before[0];
        let cut = store.cut(call()).await.unwrap();
        let restored = crate::support::folder();
        copy(data.path(), &cut, restored.path());
        check(restored.path(), &before).await;
        assert!(!cut.checksums.is_empty(), "round {round}: no file of rows was made yet");
    }
    ends.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    store.close().await.unwrap();
}

/// Opens the copy of a cut, and compares it with what was acknowledged before.
async fn check(folder: &Path, before: &[u64]) {
    let store = open(folder).unwrap();
    for (writer, before) in (0..).zip(before) {
        let objects = numbers(&store, Table::Objects, writer).await;
        assert_eq!(objects, (1..=objects.len() as u64).collect::<Vec<_>>());
        assert_eq!(numbers(&store, Table::Packs, writer).await, objects, "a list is there by half");
        let selections = numbers(&store, Table::Selections, writer).await.len();
        assert!(objects.len() as u64 >= *before && selections as u64 >= *before, "something acknowledged is missing");
        assert!(selections <= objects.len() && objects.len() <= selections + 1, "the lanes are of two moments");
    }
    let mut known = BTreeSet::new();
    let page = store.walk(call(), Table::Contents, None, 100_000).await.unwrap();
    for id in page.partitions {
        let id = ContentId(id[..].try_into().unwrap());
        known.insert(id);
        if let Some(content) = store.read_content(call(), id, 0..u64::MAX).await.unwrap() {
            let bytes: Vec<Bytes> = content.try_collect().await.unwrap();
            assert_eq!(bytes.concat(), vec![7; 5_000]);
        }
    }
    assert!(!known.is_empty());
    store.sweep(call()).await.unwrap();
    assert_eq!(store.health().await.unknown_contents, 0, "there are files of contents that came later");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_cut_during_an_upload_has_no_file_of_it_and_the_copy_forgets_the_upload() {
    let data = crate::support::folder();
    let store = open(data.path()).unwrap();
    let sealed = stream::iter([Ok(Bytes::from(vec![7; 5_000]))]).boxed();
    let sealed = store.put_content(call(), Bytes::from("owner"), sealed).await.unwrap();
    let (sender, receiver) = futures::channel::mpsc::unbounded();
    sender.unbounded_send(Ok(Bytes::from(vec![1; 3 << 20]))).unwrap();
    let uploading = tokio::spawn({
        let store = store.clone();
        async move { store.put_content(call(), Bytes::from("owner"), receiver.boxed()).await }
    });
    let contents = |folder: &Path| -> Vec<_> { crate::support::files(&folder.join("contents")).into_keys().collect() };
    let began = Instant::now();
    while contents(data.path()).len() < 2 {
        assert!(began.elapsed() < PATIENCE, "the upload does not begin");
        tokio::task::yield_now().await;
    }
    let cut = store.cut(call()).await.unwrap();
    let linked = contents(&data.path().join(&cut.folder));
    assert!(linked.len() == 1 && linked[0].ends_with(sealed.to_string()), "{linked:?}");
    sender.unbounded_send(Ok(Bytes::from("more"))).unwrap();
    drop(sender);
    uploading.await.unwrap().unwrap();
    let restored = crate::support::folder();
    copy(data.path(), &cut, restored.path());
    store.close().await.unwrap();

    let copy = open(restored.path()).unwrap();
    copy.sweep(call()).await.unwrap();
    let known = copy.walk(call(), Table::Contents, None, 10).await.unwrap().partitions;
    assert_eq!(known, [Bytes::copy_from_slice(&sealed.0)], "the upload is left behind");
    assert!(copy.read_content(call(), sealed, 0..u64::MAX).await.unwrap().is_some());
    copy.close().await.unwrap();
}

#[tokio::test]
async fn a_cut_that_nobody_reads_is_deleted_by_the_next_process_or_the_next_cut() {
    let data = crate::support::folder();
    open(data.path()).unwrap().close().await.unwrap();
    let cuts = data.path().join(Cut::FOLDER);
    for left in ["half", "whole"] {
        fs::create_dir_all(cuts.join(left).join("db")).unwrap();
    }
    fs::write(cuts.join("whole").join(Cut::LOCK), "").unwrap();
    fs::create_dir_all(cuts.join("read")).unwrap();
    let reader = fs::File::create(cuts.join("read").join(Cut::LOCK)).unwrap();
    reader.lock_shared().unwrap();
    let store = open(data.path()).unwrap();
    let names = || -> BTreeSet<String> {
        let names = fs::read_dir(&cuts).unwrap().map(|cut| cut.unwrap().file_name().into_string().unwrap());
        names.collect()
    };
    assert_eq!(names(), BTreeSet::from(["read".to_owned()]));
    reader.unlock().unwrap();
    let cut = store.cut(call()).await.unwrap();
    let name = cut.folder.rsplit('/').next().unwrap().to_owned();
    assert_eq!(names(), BTreeSet::from([name]));
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_a_restore_left_that_died_at_its_very_end_is_deleted_when_the_store_opens() {
    let data = crate::support::folder();
    open(data.path()).unwrap().close().await.unwrap();
    let left = data.path().join("restoring");
    fs::create_dir(&left).unwrap();
    open(data.path()).unwrap().close().await.unwrap();
    assert!(!left.exists());
}

#[tokio::test]
async fn no_store_is_made_where_a_restore_did_not_finish() {
    let data = crate::support::folder();
    fs::create_dir(data.path().join("restoring")).unwrap();
    let refused = open(data.path()).err().unwrap();
    assert!(refused.to_string().contains("did not finish"), "{refused}");
    assert!(data.path().join("restoring").exists());
    assert!(store_embedded::has_unfinished_restore(data.path()).unwrap());
}

/// Copies a folder file by file, as `cp -a` does, with `between` after a number of files.
fn copy_slowly(from: &Path, after: usize, between: &mut dyn FnMut()) -> tempfile::TempDir {
    let copy = crate::support::folder();
    let paths: Vec<_> = crate::support::files(from).into_keys().collect();
    for (number, path) in paths.iter().enumerate() {
        if number == after {
            between();
        }
        let to = copy.path().join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        // What was deleted meanwhile is left out.
        let _ = fs::copy(path, to);
    }
    copy
}

fn refusal(folder: &Path) -> Option<String> {
    let before = crate::support::files(folder);
    let refused = open(folder).err().map(|error| error.to_string());
    if refused.is_some() {
        let changed = |files: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
            files.iter().filter(|(path, _)| !path.ends_with("reserve")).map(|(_, content)| content.len()).sum::<usize>()
        };
        assert_eq!(changed(&crate::support::files(folder)), changed(&before), "a refused copy was changed");
    }
    refused
}

#[tokio::test]
async fn a_copy_of_a_folder_is_opened_only_if_no_process_had_it_open_meanwhile() {
    let data = crate::support::folder();
    let store = open(data.path()).unwrap();
    put(&store, 0, 1).await;
    // A process has it open all the time.
    let while_open = copy_slowly(data.path(), 0, &mut || ());
    let refused = refusal(while_open.path()).unwrap();
    assert!(refused.contains("a process had open when it was copied"), "{refused}");
    assert!(refusal(while_open.path()).is_some(), "it is refused only once");
    let error = open(while_open.path()).err().unwrap();
    assert!(store_embedded::is_refused_copy(&error), "the advice is to salvage it: {error}");
    store.close().await.unwrap();
    drop(store);

    let closed = copy_slowly(data.path(), 0, &mut || ());
    let copy = open(closed.path()).unwrap();
    assert_eq!(numbers(&copy, Table::Packs, 0).await, [1]);
    copy.close().await.unwrap();
    drop(copy);
    // A copy of a copy, and the copy again.
    let again = copy_slowly(closed.path(), 0, &mut || ());
    open(again.path()).unwrap().close().await.unwrap();
    assert_eq!(refusal(closed.path()), None);

    // A process opens it at any moment of the copy.
    let files = crate::support::files(data.path()).len();
    for after in [1, files / 3, files / 2, files - 1] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let copy = copy_slowly(data.path(), after, &mut || {
            let (folder, sender) = (data.path().to_owned(), sender.clone());
            let writes = async move {
                let store = open(&folder).unwrap();
                for number in 2..40 {
                    put(&store, 0, number).await;
                }
                sender.send(store).unwrap();
            };
            std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(writes)).join().unwrap();
        });
        let refused = refusal(copy.path());
        assert!(refused.is_some(), "after {after} of {files} files");
        let store = receiver.recv().unwrap();
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_folder_whose_process_died_opens_where_it_is_and_as_a_copy_without_its_lock() {
    let data = crate::support::folder();
    let store = open(data.path()).unwrap();
    put(&store, 0, 1).await;
    let died = copy_slowly(data.path(), 0, &mut || ());
    store.close().await.unwrap();
    assert!(refusal(died.path()).is_some());
    fs::remove_file(died.path().join("lock")).unwrap();
    let copy = open(died.path()).unwrap();
    assert_eq!(numbers(&copy, Table::Packs, 0).await, [1]);
    copy.close().await.unwrap();
}
