//! Reading what strangers wrote: errors, short files, and digests of files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::bagit::text::Algorithm;

/// Bytes that are read at once, at most and at least.
const PIECE_BYTES: usize = 128 << 10;
const SHORT_PIECE_BYTES: usize = 4 << 10;

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
    if !fs::symlink_metadata(path).map_err(failed(path))?.is_file() {
        return Err(invalid(name, "it is not a file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed(path))?;
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed(path))?;
    match bytes.len() as u64 > max_bytes {
        true => Err(invalid(name, format!("it has more than {max_bytes} bytes"))),
        false => Ok(bytes),
    }
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
