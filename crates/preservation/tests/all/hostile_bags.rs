//! Bags that strangers wrote: what is wrong with one is found before anything of it is used.
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use preservation::about::{ABOUT, About, DESCRIPTION};
use preservation::bagged::Bagged;
use preservation::bagit::{Bag, BagWriter};
use preservation::read::ReadError;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

fn about(path: &str, class: &str) -> Vec<u8> {
    let about = About {
        repository: "http://a.b/rest/".to_owned(),
        path: path.to_owned(),
        types: vec![format!("http://www.w3.org/ns/ldp#{class}")],
        content_type: None,
        content_disposition: None,
        last_modified: None,
        stored_at: None,
        handling: None,
    };
    serde_json::to_vec(&about).unwrap()
}

/// A bag with a container and two resources in it.
fn bag() -> (TempDir, PathBuf) {
    bag_with(&[])
}

fn bag_with(more: &[(&[&str], &str, &[u8])]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    let mut add = |names: &[&str], suffix: &str, bytes: &[u8]| {
        let mut file = bag.file(names.iter().copied(), suffix).unwrap();
        file.write(bytes).unwrap();
        bag.finish_file(file).unwrap();
    };
    add(&["a"], ABOUT, &about("a", "BasicContainer"));
    add(&["a"], DESCRIPTION, b"");
    add(&["a", "b \u{fc}"], ABOUT, &about("a/b \u{fc}", "NonRDFSource"));
    add(&["a", "b \u{fc}"], DESCRIPTION, b"");
    add(&["a", "b \u{fc}"], "", b"bytes");
    for (names, suffix, bytes) in more {
        add(names, suffix, bytes);
    }
    bag.finish(&[]).unwrap();
    (folder, place)
}

/// The paths of the resources in a bag, or what is wrong with it.
fn read(place: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let bag = Bag::checked(place).map_err(|error| error.to_string())?;
    let each = Bagged::each(&bag, &mut |resource| {
        paths.push(resource.about.path);
        Ok(())
    });
    each.map_err(|error| error.to_string())?;
    Ok(paths)
}

#[track_caller]
fn refused(place: &Path, why: &str) {
    let error = read(place).expect_err("the bag is accepted");
    assert!(error.contains(why), "{error}");
}

/// Writes a file and lists it in no manifest of tags, so that only what it says matters.
fn rewrite(place: &Path, name: &str, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(place.join(name)).unwrap();
    fs::write(place.join(name), change(text)).unwrap();
    for tags in ["tagmanifest-sha256.txt", "tagmanifest-sha512.txt"] {
        let lines = fs::read_to_string(place.join(tags)).unwrap();
        let others: String =
            lines.lines().filter(|line| !line.ends_with(name)).map(|line| format!("{line}\n")).collect();
        fs::write(place.join(tags), others).unwrap();
    }
}

#[test]
fn a_bag_lists_its_resources_with_containers_first_and_their_digests() {
    let (_folder, place) = bag();
    assert_eq!(read(&place).unwrap(), ["a", "a/b \u{fc}"]);
    let bag = Bag::checked(&place).unwrap();
    let mut found = None;
    let each = |resource: Bagged| {
        found = resource.bytes(&bag).or(found.take());
        Ok(())
    };
    Bagged::each(&bag, &mut { each }).unwrap();
    let (file, sha256) = found.unwrap();
    assert_eq!((fs::read(file).unwrap(), sha256), (b"bytes".to_vec(), Sha256::digest(b"bytes").into()));
}

#[test]
fn the_sha_256_of_a_file_is_known_whichever_manifests_there_are() {
    for gone in ["manifest-sha256.txt", "manifest-sha512.txt"] {
        let (_folder, place) = bag();
        for name in [gone, "tagmanifest-sha256.txt", "tagmanifest-sha512.txt"] {
            fs::remove_file(place.join(name)).unwrap();
        }
        let bag = Bag::checked(&place).unwrap();
        assert_eq!(bag.sha256("data/a/b=20=C3=BC"), Some(Sha256::digest(b"bytes").into()), "{gone}");
    }
}

#[test]
fn a_flipped_byte_of_any_file_is_found() {
    let (_folder, place) = bag();
    let mut names = BTreeSet::new();
    let mut waiting = vec![place.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => _ = names.insert(entry.path()),
            }
        }
    }
    let mut tried = 0;
    for name in names.iter().filter(|name| fs::metadata(name).unwrap().len() > 0) {
        let whole = fs::read(name).unwrap();
        let mut flipped = whole.clone();
        let at = whole.len() / 2;
        flipped[at] ^= 1;
        fs::write(name, flipped).unwrap();
        assert!(read(&place).is_err(), "{name:?}: a flipped byte is not found");
        fs::write(name, whole).unwrap();
        tried += 1;
    }
    assert_eq!(tried, 9);
    assert!(read(&place).is_ok());
}

