//! Packages of a DSpace, also hostile ones.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use crate::aip::{Aip, Bits, write_zip};
use preservation::dspace::{Checked, Kind, Manifest, Package};
use preservation::read::ReadResult;
use proptest::prelude::*;

fn item() -> Aip {
    let thumbnail =
        Bits { bundle: "THUMBNAIL", made_from: Some(1), ..Bits::new(2, "letter.pdf.jpg", "image/jpeg", b"small") };
    let license = Bits {
        bundle: "LICENSE",
        readers: vec![Some("Staff")],
        ..Bits::new(3, "license.txt", "text/plain", b"granted")
    };
    Aip {
        fields: vec![
            ("dc.title", Some("de"), "Briefe & \"mehr\" <1>".to_owned()),
            ("dc.description.provenance", Some("en"), "by ada@example.org".to_owned()),
            ("local.shelf", None, "A 7".to_owned()),
        ],
        bitstreams: vec![Bits::new(1, "letter.pdf", "application/pdf", b"letter"), thumbnail, license],
        primary: Some(1),
        also_in: vec!["1/4".to_owned()],
        ..Aip::new("ITEM", "1/3", Some("1/2"), "Letters")
    }
}

/// Opens and checks a package.
fn check(place: &Path) -> ReadResult<(Manifest, Checked)> {
    let package = Package::open(place)?.unwrap();
    let manifest = package.manifest()?;
    let checked = package.check(&manifest)?;
    Ok((manifest, checked))
}

/// Why a package with these files is refused.
fn refused(files: &[(String, Vec<u8>)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("aip.zip");
    write_zip(&place, files);
    check(&place).unwrap_err().to_string()
}

/// The files of a package, with another METS.
fn with_mets(aip: &Aip, change: impl FnOnce(String) -> String) -> Vec<(String, Vec<u8>)> {
    let mut files = aip.files();
    files[0].1 = change(String::from_utf8(files[0].1.clone()).unwrap()).into_bytes();
    files
}

#[test]
fn a_package_of_an_item_is_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (manifest, checked) = check(&item().write(folder.path())).unwrap();
    assert_eq!((manifest.kind, manifest.handle.as_str()), (Kind::Item, "1/3"));
    assert_eq!(manifest.parent.as_deref(), Some("1/2"));
    assert_eq!(manifest.also_in().collect::<Vec<_>>(), ["1/4"]);
    assert_eq!(manifest.modified.as_deref(), Some("2023-05-04T03:02:01Z"));
    let fields: Vec<_> = manifest.fields.iter().map(|field| (field.name(), field.value.as_str())).collect();
    let names = ["dc.title", "dc.description.provenance", "local.shelf"].map(str::to_owned);
    let values = ["Briefe & \"mehr\" <1>", "by ada@example.org", "A 7"];
    assert_eq!(fields, names.into_iter().zip(values).collect::<Vec<_>>());
    let bundles: Vec<_> = manifest.bundles.iter().map(|bundle| bundle.name.as_str()).collect();
    assert_eq!(bundles, ["ORIGINAL", "THUMBNAIL", "LICENSE"]);
    let names: Vec<_> = manifest.bitstreams.iter().filter_map(|bitstream| bitstream.name()).collect();
    assert_eq!(names, ["letter.pdf", "letter.pdf.jpg", "license.txt"]);
    assert_eq!(manifest.primary, Some(0));
    assert!(manifest.policies.as_ref().unwrap()[0].is_public_reading());
    let of_license = &manifest.bitstreams[2].policies.as_ref().unwrap()[0];
    assert_eq!((of_license.who.as_deref(), of_license.from.as_deref()), (Some("Staff"), Some("2030-01-01")));
    assert!(!of_license.is_public_reading() && !manifest.is_withdrawn() && !manifest.has_template);
    assert_eq!((checked.bitstreams.len(), checked.unnamed.len()), (3, 0));
}

