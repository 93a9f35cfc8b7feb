//! Reads the engine's journals without changing them. The engine itself changes them: it truncates
//! a file at the first place that it cannot parse.
//!
//! ```text
//! a group (fjall 3; numbers are little-endian)
//!   1: 1   4: how many items   8: sequence number
//!   each item
//!     1: 2   1: kind   1: compression (0: none)   8: keyspace   2: length of the key
//!     4, 4: length of the value   key   value
//!   1: 3   8: XXH3-64 of the items   4: "FJL" 3
//! ```
//!
//! The first item of each group is its [`Mark`]. A valid group after an invalid place shows that the
//! bytes between were valid once. A group is synced before the next one begins, unless the next one
//! says otherwise in its second item ([`Synced`]). So only the last group may be torn, and of those
//! that were not synced any part may be missing. The engine syncs a journal before it begins another.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rustix::io::Errno;
use xxhash_rust::xxh3::Xxh3;

use super::record::{DatabaseId, Mark, Synced};

const GROUP_BEGIN: u8 = 1;
const ITEM: u8 = 2;
const GROUP_END: u8 = 3;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// Bytes of the beginning of a group.
const BEGIN_BYTES: u64 = 13;

/// Bytes of an item before its key, without the tag.
const ITEM_HEAD_BYTES: usize = 20;

/// The keyspace in which each group writes its mark.
pub(crate) const MARKS_KEYSPACE: u64 = 1;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// The extension of a journal's name.
const EXTENSION: &str = "jnl";

/// Groups that follow one another in a journal without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Their place in the file.
    pub(crate) bytes: Range<u64>,
    /// The number of the first group.
    pub(crate) first: u64,
    /// The number of the last.
    pub(crate) last: u64,
    /// The engine's sequence number of the last.
    pub(crate) last_sequence: u64,
    /// The last group that was certainly synced when one of them was written.
    pub(crate) synced: u64,
}

/// The contents of a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    /// A sound journal has one run that starts at the beginning of the file, or none.
    pub(crate) runs: Vec<Run>,
    /// The place of the first valid group that belongs to another database.
    pub(crate) foreign_at: Option<u64>,
    /// If groups that were not synced were lost in a power failure, the last one that cannot be
    /// among them; otherwise 0.
    pub(crate) lost_after: u64,
}

/// A valid group.
struct Group {
    bytes: Range<u64>,
    sequence: u64,
    mark: Option<Mark>,
    synced: Option<Synced>,
}

/// The journals of a database, oldest first. None of them is read.
pub(crate) fn list(database: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(database)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(id) = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok())
        {
            journals.push((id, path));
        }
    }
    journals.sort_unstable();
    Ok(journals)
}

/// The path of a journal.
pub(crate) fn path(database: &Path, id: u64) -> PathBuf {
    database.join(format!("{id}.{EXTENSION}"))
}

/// Reads a journal of this database.
pub(crate) fn scan(id: u64, path: PathBuf, database: DatabaseId) -> io::Result<Journal> {
    let mut source = Source::open(&path)?;
    let mut journal = Journal { id, path, runs: Vec::new(), foreign_at: None, lost_after: 0 };
    let mut search = None;
    let mut at = 0;
    loop {
        match source.group(at)? {
            Some(group) => {
                at = group.bytes.end;
                journal.add(group, database);
            }
            None => {
                let search = search.get_or_insert_with(|| memmem::Finder::new(&begin_of_marks(database)).into_owned());
                match source.find(at, search)? {
                    Some(next) => at = next,
                    None => return Ok(journal),
                }
            }
        }
    }
}

/// The database of the first group of a journal that has a mark.
pub(crate) fn owner(path: &Path) -> io::Result<Option<DatabaseId>> {
    let group = Source::open(path)?.group(0)?;
    Ok(group.and_then(|group| group.mark).map(|mark| mark.database))
}

