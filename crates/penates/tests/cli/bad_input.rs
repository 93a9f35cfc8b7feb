//! Invalid volumes and invalid command lines.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::*;

/// Imports copies of valid volumes in one folder, of which `spoil` makes one invalid. Returns the
/// import's report.
fn import_spoilt(spoil: impl FnOnce(&Path)) -> Vec<Value> {
    let store = TestStore::vacant();
    let corpus = store.beside("corpus");
    copy_folder(&sample_folder(SMALL), &corpus.join("bad"));
    copy_folder(&sample_folder(OTHER), &corpus.join("good"));
    spoil(&corpus.join("bad"));
    let failed = store.beside("failed.jsonl");
    let args = ["import", "--failed", failed.to_str().unwrap(), corpus.to_str().unwrap()];
    let ran = store.run(&args).ends_with(1);
    assert!(ran.stderr.contains("failed: "), "{}", ran.stderr);
    assert_eq!(store.ids(), [OTHER], "the good one is there, and nothing of the bad one");
    store.run(&["verify"]).ends_with(0);
    let dry_run = store.run(&["import", "--dry-run", "--json", corpus.to_str().unwrap()]).ends_with(1).json();
    assert_eq!(dry_run["failed"], 1);
    fs::read_to_string(failed).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_one(failed: &[Value], kind: &str, reason: &str) {
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["kind"], kind, "{failed:?}");
    assert!(failed[0]["reason"].as_str().unwrap().contains(reason), "{failed:?}");
    assert!(failed[0]["path"].as_str().unwrap().contains("bad"), "{failed:?}");
}

#[test]
fn a_truncated_zip() {
    let failed = import_spoilt(|folder| {
        let zip = file_with_suffix(folder, ".zip");
        let bytes = fs::read(&zip).unwrap();
        fs::write(&zip, &bytes[..bytes.len() / 2]).unwrap();
    });
    assert_one(&failed, "zip", "ZIP");
}

#[test]
fn a_zip_with_a_flipped_byte() {
    let failed = import_spoilt(|folder| {
        let zip = file_with_suffix(folder, ".zip");
        let mut bytes = fs::read(&zip).unwrap();
        let middle = bytes.len() / 3;
        bytes[middle] ^= 0x55;
        fs::write(&zip, bytes).unwrap();
    });
    assert_eq!(failed.len(), 1, "{failed:?}");
}

#[test]
fn mets_with_a_wrong_checksum() {
    let failed = import_spoilt(|folder| {
        replace_in_mets(folder, |mets| {
            // The checksums of empty pages are those of nothing: spoil another page's.
            let ocr = mets.find("USE=\"ocr\"").unwrap();
            let at = ocr + mets[ocr..].find("CHECKSUM=\"").unwrap() + "CHECKSUM=\"".len();
            let digit = if mets.as_bytes()[at] == b'0' { "1" } else { "0" };
            format!("{}{digit}{}", &mets[..at], &mets[at + 1..])
        });
    });
    assert_one(&failed, "checksum", "00000001");
}

#[test]
fn mets_that_names_a_page_the_zip_lacks() {
    let failed = import_spoilt(|folder| {
        replace_in_mets(folder, |mets| mets.replace("00000007.txt", "00009999.txt"));
    });
    assert_one(&failed, "missing-page", "00009999.txt");
}

#[test]
fn mets_that_is_no_xml() {
    let failed = import_spoilt(|folder| replace_in_mets(folder, |_| "<mets><".to_owned()));
    assert_one(&failed, "mets", "");
}

#[test]
fn mets_of_a_gigabyte() {
    let failed = import_spoilt(|folder| {
        let mets = fs::File::create(file_with_suffix(folder, ".mets.xml")).unwrap();
        mets.set_len(1 << 30).unwrap();
    });
    assert_one(&failed, "mets", "more than the 67108864 that are read");
}

#[test]
fn a_pipe_instead_of_a_zip() {
    let failed = import_spoilt(|folder| {
        let zip = file_with_suffix(folder, ".zip");
        fs::remove_file(&zip).unwrap();
        assert!(Command::new("mkfifo").arg(&zip).status().unwrap().success());
    });
    assert_one(&failed, "not-a-volume", "is no regular file");
}

#[test]
fn a_zip_without_mets() {
    let failed = import_spoilt(|folder| fs::remove_file(file_with_suffix(folder, ".mets.xml")).unwrap());
    assert_one(&failed, "missing-mets", "no METS");
}

#[test]
fn a_record_of_another_volume() {
    let failed = import_spoilt(|folder| {
        let record = file_with_suffix(folder, ".json");
        let text = fs::read_to_string(&record).unwrap();
        fs::write(&record, text.replace("t0ks80527", "t0ks80528")).unwrap();
    });
    assert_one(&failed, "id-mismatch", "t0ks80528");
}

fn replace_in_mets(folder: &Path, change: impl FnOnce(String) -> String) {
    let mets = file_with_suffix(folder, ".mets.xml");
    let text = fs::read_to_string(&mets).unwrap();
    fs::write(&mets, change(text)).unwrap();
}

#[test]
fn invalid_command_lines_have_exit_code_2_and_change_nothing() {
    let store = TestStore::vacant();
    let nowhere = store.beside("nowhere");
    let cases: &[&[&str]] = &[
        &["get", "no-volume-id"],
        &["get"],
        &["get", "--pages", "uc2.x[0]"],
        &["get", "a.b", "--level", "10"],
        &["get", "a.b", "--pages", "a.b[1]"],
        &["delete"],
        &["ls", "nodot"],
        &["import", nowhere.to_str().unwrap()],
        &["synth", "--volumes", "0"],
        &["synth", "--volumes", "1", "--page-scale", "0"],
        &["get", "--ids", nowhere.to_str().unwrap()],
        &["import", "--ids", nowhere.to_str().unwrap(), "."],
        &["ls", "--set", "nonsense"],
        &["ls", "--set", "store.no_such_key=1"],
        &["ls", "--config", nowhere.to_str().unwrap()],
        &["audit", "--from", "yesterday"],
        &["import", "--dry-run", "--force", "."],
        &["token", "create", "x", "--scope", "bogus"],
        &["token", "create", "x", "--expires", "99999years"],
    ];
    for case in cases {
        let ran = store.run(case).ends_with(2);
        assert!(!ran.stderr.is_empty(), "{case:?}");
    }
    let filled = TestStore::with(&[SMALL]);
    let conflicting = filled.run(&["get", SMALL, "--layout", "wordseq", "--mets"]).ends_with(2);
    assert!(conflicting.stderr.contains("Conflicting parameters"), "{}", conflicting.stderr);
    let ran = store.run(&["config", "--listen", "nonsense"]).ends_with(2);
    assert!(ran.stderr.contains("configuration: `listen.http` (flag): "), "{}", ran.stderr);
    let ran = Ran::of(penates(&["ls", "--server", "ftp://somewhere"])).ends_with(2);
    assert!(ran.stderr.contains("ftp://somewhere"), "{}", ran.stderr);
    assert!(!store.path().exists());
}

#[test]
fn a_standard_error_that_takes_nothing_ends_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut stat = penates(&["stat", "--store", "missing"]);
    let status = stat.current_dir(folder.path()).stderr(full).stdout(std::process::Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(3));
}
