//! Copies bytes and computes their digests on the way.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// The digests of some bytes, in hexadecimal digits.
#[derive(Debug)]
pub(crate) struct Digests {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// XXH3-128.
    pub(crate) checksum: String,
}

/// Which side of a copy failed.
#[derive(Debug)]
pub(crate) enum CopyError {
    Reading(io::Error),
    Writing(io::Error),
}

/// Computes the digests of all bytes. `took` learns how many were read since it was called last.
pub(crate) fn of(from: &mut impl Read, took: &mut dyn FnMut(u64)) -> io::Result<Digests> {
    copy(from, &mut io::sink(), took).map_err(|error| match error {
        CopyError::Reading(error) | CopyError::Writing(error) => error,
    })
}

/// Copies all bytes. `took` learns how many were copied since it was called last.
pub(crate) fn copy(from: &mut impl Read, to: &mut impl Write, took: &mut dyn FnMut(u64)) -> Result<Digests, CopyError> {
    let (mut sha256, mut checksum, mut bytes) = (Sha256::new(), Xxh3::new(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(CopyError::Reading)?,
        };
        if read == 0 {
            break;
        }
        to.write_all(&buffer[..read]).map_err(CopyError::Writing)?;
        sha256.update(&buffer[..read]);
        checksum.update(&buffer[..read]);
        bytes += read as u64;
        took(read as u64);
    }
    to.flush().map_err(CopyError::Writing)?;
    let checksum = format!("{:032x}", checksum.digest128());
    Ok(Digests { bytes, sha256: hex::encode(sha256.finalize()), checksum })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;

    use super::{CopyError, copy};

    #[test]
    fn the_side_that_failed_is_known() {
        let (full, unreadable) = (File::options().write(true).open("/dev/full"), File::open("/proc/self/mem"));
        let written = copy(&mut &b"bytes"[..], &mut full.unwrap(), &mut |_| ());
        assert!(matches!(written, Err(CopyError::Writing(_))), "{written:?}");
        let read = copy(&mut unreadable.unwrap(), &mut Vec::new(), &mut |_| ());
        assert!(matches!(read, Err(CopyError::Reading(_))), "{read:?}");
    }
}
