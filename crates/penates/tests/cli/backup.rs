//! `penates backup`: a drill of what docs/operations/backup.md says, and what happens when something dies.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::harness::*;
use crate::salvage::files_below;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn curl(args: &[&str]) -> Option<Vec<u8>> {
    let ran = Command::new("curl").arg("-sf").args(args).output().unwrap();
    ran.status.success().then_some(ran.stdout)
}

/// Puts a resource of 40,000 bytes: too many for a row.
fn put(server: &str, number: u32) -> bool {
    let body = format!("{number:>40000}");
    let url = format!("{server}/rest/n{number}");
    curl(&["-X", "PUT", "-H", "Content-Type: text/plain", "--data-binary", &body, &url]).is_some()
}

fn backup(action: &[&str]) -> Ran {
    Ran::of(penates(&[&["backup"], action].concat()))
}

/// Serves a store, and looks for resources.
fn has_all(store: &TestStore, numbers: &[u32]) {
    let server = store.serve(&[]);
    for number in numbers {
        let got = curl(&[&format!("{}/rest/n{number}", server.url)]);
        assert_eq!(got.as_deref(), Some(format!("{number:>40000}").as_bytes()), "n{number}");
    }
    server.stop("TERM");
}

#[test]
fn a_drill_backs_up_a_server_under_writes_and_restores_it_after_its_disk_is_lost() {
    let store = TestStore::with(&[SMALL]);
    let place = store.beside("backups");
    let server = store.serve(&["--set", "auth.write=open"]);
    let (acknowledged, ends) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let made = || acknowledged.lock().unwrap().clone();
    let (of_first, of_second, first, second, cursor) = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..).take_while(|_| !ends.load(Ordering::SeqCst)) {
                assert!(put(&server.url, number));
                acknowledged.lock().unwrap().push(number);
            }
        });
        let grown_to = |count| {
            wait_until(|| made().len() >= count);
            made()
        };
        let of_first = grown_to(5);
        let first = store.run(&["backup", "create", text(&place), "--json"]).ends_with(0).json();
        Ran::of(penates(&["import", "--server", &server.url, text(&sample_folder(OTHER))])).ends_with(0);
        let of_second = grown_to(of_first.len() + 5);
        let second = store.run(&["backup", "create", text(&place), "--json"]).ends_with(0).json();
        // What comes later is lost, and readers of the feed have seen it.
        grown_to(of_second.len() + 5);
        let events = store.run(&["feed"]).ends_with(0).json_lines();
        let cursor = events.last().unwrap()["id"].as_str().unwrap().to_owned();
        ends.store(true, Ordering::SeqCst);
        (of_first, of_second, first, second, cursor)
    });
    // Contents that the first one has are not copied again.
    let bytes = |made: &Value| (made["bytes"].as_u64().unwrap(), made["copied_bytes"].as_u64().unwrap());
    assert!(bytes(&first).1 >= 40_000 * of_first.len() as u64, "{first}");
    assert!(bytes(&second).1 <= bytes(&second).0 - 40_000 * of_first.len() as u64, "{second}");
    assert_eq!(fs::read_dir(store.path().join("cuts")).unwrap().count(), 0);

    server.kill();
    fs::remove_dir_all(store.path()).unwrap();
    let listed = backup(&["list", text(&place), "--json"]).ends_with(0).json_lines();
    assert_eq!(listed, [first.clone(), second]);
    backup(&["check", text(&place)]).ends_with(0);
    backup(&["restore", text(&place), "--to", text(&store.path())]).ends_with(0);
    assert_eq!(store.ids(), sorted_lines(&format!("{SMALL}\n{OTHER}\n")));
    store.run(&["verify"]).ends_with(0);
    let refused = store.run(&["feed", "--from", &cursor]).ends_with(1);
    assert!(refused.stderr.contains("no longer has"), "{}", refused.stderr);
    has_all(&store, &of_second);

    // An earlier backup, somewhere else.
    let then = TestStore::vacant();
    let id = first["id"].as_str().unwrap();
    backup(&["restore", text(&place), id, "--to", text(&then.path())]).ends_with(0);
    assert_eq!(then.ids(), [SMALL]);
    has_all(&then, &of_first);
    let occupied = backup(&["restore", text(&place), "--to", text(&then.path())]).ends_with(2);
    assert!(occupied.stderr.contains("an empty folder"), "{}", occupied.stderr);

    // The restored store is backed up on, and the earlier backup is not needed any more.
    let third = store.run(&["backup", "create", text(&place), "--json"]).ends_with(0).json();
    assert!(bytes(&third).1 <= bytes(&third).0 - 40_000 * of_second.len() as u64, "{third}");
    backup(&["delete", text(&place), "--keep", "1"]).ends_with(0);
    assert_eq!(backup(&["list", text(&place)]).ends_with(0).text().lines().count(), 2);
    backup(&["check", text(&place)]).ends_with(0);
    let last = TestStore::vacant();
    backup(&["restore", text(&place), "--to", text(&last.path())]).ends_with(0);
    has_all(&last, &of_second);
}

