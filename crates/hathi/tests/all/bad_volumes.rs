//! A volume with any defect in its ZIP or METS is refused with an error of the right kind that
//! names the page.
use std::io::Cursor;

use crate::common::{Said, error_of, mets, patched, read, said_of, zip};
use hathi::archive::{MAX_ENTRIES, MAX_NAMES_BYTES, MAX_PAGE_BYTES, RATIO_FREE_BYTES, VOLUME_FREE_BYTES};
use hathi::mets::MAX_METS_BYTES;
use hathi::{Mets, MetsError, VolumeError, VolumeFiles, VolumeId, VolumeParts, VolumeReader};

const PAGES: [(&str, &[u8]); 2] =
    [("00000001.txt", b"first"), ("00000002.txt", b"second, and some more, and some more")];

fn entries() -> [(&'static str, &'static [u8]); 2] {
    [("x/00000001.txt", PAGES[0].1), ("x/00000002.txt", PAGES[1].1)]
}

fn good_mets() -> Vec<u8> {
    mets(Some("lib.x"), &said_of(&PAGES))
}

/// A METS that states something else about the second page.
fn mets_with(change: impl FnOnce(&mut Said)) -> Vec<u8> {
    let mut said = said_of(&PAGES);
    change(&mut said[1]);
    mets(Some("lib.x"), &said)
}

#[track_caller]
fn refused(zip: Vec<u8>, mets: Vec<u8>, kind: &str, words: &str) {
    let error = error_of(zip, mets);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_valid_volume_is_read() {
    let mut volume = read(zip(&entries()), good_mets()).unwrap();
    assert_eq!(volume.id().as_str(), "lib.x");
    assert_eq!(volume.read_page(1).unwrap().text, PAGES[1].1);
    assert_eq!(volume.read_page(0).unwrap().text, PAGES[0].1);
    assert_eq!(volume.read_page(2).unwrap_err().kind(), "no-such-page");
}

#[test]
fn a_mets_is_read_to_its_limit_and_no_further() {
    let folder = tempfile::tempdir().unwrap();
    let mets = folder.path().join("x.mets.xml");
    std::fs::File::create(&mets).unwrap().set_len(1 << 30).unwrap();
    let files = VolumeFiles { id: None, zip: folder.path().join("x.zip"), mets, record: None };
    let read = files.read_mets().unwrap();
    assert_eq!(read.len(), MAX_METS_BYTES + 1);
    assert!(matches!(Mets::parse(&read), Err(MetsError::TooLarge(_))));
}

#[test]
fn pages_may_be_at_the_root_or_in_a_folder_and_other_files_are_ignored() {
    let entries = [("00000001.txt", PAGES[0].1), ("a/b/00000002.txt", PAGES[1].1), ("notes.txt", b"x".as_slice())];
    let mut volume = read(zip(&entries), good_mets()).unwrap();
    assert_eq!(volume.read_page(0).unwrap().text, PAGES[0].1);
    assert_eq!(volume.read_page(1).unwrap().text, PAGES[1].1);
}

#[test]
fn a_wrong_checksum_or_size_names_the_page() {
    refused(zip(&entries()), mets_with(|page| page.md5 = "0".repeat(32)), "checksum", "page 2 (00000002.txt)");
    refused(zip(&entries()), mets_with(|page| page.size += 1), "checksum", "page 2 (00000002.txt)");
    // Sizes are compared before any page is read.
    assert_eq!(read(zip(&entries()), mets_with(|page| page.size += 1)).unwrap_err().kind(), "checksum");
}

#[test]
fn a_text_of_another_length_is_refused_although_its_md5_is_right() {
    let text = b"a text of 26 bytes is here";
    let lying = patched(&zip(&[("1.txt", text)]), &26_u32.to_le_bytes(), &1_000_u32.to_le_bytes());
    let mut said = said_of(&[("1.txt", text)]);
    said[0].size = 1_000;
    refused(lying, mets(Some("lib.x"), &said), "checksum", "METS says 1000 bytes, the ZIP holds 26");
}

#[test]
fn a_wrong_crc_in_the_zip_is_refused_although_the_md5_is_right() {
    let crc32 = crc32fast::hash(PAGES[1].1);
    let lying = patched(&zip(&entries()), &crc32.to_le_bytes(), &(!crc32).to_le_bytes());
    refused(lying, good_mets(), "checksum", "CRC-32");
}

#[test]
fn a_page_that_the_zip_lacks_is_named() {
    refused(zip(&entries()[..1]), good_mets(), "missing-page", "page 2 (00000002.txt)");
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    for name in
        ["../secret.txt", "/etc/passwd.tx", "a/../../bc.txt", "C:\\secret.txt", "C:/secrets.txt", "a\\..\\bcd.txt"]
    {
        let placeholder = "z".repeat(name.len());
        let mut with_more = entries().to_vec();
        with_more.push((&placeholder, b"x"));
        let slipping = patched(&zip(&with_more), placeholder.as_bytes(), name.as_bytes());
        refused(slipping, good_mets(), "zip-slip", "leads out of the folder");
    }
}

#[test]
fn two_files_of_one_name_are_refused_in_one_folder_or_two() {
    let mut twice = entries().to_vec();
    twice.push(("y/00000001.txt", b"other"));
    refused(zip(&twice), good_mets(), "duplicate-name", "00000001.txt");
    twice[2].0 = "z/00000001.txt";
    refused(patched(&zip(&twice), b"z/00000001", b"x/00000001"), good_mets(), "duplicate-name", "00000001.txt");
}

#[test]
fn encrypted_entries_are_refused() {
    // Bit 0 of the general purpose flags in the central directory (APPNOTE 4.4.4), 8 bytes into
    // each header.
    let mut encrypted = zip(&entries());
    let at = encrypted.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    encrypted[at + 8] |= 1;
    refused(encrypted, good_mets(), "encrypted", "x/00000001.txt");
}

#[test]
fn a_zip_truncated_anywhere_is_refused() {
    let whole = zip(&entries());
    for len in 0..whole.len() {
        let error = error_of(whole[..len].to_vec(), good_mets());
        assert_eq!(error.kind(), "zip", "cut to {len} bytes: {error}");
    }
}

#[test]
fn a_flipped_bit_never_yields_another_text() {
    let whole = zip(&entries());
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        let Ok(mut volume) = read(flipped, good_mets()) else { continue };
        for (index, (_, text)) in PAGES.iter().enumerate() {
            if let Ok(page) = volume.read_page(index) {
                assert_eq!(page.text, *text, "bit flipped at {at}");
            }
        }
    }
}

