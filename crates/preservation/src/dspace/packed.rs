//! Files in a ZIP. Nothing that its directory claims is trusted: a file is read to the length that
//! the directory says and no further, and its checksum is compared at the end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use crc32fast::Hasher;
use flate2::bufread::DeflateDecoder;
use zip::CompressionMethod;
use zip::read::Config;
use zip::unstable::read::ZipIterable;

use crate::read::{ReadResult, failed, invalid};

/// The most files of a package.
const FILES_MAX: usize = 100_000;
/// The most bytes of the name of one.
const NAME_BYTES_MAX: usize = 1 << 10;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

const LOCAL_HEADER_SIGNATURE: [u8; 4] = *b"PK\x03\x04";
const LOCAL_HEADER_BYTES: usize = 30;

/// A file in a ZIP, or one that is for itself.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The ZIP, or the file.
    pub(super) archive: Arc<Path>,
    entry: Option<Entry>,
    len_bytes: u64,
}

/// What the directory of a ZIP says about a file.
#[derive(Clone, Copy, Debug)]
struct Entry {
    header_start: u64,
    compressed_bytes: u64,
    crc32: u32,
    method: CompressionMethod,
}

impl Packed {
    /// A file that is for itself.
    pub(super) fn whole(place: &Arc<Path>) -> ReadResult<Self> {
        let len_bytes = std::fs::metadata(place).map_err(failed(place))?.len();
        Ok(Self { archive: place.clone(), entry: None, len_bytes })
    }

    /// How many bytes it has.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Opens it. Reading fails if it has other bytes, or another number of them, than the ZIP says.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) if the ZIP cannot be read, or has another method than
    /// DEFLATE.
    pub fn open(&self) -> ReadResult<Box<dyn Read + Send>> {
        let mut file = File::open(&self.archive).map_err(failed(&self.archive))?;
        let Some(entry) = self.entry else { return Ok(Box::new(file)) };
        skip_local_header(&mut file, entry.header_start).map_err(failed(&self.archive))?;
        let packed = BufReader::with_capacity(BUFFER_BYTES, file.take(entry.compressed_bytes));
        let unpacked: Box<dyn Read + Send> = match entry.method {
            CompressionMethod::Stored => Box::new(packed),
            CompressionMethod::Deflated => Box::new(DeflateDecoder::new(packed)),
            method => return Err(self.wrong(format!("a file has the method {method}, not DEFLATE"))),
        };
        let exact = Exact { reader: unpacked, left_bytes: self.len_bytes, crc32: entry.crc32, hasher: Hasher::new() };
        Ok(Box::new(exact))
    }

    fn wrong(&self, why: impl Into<String>) -> crate::read::ReadError {
        invalid(self.archive.display().to_string(), why)
    }
}

/// Reads exactly so many bytes with this checksum.
struct Exact {
    reader: Box<dyn Read + Send>,
    left_bytes: u64,
    crc32: u32,
    hasher: Hasher,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        if self.left_bytes == 0 {
            return match self.reader.read(&mut [0])? {
                0 if self.hasher.clone().finalize() == self.crc32 => Ok(0),
                0 => Err(wrong("a file has another CRC-32 than the ZIP says")),
                _ => Err(wrong("a file has more bytes than the ZIP says")),
            };
        }
        let wanted = buffer.len().min(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
        match self.reader.read(&mut buffer[..wanted])? {
            0 => Err(wrong("a file has fewer bytes than the ZIP says")),
            len => {
                self.hasher.update(&buffer[..len]);
                self.left_bytes -= len as u64;
                Ok(len)
            }
        }
    }
}

/// The files of a ZIP, by their names. Folders are left out.
///
/// # Errors
/// [`ReadError`](crate::read::ReadError) if it is no ZIP, has too many files, two of one name, or files
/// that share bytes.
pub(super) fn directory(archive: &Arc<Path>) -> ReadResult<HashMap<String, Packed>> {
    let wrong = |why: String| invalid(archive.display().to_string(), why);
    let file = BufReader::with_capacity(BUFFER_BYTES, File::open(archive).map_err(failed(archive))?);
    let unreadable = |error: zip::result::ZipError| wrong(format!("it is no ZIP that can be read: {error}"));
    let mut listed = ZipIterable::try_new(file, Config::default()).map_err(unreadable)?;
    if listed.len() > FILES_MAX {
        return Err(wrong(format!("it has {} files; at most {FILES_MAX} are read", listed.len())));
    }
    let mut files = HashMap::new();
    let mut extents = Vec::new();
    for entry in listed.files().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.name().map_err(unreadable)?.into_owned();
        if name.len() > NAME_BYTES_MAX {
            return Err(wrong(format!("a name of a file has more than {NAME_BYTES_MAX} bytes")));
        }
        if entry.encrypted() {
            return Err(wrong(format!("{name:?} is encrypted")));
        }
        let (start, compressed_bytes) = (entry.header_start(), entry.compressed_size());
        extents.push((start, start.saturating_add(LOCAL_HEADER_BYTES as u64).saturating_add(compressed_bytes)));
        if name.ends_with('/') {
            continue;
        }
        let (crc32, method) = (entry.crc32(), entry.compression());
        let packed = Packed {
            archive: archive.clone(),
            entry: Some(Entry { header_start: start, compressed_bytes, crc32, method }),
            len_bytes: entry.size(),
        };
        if files.insert(name.clone(), packed).is_some() {
            return Err(wrong(format!("it has two files {name:?}")));
        }
    }
    // Files that share bytes make a small ZIP of any size.
    extents.sort_unstable();
    match extents.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        true => Err(wrong("files in it share bytes".to_owned())),
        false => Ok(files),
    }
}

/// Seeks to the bytes of a file, after its local header, whose name and extra field have lengths of
/// their own (APPNOTE 4.3.7).
fn skip_local_header(zip: &mut File, header_start: u64) -> io::Result<()> {
    zip.seek(SeekFrom::Start(header_start))?;
    let mut header = [0; LOCAL_HEADER_BYTES];
    zip.read_exact(&mut header)?;
    if !header.starts_with(&LOCAL_HEADER_SIGNATURE) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a file is not where the directory of the ZIP says"));
    }
    let length_at = |at: usize| i64::from(u16::from_le_bytes([header[at], header[at + 1]]));
    zip.seek(SeekFrom::Current(length_at(26) + length_at(28))).map(drop)
}
