//! Shared by the tests of this crate: a library over a new store, the sample volumes, and small
//! made-up volumes.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::Arc;

use hathi::{VolumeId, VolumeParts};
use heads::{LibraryOptions, ListToken, ObjectsResult, keys};
use library::Library;
use md5::{Digest, Md5};
use store::limited::Limited;
use store::{ContentId, Limits, ManualClock, Store, UnixMillis};
pub use store_cassandra::testing::on_cassandra;
use store_cassandra::testing::{damage, fresh_store, shared_options, shared_store};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;
use volumes::{Imported, Unchanged, Volume};

pub mod fault;
pub mod long_log;
pub mod memory;
pub mod turns;

/// Where the tests' clocks begin: a day in 2025.
pub const START: UnixMillis = UnixMillis(1_750_000_000_000);

/// A library over a store of its own, in a folder that is deleted with it.
pub struct Fixture {
    pub library: Library,
    pub clock: Arc<ManualClock>,
    pub store: Arc<dyn Store>,
    folder: TempDir,
}

impl Fixture {
    /// Flips a bit of the byte near `at` in a stored content.
    pub async fn flip_bit(&self, id: ContentId, at: usize) {
        if let Some(file) = self.file_of(id) {
            let mut content = fs::read(&file).unwrap();
            content[at] ^= 1;
            fs::write(&file, content).unwrap();
        } else {
            damage::flip_bit(&shared_options().await.unwrap(), id, at as u64).await;
        }
    }

    /// Loses the bytes of a content, but not the record that it exists.
    pub async fn lose_bytes(&self, id: ContentId) {
        match self.file_of(id) {
            Some(file) => fs::remove_file(file).unwrap(),
            None => damage::lose_bytes(&shared_options().await.unwrap(), id).await,
        }
    }

    /// The file of a content; `None` if it is in Cassandra.
    fn file_of(&self, id: ContentId) -> Option<PathBuf> {
        let name = id.to_string();
        let contents = self.folder.path().join("contents");
        contents.exists().then(|| contents.join(&name[..2]).join(name))
    }
}

pub async fn fixture() -> Fixture {
    fixture_with(LibraryOptions::default()).await
}

pub async fn fixture_with(library_options: LibraryOptions) -> Fixture {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new(START)));
    let engine = engine(&folder, clock.clone()).await;
    fixture_over(engine, folder, clock, library_options).await
}

/// A library that, on Cassandra, has a keyspace of its own: it leaves so much behind that it would
/// affect other tests.
pub async fn lone_fixture() -> Fixture {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new(START)));
    let engine = lone_engine(&folder, clock.clone()).await;
    fixture_over(engine, folder, clock, LibraryOptions::default()).await
}

async fn fixture_over(
    engine: Arc<dyn Store>,
    folder: TempDir,
    clock: Arc<ManualClock>,
    library_options: LibraryOptions,
) -> Fixture {
    let store: Arc<dyn Store> = Arc::new(Limited::new(engine, Limits::default()));
    let library = Library::open(store.clone(), clock.clone(), library_options).await.unwrap();
    Fixture { library, clock, store, folder }
}

/// So many changes of an object that its earlier heads take more than a page of its log. Over a real
/// engine, where each change takes some milliseconds, fewer, which one page holds.
pub fn many_changes() -> u64 {
    if on_cassandra() { 20 } else { keys::LOG_PAGE_ENTRIES + 6 }
}

/// The engine under the library. If that is Cassandra, and no node can be started,
/// that is reported, and the remaining tests run on the embedded engine.
pub async fn engine(folder: &TempDir, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    if on_cassandra()
        && let Some(store) = shared_store(clock.clone()).await
    {
        return store;
    }
    embedded(folder, clock)
}

/// An engine that, on Cassandra, has a keyspace of its own.
pub async fn lone_engine(folder: &TempDir, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    if on_cassandra()
        && let Some(store) = fresh_store(clock.clone()).await
    {
        return store;
    }
    embedded(folder, clock)
}

fn embedded(folder: &TempDir, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    let options = EmbeddedOptions { headroom_bytes: 0, ..EmbeddedOptions::default() };
    EmbeddedStore::open(folder.path(), options, clock).unwrap()
}

/// A library over a store with injected faults: in memory, or over Cassandra.
pub struct Faulty {
    pub library: Library,
    pub clock: Arc<ManualClock>,
    pub store: Arc<memory::Memory>,
}

pub async fn faulty() -> Faulty {
    faulty_with(LibraryOptions::default()).await
}

pub async fn faulty_with(options: LibraryOptions) -> Faulty {
    let clock = Arc::new(ManualClock::new(START));
    let engine = if on_cassandra() { shared_store(clock.clone()).await } else { None };
    let store = Arc::new(engine.map_or_else(memory::Memory::default, memory::Memory::over));
    let library = Library::open(store.clone(), clock.clone(), options).await.unwrap();
    Faulty { library, clock, store }
}