#[test]
fn files_that_are_missing_added_linked_or_no_files_are_refused() {
    let (_folder, place) = bag();
    fs::remove_file(place.join("data/a/b=20=C3=BC")).unwrap();
    refused(&place, "in a manifest and not in the bag");
    fs::write(place.join("fetch.txt"), "http://a.b/x 5 data/a/b=20=C3=BC\n").unwrap();
    refused(&place, "fetch.txt");

    let (_folder, place) = bag();
    fs::write(place.join("data/more"), "").unwrap();
    refused(&place, "no manifest lists it");

    let (folder, place) = bag();
    let secret = folder.path().join("secret");
    fs::rename(place.join("data/a/b=20=C3=BC"), &secret).unwrap();
    symlink(&secret, place.join("data/a/b=20=C3=BC")).unwrap();
    refused(&place, "links are not followed");

    let (folder, place) = bag();
    fs::rename(place.join("data/a"), folder.path().join("elsewhere")).unwrap();
    symlink(folder.path().join("elsewhere"), place.join("data/a")).unwrap();
    refused(&place, "links are not followed");

    let (_folder, place) = bag();
    let pipe = place.join("data/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&place, "neither a file nor a folder");

    let (folder, place) = bag();
    fs::rename(place.join("data"), folder.path().join("data")).unwrap();
    symlink(folder.path().join("data"), place.join("data")).unwrap();
    refused(&place, "there is no such folder");
}

#[test]
fn manifests_that_lie_are_refused() {
    let line = |path: &str| format!("{}  {path}\n", hex::encode(Sha256::digest(b"root:x:0:0")));
    for (path, why) in [
        ("/etc/passwd", "not the path of a file in the bag"),
        ("data/../../../etc/passwd", "not the path of a file in the bag"),
        ("bagit.txt", "does not belong in this manifest"),
        ("data/absent", "in a manifest and not in the bag"),
        ("data/a=about.json", "listed twice"),
        ("data/a%0Ab", "in a manifest and not in the bag"),
    ] {
        let (_folder, place) = bag();
        rewrite(&place, "manifest-sha256.txt", |text| text + &line(path));
        refused(&place, why);
    }
    let (_folder, place) = bag();
    rewrite(&place, "manifest-sha256.txt", |text| text.lines().skip(1).map(|line| format!("{line}\n")).collect());
    refused(&place, "not all manifests list it");
    rewrite(&place, "bagit.txt", |text| text.replace("1.0", "0.97"));
    assert_eq!(read(&place).unwrap().len(), 2, "an older bag may leave a file out of one manifest");

    let (_folder, place) = bag();
    rewrite(&place, "manifest-sha256.txt", |text| "0".repeat(20_000) + &text);
    refused(&place, "a line is too long");
    let (_folder, place) = bag();
    fs::write(place.join("manifest-crc32.txt"), "").unwrap();
    refused(&place, "none of the algorithms");
    let (_folder, place) = bag();
    rewrite(&place, "bag-info.txt", |text| text.replace("Payload-Oxum: ", "Payload-Oxum: 1"));
    refused(&place, "bag-info.txt: it promises");
    let (_folder, place) = bag();
    for name in ["manifest-sha256.txt", "manifest-sha512.txt", "tagmanifest-sha256.txt", "tagmanifest-sha512.txt"] {
        fs::remove_file(place.join(name)).unwrap();
    }
    refused(&place, "there is no manifest");
}

#[test]
fn resources_that_contradict_their_files_are_refused() {
    let other = about("c", "BasicContainer");
    for (suffix, bytes, why) in [
        (ABOUT, &other[..], "another resource"),
        (ABOUT, b"{}", "missing field"),
        (ABOUT, b"[[[[[[[[", "invalid type"),
        (ABOUT, &about("x", "RDFSource"), "statements about this resource are missing"),
        (ABOUT, &about("../x", "RDFSource"), "another resource"),
        (ABOUT, &about("/x", "RDFSource"), "another resource"),
        (DESCRIPTION, b"", "belongs to no resource"),
        ("", b"", "belongs to no resource"),
    ] {
        let (_folder, place) = bag_with(&[(&["x"], suffix, bytes)]);
        refused(&place, why);
    }
    let (_folder, place) = bag_with(&[(&["x"], ABOUT, &about("x", "NonRDFSource")), (&["x"], DESCRIPTION, b"")]);
    refused(&place, "whether this resource has bytes");
    let large = vec![b' '; (1 << 20) + 1];
    let (_folder, place) = bag_with(&[(&["x"], ABOUT, &large)]);
    refused(&place, "more than 1048576 bytes");
}

#[test]
fn a_bag_that_changes_after_its_check_is_noticed() {
    let (_folder, place) = bag();
    let bag = Bag::checked(&place).unwrap();
    fs::write(place.join("data/a=description.nt"), "<a:b> <a:b> <a:b> .").unwrap();
    let Err(ReadError::Invalid { why, .. }) = bag.read("data/a=description.nt", 1_000) else { panic!("it is read") };
    assert!(why.contains("changed since"), "{why}");
}

#[test]
fn folders_are_not_followed_to_any_depth() {
    let (_folder, place) = bag();
    fs::create_dir_all(place.join("data").join(["d"; 1_500].join("/"))).unwrap();
    refused(&place, "nested too deep");
}
