//! `penates import`

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::*;

#[test]
fn the_samples_are_new_once_and_unchanged_afterwards() {
    let store = TestStore::vacant();
    let samples = samples();
    let first = store.run(&["import", "--json", samples.to_str().unwrap()]).ends_with(0).json();
    assert_eq!(first["new"], 16);
    assert_eq!(first["pages"], 3744);
    assert_eq!(first["failed"], 0);
    let second = store.run(&["import", "--json", samples.to_str().unwrap()]).ends_with(0).json();
    assert_eq!((&second["new"], &second["unchanged"]), (&json!(0), &json!(16)));
    assert_eq!(store.ids().len(), 16);
    let verified = store.run(&["verify"]).ends_with(0);
    assert!(verified.text().contains("16 sound, 0 damaged"), "{}", verified.text());
}

#[test]
fn a_single_zip_with_its_mets_is_imported_by_the_path_of_either() {
    let store = TestStore::vacant();
    let zip = file_with_suffix(&sample_folder(SMALL), ".zip");
    let mets = file_with_suffix(&sample_folder(OTHER), ".mets.xml");
    let ran = store.run(&["import", "--json", zip.to_str().unwrap(), mets.to_str().unwrap()]).ends_with(0);
    assert_eq!(ran.json()["new"], 2);
    assert_eq!(store.ids(), [SMALL, OTHER]);
}

#[test]
fn a_list_of_ids_imports_these_and_names_missing_ones() {
    let store = TestStore::vacant();
    let list = store.beside("wanted.txt");
    let failed = store.beside("failed.jsonl");
    fs::write(&list, format!("{OTHER}\nuc2.ark:/13960/none\n")).unwrap();
    let (list, failed_name) = (list.to_str().unwrap(), failed.to_str().unwrap());
    let samples = samples();
    let args = ["import", "--json", "--ids", list, "--failed", failed_name, samples.to_str().unwrap()];
    let summary = store.run(&args).ends_with(1).json();
    assert_eq!((&summary["new"], &summary["failed"]), (&json!(1), &json!(1)));
    assert_eq!(store.ids(), [OTHER]);
    let line: serde_json::Value = serde_json::from_str(fs::read_to_string(failed).unwrap().trim()).unwrap();
    assert_eq!((&line["id"], &line["kind"]), (&json!("uc2.ark:/13960/none"), &json!("not-found")));
}

#[test]
fn a_dry_run_checks_everything_and_makes_no_store() {
    let store = TestStore::vacant();
    let summary = store.run(&["import", "--json", "--dry-run", samples().to_str().unwrap()]).ends_with(0).json();
    assert_eq!((&summary["checked"], &summary["pages"]), (&json!(16), &json!(3744)));
    assert!(!store.path().exists());
}

#[test]
fn force_imports_stored_volumes_again() {
    let store = TestStore::with(&[SMALL]);
    let folder = sample_folder(SMALL);
    let summary = store.run(&["import", "--json", "--force", folder.to_str().unwrap()]).ends_with(0).json();
    assert_eq!((&summary["replaced"], &summary["unchanged"]), (&json!(1), &json!(0)));
    assert_eq!(store.ids(), [SMALL]);
}

#[test]
fn a_served_store_accepts_volumes_from_clients_with_a_token() {
    let store = TestStore::vacant();
    let unmade = store.run(&["token", "create", "importer"]).ends_with(3);
    assert!(unmade.stderr.contains("there is no store") && !store.path().exists(), "{}", unmade.stderr);
    store.run(&["init"]).ends_with(0);
    let token = store.run(&["token", "create", "importer"]).ends_with(0).text().trim().to_owned();
    let served = store.serve(&[]);
    let folder = sample_folder(SMALL);
    let args = ["import", "--json", "--server", &served.url, folder.to_str().unwrap()];

    let refused = Ran::of(penates(&args)).ends_with(1);
    assert_eq!(refused.json()["failed"], 1);
    assert!(refused.stderr.contains("401"), "{}", refused.stderr);
    let refused = Ran::of(penates(&["delete", "--server", &served.url, SMALL])).ends_with(1);
    assert!(refused.stderr.contains("--token"), "{}", refused.stderr);

    let with_token = |args: &[&str]| {
        let mut command = penates(args);
        command.env("PENATES_TOKEN", &token);
        Ran::of(command)
    };
    assert_eq!(with_token(&args).ends_with(0).json()["new"], 1);
    assert_eq!(with_token(&args).ends_with(0).json()["unchanged"], 1);
    let forced = with_token(&[&args[..], &["--force"]].concat()).ends_with(0).json();
    assert_eq!(forced["replaced"], 1);
    let checked = with_token(&[&args[..], &["--dry-run"]].concat()).ends_with(0).json();
    assert_eq!(checked["checked"], 1);
}

