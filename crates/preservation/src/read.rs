//! Reading what strangers wrote: errors, short files, and digests of files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::bagit::text::Algorithm;

/// Bytes that are read at once, at most and at least.
const PIECE_BYTES: usize = 128 << 10;
const SHORT_PIECE_BYTES: usize = 4 << 10;

/// The least room for a file that is read whole. With less, the standard library tries to read a few
/// bytes first.
const SHORT_ROOM_BYTES: usize = 64;

/// Why something is not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is not what it should be.
    #[error("{name}: {why}")]
    Invalid {
        /// The file.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The caller wants no more of it.
    #[error("it is not read further")]
    Stopped,
    /// A failure of the operating system.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// The result of reading.
pub type ReadResult<T> = Result<T, ReadError>;

pub(crate) fn invalid(name: impl Into<String>, why: impl Into<String>) -> ReadError {
    ReadError::Invalid { name: name.into(), why: why.into() }
}

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> ReadError {
    |source| ReadError::Io { path: path.to_owned(), source }
}

/// The bytes of a file that should be short.
pub(crate) fn read_small(path: &Path, name: &str, max_bytes: u64) -> ReadResult<Vec<u8>> {
    let found = fs::symlink_metadata(path).map_err(failed(path))?;
    if !found.is_file() {
        return Err(invalid(name, "it is not a file"));
    }
    let file = File::open(path).map_err(failed(path))?;
    let bytes = at_most(file, found.len(), max_bytes).map_err(failed(path))?;
    match bytes.len() as u64 > max_bytes {
        true => Err(invalid(name, format!("it has more than {max_bytes} bytes"))),
        false => Ok(bytes),
    }
}

/// The bytes of a file that has about `len_bytes`. Of a longer one than `max_bytes`, one byte more than
/// these. A reader that did not know the length would begin with a few bytes, and read again for each
/// time that its memory is full.
///
/// # Errors
/// What the file fails with.
pub fn at_most(file: impl Read, len_bytes: u64, max_bytes: u64) -> io::Result<Vec<u8>> {
    let room_bytes = usize::try_from(len_bytes.min(max_bytes)).unwrap_or(usize::MAX).saturating_add(1);
    let mut bytes = Vec::with_capacity(room_bytes.max(SHORT_ROOM_BYTES));
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The digest of a file.
///
/// # Errors
/// [`ReadError::Io`]
pub fn digest_of(path: &Path, algorithm: Algorithm) -> ReadResult<Vec<u8>> {
    let mut digest = algorithm.begin();
    let mut file = File::open(path).map_err(failed(path))?;
    let len_bytes = file.metadata().map_err(failed(path))?.len();
    // Most files are short, and need no long piece of memory.
    let piece_bytes = usize::try_from(len_bytes).unwrap_or(PIECE_BYTES).clamp(SHORT_PIECE_BYTES, PIECE_BYTES);
    let mut piece = vec![0; piece_bytes];
    loop {
        match file.read(&mut piece).map_err(failed(path))? {
            0 => return Ok(digest.finalize().to_vec()),
            len => digest.update(&piece[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Bytes, and how often they are read from.
    struct Counted<'a>(&'a [u8], usize);

    impl Read for Counted<'_> {
        fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            self.0.read(piece)
        }
    }

    #[test]
    fn a_file_of_known_length_is_read_at_once_and_its_end_is_seen() {
        for len in [0, 1, 31, 32, 33, 63, 64, 5_000] {
            let content = vec![7_u8; len];
            let mut file = Counted(&content, 0);
            assert_eq!(at_most(&mut file, len as u64, 1 << 20).unwrap(), content);
            // The second read finds the end.
            assert!(file.1 <= 2, "{len} bytes are read in {} pieces", file.1);
        }
    }

    #[test]
    fn a_file_that_is_longer_than_it_said_or_than_allowed_is_noticed() {
        let content = vec![7_u8; 1_000];
        let read = |len_bytes: u64, max_bytes: u64| at_most(&content[..], len_bytes, max_bytes).unwrap().len();
        assert_eq!(read(10, 2_000), 1_000);
        assert_eq!(read(10, 100), 101);
        assert_eq!(read(1_000, 100), 101);
        assert_eq!(read(2_000, u64::MAX), 1_000);
    }
}
