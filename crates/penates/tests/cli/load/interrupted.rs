//! Loads that go on where an earlier one was interrupted.

use std::fs;
use std::path::Path;

use super::{cat, exported_note, put, states, tree};
use crate::harness::*;

#[test]
fn a_load_continues_where_it_was_interrupted_and_changes_nothing_else_that_is_there() {
    let store = tree();
    let bag = store.beside("bag").to_str().unwrap().to_owned();
    store.run(&["export", "letters", &bag, "--as", "bagit"]).ends_with(0);
    let copy = TestStore::vacant();
    let put = |path: &str, content: &str, media_type: &str| {
        let file = copy.beside("file");
        fs::write(&file, content).unwrap();
        copy.run(&["put", path, file.to_str().unwrap(), "--type", media_type]).ends_with(0);
    };
    // As an interrupted load leaves it: the bytes, and no description yet.
    put("letters/1.txt", "a letter", "text/plain");
    // Something else in the place of others.
    put("letters/deep", "<> <http://purl.org/dc/terms/title> \"Other\" .", "text/turtle");
    put("letters/deep/empty", "not empty", "image/png");
    put("letters/deep/graph", "bytes", "image/png");
    let printed = copy.run(&["load", &bag]).ends_with(1);
    assert_eq!(printed.text().trim(), "loaded 5 resources (300.0 kB of bytes), 0 unchanged, 3 failed");
    for reason in ["deep: there is a resource with other statements", "empty: there is a resource with other bytes"] {
        assert!(printed.stderr.contains(reason), "{}", printed.stderr);
    }
    assert!(printed.stderr.contains("deep/graph: "), "{}", printed.stderr);
    let cat = |path: &str| copy.run(&["cat", path]).ends_with(0).stdout;
    assert_eq!(cat("letters/deep/empty"), b"not empty");
    assert_eq!(cat("letters/deep/graph"), b"bytes");
    assert!(String::from_utf8(cat("letters/1.txt/fcr:metadata")).unwrap().contains("One"));
}

#[test]
fn a_load_goes_on_that_was_interrupted_after_it_deleted_what_it_creates_again() {
    let store = TestStore::vacant();
    let root = store.beside("archive");
    let export = || store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    put(&store, "note", "first");
    store.run(&["rm", "note"]).ends_with(0);
    export();
    store.run(&["rm", "note", "--forget"]);
    put(&store, "note", "second");
    put(&store, "note", "third");
    export();
    for interrupted in [&["rm", "note"][..], &["rm", "note", "--forget"]] {
        let copy = TestStore::vacant();
        put(&copy, "note", "first");
        copy.run(interrupted).ends_with(0);
        let load = || copy.run(&["load", root.to_str().unwrap()]).ends_with(0).text().trim().to_owned();
        assert!(load().starts_with("loaded 1 resources"));
        assert_eq!(states(&copy, "note"), ["first\n", "second\n", "third\n"]);
        assert!(load().starts_with("loaded 0 resources"));
    }
    // One that the repository deleted itself stays deleted.
    let copy = TestStore::vacant();
    put(&copy, "note", "another");
    copy.run(&["rm", "note"]).ends_with(0);
    copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    copy.run(&["cat", "note"]).ends_with(1);
}

#[test]
fn a_load_that_fails_before_its_first_change_leaves_the_store_of_a_finished_one_open() {
    let (there, first, _) = exported_note();
    put(&there, "other", "another");
    let second = there.beside("second");
    there.run(&["export", "other", second.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let store = TestStore::vacant();
    let load = |root: &Path, more: &[&str]| store.run(&[&["load", root.to_str().unwrap()][..], more].concat());
    load(&first, &[]).ends_with(0);
    let mark = store.path().join("load.json");
    let of_first = fs::read_to_string(&mark).unwrap();
    assert_ne!(load(&second, &["--base", "/elsewhere/"]).code, 0);
    assert_eq!(fs::read_to_string(&mark).unwrap(), of_first);
    // It was the base.
    load(&second, &[]).ends_with(0);
    assert_eq!(cat(&store, "other"), "another");

    // The same once more, and then another command.
    let copy = TestStore::vacant();
    copy.run(&["load", first.to_str().unwrap()]).ends_with(0);
    assert_ne!(copy.run(&["load", second.to_str().unwrap(), "--base", "/elsewhere/"]).code, 0);
    copy.run(&["verify"]).ends_with(0);
    assert!(!copy.path().join("load.json").exists(), "it is no store of loads any more");
}
