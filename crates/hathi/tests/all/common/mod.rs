//! Small volumes for tests, valid or invalid.
#![allow(clippy::unwrap_used, dead_code)]

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use hathi::{VolumeError, VolumeParts, VolumeReader};
use md5::{Digest, Md5};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// The folder of the sample pairtree.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/pairtree")
}

/// The statements of METS about a page.
pub struct Said {
    pub order: u32,
    pub file_name: String,
    pub size: u64,
    pub md5: String,
}

/// The true statements of METS about these texts, page by page from 1.
pub fn said_of(pages: &[(&str, &[u8])]) -> Vec<Said> {
    let say = |(order, (name, text)): (u32, &(&str, &[u8]))| Said {
        order,
        file_name: (*name).to_owned(),
        size: text.len() as u64,
        md5: hex::encode(Md5::digest(text)),
    };
    (1..).zip(pages).map(say).collect()
}

pub fn mets(object_id: Option<&str>, pages: &[Said]) -> Vec<u8> {
    let (mut files, mut divs) = (String::new(), String::new());
    for Said { order, file_name, size, md5 } in pages {
        files += &format!(
            r#"<m:file ID="F{order}" SIZE="{size}" CHECKSUM="{md5}" CHECKSUMTYPE="MD5"><m:FLocat x:href="{file_name}"/></m:file>"#
        );
        divs += &format!(r#"<m:div ORDER="{order}" TYPE="page"><m:fptr FILEID="F{order}"/></m:div>"#);
    }
    let object_id = object_id.map(|id| format!(r#"OBJID="{id}""#)).unwrap_or_default();
    format!(
        r#"<m:mets xmlns:m="http://www.loc.gov/METS/" xmlns:x="http://www.w3.org/1999/xlink" {object_id}><m:fileSec>
        <m:fileGrp USE="ocr">{files}</m:fileGrp></m:fileSec><m:structMap TYPE="physical"><m:div>{divs}</m:div></m:structMap></m:mets>"#
    )
    .into_bytes()
}

pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Replaces every `from` by `to`, which has the same length: for names and flags that no writer
/// would write.
pub fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut patched = bytes.to_vec();
    let places: Vec<_> = (0..=bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "there is nothing to patch");
    for at in places {
        patched[at..at + to.len()].copy_from_slice(to);
    }
    patched
}

pub type Reader = VolumeReader<Cursor<Vec<u8>>>;

pub fn read(zip: Vec<u8>, mets: Vec<u8>) -> Result<Reader, VolumeError> {
    VolumeReader::new(VolumeParts { id: None, zip: Cursor::new(zip), mets, record: None })
}

/// The first error in reading a whole volume.
pub fn error_of(zip: Vec<u8>, mets: Vec<u8>) -> VolumeError {
    let mut volume = match read(zip, mets) {
        Ok(volume) => volume,
        Err(error) => return error,
    };
    (0..volume.page_count()).find_map(|index| volume.read_page(index).err()).expect("this volume must not be accepted")
}
