//! Bags and storage roots of other programs, whose files become resources below a container.

use std::fs;
use std::path::{Path, PathBuf};

use preservation::bagit::text::Algorithm;
use preservation::ocfl::inventory::{Inventory, Paths, User, Version};

use super::{cat, digest, put};
use crate::harness::*;

#[test]
fn the_files_of_a_bag_of_another_program_become_resources_below_a_container() {
    let store = TestStore::vacant();
    let bag = store.beside("bag");
    fs::create_dir_all(bag.join("data/scans/a b")).unwrap();
    let contents: [(&str, &[u8]); 5] = [
        ("graph.ttl", b"<> a <http://example.org/Graph> ."),
        ("note.txt", b"a note"),
        ("scans/1.tif", &[7; 300_000]),
        ("scans/a b/100%.bin", b"odd"),
        ("scans/x=about.json", b"{}"),
    ];
    let mut manifest = String::new();
    for (name, bytes) in contents {
        fs::write(bag.join("data").join(name), bytes).unwrap();
        let digest: String =
            <md5::Md5 as md5::Digest>::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        manifest.push_str(&format!("{digest}  data/{}\n", name.replace('%', "%25")));
    }
    fs::write(bag.join("manifest-md5.txt"), &manifest).unwrap();
    fs::write(bag.join("bagit.txt"), "BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n").unwrap();
    let info = "Source-Organization: An archive\nExternal-Description: Letters\n of 1834\nContact-Name: \"A\" B\n";
    fs::write(bag.join("bag-info.txt"), info).unwrap();
    let bag_path = bag.to_str().unwrap().to_owned();

    let refused = store.run(&["load", &bag_path]).ends_with(1);
    assert!(refused.stderr.contains("--into"), "{}", refused.stderr);
    assert!(!store.path().exists(), "a store was made");
    let load = || store.run(&["load", "--into", "deposits/7", &bag_path]);
    let printed = load().ends_with(0);
    // The files, and the containers deposits, deposits/7, scans and a b.
    assert!(printed.text().starts_with("loaded 9 resources"), "{}", printed.text());
    for (name, bytes) in contents {
        assert_eq!(store.run(&["cat", &format!("deposits/7/{name}")]).ends_with(0).stdout, bytes, "{name}");
    }
    let said = store.run(&["cat", "deposits/7", "--accept", "application/n-triples"]).ends_with(0);
    for line in [
        "<http://purl.org/dc/terms/source> \"An archive\"",
        "<http://purl.org/dc/terms/description> \"Letters of 1834\"",
        "<http://www.w3.org/2000/01/rdf-schema#comment> \"Contact-Name: \\\"A\\\" B\"",
    ] {
        assert!(said.text().contains(line), "{line}: {}", said.text());
    }
    assert_eq!(load().ends_with(0).text().trim(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");

    // What is hostile in a bag loads nothing.
    let other = |change: &dyn Fn()| {
        change();
        let refused = store.run(&["load", "--into", "deposits/8", &bag_path]).ends_with(1);
        assert!(refused.stderr.contains("nothing was loaded"), "{}", refused.stderr);
        assert_eq!(store.run(&["cat", "deposits/8"]).code, 1);
    };
    other(&|| {
        fs::write(bag.join("manifest-md5.txt"), format!("{manifest}{}  ../../etc/passwd\n", "0".repeat(32))).unwrap()
    });
    other(&|| {
        fs::write(bag.join("manifest-md5.txt"), format!("{manifest}{}  data/fetched\n", "0".repeat(32))).unwrap()
    });
    fs::write(bag.join("manifest-md5.txt"), &manifest).unwrap();
    other(&|| std::os::unix::fs::symlink("/etc/passwd", bag.join("data/link")).unwrap());
}

/// An object of another program: the files of each version.
fn object(root: &Path, id: &str, versions: &[&[(&str, &str)]]) {
    let folder = root.join(id.replace(['/', ':'], "_"));
    let mut inventory = Inventory::new(id);
    for (n, files) in versions.iter().enumerate() {
        let (name, mut state) = (format!("v{}", n + 1), Paths::new());
        for (path, content) in *files {
            let digest = digest(Algorithm::Sha512, content.as_bytes());
            state.entry(digest.clone()).or_default().push((*path).to_owned());
            inventory.manifest.entry(digest).or_insert_with(|| {
                let place = format!("{name}/content/{path}");
                fs::create_dir_all(folder.join(&place).parent().unwrap()).unwrap();
                fs::write(folder.join(&place), content).unwrap();
                vec![place]
            });
        }
        let user = Some(User { name: "An archivist".to_owned(), address: None });
        let created = format!("2020-01-0{}T00:00:00Z", n + 1);
        inventory.versions.insert(name.clone(), Version { created, message: Some(format!("change {n}")), user, state });
        inventory.head = name;
    }
    let (text, sidecar) = inventory.written();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("inventory.json"), text).unwrap();
    fs::write(folder.join("inventory.json.sha512"), sidecar).unwrap();
    fs::write(folder.join("0=ocfl_object_1.1"), "ocfl_object_1.1\n").unwrap();
}

#[test]
fn the_objects_of_another_program_become_containers_with_their_versions() {
    let store = TestStore::vacant();
    let root = store.beside("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("0=ocfl_1.1"), "ocfl_1.1\n").unwrap();
    let versions: [&[(&str, &str)]; 4] = [
        &[("a.txt", "one"), ("b/c.txt", "c")],
        &[("a.txt", "two"), ("b/c.txt", "c"), ("same.txt", "two")],
        &[("a.txt", "two")],
        &[("a.txt", "one"), ("b/c.txt", "again")],
    ];
    object(&root, "info:x/1", &versions[..3]);
    object(&root, "plain", &[&[("a.txt", "plain")]]);
    let load = || store.run(&["load", "--into", "archive", root.to_str().unwrap()]);
    assert!(load().ends_with(0).text().starts_with("loaded 2 resources"));
    let cat = |path: &str| store.run(&["cat", &format!("archive/info=3Ax=2F1/{path}")]);
    assert_eq!(cat("a.txt").ends_with(0).stdout, b"two");
    assert_ne!(cat("b/c.txt").code, 0, "a file of an earlier version is there");
    assert_eq!(store.run(&["cat", "archive/plain/a.txt"]).ends_with(0).stdout, b"plain");
    let said = store.run(&["cat", "archive/info=3Ax=2F1", "--accept", "application/n-triples"]).ends_with(0);
    for text in ["\"info:x/1\"", "\"v3\"", "\"2020-01-03T00:00:00Z\"", "\"change 2\"", "\"An archivist\""] {
        assert!(said.text().contains(text), "{text}: {}", said.text());
    }
    let history = |path: &str| {
        let history = store.run(&["history", &format!("archive/info=3Ax=2F1/{path}")]).ends_with(0);
        history.text().lines().count()
    };
    assert_eq!(history("a.txt"), 2);
    assert_eq!(load().ends_with(0).text().trim(), "loaded 0 resources (0 B of bytes), 2 unchanged, 0 failed");

    // A further version is added, also by a load that was interrupted within it.
    fs::remove_dir_all(root.join("info_x_1")).unwrap();
    object(&root, "info:x/1", &versions);
    let again = store.beside("again");
    fs::write(&again, "again").unwrap();
    let interrupted = ["put", "archive/info=3Ax=2F1/b/c.txt", again.to_str().unwrap(), "--type", "text/plain"];
    store.run(&["rm", "--forget", "archive/info=3Ax=2F1/b/c.txt"]);
    store.run(&interrupted).ends_with(0);
    assert!(load().ends_with(0).text().starts_with("loaded 1 resources"));
    assert_eq!(cat("a.txt").ends_with(0).stdout, b"one");
    assert_eq!(cat("b/c.txt").ends_with(0).stdout, b"again");
    assert_eq!(history("a.txt"), 3);

    // Something else in its place stays.
    store.run(&["put", "other/plain", again.to_str().unwrap(), "--type", "text/plain"]).ends_with(0);
    let refused = store.run(&["load", "--into", "other", root.to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("plain") && refused.text().contains("1 failed"), "{}", refused.stderr);
    assert_eq!(store.run(&["cat", "other/plain"]).ends_with(0).stdout, b"again");

    fs::write(root.join("plain/v1/content/a.txt"), "Plain").unwrap();
    let refused = store.run(&["load", "--into", "new", root.to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("nothing was loaded"), "{}", refused.stderr);
}

/// A storage root of another program, and a store for it.
fn foreign() -> (TestStore, PathBuf) {
    let store = TestStore::vacant();
    let root = store.beside("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("0=ocfl_1.1"), "ocfl_1.1\n").unwrap();
    (store, root)
}

/// Loads a storage root of another program below `archive`. Returns what it printed.
fn load_foreign(store: &TestStore, root: &Path, code: i32) -> String {
    let ran = store.run(&["load", "--into", "archive", root.to_str().unwrap()]).ends_with(code);
    format!("{}{}", ran.text(), ran.stderr)
}

#[test]
fn what_was_changed_here_stays_when_a_later_version_of_an_object_changes_or_deletes_it() {
    let (store, root) = foreign();
    let versions: [&[(&str, &str)]; 2] =
        [&[("a.txt", "one"), ("b.txt", "b"), ("c/d.txt", "d")], &[("a.txt", "two"), ("new.txt", "new")]];
    object(&root, "plain", &versions[..1]);
    load_foreign(&store, &root, 0);
    fs::remove_dir_all(root.join("plain")).unwrap();
    object(&root, "plain", &versions);
    for (name, ours, loaded) in [("b.txt", "my b", "b"), ("a.txt", "my a", "one")] {
        let path = format!("archive/plain/{name}");
        put(&store, &path, ours);
        for _ in 0..2 {
            let printed = load_foreign(&store, &root, 1);
            assert!(printed.contains("1 failed") && printed.contains(&format!("/{path}")), "{printed}");
            assert_eq!(cat(&store, &path), ours);
        }
        put(&store, &path, loaded);
    }
    load_foreign(&store, &root, 0);
    assert_eq!(cat(&store, "archive/plain/a.txt"), "two");
    assert_eq!(cat(&store, "archive/plain/new.txt"), "new");
    for gone in ["b.txt", "c/d.txt", "c"] {
        store.run(&["cat", &format!("archive/plain/{gone}")]).ends_with(1);
    }
    assert!(load_foreign(&store, &root, 0).contains("loaded 0 resources"));
}

#[test]
fn a_folder_becomes_a_file_and_a_file_a_folder_in_a_later_version_of_an_object() {
    let (store, root) = foreign();
    let versions: [&[(&str, &str)]; 2] = [&[("a/b/c", "deep"), ("x", "file")], &[("a", "file"), ("x/y", "deep")]];
    object(&root, "plain", &versions);
    load_foreign(&store, &root, 0);
    assert_eq!(cat(&store, "archive/plain/a"), "file");
    assert_eq!(cat(&store, "archive/plain/x/y"), "deep");
    assert!(load_foreign(&store, &root, 0).contains("loaded 0 resources"));
    // A folder with something else in it stays.
    object(&root, "other", &versions[..1]);
    load_foreign(&store, &root, 0);
    put(&store, "archive/other/a/mine", "mine");
    fs::remove_dir_all(root.join("other")).unwrap();
    object(&root, "other", &versions);
    let printed = load_foreign(&store, &root, 1);
    assert!(printed.contains("/archive/other/a: there is a resource of another kind"), "{printed}");
    assert_eq!(cat(&store, "archive/other/a/mine"), "mine");
}

#[test]
fn two_objects_with_one_identifier_are_named_before_anything_is_loaded() {
    let (store, root) = foreign();
    object(&root, "plain", &[&[("a.txt", "one")]]);
    copy_folder(&root.join("plain"), &root.join("again"));
    let printed = load_foreign(&store, &root, 1);
    assert!(printed.contains("is the object plain too") && printed.contains("nothing was loaded"), "{printed}");
    assert!(!store.path().exists(), "a store was made");
}
