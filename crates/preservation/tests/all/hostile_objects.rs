//! Objects of OCFL that strangers wrote: what is wrong with one is found before anything of it is
//! used.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use preservation::about::About;
use preservation::archived::{self, ArchivedVersion};
use preservation::ocfl::inventory::User;
use preservation::ocfl::{Object, RootWriter, each_object, each_object_or_wrong};
use sha2::{Digest, Sha512};
use tempfile::TempDir;

fn about(path: &str) -> About {
    About {
        repository: "http://a.b/rest/".to_owned(),
        path: path.to_owned(),
        types: vec!["http://www.w3.org/ns/ldp#NonRDFSource".to_owned()],
        content_type: None,
        content_disposition: None,
        last_modified: None,
        stored_at: None,
        handling: None,
    }
}

/// A storage root with one object of two versions, and the object's folder.
fn root() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("root");
    let root = RootWriter::begin(&place, User { name: "test".to_owned(), address: None }).unwrap();
    let about = about("a");
    let mut object = root.object(&archived::id(about.names())).unwrap();
    for bytes in ["one", "two"] {
        let files = [("about.json", about.written()), ("description.nt", Vec::new()), ("bytes/a", bytes.into())];
        for (logical, content) in files {
            let mut file = object.file(logical).unwrap();
            file.write(&content).unwrap();
            object.finish_file(file).unwrap();
        }
        object.finish_version("2025-06-15T15:06:40.007Z".to_owned(), bytes.to_owned()).unwrap();
    }
    object.finish().unwrap();
    root.finish().unwrap();
    let object = place.join(preservation::ocfl::layout::place("penates:/a"));
    (folder, place, object)
}

