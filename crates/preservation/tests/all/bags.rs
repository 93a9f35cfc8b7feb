//! Bags on a disk.
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
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
fn an_interrupted_bag_is_not_at_its_place_and_is_continued_with_the_files_that_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bag");
    let unfinished = folder.path().join("bag.unfinished");
    let mut bag = BagWriter::create(&place).unwrap();
    add(&mut bag, &["a"], "", b"one");
    add(&mut bag, &["c", "b"], "", b"two");
    add(&mut bag, &["gone"], "", b"three");
    assert!(matches!(BagWriter::create(&place), Err(WriteError::Busy(_))), "two exports work on it");
    drop(bag);
    assert_eq!(names(folder.path()), ["bag.unfinished".to_owned()].into());
    assert!(!place.join("bagit.txt").exists() && !unfinished.join("bagit.txt").exists());

    let sha256 = |bytes: &[u8]| <[u8; 32]>::from(Sha256::digest(bytes));
    let mut bag = BagWriter::create(&place).unwrap();
    assert_eq!(bag.reuse(["a"], &sha256(b"one")).unwrap(), Some(3));
    drop(bag);
    // Interrupted once more, with files in both places.
    fs::write(unfinished.join("earlier/c/b"), "tw").unwrap();
    let mut bag = BagWriter::create(&place).unwrap();
    assert_eq!(bag.reuse(["a"], &sha256(b"one")).unwrap(), Some(3));
    assert_eq!(bag.reuse(["c", "b"], &sha256(b"two")).unwrap(), None, "a torn file is used");
    assert_eq!(bag.reuse(["a"], &sha256(b"one")).unwrap(), None, "it is used twice");
    assert_eq!(bag.reuse(["absent"], &sha256(b"one")).unwrap(), None);
    add(&mut bag, &["c", "b"], "", b"two");
    bag.finish(&[]).unwrap();
    assert_eq!(names(folder.path()), ["bag".to_owned()].into());
    assert_eq!(names(&place.join("data")), ["a".to_owned(), "c".to_owned()].into());
    assert!(!place.join("earlier").exists());
    preservation::bagit::Bag::checked(&place).unwrap();
    assert!(matches!(BagWriter::create(&place), Err(WriteError::Exists(_))), "a bag is written over");

    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("mine"), "").unwrap();
    let other = folder.path().join("other");
    fs::rename(&unfinished, folder.path().join("other.unfinished")).unwrap();
    assert!(matches!(BagWriter::create(&other), Err(WriteError::Unfinished(_))), "something else is changed");
}

#[test]
fn a_file_that_became_a_folder_between_two_stops_does_not_end_the_next_export() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    add(&mut bag, &["a"], "", b"one");
    add(&mut bag, &["b", "c"], "", b"two");
    drop(bag);
    let mut bag = BagWriter::create(&place).unwrap();
    add(&mut bag, &["a", "c"], "", b"three");
    add(&mut bag, &["b"], "", b"four");
    drop(bag);
    let mut bag = BagWriter::create(&place).unwrap();
    assert_eq!(bag.reuse(["a", "c"], &Sha256::digest(b"three").into()).unwrap(), Some(5));
    assert_eq!(bag.reuse(["b"], &Sha256::digest(b"four").into()).unwrap(), Some(4));
    bag.finish(&[]).unwrap();
    preservation::bagit::Bag::checked(&place).unwrap();
}

#[test]
fn what_a_link_in_an_unfinished_bag_leads_to_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (place, others) = (folder.path().join("bag"), folder.path().join("others"));
    let earlier = folder.path().join("bag.unfinished/earlier");
    fs::create_dir_all(others.join("1")).unwrap();
    fs::write(others.join("1/mine"), "kept").unwrap();
    let interrupted = || add(&mut BagWriter::create(&place).unwrap(), &["a", "1"], "", b"one");
    interrupted();
    interrupted();
    fs::remove_dir_all(earlier.join("a")).unwrap();
    symlink(&others, earlier.join("a")).unwrap();
    interrupted();
    assert_eq!(fs::read_to_string(earlier.join("a/1")).unwrap(), "one");
    fs::remove_dir_all(&earlier).unwrap();
    symlink(&others, &earlier).unwrap();
    assert!(matches!(BagWriter::create(&place), Err(WriteError::Unfinished(_))));
    assert_eq!(fs::read_to_string(others.join("1/mine")).unwrap(), "kept");
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
