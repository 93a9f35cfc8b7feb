//! `penates synth`

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::*;

/// All files below a folder, by their paths.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(folder).unwrap().display().to_string(), fs::read(path).unwrap());
            }
        }
    }
    files
}

#[test]
fn the_same_seed_makes_the_same_pairtree_and_another_seed_another() {
    let place = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: &str| {
        let out = place.path().join(name);
        let args = ["synth", "--volumes", "3", "--pages", "20", "--seed", seed, "--out", out.to_str().unwrap()];
        Ran::of(penates(&args)).ends_with(0);
        tree(&out)
    };
    let first = make("a", "5");
    assert_eq!(first.len(), 9);
    assert!(first == make("b", "5"));
    assert!(first != make("c", "6"));
}

#[test]
fn synthetic_volumes_are_the_same_in_a_folder_and_in_a_store() {
    let store = TestStore::vacant();
    let out = store.beside("corpus");
    let options = ["--volumes", "4", "--pages", "15", "--page-scale", "0.5"];
    let made = store.run(&[&["synth", "--json"], &options[..]].concat()).ends_with(0).json();
    assert_eq!((&made["new"], &made["pages"]), (&json!(4), &json!(60)));
    store.run(&["verify"]).ends_with(0);
    let written = penates(&[&["synth", "--json", "--out", out.to_str().unwrap()], &options[..]].concat());
    assert_eq!(Ran::of(written).ends_with(0).json(), made);
    let imported = store.run(&["import", "--json", out.to_str().unwrap()]).ends_with(0).json();
    assert_eq!((&imported["unchanged"], &imported["new"]), (&json!(4), &json!(0)));
}
