//! Follows logs: finds marks in the lines that are added to a file.

use std::path::PathBuf;

use super::growing::Growing;
use super::marks::{self, Pattern};

/// The most bytes that are read at once, and of a file that grows faster than it is read.
const PIECE_BYTES_MAX: u64 = 4 << 20;
/// The most bytes of a line: what follows in it is not looked at.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A log that is followed from its end at the beginning on.
#[derive(Debug)]
pub struct Follower {
    file: Growing,
    patterns: Vec<Pattern>,
    /// The beginning of a line that has no end yet.
    rest: Vec<u8>,
}

impl Follower {
    /// Follows the log of a Cassandra node: its flushes, compactions and collections of garbage.
    /// The file may not be there yet.
    ///
    /// # Errors
    /// Why the patterns of its lines cannot be used.
    pub fn of_cassandra(path: PathBuf) -> Result<Self, String> {
        Ok(Self::new(path, marks::of_cassandra()?))
    }

    /// Follows a file, which may not be there yet.
    pub(crate) fn new(path: PathBuf, patterns: Vec<Pattern>) -> Self {
        Self { file: Growing::new(path), patterns, rest: Vec::new() }
    }

    /// Bytes that were not read, because too many were added at once.
    pub fn skipped_bytes(&self) -> u64 {
        self.file.skipped_bytes
    }

    /// The marks in the lines that were added since the last call.
    pub fn read(&mut self) -> Vec<String> {
        // A file that is not there, or not now, has no lines.
        let added = self.file.read(PIECE_BYTES_MAX).unwrap_or_default();
        let mut marks = Vec::new();
        for piece in added {
            if !piece.follows {
                self.rest.clear();
            }
            for line in piece.bytes.split_inclusive(|byte| *byte == b'\n') {
                let room = LINE_BYTES_MAX.saturating_sub(self.rest.len());
                self.rest.extend_from_slice(&line[..line.len().min(room)]);
                if line.ends_with(b"\n") {
                    let whole = String::from_utf8_lossy(&self.rest);
                    marks.extend(self.patterns.iter().find_map(|pattern| pattern.find(whole.trim_end())));
                    self.rest.clear();
                }
            }
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::*;
    use crate::beside::MarkSpec;

    fn follower(path: &std::path::Path) -> Follower {
        let spec = MarkSpec {
            log: Some("flush (\\d+)$".to_owned()),
            what: Some("flush $1".to_owned()),
            ..MarkSpec::default()
        };
        Follower::new(path.to_owned(), spec.of_log().unwrap().unwrap().patterns)
    }

    fn add(path: &std::path::Path, bytes: &[u8]) {
        std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn only_whole_lines_that_are_added_are_looked_at_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut of_none = follower(&path);
        assert!(of_none.read().is_empty());
        add(&path, b"flush 1\n");
        assert_eq!(of_none.read(), ["flush 1"]);
        let mut of_end = follower(&path);
        add(&path, b"flush 2\r\nother\nflush ");
        assert_eq!(of_end.read(), ["flush 2"]);
        add(&path, b"34\n\xff\xfe flush 4\n");
        assert_eq!(of_end.read(), ["flush 34", "flush 4"]);
        assert!(of_end.read().is_empty());
    }

    #[test]
    fn the_log_of_a_node_of_cassandra_has_its_flushes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("system.log");
        let mut follower = Follower::of_cassandra(path.clone()).unwrap();
        add(
            &path,
            b"INFO ColumnFamilyStore - Enqueuing flush of k.records, Reason: MEMTABLE_LIMIT, Usage: 1MiB\nother\n",
        );
        assert_eq!(follower.read(), ["flush of k.records (MEMTABLE_LIMIT)"]);
    }

    #[test]
    fn a_rotated_log_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        add(&path, b"a long line before\n");
        let mut follower = follower(&path);
        std::fs::write(&path, b"flush 1\n").unwrap();
        assert_eq!(follower.read(), ["flush 1"]);
    }

    #[test]
    fn a_line_without_end_and_a_flood_need_no_memory_and_what_was_skipped_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut follower = follower(&path);
        add(&path, &vec![b'x'; 3 << 20]);
        assert!(follower.read().is_empty());
        assert!(follower.rest.len() <= LINE_BYTES_MAX);
        add(&path, &vec![b'\n'; 9 << 20]);
        add(&path, b"flush 7\n");
        assert_eq!(follower.read(), ["flush 7"]);
        assert_eq!(follower.skipped_bytes(), (5 << 20) + 8);
    }
}
