//! A volume's ZIP as a set of named texts, read within limits.
//!
//! The zip crate reads the central directory, through its iterating reader. That reader reports the
//! number of entries before it reads one, and shows every entry of a repeated name. The indexing
//! reader first builds an index of all entries and keeps the last of a name. This module inflates
//! texts, with one inflater for all pages, and counts the bytes of the stream.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read, Seek, SeekFrom};

use flate2::{Decompress, FlushDecompress, Status};
use zip::CompressionMethod;
use zip::read::Config;
use zip::unstable::read::ZipIterable;

use crate::buffered::Buffered;
use crate::{MetsPage, VolumeError};

/// The largest page text, in bytes.
pub const MAX_PAGE_BYTES: u64 = 16 * 1024 * 1024;
/// A page may be at most this many times larger than its DEFLATE stream, if it is larger than
/// [`RATIO_FREE_BYTES`].
pub const MAX_RATIO: u64 = 200;
/// Up to this size in bytes a page may have any ratio.
pub const RATIO_FREE_BYTES: u64 = 1024 * 1024;
/// Up to this size in bytes the pages of a volume together may have any ratio. Beyond it they may
/// be [`MAX_RATIO`] times as large as the ZIP: several pages may be of one file, and entries of a
/// ZIP may overlap, so a small ZIP could otherwise become any number of large pages.
pub const VOLUME_FREE_BYTES: u64 = 64 * 1024 * 1024;
/// The most entries that a ZIP may have.
pub const MAX_ENTRIES: usize = 100_000;
/// The most bytes of the names of all files together, without their folders. They are held in
/// memory.
pub const MAX_NAMES_BYTES: usize = 8 * 1024 * 1024;
/// A page's compressed bytes may be more than [`MAX_PAGE_BYTES`] by this: far more than stored
/// blocks need.
const COMPRESSED_SLACK_BYTES: u64 = 64 * 1024;

const LOCAL_HEADER_SIGNATURE: [u8; 4] = *b"PK\x03\x04";
const LOCAL_HEADER_LEN: usize = 30;

/// A ZIP whose entries' names were checked.
#[derive(Debug)]
pub(crate) struct Archive<R> {
    zip: Buffered<R>,
    len_bytes: u64,
    /// By the last part of the entry's name.
    files: HashMap<String, ArchiveFile>,
    inflater: Decompress,
    compressed: Vec<u8>,
}

