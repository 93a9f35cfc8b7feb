//! A flipped byte on the disk damages a whole block of the engine: rows of several kinds, and of
//! neighbouring volumes. Reads report the damage, and nothing else is affected.
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{START, id, import, listed, texts, volume};
use audit::{AuditAction, Requester};
use budget::Party;
use futures::StreamExt;
use hathi::VolumeParts;
use heads::{LibraryOptions, ObjectsError};
use library::Library;
use md5::{Digest, Md5};
use pack::{Layout, Level};
use store::{Lane, ManualClock, Store, StoreError, UnixMillis};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;
use volumes::damage::WHOLE_VOLUME;
use volumes::{BulkPlan, BulkRequest, Imported, MissingReason, OnDamage, SelectionTerms, Unchanged, Wanted};

/// Enough pages that the directory of t.a fills a block: the heads of t.a and t.b are then in
/// different blocks.
const PAGES: u32 = 200;

/// Text that does not compress well, so that pages fill blocks.
fn page_text(page: u32) -> String {
    (0..128).map(|part| hex::encode(Md5::digest(format!("{page}/{part}")))).collect()
}

/// A volume that takes many blocks.
fn large() -> VolumeParts<Cursor<Vec<u8>>> {
    let texts: Vec<String> = (0..PAGES).map(page_text).collect();
    volume("t.a", &texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A volume whose head shares its block with no other head.
fn small() -> VolumeParts<Cursor<Vec<u8>>> {
    volume("t.b", &["one", "two"])
}

struct Opened {
    store: Arc<EmbeddedStore>,
    library: Library,
}

async fn open(folder: &Path) -> Opened {
    open_with(folder, EmbeddedOptions::default()).await
}

async fn open_with(folder: &Path, options: EmbeddedOptions) -> Opened {
    let clock = Arc::new(ManualClock::new(START));
    let options = EmbeddedOptions { headroom_bytes: 0, ..options };
    let store = EmbeddedStore::open(folder, options, clock.clone()).unwrap();
    let library = Library::open(store.clone(), clock, LibraryOptions::default()).await.unwrap();
    Opened { store, library }
}

/// A store with two broken blocks: one with frames of t.a, and one with the head of t.b.
async fn broken() -> (TempDir, Opened) {
    let folder = tempfile::tempdir().unwrap();
    let Opened { store, library } = open(folder.path()).await;
    import(&library, large()).await.unwrap();
    import(&library, small()).await.unwrap();
    drop(library);
    store.close().await.unwrap();
    let files = table_files(&folder.path().join("db/text/keyspaces"));
    let packs = files.iter().max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap();
    flip(packs, |content| Some(content.len() / 2));
    let broken_heads = files.iter().filter(|file| flip(file, last_title)).count();
    assert_eq!(broken_heads, 1, "no head in any file, or in several");
    let opened = open(folder.path()).await;
    (folder, opened)
}

/// All files of tables.
fn table_files(keyspaces: &Path) -> Vec<PathBuf> {
    let tables = fs::read_dir(keyspaces).unwrap().map(|entry| entry.unwrap().path().join("tables"));
    tables.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect()
}

/// Flips a bit of the byte that `place` finds, if it finds one.
fn flip(file: &Path, place: impl Fn(&[u8]) -> Option<usize>) -> bool {
    let mut content = fs::read(file).unwrap();
    let Some(at) = place(&content) else { return false };
    content[at] ^= 0x10;
    fs::write(file, content).unwrap();
    true
}

/// The position of the title in the head of t.b: the last title.
fn last_title(content: &[u8]) -> Option<usize> {
    content.windows(7).rposition(|window| window == b"A title")
}

async fn plan(library: &Library) -> Arc<BulkPlan> {
    let wanted = ["t.a", "t.b", "t.c"].map(|name| Wanted::all(id(name))).to_vec();
    let request = BulkRequest { wanted, layout: Layout::Pages, level: Level::Frames, mets: false, as_of: None };
    library.volumes.plan(&request, OnDamage::Break).await.unwrap()
}

/// The number of bytes of an archive, and whether it is complete.
async fn download(library: &Library, plan: &Arc<BulkPlan>) -> (u64, bool) {
    let requester = Requester { name: None, address: None, request_id: "r1".to_owned() };
    let mut stream = library.volumes.stream(plan, pack::WHOLE, requester).await.unwrap();
    let mut len_bytes = 0;
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => len_bytes += piece.len() as u64,
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                return (len_bytes, false);
            }
        }
    }
    (len_bytes, true)
}

