//! Volumes are found wherever they are, in order, and an error of one does not hide the others.
use std::fs;
use std::path::Path;

use crate::common::samples;
use hathi::{DiscoverError, VolumeFiles, VolumeId, discover, locate, pairtree_path};

fn id(text: &str) -> VolumeId {
    VolumeId::parse(text).unwrap()
}

/// Puts the (empty) files of a volume into a folder.
fn put(folder: &Path, stem: &str, suffixes: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    for suffix in suffixes {
        fs::write(folder.join(format!("{stem}{suffix}")), "").unwrap();
    }
}

fn found(path: &Path) -> Vec<VolumeFiles> {
    discover(path).collect::<Result<_, _>>().unwrap()
}

fn names(files: &[VolumeFiles]) -> Vec<String> {
    files.iter().map(|files| files.zip.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_path_has_two_characters_per_folder_and_the_rest_in_the_last() {
    let path = |text: &str| pairtree_path(&id(text)).to_string_lossy().into_owned();
    assert_eq!(
        path("uc2.ark:/13960/t3513z38f"),
        "uc2/pairtree_root/ar/k+/=1/39/60/=t/35/13/z3/8f/ark+=13960=t3513z38f"
    );
    assert_eq!(
        path("uc2.ark:/13960/fk3hx15z7z"),
        "uc2/pairtree_root/ar/k+/=1/39/60/=f/k3/hx/15/z7/z/ark+=13960=fk3hx15z7z"
    );
    assert_eq!(path("x.a"), "x/pairtree_root/a/a");
    assert_eq!(path("x.it's.ü"), "x/pairtree_root/it/'s/,^/c3/^b/c/it's,^c3^bc");
}

#[test]
fn the_corpus_is_found_from_its_root_a_library_or_a_folder_within() {
    assert_eq!(found(&samples()).len(), 16);
    assert_eq!(found(&samples().join("uc2")).len(), 6);
    assert_eq!(found(&samples().join("uc2/pairtree_root")).len(), 6);
    let within = found(&samples().join("uc2/pairtree_root/ar/k+/=1/39/60/=t/3s"));
    assert_eq!(within.len(), 1);
    assert_eq!(within[0].id, Some(id("uc2.ark:/13960/t3st7f20z")));
}

#[test]
fn the_path_of_a_zip_or_of_a_mets_names_its_volume() {
    let folder = samples().join(pairtree_path(&id("yale.39002015008130")));
    for suffix in ["zip", "mets.xml"] {
        let files = found(&folder.join(format!("39002015008130.{suffix}")));
        assert_eq!(files, [locate(&samples(), &id("yale.39002015008130")).unwrap()]);
    }
    let record = folder.join("39002015008130.json");
    assert!(matches!(discover(&record).next().unwrap(), Err(DiscoverError::NotAVolume(path)) if path == record));
}

#[test]
fn a_flat_folder_of_pairs_is_read_in_order_of_names_without_ids() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "b", &[".zip", ".mets.xml", ".json"]);
    put(folder.path(), "a", &[".zip", ".mets.xml"]);
    put(folder.path(), "README", &["", ".txt", ".xml"]);
    let files = found(folder.path());
    assert_eq!(names(&files), ["a.zip", "b.zip"]);
    assert_eq!(
        files.iter().map(|files| (files.id.is_some(), files.record.is_some())).collect::<Vec<_>>(),
        [(false, false), (false, true)]
    );
}

#[test]
fn a_zip_or_mets_without_the_other_is_named_and_the_rest_is_found() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a", &[".zip"]);
    put(folder.path(), "b", &[".mets.xml"]);
    put(folder.path(), "c", &[".zip", ".mets.xml"]);
    let results: Vec<_> = discover(folder.path()).collect();
    assert_eq!(results.len(), 3);
    assert!(matches!(&results[0], Err(DiscoverError::MissingMets { zip, .. }) if zip.ends_with("a.zip")));
    assert!(matches!(&results[1], Err(DiscoverError::MissingZip { mets, .. }) if mets.ends_with("b.mets.xml")));
    assert!(results[2].is_ok());
    let mets = folder.path().join("b.mets.xml");
    assert!(matches!(discover(&mets).next().unwrap(), Err(DiscoverError::MissingZip { .. })));
}

#[cfg(unix)]
#[test]
fn a_zip_that_is_no_regular_file_is_refused_before_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a", &[".mets.xml"]);
    put(folder.path(), "b", &[".zip", ".mets.xml"]);
    let [pipe, mets] = ["a.zip", "a.mets.xml"].map(|name| folder.path().join(name));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let results: Vec<_> = discover(folder.path()).collect();
    assert!(matches!(results.as_slice(), [Err(DiscoverError::NotAFile(zip)), Ok(_)] if *zip == pipe), "{results:?}");
    for asked_for in [&pipe, &mets] {
        let error = discover(asked_for).next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), format!("{} is no regular file", pipe.display()));
    }
}

#[test]
fn a_name_in_a_pairtree_that_is_not_a_cleaned_id_is_reported() {
    let root = tempfile::tempdir().unwrap();
    put(&root.path().join("lib/pairtree_root/co/py/copy"), "copy (1)", &[".zip", ".mets.xml"]);
    let error = discover(root.path()).next().unwrap().unwrap_err();
    assert!(matches!(&error, DiscoverError::Name { .. }), "{error}");
    assert!(error.to_string().contains("copy (1).zip"), "{error}");
}

#[test]
fn a_missing_path_is_an_error_that_names_it() {
    let root = tempfile::tempdir().unwrap();
    let nowhere = root.path().join("nowhere");
    let results: Vec<_> = discover(&nowhere).collect();
    assert!(matches!(results.as_slice(), [Err(DiscoverError::Io { path, .. })] if *path == nowhere));
    assert_eq!(discover(root.path()).count(), 0);

    let missing = id("lib.x");
    let error = locate(root.path(), &missing).unwrap_err();
    assert!(matches!(&error, DiscoverError::NoSuchVolume { id, .. } if *id == missing), "{error}");
    put(&root.path().join(pairtree_path(&missing)), "x", &[".zip"]);
    assert!(matches!(locate(root.path(), &missing), Err(DiscoverError::MissingMets { .. })));
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    put(elsewhere.path(), "far", &[".zip", ".mets.xml"]);
    put(root.path(), "near", &[".zip", ".mets.xml"]);
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join("link")).unwrap();
    std::os::unix::fs::symlink(root.path(), elsewhere.path().join("back")).unwrap();
    assert_eq!(names(&found(root.path())), ["far.zip", "near.zip"]);
}
