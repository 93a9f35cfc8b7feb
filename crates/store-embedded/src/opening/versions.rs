//! The files of rows of a keyspace, and the list that names them, in the engine's format.
//!
//! ```text
//! keyspaces/N/current    8: version of the list   16: XXH3-128 of the list   1: 0
//!                        (numbers are little-endian)
//! keyspaces/N/v<n>       the list: an archive (sfa 1) with a section `tables`: levels, runs, and
//!                        for each file of rows
//!                        8: its id   1: 0   16: XXH3-128 of all of it   8: a sequence number
//! keyspaces/N/tables/I   a file of rows, an archive with a section `meta` that is different in
//! each file
//! keyspaces/N/database   ours: the database's id and N, so that a folder of another database is
//!                        recognised
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use super::record::DatabaseId;
use super::{Problem, problem};
use crate::private;

const CURRENT_BYTES: usize = 25;

/// A valid list is not larger: it takes 33 bytes per file of rows.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// The end of an archive: magic 4, version 1, kind of checksum 1, checksum of the table of contents
/// 16, its place 8, its length 8.
const TRAILER_BYTES: u64 = 38;

/// A table of contents is smaller.
const CONTENTS_BYTES_MAX: u64 = 64 << 10;

/// The metadata of a file of rows is smaller: it names a smallest and a largest key.
const META_BYTES_MAX: u64 = 1 << 20;

/// The file that names the database of a keyspace.
const OWNER: &str = "database";

/// The folder of a keyspace.
pub(crate) fn keyspace(database: &Path, keyspace: u64) -> PathBuf {
    keyspaces(database).join(keyspace.to_string())
}

/// The folder of all keyspaces.
pub(crate) fn keyspaces(database: &Path) -> PathBuf {
    database.join("keyspaces")
}

/// The folder of a keyspace's files of rows.
pub(crate) fn tables(keyspace: &Path) -> PathBuf {
    keyspace.join("tables")
}

/// The file that names the list in force.
pub(crate) fn current(keyspace: &Path) -> PathBuf {
    keyspace.join("current")
}

/// A list of a keyspace.
pub(crate) fn list(keyspace: &Path, version: u64) -> PathBuf {
    keyspace.join(format!("v{version}"))
}

/// The file that names the database of a keyspace.
pub(crate) fn owner(keyspace: &Path) -> PathBuf {
    keyspace.join(OWNER)
}

/// The version of the list that `current` names.
pub(crate) fn version_in_force(keyspace: &Path) -> io::Result<u64> {
    let current = fs::read(current(keyspace))?;
    let version = current.first_chunk().filter(|_| current.len() == CURRENT_BYTES);
    version.map(|version| u64::from_le_bytes(*version)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Marks a keyspace as part of a database.
pub(crate) fn write_owner(folder: &Path, database: DatabaseId, keyspace: u64) -> io::Result<()> {
    let mut file = private::create_new(&owner(folder))?;
    file.write_all(owner_line(database, keyspace).as_bytes())?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}

/// The database that a keyspace says it belongs to.
pub(crate) fn read_owner(folder: &Path, keyspace: u64) -> Result<DatabaseId, Problem> {
    let path = owner(folder);
    let line = fs::read_to_string(&path).map_err(|error| Problem::reading(&path, &error))?;
    let id = line.split(' ').next().and_then(|id| u128::from_str_radix(id, 16).ok());
    let id = id.map(|id| DatabaseId(id.to_be_bytes())).filter(|id| owner_line(*id, keyspace) == line);
    id.ok_or_else(|| problem(&path, "does not name a database of Penates and this place in it"))
}

fn owner_line(database: DatabaseId, keyspace: u64) -> String {
    format!("{:032x} {keyspace}\n", u128::from_be_bytes(database.0))
}

/// A file of rows, as the list names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: u64,
    pub(crate) checksum: u128,
    sequence: u64,
}

/// The list of a keyspace's files.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) version: u64,
    /// By level and run.
    levels: Vec<Vec<Vec<Named>>>,
}