#[test]
fn a_damaged_file_of_a_backup_is_set_aside_and_copied_again_and_a_backup_may_have_links() {
    let store = TestStore::vacant();
    let large = store.beside("large.txt");
    fs::write(&large, "large".repeat(8_000)).unwrap();
    store.run(&["put", "large", text(&large)]).ends_with(0);
    let (linked, place) = (store.beside("linked"), store.beside("backups"));
    store.run(&["backup", "create", "--link", text(&linked)]).ends_with(0);
    store.run(&["backup", "create", text(&place)]).ends_with(0);
    let content = fs::read(&files_below(&store.path().join("contents"))[0]).unwrap();
    let stored = |place: &Path| {
        let is_it = |path: &PathBuf| fs::read(path).unwrap() == content;
        files_below(&place.join("files")).into_iter().find(is_it).unwrap()
    };
    assert!(fs::metadata(stored(&linked)).unwrap().nlink() > 1);
    let copied = stored(&place);
    assert_eq!(fs::metadata(&copied).unwrap().nlink(), 1);

    fs::write(&copied, "LARGE".repeat(content.len() / 5)).unwrap();
    backup(&["check", text(&place)]).ends_with(1);
    backup(&["check", "--set-aside", text(&place)]).ends_with(1);
    assert!(!copied.exists());
    store.run(&["backup", "create", text(&place)]).ends_with(0);
    backup(&["check", text(&place)]).ends_with(0);
    assert_eq!(stored(&place), copied);
}

#[test]
fn a_backup_from_a_time_when_the_clock_was_ahead_is_not_taken_for_the_newest_one() {
    let store = TestStore::vacant();
    let note = store.beside("note.txt");
    fs::write(&note, "a note").unwrap();
    store.run(&["put", "note", text(&note)]).ends_with(0);
    let place = store.beside("backups");
    for _ in 0..2 {
        store.run(&["backup", "create", text(&place)]).ends_with(0);
    }
    let listed = || {
        let names = fs::read_dir(place.join("backups")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort_unstable();
        names
    };
    let ahead = "29990101T000000Z";
    fs::rename(place.join("backups").join(&listed()[0]), place.join(format!("backups/{ahead}.jsonl"))).unwrap();
    let before = listed();
    let refused = store.run(&["backup", "create", text(&place)]).ends_with(1);
    assert!(refused.stderr.contains(&format!("the newest backup is {ahead}")), "{}", refused.stderr);
    let refused = backup(&["delete", text(&place), "--keep", "1"]).ends_with(1);
    assert!(refused.stderr.contains("the clock of this machine is wrong"), "{}", refused.stderr);
    let to = store.beside("restored");
    let refused = backup(&["restore", text(&place), "--to", text(&to)]).ends_with(2);
    assert!(refused.stderr.contains("by its id"), "{}", refused.stderr);
    assert!(!to.exists() && listed() == before);
    backup(&["restore", text(&place), ahead, "--to", text(&to)]).ends_with(0);
    backup(&["delete", text(&place), ahead]).ends_with(0);
    store.run(&["backup", "create", text(&place)]).ends_with(0);
    backup(&["delete", text(&place), "--keep", "1"]).ends_with(0);
    assert_eq!(listed().len(), 1);
}

#[test]
fn nothing_is_left_behind_of_a_backup_whose_server_or_command_was_killed_or_whose_disk_is_full() {
    let store = TestStore::with(&[SMALL]);
    let place = store.beside("backups");
    let server = store.serve(&["--set", "auth.write=open"]);
    for number in 0..3 {
        assert!(put(&server.url, number));
    }
    // The command asked for a cut, and was killed. Then the server is killed too.
    let socket = store.path().join("penates.sock");
    let cut = curl(&["-X", "POST", "--unix-socket", text(&socket), "http://localhost/admin/cut"]).unwrap();
    let cut: Value = serde_json::from_slice(&cut).unwrap();
    assert!(store.path().join(cut["folder"].as_str().unwrap()).join("format").exists());
    server.kill();
    let server = store.serve(&["--set", "auth.write=open"]);
    assert_eq!(fs::read_dir(store.path().join("cuts")).unwrap().count(), 0, "the cut is left behind");

    // A disk on which no file is larger than 20 KiB.
    let mut full = Command::new("bash");
    full.args([
        "-c",
        r#"trap "" XFSZ; ulimit -f 20; exec "$0" "$@""#,
        env!("CARGO_BIN_EXE_penates"),
        "backup",
        "create",
    ]);
    full.arg(&place).arg("--store").arg(store.path());
    let failed = Ran::of(full).ends_with(1);
    assert!(failed.stderr.contains(&format!("copying to {}", text(&place))), "{}", failed.stderr);
    assert!(backup(&["list", text(&place), "--json"]).ends_with(0).text().is_empty(), "half a backup is listed");
    assert!(put(&server.url, 3), "the store is harmed");
    assert_eq!(fs::read_dir(store.path().join("cuts")).unwrap().count(), 0, "the cut is left behind");
    store.run(&["backup", "create", text(&place)]).ends_with(0);
    backup(&["check", text(&place)]).ends_with(0);
    server.kill();

    // As one stream, through a pipe and as a file.
    let (piped, file) = (store.command(&["backup", "create", "-"]).output().unwrap(), store.beside("backup.tar"));
    assert!(piped.status.success());
    fs::write(store.beside("piped.tar"), piped.stdout).unwrap();
    store.run(&["backup", "create", text(&file)]).ends_with(0);
    store.run(&["backup", "create", text(&file)]).ends_with(2);
    for archive in [file, store.beside("piped.tar")] {
        let restored = TestStore::vacant();
        backup(&["restore", text(&archive), "--to", text(&restored.path())]).ends_with(0);
        has_all(&restored, &[0, 1, 2, 3]);
    }

    let refused = store.run(&["backup", "create", text(&store.path().join("backups"))]).ends_with(2);
    assert!(refused.stderr.contains("name another place"), "{}", refused.stderr);
    let restored = TestStore::vacant();
    backup(&["restore", text(&place), "--to", text(&restored.path())]).ends_with(0);
    has_all(&restored, &[0, 1, 2, 3]);
}
