//! Exports of trees of resources, checked by the validator of the Library of Congress.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::*;

/// The validator, as its registry names it.
const BAGIT: &str = "bagit==1.9.0";

/// A Python with the validator, which is fetched once and kept from run to run.
fn python() -> Result<PathBuf, String> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(BAGIT.replace("==", "-"));
    let python = kept.join("bin/python3");
    if run(Command::new(&python).args(["-c", "import bagit"])).is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&kept))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", BAGIT]))?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Whether the validator finds a bag valid; an error if it cannot run.
fn is_valid(bag: &Path) -> Result<bool, String> {
    let python = python()?;
    Ok(run(Command::new(python).args(["-m", "bagit", "--validate", "--quiet"]).arg(bag)).is_ok())
}

fn tree() -> TestStore {
    let store = TestStore::vacant();
    let file = |name: &str, content: &[u8]| {
        let file = store.beside(name);
        fs::write(&file, content).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let graph = file("graph.ttl", b"<> <http://purl.org/dc/terms/title> \"Letters\" .");
    let (small, large) = (file("small.txt", b"a letter"), file("large.bin", &vec![7; 300_000]));
    store.run(&["put", "letters", &graph]).ends_with(0);
    store.run(&["put", "letters/1.txt", &small]).ends_with(0);
    store.run(&["put", "letters/100% \u{fc}=2E..", &large]).ends_with(0);
    store.run(&["put", "letters/deep", &graph]).ends_with(0);
    store.run(&["put", "letters/deep/empty", &file("empty.bin", b""), "--type", "image/png"]).ends_with(0);
    store
}

#[test]
fn a_tree_is_exported_as_a_bag_that_its_validator_finds_valid_until_a_byte_changes() {
    let store = tree();
    let bag = store.beside("bag");
    let told = store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    assert!(told.text().starts_with("exported 5 resources"), "{}", told.text());
    let read = |name: &str| fs::read(bag.join("data").join(name)).unwrap();
    assert_eq!(read("letters/1.txt"), b"a letter");
    assert_eq!(read("letters/100=25=20=C3=BC=3D2E.=2E"), vec![7; 300_000]);
    assert_eq!(read("letters/deep/empty"), b"");
    let about: serde_json::Value = serde_json::from_slice(&read("letters/deep/empty=about.json")).unwrap();
    assert_eq!((&about["path"], &about["content_type"]), (&"letters/deep/empty".into(), &"image/png".into()));
    let description = String::from_utf8(read("letters=description.nt")).unwrap();
    assert!(description.contains("\"Letters\""), "{description}");
    assert!(!description.contains("ldp#contains") && !description.contains("lastModified"), "{description}");
    match is_valid(&bag) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => return store_cassandra::testing::not_run(&format!("a validator of bags: {reason}")),
    }
    fs::write(bag.join("data/letters/1.txt"), b"A letter").unwrap();
    assert_eq!(is_valid(&bag), Ok(false), "the validator finds nothing");
}

#[test]
fn an_export_of_damaged_bytes_fails_and_leaves_nothing_that_looks_whole() {
    let store = tree();
    let shards = fs::read_dir(store.path().join("contents")).unwrap().map(|shard| shard.unwrap().path());
    let content = shards.flat_map(|shard| fs::read_dir(shard).unwrap()).next().unwrap().unwrap().path();
    let mut bytes = fs::read(&content).unwrap();
    bytes[200_000] ^= 1;
    fs::write(&content, bytes).unwrap();
    let bag = store.beside("bag");
    let export = || store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]);
    let failed = export();
    assert!(failed.code != 0 && failed.stderr.contains("letters/100%"), "{}", failed.stderr);
    assert!(!bag.exists());
    let unfinished = store.beside("bag.unfinished");
    assert!(!unfinished.exists(), "what cannot be finished is deleted");
    fs::create_dir(&unfinished).unwrap();
    let refused = export();
    assert!(refused.code != 0 && refused.stderr.contains("delete it and export again"), "{}", refused.stderr);
}