/// The reasons for which parts of a volume are missing, with repetitions.
fn missing(plan: &BulkPlan, name: &str) -> Vec<MissingReason> {
    plan.missing.iter().filter(|missing| missing.volume == id(name)).map(|missing| missing.reason).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_meets_a_broken_block_comes_whole_when_it_is_asked_for_again() {
    let (_folder, Opened { library, .. }) = broken().await;
    import(&library, volume("t.c", &["three"])).await.unwrap();
    let first = plan(&library).await;
    assert_eq!((missing(&first, "t.a").len(), missing(&first, "t.b")), (0, vec![MissingReason::Damaged]));
    assert!(!download(&library, &first).await.1, "the broken block is in the way");

    let again = plan(&library).await;
    let lost = missing(&again, "t.a");
    assert!(!lost.is_empty() && lost.len() < PAGES as usize, "{} pages are named", lost.len());
    assert!(missing(&again, "t.c").is_empty());
    assert_eq!(download(&library, &again).await, (again.len_bytes.unwrap(), true));
}

/// Imports the volumes again and again, so that files are merged, until an import is refused.
async fn import_until_it_is_refused(library: &Library) {
    for _ in 0..400 {
        match library.volumes.import(large(), Unchanged::Force, |_| {}).await {
            Ok(_) => {}
            Err(ObjectsError::Store(StoreError::Poisoned(_)) | ObjectsError::Unknown(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("merging never came to the broken block");
}

#[tokio::test(flavor = "multi_thread")]
async fn audited_downloads_and_selections_go_on_when_the_text_takes_no_writes_any_more() {
    let (folder, Opened { library, store }) = broken().await;
    drop(library);
    store.close().await.unwrap();
    let small_memtables = EmbeddedOptions { memtable_bytes: 256 << 10, ..EmbeddedOptions::default() };
    let Opened { library, store } = open_with(folder.path(), small_memtables).await;
    import_until_it_is_refused(&library).await;
    assert_eq!(store.health().await.refusing_writes.into_keys().collect::<Vec<_>>(), [Lane::Text]);

    // Damage can now be marked only in memory: each block costs a download that breaks off.
    let mut whole = false;
    for _ in 0..10 {
        let plan = plan(&library).await;
        whole = download(&library, &plan).await == (plan.len_bytes.unwrap(), true);
        if whole {
            break;
        }
    }
    assert!(whole, "no download came whole");
    let requester = Requester { name: None, address: None, request_id: "r2".to_owned() };
    let wanted = vec![Wanted::all(id("t.a"))];
    let request = BulkRequest { wanted, layout: Layout::Pages, level: Level::Frames, mets: false, as_of: None };
    let selected = library.volumes.select(&request, &requester, SelectionTerms::default()).await.unwrap();
    let plan = library.volumes.selection(&selected.info.id, &Party::Local).await.unwrap();
    assert_eq!(download(&library, &plan).await, (plan.len_bytes.unwrap(), true));
    library.volumes.delete_selection(&selected.info.id).await.unwrap();

    let audited = library.audit.read(UnixMillis(0), UnixMillis(u64::MAX));
    let audited = audited.map(|entry| entry.unwrap().record().unwrap().action);
    let audited: Vec<_> = audited.collect().await;
    assert!(audited.contains(&AuditAction::Accessed), "{audited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn verifying_names_what_a_broken_block_hit_and_goes_on() {
    let (folder, Opened { library, store }) = broken().await;
    import(&library, volume("t.c", &["three"])).await.unwrap();
    let a = library.volumes.verify(&id("t.a")).await.unwrap();
    assert!(!a.damaged.is_empty() && a.damaged.iter().all(|damage| damage.member > 0), "{:?}", a.damaged);
    let b = library.volumes.verify(&id("t.b")).await.unwrap();
    assert_eq!(b.damaged.iter().map(|damage| damage.member).collect::<Vec<_>>(), [WHOLE_VOLUME]);
    assert!(library.volumes.verify(&id("t.c")).await.unwrap().damaged.is_empty());
    assert_eq!(listed(&library, 10).await, ["t.a", "t.b", "t.c"]);
    let counted = library.statistics().await.unwrap();
    assert_eq!((counted.volumes, counted.damaged_volumes), (3, 2));

    // The marks are on the disk, not only in this process.
    drop(library);
    store.close().await.unwrap();
    let Opened { library, .. } = open(folder.path()).await;
    let plan = plan(&library).await;
    assert!(!missing(&plan, "t.a").is_empty());
    assert_eq!(download(&library, &plan).await, (plan.len_bytes.unwrap(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_heals_a_volume_with_a_broken_block() {
    let (_folder, Opened { library, .. }) = broken().await;
    let imported = library.volumes.import(large(), Unchanged::Force, |_| {}).await.unwrap();
    assert!(matches!(imported, Imported::Replaced { .. }), "{imported:?}");
    assert!(library.volumes.verify(&id("t.a")).await.unwrap().damaged.is_empty());
    assert_eq!(texts(&library, &id("t.a")).await.unwrap()[59], page_text(59));
}