/// The versions of all objects, or what is wrong with one.
fn read(root: &Path) -> Result<Vec<ArchivedVersion>, String> {
    let mut found = Vec::new();
    let each = each_object(root, &mut |folder| {
        let object = Object::open(folder)?;
        object.check_files()?;
        found.extend(ArchivedVersion::all(&object)?);
        Ok(())
    });
    each.map(|()| found).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(root: &Path, why: &str) {
    let error = read(root).expect_err("the object is accepted");
    assert!(error.contains(why), "{error}");
}

/// Changes the inventory of an object, with the right digest beside it.
fn rewrite(object: &Path, change: impl FnOnce(String) -> String) {
    let text = change(fs::read_to_string(object.join("inventory.json")).unwrap());
    let sidecar = format!("{}  inventory.json\n", hex::encode(Sha512::digest(&text)));
    fs::write(object.join("inventory.json"), text).unwrap();
    fs::write(object.join("inventory.json.sha512"), sidecar).unwrap();
}

#[test]
fn an_object_is_read_with_its_versions_and_files() {
    let (_folder, root, object) = root();
    let versions = read(&root).unwrap();
    let bytes: Vec<_> = versions.iter().map(|version| version.state.clone().unwrap().bytes.unwrap()).collect();
    assert_eq!(bytes[0].place, object.join("v1/content/bytes/a"));
    assert_eq!(fs::read(&bytes[1].place).unwrap(), b"two");
    assert_eq!(bytes[1].digest, Sha512::digest("two").as_slice());
    assert!(versions.iter().all(|version| version.state.as_ref().unwrap().about == about("a")));
    // Digests in capital letters are the same digests.
    let digest = hex::encode(Sha512::digest("one"));
    rewrite(&object, |text| text.replacen(&digest, &digest.to_uppercase(), 1));
    assert_eq!(read(&root).unwrap().len(), 2);
}

#[test]
fn files_that_are_changed_missing_added_or_linked_are_refused() {
    let (_folder, root_place, object) = root();
    let file = object.join("v1/content/bytes/a");
    fs::write(&file, "ONE").unwrap();
    refused(&root_place, "another digest");
    fs::remove_file(&file).unwrap();
    refused(&root_place, "No such file");
    let secret = root_place.with_file_name("secret");
    fs::write(&secret, "one").unwrap();
    symlink(&secret, &file).unwrap();
    refused(&root_place, "neither a file nor a folder");
    fs::remove_file(&file).unwrap();
    fs::rename(&secret, &file).unwrap();
    assert_eq!(read(&root_place).unwrap().len(), 2);
    fs::write(object.join("v2/content/more"), "").unwrap();
    refused(&root_place, "does not list it");

    let (folder, root_place, object) = root();
    fs::rename(object.join("v1/content/bytes"), folder.path().join("bytes")).unwrap();
    symlink(folder.path().join("bytes"), object.join("v1/content/bytes")).unwrap();
    refused(&root_place, "neither a file nor a folder");

    let (folder, root_place, object) = root();
    fs::rename(object.join("v2"), folder.path().join("v2")).unwrap();
    symlink(folder.path().join("v2"), object.join("v2")).unwrap();
    refused(&root_place, "neither a file nor a folder");

    let (folder, root_place, object) = root();
    fs::rename(&object, folder.path().join("object")).unwrap();
    symlink(folder.path().join("object"), &object).unwrap();
    refused(&root_place, "links are not followed");

    let (_folder, root_place, object) = root();
    fs::create_dir_all(object.join("extensions/0005-mutable-head")).unwrap();
    refused(&root_place, "mutable head");
}

#[test]
fn inventories_that_lie_are_refused() {
    let one = hex::encode(Sha512::digest("one"));
    let absent = hex::encode(Sha512::digest("absent"));
    let manifest = "\"v1/content/bytes/a\"";
    for (from, to, why) in [
        (manifest, "\"../../../../../etc/passwd\"", "not the path of a file of the object"),
        (manifest, "\"/etc/passwd\"", "not the path of a file of the object"),
        (manifest, "\"v1/content/../../inventory.json\"", "not the path of a file of the object"),
        (manifest, "\"v3/content/bytes/a\"", "not the path of a file of the object"),
        (manifest, "\"v1/inventory.json\"", "not the path of a file of the object"),
        ("\"bytes/a\"", "\"../a\"", "not a logical path"),
        ("\"bytes/a\"", "\"description.nt\"", "in a version twice"),
        ("\"head\": \"v2\"", "\"head\": \"v1\"", "not its newest version"),
        ("\"v2\": {", "\"v3\": {", "not v1, v2"),
        ("\"sha512\"", "\"md5\"", "not sha512 or sha256"),
        ("ocfl.io/1.1/", "ocfl.io/9.9/", "no known version"),
        ("penates:/a", "penates:/b", "another resource"),
        ("\"description.nt\"", "\"other.nt\"", "no statements"),
        ("\"about.json\"", "\"other.json\"", "no about.json"),
        ("2025-06-15", "someday", ""),
    ] {
        let (_folder, root, object) = root();
        rewrite(&object, |text| text.replacen(from, to, 1));
        match why {
            // Times are for the reader of versions to understand.
            "" => assert_eq!(read(&root).unwrap().len(), 2),
            why => refused(&root, why),
        }
    }
    let (_folder, root_place, object) = root();
    rewrite(&object, |text| {
        text.replace(&format!("\"{one}\": [\n          "), &format!("\"{absent}\": [\n          "))
    });
    refused(&root_place, "not in the manifest");
    let (_folder, root_place, object) = root();
    fs::write(object.join("inventory.json.sha512"), format!("{absent}  inventory.json\n")).unwrap();
    refused(&root_place, "digest of its inventory");
    let (_folder, root_place, object) = root();
    rewrite(&object, |_| "[".repeat(100_000));
    refused(&root_place, "its inventory");
}

#[test]
fn a_key_that_an_inventory_has_twice_is_refused_because_only_one_of_them_would_count() {
    let one = hex::encode(Sha512::digest("one"));
    for (map, entry) in [
        ("\"state\": {", format!("\"{one}\": [\"other\"],")),
        ("\"manifest\": {", format!("\"{one}\": [\"v1/content/other\"],")),
        ("\"versions\": {", "\"v2\": {\"created\": \"2025-06-15T15:06:40Z\", \"state\": {}},".to_owned()),
    ] {
        let (_folder, root, object) = root();
        rewrite(&object, |text| text.replacen(map, &format!("{map}{entry}"), 1));
        refused(&root, "is there twice");
    }
    for (md5, is_refused) in [("00", true), ("01", false)] {
        let (_folder, root, object) = root();
        let fixity = format!("{{\"fixity\": {{\"md5\": {{\"00\": [\"a\"], \"{md5}\": [\"b\"]}}}},");
        rewrite(&object, |text| text.replacen('{', &fixity, 1));
        match is_refused {
            true => refused(&root, "is there twice"),
            false => assert_eq!(read(&root).unwrap().len(), 2),
        }
    }
}

#[test]
fn an_object_that_lost_its_declaration_and_files_that_are_in_no_object_are_named() {
    let (_folder, root_place, object) = root();
    fs::write(root_place.join("README"), "in the root anything may be").unwrap();
    assert_eq!(read(&root_place).unwrap().len(), 2);
    fs::remove_file(object.join("0=ocfl_object_1.1")).unwrap();
    refused(&root_place, "does not declare itself an object");
    fs::remove_file(object.join("inventory.json")).unwrap();
    refused(&root_place, "it has files, and is no object");

    let (_folder, root_place, object) = root();
    let above = object.parent().unwrap();
    fs::write(above.join("stray"), "").unwrap();
    refused(&root_place, "it has files, and is no object");
    // The objects beside it are found.
    let mut found = (0, 0);
    let each = each_object_or_wrong(&root_place, &mut |object| {
        *(if object.is_ok() { &mut found.0 } else { &mut found.1 }) += 1;
        Ok(())
    });
    each.unwrap();
    assert_eq!(found, (1, 1));
}

#[test]
fn objects_of_both_versions_of_ocfl_are_found_side_by_side_and_a_link_to_nothing_declares_none() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c", "d"];
    for (n, name) in names.into_iter().enumerate() {
        let object = folder.path().join("0").join(name);
        fs::create_dir_all(object.join("v1")).unwrap();
        fs::write(object.join(format!("0=ocfl_object_1.{}", n % 2)), "").unwrap();
        fs::write(object.join("inventory.json"), "").unwrap();
    }
    let found = || {
        let (mut objects, mut wrong) = (Vec::new(), Vec::new());
        let each = each_object_or_wrong(folder.path(), &mut |object| {
            match object {
                Ok(object) => objects.push(object.file_name().unwrap().to_str().unwrap().to_owned()),
                Err(error) => wrong.push(error.to_string()),
            }
            Ok(())
        });
        each.unwrap();
        objects.sort();
        (objects, wrong)
    };
    assert_eq!(found(), (names.map(str::to_owned).to_vec(), Vec::new()));
    let declaration = folder.path().join("0/c/0=ocfl_object_1.0");
    fs::remove_file(&declaration).unwrap();
    symlink("nothing", declaration).unwrap();
    let (objects, wrong) = found();
    assert_eq!(objects, ["a", "b", "d"]);
    assert!(wrong.len() == 1 && wrong[0].contains("does not declare itself an object"), "{wrong:?}");
}

#[test]
fn a_version_without_files_is_a_deletion_and_never_the_first_one() {
    let (_folder, root_place, object) = root();
    let empty = |object: &Path, name: &str| {
        let mut inventory = preservation::ocfl::parsed(&fs::read(object.join("inventory.json")).unwrap()).unwrap();
        inventory.versions.get_mut(name).unwrap().state.clear();
        rewrite(object, |_| String::from_utf8(inventory.written().0).unwrap());
    };
    empty(&object, "v2");
    let versions = read(&root_place).unwrap();
    assert!(versions[0].state.is_some() && versions[1].state.is_none());
    empty(&object, "v1");
    refused(&root_place, "its first version has no files");
}
