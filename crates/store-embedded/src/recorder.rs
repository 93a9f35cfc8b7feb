//! Keeps the record of a lane's database while it is open: see [`crate::opening`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::opening::journal;
use crate::opening::record::{Mark, Record, RecordFile, Synced};
use crate::opening::versions::Known;
use crate::opening::{Found, known_path};

/// How often the record is synced while groups are written. If a power failure loses newer slots,
/// only the journal shows what is missing.
const SYNC_EVERY: Duration = Duration::from_secs(10);

/// How often the list of known files is written. The next start reads files that are not in it
/// whole.
const KNOWN_EVERY: Duration = Duration::from_secs(60);

/// How often the other fields of a slot are updated while groups are written: versions of lists,
/// and which journals are still needed. These fields may be old.
const SEEN_EVERY: Duration = Duration::from_millis(100);

/// The engine moves to another journal only once one has more than 64,000,000 bytes.
const SURELY_ONE_JOURNAL_BYTES: u64 = 60_000_000;

/// A memtable: the number of its keyspace, and its own. The memtables of a keyspace are numbered in
/// the order in which they are filled and written to files.
pub(crate) type Memtable = (u64, u64);

/// The engine's state after a group. The first keyspace is its own, does not change, and is left
/// out.
pub(crate) struct Seen {
    /// Versions of the lists of files, by keyspace.
    pub(crate) versions: Vec<u64>,
    /// By keyspace, a memtable. It and those after it were in no file while the list had that
    /// version.
    pub(crate) unflushed_from: Vec<u64>,
}

/// An open database, as its recorder sees it.
pub(crate) trait Engine {
    /// Its state after the last group.
    fn seen(&self) -> Seen;

    /// All its files of rows but those of its own keyspace: the number of the keyspace, and the id.
    fn files(&self) -> Vec<(u64, u64)>;
}

/// The recorder of an open database.
pub(crate) struct Recorder {
    database: PathBuf,
    file: RecordFile,
    record: Record,
    /// The last group that was written. Those after the record's are not synced yet.
    written: u64,
    /// The last group that was acknowledged. Those after the record's wait for their sync.
    acknowledged: u64,
    /// The journal that was written to when that group began.
    written_to: u64,
    /// Memtables that have a row of the given journal or of an earlier one. The engine keeps a
    /// journal until *all* its rows are in files, and some keyspaces are written to seldom.
    memtables: BTreeMap<Memtable, u64>,
    /// The journal that is written to, as far as is known.
    active: u64,
    /// Not less than the number of bytes in it.
    active_bytes: u64,
    known: Known,
    known_versions: Vec<u64>,
    seen_at: Option<Instant>,
    synced_at: Instant,
    known_at: Instant,
    is_failing: bool,
}

impl Recorder {
    /// Continues the record of a database that was found sound and then opened. `group` is its last
    /// group, and `replayed` are the memtables that have rows of the newest journal. (Those that
    /// have rows of older ones are being written to files.)
    pub(crate) fn new(
        database: &Path,
        file: RecordFile,
        record: Record,
        found: Found,
        group: u64,
        replayed: impl Iterator<Item = Memtable>,
    ) -> Self {
        let (now, active) = (Instant::now(), found.journals.last().map_or(0, |journal| journal.id));
        let in_journals = found.journals.iter().filter_map(|journal| Some(journal.runs.last()?.last_sequence)).max();
        // A group after the recorded one may be in a file of rows only, which does not contain its
        // sequence number.
        let known_sequence = (group == record.group).then_some(record.sequence);
        let sequence = in_journals.or(known_sequence).unwrap_or(Record::UNKNOWN);
        Self {
            database: database.to_path_buf(),
            file,
            memtables: replayed.map(|memtable| (memtable, active)).collect(),
            active,
            active_bytes: found.journals.last().and_then(|journal| journal.runs.last()).map_or(0, |run| run.bytes.end),
            known: found.known,
            known_versions: record.versions.clone(),
            written: group,
            acknowledged: group,
            written_to: record.written_to,
            record: Record { group, sequence, ..record },
            seen_at: None,
            synced_at: now,
            known_at: now,
            is_failing: false,
        }
    }

