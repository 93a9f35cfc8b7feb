//! Stores for tests, in temporary folders.

#![allow(dead_code)] // No test file uses all of it.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use store::suite::{Damaging, Reopening, Subject};
use store::{ContentId, ManualClock, Store, StoreResult, UnixMillis};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;

/// Free memory that all tests together never need.
const MEMORY_BYTES: u64 = 1 << 30;

/// An embedded store in a folder of its own, wrapped or bare.
pub struct Embedded {
    folder: TempDir,
    clock: Arc<ManualClock>,
    wrap: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    store: Arc<dyn Store>,
}

impl Embedded {
    /// A fresh store within `wrap`.
    pub fn wrapped(wrap: fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let folder = folder();
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let store = wrap(open(&folder, &clock).unwrap());
        Self { folder, clock, wrap, store }
    }

    /// A fresh store.
    pub fn bare() -> Self {
        Self::wrapped(|store| store)
    }

    /// A fresh store that lets all syncs wait. Callers write small lists on their own threads.
    pub fn of_loads() -> Self {
        let folder = folder();
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let options = EmbeddedOptions { sync_delay: Duration::from_secs(3_600), ..options() };
        let store = EmbeddedStore::open(folder.path(), options, clock.clone()).unwrap();
        Self { folder, clock, wrap: |store| store, store }
    }
}

/// A temporary folder: in memory if there is space, because syncing two hundred fresh stores to a
/// disk takes a minute. (The crash test shows what must survive on a disk.)
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |room| room.f_bavail * room.f_frsize);
    if free > MEMORY_BYTES { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Every file of a folder with its bytes.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { found.extend(files(&path)) } else { found.extend([(path.clone(), fs::read(path).unwrap())]) }
    }
    found
}

/// A copy of a folder at this moment, as after the death of the process that holds it. Nobody writes
/// to it meanwhile, so its `lock` does not say that it is a copy of an open folder.
pub fn copied(from: &Path) -> TempDir {
    let copy = folder();
    for (path, content) in files(from) {
        let content = if path == from.join("lock") { Vec::new() } else { content };
        let path = copy.path().join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    copy
}

/// Options for stores in small folders.
pub fn options() -> EmbeddedOptions {
    EmbeddedOptions { headroom_bytes: 1 << 20, ..EmbeddedOptions::default() }
}

fn open(folder: &TempDir, clock: &Arc<ManualClock>) -> StoreResult<Arc<EmbeddedStore>> {
    EmbeddedStore::open(
        folder.path(),
        EmbeddedOptions { headroom_bytes: 1 << 20, ..EmbeddedOptions::default() },
        clock.clone(),
    )
}

impl Subject for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

#[async_trait]
impl Reopening for Embedded {
    async fn reopen(&mut self) {
        self.store.close().await.unwrap();
        self.store = (self.wrap)(open(&self.folder, &self.clock).unwrap());
    }

    async fn open_another(&self) -> StoreResult<Arc<dyn Store>> {
        Ok(open(&self.folder, &self.clock)?)
    }
}

impl Embedded {
    /// The file of a content.
    pub fn file_of(&self, id: ContentId) -> PathBuf {
        file_of(self.folder.path(), id)
    }
}

/// The file of a content of the store in `folder`.
pub fn file_of(folder: &Path, id: ContentId) -> PathBuf {
    let name = id.to_string();
    folder.join("contents").join(&name[..2]).join(name)
}

/// Flips a bit of a byte of a file.
pub fn flip(file: &Path, at: u64) {
    let mut content = fs::read(file).unwrap();
    content[at as usize] ^= 0x10;
    fs::write(file, content).unwrap();
}

#[async_trait]
impl Damaging for Embedded {
    async fn flip_bit(&self, id: ContentId, at: u64) {
        flip(&self.file_of(id), at);
    }

    async fn lose_bytes(&self, id: ContentId) {
        fs::remove_file(self.file_of(id)).unwrap();
    }

    async fn exchange(&self, one: ContentId, other: ContentId) {
        let aside = self.folder.path().join("aside");
        fs::rename(self.file_of(one), &aside).unwrap();
        fs::rename(self.file_of(other), self.file_of(one)).unwrap();
        fs::rename(aside, self.file_of(other)).unwrap();
    }
}