impl List {
    /// The list in force.
    pub(crate) fn current(keyspace: &Path) -> Result<Self, Problem> {
        let path = current(keyspace);
        let current = fs::read(&path).map_err(|error| Problem::reading(&path, &error))?;
        let parsed = <&[u8; CURRENT_BYTES]>::try_from(&current[..]).ok().and_then(|current| {
            let (version, rest) = current.split_first_chunk::<8>()?;
            let (checksum, kind) = rest.split_first_chunk::<16>()?;
            (kind == [0]).then_some((u64::from_le_bytes(*version), u128::from_le_bytes(*checksum)))
        });
        let (version, checksum) = parsed.ok_or_else(|| problem(&path, "is damaged"))?;
        Self::read(keyspace, version, Some(checksum))
    }

    /// The newest list that can be read, whichever is in force: for a keyspace that has lost the file
    /// that names it. Also whether there is no newer one.
    pub(crate) fn newest(keyspace: &Path) -> Option<(Self, bool)> {
        let names = fs::read_dir(keyspace).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut versions: Vec<u64> = names.filter_map(|name| name.strip_prefix('v')?.parse().ok()).collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        let newest = versions.first().copied();
        let list = versions.into_iter().find_map(|version| Self::read(keyspace, version, None).ok())?;
        let is_newest = newest == Some(list.version);
        Some((list, is_newest))
    }

    fn read(keyspace: &Path, version: u64, checksum: Option<u128>) -> Result<Self, Problem> {
        let path = list(keyspace, version);
        let read = || -> io::Result<Vec<u8>> {
            let mut content = Vec::new();
            File::open(&path)?.take(LIST_BYTES_MAX).read_to_end(&mut content)?;
            Ok(content)
        };
        let content = read().map_err(|error| Problem::reading(&path, &error))?;
        if checksum.is_some_and(|checksum| checksum != xxh3_128(&content)) {
            return Err(problem(&path, "is not what `current` beside it names"));
        }
        let tables = File::open(&path).ok().and_then(|file| section(&file, b"tables", LIST_BYTES_MAX).ok());
        let levels = tables.and_then(|tables| parse_levels(&tables));
        Ok(Self { version, levels: levels.ok_or_else(|| problem(&path, "is damaged"))? })
    }

    /// All files that it names.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Named> {
        self.runs().flatten()
    }

    /// The files by run, the newest run first. Those of one run are in the order of their keys, which
    /// do not overlap.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Vec<Named>> {
        self.levels.iter().flatten()
    }

    /// The same list without some files.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(u64) -> bool) {
        for level in &mut self.levels {
            level.iter_mut().for_each(|run| run.retain(|table| is_kept(table.id)));
            level.retain(|run| !run.is_empty());
        }
    }

    /// Writes it into a folder as the list in force, in place of the one that the engine has just
    /// made there.
    pub(crate) fn write(&self, keyspace: &Path) -> io::Result<()> {
        // Everything but the files is taken from the engine's own list.
        let made = List::current(keyspace).map_err(|problem| io::Error::other(problem.to_string()))?;
        let made = list(keyspace, made.version);
        let toc = sfa::Reader::new(&made).map_err(io::Error::other)?;
        let mut archive = sfa::Writer::from_writer(io::Cursor::new(Vec::new()));
        for entry in toc.toc().iter() {
            archive.start(entry.name())?;
            if entry.name() == b"tables" {
                archive.write_all(&self.encode_levels())?;
            } else {
                io::copy(&mut entry.reader(&made)?, &mut archive)?;
            }
        }
        let content = archive.into_inner().map_err(io::Error::other)?.into_inner();
        fs::write(list(keyspace, self.version), &content)?;
        let mut in_force = self.version.to_le_bytes().to_vec();
        in_force.extend(xxh3_128(&content).to_le_bytes());
        in_force.push(0);
        fs::write(current(keyspace), in_force)
    }

    fn encode_levels(&self) -> Vec<u8> {
        let mut encoded = vec![self.levels.len() as u8];
        for level in &self.levels {
            encoded.push(level.len() as u8);
            for run in level {
                encoded.extend((run.len() as u32).to_le_bytes());
                for table in run {
                    encoded.extend(table.id.to_le_bytes());
                    encoded.push(0);
                    encoded.extend(table.checksum.to_le_bytes());
                    encoded.extend(table.sequence.to_le_bytes());
                }
            }
        }
        encoded
    }
}