#[test]
fn an_interrupted_import_starts_no_further_volume_and_lists_the_rest_which_the_next_one_imports() {
    let store = TestStore::vacant();
    // The import prints far more failures than fit into its pipe, so it cannot get past them before
    // they are read.
    let missing: Vec<String> = (0..2000).map(|number| format!("uc2.ark:/13960/missing{number:04}")).collect();
    let list = store.beside("wanted.txt");
    fs::write(&list, format!("{SMALL}\n{}\n{OTHER}\n", missing.join("\n"))).unwrap();
    let failed = store.beside("failed.fifo");
    assert!(Command::new("mkfifo").arg(&failed).status().unwrap().success());
    let [list, fifo, samples] = [&list, &failed, &samples()].map(|path| path.to_str().unwrap().to_owned());
    let args = ["import", "--json", "--jobs", "1", "--ids", &list, &samples];
    let mut command = store.command(&[&args[..], &["--failed", &fifo]].concat());
    let mut import = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = Gathered::of(import.stderr.take().unwrap());

    let mut failures = BufReader::new(File::open(&failed).unwrap());
    let mut listed = String::new();
    failures.read_line(&mut listed).unwrap();
    signal(&import, "INT");
    wait_until(|| said.text().contains("interrupt again to stop at once"));
    failures.read_to_string(&mut listed).unwrap();
    let output = import.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["new"], &summary["interrupted"]), (&json!(1), &json!(true)), "{summary}");
    assert_eq!(store.ids(), [SMALL]);

    // The last one was not tried, and all others are not there.
    let lines: Vec<serde_json::Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2001);
    let last = &lines[2000];
    assert_eq!((&last["id"], &last["kind"]), (&json!(OTHER), &json!("skipped")));
    let list = store.beside("failed.jsonl");
    fs::write(&list, &listed).unwrap();
    let name = list.to_str().unwrap();
    let again = store.run(&["import", "--json", "--again", name, "--failed", name]).ends_with(1).json();
    assert_eq!((&again["new"], &again["failed"]), (&json!(1), &json!(2000)));
    assert_eq!(store.ids(), [SMALL, OTHER]);
    assert_eq!(fs::read_to_string(&list).unwrap().lines().count(), 2000, "what failed again");
}

#[test]
fn an_interrupted_import_of_a_folder_searches_it_no_further_and_lists_it_as_a_whole() {
    const BROKEN: usize = 2000;
    let store = TestStore::vacant();
    // The list of failures does not fit into its pipe, as above. What is sound is behind them.
    let [folder, fifo, list] = ["volumes", "failed.fifo", "failed.jsonl"].map(|name| store.beside(name));
    fs::create_dir(&folder).unwrap();
    for number in 0..BROKEN {
        fs::write(folder.join(format!("broken{number:04}.zip")), "").unwrap();
    }
    for ending in [".zip", ".mets.xml"] {
        let of_sample = file_with_suffix(&sample_folder(SMALL), ending);
        fs::copy(of_sample, folder.join(format!("sound{ending}"))).unwrap();
    }
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let [folder_name, fifo_name, list_name] = [&folder, &fifo, &list].map(|path| path.to_str().unwrap());
    let mut command = store.command(&["import", "--jobs", "1", "--failed", fifo_name, folder_name]);
    let mut import = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let said = Gathered::of(import.stderr.take().unwrap());
    let mut failures = BufReader::new(File::open(&fifo).unwrap());
    let mut listed = String::new();
    failures.read_line(&mut listed).unwrap();
    signal(&import, "INT");
    wait_until(|| said.text().contains("interrupt again to stop at once"));
    failures.read_to_string(&mut listed).unwrap();
    assert_eq!(import.wait().unwrap().code(), Some(130));

    let lines: Vec<serde_json::Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    assert_eq!((&last["path"], &last["kind"]), (&json!(folder_name), &json!("skipped")));
    assert!(lines.len() < BROKEN, "it went on: {}", lines.len());
    fs::write(&list, &listed).unwrap();
    assert_eq!(store.run(&["import", "--json", "--again", list_name]).ends_with(1).json()["new"], 1);
    assert_eq!(store.ids(), [SMALL]);
}

