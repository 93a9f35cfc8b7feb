//! Bytes of binaries, wherever they are read from.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use preservation::bagit::text::Algorithm;
use preservation::dspace::Packed;
use preservation::read::at_most;
use tokio::fs::File;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_util::io::ReaderStream;

use crate::client::{self, Body};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces that are read ahead.
const PIECES_AHEAD: usize = 4;

/// The bytes of a binary.
pub struct Bytes {
    /// Where they are.
    pub source: Source,
    /// SHA-256 or SHA-512; of bytes that are only compared, also MD5 or SHA-1.
    pub algorithm: Algorithm,
    /// Their digest.
    pub digest: Vec<u8>,
}

/// Where bytes are.
pub enum Source {
    /// In a file.
    File(PathBuf),
    /// In a file of a package.
    Packed(Packed),
    /// In memory. They are few, or short.
    Held(bytes::Bytes),
    /// Not here: they are only compared.
    Away,
}

impl From<PathBuf> for Source {
    fn from(place: PathBuf) -> Self {
        Self::File(place)
    }
}

impl Bytes {
    /// The name of the algorithm in headers (RFC 9530, section 5).
    pub fn algorithm_name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Md5 => "md5",
            Algorithm::Sha1 => "sha",
            Algorithm::Sha512 => "sha-512",
            _ => "sha-256",
        }
    }

    /// The value of `Repr-Digest`.
    pub fn repr_digest(&self) -> String {
        format!("{}=:{}:", self.algorithm_name(), BASE64.encode(&self.digest))
    }
}

impl Source {
    /// Reads a file now if it has at most so many bytes. A longer one, or one that cannot be read, is
    /// left until it is sent.
    pub fn hold(&mut self, bytes_max: u64) {
        if let Self::File(place) = self
            && let Ok(Some(bytes)) = short(place, bytes_max)
        {
            *self = Self::Held(bytes.into());
        }
    }

    /// The bytes, as they are read, and their number.
    pub async fn read(&self) -> anyhow::Result<(Body, u64)> {
        match self {
            Self::File(place) => {
                let named = || place.display().to_string();
                let file = File::open(place).await.with_context(named)?;
                let len_bytes = file.metadata().await.with_context(named)?.len();
                let piece_bytes = usize::try_from(len_bytes).unwrap_or(PIECE_BYTES).clamp(1, PIECE_BYTES);
                Ok((client::stream(ReaderStream::with_capacity(file, piece_bytes)), len_bytes))
            }
            Self::Packed(file) => Ok((unpacked(file.clone()), file.len_bytes())),
            Self::Held(bytes) => Ok((client::full(bytes.clone()), bytes.len() as u64)),
            Self::Away => bail!("its bytes are not here"),
        }
    }
}

/// The bytes of a file in a package, unpacked on a thread of its own.
fn unpacked(file: Packed) -> Body {
    let (sender, mut pieces) = mpsc::channel(PIECES_AHEAD);
    spawn_blocking(move || {
        let mut reader = match file.open() {
            Ok(reader) => reader,
            Err(error) => return drop(sender.blocking_send(Err(io::Error::other(error)))),
        };
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = match reader.read(&mut piece) {
                Ok(0) => return,
                Ok(len) => {
                    piece.truncate(len);
                    Ok(bytes::Bytes::from(piece))
                }
                Err(error) => Err(error),
            };
            let is_last = read.is_err();
            // The other side leaves if the request failed.
            if sender.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    client::stream(futures::stream::poll_fn(move |context| pieces.poll_recv(context)))
}

/// The bytes of a file; `None` if it has more than so many.
fn short(place: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = fs::File::open(place)?;
    let len_bytes = file.metadata()?.len();
    if len_bytes > bytes_max {
        return Ok(None);
    }
    let bytes = at_most(file, len_bytes, bytes_max)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::TryStreamExt;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_long_file_is_sent_in_long_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("bytes");
        fs::write(&place, vec![7; 8 * PIECE_BYTES]).unwrap();
        let (body, len_bytes) = Source::File(place).read().await.unwrap();
        let pieces: Vec<_> = body.into_data_stream().try_collect().await.unwrap();
        let sent: usize = pieces.iter().map(bytes::Bytes::len).sum();
        assert_eq!((sent as u64, len_bytes), (8 * PIECE_BYTES as u64, 8 * PIECE_BYTES as u64));
        assert!(pieces.len() <= 16, "each of {} pieces takes a turn on another thread", pieces.len());
    }

    #[test]
    fn short_files_are_held_and_others_are_left_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let held = |name: &str, bytes: &[u8]| {
            let place = folder.path().join(name);
            fs::write(&place, bytes).unwrap();
            let mut source = Source::File(place);
            source.hold(3);
            matches!(&source, Source::Held(kept) if kept[..] == *bytes)
        };
        assert!(held("empty", b"") && held("short", b"abc") && !held("long", b"abcd"));
        let mut missing = Source::File(folder.path().join("missing"));
        missing.hold(3);
        assert!(matches!(missing, Source::File(_)));
    }
}
