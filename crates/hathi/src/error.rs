//! Errors of volumes.

use std::path::PathBuf;

use crate::archive::{MAX_ENTRIES, MAX_NAMES_BYTES, MAX_RATIO};
use crate::{InvalidVolumeId, MetsError, MetsPage, RecordError, Seq, VolumeId};

/// A page in an error.
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
        /// The system's error.
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
    /// METS has an `OBJID` that is not a volume id.
    #[error("the METS has an OBJID that is not a volume id: {0}")]
    BadObjectId(InvalidVolumeId),
    /// Neither the path nor METS nor the record names the volume's id.
    #[error("the volume's id is unknown: give it, or an OBJID in the METS, or a record")]
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
    /// The file is not a ZIP, or is truncated or damaged.
    #[error("the file is damaged or not a ZIP: {0}")]
    Zip(String),
    /// More than [`MAX_ENTRIES`].
    #[error("the ZIP has {0} entries, more than the {MAX_ENTRIES} that are read")]
    TooManyEntries(usize),
    /// More than [`MAX_NAMES_BYTES`].
    #[error("the names of the ZIP's files have more than the {MAX_NAMES_BYTES} bytes together that are read")]
    LongNames,
    /// An entry is encrypted.
    #[error("the ZIP's entry {0:?} is encrypted")]
    Encrypted(String),
    /// An entry's name leads out of the archive's folder.
    #[error("the ZIP's entry {0:?} has a name that leads out of the folder; a plain relative path with `/` is needed")]
    ZipSlip(String),
    /// Two entries of one name, or two files of one name in different folders.
    #[error("the ZIP has more than one file {0:?}")]
    DuplicateName(String),
    /// A page that METS names is not in the ZIP.
    #[error("{0} is in the METS, but not in the ZIP")]
    MissingPage(PageName),
    /// A page is beyond [`crate::archive::MAX_PAGE_BYTES`], or compressed beyond [`MAX_RATIO`].
    #[error("{page} is too large: {reason}")]
    Bomb {
        /// The page.
        page: PageName,
        /// Which limit it breaks.
        reason: String,
    },
    /// The pages together are beyond [`crate::archive::VOLUME_FREE_BYTES`], and compressed beyond
    /// [`MAX_RATIO`].
    #[error("the pages have {bytes} bytes together, more than {MAX_RATIO} times the {zip_bytes} bytes of the ZIP")]
    Expansion {
        /// Bytes of the texts of all pages.
        bytes: u64,
        /// Bytes of the ZIP.
        zip_bytes: u64,
    },
    /// A page's compressed bytes cannot be read.
    #[error("{page} is damaged in the ZIP: {reason}")]
    BadPage {
        /// The page.
        page: PageName,
        /// What is wrong.
        reason: String,
    },
    /// A page's text does not have the CRC-32 that the ZIP states.
    #[error(
        "{0} is damaged in the ZIP: its text is not the one that was packed (CRC-32); import a sound copy of the file"
    )]
    Damaged(PageName),
    /// A page is not what METS or the ZIP states.
    #[error("{page} does not match its description: {reason}")]
    Checksum {
        /// The page.
        page: PageName,
        /// What differs.
        reason: String,
    },
    /// A page was asked for that the volume does not have.
    #[error("there is no page {index} (from 0); the volume has {count} pages")]
    NoSuchPage {
        /// The requested place, from 0.
        index: usize,
        /// The number of pages.
        count: usize,
    },
    /// There is no page to make volumes from.
    #[error("no volume with pages to make others from")]
    NoSamples,
}

impl VolumeError {
    /// The kind of error as one short, stable word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io { .. } | Self::ZipIo(_) => "io",
            Self::Mets(_) | Self::BadObjectId(_) => "mets",
            Self::Record(_) => "record",
            Self::NoId => "no-id",
            Self::IdMismatch { .. } => "id-mismatch",
            Self::Zip(_) | Self::BadPage { .. } => "zip",
            Self::TooManyEntries(_) => "too-many-entries",
            Self::LongNames => "long-names",
            Self::Encrypted(_) => "encrypted",
            Self::ZipSlip(_) => "zip-slip",
            Self::DuplicateName(_) => "duplicate-name",
            Self::MissingPage(_) => "missing-page",
            Self::Bomb { .. } | Self::Expansion { .. } => "bomb",
            Self::Checksum { .. } | Self::Damaged(_) => "checksum",
            Self::NoSuchPage { .. } => "no-such-page",
            Self::NoSamples => "no-samples",
        }
    }

    pub(crate) fn zip(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => Self::zip_io(error),
            error => Self::Zip(error.to_string()),
        }
    }

    /// A ZIP that ends too early is a damaged ZIP, not a failing disk.
    pub(crate) fn zip_io(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
                Self::Zip(error.to_string())
            }
            _ => Self::ZipIo(error),
        }
    }
}

/// Errors that name a page.
impl VolumeError {
    pub(crate) fn missing_page(page: &MetsPage) -> Self {
        Self::MissingPage(PageName::of(page))
    }

    pub(crate) fn bad_page(page: &MetsPage, reason: impl Into<String>) -> Self {
        Self::BadPage { page: PageName::of(page), reason: reason.into() }
    }

    pub(crate) fn damaged(page: &MetsPage) -> Self {
        Self::Damaged(PageName::of(page))
    }

    pub(crate) fn checksum(page: &MetsPage, reason: impl Into<String>) -> Self {
        Self::Checksum { page: PageName::of(page), reason: reason.into() }
    }

    pub(crate) fn bomb(page: &MetsPage, reason: impl Into<String>) -> Self {
        Self::Bomb { page: PageName::of(page), reason: reason.into() }
    }
}

impl PageName {
    fn of(page: &MetsPage) -> Self {
        Self { seq: page.seq, file_name: page.file_name.clone() }
    }
}