#[test]
fn no_policy_is_told_from_no_word_about_policies() {
    let aip = Aip { bitstreams: vec![Bits { readers: Vec::new(), ..item().bitstreams[0].clone() }], ..item() };
    let read = |mets: &str| Manifest::read(mets.as_bytes(), "mets.xml").unwrap();
    let mets = aip.mets(false);
    let manifest = read(&mets);
    assert_eq!(manifest.bitstreams[0].policies, Some(Vec::new()));
    assert!(manifest.has_policies() && manifest.policies.is_some_and(|policies| policies.len() == 1));
    // A configuration of DSpace may leave out the rights.
    let manifest = read(&mets.replace("http://cosimo.stanford.edu/sdr/metsrights/", "http://example.org/"));
    assert_eq!((&manifest.policies, &manifest.bitstreams[0].policies), (&None, &None));
    assert!(!manifest.has_policies());
}

#[test]
fn a_collection_has_children_and_a_template_that_is_not_its_own_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let collection = Aip {
        children: vec![("ITEM", "1/3".to_owned())],
        has_template: true,
        has_roles: true,
        ..Aip::new("COLLECTION", "1/2", Some("1/1"), "Papers")
    };
    let (manifest, _) = check(&collection.write(folder.path())).unwrap();
    assert_eq!(manifest.children[0].handle.as_deref(), Some("1/3"));
    assert_eq!(manifest.children[0].package.as_deref(), Some("ITEM@1-3.zip"));
    assert!(manifest.has_template);
    assert_eq!((manifest.groups, manifest.people), (1, 1));
    let titles = manifest.fields.iter().filter(|field| field.name() == "dc.title").map(|field| field.value.as_str());
    assert_eq!(titles.collect::<Vec<_>>(), ["Papers"]);
}

#[test]
fn a_license_that_is_no_bitstream_is_a_file_of_the_package() {
    let reference = "<amdSec ID=\"amd_0\"><rightsMD ID=\"rightsMD_0\"><mdRef MDTYPE=\"OTHER\" LOCTYPE=\"URL\" \
                     OTHERMDTYPE=\"DSpaceDepositLicense\" MIMETYPE=\"text/plain\" xlink:href=\"metadata_5\"/></rightsMD></amdSec>";
    let mut files = with_mets(&item(), |mets| mets.replacen("<fileSec>", &format!("{reference}<fileSec>"), 1));
    assert!(refused(&files).contains("names \"metadata_5\", which is not in it"));
    files.push(("metadata_5".to_owned(), b"granted".to_vec()));
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("aip.zip");
    write_zip(&place, &files);
    let (_, checked) = check(&place).unwrap();
    let other = &checked.others[0];
    assert_eq!((other.file.as_str(), other.media_type.as_deref()), ("metadata_5", Some("text/plain")));
    assert_eq!(checked.unnamed.len(), 0);
}

#[test]
fn a_zip_of_too_many_files_is_refused_before_its_directory_is_read() {
    let many: Vec<_> = (0..100_001).map(|n| (n.to_string(), Vec::new())).collect();
    assert!(refused(&many).contains("it has 100001 files; at most 100000 are read"));
}

#[test]
fn a_zip_with_numbers_of_64_bits_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("aip.zip");
    let mut zip = zip::ZipWriter::new(fs::File::create(&place).unwrap());
    for (name, bytes) in item().files() {
        zip.start_file(name, zip::write::SimpleFileOptions::default().large_file(true)).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap();
    assert_eq!(check(&place).unwrap().1.bitstreams.len(), 3);
}

#[test]
fn a_manifest_for_itself_has_no_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("ITEM@1-3.xml");
    fs::write(&place, item().mets(true)).unwrap();
    let package = Package::open(&place).unwrap().unwrap();
    assert!(package.is_manifest_only() && package.is_of_dspace());
    let (manifest, checked) = check(&place).unwrap();
    assert_eq!(manifest.bitstreams[0].file, "https://dspace.example.org/bitstreams/1/download");
    assert_eq!(checked.bitstreams.len(), 0);
}

