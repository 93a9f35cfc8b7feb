//! Resources whose bytes are damaged on the disk: the reports of the server, `verify` and `stat`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::harness::*;

const LEN: usize = 1_000_000;

const SOUND_VOLUME: &str = "yale.39002015008130";

/// Bytes without repetition.
fn scan() -> Vec<u8> {
    (0..LEN as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn put(store: &TestStore, resource: &str) {
    let file = store.beside("scan.bin");
    fs::write(&file, scan()).unwrap();
    store.run(&["put", resource, file.to_str().unwrap()]).ends_with(0);
}

/// The file of the only content.
fn file_of_content(store: &TestStore) -> PathBuf {
    let shards = fs::read_dir(store.path().join("contents")).unwrap().map(|shard| shard.unwrap().path());
    let mut files = shards.flat_map(|shard| fs::read_dir(shard).unwrap()).map(|file| file.unwrap().path());
    let file = files.next().unwrap();
    assert!(files.next().is_none(), "there are several contents");
    file
}

fn flip(store: &TestStore, at: usize) {
    let file = file_of_content(store);
    let mut content = fs::read(&file).unwrap();
    content[at] ^= 1;
    fs::write(file, content).unwrap();
}

/// The result of curl: its exit code, the status, and the bytes.
fn get(served: &Served, path: &str, more: &[&str]) -> (i32, String, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    let mut curl = Command::new("curl");
    curl.args(["-s", "-w", "%{http_code}", "-o", body.to_str().unwrap()]).args(more);
    let got = curl.arg(format!("{}{path}", served.url)).output().unwrap();
    let status = String::from_utf8(got.stdout).unwrap();
    (got.status.code().unwrap(), status, fs::read(body).unwrap_or_default())
}

/// Exit codes of curl: fewer bytes than promised, and an HTTP/2 stream that was reset.
const CUT_SHORT: i32 = 18;
const RESET: i32 = 92;

#[test]
fn a_response_that_meets_damaged_bytes_ends_visibly_broken() {
    for (version, exit) in [("--http1.1", CUT_SHORT), ("--http2-prior-knowledge", RESET)] {
        let store = TestStore::vacant();
        put(&store, "letters/scan");
        flip(&store, 700_000);
        let served = store.serve(&[]);
        let (code, status, body) = get(&served, "/rest/letters/scan", &[version]);
        assert_eq!((code, status.as_str()), (exit, "200"), "{version}");
        assert!(body.len() <= 700_000 && scan().starts_with(&body), "{version}: wrong bytes were sent");

        // The damage is known now: no whole content is promised any more, but sound ranges can be
        // read.
        for more in [&[version][..], &[version, "--head"], &[version, "-r", "700000-700000"]] {
            let (_, status, body) = get(&served, "/rest/letters/scan", more);
            assert_eq!(status, "500", "{more:?}");
            assert!(more.contains(&"--head") || String::from_utf8_lossy(&body).contains("damaged"), "{more:?}");
        }
        let (code, status, body) = get(&served, "/rest/letters/scan", &[version, "-r", "1000-99999"]);
        assert_eq!((code, status.as_str()), (0, "206"));
        assert!(body == scan()[1000..100_000]);
        let (code, _, body) = get(&served, "/rest/letters", &[version, "-H", "Accept: application/zip"]);
        assert_eq!(code, 0, "an archive breaks at known damage");
        let errors = String::from_utf8(unzip(&body)["ERROR.err"].clone()).unwrap();
        assert!(errors.contains("damaged: /letters/scan"), "{errors}");
    }
}

#[test]
fn a_damaged_first_block_or_a_missing_file_is_an_error_before_anything_is_sent() {
    let store = TestStore::vacant();
    put(&store, "scan");
    flip(&store, 0);
    let served = store.serve(&[]);
    let (code, status, body) = get(&served, "/rest/scan", &[]);
    assert_eq!((code, status.as_str()), (0, "500"));
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["kind"], "damaged", "{problem}");
    flip(&store, 0);
    fs::remove_file(file_of_content(&store)).unwrap();
    let (_, status, body) = get(&served, "/rest/scan", &["-r", "500000-"]);
    assert_eq!(status, "500", "{}", String::from_utf8_lossy(&body));
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("the bytes of /scan") && detail.contains("missing"), "{problem}");
}

