//! Reading one volume, checked: ids that agree, a ZIP that holds what METS names, and texts that are what METS says.
//!
//! Nothing that a stranger's ZIP says of itself is relied on: sizes in headers bound neither memory nor inflating. What a page's
//! text may be follows from METS, and what METS may say from the limits here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::{Decompress, FlushDecompress, Status};
use md5::{Digest, Md5};
use sha2::Sha256;

use zip::{CompressionMethod, ZipArchive};

use crate::mets::MAX_METS_BYTES;
use crate::record::MAX_RECORD_BYTES;
use crate::{InvalidVolumeId, Mets, MetsError, MetsPage, Record, RecordError, Seq, VolumeFiles, VolumeId};

/// The largest page text, in bytes.
pub const MAX_PAGE_BYTES: u64 = 16 * 1024 * 1024;
/// A page may be at most this many times larger than its DEFLATE stream, if it is larger than [`RATIO_FREE_BYTES`].
pub const MAX_RATIO: u64 = 200;
/// Up to this size, in bytes, a page may be compressed by any ratio.
pub const RATIO_FREE_BYTES: u64 = 1024 * 1024;
/// The most entries that a ZIP may have.
pub const MAX_ENTRIES: usize = 100_000;
/// A page's compressed bytes may exceed [`MAX_PAGE_BYTES`] by this: far more than stored blocks need.
const COMPRESSED_SLACK_BYTES: u64 = 64 * 1024;

/// What a volume is read from.
#[derive(Debug)]
pub struct VolumeParts<R: Read + Seek> {
    /// The id that the volume is expected to have, if that is known.
    pub id: Option<VolumeId>,
    /// The ZIP with the pages' texts.
    pub zip: R,
    /// The METS.
    pub mets: Vec<u8>,
    /// The metadata record, if there is one.
    pub record: Option<Vec<u8>>,
}

/// A page's text, proved to be what METS says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The page's sequence.
    pub seq: Seq,
    /// Its label, such as the printed page number.
    pub label: Option<String>,
    /// Its features, such as `TITLE`.
    pub features: Vec<String>,
    /// The MD5 of the text.
    pub md5: [u8; 16],
    /// The text as it is in the ZIP: UTF-8 as a rule, but this is not checked.
    pub text: Vec<u8>,
}

/// A page as errors name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageName {
    /// The page's sequence.
    pub seq: Seq,
    /// The name of its file in METS.
    pub file_name: String,
}

impl std::fmt::Display for PageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "page {} ({})", self.seq, self.file_name)
    }
}

/// Why a volume cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The source of the ZIP fails.
    #[error("the ZIP cannot be read: {0}")]
    ZipIo(std::io::Error),
    /// The METS cannot be used.
    #[error(transparent)]
    Mets(#[from] MetsError),
    /// The record cannot be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// METS has an `OBJID` that is no volume id.
    #[error("the METS has an OBJID that is no volume id: {0}")]
    BadObjectId(InvalidVolumeId),
    /// Neither the path nor METS nor the record tells the volume's id.
    #[error("nothing tells the volume's id: give it, or an OBJID in the METS, or a record")]
    NoId,
    /// Two sources name different volumes.
    #[error("the {one_source} says that this is volume {one}, the {other_source} says {other}")]
    IdMismatch {
        /// Where the first id comes from.
        one_source: &'static str,
        /// The first id.
        one: VolumeId,
        /// Where the other id comes from.
        other_source: &'static str,
        /// The other id.
        other: VolumeId,
    },
    /// The file is no ZIP, or is cut off or damaged.
    #[error("the ZIP is damaged or none at all: {0}")]
    Zip(String),
    /// More than [`MAX_ENTRIES`].
    #[error("the ZIP has {0} entries, more than the {MAX_ENTRIES} that are read")]
    TooManyEntries(usize),
    /// An entry is encrypted.
    #[error("the ZIP's entry {0:?} is encrypted")]
    Encrypted(String),
    /// An entry's name leads out of the archive's folder.
    #[error("the ZIP's entry {0:?} has a name that leads elsewhere; a plain relative path with `/` is needed")]
    ZipSlip(String),
    /// Two entries of one name, or two files of one name in different folders.
    #[error("the ZIP has more than one file {0:?}")]
    DuplicateName(String),
    /// A page that METS names is not in the ZIP.
    #[error("{0} is in the METS, but not in the ZIP")]
    MissingPage(PageName),
    /// A page is beyond [`MAX_PAGE_BYTES`], or compressed beyond [`MAX_RATIO`].
    #[error("{page} is too large: {reason}")]
    Bomb {
        /// The page.
        page: PageName,
        /// Which limit it breaks.
        reason: String,
    },
    /// A page's compressed bytes cannot be read.
    #[error("{page} cannot be read from the ZIP: {reason}")]
    BadPage {
        /// The page.
        page: PageName,
        /// What is wrong.
        reason: String,
    },
    /// A page is not what METS or the ZIP says.
    #[error("{page} is not what was promised: {reason}")]
    Checksum {
        /// The page.
        page: PageName,
        /// What differs.
        reason: String,
    },
    /// A page was asked for that the volume does not have.
    #[error("there is no page at place {index}, the volume has {count}")]
    NoSuchPage {
        /// The place asked for, from 0.
        index: usize,
        /// How many pages there are.
        count: usize,
    },
    /// There is no page to make volumes from.
    #[error("no volume with pages was given to make others from")]
    NoSamples,
}

