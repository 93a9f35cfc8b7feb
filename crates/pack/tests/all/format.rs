//! The bytes of an archive, one by one: resumed downloads and ETags depend on them, so they must
//! never change unnoticed.
use crate::common::*;
use pack::memory::MemorySource;
use pack::{Layout, Level, WHOLE};
use std::sync::Arc;

/// The bytes between version needed and the CRC of a file: flags, method 8, midnight, 1980-01-01.
const FILE: &[u8] = b"\x00\x00\x08\x00\x00\x00\x21\x00";

fn local(version_to_date: &[u8], crc32_to_size: &[u8], name: &str, content: &[u8]) -> Vec<u8> {
    [b"PK\x03\x04\x14\x00", version_to_date, crc32_to_size, &[name.len() as u8, 0, 0, 0], name.as_bytes(), content]
        .concat()
}

fn central(version_to_date: &[u8], crc32_to_size: &[u8], name: &str, attributes: &[u8; 4], offset: usize) -> Vec<u8> {
    let lengths = [name.len() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let offset = (offset as u32).to_le_bytes();
    let start = b"PK\x01\x02\x2d\x03\x14\x00";
    [start, version_to_date, crc32_to_size, &lengths, attributes, &offset, name.as_bytes()].concat()
}

#[tokio::test]
async fn an_archive_of_one_empty_page_and_an_error_has_these_bytes() {
    let source = Arc::new(MemorySource::new(vec![volume("a.b", &[Vec::new()], None, None)]));
    let mut archive = archive(&source, Layout::Pages, Level::Frames);
    archive.errors = Some("E\n".into());

    let directory = b"\x00\x00\x00\x00\x00\x00\x21\x00";
    let page_sizes = b"\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00";
    let crc32 = crc32fast::hash(b"E\n").to_le_bytes();
    let errors_sizes = [&crc32[..], b"\x09\x00\x00\x00\x02\x00\x00\x00"].concat();
    let errors_content = b"\x00\x02\x00\xfd\xffE\n\x03\x00";
    let local = [
        local(directory, &[0; 12], "a.b/", b""),
        local(FILE, page_sizes, "a.b/00000001.txt", b"\x03\x00"),
        local(FILE, &errors_sizes, "ERROR.err", errors_content),
    ];
    let offsets = [0, local[0].len(), local[0].len() + local[1].len()];
    let central = [
        central(directory, &[0; 12], "a.b/", b"\x10\x00\xed\x41", offsets[0]),
        central(FILE, page_sizes, "a.b/00000001.txt", b"\x00\x00\xa4\x81", offsets[1]),
        central(FILE, &errors_sizes, "ERROR.err", b"\x00\x00\xa4\x81", offsets[2]),
    ];
    let (local, central) = (local.concat(), central.concat());
    let lengths = [(central.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes()].concat();
    let end = [b"PK\x05\x06\x00\x00\x00\x00\x03\x00\x03\x00", &lengths[..], b"\x00\x00"].concat();
    assert_eq!(bytes(&Arc::new(archive), &source, WHOLE).await, [local, central, end].concat());
}

#[tokio::test]
async fn an_entry_with_a_descriptor_has_its_sizes_after_its_content() {
    let source = Arc::new(MemorySource::new(vec![volume("a.b", &[Vec::new()], None, None)]));
    let mut archive = archive(&source, Layout::Volumes, Level::Frames);
    archive.descriptors = true;
    let whole = bytes(&Arc::new(archive), &source, WHOLE).await;
    let described = b"\x08\x00\x08\x00\x00\x00\x21\x00";
    let descriptor = b"PK\x07\x08\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00";
    let entry = local(described, &[0; 12], "a.b.txt", &[&b"\x03\x00"[..], descriptor].concat());
    assert_eq!(whole[..entry.len()], entry);
}