#[test]
fn verify_reads_resources_and_reports_which_are_damaged() {
    let store = TestStore::with(&[SMALL]);
    put(&store, "letters/scan");
    let sound = store.run(&["verify"]).ends_with(0);
    assert_eq!(sound.text(), "volumes: 1 sound, 0 damaged, 0 failed\nresources: 3 sound, 0 damaged, 0 failed\n");

    flip(&store, 123_456);
    let damaged = store.run(&["verify"]).ends_with(1);
    assert!(damaged.text().contains("damaged /letters/scan: bytes: "), "{}", damaged.text());
    assert!(damaged.text().contains("resources: 2 sound, 1 damaged, 0 failed"), "{}", damaged.text());
    assert_eq!(store.run(&["stat", "--json"]).ends_with(0).json()["damaged_resources"], json!(1));
    let one = store.run(&["verify", "--json", "--resource", "/letters/scan"]).ends_with(1).json();
    assert_eq!((&one["resource"], &one["sound"]), (&json!("letters/scan"), &json!(false)));
    assert_eq!(one["damaged"][0]["part"], json!("bytes"));
    let others = store.run(&["verify", "--resource", "letters", SMALL]).ends_with(0);
    assert_eq!(others.text(), "volumes: 1 sound, 0 damaged, 0 failed\nresources: 1 sound, 0 damaged, 0 failed\n");
    let absent = store.run(&["verify", "--resource", "no/where"]).ends_with(1);
    assert!(absent.text().contains("failed /no/where: "), "{}", absent.text());

    // After another put it is sound.
    let file = store.beside("scan.bin");
    store.run(&["put", "letters/scan", file.to_str().unwrap()]).ends_with(0);
    store.run(&["verify"]).ends_with(0);
    assert_eq!(store.run(&["stat", "--json"]).ends_with(0).json()["damaged_resources"], json!(0));
}

#[test]
fn the_servers_auditor_reads_everything_and_its_report_names_the_damage() {
    let store = TestStore::with(&[SOUND_VOLUME]);
    put(&store, "letters/scan");
    let none = store.run(&["fixity", "report"]).ends_with(1);
    assert!(none.stderr.contains("no fixity pass has ended yet"), "{}", none.stderr);
    flip(&store, 700_000);
    let served = store.serve(&["--set", "fixity.every=100ms"]);
    let passes = || {
        let status = store.run(&["fixity", "status", "--json"]).ends_with(0).json();
        status["passes"].as_array().unwrap().len()
    };
    wait_until(|| passes() > 0);
    let report = store.run(&["fixity", "report", "1", "--json"]).ends_with(1).json();
    assert_eq!((&report["volumes"], &report["damaged"], &report["failed"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(report["findings"][0]["name"], "/letters/scan");
    assert_eq!(report["findings"][0]["parts"][0]["part"], "bytes");
    let printed = store.run(&["fixity", "report", "1"]).ends_with(1);
    assert!(printed.text().contains("\ndamaged /letters/scan: bytes: "), "{}", printed.text());
    let page = store.run(&["fixity", "report", "1", "--html"]).ends_with(1);
    assert!(page.text().contains("<td>/letters/scan</td>"), "{}", page.text());
    store.run(&["fixity", "check", "letters"]).ends_with(0);
    store.run(&["fixity", "check", "letters", "letters/scan"]).ends_with(1);
    let (_, _, metrics) = get(&served, "/metrics", &[]);
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(!metrics.contains("penates_fixity_damaged_total 0\n"), "{metrics}");
    assert!(!metrics.contains("penates_damage_found_total 0\n"), "{metrics}");
    assert!(!metrics.contains("penates_fixity_oldest_check_seconds inf"), "{metrics}");
}
