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

/// Copies all bytes. `took` learns how many were copied since it was called last.
pub(crate) fn copy(from: &mut impl Read, to: &mut impl Write, took: &mut dyn FnMut(u64)) -> io::Result<Digests> {
    let (mut sha256, mut checksum, mut bytes) = (Sha256::new(), Xxh3::new(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        to.write_all(&buffer[..read])?;
        sha256.update(&buffer[..read]);
        checksum.update(&buffer[..read]);
        bytes += read as u64;
        took(read as u64);
    }
    to.flush()?;
    let checksum = format!("{:032x}", checksum.digest128());
    Ok(Digests { bytes, sha256: hex::encode(sha256.finalize()), checksum })
}
