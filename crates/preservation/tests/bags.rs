//! Bags on a disk.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use preservation::bagit::BagWriter;
use preservation::write::WriteError;
use sha2::{Digest, Sha256};

fn add(bag: &mut BagWriter, names: &[&str], suffix: &str, bytes: &[u8]) {
    let mut file = bag.file(names.iter().copied(), suffix).unwrap();
    file.write(bytes).unwrap();
    assert_eq!(file.sha256(), <[u8; 32]>::from(Sha256::digest(bytes)));
    bag.finish_file(file).unwrap();
}

fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_bag_has_its_payload_manifests_and_tags() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    add(&mut bag, &["letters", "ü/1"], "", b"one");
    add(&mut bag, &["letters"], "=about.json", b"{}");
    bag.finish(&[("External-Identifier", "http://a.b/\r\nBagging-Date: never".to_owned())]).unwrap();
    assert_eq!(names(folder.path()), ["bag".to_owned()].into());
    let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
    assert_eq!(read("bagit.txt"), "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
    assert_eq!(read("data/letters/=C3=BC=2F1"), "one");
    let sha256 = hex::encode(Sha256::digest(b"one"));
    assert!(read("manifest-sha256.txt").starts_with(&format!("{sha256}  data/letters/=C3=BC=2F1\n")));
    assert_eq!(read("bag-info.txt").lines().count(), 2, "a value begins another line");
    assert!(read("bag-info.txt").contains("Payload-Oxum: 5.2\n"));
    let tags = read("tagmanifest-sha256.txt");
    for name in ["bagit.txt", "bag-info.txt", "manifest-sha256.txt", "manifest-sha512.txt"] {
        let sum = hex::encode(Sha256::digest(fs::read(place.join(name)).unwrap()));
        assert!(tags.contains(&format!("{sum}  {name}\n")), "{tags}");
    }
}

#[test]
fn an_interrupted_bag_is_not_at_its_place_and_another_export_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    add(&mut bag, &["a"], "", b"one");
    drop(bag);
    assert_eq!(names(folder.path()), ["bag.unfinished".to_owned()].into());
    assert!(!place.join("bagit.txt").exists() && !folder.path().join("bag.unfinished/bagit.txt").exists());
    let Err(WriteError::Unfinished(there)) = BagWriter::create(&place) else { panic!("it is written over") };
    fs::remove_dir_all(there).unwrap();
    BagWriter::create(&place).unwrap().abandon().unwrap();
    assert_eq!(names(folder.path()), [].into());
    BagWriter::create(&place).unwrap().finish(&[]).unwrap();
    assert!(matches!(BagWriter::create(&place), Err(WriteError::Exists(_))), "a bag is written over");
}

#[test]
fn hostile_names_stay_within_the_payload() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    for name in ["..", ".", "/etc", "a\\b", "a\nb", "100%", &"x".repeat(512)] {
        add(&mut bag, &[name, ".."], "", b"one");
    }
    bag.finish(&[]).unwrap();
    assert_eq!(names(folder.path()), ["bag".to_owned()].into());
    assert_eq!(names(&place.join("data")).len(), 7);
}