fn parse_levels(mut rest: &[u8]) -> Option<Vec<Vec<Vec<Named>>>> {
    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (taken, behind) = rest.split_first_chunk::<N>()?;
        *rest = behind;
        Some(*taken)
    }
    let mut levels = Vec::new();
    let [level_count] = take(&mut rest)?;
    for _ in 0..level_count {
        let mut level = Vec::new();
        let [run_count] = take(&mut rest)?;
        for _ in 0..run_count {
            let mut run = Vec::new();
            for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
                let id = u64::from_le_bytes(take(&mut rest)?);
                let [0] = take(&mut rest)? else { return None };
                let checksum = u128::from_le_bytes(take(&mut rest)?);
                let sequence = u64::from_le_bytes(take(&mut rest)?);
                run.push(Named { id, checksum, sequence });
            }
            level.push(run);
        }
        levels.push(level);
    }
    rest.is_empty().then_some(levels)
}

/// A section of an archive. Lengths are checked before anything is allocated.
fn section(file: &File, name: &[u8], max: u64) -> io::Result<Vec<u8>> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let len = file.metadata()?.len();
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, len.checked_sub(TRAILER_BYTES).ok_or_else(broken)?)?;
    let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(broken);
    let (at, contents_len) = (number(&trailer[22..])?, number(&trailer[30..])?);
    let ends = at.checked_add(contents_len).and_then(|end| end.checked_add(TRAILER_BYTES));
    if !trailer.starts_with(b"SFA!\x01\0") || contents_len > CONTENTS_BYTES_MAX || ends != Some(len) {
        return Err(broken());
    }
    let mut contents = vec![0; contents_len as usize];
    file.read_exact_at(&mut contents, at)?;
    if xxh3_128(&contents).to_le_bytes() != trailer[6..22] {
        return Err(broken());
    }
    let mut rest = contents.strip_prefix(b"TOC!").and_then(|rest| rest.get(4..)).ok_or_else(broken)?;
    while let Some((entry, behind)) = rest.split_first_chunk::<18>() {
        let name_len = usize::from(u16::from_le_bytes([entry[16], entry[17]]));
        let (found, behind) = behind.split_at_checked(name_len).ok_or_else(broken)?;
        if found == name {
            let (start, bytes) = (number(&entry[..8])?, number(&entry[8..])?);
            if bytes > max.min(len) {
                return Err(broken());
            }
            let mut section = vec![0; bytes as usize];
            file.read_exact_at(&mut section, start)?;
            return Ok(section);
        }
        rest = behind;
    }
    Err(broken())
}

/// Identifies a file of rows without reading all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    len: u64,
    /// XXH3-64 of its metadata: when it was made, its smallest and its largest key, and more.
    meta: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let meta = section(&file, b"meta", META_BYTES_MAX)?;
        Ok(Self { len: file.metadata()?.len(), meta: xxh3_64(&meta) })
    }
}

/// Files of rows that are known by their identity, by keyspace and id: a list beside the database.
/// A file that is not in the list is read whole once and compared with the checksum in the engine's
/// list. Those of the engine's own keyspace are small, and the engine deletes each keyspace whose
/// name it does not find there. So they are never in the list, and are read whole at each start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known(BTreeMap<(u64, u64), Identity>);

/// The engine's own keyspace.
const NAMES_KEYSPACE: u64 = 0;

const KNOWN_MAGIC: [u8; 8] = *b"PNTFIL\0\x01";

