//! Keeps the record of a lane's database while it is open: see [`crate::opening`].

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::opening::journal;
use crate::opening::record::{Mark, Record, RecordFile};
use crate::opening::versions::Known;
use crate::opening::{Found, known_path};

/// How often the record is made durable while groups are written. What a loss of power takes of it is looked for in the journal alone.
const SYNC_EVERY: Duration = Duration::from_secs(10);

/// How often the list of known files is written. What is not in it is read whole at the next start.
const KNOWN_EVERY: Duration = Duration::from_secs(60);

/// What the engine says behind a group.
pub(crate) struct Seen {
    /// Its number of the last group.
    pub(crate) sequence: u64,
    /// The highest number of which the marks' keyspace has a file of rows.
    pub(crate) flushed: Option<u64>,
    /// Versions of the lists of files, by keyspace, but for the first: that is the engine's own, and changes no more.
    pub(crate) versions: Vec<u64>,
}

/// The record of a database that is open.
pub(crate) struct Recorder {
    database: PathBuf,
    file: RecordFile,
    record: Record,
    /// The highest number that each journal surely holds.
    journals: BTreeMap<u64, u64>,
    /// The journal that is written to, as far as is known.
    active: u64,
    known: Known,
    known_versions: Vec<u64>,
    synced_at: Instant,
    known_at: Instant,
    is_failing: bool,
}

impl Recorder {
    /// Goes on with the record of a database that was found sound and then opened; `group` is the last that it shows.
    pub(crate) fn new(database: &Path, file: RecordFile, record: Record, found: Found, group: u64) -> Self {
        let journals: BTreeMap<u64, u64> = found
            .journals
            .iter()
            .filter_map(|journal| Some((journal.id, journal.runs.last()?.last_sequence)))
            .collect();
        let (now, active) = (Instant::now(), found.journals.last().map_or(0, |journal| journal.id));
        // A group behind the one that the record names may be in a file of rows only, which does not say its number.
        let known_sequence = (group == record.group).then_some(record.sequence);
        let sequence = journals.values().max().copied().or(known_sequence).unwrap_or(Record::UNKNOWN);
        Self {
            database: database.to_path_buf(),
            file,
            journals,
            active,
            known: found.known,
            known_versions: record.versions.clone(),
            record: Record { group, sequence, ..record },
            synced_at: now,
            known_at: now,
            is_failing: false,
        }
    }

    /// What the next group says of itself.
    pub(crate) fn next_mark(&self) -> Mark {
        Mark { database: self.record.database, group: self.record.group + 1 }
    }

    /// Writes down that the group with the next mark is durable. `tables` lists all files of rows.
    pub(crate) fn committed<T: Iterator<Item = (u64, u64)>>(&mut self, seen: Seen, tables: impl FnOnce() -> T) {
        let written_to = self.active;
        while journal::path(&self.database, self.active + 1).exists() {
            self.active += 1;
        }
        // If the engine went on to another journal meanwhile, nobody knows in which one the group is.
        if self.active == written_to {
            self.journals.insert(written_to, seen.sequence);
        }
        self.record.group += 1;
        self.record.sequence = seen.sequence;
        self.record.written_to = written_to;
        self.write(seen);
        if self.synced_at.elapsed() >= SYNC_EVERY {
            self.synced_at = Instant::now();
            let synced = self.file.sync();
            self.tell(synced);
        }
        if self.known_at.elapsed() >= KNOWN_EVERY && self.known_versions != self.record.versions {
            self.learn(tables());
        }
    }

    /// Writes down, durably, what there is now.
    pub(crate) fn end(&mut self, seen: Seen, tables: impl Iterator<Item = (u64, u64)>) {
        let sequence = self.record.sequence;
        self.write(Seen { sequence, ..seen });
        let synced = self.file.sync();
        self.tell(synced);
        self.learn(tables);
    }

    fn write(&mut self, seen: Seen) {
        self.journals.retain(|_, last| seen.flushed.is_none_or(|flushed| flushed < *last));
        self.record.needed_from = self.journals.keys().next().copied().unwrap_or(Record::NONE_NEEDED);
        self.record.versions.truncate(1);
        self.record.versions.extend(seen.versions);
        let written = self.file.write(&self.record);
        self.tell(written);
    }

    fn learn(&mut self, tables: impl Iterator<Item = (u64, u64)>) {
        self.known_at = Instant::now();
        self.known = self.known.learn(&self.database, tables);
        self.known_versions = self.record.versions.clone();
        let written = self.known.write(&known_path(&self.database));
        self.tell(written);
    }

    /// A record that stays behind weakens the next check, and does no other harm.
    fn tell(&mut self, written: io::Result<()>) {
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
