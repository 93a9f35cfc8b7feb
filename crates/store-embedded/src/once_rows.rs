//! Reads of rows by a reader that reads everything once (a check, a copy): they leave the engine's
//! cache of blocks as it was, so that they do not replace in it what others read.
//!
//! The engine has no such read: each open file of rows puts its blocks into the cache. So such a
//! reader opens the files once more, with a small cache of its own. It looks for a row where the
//! engine does: in the memtable in use, and then in the files.
//!
//! It finds what a view shows. Views and lists of files have sequence numbers. A view shows the
//! newest list with a smaller number, and the memtables beside it. When a list can be seen, later
//! views have greater numbers. The newest list of each keyspace is noted before the view is opened.
//! Lists are counted, too: as long as the newest one is the one that was noted, the view shows it.
//! If no memtable waits to be written to a file then, all other rows of the view are in the
//! memtable in use. Otherwise the reader reads through the view like others. That is so only while
//! memtables are written and files are merged.
//!
//! This is how lsm-tree 3.1.10 works. Much of what is used here is hidden in its documentation.
//! Read both again before you take another version.

use std::iter;
use std::ops::Bound;
use std::sync::Arc;

use fjall::{AbstractTree, Keyspace, SeqNo, UserKey, UserValue};
use lsm_tree::merge::Merger;
use lsm_tree::mvcc_stream::MvccStream;
use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::{Cache, InternalValue, Memtable, Metrics, Table, ValueType};
use quick_cache::{Weighter, sync};

use crate::key::KeyRange;

/// Bytes of the cache of such readers, for each lane. A block has some rows, which are read one
/// after the other. The cache has four parts for each processor, and a part keeps no block that is
/// larger than itself.
const CACHE_BYTES: u64 = 4 << 20;

/// Files that are open at most, for each lane. In the order of their keys, readers need one of each
/// run of a keyspace's files at a time.
const FILES_MAX: usize = 64;

/// Bytes of filters and indexes that these files keep in memory at most.
const FILES_BYTES: u64 = 16 << 20;

/// Two keys of a keyspace.
type Keys = (Bound<UserKey>, Bound<UserKey>);

/// Rows in the order of their keys, of each key the newest first.
type Rows<'a> = Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<InternalValue>> + 'a>;

/// A list of files: the keyspace's tree, and the number of the list.
type List = (u64, u64);

/// What an open file counts: the bytes that it keeps in memory, or its share of [`FILES_MAX`].
#[derive(Clone, Copy)]
struct FileBytes;

impl Weighter<(List, u64), Table> for FileBytes {
    fn weight(&self, _: &(List, u64), file: &Table) -> u64 {
        let kept = file.pinned_filter_size() + file.pinned_block_index_size();
        (kept as u64).max(FILES_BYTES / FILES_MAX as u64)
    }
}

/// The files of a lane that such readers have open, and their cache.
pub(crate) struct OnceRows {
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    /// By the list in which they were found, and by the file.
    files: sync::Cache<(List, u64), Table, FileBytes>,
}

impl OnceRows {
    pub(crate) fn new() -> Self {
        let cache = Arc::new(Cache::with_capacity_bytes(CACHE_BYTES));
        Self { cache, metrics: Arc::default(), files: sync::Cache::with_weighter(FILES_MAX, FILES_BYTES, FileBytes) }
    }

    /// Blocks that such readers needed.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Closes the files. One that was merged into others takes space until then, or until another
    /// one of its keyspace is opened.
    pub(crate) fn release(&self) {
        self.files.clear();
    }

    /// The value at a key, as a view shows it; `None`: it has to be read through the view. `list`
    /// is the list of files that was the newest before the view was opened.
    pub(crate) fn get(
        &self,
        keyspace: &Keyspace,
        list: u64,
        key: &[u8],
        seqno: SeqNo,
    ) -> Option<lsm_tree::Result<Option<UserValue>>> {
        let file_of = |run: &[Table]| {
            let at = run.partition_point(|file| &file.metadata.key_range.max()[..] < key);
            run.get(at).filter(|file| file.metadata.key_range.contains_key(key)).cloned()
        };
        let (memtable, files) = places(keyspace, list, file_of)?;
        let row = match memtable.get(key, seqno) {
            Some(row) => Ok(Some(row)),
            None => self.find((keyspace.tree.id(), list), files.into_iter().flatten(), key, seqno),
        };
        Some(row.map(|row| row.filter(|row| !row.is_tombstone()).map(|row| row.value)))
    }

