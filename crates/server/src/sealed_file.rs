//! Small files of the data folder that a server writes for its next start. What is damaged counts as
//! absent.
//!
//! ```text
//!   8  what the file is
//!  32  SHA-256 of the rest
//!      the rest
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// What a file is: its kind and the version of its content.
pub(crate) type Magic = [u8; 8];

const SUM_BYTES: usize = 32;

/// A file that is not as it was written.
pub(crate) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file is damaged")
}

/// Writes a file, whole or not at all.
pub(crate) fn write(path: &Path, magic: Magic, content: &[u8]) -> io::Result<()> {
    let unfinished = path.with_added_extension("unfinished");
    let mut file = File::create(&unfinished)?;
    file.write_all(&magic)?;
    file.write_all(&Sha256::digest(content))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    // Otherwise the earlier file may be back after a power failure.
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads the content of a file of at most so many bytes.
pub(crate) fn read(path: &Path, magic: Magic, bytes_max: u64) -> io::Result<Bytes> {
    let about = fs::metadata(path)?;
    if !about.is_file() || about.len() > bytes_max {
        return Err(damaged());
    }
    let file = Bytes::from(fs::read(path)?);
    let (found, rest) = file.split_first_chunk::<{ size_of::<Magic>() }>().ok_or_else(damaged)?;
    let (sum, content) = rest.split_first_chunk::<SUM_BYTES>().ok_or_else(damaged)?;
    if *found != magic || Sha256::digest(content)[..] != sum[..] {
        return Err(damaged());
    }
    Ok(file.slice_ref(content))
}
