//! A cache of whole rows, for a table whose rows are looked up again and again. A row that is there
//! costs one lookup. The engine looks into its memtables, and into an index, a filter and a block
//! of each file.
//!
//! No read gets a row from it that is older than what a view would show. That follows from three
//! rules:
//!
//! - All changes of rows go through one commit at a time ([`Changes`]). Before a commit writes
//!   anything, each of its keys is *changing*. It stays so until the commit is visible to each view
//!   that is opened then. At that moment the cached row is replaced, or removed.
//! - A row that is changing is never taken from the cache, and never put there.
//! - A reader that misses a row learns how many changes have begun in its shard ([`Seen`]). Then it
//!   opens a view and reads. It puts the row into the cache only if no other change has begun
//!   since. So what it has read is still what is visible, and a later change will replace it.
//!
//! So a cached row that is not changing is the one that is visible now. A reader of several rows
//! asks the same number again: as long as it stays, its row is visible. If that holds for all of
//! them after it has looked up the last one, they all were visible at that moment. If it holds
//! after a view was opened, the view shows that row.
//!
//! The keys of a commit that failed stay changing. Nobody knows what the disk has of them, and the
//! lane accepts no further writes. A view decides what is read.
//!
//! A row is put there when a client reads it by its key. Listings, checks, copies and exports read
//! ranges, and neither use nor fill the cache. Nor does a write fill it: it replaces what is there.
//!
//! The rows are copies of what the engine has read, so they keep no blocks in memory. The engine
//! has checked the block by then, and the reader opens the row's envelope, which has a checksum,
//! each time. Expiries are judged each time too.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quick_cache::Weighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

/// So many parts have a lock each, at least and at most.
const SHARDS_MIN: u64 = 16;
const SHARDS_MAX: u64 = 4_096;

/// A larger cache has more parts, of this size. Now and then it takes a time that grows with the
/// part to put one row there, while the lock is held: the part's tables grow, or most of its
/// rows were read since one was evicted.
const SHARD_BYTES: u64 = 4 << 20;

/// What a row takes in memory beside its key and its bytes, about: a slot, the room by which slots
/// grow, and three allocations.
const ROW_OVERHEAD_BYTES: u64 = 192;

/// About what a cached row takes. It sets how many keys are remembered that were evicted.
const USUAL_ROW_BYTES: u64 = 512;

/// A cache of the rows of one table, by key. Rows are as they are stored.
pub(crate) struct RowCache {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    bytes_max: u64,
}

struct Shard {
    rows: Cache<Box<[u8]>, Bytes, RowBytes, RandomState>,
    /// Keys that a commit changes which is not visible yet, or has failed.
    changing: HashSet<Bytes>,
    /// How many changes of rows have begun.
    begun: u64,
    hits: u64,
    misses: u64,
}

#[derive(Clone, Copy)]
struct RowBytes;

impl Weighter<Box<[u8]>, Bytes> for RowBytes {
    fn weight(&self, key: &Box<[u8]>, row: &Bytes) -> u64 {
        (key.len() + row.len()) as u64 + ROW_OVERHEAD_BYTES
    }
}

/// How many changes had begun when a row was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u64);

/// What the cache has of a row.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The row.
    Hit(Bytes, Seen),
    /// Nothing, which does not say whether there is such a row. What a view shows that is opened
    /// later may be put there, unless the row is changing: then `None`.
    Miss(Option<Seen>),
}

/// What the cache has done, and what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowActivity {
    /// Rows that readers found in it.
    pub(crate) hits: u64,
    /// Rows that they did not.
    pub(crate) misses: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
}

