//! What the file `lock` says of the last use of a data folder: whether a copy of the folder can be
//! trusted.
//!
//! ```text
//! penates-use 1
//! place INODE TIME      which file this was: its number, and when it was made
//! open                  a process has the folder open, or died; or
//! closed                no process has it open, and
//! LANE GROUP VERSION…   for each lane: the last group, and the versions of the lists of files
//! ```
//!
//! A program that copies files one by one while a process writes mixes moments. Checks of the
//! databases find most such copies, but not all. So the process says in the file that it has the
//! folder open. After a crash the same file still says so, which is no harm: the files are those
//! that the process left. In a copy it is another file, and the copy is refused. A snapshot of a
//! file system, which has all files as they are at one moment, has the same file.
//!
//! In a copy of a closed folder the lanes have to be as they were when it was closed. So a copy
//! that began before a process opened the folder is recognised too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

use store::{Lane, StoreError};

use crate::opening::record::RecordFile;
use crate::opening::{Found, record_path, versions};
use crate::space::Space;

const FORM: &str = "penates-use 1";

/// How the refusal of a copy of an open folder begins.
pub(crate) const COPY_OF_OPEN: &str = "it is a copy of a data folder that a process had open";

/// How the refusal of a part of a copy begins.
pub(crate) const MIXED_COPY: &str = "it is part of a copy, and is not as it was when the copied store was closed";

/// Whether a data folder was refused because it is a copy with files of different moments. The
/// error says what to do.
pub fn is_refused_copy(error: &StoreError) -> bool {
    let begins = |detail: &str| [COPY_OF_OPEN, MIXED_COPY].iter().any(|begin| detail.starts_with(begin));
    matches!(error, StoreError::Unreadable { detail, .. } if begins(detail))
}

/// The file has this many bytes, so that it is always written as one piece.
const FILE_BYTES: usize = 4 << 10;

/// What was there of a lane when the folder was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneEnd {
    /// The last group.
    group: u64,
    /// The versions of the lists of files, by keyspace.
    versions: Vec<u64>,
}

/// What a folder is, by its last use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastUse {
    /// It is where it was, or nothing is known.
    Here,
    /// It is a copy of a folder that no process had open, with these lanes.
    CopyOfClosed(BTreeMap<String, LaneEnd>),
    /// It is a copy of a folder that a process had open, or that a process left when it died.
    CopyOfOpen,
}

impl LastUse {
    /// Reads the file `lock`.
    pub(crate) fn read(lock: &File) -> io::Result<Self> {
        let mut content = vec![0; FILE_BYTES];
        let mut len = 0;
        while len < content.len() {
            match lock.read_at(&mut content[len..], len as u64)? {
                0 => break,
                read => len += read,
            }
        }
        content.truncate(len);
        let place = place(lock)?;
        Ok(parse(&String::from_utf8_lossy(&content), &place).unwrap_or(Self::Here))
    }

    /// What the lane has to be; `None`: whatever a crash may leave.
    pub(crate) fn lane(&self, lane: Lane) -> Option<&LaneEnd> {
        match self {
            Self::CopyOfClosed(lanes) => lanes.get(lane.name()),
            Self::Here | Self::CopyOfOpen => None,
        }
    }
}

impl LaneEnd {
    /// Whether a database that was found is as it was then.
    pub(crate) fn is(&self, found: &Found) -> bool {
        let versions = found.keyspaces.iter().map(|keyspace| keyspace.list.as_ref().map(|list| list.version));
        let group = found.journals.iter().rev().find_map(|journal| Some(journal.runs.last()?.last));
        group.is_none_or(|group| group <= self.group) && versions.eq(self.versions.iter().copied().map(Some))
    }

    /// What is there of a database that nobody has open.
    fn of(database: &Path, lane: Lane) -> Option<Self> {
        let record = RecordFile::look(&record_path(database)).ok()??;
        let version = |number| versions::version_in_force(&versions::keyspace(database, number)).ok();
        let versions = (0..Space::count(lane)).map(version).collect::<Option<_>>()?;
        Some(Self { group: record.group, versions })
    }
}