/// Where in a journal the groups end that are not behind `last`. Others may be written meanwhile.
pub(crate) fn end_of(path: &Path, last: Mark) -> io::Result<u64> {
    let mut source = Source::open(path)?;
    let mut end = 0;
    while let Some(group) = source.group(end)? {
        if !group.mark.is_some_and(|mark| mark.database == last.database && mark.group <= last.group) {
            break;
        }
        end = group.bytes.end;
    }
    Ok(end)
}

impl Journal {
    fn add(&mut self, group: Group, database: DatabaseId) {
        let Some(mark) = group.mark.filter(|mark| mark.database == database) else {
            self.foreign_at.get_or_insert(group.bytes.start);
            return;
        };
        let synced = group.synced.map_or(mark.group.saturating_sub(1), |synced| synced.0);
        match self.runs.last_mut() {
            // An old group within a value of another: it does not belong to this journal.
            Some(run) if mark.group <= run.last => {}
            Some(run)
                if run.bytes.end == group.bytes.start
                    && run.last + 1 == mark.group
                    && run.last_sequence < group.sequence =>
            {
                run.bytes.end = group.bytes.end;
                run.last = mark.group;
                run.last_sequence = group.sequence;
                run.synced = run.synced.max(synced);
            }
            _ => self.runs.push(Run {
                bytes: group.bytes,
                first: mark.group,
                last: mark.group,
                last_sequence: group.sequence,
                synced,
            }),
        }
    }

    /// Forgets the groups after a place where others are missing, if none of these was synced: the
    /// power failed before they were. `before` is the last group of the journal before this one, or
    /// if there is none, the last one that the record knows to be synced.
    pub(crate) fn forget_unsynced(&mut self, before: u64) {
        let kept = self.runs.first().filter(|run| run.bytes.start == 0);
        let last = kept.map_or(before, |run| run.last);
        let kept = usize::from(kept.is_some());
        let Some(synced) = self.runs[kept..].iter().map(|run| run.synced).max() else { return };
        if synced <= last {
            self.runs.truncate(kept);
            self.lost_after = synced;
        }
    }

    /// Where something is missing within it.
    pub(crate) fn damaged_at(&self) -> Option<u64> {
        match &self.runs[..] {
            [] => None,
            [first, ..] if first.bytes.start > 0 => Some(0),
            [_] => None,
            [first, ..] => Some(first.bytes.end),
        }
    }
}

/// The bytes in a journal with which all marks of a database begin.
fn begin_of_marks(database: DatabaseId) -> Vec<u8> {
    let mut begin = vec![ITEM, 0, 0];
    begin.extend(MARKS_KEYSPACE.to_le_bytes());
    begin.extend((Mark::KEY.len() as u16).to_le_bytes());
    begin.extend([(Mark::BYTES as u32).to_le_bytes(); 2].concat());
    begin.extend(Mark::KEY);
    begin.extend(database.0);
    begin
}