impl VolumeError {
    /// The kind of error in one short word that programs can tell apart and that stays the same.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io { .. } | Self::ZipIo(_) => "io",
            Self::Mets(_) | Self::BadObjectId(_) => "mets",
            Self::Record(_) => "record",
            Self::NoId => "no-id",
            Self::IdMismatch { .. } => "id-mismatch",
            Self::Zip(_) | Self::BadPage { .. } => "zip",
            Self::TooManyEntries(_) => "too-many-entries",
            Self::Encrypted(_) => "encrypted",
            Self::ZipSlip(_) => "zip-slip",
            Self::DuplicateName(_) => "duplicate-name",
            Self::MissingPage(_) => "missing-page",
            Self::Bomb { .. } => "bomb",
            Self::Checksum { .. } => "checksum",
            Self::NoSuchPage { .. } => "no-such-page",
            Self::NoSamples => "no-samples",
        }
    }

    fn zip(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => Self::zip_io(error),
            error => Self::Zip(error.to_string()),
        }
    }

    /// A ZIP that ends too early is a damaged ZIP, not a failing disk.
    fn zip_io(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
                Self::Zip(error.to_string())
            }
            _ => Self::ZipIo(error),
        }
    }
}

impl VolumeFiles {
    /// Opens the ZIP and reads METS and record, which are refused beyond their limits.
    pub fn open(&self) -> Result<VolumeParts<BufReader<File>>, VolumeError> {
        let record = match &self.record {
            Some(path) => Some(read_at_most(path, MAX_RECORD_BYTES)?),
            None => None,
        };
        let mets = read_at_most(&self.mets, MAX_METS_BYTES)?;
        let zip = open(&self.zip)?;
        Ok(VolumeParts { id: self.id.clone(), zip: BufReader::with_capacity(64 * 1024, zip), mets, record })
    }
}

fn open(path: &Path) -> Result<File, VolumeError> {
    File::open(path).map_err(|source| VolumeError::Io { path: path.to_owned(), source })
}

/// Reads a file, but no more than one byte beyond `limit_bytes`: enough for the parser to see that it is too large.
fn read_at_most(path: &Path, limit_bytes: usize) -> Result<Vec<u8>, VolumeError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(limit_bytes as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| VolumeError::Io { path: path.to_owned(), source })?;
    Ok(bytes)
}

/// A volume whose ids agree and whose ZIP has a file for each page; page texts are checked as they are read.
#[derive(Debug)]
pub struct VolumeReader<R> {
    id: VolumeId,
    mets: Mets,
    mets_bytes: Vec<u8>,
    record: Option<Record>,
    record_bytes: Option<Vec<u8>>,
    archive: ZipArchive<R>,
    /// In METS order, like the pages of `mets`.
    entries: Vec<PageEntry>,
    inflater: Decompress,
    compressed: Vec<u8>,
}

/// What the ZIP's central directory says of a page's file.
#[derive(Clone, Copy, Debug)]
struct PageEntry {
    index: usize,
    size: u64,
    crc32: u32,
    method: CompressionMethod,
}

impl<R: Read + Seek> VolumeReader<R> {
    /// Reads METS, record and the ZIP's central directory, and checks them against each other; no page is inflated.
    ///
    /// A page's file stands at the archive's root or in folders of any name. What METS does not name is passed over.
    pub fn new(parts: VolumeParts<R>) -> Result<Self, VolumeError> {
        let mets = Mets::parse(&parts.mets)?;
        let record = parts.record.as_deref().map(Record::parse).transpose()?;
        let id = agreed_id(parts.id, &mets, record.as_ref())?;
        let archive = open_archive(parts.zip)?;
        let mut files = files_by_name(&archive)?;
        let entries = mets.pages.iter().map(|page| page_entry(page, &mut files)).collect::<Result<_, _>>()?;
        Ok(Self {
            id,
            mets,
            mets_bytes: parts.mets,
            record,
            record_bytes: parts.record,
            archive,
            entries,
            inflater: Decompress::new(false),
            compressed: Vec::new(),
        })
    }