    /// The mark of the next group.
    pub(crate) fn next_mark(&self) -> Mark {
        Mark { database: self.record.database, group: self.written + 1 }
    }

    /// The mark of the last group that was written.
    pub(crate) fn last_mark(&self) -> Mark {
        Mark { database: self.record.database, group: self.written }
    }

    /// What the next group has to say of syncs; `None`: it is synced, and so are all before it.
    pub(crate) fn synced_before_next(&self, syncs: bool) -> Option<Synced> {
        let group = self.record.group;
        (!syncs || group < self.written).then_some(Synced(group))
    }

    /// Takes note that the group with the next mark was written. `bytes` is not less than what it
    /// added to the journal. Its rows are in these memtables, or in later ones.
    pub(crate) fn written(&mut self, bytes: u64, memtables: impl Iterator<Item = Memtable>) {
        self.written += 1;
        self.written_to = self.active;
        self.active_bytes += bytes;
        while self.active_bytes > SURELY_ONE_JOURNAL_BYTES && journal::path(&self.database, self.active + 1).exists() {
            self.active += 1;
            self.active_bytes = bytes;
        }
        for memtable in memtables {
            self.memtables.entry(memtable).or_insert(self.active);
        }
    }

    /// Takes note that the last group is about to be acknowledged.
    pub(crate) fn acknowledged(&mut self) {
        self.acknowledged = self.written;
    }

    /// Whether a group was acknowledged that is not synced.
    pub(crate) fn lacks_sync(&self) -> bool {
        self.record.group < self.acknowledged
    }

    /// Records that all groups so far are durable. `sequence` is not below the engine's number of
    /// the last.
    pub(crate) fn synced(&mut self, sequence: u64, engine: &impl Engine) {
        self.record.group = self.written;
        self.record.sequence = sequence;
        self.record.written_to = self.written_to;
        if self.seen_at.is_none_or(|at| at.elapsed() >= SEEN_EVERY) {
            self.seen_at = Some(Instant::now());
            self.take(engine.seen());
        }
        let written = self.file.write(&self.record);
        self.note_written(written);
        if self.synced_at.elapsed() >= SYNC_EVERY {
            self.synced_at = Instant::now();
            let synced = self.file.sync();
            self.note_written(synced);
        }
        if self.known_at.elapsed() >= KNOWN_EVERY && self.known_versions != self.record.versions {
            self.learn(engine);
        }
    }

    /// Records the present state, durably. All groups are.
    pub(crate) fn end(&mut self, sequence: u64, engine: &impl Engine) {
        if self.record.group < self.written {
            self.synced(sequence, engine);
        }
        self.take(engine.seen());
        let written = self.file.write(&self.record).and_then(|()| self.file.sync());
        self.note_written(written);
        self.learn(engine);
    }

    fn take(&mut self, seen: Seen) {
        self.record.versions.truncate(1);
        self.record.versions.extend(seen.versions);
        self.record.needed_from.truncate(1);
        for (keyspace, unflushed_from) in (1..).zip(seen.unflushed_from) {
            self.memtables.retain(|(of, memtable), _| *of != keyspace || *memtable >= unflushed_from);
            // A later memtable has no rows of an earlier journal.
            let first = self.memtables.range((keyspace, 0)..).next().filter(|((of, _), _)| *of == keyspace);
            self.record.needed_from.push(first.map_or(Record::NONE_NEEDED, |(_, journal)| *journal));
        }
    }

    fn learn(&mut self, engine: &impl Engine) {
        self.known_at = Instant::now();
        self.known = self.known.learn(&self.database, engine.files().into_iter());
        self.known_versions = self.record.versions.clone();
        let written = self.known.write(&known_path(&self.database));
        self.note_written(written);
    }

