//! `salvage`: a store with a broken block is copied into a new one, and an import restores what was
//! lost.

use std::fs;
use std::path::{Path, PathBuf};

use crate::documentation::quoted;
use crate::harness::*;

/// Flips a byte of a text that only one head contains, in a file of the database. That breaks the
/// whole block.
fn break_the_block_of(store: &Path, text: &[u8]) {
    for path in files_below(&store.join("db/text/keyspaces")) {
        let mut content = fs::read(&path).unwrap();
        if let Some(at) = content.windows(text.len()).rposition(|window| window == text) {
            content[at] ^= 1;
            fs::write(path, content).unwrap();
            return;
        }
    }
    panic!("no head lies in a file of the database");
}

/// All files in a folder and in those in it.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn losses_in_a_broken_block_are_named_and_an_import_into_the_salvaged_store_repairs_them() {
    let store = TestStore::vacant();
    store.run(&["import", samples().to_str().unwrap()]).ends_with(0);
    let all = store.ids();
    store.run(&["token", "create", "archivist"]).ends_with(0);
    // The title of `SMALL`.
    break_the_block_of(&store.path(), b"Salmon fry");
    let (rescued, lost) = (store.beside("rescued"), store.beside("lost.txt"));
    let (rescued, lost) = (rescued.to_str().unwrap(), lost.to_str().unwrap());
    let output = store.run(&["salvage", "--json", "--to", rescued, "--lost", lost]).ends_with(1).json();
    let ids = |output: &serde_json::Value| -> Vec<String> {
        output.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    // The block may hold the beginning or the end of a neighbour too.
    let headless = ids(&output["lost"]);
    assert!(headless.contains(&SMALL.to_owned()) && headless.len() <= 3, "{output}");
    assert!(output["unreadable"].to_string().contains("objects"), "{output}");
    assert_eq!(output["volumes"], all.len() - headless.len(), "{output}");
    let named = sorted_lines(&fs::read_to_string(lost).unwrap());
    assert_eq!(named.len(), headless.len() + output["damaged"].as_array().unwrap().len());

    let on_rescued = |args: &[&str]| Ran::of(penates(&[args, &["--store", rescued]].concat()));
    let listed = sorted_lines(on_rescued(&["ls"]).ends_with(0).text());
    assert_eq!(listed, all.iter().filter(|id| !headless.contains(id)).cloned().collect::<Vec<_>>());
    let verified = on_rescued(&["verify", "--json"]);
    let unsound: Vec<_> = verified.json_lines().into_iter().filter(|report| report["sound"] == false).collect();
    assert_eq!(unsound.len(), named.len() - headless.len(), "{unsound:?}");
    assert_eq!(on_rescued(&["token", "list", "--json"]).ends_with(0).json()["name"], "archivist");

    on_rescued(&["import", "--ids", lost, samples().to_str().unwrap()]).ends_with(0);
    on_rescued(&["verify"]).ends_with(0);
    assert_eq!(sorted_lines(on_rescued(&["ls"]).ends_with(0).text()), all);
    assert_eq!(unzip(&on_rescued(&["get", SMALL]).ends_with(0).stdout), expected_entries(&sample_folder(SMALL)));
}

#[test]
fn the_repository_is_salvaged_too_and_resources_without_head_are_named_and_can_be_put_again() {
    let store = TestStore::vacant();
    let note = store.beside("note");
    fs::write(&note, "a note").unwrap();
    let note = note.to_str().unwrap();
    for name in ["box/first", "box/odd", "other/last"] {
        let media_type = if name == "box/odd" { "text/x-odd-one-out" } else { "text/plain" };
        store.run(&["put", name, note, "--type", media_type]).ends_with(0);
    }
    break_the_block_of(&store.path(), b"text/x-odd-one-out");
    let rescued = store.beside("rescued");
    let rescued = rescued.to_str().unwrap();
    let output = store.run(&["salvage", "--json", "--to", rescued]).ends_with(1).json();
    assert!(output["lost_resources"].to_string().contains("\"/box"), "{output}");

    let on_rescued = |args: &[&str]| Ran::of(penates(&[args, &["--store", rescued]].concat()));
    let listed = on_rescued(&["tree"]).ends_with(0);
    assert!(!listed.text().contains("odd"), "{}", listed.text());
    for name in ["box/odd", "other/last"] {
        on_rescued(&["put", name, note, "--type", "text/plain"]).ends_with(0);
        assert_eq!(on_rescued(&["cat", name]).ends_with(0).text(), "a note");
    }
}