/// Writes that this process has the folder open.
pub(crate) fn opened(lock: &File) -> io::Result<()> {
    write(lock, "open\n")
}

/// Writes that no process has the folder open any more. `lanes` names their databases.
pub(crate) fn closed<'a>(lock: &File, lanes: impl Iterator<Item = (Lane, &'a Path)>) -> io::Result<()> {
    let mut text = "closed\n".to_owned();
    for (lane, database) in lanes {
        // A damaged lane is found in a copy as it is here.
        let Some(end) = LaneEnd::of(database, lane) else { continue };
        let numbers = [end.group].into_iter().chain(end.versions).map(|number| number.to_string());
        text.push_str(&format!("{lane} {}\n", numbers.collect::<Vec<_>>().join(" ")));
    }
    write(lock, &text)
}

fn write(lock: &File, text: &str) -> io::Result<()> {
    let mut content = format!("{FORM}\nplace {}\n{text}", place(lock)?).into_bytes();
    content.resize(FILE_BYTES, b'\n');
    lock.write_all_at(&content, 0)
}

/// Which file this is. A copy is another one; a snapshot of the file system has the same.
fn place(lock: &File) -> io::Result<String> {
    let found = lock.metadata()?;
    // Not every file system knows it.
    let made = found.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or_else(|| "-".to_owned(), |made| made.as_nanos().to_string());
    Ok(format!("{} {made}", found.ino()))
}

fn parse(content: &str, here: &str) -> Option<LastUse> {
    let mut lines = content.lines();
    if lines.next()? != FORM || lines.next()?.strip_prefix("place ")? == here {
        return None;
    }
    if lines.next()? != "closed" {
        return Some(LastUse::CopyOfOpen);
    }
    let lane = |line: &str| {
        let (lane, numbers) = line.split_once(' ')?;
        let mut numbers = numbers.split(' ').map(|number| number.parse::<u64>().ok());
        let end = LaneEnd { group: numbers.next()??, versions: numbers.collect::<Option<_>>()? };
        Some((lane.to_owned(), end))
    };
    let lanes = lines.take_while(|line| !line.is_empty()).map(lane).collect::<Option<_>>();
    lanes.map(LastUse::CopyOfClosed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_same_file_is_no_copy_whatever_it_says_and_another_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = crate::private::open_or_create(&path).unwrap();
        let reading = || File::open(&path).unwrap();
        assert_eq!(LastUse::read(&reading()).unwrap(), LastUse::Here, "an empty file says nothing");
        opened(&lock).unwrap();
        assert_eq!(LastUse::read(&reading()).unwrap(), LastUse::Here);
        let copy = folder.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(LastUse::read(&File::open(&copy).unwrap()).unwrap(), LastUse::CopyOfOpen);
        closed(&lock, std::iter::empty()).unwrap();
        assert_eq!(LastUse::read(&reading()).unwrap(), LastUse::Here);
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(LastUse::read(&File::open(&copy).unwrap()).unwrap(), LastUse::CopyOfClosed(BTreeMap::new()));
    }

    #[test]
    fn what_is_said_of_lanes_is_read_back() {
        let text = format!("{FORM}\nplace 1 2\nclosed\ntext 7 0 12 3\n\n\n");
        let end = LaneEnd { group: 7, versions: vec![0, 12, 3] };
        let expected = LastUse::CopyOfClosed(BTreeMap::from([("text".to_owned(), end.clone())]));
        assert_eq!(parse(&text, "1 3"), Some(expected.clone()));
        assert_eq!(expected.lane(Lane::Text), Some(&end));
        assert_eq!(expected.lane(Lane::Records), None);
        assert_eq!(parse(&text, "1 2"), None);
        assert_eq!(parse("another form\n", "1 2"), None);
    }
}