    /// The volume's id.
    pub fn id(&self) -> &VolumeId {
        &self.id
    }

    /// The METS.
    pub fn mets(&self) -> &Mets {
        &self.mets
    }

    /// The METS as it was given.
    pub fn mets_bytes(&self) -> &[u8] {
        &self.mets_bytes
    }

    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// The record as it was given.
    pub fn record_bytes(&self) -> Option<&[u8]> {
        self.record_bytes.as_deref()
    }

    /// SHA-256 over sequence (4 bytes), size (8) and CRC-32 (4) of the pages in METS order, all little-endian, as the ZIP's central
    /// directory has them: tells cheaply whether another ZIP holds the same pages.
    pub fn members_digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for (page, entry) in self.mets.pages.iter().zip(&self.entries) {
            digest.update(page.seq.get().to_le_bytes());
            digest.update(entry.size.to_le_bytes());
            digest.update(entry.crc32.to_le_bytes());
        }
        digest.finalize().into()
    }

    /// How many pages the volume has.
    pub fn page_count(&self) -> usize {
        self.mets.pages.len()
    }

    /// Reads the page at place `index` (from 0, in METS order) and checks size and MD5 against METS and the CRC-32 against the ZIP.
    pub fn read_page(&mut self, index: usize) -> Result<Page, VolumeError> {
        let (Some(page), Some(entry)) = (self.mets.pages.get(index), self.entries.get(index)) else {
            return Err(VolumeError::NoSuchPage { index, count: self.page_count() });
        };
        let size = size_within_limit(page)?;
        read_compressed(&mut self.archive, entry.index, page, &mut self.compressed)?;
        let text = match entry.method {
            CompressionMethod::Stored => self.compressed.clone(),
            CompressionMethod::Deflated => inflate(&mut self.inflater, &self.compressed, size, page)?,
            method => {
                return Err(bad_page(page, format!("its compression method, {method}, is neither stored nor DEFLATE")));
            }
        };
        check(&text, page, entry)?;
        let (label, features) = (page.label.clone(), page.features.clone());
        Ok(Page { seq: page.seq, label, features, md5: page.md5, text })
    }
}

/// The id that all who name one agree on.
fn agreed_id(expected: Option<VolumeId>, mets: &Mets, record: Option<&Record>) -> Result<VolumeId, VolumeError> {
    let of_mets = mets.id.as_deref().map(VolumeId::parse).transpose().map_err(VolumeError::BadObjectId)?;
    let of_record = record.map(|record| record.id.clone());
    let mut named = [("path", expected), ("METS", of_mets), ("record", of_record)]
        .into_iter()
        .filter_map(|(source, id)| id.map(|id| (source, id)));
    let (one_source, one) = named.next().ok_or(VolumeError::NoId)?;
    match named.find(|(_, other)| *other != one) {
        None => Ok(one),
        Some((other_source, other)) => Err(VolumeError::IdMismatch { one_source, one, other_source, other }),
    }
}

fn open_archive<R: Read + Seek>(zip: R) -> Result<ZipArchive<R>, VolumeError> {
    let archive = ZipArchive::new(zip).map_err(VolumeError::zip)?;
    if archive.len() > MAX_ENTRIES {
        return Err(VolumeError::TooManyEntries(archive.len()));
    }
    Ok(archive)
}

/// The archive's files by the last part of their name, after a check of every entry.
fn files_by_name<R: Read + Seek>(archive: &ZipArchive<R>) -> Result<HashMap<String, PageEntry>, VolumeError> {
    if archive.has_duplicate_names() {
        return Err(VolumeError::DuplicateName("(two entries of the very same name)".to_owned()));
    }
    let mut files = HashMap::with_capacity(archive.len());
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(VolumeError::zip)?;
        let name = entry.name().map_err(VolumeError::zip)?.into_owned();
        if leads_elsewhere(&name) {
            return Err(VolumeError::ZipSlip(name));
        }
        if entry.encrypted() {
            return Err(VolumeError::Encrypted(name));
        }
        let file_name = name.rsplit('/').next().unwrap_or_default();
        if file_name.is_empty() {
            continue;
        }
        let found = PageEntry { index, size: entry.size(), crc32: entry.crc32(), method: entry.compression() };
        match files.entry(file_name.to_owned()) {
            Entry::Vacant(place) => place.insert(found),
            Entry::Occupied(_) => return Err(VolumeError::DuplicateName(file_name.to_owned())),
        };
    }
    Ok(files)
}