#[test]
fn the_list_of_an_earlier_import_stays_until_the_target_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let [list, nowhere] = ["failed.jsonl", "nowhere"].map(|name| folder.path().join(name));
    let [samples, list_name, nowhere] = [&samples(), &list, &nowhere].map(|path| path.to_str().unwrap().to_owned());
    let line = json!({"path": samples, "id": null, "kind": "full", "reason": "the disk is full"}).to_string();
    fs::write(&list, &line).unwrap();
    let import = ["import", "--store", &nowhere, "--failed", &list_name];
    for from in [&["--again", list_name.as_str()][..], &[samples.as_str()]] {
        Ran::of(penates(&[&import[..], from].concat())).ends_with(3);
        assert_eq!(fs::read_to_string(&list).unwrap(), line, "{from:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is beside it");
}

#[test]
fn an_import_interrupted_twice_ends_at_once_and_leaves_nothing_half_imported() {
    let store = TestStore::vacant();
    let failed = store.beside("failed.fifo");
    assert!(Command::new("mkfifo").arg(&failed).status().unwrap().success());
    let list = store.beside("wanted.txt");
    let missing: Vec<String> = (0..2000).map(|number| format!("uc2.ark:/13960/missing{number:04}")).collect();
    fs::write(&list, format!("{}\n{SMALL}\n", missing.join("\n"))).unwrap();
    let [list, fifo, samples] = [&list, &failed, &samples()].map(|path| path.to_str().unwrap().to_owned());
    let mut command = store.command(&["import", "--jobs", "1", "--failed", &fifo, "--ids", &list, &samples]);
    let mut import = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let said = Gathered::of(import.stderr.take().unwrap());
    let mut failures = BufReader::new(File::open(&failed).unwrap());
    failures.read_line(&mut String::new()).unwrap();
    signal(&import, "INT");
    wait_until(|| said.text().contains("interrupt again to stop at once"));
    signal(&import, "INT");
    // The list is not read further: the import would wait for it forever.
    assert_eq!(import.wait().unwrap().code(), Some(130));
    assert_eq!(store.ids(), [""; 0]);
    store.run(&["verify"]).ends_with(0);
}

#[test]
fn pages_unlike_their_mets_are_taken_only_with_a_token_that_may_write() {
    let store = TestStore::with(&[SMALL]);
    let server = store.serve(&[]);
    let folder = sample_folder(OTHER);
    let put = |token: Option<&str>| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "PUT"]);
        for (part, ending) in [("zip", ".zip"), ("mets", ".mets.xml")] {
            let file = file_with_suffix(&folder, ending);
            curl.args(["-F", &format!("{part}=@{}", file.display())]);
        }
        if let Some(token) = token {
            curl.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        curl.arg(format!("{}/volumes/{}?replaced=true", server.url, OTHER.replace('/', "%2F")));
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    assert_eq!(put(None), "401");
    assert_eq!(put(Some("penates_guessed")), "401");
    assert_eq!(store.ids(), [SMALL]);
    let token = store.run(&["token", "create", "importer"]).ends_with(0).text().trim().to_owned();
    assert_eq!(put(Some(&token)), "201");
}

#[test]
fn what_failed_is_named_as_damaged_and_imported_again_from_its_list() {
    let store = TestStore::vacant();
    let folder = store.beside("psia/pairtree_root/here");
    fs::create_dir_all(&folder).unwrap();
    copy_folder(&sample_folder(SMALL), &folder);
    let zip = file_with_suffix(&folder, ".zip");
    let sound = fs::read(&zip).unwrap();
    let mut damaged = sound.clone();
    // In the bytes of some page: their central directory comes after all of them.
    damaged[sound.len() / 2] ^= 1;
    fs::write(&zip, damaged).unwrap();
    let list = store.beside("failed.jsonl");
    let list = list.to_str().unwrap();
    let failed = store.run(&["import", "--failed", list, folder.to_str().unwrap()]).ends_with(1);
    assert!(failed.stderr.contains("is damaged in the ZIP"), "{}", failed.stderr);
    let line: serde_json::Value = serde_json::from_str(fs::read_to_string(list).unwrap().trim()).unwrap();
    assert_eq!(line["id"], SMALL);
    fs::write(&zip, sound).unwrap();
    let again = store.run(&["import", "--json", "--again", list, "--failed", list]).ends_with(0);
    assert_eq!(again.json()["new"], 1);
    assert_eq!(fs::read_to_string(list).unwrap(), "");
    fs::write(list, line.to_string()).unwrap();
    store.run(&["verify", "--ids", list]).ends_with(0);
    fs::write(list, "{\"id\":null}").unwrap();
    store.run(&["import", "--again", list]).ends_with(2);
    store.run(&["verify", "--ids", list]).ends_with(2);
}
