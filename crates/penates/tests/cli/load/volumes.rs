//! Bags of volumes: exports, and loads of them.

use std::fs;
use std::path::Path;

use super::{files, payload};
use crate::harness::*;

#[test]
fn volumes_are_exported_as_a_bag_and_loaded_back_with_the_same_bytes() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let letter = store.beside("1.txt");
    fs::write(&letter, "a letter").unwrap();
    store.run(&["put", "letters/1.txt", letter.to_str().unwrap()]).ends_with(0);
    let path = |store: &TestStore, name: &str| store.beside(name).to_str().unwrap().to_owned();
    let bag = path(&store, "bag");
    let printed = store.run(&["export", "", &bag, "--as", "bagit"]).ends_with(0);
    assert!(printed.text().starts_with("exported 3 resources and 2 volumes"), "{}", printed.text());
    match crate::validators::is_valid(Path::new(&bag)) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of bags: {reason}")),
    }
    // METS and record are those that were imported, and other programs find them.
    for id in [SMALL, OTHER] {
        let pairtree = hathi::pairtree_path(&hathi::VolumeId::parse(id).unwrap());
        let exported = files(&Path::new(&bag).join("data/volumes").join(pairtree));
        let imported = files(&sample_folder(id));
        for (name, bytes) in imported.iter().filter(|(name, _)| !name.ends_with(".zip")) {
            assert_eq!(exported.get(name), Some(bytes), "{name}");
        }
        assert_eq!(exported.keys().collect::<Vec<_>>(), imported.keys().collect::<Vec<_>>());
    }

    let copy = TestStore::vacant();
    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert!(printed.text().starts_with("loaded 4 resources"), "{}", printed.text());
    assert_eq!(copy.ids(), [SMALL, OTHER]);
    let again = path(&copy, "again");
    copy.run(&["export", "", &again, "--as", "bagit"]).ends_with(0);
    assert_eq!(payload(Path::new(&again)), payload(Path::new(&bag)));
    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 5 unchanged, 0 failed");

    let one = path(&store, "one");
    let printed = store.run(&["export", &format!("volumes/{SMALL}"), &one, "--as", "bagit"]).ends_with(0);
    assert!(printed.text().starts_with("exported 0 resources and 1 volumes"), "{}", printed.text());
}

#[test]
fn the_zip_in_a_bag_has_the_names_of_the_mets_and_an_interrupted_export_does_not_fetch_it_again() {
    // In its METS the names of files are not the sequences of pages.
    const APART: &str = "yale.39002015008130";
    let store = TestStore::with(&[APART]);
    let bag = store.beside("bag");
    let export = || store.run(&["export", "volumes", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    export();
    let whole = files(&bag);
    let copy = TestStore::vacant();
    copy.run(&["load", bag.to_str().unwrap()]).ends_with(0);
    let get = |store: &TestStore| store.run(&["get", APART, "--mets"]).ends_with(0).stdout;
    assert!(get(&copy) == get(&store));

    let len = |ending: &str| {
        let found = whole.iter().find(|(name, _)| name.starts_with("data/") && name.ends_with(ending)).unwrap();
        found.1.len() as u64
    };
    let printed = |bytes: u64| format!("({} of bytes)", penates::output::human_bytes(bytes));
    let without_zip = len(".mets.xml") + len(".json");
    fs::rename(&bag, store.beside("bag.unfinished")).unwrap();
    let told_again = export();
    assert!(told_again.text().contains(&printed(without_zip)), "{}", told_again.text());
    assert_eq!(files(&bag), whole);
    // One that is cut off is fetched again.
    let unfinished = store.beside("bag.unfinished");
    fs::rename(&bag, &unfinished).unwrap();
    let zip = unfinished.join(whole.keys().find(|name| name.ends_with(".zip")).unwrap());
    let bytes = fs::read(&zip).unwrap();
    fs::write(&zip, &bytes[..bytes.len() / 2]).unwrap();
    assert!(!export().text().contains(&printed(without_zip)));
    assert_eq!(files(&bag), whole);
}

#[test]
fn a_zip_with_a_page_that_the_volume_has_not_any_more_does_not_stay_in_a_bag_that_is_continued() {
    let store = TestStore::with(&[SMALL]);
    let bag = store.beside("bag");
    let export = || store.run(&["export", "volumes", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    export();
    let whole = files(&bag);
    let unfinished = store.beside("bag.unfinished");
    fs::rename(&bag, &unfinished).unwrap();
    let zip = unfinished.join(whole.keys().find(|name| name.ends_with(".zip")).unwrap());
    let file = fs::OpenOptions::new().read(true).write(true).open(&zip).unwrap();
    let mut zip = zip::ZipWriter::new_append(file).unwrap();
    zip.start_file("00000999.txt", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut zip, b"withdrawn").unwrap();
    zip.finish().unwrap();
    export();
    assert_eq!(files(&bag), whole);
}

#[test]
fn a_page_that_was_replaced_since_an_export_was_interrupted_is_exported_as_it_is_now() {
    let store = TestStore::with(&[SMALL]);
    let bag = store.beside("bag");
    let args = ["export", "volumes", bag.to_str().unwrap(), "--as", "bagit"];
    store.run(&args).ends_with(0);
    fs::rename(&bag, store.beside("bag.unfinished")).unwrap();
    let server = store.serve(&["--set=auth.write=open"]);
    let page = format!("{}/volumes/{}/pages/1", server.url, SMALL.replace('/', "%2F"));
    let put = ["-sf", "-X", "PUT", "-H", "Content-Type: text/plain", "-d", "another", &page];
    assert!(std::process::Command::new("curl").args(put).status().unwrap().success());
    server.stop("TERM");
    store.run(&args).ends_with(0);
    let exported = files(&bag);
    let zip = exported.iter().find(|(name, _)| name.ends_with(".zip")).unwrap().1;
    assert!(unzip(zip).values().any(|text| text == b"another"), "the earlier ZIP was taken");
}