impl RowCache {
    /// An empty cache of at most so many bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self::with_shards((bytes_max / SHARD_BYTES).clamp(SHARDS_MIN, SHARDS_MAX) as usize, bytes_max)
    }

    fn with_shards(shards: usize, bytes_max: u64) -> Self {
        let (hasher, bytes) = (RandomState::new(), bytes_max / shards as u64);
        let usual = usize::try_from(bytes / USUAL_ROW_BYTES).unwrap_or(usize::MAX);
        let shard = || Shard {
            rows: Cache::with(usual, bytes, RowBytes, hasher.clone(), DefaultLifecycle::default()),
            changing: HashSet::new(),
            begun: 0,
            hits: 0,
            misses: 0,
        };
        let shards = (0..shards).map(|_| Mutex::new(shard())).collect();
        Self { shards, hasher, bytes_max }
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        // The map in the shard takes its places from the lowest and the highest bits.
        let place = (self.hasher.hash_one(key) >> 32) as usize % self.shards.len();
        self.shards[place].lock()
    }

    /// Looks for a row, for a reader that has no view yet.
    pub(crate) fn find(&self, key: &[u8]) -> Lookup {
        let mut shard = self.shard(key);
        let shard = &mut *shard;
        let seen = Seen(shard.begun);
        let is_changing = shard.changing.contains(key);
        match shard.rows.get(key) {
            Some(row) if !is_changing => {
                shard.hits += 1;
                Lookup::Hit(row.clone(), seen)
            }
            _ => {
                shard.misses += 1;
                Lookup::Miss((!is_changing).then_some(seen))
            }
        }
    }

    /// Whether a row that was found is still the visible one.
    pub(crate) fn is_current(&self, key: &[u8], seen: Seen) -> bool {
        self.shard(key).begun == seen.0
    }

    /// Puts a row there that a view shows which was opened after the row was looked up.
    pub(crate) fn keep(&self, key: &[u8], row: &[u8], seen: Seen) {
        // A view's row is a slice of its block.
        let (own_key, row): (Box<[u8]>, Bytes) = (key.into(), Bytes::copy_from_slice(row));
        let mut shard = self.shard(key);
        if shard.begun == seen.0 {
            shard.rows.insert(own_key, row);
        }
    }

    /// The row, for the only writer that commits: none is changing but those of failed
    /// commits. It is not counted.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<Bytes> {
        let shard = self.shard(key);
        let row = shard.rows.peek(key)?;
        (!shard.changing.contains(key)).then(|| row.clone())
    }

    /// Begins a commit. None has begun that has neither ended nor failed.
    pub(crate) fn begin(&self) -> Changes<'_> {
        Changes { cache: self, rows: Vec::new() }
    }

    pub(crate) fn activity(&self) -> RowActivity {
        let mut sum = RowActivity { bytes_max: self.bytes_max, ..RowActivity::default() };
        for shard in self.shards.iter() {
            let shard = shard.lock();
            sum.hits += shard.hits;
            sum.misses += shard.misses;
            sum.bytes += shard.rows.weight();
        }
        sum
    }
}

/// The rows that a commit changes. If it is dropped before the commit is visible, they stay
/// changing.
pub(crate) struct Changes<'a> {
    cache: &'a RowCache,
    /// With what will be there; `None`: nothing.
    rows: Vec<(Bytes, Option<Bytes>)>,
}