/// The claims of the central directory about a file. They must be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchiveFile {
    pub(crate) size: u64,
    pub(crate) crc32: u32,
    compressed_size: u64,
    header_start: u64,
    method: CompressionMethod,
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the central directory. One that announces too many entries is refused before it is
    /// read.
    pub(crate) fn open(zip: R) -> Result<Self, VolumeError> {
        let mut zip = Buffered::new(zip).map_err(VolumeError::zip_io)?;
        let len_bytes = zip.seek(SeekFrom::End(0)).map_err(VolumeError::zip_io)?;
        let mut directory = ZipIterable::try_new(&mut zip, Config::default()).map_err(VolumeError::zip)?;
        if directory.len() > MAX_ENTRIES {
            return Err(VolumeError::TooManyEntries(directory.len()));
        }
        let mut files = HashMap::with_capacity(directory.len());
        let mut names_bytes = 0;
        for entry in directory.files().map_err(VolumeError::zip)? {
            let entry = entry.map_err(VolumeError::zip)?;
            let name = entry.name().map_err(VolumeError::zip)?.into_owned();
            if leads_elsewhere(&name) {
                return Err(VolumeError::ZipSlip(name));
            }
            if entry.encrypted() {
                return Err(VolumeError::Encrypted(name));
            }
            let file = ArchiveFile {
                size: entry.size(),
                crc32: entry.crc32(),
                compressed_size: entry.compressed_size(),
                header_start: entry.header_start(),
                method: entry.compression(),
            };
            let Some(file_name) = name.rsplit('/').next().filter(|file_name| !file_name.is_empty()) else {
                continue; // a folder
            };
            names_bytes += file_name.len();
            if names_bytes > MAX_NAMES_BYTES {
                return Err(VolumeError::LongNames);
            }
            match files.entry(file_name.to_owned()) {
                Entry::Vacant(place) => _ = place.insert(file),
                Entry::Occupied(_) => return Err(VolumeError::DuplicateName(file_name.to_owned())),
            }
        }
        Ok(Self { zip, len_bytes, files, inflater: Decompress::new(false), compressed: Vec::new() })
    }

    /// The file of this name at the archive's root or in any folder.
    pub(crate) fn file(&self, file_name: &str) -> Option<ArchiveFile> {
        self.files.get(file_name).copied()
    }

    /// Refuses pages that are too large together, by the sizes that METS states.
    pub(crate) fn check_expansion(&self, pages: &[MetsPage]) -> Result<(), VolumeError> {
        let bytes = pages.iter().fold(0_u64, |sum, page| sum.saturating_add(page.size));
        if bytes > VOLUME_FREE_BYTES && bytes > self.len_bytes.saturating_mul(MAX_RATIO) {
            return Err(VolumeError::Expansion { bytes, zip_bytes: self.len_bytes });
        }
        Ok(())
    }

    /// Reads the text of `page` from `file`, inflating at most one byte more than METS states. The
    /// caller has checked that METS keeps to [`MAX_PAGE_BYTES`], and must check the text.
    pub(crate) fn read(&mut self, file: &ArchiveFile, page: &MetsPage) -> Result<Vec<u8>, VolumeError> {
        self.read_compressed(file, page)?;
        match file.method {
            CompressionMethod::Stored => Ok(std::mem::take(&mut self.compressed)),
            CompressionMethod::Deflated => self.inflate(page),
            method => Err(VolumeError::bad_page(page, format!("its method, {method}, is neither stored nor DEFLATE"))),
        }
    }

    /// Reads a page's compressed bytes. The buffer grows with the bytes that exist, not with what
    /// headers claim.
    fn read_compressed(&mut self, file: &ArchiveFile, page: &MetsPage) -> Result<(), VolumeError> {
        let limit_bytes = MAX_PAGE_BYTES + COMPRESSED_SLACK_BYTES;
        if file.compressed_size > limit_bytes {
            let reason = format!("{} compressed bytes, a page has at most {limit_bytes}", file.compressed_size);
            return Err(VolumeError::bomb(page, reason));
        }
        self.compressed.clear();
        skip_local_header(&mut self.zip, file.header_start)
            .and_then(|()| (&mut self.zip).take(file.compressed_size).read_to_end(&mut self.compressed))
            .map_err(|error| match VolumeError::zip_io(error) {
                VolumeError::Zip(reason) => VolumeError::bad_page(page, reason),
                error => error,
            })?;
        Ok(())
    }

    /// Inflates the raw DEFLATE stream (RFC 1951) in `compressed`.
    fn inflate(&mut self, page: &MetsPage) -> Result<Vec<u8>, VolumeError> {
        self.inflater.reset(false);
        // The promised size is within the limit, and one more byte shows that there is too much.
        let mut text = Vec::with_capacity(page.size as usize + 1);
        let status = self
            .inflater
            .decompress_vec(&self.compressed, &mut text, FlushDecompress::Finish)
            .map_err(|error| VolumeError::bad_page(page, error.to_string()))?;
        if text.len() as u64 > page.size {
            return Err(VolumeError::checksum(page, format!("METS says {} bytes, it inflates to more", page.size)));
        }
        if status != Status::StreamEnd {
            return Err(VolumeError::bad_page(page, "its DEFLATE stream is cut off"));
        }
        // Counted, not read from a header: padding after a short stream must not hide its ratio.
        let stream_len_bytes = self.inflater.total_in();
        if page.size > RATIO_FREE_BYTES && page.size > MAX_RATIO * stream_len_bytes {
            let reason = format!("{} bytes out of {stream_len_bytes}, the ratio is at most {MAX_RATIO}", page.size);
            return Err(VolumeError::bomb(page, reason));
        }
        Ok(text)
    }
}

/// Seeks to the start of an entry's bytes, after its local header, whose name and extra field have
/// lengths of their own (APPNOTE 4.3.7).
fn skip_local_header(zip: &mut (impl Read + Seek), header_start: u64) -> io::Result<()> {
    zip.seek(SeekFrom::Start(header_start))?;
    let mut header = [0; LOCAL_HEADER_LEN];
    zip.read_exact(&mut header)?;
    if !header.starts_with(&LOCAL_HEADER_SIGNATURE) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its local header is not where the directory says"));
    }
    let length_at = |at: usize| i64::from(u16::from_le_bytes([header[at], header[at + 1]]));
    zip.seek_relative(length_at(26) + length_at(28))
}

/// Whether a name could lie outside the target folder when unpacked on some system (APPNOTE 4.4.17:
/// names are relative and use forward slashes).
fn leads_elsewhere(name: &str) -> bool {
    let has_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    name.starts_with('/') || has_drive || name.contains(['\\', '\0']) || name.split('/').any(|part| part == "..")
}
