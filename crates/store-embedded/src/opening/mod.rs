//! Checks before the engine opens a lane's database. The engine deletes data when files are
//! missing: it takes a keyspace without the name of its list for one that was never finished, and
//! everything after a broken place of a journal for a torn end. So this module first looks for all
//! files that should exist. If one is missing, foreign, truncated or older than the rest, nothing
//! is opened.
//!
//! Three sources say what should exist: the record beside the database (`record.rs`), the marks of
//! each group in the journal (`journal.rs`), and the engine's own lists of files of rows
//! (`versions.rs`). Every checked condition holds at *every* moment at which the process may die:
//!
//! - Journals have ids without a gap. The engine deletes the oldest journal once all its rows are
//!   in files. Groups are numbered without a gap across journals, and sequence numbers rise. The
//!   last group may be torn if the record does not name it. Any part may be missing of groups that
//!   were not synced, which are in the newest journal.
//! - The engine deletes a journal only after *all* its rows are in files of rows, whatever their
//!   keyspace. When rows are written to a file, their keyspace gets a new list. So as long as the
//!   list of *one* keyspace is the one that the record saw, the journals exist that it needed. That
//!   holds although the engine may delete a journal before the record is written again: then no
//!   list of a keyspace that needed the journal is the one that the record saw.
//! - The version of a list only rises.

pub(crate) mod engine_lock;
pub(crate) mod journal;
pub(crate) mod record;
pub(crate) mod versions;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use journal::Journal;
use record::{DatabaseId, Record, RecordFile};
use versions::{Known, List};

/// A violated condition.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) path: PathBuf,
    pub(crate) what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.what)
    }
}

impl Problem {
    fn reading(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => problem(path, "is missing"),
            io::ErrorKind::InvalidData => problem(path, "is damaged"),
            _ => problem(path, &format!("cannot be read: {error}")),
        }
    }
}

fn problem(path: &Path, what: &str) -> Problem {
    Problem { path: path.to_path_buf(), what: what.to_owned() }
}

/// The findings about a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    /// The list in force; if nothing names it, the newest one.
    pub(crate) list: Option<List>,
    /// Files of rows that are missing, or are not the ones that the list names.
    pub(crate) unsound: Vec<u64>,
    /// Whether the list certainly names all files of rows that there were.
    pub(crate) names_all: bool,
    /// What is wrong with it.
    pub(crate) problems: Vec<Problem>,
    /// Whether it belongs to another database.
    pub(crate) is_foreign: bool,
}

/// The findings about a database.
#[derive(Debug)]
pub(crate) struct Found {
    /// By number.
    pub(crate) keyspaces: Vec<Keyspace>,
    /// The readable ones, oldest first.
    pub(crate) journals: Vec<Journal>,
    /// Files of rows that are correct.
    pub(crate) known: Known,
    /// What is wrong with the record and the journals: any writes may be missing, the last ones too.
    pub(crate) last: Vec<Problem>,
    /// Other problems: the engine's files that hold no rows.
    pub(crate) others: Vec<Problem>,
}

impl Found {
    /// All problems.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &Problem> {
        let of_keyspaces = self.keyspaces.iter().flat_map(|keyspace| &keyspace.problems);
        self.others.iter().chain(of_keyspaces).chain(&self.last)
    }
}

/// The path of the record of a database.
pub(crate) fn record_path(database: &Path) -> PathBuf {
    database.with_extension("record")
}

/// The path of the list of its known files of rows.
pub(crate) fn known_path(database: &Path) -> PathBuf {
    database.with_extension("tables")
}

/// Checks a database of `keyspaces` keyspaces that nobody has open. Changes nothing.
pub(crate) fn inspect(database: &Path, keyspaces: u64) -> Found {
    let (mut others, mut last) = (Vec::new(), Vec::new());
    let record = match RecordFile::look(&record_path(database)) {
        Ok(Some(record)) if record.versions.len() as u64 == keyspaces => Some(record),
        Ok(_) => {
            last.push(problem(&record_path(database), "is damaged"));
            None
        }
        Err(error) => {
            last.push(Problem::reading(&record_path(database), &error));
            None
        }
    };
    check_small_files(database, &mut others);
    check_strangers(database, keyspaces, &mut others);
    let owner = record.as_ref().map(|record| record.database).or_else(|| owner_without_record(database, keyspaces));
    let (keyspaces, known) = check_keyspaces(database, keyspaces, owner, record.as_ref());
    let known_group = record.as_ref().map_or(0, |record| record.group);
    let journals = owner.map_or_else(Vec::new, |owner| check_journals(database, owner, known_group, &mut last));
    if let Some(record) = &record {
        check_end(database, record, needed_from(record, &keyspaces), &journals, &mut last);
    }
    Found { keyspaces, journals, known, last, others }
}