#[test]
fn a_sound_store_is_salvaged_whole_and_only_into_an_empty_folder() {
    let store = TestStore::with(&[SMALL]);
    let note = store.beside("note");
    // More than fits into a row.
    fs::write(&note, "a note ".repeat(10_000)).unwrap();
    store.run(&["put", "box/note", note.to_str().unwrap(), "--type", "text/plain"]).ends_with(0);
    let rescued = store.beside("rescued");
    let to = rescued.to_str().unwrap();
    let output = store.run(&["salvage", "--to", to]).ends_with(0);
    assert!(output.text().contains("1 volumes, 0 of them damaged; 0 lost"), "{}", output.text());
    let again = store.run(&["salvage", "--to", to]).ends_with(2);
    assert!(again.stderr.contains("there is something in"), "{}", again.stderr);
    let got = Ran::of(penates(&["get", SMALL, "--store", to])).ends_with(0);
    assert_eq!(unzip(&got.stdout), expected_entries(&sample_folder(SMALL)));
    let got = Ran::of(penates(&["cat", "box/note", "--store", to])).ends_with(0);
    assert_eq!(got.stdout, fs::read(&note).unwrap());

    let _served = store.serve(&[]);
    let held = store.run(&["salvage", "--to", store.beside("other").to_str().unwrap()]).ends_with(3);
    assert!(held.stderr.contains("held by another process"), "{}", held.stderr);
}