/// A journal that is being read.
struct Source {
    reader: BufReader<File>,
    at: u64,
    len: u64,
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { reader: BufReader::with_capacity(BUFFER_BYTES, file), at: 0, len })
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        let offset = i64::try_from(to).ok().zip(i64::try_from(self.at).ok()).map(|(to, at)| to - at);
        self.reader.seek_relative(offset.ok_or(io::ErrorKind::InvalidInput)?)?;
        self.at = to;
        Ok(())
    }

    fn read<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// The group that begins here; `None`: no valid one does.
    fn group(&mut self, at: u64) -> io::Result<Option<Group>> {
        self.seek(at)?;
        match self.whole_group() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.at = self.reader.seek(SeekFrom::Start(at))?;
                Ok(None)
            }
            group => group,
        }
    }

    fn whole_group(&mut self) -> io::Result<Option<Group>> {
        let start = self.at;
        if self.read::<1>()? != [GROUP_BEGIN] {
            return Ok(None);
        }
        let count = u32::from_le_bytes(self.read()?);
        let sequence = u64::from_le_bytes(self.read()?);
        let mut sum = Xxh3::new();
        let (mut mark, mut synced) = (None, None);
        for number in 0..count {
            if self.read::<1>()? != [ITEM] {
                return Ok(None);
            }
            let head = self.read::<ITEM_HEAD_BYTES>()?;
            sum.update(&[ITEM]);
            sum.update(&head);
            let Some((keyspace, key_len, value_len)) = lengths(&head) else { return Ok(None) };
            if value_len + key_len > self.len.saturating_sub(self.at) {
                return Ok(None);
            }
            let is_mark = number == 0
                && keyspace == MARKS_KEYSPACE
                && (key_len, value_len) == (Mark::KEY.len() as u64, Mark::BYTES as u64);
            if is_mark {
                let key = self.read::<{ Mark::KEY.len() }>()?;
                let value = self.read::<{ Mark::BYTES }>()?;
                sum.update(&key);
                sum.update(&value);
                mark = Mark::decode(&value).filter(|_| key == Mark::KEY);
            } else if number == 1
                && keyspace == MARKS_KEYSPACE
                && (key_len, value_len) == (Synced::KEY.len() as u64, Synced::BYTES as u64)
            {
                let key = self.read::<{ Synced::KEY.len() }>()?;
                let value = self.read::<{ Synced::BYTES }>()?;
                sum.update(&key);
                sum.update(&value);
                synced = (key == Synced::KEY).then(|| Synced::decode(value));
            } else {
                self.digest(key_len + value_len, &mut sum)?;
            }
        }
        if self.read::<1>()? != [GROUP_END] || u64::from_le_bytes(self.read()?) != sum.digest() {
            return Ok(None);
        }
        Ok((self.read()? == TRAILER).then_some(Group { bytes: start..self.at, sequence, mark, synced }))
    }

    /// Adds the next bytes to a checksum.
    fn digest(&mut self, mut left: u64, sum: &mut Xxh3) -> io::Result<()> {
        while left > 0 {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            sum.update(&buffer[..taken]);
            self.reader.consume(taken);
            self.at += taken as u64;
            left -= taken as u64;
        }
        Ok(())
    }

    /// The next place after `at` at which a group may begin.
    fn find(&mut self, at: u64, search: &memmem::Finder<'_>) -> io::Result<Option<u64>> {
        // The search finds the first item, which comes after the beginning of the group.
        let mut from = at + BEGIN_BYTES + 1;
        let needle = search.needle().len();
        let file = self.reader.get_mut();
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + needle);
        let found = loop {
            let Some(data) = next_data(file, from)? else { break None };
            if data > from {
                // A hole holds nothing and ends what was kept.
                buffer.clear();
                from = data;
            }
            let kept = buffer.len();
            file.seek(SeekFrom::Start(from))?;
            let read = file.take(BUFFER_BYTES as u64).read_to_end(&mut buffer)?;
            if read == 0 {
                break None;
            }
            if let Some(found) = search.find(&buffer) {
                break Some(from - kept as u64 + found as u64 - BEGIN_BYTES);
            }
            from += read as u64;
            buffer.drain(..buffer.len().saturating_sub(needle - 1));
        };
        // The reader's buffer does not know the new position.
        self.at = self.reader.seek(SeekFrom::Start(found.unwrap_or(self.len)))?;
        Ok(found)
    }
}

/// Keyspace, length of the key and of the value; `None`: the item is compressed, and ours never
/// are.
fn lengths(head: &[u8; ITEM_HEAD_BYTES]) -> Option<(u64, u64, u64)> {
    let (&[_kind, compression], rest) = head.split_first_chunk::<2>()?;
    let (keyspace, rest) = rest.split_first_chunk::<8>()?;
    let (key, rest) = rest.split_first_chunk::<2>()?;
    let (value, stored) = rest.split_first_chunk::<4>()?;
    let is_plain = compression == 0 && value[..] == *stored;
    is_plain.then(|| {
        let (key, value) = (u16::from_le_bytes(*key), u32::from_le_bytes(*value));
        (u64::from_le_bytes(*keyspace), u64::from(key), u64::from(value))
    })
}

