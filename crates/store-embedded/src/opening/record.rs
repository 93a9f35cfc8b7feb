//! The record beside a lane's database: what must exist at the next start.
//!
//! ```text
//! a slot (two in the file, 4 KiB apart, written in turns); numbers are little-endian
//!   8  "PNTREC" 0 1
//!   8  how many slots were written before
//!  16  the database's id
//!   8  the last group that is durable
//!   8  a sequence number of the engine that is not below that group's
//!   8  the journal that was written to when that group began: the group is in it or in a later one
//!   8  the number of keyspaces, and for each
//!   8    the version of its list of files
//!   8    the first journal that it needs: the journal, or an earlier one, has rows of it that were
//!        in no file while its list had that version
//!   8  XXH3-64 of all of this
//! ```
//!
//! A slot is written after each sync of groups, and not synced itself. It survives the death of the
//! process. After a power failure it is behind the database, never ahead of it, because groups are
//! synced before their slot is written. So a database that is behind its record has lost something.
//! Every group carries a [`Mark`] too, so that a journal shows its database and whether groups are
//! missing. One that may be there without those before it says so ([`Synced`]).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::private;

const MAGIC: [u8; 8] = *b"PNTREC\0\x01";

/// The distance of the two slots: they never share a block of the disk.
const SLOT_BYTES: usize = 4 << 10;

/// More keyspaces than any lane has.
const KEYSPACES_MAX: u64 = 64;

/// The id of a database, drawn when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseId(pub(crate) [u8; 16]);

impl DatabaseId {
    /// A new one.
    pub(crate) fn fresh() -> Self {
        Self(rand::random())
    }
}

/// Written by each group to its journal and to the lane's own keyspace: the database and the number
/// of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) database: DatabaseId,
    /// Counts from 1, without a gap.
    pub(crate) group: u64,
}

impl Mark {
    /// The key of its row in the lane's own keyspace.
    pub(crate) const KEY: &'static [u8] = b"mark";

    pub(crate) const BYTES: usize = 24;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut encoded = [0; Self::BYTES];
        encoded[..16].copy_from_slice(&self.database.0);
        encoded[16..].copy_from_slice(&self.group.to_le_bytes());
        encoded
    }

    /// Returns `None` if these bytes are no mark.
    pub(crate) fn decode(encoded: &[u8]) -> Option<Self> {
        let encoded: &[u8; Self::BYTES] = encoded.try_into().ok()?;
        let (database, group) = encoded.split_first_chunk::<16>()?;
        Some(Self { database: DatabaseId(*database), group: u64::from_le_bytes(group.try_into().ok()?) })
    }
}

/// Written by a group that does not wait for its sync, and by one before which groups were not
/// synced: the last group that was synced before it was written. The groups between may be missing
/// after a power failure, although this one is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Synced(pub(crate) u64);

impl Synced {
    /// The key of its row in the lane's own keyspace.
    pub(crate) const KEY: &'static [u8] = b"synced";

    pub(crate) const BYTES: usize = 8;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    pub(crate) fn decode(encoded: [u8; Self::BYTES]) -> Self {
        Self(u64::from_le_bytes(encoded))
    }
}

/// The contents of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) database: DatabaseId,
    /// The last durable group; 0: there was none yet.
    pub(crate) group: u64,
    /// Not below the engine's sequence number of that group, or [`Record::UNKNOWN`].
    pub(crate) sequence: u64,
    /// The journal that was written to when that group began.
    pub(crate) written_to: u64,
    /// By keyspace, from 0: the journal, or an earlier one, has rows of it that were in no file
    /// while its list had the version in `versions`. [`Record::NONE_NEEDED`]: none is known.
    pub(crate) needed_from: Vec<u64>,
    /// By keyspace, from 0.
    pub(crate) versions: Vec<u64>,
}

impl Record {
    pub(crate) const NONE_NEEDED: u64 = u64::MAX;

    pub(crate) const UNKNOWN: u64 = 0;

    fn encode(&self, written: u64) -> Vec<u8> {
        let mut slot = MAGIC.to_vec();
        slot.extend(written.to_le_bytes());
        slot.extend(self.database.0);
        let numbers = [self.group, self.sequence, self.written_to, self.versions.len() as u64];
        let keyspaces = self.versions.iter().zip(&self.needed_from).flat_map(|(version, needed)| [version, needed]);
        slot.extend(numbers.iter().chain(keyspaces).flat_map(|number| number.to_le_bytes()));
        slot.extend(xxh3_64(&slot).to_le_bytes());
        slot
    }