#[test]
fn a_store_with_a_missing_file_is_refused_by_name_and_salvage_makes_a_new_one() {
    let store = TestStore::with(&[SMALL]);
    let missing = store.path().join("db/text/keyspaces/2/current");
    fs::remove_file(&missing).unwrap();
    for command in [&["ls"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let refused = store.run(command).ends_with(3);
        assert!(refused.stderr.contains(missing.to_str().unwrap()), "{}", refused.stderr);
        assert!(refused.stderr.contains("penates salvage"), "{}", refused.stderr);
    }
    let mut from_beside = penates(&["ls", "--store", "data"]);
    from_beside.current_dir(store.beside(""));
    let refused = Ran::of(from_beside).ends_with(3);
    assert!(refused.stderr.contains(&quoted("When a file is missing or foreign")), "{}", refused.stderr);
    let rescued = store.beside("rescued");
    let rescued = rescued.to_str().unwrap();
    // The salvaged rows were all there were, but nothing shows that any more.
    store.run(&["salvage", "--to", rescued]).ends_with(1);
    let read = Ran::of(penates(&["get", SMALL, "--store", rescued])).ends_with(0).stdout;
    assert_eq!(unzip(&read), expected_entries(&sample_folder(SMALL)));
}

#[test]
fn a_copy_of_the_folder_of_a_server_is_refused_and_opens_without_its_lock_if_the_server_had_died() {
    let store = TestStore::with(&[SMALL]);
    store.serve(&[]).kill();
    // A copy has no sockets.
    fs::remove_file(store.path().join("penates.sock")).unwrap();
    copy_folder(&store.path(), &store.beside("copy"));
    let list = || {
        let mut list = penates(&["ls", "--store", "copy"]);
        list.current_dir(store.beside(""));
        Ran::of(list)
    };
    let refused = list().ends_with(3);
    assert!(refused.stderr.contains(&quoted("Copies by other programs")), "{}", refused.stderr);
    fs::remove_file(store.beside("copy/lock")).unwrap();
    assert_eq!(list().ends_with(0).text().trim(), SMALL);
}

#[test]
fn a_finished_copy_is_salvaged_whole() {
    let (store, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let (from, copied) = (store.path(), to.path());
    Ran::of(penates(&["copy", "--from", from.to_str().unwrap(), "--to", copied.to_str().unwrap()])).ends_with(0);
    let output = to.run(&["salvage", "--json", "--to", to.beside("rescued").to_str().unwrap()]).ends_with(0).json();
    assert_eq!(
        (&output["unreadable"], &output["volumes"]),
        (&serde_json::json!([]), &serde_json::json!(1)),
        "{output}"
    );
}

#[test]
fn an_unfinished_load_is_unfinished_when_it_was_salvaged() {
    let store = TestStore::vacant();
    let note = store.beside("note");
    fs::write(&note, "a note").unwrap();
    store.run(&["put", "box/note", note.to_str().unwrap(), "--type", "text/plain"]).ends_with(0);
    let mark = r#"{"kind":"penates load","version":1,"source":"/old/root","newest":7,"is_finished":false}"#;
    fs::write(store.path().join("load.json"), mark).unwrap();
    let rescued = store.beside("rescued");
    let output = store.run(&["salvage", "--json", "--to", rescued.to_str().unwrap()]).ends_with(1).json();
    assert_eq!(output["unfinished_load"]["source"], "/old/root");
    assert_eq!(fs::read_to_string(rescued.join("load.json")).unwrap(), mark);
    let refused = Ran::of(penates(&["tree", "--store", rescued.to_str().unwrap()])).ends_with(3);
    assert!(refused.stderr.contains("an unfinished load of /old/root"), "{}", refused.stderr);

    // It may be one.
    fs::write(store.path().join("load.json"), "{").unwrap();
    let unknown = store.run(&["salvage", "--to", store.beside("again").to_str().unwrap()]).ends_with(1);
    assert!(unknown.text().contains("It may be an unfinished load"), "{}", unknown.text());
}

#[test]
fn the_file_for_what_was_lost_is_made_before_anything_is_copied() {
    let store = TestStore::with(&[SMALL]);
    let (rescued, missing) = (store.beside("rescued"), store.beside("missing/lost.txt"));
    let to = rescued.to_str().unwrap();
    let refused = store.run(&["salvage", "--to", to, "--lost", missing.to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains(missing.to_str().unwrap()), "{}", refused.stderr);
    store.run(&["salvage", "--to", to, "--lost", to]).ends_with(2);
    assert!(!rescued.exists(), "a file is where the folder is to be");
    fs::create_dir(&rescued).unwrap();
    let within = rescued.join("lost.txt");
    store.run(&["salvage", "--to", to, "--lost", within.to_str().unwrap()]).ends_with(2);
    assert!(!within.exists() && !store.beside("rescued.unfinished").exists());
    // An earlier list is replaced at the end.
    let list = store.beside("lost.txt");
    fs::write(&list, "an earlier list\n").unwrap();
    let output = store.run(&["salvage", "--to", to, "--lost", list.to_str().unwrap()]).ends_with(0);
    assert!(output.text().contains("1 volumes, 0 of them damaged"), "{}", output.text());
    assert_eq!(fs::read_to_string(&list).unwrap(), "");
}

#[test]
fn a_salvage_that_lost_a_whole_table_says_that_it_cannot_name_what_was_in_it() {
    let store = TestStore::with(&[SMALL]);
    fs::remove_dir_all(store.path().join("db/text")).unwrap();
    fs::create_dir(store.path().join("db/text")).unwrap();
    fs::remove_file(store.path().join("db/service.record")).unwrap();
    let output = store.run(&["salvage", "--to", store.beside("rescued").to_str().unwrap()]).ends_with(1);
    assert!(output.text().contains("0 volumes, 0 of them damaged; at least 0 lost"), "{}", output.text());
    for told in ["cannot be named: import everything again", "in an earlier state", "Tokens are missing, or may be"] {
        assert!(output.text().contains(told), "{}", output.text());
    }
}

#[test]
fn a_salvaged_store_has_the_level_of_its_source_and_a_missing_format_is_reported() {
    let store = TestStore::with(&[SMALL]);
    let format = |folder: &Path| fs::read_to_string(folder.join("format")).unwrap();
    let rescued = store.beside("rescued");
    store.run(&["salvage", "--to", rescued.to_str().unwrap()]).ends_with(0);
    assert_eq!(format(&rescued), format(&store.path()));
    fs::remove_file(store.path().join("format")).unwrap();
    let again = store.beside("again");
    let output = store.run(&["salvage", "--json", "--to", again.to_str().unwrap()]).ends_with(1).json();
    assert!(output["level"].is_null() && format(&again) == format(&rescued), "{output}");
}

#[test]
fn records_in_a_broken_block_are_seen_by_verify_and_named_by_salvage() {
    let store = TestStore::vacant();
    let lines: String = (0..3_000)
        .map(|n| format!("{{\"id\":\"r{n:04}\",\"attributes\":{{\"text\":\"the text of number {n:04}\"}}}}\n"))
        .collect();
    let file = store.beside("records.ndjson");
    fs::write(&file, lines).unwrap();
    store.run(&["records", "import", file.to_str().unwrap()]).ends_with(0);
    let sound = store.run(&["verify"]).ends_with(0);
    assert!(sound.text().contains("records: 3000 sound\n"), "{}", sound.text());

    let tables = files_below(&store.path().join("db/records/keyspaces"));
    let largest = tables.iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut content = fs::read(largest).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(largest, content).unwrap();
    let damaged = store.run(&["verify"]).ends_with(1);
    assert!(damaged.text().contains("none could be read after \"r"), "{}", damaged.text());
    store.run(&["verify", "--no-records"]).ends_with(0);
    let to = store.beside("rescued");
    let salvaged = store.run(&["salvage", "--to", to.to_str().unwrap()]).ends_with(1);
    assert!(salvaged.text().contains("Records between the ids above are lost"), "{}", salvaged.text());
}

#[test]
fn no_copy_of_a_store_is_made_where_the_folder_around_it_is_missing_or_instead_of_a_mounted_disk() {
    let store = TestStore::with(&[SMALL]);
    let (backups, disk) = (store.beside("backups"), store.beside("disk"));
    store.run(&["backup", "create", backups.to_str().unwrap()]).ends_with(0);
    let (from, to) = (store.path(), disk.join("data"));
    let [from, to, backups] = [&from, &to, &backups].map(|path| path.to_str().unwrap());
    let restore = ["backup", "restore", backups, "--to", to];
    for args in [
        &["copy", "--from", from, "--to", to][..],
        &["copy", "--follow", "--from", from, "--to", to],
        &["salvage", "--store", from, "--to", to],
        &restore,
    ] {
        let refused = Ran::of(penates(args)).ends_with(3);
        assert!(refused.stderr.contains("is its disk mounted?"), "{args:?}: {}", refused.stderr);
        assert!(!disk.exists(), "{args:?}");
    }
    fs::create_dir(&disk).unwrap();
    Ran::of(penates(&restore)).ends_with(0);
    // The folder of a salvaged store is renamed at the end, from beside.
    let mounted = Ran::of(penates(&["salvage", "--store", from, "--to", "/proc"])).ends_with(2);
    assert!(mounted.stderr.contains("/proc is a mount point"), "{}", mounted.stderr);
}