#[test]
fn a_corrupt_stream_names_its_page() {
    let text: Vec<u8> = (0..2_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
    let mut zip = zip(&[("1.txt", &text)]);
    zip[100] ^= 0xff;
    let error = error_of(zip, mets(Some("lib.x"), &said_of(&[("1.txt", &text)])));
    assert!(["zip", "checksum"].contains(&error.kind()), "{error}");
    assert!(error.to_string().contains("page 1 (1.txt)"), "{error}");
}

#[test]
fn a_page_above_16_mib_is_refused_before_it_is_inflated() {
    let text = vec![0; MAX_PAGE_BYTES as usize + 1];
    let bomb = zip(&[("1.txt", &text)]);
    let mets = mets(Some("lib.x"), &said_of(&[("1.txt", &text)]));
    assert_eq!(read(bomb, mets).unwrap_err().kind(), "bomb");
}

#[test]
fn a_page_above_1_mib_is_refused_when_its_ratio_is_above_200() {
    let text = vec![b'a'; RATIO_FREE_BYTES as usize + 1];
    let mets_of = |text: &[u8]| mets(Some("lib.x"), &said_of(&[("1.txt", text)]));
    refused(zip(&[("1.txt", &text)]), mets_of(&text), "bomb", "page 1 (1.txt)");
    let allowed = &text[1..];
    assert_eq!(read(zip(&[("1.txt", allowed)]), mets_of(allowed)).unwrap().read_page(0).unwrap().text, allowed);
}

/// Pages from 1 on that are all of this one file.
fn pages_of_one_file(name: &str, text: &[u8], pages: u64) -> Vec<u8> {
    let md5 = said_of(&[(name, text)]).remove(0).md5;
    let said = |order| Said { order, file_name: name.to_owned(), size: text.len() as u64, md5: md5.clone() };
    mets(Some("lib.x"), &(1..=pages as u32).map(said).collect::<Vec<_>>())
}

#[test]
fn several_pages_may_be_of_one_file() {
    let mut volume = read(zip(&[("1.txt", b"blank")]), pages_of_one_file("1.txt", b"blank", 3)).unwrap();
    assert_eq!(volume.page_count(), 3);
    for index in 0..3 {
        assert_eq!(volume.read_page(index).unwrap().text, b"blank");
    }
}

#[test]
fn pages_that_are_together_far_larger_than_the_zip_are_refused_before_any_is_inflated() {
    // Alone, a page of this size may have any ratio. The ZIP has about a thousand bytes.
    let text = vec![b'a'; RATIO_FREE_BYTES as usize];
    let small = zip(&[("1.txt", &text)]);
    let allowed = VOLUME_FREE_BYTES / RATIO_FREE_BYTES;
    assert!(read(small.clone(), pages_of_one_file("1.txt", &text, allowed)).is_ok());
    let error = read(small, pages_of_one_file("1.txt", &text, allowed + 1)).unwrap_err();
    assert_eq!(error.kind(), "bomb", "{error}");
    assert!(error.to_string().contains("68157440 bytes together"), "{error}");
    // The same pages of a ZIP that is large enough.
    let padding: Vec<u8> = (0..200_000_u32).flat_map(|n| crc32fast::hash(&n.to_le_bytes()).to_le_bytes()).collect();
    let large = zip(&[("1.txt", &text), ("notes.bin", &padding)]);
    assert!(read(large, pages_of_one_file("1.txt", &text, allowed + 1)).is_ok());
}

#[test]
fn inflating_stops_at_the_size_in_mets_whatever_the_zip_claims() {
    // METS and the ZIP's directory agree on 5 bytes; the stream gives a million.
    let text = vec![b'a'; 1_000_000];
    let lying = patched(&zip(&[("1.txt", &text)]), &1_000_000_u32.to_le_bytes(), &5_u32.to_le_bytes());
    let mets = mets(Some("lib.x"), &said_of(&[("1.txt", b"aaaaa")]));
    refused(lying, mets, "checksum", "it inflates to more");
}

#[test]
fn a_zip_of_100_000_entries_is_read_and_a_larger_one_is_refused() {
    let names: Vec<String> = (0..MAX_ENTRIES).map(|n| format!("{n}.jp2")).collect();
    let mut entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
    entries[7] = ("1.txt", b"text");
    let mets = mets(Some("lib.x"), &said_of(&[("1.txt", b"text")]));
    assert_eq!(read(zip(&entries), mets.clone()).unwrap().read_page(0).unwrap().text, b"text");
    entries.push(("one too many", b""));
    refused(zip(&entries), mets, "too-many-entries", "100001");
}

#[test]
fn a_zip_whose_files_have_8_mib_of_names_is_read_and_one_with_more_is_refused() {
    // Folders are no part of a name.
    let name = |n: usize| format!("folder/{n:065000}");
    let names: Vec<String> = (0..=MAX_NAMES_BYTES / 65_000).map(name).collect();
    let mut entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
    entries[0] = ("1.txt", b"text");
    let mets = mets(Some("lib.x"), &said_of(&[("1.txt", b"text")]));
    assert_eq!(read(zip(&entries), mets.clone()).unwrap().read_page(0).unwrap().text, b"text");
    entries.push((names[0].as_str(), b""));
    refused(zip(&entries), mets, "long-names", "8388608 bytes");
}

#[test]
fn a_count_of_entries_that_only_the_end_record_claims_is_refused() {
    // 70,000 entries, so that there is a ZIP64 end record (APPNOTE 4.3.14) whose counts have eight
    // bytes.
    let names: Vec<String> = (0..70_000).map(|n| format!("{n}.jp2")).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
    let claim = |count: u64| patched(&zip(&entries), &70_000_u64.to_le_bytes(), &count.to_le_bytes());
    refused(claim(70_001), good_mets(), "zip", "ZIP");
    refused(claim(1 << 40), good_mets(), "zip", "ZIP");
}

#[test]
fn errors_of_the_zip_and_of_the_mets_are_distinguished() {
    refused(b"no zip".to_vec(), good_mets(), "zip", "ZIP");
    refused(Vec::new(), good_mets(), "zip", "ZIP");
    refused(zip(&entries()), b"<html/>".to_vec(), "mets", "root must be `mets`");
    refused(zip(&entries()), mets(Some("nodot"), &said_of(&PAGES)), "mets", "OBJID");
}

#[test]
fn ids_of_path_mets_and_record_must_agree() {
    let open = |path: Option<&str>, object_id: Option<&str>, record: Option<&str>| {
        VolumeReader::new(VolumeParts {
            id: path.map(|id| VolumeId::parse(id).unwrap()),
            zip: Cursor::new(zip(&entries())),
            mets: mets(object_id, &said_of(&PAGES)),
            record: record.map(|id| format!(r#"{{"volumeIdentifier":"{id}"}}"#).into_bytes()),
        })
    };
    let id = Some("lib.x");
    for (path, object_id, record) in [(id, id, id), (id, None, None), (None, id, None), (None, None, id)] {
        assert_eq!(open(path, object_id, record).unwrap().id().as_str(), "lib.x");
    }
    let other = Some("lib.y");
    for (path, object_id, record) in
        [(other, id, id), (id, other, id), (id, id, other), (None, id, other), (id, None, other)]
    {
        let error = open(path, object_id, record).unwrap_err();
        assert!(matches!(&error, VolumeError::IdMismatch { .. }), "{error}");
        assert!(error.to_string().contains("lib.x") && error.to_string().contains("lib.y"), "{error}");
    }
    assert_eq!(open(None, None, None).unwrap_err().kind(), "no-id");
}

#[test]
fn the_members_digest_changes_with_any_page_and_only_then() {
    let digest =
        |pages: &[(&str, &[u8])]| read(zip(pages), mets(Some("lib.x"), &said_of(pages))).unwrap().members_digest();
    let one = digest(&PAGES);
    assert_eq!(one, read(zip(&entries()), good_mets()).unwrap().members_digest());
    assert_ne!(one, digest(&[PAGES[0], ("00000002.txt", b"second, and some more, and some m0re")]));
    assert_ne!(one, digest(&PAGES[..1]));
    assert_ne!(one, digest(&[PAGES[1], PAGES[0]]));
}