    fn decode(slot: &[u8]) -> Option<(u64, Self)> {
        let mut rest = slot.strip_prefix(&MAGIC)?;
        let mut number = || {
            let (number, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(u64::from_le_bytes(*number))
        };
        let written = number()?;
        let id = [number()?, number()?];
        let [group, sequence, written_to] = [number()?, number()?, number()?];
        let count = number().filter(|count| *count <= KEYSPACES_MAX)?;
        let keyspaces = (0..count).map(|_| Some((number()?, number()?))).collect::<Option<Vec<_>>>()?;
        let (versions, needed_from) = keyspaces.into_iter().unzip();
        let sum = number()?;
        if xxh3_64(&slot[..slot.len() - rest.len() - 8]) != sum {
            return None;
        }
        let mut database = [0; 16];
        database[..8].copy_from_slice(&id[0].to_le_bytes());
        database[8..].copy_from_slice(&id[1].to_le_bytes());
        let database = DatabaseId(database);
        Some((written, Self { database, group, sequence, written_to, needed_from, versions }))
    }
}

/// The file of a lane's record.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: File,
    /// The number of slots written so far.
    written: u64,
}

impl RecordFile {
    /// Makes a record. Its bytes are durable, but not its name.
    pub(crate) fn make(path: &Path, record: &Record) -> io::Result<()> {
        let mut file = Self { file: private::create_new(path)?, written: 0 };
        file.file.set_len(2 * SLOT_BYTES as u64)?;
        file.write(record)?;
        file.write(record)?;
        file.sync()
    }

    /// Reads the newest slot. `Ok(None)`: neither slot is valid.
    pub(crate) fn open(path: &Path) -> io::Result<Option<(Self, Record)>> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(read(&file)?.map(|(last, record)| (Self { file, written: last + 1 }, record)))
    }

    /// Reads only, without write access.
    pub(crate) fn look(path: &Path) -> io::Result<Option<Record>> {
        Ok(read(&File::open(path)?)?.map(|(_, record)| record))
    }

    /// Writes a slot over the older one.
    pub(crate) fn write(&mut self, record: &Record) -> io::Result<()> {
        let at = self.written % 2 * SLOT_BYTES as u64;
        self.file.write_all_at(&record.encode(self.written), at)?;
        self.written += 1;
        Ok(())
    }

    /// Syncs the file.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The newer valid slot, and its number.
fn read(file: &File) -> io::Result<Option<(u64, Record)>> {
    let slots = [read_slot(file, 0)?, read_slot(file, 1)?];
    Ok(slots.into_iter().flatten().max_by_key(|(written, _)| *written))
}

fn read_slot(file: &File, slot: u64) -> io::Result<Option<(u64, Record)>> {
    let mut bytes = [0; SLOT_BYTES];
    let mut len = 0;
    while len < SLOT_BYTES {
        match file.read_at(&mut bytes[len..], slot * SLOT_BYTES as u64 + len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    Ok(Record::decode(&bytes[..len]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(group: u64) -> Record {
        Record {
            database: DatabaseId(*b"a database of us"),
            group,
            sequence: 7,
            written_to: 3,
            needed_from: vec![Record::NONE_NEEDED, 2, 3],
            versions: vec![1, 258, 4],
        }
    }

    #[test]
    fn the_bytes_of_a_slot_do_not_change() {
        let mut expected = b"PNTREC\0\x01".to_vec();
        expected.extend([5, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend(b"a database of us");
        expected.extend([9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0xFF; 8]);
        expected.extend([2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        let sum = xxh3_64(&expected);
        expected.extend(sum.to_le_bytes());
        assert_eq!(record(9).encode(5), expected);
        assert_eq!(Record::decode(&expected), Some((5, record(9))));
    }

    #[test]
    fn the_bytes_of_a_mark_do_not_change() {
        let mark = Mark { database: DatabaseId(*b"a database of us"), group: 0x0102 };
        let mut expected = b"a database of us".to_vec();
        expected.extend([2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(mark.encode()[..], expected);
        assert_eq!(Mark::decode(&expected), Some(mark));
        assert_eq!(Mark::decode(&expected[1..]), None);
    }

    #[test]
    fn the_newest_slot_counts_or_the_one_before_it_if_it_is_torn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        RecordFile::make(&path, &record(0)).unwrap();
        let (mut file, found) = RecordFile::open(&path).unwrap().unwrap();
        assert_eq!(found, record(0));
        for group in 1..=5 {
            file.write(&record(group)).unwrap();
            assert_eq!(RecordFile::look(&path).unwrap().unwrap(), record(group));
        }
        // Slots are written in turns: the last but one is in the other half.
        let newest = (file.written - 1) % 2 * SLOT_BYTES as u64;
        file.file.write_all_at(&[0; 40], newest + 8).unwrap();
        assert_eq!(RecordFile::look(&path).unwrap().unwrap(), record(4));
        let (mut file, _) = RecordFile::open(&path).unwrap().unwrap();
        file.write(&record(6)).unwrap();
        assert_eq!(RecordFile::look(&path).unwrap().unwrap(), record(6));
        file.file.write_all_at(&[0; 40], 8).unwrap();
        file.file.write_all_at(&[0; 40], SLOT_BYTES as u64 + 8).unwrap();
        assert_eq!(RecordFile::look(&path).unwrap(), None);
    }

    #[test]
    fn every_flipped_bit_of_a_slot_is_detected() {
        let slot = record(9).encode(5);
        for bit in 0..slot.len() * 8 {
            let mut flipped = slot.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&flipped), None, "bit {bit}");
        }
    }
}
