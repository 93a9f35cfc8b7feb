//! Reading one volume with checks: its ids agree, its ZIP contains what METS names, and its texts
//! match METS.
//!
//! No claim of a stranger's ZIP is trusted: sizes in headers bound neither memory nor inflating.
//! METS bounds a page's text, and the limits here bound METS.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use md5::{Digest, Md5};
use sha2::Sha256;

use crate::archive::{Archive, ArchiveFile, MAX_PAGE_BYTES};
use crate::mets::MAX_METS_BYTES;
use crate::record::MAX_RECORD_BYTES;
use crate::{Mets, MetsPage, Record, Seq, VolumeError, VolumeFiles, VolumeId};

/// The sources of a volume.
#[derive(Debug)]
pub struct VolumeParts<R: Read + Seek> {
    /// The expected id of the volume, if known.
    pub id: Option<VolumeId>,
    /// The ZIP with the pages' texts.
    pub zip: R,
    /// The METS.
    pub mets: Vec<u8>,
    /// The metadata record, if there is one.
    pub record: Option<Vec<u8>>,
}

/// What the pages of a volume must agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagesOf {
    /// METS, which says their sizes and MD5s.
    Mets,
    /// The ZIP alone: pages may have been replaced since METS was made.
    Zip,
}

/// A page's text, checked against METS.
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
    /// The text as in the ZIP. It is usually UTF-8, which is not checked.
    pub text: Vec<u8>,
}

impl VolumeFiles {
    /// Opens the ZIP and reads METS and record, which are refused beyond their limits.
    pub fn open(&self) -> Result<VolumeParts<File>, VolumeError> {
        let record = match &self.record {
            Some(path) => Some(read_at_most(path, MAX_RECORD_BYTES)?),
            None => None,
        };
        Ok(VolumeParts { id: self.id.clone(), mets: self.read_mets()?, zip: open(&self.zip)?, record })
    }

    /// Reads the METS, but no more than one byte beyond [`MAX_METS_BYTES`]: [`Mets::parse`] refuses
    /// what is longer.
    pub fn read_mets(&self) -> Result<Vec<u8>, VolumeError> {
        read_at_most(&self.mets, MAX_METS_BYTES)
    }
}

fn open(path: &Path) -> Result<File, VolumeError> {
    File::open(path).map_err(|source| VolumeError::Io { path: path.to_owned(), source })
}

/// Reads a file, but no more than one byte beyond `limit_bytes`: enough for the parser to see that
/// it is too large.
fn read_at_most(path: &Path, limit_bytes: usize) -> Result<Vec<u8>, VolumeError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(limit_bytes as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| VolumeError::Io { path: path.to_owned(), source })?;
    Ok(bytes)
}

/// A volume whose ids agree and whose ZIP has a file for each page; page texts are checked as they
/// are read.
#[derive(Debug)]
pub struct VolumeReader<R> {
    id: VolumeId,
    mets: Mets,
    mets_bytes: Vec<u8>,
    record: Option<Record>,
    record_bytes: Option<Vec<u8>>,
    archive: Archive<R>,
    /// In METS order, like the pages of `mets`.
    files: Vec<ArchiveFile>,
    pages: PagesOf,
}

impl<R: Read + Seek> VolumeReader<R> {
    /// Reads METS, record and the ZIP's central directory, and checks them against each other. It
    /// inflates no page.
    ///
    /// A page's file is at the archive's root or in folders of any name. Files that METS does not
    /// name are ignored. One that METS names as several files is that many pages of the same text.
    pub fn new(parts: VolumeParts<R>) -> Result<Self, VolumeError> {
        Self::of(parts, PagesOf::Mets)
    }

    /// The same, for a volume whose pages may have been replaced.
    pub fn of(parts: VolumeParts<R>, pages: PagesOf) -> Result<Self, VolumeError> {
        let mut mets = Mets::parse(&parts.mets)?;
        let record = parts.record.as_deref().map(Record::parse).transpose()?;
        let id = agreed_id(parts.id, &mets, record.as_ref())?;
        let archive = Archive::open(parts.zip)?;
        let files = mets.pages.iter_mut().map(|page| file_of(page, &archive, pages)).collect::<Result<_, _>>()?;
        archive.check_expansion(&mets.pages)?;
        let (mets_bytes, record_bytes) = (parts.mets, parts.record);
        Ok(Self { id, mets, mets_bytes, record, record_bytes, archive, files, pages })
    }