#[test]
fn other_files_are_no_packages() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a.zip");
    write_zip(&place, &[("a.txt".to_owned(), Vec::new())]);
    assert!(Package::open(&place).unwrap().is_none());
    write_zip(&place, &[]);
    assert!(Package::open(&place).unwrap().is_none());
    fs::write(&place, "text").unwrap();
    assert!(Package::open(&place).unwrap().is_none());
    fs::write(&place, "PK\u{3}\u{4}").unwrap();
    assert!(Package::open(&place).unwrap_err().to_string().contains("no ZIP that can be read"));
}

#[test]
fn bytes_that_are_missing_or_not_those_of_the_mets_are_refused() {
    let files = item().files();
    let without: Vec<_> = files.iter().filter(|(name, _)| !name.starts_with("bitstream_1")).cloned().collect();
    assert!(refused(&without).contains("which is not in it"));
    let mut flipped = files.clone();
    flipped[1].1[0] ^= 1;
    assert!(refused(&flipped).contains("has another md5 than mets.xml says"));
    let mut longer = files.clone();
    longer[1].1.push(0);
    assert!(refused(&longer).contains("has 7 bytes, mets.xml says 6"));
    let reused = with_mets(&item(), |mets| mets.replace("href=\"bitstream_2.jpg\"", "href=\"bitstream_1.pdf\""));
    assert!(refused(&reused).contains("twice"));
}

#[test]
fn two_files_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("aip.zip");
    let further = [("bitstream_9.pdf".to_owned(), b"other".to_vec())];
    write_zip(&place, &item().files().into_iter().chain(further).collect::<Vec<_>>());
    let mut bytes = fs::read(&place).unwrap();
    while let Some(at) = bytes.windows(15).position(|window| window == b"bitstream_9.pdf") {
        bytes[at + 10] = b'1';
    }
    fs::write(&place, bytes).unwrap();
    assert!(check(&place).unwrap_err().to_string().contains("two files"));
}

#[test]
fn files_that_the_mets_does_not_name_are_listed_whatever_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("aip.zip");
    let further = ["../../etc/passwd", "a\u{1}b", "/root"].map(|name| (name.to_owned(), b"x".to_vec()));
    write_zip(&place, &item().files().into_iter().chain(further).collect::<Vec<_>>());
    let (_, checked) = check(&place).unwrap();
    assert_eq!(checked.unnamed, ["../../etc/passwd", "/root", "a\u{1}b"]);
}

#[test]
fn a_mets_that_attacks_its_reader_is_refused() {
    for (from, to, why) in [
        ("A 7", "&own;", "an entity of its own"),
        ("<metsHdr", &format!("{}<metsHdr", "<x>".repeat(200)), "nested more than"),
        ("<mets ", "<!DOCTYPE mets [<!ENTITY own \"x\">]><mets ", "DOCTYPE"),
        ("<mets ", "<a/><mets ", "it is no METS"),
        ("MIMETYPE", &format!("{} MIMETYPE", many_attributes()), "attributes"),
        ("A 7", &"x".repeat(17 << 20), "a tag or text has more than"),
        ("DSpace ITEM\" PROFILE", "DSpace THING\" PROFILE", "its type is"),
        ("aip/mets_aip_1_0.xsd", "sip.xsd", "no AIP"),
        ("SIZE=\"6\"", "SIZE=\"-6\"", "no number"),
        ("CHECKSUMTYPE=\"MD5\"", "CHECKSUMTYPE=\"Adler-32\"", "is not known"),
        ("file ID=\"bitstream_2\"", "file ID=\"bitstream_1\"", "two files \"bitstream_1\""),
        ("<metsHdr", &format!("<x {}/><metsHdr", many_namespaces()), "namespace"),
        ("</mets>", "", "it ends before"),
        ("</metsHdr>", "</mets>", "no XML that can be read"),
    ] {
        let files = with_mets(&item(), |mets| mets.replacen(from, to, 1));
        let reported = refused(&files);
        assert!(reported.contains(why), "{from}: {reported}");
    }
}

fn many_namespaces() -> String {
    (0..1_000).map(|n| format!(" xmlns:n{n}=\"x\"")).collect()
}

fn many_attributes() -> String {
    (0..70).map(|n| format!(" a{n}=\"\"")).collect()
}

