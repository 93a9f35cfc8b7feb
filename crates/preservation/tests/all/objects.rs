//! Objects of OCFL on a disk: what an export adds to those that are there.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use preservation::ocfl::inventory::User;
use preservation::ocfl::{Object, ObjectWriter, RootWriter, each_object_or_wrong, layout};
use preservation::write::WriteError;

const ID: &str = "penates:/a";

fn begin(place: &Path) -> RootWriter {
    RootWriter::begin(place, User { name: "test".to_owned(), address: None }).unwrap()
}

fn add(object: &mut ObjectWriter, logical: &str, bytes: &str) {
    let mut file = object.file(logical).unwrap();
    file.write(bytes.as_bytes()).unwrap();
    object.finish_file(file).unwrap();
}

/// Adds versions with one file each, and finishes the storage root.
fn export(place: &Path, versions: &[&str]) {
    let root = begin(place);
    let mut object = root.object(ID).unwrap();
    for bytes in versions {
        add(&mut object, "a", bytes);
        object.finish_version("2025-06-15T15:06:40.007Z".to_owned(), (*bytes).to_owned()).unwrap();
    }
    object.finish().unwrap();
    root.finish().unwrap();
}

fn unfinished(place: &Path) -> PathBuf {
    place.with_extension("unfinished")
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => files.extend(self::files(&entry)),
            false => _ = files.insert(entry.clone(), fs::read(&entry).unwrap()),
        }
    }
    files
}

#[test]
fn a_flipped_bit_in_an_inventory_deletes_no_finished_version() {
    for versions in [&["one"][..], &["one", "two"]] {
        let newest = format!("v{}", versions.len());
        for damage in ["inventory.json", "inventory.json.sha512"] {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().join("root");
            export(&place, versions);
            let inventory = place.join(layout::place(ID)).join(&newest).join(damage);
            let mut bytes = fs::read(&inventory).unwrap();
            bytes[10] ^= 1;
            fs::write(&inventory, bytes).unwrap();
            let root = begin(&place);
            let whole = files(&unfinished(&place));
            let error = root.object(ID).unwrap_err();
            assert!(matches!(error, WriteError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(&format!("{newest}/inventory.json is damaged")), "{error}");
            assert_eq!(files(&unfinished(&place)), whole);
        }
    }
}

#[test]
fn a_finished_version_without_an_inventory_is_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("root");
    export(&place, &["one", "two"]);
    fs::remove_file(place.join(layout::place(ID)).join("v2/inventory.json")).unwrap();
    let root = begin(&place);
    let whole = files(&unfinished(&place));
    assert!(matches!(root.object(ID).unwrap_err(), WriteError::Damaged { .. }));
    assert_eq!(files(&unfinished(&place)), whole);
}

#[test]
fn a_stop_between_the_inventory_of_an_object_and_its_digest_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("root");
    export(&place, &["one"]);
    let sidecar = fs::read(place.join(layout::place(ID)).join("inventory.json.sha512")).unwrap();
    export(&place, &["two"]);
    let whole = files(&place);
    fs::write(place.join(layout::place(ID)).join("inventory.json.sha512"), sidecar).unwrap();
    fs::create_dir_all(place.join(layout::place(ID)).join("v3/content")).unwrap();
    export(&place, &[]);
    assert_eq!(files(&place), whole);
}

#[test]
fn what_an_interrupted_export_left_of_an_object_that_is_gone_since_is_finished_or_removed() {
    const OTHER: &str = "penates:/b";
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("root");
    export(&place, &["one"]);
    let whole = files(&place);
    let other = place.join(layout::place(OTHER));
    let interrupted = |versions: &[&str]| {
        let root = begin(&place);
        let mut object = root.object(OTHER).unwrap();
        for bytes in versions {
            add(&mut object, "b", bytes);
            object.finish_version("2025-06-15T15:06:40.007Z".to_owned(), (*bytes).to_owned()).unwrap();
        }
        add(&mut object, "b", "half of it");
    };
    // No version is whole, so nothing stays.
    interrupted(&[]);
    begin(&place).finish().unwrap();
    assert_eq!(files(&place), whole);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 4, "a folder is left");
    // One is whole, and is kept.
    interrupted(&["one"]);
    begin(&place).finish().unwrap();
    let object = Object::open(&other).unwrap();
    object.check_files().unwrap();
    assert_eq!(object.versions().len(), 1);
    let mut wrong = Vec::new();
    let each = each_object_or_wrong(&place, &mut |object| {
        wrong.extend(object.err().map(|error| error.to_string()));
        Ok(())
    });
    each.unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_file_of_somebody_else_in_the_folder_of_an_interrupted_object_stays() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("root");
    let root = begin(&place);
    let mut object = root.object(ID).unwrap();
    add(&mut object, "a", "half of it");
    drop((object, root));
    let within = unfinished(&place).join(layout::place(ID));
    fs::write(within.join("mine"), "kept").unwrap();
    drop(begin(&place));
    assert_eq!(files(&within), [(within.join("mine"), b"kept".to_vec())].into());
}

#[test]
fn a_note_of_the_object_at_work_that_was_cut_off_does_not_end_the_next_export() {
    for note in [&b""[..], b"penates:/\xc3", b"penates:/oth"] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("root");
        export(&place, &["one"]);
        let whole = files(&place);
        drop(begin(&place));
        fs::write(unfinished(&place).join("at-work"), note).unwrap();
        begin(&place).finish().unwrap();
        assert_eq!(files(&place), whole);
    }
}

#[test]
fn good_bytes_take_the_place_of_damaged_ones() {
    for damage in [Some("rotten"), None] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("root");
        export(&place, &["one", "two"]);
        let file = place.join(layout::place(ID)).join("v1/content/a");
        match damage {
            Some(bytes) => fs::write(&file, bytes).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        export(&place, &["one"]);
        assert_eq!(fs::read(&file).unwrap(), b"one");
        assert!(!place.join(layout::place(ID)).join("v3/content").exists());
        Object::open(&place.join(layout::place(ID))).unwrap().check_files().unwrap();
    }
}

#[test]
fn a_version_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("root");
    export(&place, &[]);
    let bare = files(&place);
    let root = begin(&place);
    let mut object = root.object(ID).unwrap();
    add(&mut object, "a", "one");
    object.abandon_version().unwrap();
    object.finish().unwrap();
    root.finish().unwrap();
    assert_eq!(files(&place), bare);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 3, "a folder is left");

    export(&place, &["one"]);
    let whole = files(&place);
    let root = begin(&place);
    let mut object = root.object(ID).unwrap();
    add(&mut object, "a", "two");
    object.abandon_version().unwrap();
    add(&mut object, "a", "two");
    object.abandon_version().unwrap();
    object.finish().unwrap();
    root.finish().unwrap();
    assert_eq!(files(&place), whole);
}