/// Truncates a last group that was torn when the process died or the power failed, and groups that
/// follow others that were lost before they were synced. They were not reported as durable. A
/// power failure may leave a hole in them, which the engine would take for damage.
pub(crate) fn cut_torn_end(found: &Found) -> io::Result<()> {
    let Some(newest) = found.journals.last() else { return Ok(()) };
    let end = newest.runs.last().map_or(0, |run| run.bytes.end);
    let file = File::options().write(true).open(&newest.path)?;
    if file.metadata()?.len() > end {
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok(())
}

/// The owner of a database that has lost its record: the one that most of its files name.
fn owner_without_record(database: &Path, keyspaces: u64) -> Option<DatabaseId> {
    let of_keyspaces = (0..keyspaces).filter_map(|id| versions::read_owner(&versions::keyspace(database, id), id).ok());
    let of_journals = journal::list(database).unwrap_or_default().into_iter();
    let of_journals = of_journals.filter_map(|(_, path)| journal::owner(&path).ok().flatten());
    let owners: Vec<_> = of_keyspaces.chain(of_journals).collect();
    owners.iter().copied().max_by_key(|owner| owners.iter().filter(|other| *other == owner).count())
}

/// Checks the files that the engine makes once.
fn check_small_files(database: &Path, problems: &mut Vec<Problem>) {
    let version = database.join("version");
    match fs::read(&version) {
        Ok(content) if content == b"FJL\x03" => {}
        Ok(_) => problems.push(problem(&version, "is damaged")),
        Err(error) => problems.push(Problem::reading(&version, &error)),
    }
    let lock = database.join("lock");
    if let Err(error) = fs::metadata(&lock) {
        problems.push(Problem::reading(&lock, &error));
    }
}

/// Checks for folders that the engine would delete because no list names them.
fn check_strangers(database: &Path, keyspaces: u64, problems: &mut Vec<Problem>) {
    // A missing folder is reported for each keyspace.
    let Ok(entries) = fs::read_dir(versions::keyspaces(database)) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()) {
        let id = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u64>().ok());
        if id.is_none_or(|id| id >= keyspaces) {
            problems.push(problem(&path, "does not belong there"));
        }
    }
}

fn check_keyspaces(
    database: &Path,
    count: u64,
    owner: Option<DatabaseId>,
    record: Option<&Record>,
) -> (Vec<Keyspace>, Known) {
    let known = Known::read(&known_path(database));
    let mut checked = Known::default();
    let mut read_whole = 0;
    let keyspaces = (0..count).map(|id| {
        let folder = versions::keyspace(database, id);
        let mut keyspace = Keyspace::default();
        if !folder.is_dir() {
            keyspace.problems.push(problem(&folder, "is missing"));
            return keyspace;
        }
        match versions::read_owner(&folder, id) {
            Ok(found) if Some(found) == owner => {}
            Ok(_) => {
                keyspace.problems.push(problem(&folder, "is of another database"));
                keyspace.is_foreign = true;
            }
            Err(problem) => keyspace.problems.push(problem),
        }
        keyspace.list = match List::current(&folder) {
            Ok(list) => {
                keyspace.names_all = record.is_none_or(|record| list.version >= record.versions[id as usize]);
                if !keyspace.names_all {
                    keyspace.problems.push(problem(&folder, "is older than the rest of the database"));
                }
                Some(list)
            }
            Err(problem) => {
                keyspace.problems.push(problem);
                let newest = List::newest(&folder);
                // If only the file is lost that names the list, the newest list was in force, or has
                // the same rows.
                keyspace.names_all = newest.as_ref().is_some_and(|(list, is_newest)| {
                    let is_current = record.is_some_and(|record| list.version >= record.versions[id as usize]);
                    *is_newest && is_current && versions::version_in_force(&folder).is_err()
                });
                newest.map(|(list, _)| list)
            }
        };
        for table in keyspace.list.iter().flat_map(List::tables) {
            match known.check(&mut checked, &folder, id, table) {
                Ok(is_read) => read_whole += u64::from(is_read),
                Err(problem) => {
                    keyspace.unsound.push(table.id);
                    keyspace.problems.push(problem);
                }
            }
        }
        keyspace
    });
    let keyspaces = keyspaces.collect();
    if read_whole > 0 {
        tracing::debug!(database = %database.display(), files = read_whole, "read these files of rows whole: they are sound");
    }
    (keyspaces, checked)
}