/// Whether a name, unpacked on some system, could lie outside the folder that it is unpacked into (APPNOTE 4.4.17: names are
/// relative and use forward slashes).
fn leads_elsewhere(name: &str) -> bool {
    let has_drive = name.as_bytes().get(1) == Some(&b':') && name.as_bytes()[0].is_ascii_alphabetic();
    name.starts_with('/') || has_drive || name.contains(['\\', '\0']) || name.split('/').any(|part| part == "..")
}

fn page_entry(page: &MetsPage, files: &mut HashMap<String, PageEntry>) -> Result<PageEntry, VolumeError> {
    let entry = files.remove(&page.file_name).ok_or_else(|| VolumeError::MissingPage(name_of(page)))?;
    if entry.size != page.size {
        return Err(mismatch(page, format!("METS says {} bytes, the ZIP {}", page.size, entry.size)));
    }
    Ok(entry)
}

fn size_within_limit(page: &MetsPage) -> Result<usize, VolumeError> {
    match usize::try_from(page.size) {
        Ok(size) if page.size <= MAX_PAGE_BYTES => Ok(size),
        _ => Err(bomb(page, format!("{} bytes, a page has at most {MAX_PAGE_BYTES}", page.size))),
    }
}

/// Reads a page's bytes as they are in the ZIP into `compressed`, which grows with what is there, not with what headers say.
fn read_compressed<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    index: usize,
    page: &MetsPage,
    compressed: &mut Vec<u8>,
) -> Result<(), VolumeError> {
    let limit_bytes = MAX_PAGE_BYTES + COMPRESSED_SLACK_BYTES;
    let entry = archive.by_index_raw(index).map_err(|error| match VolumeError::zip(error) {
        VolumeError::Zip(reason) => bad_page(page, reason),
        error => error,
    })?;
    let announced = entry.compressed_size();
    compressed.clear();
    let read = entry.take(limit_bytes + 1).read_to_end(compressed).map_err(VolumeError::zip_io)? as u64;
    if read > limit_bytes {
        return Err(bomb(page, format!("its compressed bytes are more than {limit_bytes}")));
    }
    if read < announced {
        return Err(bad_page(page, format!("the ZIP ends after {read} of its {announced} compressed bytes")));
    }
    Ok(())
}

/// Inflates a raw DEFLATE stream (RFC 1951) that must give exactly `size` bytes; stops one byte beyond.
fn inflate(inflater: &mut Decompress, compressed: &[u8], size: usize, page: &MetsPage) -> Result<Vec<u8>, VolumeError> {
    inflater.reset(false);
    let mut text = Vec::with_capacity(size + 1);
    let status = inflater
        .decompress_vec(compressed, &mut text, FlushDecompress::Finish)
        .map_err(|error| bad_page(page, error.to_string()))?;
    if text.len() > size {
        return Err(mismatch(page, format!("METS says {size} bytes, it inflates to more")));
    }
    if status != Status::StreamEnd {
        return Err(bad_page(page, "its DEFLATE stream is cut off".to_owned()));
    }
    // Counted, not taken from a header: a stream that ends early could hide behind padding.
    let stream_len_bytes = inflater.total_in();
    if page.size > RATIO_FREE_BYTES && page.size > MAX_RATIO * stream_len_bytes {
        return Err(bomb(
            page,
            format!("{} bytes out of {stream_len_bytes}, the ratio is at most {MAX_RATIO}", page.size),
        ));
    }
    Ok(text)
}

fn check(text: &[u8], page: &MetsPage, entry: &PageEntry) -> Result<(), VolumeError> {
    if text.len() as u64 != page.size {
        return Err(mismatch(page, format!("METS says {} bytes, the ZIP holds {}", page.size, text.len())));
    }
    if crc32fast::hash(text) != entry.crc32 {
        return Err(mismatch(page, "its CRC-32 is not the one in the ZIP".to_owned()));
    }
    let md5: [u8; 16] = Md5::digest(text).into();
    if md5 != page.md5 {
        let (said, is) = (hex::encode(page.md5), hex::encode(md5));
        return Err(mismatch(page, format!("METS says MD5 {said}, it is {is}")));
    }
    Ok(())
}

fn name_of(page: &MetsPage) -> PageName {
    PageName { seq: page.seq, file_name: page.file_name.clone() }
}

fn bad_page(page: &MetsPage, reason: String) -> VolumeError {
    VolumeError::BadPage { page: name_of(page), reason }
}

fn mismatch(page: &MetsPage, reason: String) -> VolumeError {
    VolumeError::Checksum { page: name_of(page), reason }
}

fn bomb(page: &MetsPage, reason: String) -> VolumeError {
    VolumeError::Bomb { page: name_of(page), reason }
}