    /// The row at a key in the first file that has it.
    fn find(
        &self,
        list: List,
        files: impl Iterator<Item = Table>,
        key: &[u8],
        seqno: SeqNo,
    ) -> lsm_tree::Result<Option<InternalValue>> {
        let hash = Builder::get_hash(key);
        for file in files {
            if let Some(row) = self.open(list, &file)?.get(key, seqno, hash)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The rows of a range, as a view shows them; `None`: they have to be read through the view.
    pub(crate) fn range(
        &self,
        keyspace: &Keyspace,
        list: u64,
        (from, to): &KeyRange,
        seqno: SeqNo,
    ) -> Option<Rows<'_>> {
        let within = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        // The files of a run are in the order of their keys.
        let files_of = |run: &[Table]| -> Vec<Table> {
            let has = |file: &Table, to| file.metadata.key_range.overlaps_with_bounds(&(within.0, to));
            let first = run.partition_point(|file| !has(file, Bound::Unbounded));
            run[first..].iter().take_while(|file| has(file, within.1)).cloned().collect()
        };
        let (memtable, runs) = places(keyspace, list, files_of)?;
        let keys: Keys = (from.as_ref().map(UserKey::from), to.as_ref().map(UserKey::from));
        let list = (keyspace.tree.id(), list);
        let in_memory: Rows<'_> = Box::new(MemtableRows::new(memtable, &keys).map(Ok));
        let mut sources = vec![in_memory];
        for files in runs {
            let keys = keys.clone();
            sources.push(Box::new(files.into_iter().flat_map(move |file| self.rows(list, &file, keys.clone()))));
        }
        let is_visible =
            move |row: &lsm_tree::Result<InternalValue>| row.as_ref().map_or(true, |row| row.key.seqno < seqno);
        let is_there = |row: &lsm_tree::Result<InternalValue>| row.as_ref().map_or(true, |row| !row.is_tombstone());
        let newest = MvccStream::new(Merger::new(sources).filter(is_visible));
        Some(Box::new(newest.filter(is_there)))
    }

    /// The rows of a file between two keys.
    fn rows(&self, list: List, file: &Table, keys: Keys) -> Rows<'static> {
        match self.open(list, file) {
            Ok(file) => Box::new(file.range(keys)),
            Err(error) => Box::new(iter::once(Err(error))),
        }
    }

    /// A file, opened once more. It keeps its filter and its index in memory, if they are not in
    /// parts.
    fn open(&self, list: List, file: &Table) -> lsm_tree::Result<Table> {
        let place = (list, file.id());
        if let Some(open) = self.files.get(&place) {
            return Ok(open);
        }
        let (path, cache, metrics) = (file.path.to_path_buf(), self.cache.clone(), self.metrics.clone());
        let (checksum, seqno, tree) = (file.checksum(), file.global_seqno(), list.0);
        let open = Table::recover(path, checksum, seqno, tree, cache, None, true, true, metrics)?;
        // Files of an earlier list may have been deleted. They take space as long as they are open.
        self.files.retain(|(of, _), _| of.0 != tree || *of == list);
        self.files.insert(place, open.clone());
        Ok(open)
    }
}

/// The memtable in use, and files of each run, the newest run first; `None`: there are other
/// memtables, or the list of files is another one. As long as the files exist, none is deleted.
fn places<T>(keyspace: &Keyspace, list: u64, files: impl Fn(&[Table]) -> T) -> Option<(Arc<Memtable>, Vec<T>)> {
    // In this order: a memtable that is not in use any more is seen to wait, or has changed the
    // list.
    let memtable = keyspace.tree.active_memtable();
    if keyspace.sealed_memtable_count() > 0 {
        return None;
    }
    let version = keyspace.tree.current_version();
    if version.id() != list {
        return None;
    }
    let runs = version.iter_levels().flat_map(|level| level.iter());
    let files = runs.map(|run| files(&run[..])).collect();
    Some((memtable, files))
}

/// The rows of a memtable in a range. Each is looked for when it is wanted, so nothing of the
/// memtable is borrowed.
struct MemtableRows {
    memtable: Arc<Memtable>,
    from: Bound<InternalValue>,
    to: Bound<InternalValue>,
}

impl MemtableRows {
    fn new(memtable: Arc<Memtable>, (from, to): &Keys) -> Self {
        let place = |key: &UserKey, seqno: SeqNo| {
            InternalValue::from_components(key.clone(), UserValue::empty(), seqno, ValueType::Value)
        };
        // Of one key, the row with the greatest number comes first.
        let (first, last) = (SeqNo::MAX, 0);
        let from = match from {
            Bound::Included(key) => Bound::Included(place(key, first)),
            Bound::Excluded(key) => Bound::Excluded(place(key, last)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match to {
            Bound::Included(key) => Bound::Included(place(key, last)),
            Bound::Excluded(key) => Bound::Excluded(place(key, first)),
            Bound::Unbounded => Bound::Unbounded,
        };
        Self { memtable, from, to }
    }
}

impl Iterator for MemtableRows {
    type Item = InternalValue;

    fn next(&mut self) -> Option<InternalValue> {
        let keys = (self.from.as_ref().map(|row| row.key.clone()), self.to.as_ref().map(|row| row.key.clone()));
        let entry = self.memtable.items.range(keys).next()?;
        let row = InternalValue { key: entry.key().clone(), value: entry.value().clone() };
        self.from = Bound::Excluded(row.clone());
        Some(row)
    }
}

impl DoubleEndedIterator for MemtableRows {
    fn next_back(&mut self) -> Option<InternalValue> {
        let keys = (self.from.as_ref().map(|row| row.key.clone()), self.to.as_ref().map(|row| row.key.clone()));
        let entry = self.memtable.items.range(keys).next_back()?;
        let row = InternalValue { key: entry.key().clone(), value: entry.value().clone() };
        self.to = Bound::Excluded(row.clone());
        Some(row)
    }
}