impl Faulty {
    /// The library as another process opens it, without faults.
    pub async fn reopened(&self) -> Library {
        self.store.recover();
        Library::open(self.store.clone(), self.clock.clone(), self.library.options().clone()).await.unwrap()
    }
}

/// The steps of an operation at which faults are tried, until it has no more. Over a real engine,
/// where each try takes seconds, every third one.
pub fn steps() -> impl Iterator<Item = usize> {
    (0..).step_by(if on_cassandra() { 3 } else { 1 })
}

/// The faults to try at each step of an operation. Over a real engine, where each try takes a
/// second or more, only the first: the effect of other faults on a step is decided above the
/// engine.
pub fn sample<T>(faults: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    faults.into_iter().take(if on_cassandra() { 1 } else { usize::MAX })
}

pub fn id(text: &str) -> VolumeId {
    VolumeId::parse(text).unwrap()
}

/// The volumes that come with the project.
pub fn samples() -> Vec<hathi::VolumeFiles> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../samples/pairtree");
    hathi::discover(&root).map(Result::unwrap).collect()
}

/// A volume whose page `n` (from 1) has text `n` of `texts`.
pub fn volume(id: &str, texts: &[&str]) -> VolumeParts<Cursor<Vec<u8>>> {
    let id = self::id(id);
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let (mut files, mut divs) = (String::new(), String::new());
    for (seq, text) in (1..).zip(texts) {
        let name = format!("{seq:08}.txt");
        zip.start_file(format!("{}/{name}", id.cleaned_local()), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
        let md5 = hex::encode(Md5::digest(text));
        files += &format!(
            r#"<METS:file ID="T{seq}" SIZE="{}" CHECKSUM="{md5}" CHECKSUMTYPE="MD5"><METS:FLocat xlink:href="{name}"/></METS:file>"#,
            text.len()
        );
        divs += &format!(
            r#"<METS:div TYPE="page" ORDER="{seq}" ORDERLABEL="p{seq}" LABEL="LEFT, COVER"><METS:fptr FILEID="T{seq}"/></METS:div>"#
        );
    }
    let mets = format!(
        r#"<METS:mets xmlns:METS="http://www.loc.gov/METS/" xmlns:xlink="http://www.w3.org/1999/xlink" OBJID="{id}"><METS:fileSec><METS:fileGrp USE="ocr">{files}</METS:fileGrp></METS:fileSec><METS:structMap TYPE="physical"><METS:div>{divs}</METS:div></METS:structMap></METS:mets>"#
    );
    let record = format!(r#"{{"volumeIdentifier":"{id}","rightsAttributes":"pd","title":"A title"}}"#);
    VolumeParts { id: Some(id), zip: zip.finish().unwrap(), mets: mets.into_bytes(), record: Some(record.into_bytes()) }
}

/// Imports and ignores the progress.
pub async fn import(library: &Library, parts: VolumeParts<Cursor<Vec<u8>>>) -> ObjectsResult<Imported> {
    library.volumes.import(parts, Unchanged::Skip, |_| {}).await
}

/// All listed volumes, sorted, read in pages of `max`.
pub async fn listed(library: &Library, max: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut after: Option<ListToken> = None;
    loop {
        let page = library.volumes.list(after.as_ref(), max).await.unwrap();
        assert!(page.volumes.len() <= max);
        names.extend(page.volumes.iter().map(ToString::to_string));
        // A token survives conversion to text.
        after = page.next.map(|token| token.to_string().parse().unwrap());
        if after.is_none() {
            names.sort();
            return names;
        }
    }
}

/// The texts of all pages of a volume.
pub async fn texts(library: &Library, id: &VolumeId) -> ObjectsResult<Vec<String>> {
    let mut texts = Vec::new();
    for info in library.volumes.page_list(id, 0..u32::MAX).await? {
        texts.push(String::from_utf8(library.volumes.page(id, info.seq).await?.text()?).unwrap());
    }
    Ok(texts)
}

/// The texts of a revision, which need not be current.
pub async fn texts_at(library: &Library, volume: &Volume) -> ObjectsResult<Vec<String>> {
    let generation = volume.body.generation;
    let entries = library.volumes.entries(&volume.id, generation, 0..volume.page_count()).await?;
    let frames = library.volumes.frames(&volume.id, generation, &entries).await?;
    let texts = entries.iter().zip(frames).map(|(entry, frame)| {
        let text = pack::inflate(&frame, entry.member.size, entry.member.crc32).unwrap();
        String::from_utf8(text).unwrap()
    });
    Ok(texts.collect())
}