fn check_journals(database: &Path, owner: DatabaseId, known_group: u64, problems: &mut Vec<Problem>) -> Vec<Journal> {
    let listed = match journal::list(database) {
        Ok(listed) => listed,
        Err(error) => {
            problems.push(Problem::reading(database, &error));
            return Vec::new();
        }
    };
    for pair in listed.windows(2) {
        if pair[0].0 + 1 != pair[1].0 {
            problems.push(problem(&journal::path(database, pair[0].0 + 1), "is missing"));
        }
    }
    let mut journals: Vec<Journal> = Vec::new();
    let newest = listed.last().map(|(id, _)| *id);
    for (id, path) in listed {
        let mut journal = match journal::scan(id, path.clone(), owner) {
            Ok(journal) => journal,
            Err(error) => {
                problems.push(Problem::reading(&path, &error));
                continue;
            }
        };
        let before = journals.iter().rev().find_map(|journal| journal.runs.last());
        if newest == Some(id) {
            journal.forget_unsynced(before.map_or(known_group, |run| run.last));
        }
        if let Some(at) = journal.foreign_at {
            problems.push(problem(&path, &format!("holds a group of another database at byte {at}")));
        }
        if let Some(at) = journal.damaged_at() {
            problems.push(problem(&path, &format!("is damaged at byte {at}, and there are valid groups after that")));
        }
        if let (Some(before), Some(first)) = (before, journal.runs.first())
            && (before.last + 1 != first.first || before.last_sequence >= first.last_sequence)
        {
            let what =
                format!("begins with group {}, although the journal before it ends with {}", first.first, before.last);
            problems.push(problem(&path, &what));
        }
        journals.push(journal);
    }
    journals
}

/// The first journal that is certainly needed; [`Record::NONE_NEEDED`]: none is known.
fn needed_from(record: &Record, keyspaces: &[Keyspace]) -> u64 {
    let versions = keyspaces.iter().map(|keyspace| keyspace.list.as_ref().map(|list| list.version));
    let seen = record.versions.iter().zip(&record.needed_from);
    let needed = versions.zip(seen).filter(|(now, (seen, _))| *now == Some(**seen)).map(|(_, (_, needed))| *needed);
    needed.min().unwrap_or(Record::NONE_NEEDED)
}

/// Checks whether what the record saw last exists, with the journals from `needed_from` on.
fn check_end(database: &Path, record: &Record, needed_from: u64, journals: &[Journal], problems: &mut Vec<Problem>) {
    let (Some(oldest), Some(newest)) = (journals.first(), journals.last()) else {
        problems.push(problem(&journal::path(database, record.written_to), "is missing, as are all journals"));
        return;
    };
    if newest.id < record.written_to {
        problems.push(problem(&journal::path(database, record.written_to), "is missing"));
        return;
    }
    if oldest.id > needed_from {
        problems.push(problem(&journal::path(database, needed_from), "is missing"));
        return;
    }
    match journals.iter().rev().find_map(|journal| Some((journal, journal.runs.last()?))) {
        Some((journal, last)) if last.last < record.group => {
            let what = format!("ends with group {}, although group {} was written", last.last, record.group);
            problems.push(problem(&journal.path, &what));
        }
        Some((journal, last))
            if last.last == record.group
                && record.sequence != Record::UNKNOWN
                && last.last_sequence > record.sequence =>
        {
            problems.push(problem(&journal.path, "is damaged in its last group"));
        }
        Some(_) => {}
        // A journal that was written to at the last group, or that is needed, held groups.
        None if record.group > 0 && (oldest.id <= record.written_to || newest.id >= needed_from) => {
            let what = format!("holds nothing, although group {} was written", record.group);
            problems.push(problem(&newest.path, &what));
        }
        None => {}
    }
}