impl Changes<'_> {
    /// A row is going to be replaced, or removed (`None`). The commit has written nothing yet.
    pub(crate) fn add(&mut self, key: &Bytes, row: Option<&Bytes>) {
        let mut shard = self.cache.shard(key);
        shard.begun += 1;
        shard.changing.insert(key.clone());
        drop(shard);
        self.rows.push((key.clone(), row.cloned()));
    }

    /// Each view that is opened from now on shows the commit.
    pub(crate) fn visible(self) {
        for (key, row) in self.rows {
            let mut shard = self.cache.shard(&key);
            if shard.rows.contains_key(&key[..]) {
                match row {
                    // One that has grown too large is removed and returned.
                    Some(row) => drop(shard.rows.replace(Box::from(&key[..]), row, true)),
                    None => drop(shard.rows.remove(&key[..])),
                }
            }
            shard.changing.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// Enough for everything.
    const MUCH: u64 = 1 << 20;

    const KEYS: usize = 4;

    fn key(number: usize) -> Bytes {
        Bytes::from(format!("key {number}"))
    }

    fn row(version: u64) -> Bytes {
        Bytes::copy_from_slice(&version.to_be_bytes())
    }

    fn version(row: &Bytes) -> u64 {
        u64::from_be_bytes(row[..].try_into().unwrap())
    }

    fn found(cache: &RowCache, key: &[u8]) -> Option<u64> {
        match cache.find(key) {
            Lookup::Hit(row, _) => Some(version(&row)),
            Lookup::Miss(_) => None,
        }
    }

    /// Reads a row as a reader does that misses it. The view shows `row`.
    fn read(cache: &RowCache, key: &[u8], row: &[u8]) {
        match cache.find(key) {
            Lookup::Hit(cached, _) => assert_eq!(cached, row),
            Lookup::Miss(seen) => cache.keep(key, row, seen.unwrap()),
        }
    }

    fn commit(cache: &RowCache, key: &Bytes, row: Option<&Bytes>) {
        let mut changes = cache.begin();
        changes.add(key, row);
        changes.visible();
    }

    /// What a database shows of each row: the number of its last change, and whether that left one.
    type Shown = [(u64, bool); KEYS];

    /// A phase of something that goes on.
    #[derive(Clone, Copy, Debug)]
    enum Phase {
        /// A reader of one or two rows begins, or begins again.
        Read { reader: usize, rows: [usize; 2] },
        /// A reader goes on: it looks up a row, opens a view, or takes what that shows.
        GoOn { reader: usize },
        /// A commit begins, goes on or ends: it names its keys, is written, is visible, and ends.
        Commit { rows: [usize; 2], removes: bool },
        /// The commit that has begun fails.
        Fail,
    }

    fn phase() -> impl Strategy<Value = Phase> {
        let rows = || [0..KEYS, 0..KEYS];
        prop_oneof![
            3 => (0..3_usize, rows()).prop_map(|(reader, rows)| Phase::Read { reader, rows }),
            9 => (0..3_usize).prop_map(|reader| Phase::GoOn { reader }),
            6 => (rows(), any::<bool>()).prop_map(|(rows, removes)| Phase::Commit { rows, removes }),
            1 => Just(Phase::Fail),
        ]
    }

    struct Reader {
        rows: [usize; 2],
        /// What was acknowledged when it began.
        least: Shown,
        found: Vec<Lookup>,
        view: Option<Shown>,
    }

    struct Writer<'a> {
        changes: Changes<'a>,
        after: Shown,
        is_written: bool,
    }

    struct Model<'a> {
        cache: &'a RowCache,
        shown: Shown,
        acknowledged: Shown,
        last: u64,
        readers: [Option<Reader>; 3],
        writer: Option<Writer<'a>>,
    }

    impl<'a> Model<'a> {
        fn new(cache: &'a RowCache) -> Self {
            let nothing = [(0, false); KEYS];
            let (shown, acknowledged, readers) = (nothing, nothing, [const { None }; 3]);
            Self { cache, shown, acknowledged, last: 0, readers, writer: None }
        }

        fn pass(&mut self, phase: Phase) {
            match phase {
                Phase::Read { reader, rows } => {
                    let least = self.acknowledged;
                    self.readers[reader] = Some(Reader { rows, least, found: Vec::new(), view: None });
                }
                Phase::GoOn { reader } => {
                    if let Some(mut reading) = self.readers[reader].take()
                        && !self.go_on(&mut reading)
                    {
                        self.readers[reader] = Some(reading);
                    }
                }
                Phase::Commit { rows, removes } => self.commit(rows, removes),
                Phase::Fail => self.writer = None,
            }
        }

        /// Returns whether the reader has ended.
        fn go_on(&self, reader: &mut Reader) -> bool {
            let Reader { rows, least, found, view } = reader;
            if let Some(row) = rows.get(found.len()) {
                found.push(self.cache.find(&key(*row)));
                return false;
            }
            let is_current = |(row, found): (&usize, &Lookup)| match found {
                Lookup::Hit(_, seen) => self.cache.is_current(&key(*row), *seen),
                Lookup::Miss(_) => false,
            };
            let Some(shown) = *view else {
                if !rows.iter().zip(&*found).all(is_current) {
                    *view = Some(self.shown);
                    return false;
                }
                Self::check(rows, least, found, &self.shown, |_| true);
                return true;
            };
            Self::check(rows, least, found, &shown, is_current);
            for (row, found) in rows.iter().zip(&*found) {
                if let (Lookup::Miss(Some(seen)), (version, true)) = (found, shown[*row]) {
                    self.cache.keep(&key(*row), &version.to_be_bytes(), *seen);
                }
            }
            true
        }

        /// A reader takes the rows of the cache that `is_taken` names, and the others of a view.
        /// All are as the view shows them, and none is older than what was acknowledged before.
        fn check(
            rows: &[usize; 2],
            least: &Shown,
            found: &[Lookup],
            view: &Shown,
            is_taken: impl Fn((&usize, &Lookup)) -> bool,
        ) {
            for (row, found) in rows.iter().zip(found) {
                assert!(view[*row].0 >= least[*row].0, "the model is wrong");
                if let Lookup::Hit(taken, _) = found
                    && is_taken((row, found))
                {
                    assert_eq!((version(taken), true), view[*row], "row {row}");
                }
            }
        }

        fn commit(&mut self, rows: [usize; 2], removes: bool) {
            match self.writer.take() {
                None => {
                    self.last += 1;
                    let (mut changes, mut after) = (self.cache.begin(), self.shown);
                    let value = (!removes).then(|| row(self.last));
                    for number in rows {
                        after[number] = (self.last, !removes);
                        changes.add(&key(number), value.as_ref());
                    }
                    self.writer = Some(Writer { changes, after, is_written: false });
                }
                Some(writer) if !writer.is_written => {
                    self.shown = writer.after;
                    self.writer = Some(Writer { is_written: true, ..writer });
                }
                Some(writer) => {
                    writer.changes.visible();
                    self.acknowledged = self.shown;
                }
            }
            // What is not changing is what is shown.
            for (number, shown) in self.shown.iter().enumerate() {
                if let Some(row) = self.cache.peek(&key(number)) {
                    assert_eq!((version(&row), true), *shown, "row {number}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_reader_gets_a_row_that_is_older_than_what_was_acknowledged_before_and_several_are_of_one_view(
            phases in prop::collection::vec(phase(), 1..200),
            shards in 1..4_usize,
            bytes_max in prop::sample::select(vec![500, MUCH]),
        ) {
            let cache = RowCache::with_shards(shards, bytes_max);
            let mut model = Model::new(&cache);
            phases.into_iter().for_each(|phase| model.pass(phase));
        }

        #[test]
        fn the_cache_takes_no_more_than_it_may(
            reads in prop::collection::vec((0..300_usize, 0..9_000_usize, any::<bool>()), 1..300),
        ) {
            const BYTES: u64 = 64 << 10;
            let cache = RowCache::new(BYTES);
            for (number, bytes, writes) in reads {
                let row = Bytes::from(vec![7; bytes]);
                match cache.find(&key(number)) {
                    Lookup::Miss(seen) => cache.keep(&key(number), &row, seen.unwrap()),
                    Lookup::Hit(_, _) if writes => commit(&cache, &key(number), Some(&row)),
                    Lookup::Hit(_, _) => {}
                }
                let taken = cache.activity().bytes;
                prop_assert!(taken <= BYTES, "{taken}");
            }
        }
    }

    #[test]
    fn a_row_is_found_after_it_was_read_and_as_it_was_written_last() {
        let (cache, key) = (RowCache::new(MUCH), key(1));
        commit(&cache, &key, Some(&row(1)));
        assert_eq!(found(&cache, &key), None, "a write alone puts nothing there");
        read(&cache, &key, &row(1));
        assert_eq!(found(&cache, &key), Some(1));
        commit(&cache, &key, Some(&row(2)));
        assert_eq!((found(&cache, &key), cache.peek(&key)), (Some(2), Some(row(2))));
        commit(&cache, &key, None);
        assert_eq!(found(&cache, &key), None);
        let RowActivity { hits, misses, bytes, bytes_max } = cache.activity();
        assert_eq!((hits, misses, bytes, bytes_max), (2, 3, 0, MUCH));
    }

    #[test]
    fn a_row_that_changes_while_it_is_read_is_not_kept() {
        let (cache, key) = (RowCache::new(MUCH), key(1));
        let Lookup::Miss(Some(before)) = cache.find(&key) else { panic!("it is not there") };
        let mut changes = cache.begin();
        changes.add(&key, Some(&row(2)));
        cache.keep(&key, &row(1), before);
        assert!(matches!(cache.find(&key), Lookup::Miss(None)), "it is changing");
        changes.visible();
        cache.keep(&key, &row(1), before);
        assert_eq!(found(&cache, &key), None);
        read(&cache, &key, &row(2));
        assert_eq!(found(&cache, &key), Some(2));
    }

    #[test]
    fn rows_of_a_commit_that_failed_are_not_taken_from_the_cache_any_more_and_others_are() {
        let (cache, failed, other) = (RowCache::new(MUCH), key(1), key(2));
        for key in [&failed, &other] {
            read(&cache, key, &row(1));
        }
        cache.begin().add(&failed, Some(&row(2)));
        assert!(matches!(cache.find(&failed), Lookup::Miss(None)));
        assert_eq!(cache.peek(&failed), None);
        assert_eq!(found(&cache, &other), Some(1));
        commit(&cache, &other, Some(&row(2)));
        assert!(matches!(cache.find(&failed), Lookup::Miss(None)), "another commit ends only what is its own");
    }

    #[test]
    fn a_larger_cache_has_more_parts_so_that_no_lock_is_held_for_long() {
        for (bytes_max, parts) in [(0, 16), (64 << 20, 16), (1 << 30, 256), (1 << 40, 4_096)] {
            assert_eq!(RowCache::new(bytes_max).shards.len(), parts, "{bytes_max}");
        }
    }

    #[test]
    fn rows_that_are_read_often_stay_while_many_others_are_read_once() {
        let cache = RowCache::new(256 << 10);
        let bytes = Bytes::from(vec![7; 100]);
        for _ in 0..3 {
            (0..100).for_each(|number| read(&cache, &key(number), &bytes));
        }
        (1_000..20_000).for_each(|number| read(&cache, &key(number), &bytes));
        let is_there = |number: &usize| cache.peek(&key(*number)).is_some();
        let left = (0..100).filter(is_there).count();
        assert!(left > 90, "{left} of 100 rows are left");
    }
}
