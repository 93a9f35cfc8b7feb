//! An export to OCFL, checked by rocfl. It is another implementation than ocfl-py, and is built here
//! from its registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo_installed;
use crate::harness::*;
use crate::ocfl_volumes;

fn rocfl() -> PathBuf {
    // Without its default features it knows no object stores.
    cargo_installed("rocfl", "1.7.0", &["--no-default-features"])
}

/// Whether it finds a storage root and all of its objects valid.
fn is_valid(root: &Path) -> bool {
    let validated = Command::new(rocfl()).arg("-r").arg(root).arg("validate").output().unwrap();
    println!("{}", String::from_utf8_lossy(&validated.stdout));
    validated.status.success()
}

#[test]
#[ignore = "it builds rocfl, which takes minutes: `cargo xtask proofs` runs it"]
fn rocfl_finds_an_export_with_volumes_and_deleted_resources_valid_until_a_byte_changes() {
    let store = ocfl_volumes::library();
    let letter = store.beside("letter.txt");
    fs::write(&letter, "a letter").unwrap();
    for path in ["letters/100% \u{fc}=2E..", "letters/gone"] {
        store.run(&["put", path, letter.to_str().unwrap()]).ends_with(0);
    }
    store.run(&["rm", "letters/gone"]).ends_with(0);
    let root = store.beside("archive");
    let printed = ocfl_volumes::run(&store, &["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    assert!(printed.text().starts_with("exported 4 resources and 3 volumes"), "{}", printed.text());
    assert!(is_valid(&root));
    let page = ocfl_volumes::object(&root, SMALL).join("v1/content/pages/00000003.txt");
    fs::write(page, "another text").unwrap();
    assert!(!is_valid(&root), "it finds nothing");
}