/// The next bytes of a file that are not in a hole: a fresh journal is a hole of 64 MiB.
fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(from)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        // The file system does not support holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(from)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use fjall::{CompressionType, Database, KeyspaceCreateOptions, PersistMode};
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    const OURS: DatabaseId = DatabaseId([7; 16]);

    fn item(keyspace: u64, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut item = vec![ITEM, 0, 0];
        item.extend(keyspace.to_le_bytes());
        item.extend((key.len() as u16).to_le_bytes());
        item.extend([(value.len() as u32).to_le_bytes(); 2].concat());
        item.extend(key);
        item.extend(value);
        item
    }

    fn group(database: DatabaseId, number: u64) -> Vec<u8> {
        group_after(database, number, None)
    }

    /// A group that says what was synced when it was written.
    fn group_after(database: DatabaseId, number: u64, synced: Option<u64>) -> Vec<u8> {
        let mut items = item(MARKS_KEYSPACE, Mark::KEY, &Mark { database, group: number }.encode());
        if let Some(synced) = synced {
            items.extend(item(MARKS_KEYSPACE, Synced::KEY, &Synced(synced).encode()));
        }
        items.extend(item(2, b"key", &vec![number as u8; 300]));
        let mut group = vec![GROUP_BEGIN, 2 + u8::from(synced.is_some()), 0, 0, 0];
        group.extend((number * 10).to_le_bytes());
        group.extend(&items);
        group.push(GROUP_END);
        group.extend(xxh3_64(&items).to_le_bytes());
        group.extend(TRAILER);
        group
    }

    fn groups(numbers: Range<u64>) -> Vec<u8> {
        numbers.flat_map(|number| group(OURS, number)).collect()
    }

    fn scanned(content: &[u8]) -> Journal {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("3.jnl");
        fs::write(&path, content).unwrap();
        assert_eq!(list(folder.path()).unwrap(), [(3, path.clone())]);
        scan(3, path, OURS).unwrap()
    }

    fn numbers(journal: &Journal) -> Vec<(u64, u64)> {
        journal.runs.iter().map(|run| (run.first, run.last)).collect()
    }

    #[test]
    fn a_journal_of_the_engine_is_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::builder(folder.path()).journal_compression(CompressionType::None).open().unwrap();
        let marks = database.keyspace("marks", KeyspaceCreateOptions::default).unwrap();
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
        assert_eq!(marks.id(), MARKS_KEYSPACE);
        for number in 1..=5 {
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            batch.insert(&marks, Mark::KEY, Mark { database: OURS, group: number }.encode());
            batch.insert(&rows, "a key", vec![9; 1000 * number as usize]);
            batch.remove(&rows, "another");
            batch.commit().unwrap();
        }
        let [(_, path)] = &list(folder.path()).unwrap()[..] else { panic!() };
        let journal = scan(0, path.clone(), OURS).unwrap();
        assert_eq!((numbers(&journal), journal.damaged_at(), journal.foreign_at), (vec![(1, 5)], None, None));
        assert_eq!(journal.runs[0].last_sequence + 1, database.seqno());
        assert_eq!(owner(path).unwrap(), Some(OURS));
    }

    #[test]
    fn a_torn_end_is_not_damage() {
        let whole = groups(4..9);
        let torn = group(OURS, 9);
        for cut in 0..torn.len() {
            let journal = scanned(&[&whole[..], &torn[..cut], &[0; 3000]].concat());
            assert_eq!((numbers(&journal), journal.damaged_at()), (vec![(4, 8)], None), "cut at {cut}");
        }
        let journal = scanned(&[0; 5000]);
        assert_eq!((numbers(&journal), journal.damaged_at()), (vec![], None));
    }

    #[test]
    fn a_flipped_bit_in_any_byte_of_a_group_before_others_is_damage() {
        let whole = groups(1..4);
        let len = whole.len() / 3;
        for byte in len..2 * len {
            let mut flipped = whole.clone();
            flipped[byte] ^= 1 << (byte % 8);
            let journal = scanned(&flipped);
            // A sequence number that is still between its neighbours' changes nothing.
            let is_between = (len + 5..len + 13).contains(&byte) && (11..30).contains(&sequence(&flipped, len));
            assert_eq!(is_between, numbers(&journal) == [(1, 3)], "byte {byte}: {journal:?}");
        }
    }

    fn sequence(groups: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(groups[at + 5..at + 13].try_into().unwrap())
    }

    #[test]
    fn a_missing_group_splits_a_journal_and_groups_after_a_large_gap_are_found() {
        let without = [groups(1..3), groups(4..5)].concat();
        assert_eq!(numbers(&scanned(&without)), [(1, 2), (4, 4)]);
        let far = [groups(1..3), vec![0; 2 * BUFFER_BYTES + 17], groups(3..6)].concat();
        let journal = scanned(&far);
        assert_eq!((numbers(&journal), journal.damaged_at()), (vec![(1, 2), (3, 5)], Some(groups(1..3).len() as u64)));
        let begins_late = scanned(&[vec![5; 100], groups(1..3)].concat());
        assert_eq!((numbers(&begins_late), begins_late.damaged_at()), (vec![(1, 2)], Some(0)));
    }

    #[test]
    fn groups_that_were_not_synced_are_forgotten_after_one_that_is_missing() {
        let late = |number, synced| group_after(OURS, number, Some(synced));
        let left = |groups: &[&[u8]], before| {
            let mut journal = scanned(&groups.concat());
            journal.forget_unsynced(before);
            (numbers(&journal), journal.lost_after)
        };
        let hole = &[0; 300][..];
        let begin = &groups(4..7)[..];
        assert_eq!(left(&[begin, hole, &late(8, 6), hole, &late(10, 6)], 0), (vec![(4, 6)], 6));
        assert_eq!(left(&[begin, hole, &late(8, 5), &late(9, 6)], 0), (vec![(4, 6)], 6));
        assert_eq!(left(&[begin, hole, &late(8, 7)], 0).0, [(4, 6), (8, 8)], "group 7 was synced");
        assert_eq!(left(&[begin, hole, &late(8, 6), &groups(9..10)], 0).0, [(4, 6), (8, 9)], "group 8 was synced");
        assert_eq!(left(&[begin, hole, &groups(8..9)], 0).0, [(4, 6), (8, 8)]);
        assert_eq!(left(&[hole, &late(8, 6)], 6), (vec![], 6));
        assert_eq!(left(&[hole, &late(8, 6)], 5).0, [(8, 8)]);
        assert_eq!(left(&[hole, &late(8, 6)], 0).0, [(8, 8)], "nothing shows that the groups up to 6 are there");
        assert_eq!(left(&[begin, &late(7, 6), &late(8, 6)], 0), (vec![(4, 8)], 0));
        assert_eq!(left(&[], 3), (vec![], 0));
    }

    #[test]
    fn groups_of_another_database_and_old_groups_within_a_value_are_ignored() {
        let foreign = scanned(&[groups(1..3), group(DatabaseId([8; 16]), 3)].concat());
        assert_eq!((numbers(&foreign), foreign.foreign_at), (vec![(1, 2)], Some(groups(1..3).len() as u64)));
        // The torn end of a group whose value is a piece of this journal.
        let torn = [groups(5..7), vec![1, 9, 9], groups(1..3)].concat();
        assert_eq!(numbers(&scanned(&torn)), [(5, 6)]);
    }
}