impl Known {
    /// Reads the list. A missing or damaged list is empty.
    pub(crate) fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|content| Self::decode(&content)).unwrap_or_default()
    }

    fn decode(content: &[u8]) -> Option<Self> {
        let (rest, sum) = content.split_last_chunk::<8>()?;
        if xxh3_64(rest) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (entries, []) = rest.strip_prefix(&KNOWN_MAGIC)?.as_chunks::<32>() else { return None };
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let entry = |entry: &[u8; 32]| {
            let identity = Identity { len: number(&entry[16..]), meta: number(&entry[24..]) };
            ((number(entry), number(&entry[8..])), identity)
        };
        Some(Self(entries.iter().map(entry).collect()))
    }

    fn encode(&self) -> Vec<u8> {
        let mut content = KNOWN_MAGIC.to_vec();
        for ((keyspace, table), identity) in &self.0 {
            content.extend([*keyspace, *table, identity.len, identity.meta].into_iter().flat_map(u64::to_le_bytes));
        }
        content.extend(xxh3_64(&content).to_le_bytes());
        content
    }

    /// Writes the list, whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let unfinished = path.with_extension("tables-unfinished");
        let mut file = private::create(&unfinished)?;
        file.write_all(&self.encode())?;
        file.sync_all()?;
        fs::rename(unfinished, path)
    }

    /// Records the files that exist now: `tables` names all of them. A file that cannot be read is
    /// left out.
    pub(crate) fn learn(&self, database: &Path, tables: impl Iterator<Item = (u64, u64)>) -> Self {
        let identity = |(space, table): (u64, u64)| {
            let known = self.0.get(&(space, table)).copied();
            let path = || self::tables(&keyspace(database, space)).join(table.to_string());
            Some(((space, table), known.or_else(|| Identity::of(&path()).ok())?))
        };
        Self(tables.filter_map(identity).collect())
    }

    /// Checks that a file is the one that the list names, and adds it, if it is one that can be
    /// known. `true`: the whole file was read for that.
    pub(crate) fn check(&self, checked: &mut Self, folder: &Path, space: u64, named: &Named) -> Result<bool, Problem> {
        let path = tables(folder).join(named.id.to_string());
        let identity = Identity::of(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => problem(&path, "is missing"),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => problem(&path, "is truncated or damaged"),
            _ => Problem::reading(&path, &error),
        })?;
        let may_be_known = space != NAMES_KEYSPACE;
        let known = self.0.get(&(space, named.id)).filter(|_| may_be_known);
        if known.is_some_and(|known| *known != identity) {
            return Err(problem(&path, "is not the file that the list names"));
        }
        if known.is_none() {
            let checksum = checksum(&path).map_err(|error| Problem::reading(&path, &error))?;
            if checksum != named.checksum {
                return Err(problem(&path, "is damaged, or not the file that the list names"));
            }
        }
        if may_be_known {
            checked.0.insert((space, named.id), identity);
        }
        Ok(known.is_none())
    }
}

fn checksum(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut sum = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum.digest128()),
            read => sum.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::Lane;

    use super::*;
    use crate::opening::{inspect, known_path};
    use crate::options::EmbeddedOptions;
    use crate::space::Space;
    use crate::tables::Tables;

    #[test]
    fn what_an_older_program_knew_of_the_engines_own_files_is_not_used_whatever_it_says() {
        let (folder, lane) = (tempfile::tempdir().unwrap(), Lane::Records);
        let (database, options) = (folder.path().join("records"), EmbeddedOptions::default().of_lane(lane));
        Tables::make(&database, lane, &options).unwrap();
        let own = keyspace(&database, NAMES_KEYSPACE);
        let ids: Vec<u64> = List::current(&own).unwrap().tables().map(|named| named.id).collect();
        assert!(!ids.is_empty());
        for wrong in [None, Some(Identity { len: 1, meta: 2 })] {
            let right = |id: u64| Identity::of(&tables(&own).join(id.to_string())).unwrap();
            let entry = |id: &u64| ((NAMES_KEYSPACE, *id), wrong.unwrap_or_else(|| right(*id)));
            let older = Known(ids.iter().map(entry).collect());
            older.write(&known_path(&database)).unwrap();
            assert_eq!(Known::read(&known_path(&database)), older);
            let found = inspect(&database, Space::count(lane));
            assert_eq!(found.problems().next().map(ToString::to_string), None);
            assert!(found.known.0.keys().all(|(space, _)| *space != NAMES_KEYSPACE), "it is not passed on");
        }
        Tables::check(&database, lane, None).unwrap().open(&options).unwrap();
    }
}