#[test]
fn a_mets_of_too_many_bytes_is_refused() {
    let fields = "<field/>\n".repeat(64 << 10);
    // Comments are not kept, and are read all the same.
    let comment = format!("<!--{}-->", "x".repeat(15 << 20));
    let files =
        with_mets(&item(), |mets| mets.replacen("<metsHdr", &format!("{}{fields}<metsHdr", comment.repeat(35)), 1));
    assert!(refused(&files).contains("it has more bytes than are read"), "{}", refused(&files));
}

#[test]
fn what_is_kept_of_a_mets_is_bounded() {
    let child = "<div TYPE=\"DSpace ITEM\"><mptr LOCTYPE=\"HANDLE\" xlink:href=\"1/5\"/></div>";
    let children = child.repeat(800_000);
    let files =
        with_mets(&item(), |mets| mets.replacen("</div></structMap>", &format!("{children}</div></structMap>"), 1));
    assert!(refused(&files).contains("takes more than"), "{}", refused(&files));
}

#[test]
fn a_zip_with_other_sizes_or_checksums_than_it_says_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = item().write(folder.path());
    let bytes = fs::read(&place).unwrap();
    let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    // The second entry of the directory is that of the first bitstream.
    let second = directory + 4 + bytes[directory + 4..].windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let refused_with = |at: usize, value: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + value.len()].copy_from_slice(value);
        fs::write(&place, changed).unwrap();
        check(&place).unwrap_err().to_string()
    };
    assert!(refused_with(second + 16, &[0; 4]).contains("another CRC-32"));
    assert!(refused_with(second + 24, &1_000_u32.to_le_bytes()).contains("1000 bytes, mets.xml says 6"));
    // More compressed bytes than are its own: it shares them with the next.
    assert!(refused_with(second + 20, &100_000_u32.to_le_bytes()).contains("share bytes"));
    assert!(refused_with(second + 42, &5_u32.to_le_bytes()).contains("share bytes"));
    assert!(refused_with(second + 10, &99_u16.to_le_bytes()).contains("method"));
}

#[test]
fn a_file_that_inflates_to_more_than_the_zip_says_is_read_no_further() {
    let folder = tempfile::tempdir().unwrap();
    let zeros = Bits::new(1, "zeros", "application/octet-stream", &vec![0; 1 << 20]);
    let aip = Aip { bitstreams: vec![zeros], primary: None, ..item() };
    let place = aip.write(folder.path());
    let mut bytes = fs::read(&place).unwrap();
    let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let second = directory + 4 + bytes[directory + 4..].windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[second + 24..second + 28].copy_from_slice(&10_u32.to_le_bytes());
    fs::write(&place, bytes).unwrap();
    let package = Package::open(&place).unwrap().unwrap();
    let mut read = Vec::new();
    let error = package.file("bitstream_1.zeros").unwrap().open().unwrap().read_to_end(&mut read).unwrap_err();
    assert_eq!((read.len(), error.to_string().as_str()), (10, "a file has more bytes than the ZIP says"));
}

proptest! {
    #[test]
    fn no_change_of_a_package_makes_its_reader_panic(at in 0_usize..100_000, to in any::<u8>()) {
        let folder = tempfile::tempdir().unwrap();
        let place = item().write(folder.path());
        let mut bytes = fs::read(&place).unwrap();
        let at = at % bytes.len();
        bytes[at] = to;
        fs::write(&place, bytes).unwrap();
        if let Ok(Some(package)) = Package::open(&place) && let Ok(manifest) = package.manifest() {
            let _ = package.check(&manifest);
        }
    }

    #[test]
    fn no_change_of_a_mets_makes_its_reader_panic(at in 0_usize..100_000, len in 0_usize..20, to in ".{0,8}") {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a.xml");
        let mets = item().mets(true);
        let (start, end) = (at % mets.len(), (at % mets.len() + len).min(mets.len()));
        fs::write(&place, format!("{}{to}{}", &mets[..start], &mets[end..])).unwrap();
        let _ = Package::open(&place).unwrap().unwrap().manifest();
    }
}