    /// The volume's id.
    pub fn id(&self) -> &VolumeId {
        &self.id
    }

    /// The METS. With [`PagesOf::Zip`] its pages have the sizes of their files in the ZIP.
    pub fn mets(&self) -> &Mets {
        &self.mets
    }

    /// The METS as bytes.
    pub fn mets_bytes(&self) -> &[u8] {
        &self.mets_bytes
    }

    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// The record as bytes.
    pub fn record_bytes(&self) -> Option<&[u8]> {
        self.record_bytes.as_deref()
    }

    /// SHA-256 over sequence (4 bytes), size (8) and CRC-32 (4) of the pages in METS order, all
    /// little-endian, as in the ZIP's central directory. It shows cheaply whether another ZIP holds
    /// the same pages.
    pub fn members_digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for (page, file) in self.mets.pages.iter().zip(&self.files) {
            digest.update(page.seq.get().to_le_bytes());
            digest.update(file.size.to_le_bytes());
            digest.update(file.crc32.to_le_bytes());
        }
        digest.finalize().into()
    }

    /// How many pages the volume has.
    pub fn page_count(&self) -> usize {
        self.mets.pages.len()
    }

    /// Reads the page at place `index` (from 0, in METS order) and checks the CRC-32 against the
    /// ZIP, and size and MD5 against METS unless the pages may have been replaced.
    pub fn read_page(&mut self, index: usize) -> Result<Page, VolumeError> {
        let (Some(page), Some(file)) = (self.mets.pages.get(index), self.files.get(index)) else {
            return Err(VolumeError::NoSuchPage { index, count: self.page_count() });
        };
        let text = self.archive.read(file, page)?;
        let md5 = check(&text, page, file, self.pages)?;
        let (label, features) = (page.label.clone(), page.features.clone());
        Ok(Page { seq: page.seq, label, features, md5, text })
    }
}

/// The id on which all sources agree.
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

/// A page's file in the ZIP, which must not be too large, and as large as METS says. If the page may
/// have been replaced, it gets the size of the file.
fn file_of<R: Read + Seek>(
    page: &mut MetsPage,
    archive: &Archive<R>,
    pages: PagesOf,
) -> Result<ArchiveFile, VolumeError> {
    let file = archive.file(&page.file_name);
    if let (Some(file), PagesOf::Zip) = (file, pages) {
        page.size = file.size;
    }
    if page.size > MAX_PAGE_BYTES {
        let reason = format!("{} bytes, a page has at most {MAX_PAGE_BYTES}", page.size);
        return Err(VolumeError::bomb(page, reason));
    }
    let file = file.ok_or_else(|| VolumeError::missing_page(page))?;
    if file.size != page.size {
        return Err(VolumeError::checksum(page, format!("METS says {} bytes, the ZIP {}", page.size, file.size)));
    }
    Ok(file)
}

/// Checks a text against METS and the ZIP. Returns its MD5.
fn check(text: &[u8], page: &MetsPage, file: &ArchiveFile, pages: PagesOf) -> Result<[u8; 16], VolumeError> {
    // Before anything else: of a damaged text all other statements are wrong too.
    if crc32fast::hash(text) != file.crc32 {
        return Err(VolumeError::damaged(page));
    }
    if text.len() as u64 != page.size {
        return Err(VolumeError::checksum(
            page,
            format!("METS says {} bytes, the ZIP holds {}", page.size, text.len()),
        ));
    }
    let md5: [u8; 16] = Md5::digest(text).into();
    if md5 != page.md5 && pages == PagesOf::Mets {
        let (said, is) = (hex::encode(page.md5), hex::encode(md5));
        return Err(VolumeError::checksum(page, format!("METS says MD5 {said}, it is {is}")));
    }
    Ok(md5)
}