    /// A record that falls behind weakens the next check, and does no other harm.
    fn note_written(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.is_failing = false,
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::warn!(%error, database = %self.database.display(), "the record of the database cannot be written");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::fs;

    use super::*;
    use crate::opening::record::DatabaseId;
    use crate::opening::record_path;

    /// An engine of two keyspaces with files of the memtables before the given ones.
    #[derive(Default)]
    struct Told {
        unflushed_from: Cell<[u64; 2]>,
    }

    impl Engine for Told {
        fn seen(&self) -> Seen {
            Seen { versions: vec![1, 1], unflushed_from: self.unflushed_from.get().to_vec() }
        }

        fn files(&self) -> Vec<(u64, u64)> {
            Vec::new()
        }
    }

    #[test]
    fn a_journal_is_needed_until_all_rows_that_it_has_of_a_keyspace_are_in_a_file() {
        const NONE: u64 = Record::NONE_NEEDED;
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("text");
        fs::create_dir(&database).unwrap();
        let record = Record {
            database: DatabaseId([1; 16]),
            group: 0,
            sequence: Record::UNKNOWN,
            written_to: 0,
            needed_from: vec![NONE; 3],
            versions: vec![0; 3],
        };
        let path = record_path(&database);
        RecordFile::make(&path, &record).unwrap();
        let (file, record) = RecordFile::open(&path).unwrap().unwrap();
        let found = Found {
            keyspaces: Vec::new(),
            journals: Vec::new(),
            known: Known::default(),
            last: Vec::new(),
            others: Vec::new(),
        };
        let mut recorder = Recorder::new(&database, file, record, found, 0, [(2, 0)].into_iter());
        let engine = Told::default();
        // A group with rows in these memtables. Returns the journal that it is written to, and
        // those that the keyspaces need.
        let mut group = |memtables: &[Memtable], bytes| {
            // Pretends that time has passed.
            recorder.seen_at = None;
            assert_eq!(recorder.next_mark().group, recorder.record.group + 1);
            recorder.written(bytes, memtables.iter().copied());
            assert_eq!(RecordFile::look(&path).unwrap().unwrap().group, recorder.record.group, "it is not synced yet");
            let sequence = 10 + recorder.written;
            recorder.synced(sequence, &engine);
            let seen = RecordFile::look(&path).unwrap().unwrap();
            assert_eq!((seen.group, seen.sequence), (recorder.record.group, sequence));
            assert_eq!(seen.versions, [0, 1, 1]);
            (seen.written_to, seen.needed_from[1..].to_vec())
        };
        assert_eq!(group(&[(1, 0)], 100), (0, vec![0, 0]), "the second keyspace was replayed");
        engine.unflushed_from.set([0, 1]);
        assert_eq!(group(&[(1, 0)], 100), (0, vec![0, NONE]));
        assert_eq!(group(&[(1, 0), (2, 1)], SURELY_ONE_JOURNAL_BYTES), (0, vec![0, 0]));
        // The engine may change to the next journal before or after this group.
        fs::write(journal::path(&database, 1), "").unwrap();
        assert_eq!(group(&[(1, 0)], 100), (0, vec![0, 0]));
        assert_eq!(group(&[(1, 1)], 100), (1, vec![0, 0]));
        engine.unflushed_from.set([1, 1]);
        assert_eq!(group(&[(1, 1)], 100), (1, vec![1, 0]), "the marks alone are in files");
        engine.unflushed_from.set([2, 1]);
        assert_eq!(group(&[(1, 2)], 100), (1, vec![1, 0]));
        engine.unflushed_from.set([2, 2]);
        assert_eq!(group(&[(1, 2)], 100), (1, vec![1, NONE]));
        engine.unflushed_from.set([3, 2]);
        assert_eq!(group(&[(1, 2)], 100), (1, vec![NONE, NONE]));
        assert_eq!(group(&[(1, 3), (2, 2)], 100), (1, vec![1, 1]));
    }
}
