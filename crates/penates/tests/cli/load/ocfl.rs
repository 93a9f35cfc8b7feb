//! Storage roots of OCFL that an export wrote: loads with all versions.

use std::fs;
use std::path::Path;

use super::{cat, change, change_inventory, exported_note, files, put, states, tree};
use crate::harness::*;

#[test]
fn all_versions_are_loaded_into_a_new_store_with_their_times() {
    let store = tree();
    change(&store);
    let export = |store: &TestStore| {
        let root = store.beside("archive");
        store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
        root
    };
    let root = export(&store);
    let copy = TestStore::vacant();
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert!(
        printed.text().trim().ends_with("0 failed") && printed.text().starts_with("loaded 8 resources"),
        "{}",
        printed.text()
    );
    for path in ["letters", "letters/1.txt", "letters/deep/graph"] {
        let history = |store: &TestStore| store.run(&["history", path]).ends_with(0).text().to_owned();
        assert_eq!(history(&copy), history(&store));
    }
    assert_eq!(files(&export(&copy)), files(&root), "an export of the copy is another one");
    assert!(files(&root).len() > 60);
    copy.run(&["verify"]).ends_with(0);
    let again = copy.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert_eq!(again.text().trim(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");
    assert_eq!(files(&export(&copy)), files(&root), "a version was made again");
}

#[test]
fn what_was_deleted_is_exported_with_its_versions_and_is_deleted_again_after_a_load() {
    let store = tree();
    change(&store);
    store.run(&["rm", "letters/deep"]).ends_with(0);
    store.run(&["rm", "letters/1.txt"]).ends_with(0);
    let root = store.beside("archive");
    let export = |store: &TestStore, place: &Path| {
        store.run(&["export", "", place.to_str().unwrap(), "--as", "ocfl"]).ends_with(0).text().to_owned()
    };
    assert!(export(&store, &root).starts_with("exported 9 resources"));
    match crate::export::is_valid_ocfl(&root) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of OCFL: {reason}")),
    }
    let whole = files(&root);
    export(&store, &root);
    assert_eq!(files(&root), whole, "it was deleted again");

    let copy = TestStore::vacant();
    let load = || copy.run(&["load", root.to_str().unwrap()]).ends_with(0).text().trim().to_owned();
    assert!(load().ends_with("0 failed"));
    for path in ["letters/1.txt", "letters/deep", "letters/deep/empty", "letters/deep/graph"] {
        let history = |store: &TestStore| store.run(&["history", path]).ends_with(0).text().to_owned();
        assert_eq!(history(&copy), history(&store));
        let gone = copy.run(&["cat", path]).ends_with(1);
        assert!(gone.stderr.contains("deleted"), "{}", gone.stderr);
    }
    assert_eq!(load(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");
    copy.run(&["verify"]).ends_with(0);
    // It can be restored there, too, and the next export has that.
    copy.run(&["restore", "letters/deep"]).ends_with(0);
    assert_eq!(copy.run(&["cat", "letters/deep/graph"]).ends_with(0).stdout, b"bytes");
    store.run(&["restore", "letters/1.txt"]).ends_with(0);
    store.run(&["rm", "letters/100% \u{fc}=2E.."]).ends_with(0);
    export(&store, &root);
    let other = TestStore::vacant();
    other.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert_eq!(other.run(&["cat", "letters/1.txt"]).ends_with(0).stdout, b"a letter");
    assert_eq!(other.run(&["history", "letters/1.txt"]).ends_with(0).text().lines().count(), 7);
    other.run(&["cat", "letters/100% \u{fc}=2E.."]).ends_with(1);
    // What was deleted meanwhile in a store with the same versions is deleted there, too; what the
    // store has changed since is left.
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    copy.run(&["cat", "letters/100% \u{fc}=2E.."]).ends_with(1);
    assert!(printed.stderr.contains("letters/deep"), "{}", printed.stderr);
    assert_eq!(copy.run(&["cat", "letters/deep/graph"]).ends_with(0).stdout, b"bytes");
}

#[test]
fn a_load_deletes_nothing_that_is_not_in_the_archive_with_all_its_versions() {
    const GRAPH: &str = "<> <http://purl.org/dc/terms/title> \"A container\" .";
    let store = TestStore::vacant();
    let same = |store: &TestStore| {
        for container in ["other", "other/deep", "failed", "versions", "same"] {
            put(store, container, GRAPH);
        }
        put(store, "same/note", "a note");
    };
    same(&store);
    put(&store, "failed/note", "a note");
    put(&store, "leaf", "first");
    put(&store, "leaf", "final");
    put(&store, "versions/note", "first");
    put(&store, "versions/note", "final");
    for path in ["other", "failed", "versions", "same", "leaf"] {
        store.run(&["rm", path]).ends_with(0);
    }
    let root = store.beside("archive");
    store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);

    let copy = TestStore::vacant();
    same(&copy);
    put(&copy, "failed/note", "another note");
    put(&copy, "other/deep/own", "my own");
    put(&copy, "versions/note", "draft");
    put(&copy, "versions/note", "final");
    put(&copy, "leaf", "draft");
    put(&copy, "leaf", "final");
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    assert!(printed.text().trim().ends_with("7 failed"), "{}", printed.text());
    for why in ["other: it is not deleted: the archive does not have /other/deep/own", "leaf: version"] {
        assert!(printed.stderr.contains(why), "{}", printed.stderr);
    }
    for (path, content) in [("other/deep/own", "my own"), ("versions/note", "final"), ("leaf", "final")] {
        assert_eq!(cat(&copy, path), content);
    }
    assert_eq!(cat(&copy, "failed/note"), "another note");
    // What is the same is deleted.
    for path in ["same", "same/note"] {
        assert!(copy.run(&["cat", path]).ends_with(1).stderr.contains("deleted"));
    }
}

#[test]
fn versions_are_added_to_a_store_that_has_the_first_ones_and_others_are_refused() {
    let store = tree();
    let root = store.beside("archive").to_str().unwrap().to_owned();
    let export = || store.run(&["export", "letters", &root, "--as", "ocfl"]).ends_with(0);
    export();
    let copy = TestStore::with(&[]);
    fs::write(copy.beside("note"), "note").unwrap();
    copy.run(&["put", "note", copy.beside("note").to_str().unwrap()]).ends_with(0);
    let load = |code: i32| copy.run(&["load", &root]).ends_with(code).text().trim().to_owned();
    assert_eq!(load(0), "loaded 8 resources (300.0 kB of bytes), 0 unchanged, 0 failed");
    change(&store);
    export();
    assert_eq!(load(0), "loaded 3 resources (35 B of bytes), 5 unchanged, 0 failed");
    assert_eq!(load(0), "loaded 0 resources (0 B of bytes), 8 unchanged, 0 failed");
    for address in ["letters/1.txt", "letters/1.txt/fcr:metadata", "letters/deep/graph"] {
        assert_eq!(states(&copy, address), states(&store, address));
    }
    assert_eq!(states(&copy, "letters/1.txt").len(), 6);
    // A change of the copy's own is not written over.
    copy.run(&["put", "letters/deep/empty", copy.beside("note").to_str().unwrap(), "--type", "image/png"]).ends_with(0);
    assert_eq!(load(1), "loaded 0 resources (0 B of bytes), 7 unchanged, 1 failed");
}

#[test]
fn a_version_of_the_future_gets_the_time_of_the_load() {
    let (store, root, object) = exported_note();
    change_inventory(&object, |inventory| {
        inventory.versions.get_mut("v1").unwrap().created = "2999-01-01T00:00:00Z".to_owned();
    });
    let copy = TestStore::vacant();
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    assert!(printed.text().contains("1 versions with another time than there"), "{}", printed.text());
    let years = |store: &TestStore| {
        put(store, "note", "another");
        let history = store.run(&["history", "note"]).ends_with(0).text().to_owned();
        history.lines().map(|line| line[..4].parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    let (ours, theirs) = (years(&copy), years(&store));
    assert!(ours.len() == 2 && ours.iter().all(|year| (theirs[0]..=theirs[1] + 1).contains(year)), "{ours:?}");
}

#[test]
fn what_a_load_of_a_storage_root_changes_is_reported() {
    let store = tree();
    change(&store);
    let root = store.beside("archive");
    store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = |id: &str| root.join(preservation::ocfl::layout::place(id));
    fs::remove_dir_all(object("penates:/letters/deep")).unwrap();
    change_inventory(&object("penates:/letters"), |inventory| {
        inventory.versions.get_mut("v2").unwrap().created = "2001-01-01T00:00:00Z".to_owned();
    });
    let copy = TestStore::vacant();
    for more in [&["--check"][..], &[]] {
        let report = copy.beside("report.ndjson");
        let args = ["load", root.to_str().unwrap(), "--report", report.to_str().unwrap()];
        let printed = copy.run(&[&args[..], more].concat()).ends_with(1).text().to_owned();
        assert!(printed.contains("1 containers that are empty because there is no resource for them"), "{printed}");
        assert!(printed.contains("1 versions with another time than there"), "{printed}");
        let lines = fs::read_to_string(report).unwrap();
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |what: &str| lines.iter().find(|line| line["what"] == what).unwrap();
        assert_eq!(of("container")["resource"], "/letters/deep");
        assert_eq!(
            (&of("time")["resource"], &of("time")["there"]),
            (&"/letters".into(), &"2001-01-01T00:00:00Z".into())
        );
    }
}

#[test]
fn a_restored_version_has_the_right_bytes_also_where_only_some_versions_are_kept() {
    const SOME: &str = "--set=history.resources=3";
    let store = TestStore::vacant();
    for text in ["a", "b", "c"] {
        put(&store, "note", text);
        put(&store, "note/fcr:metadata", &format!("<> <http://purl.org/dc/terms/title> \"title {text}\" ."));
    }
    let history = store.run(&["history", "note"]).ends_with(0).text().to_owned();
    let restored = history.lines().nth(1).unwrap().split('\t').next().unwrap();
    store.run(&["restore", "note", "--at", restored]).ends_with(0);
    let root = store.beside("archive");
    let root = root.to_str().unwrap();
    store.run(&["export", "note", root, "--as", "ocfl"]).ends_with(0);

    // A store that the load opens itself is refused.
    let copy = TestStore::vacant();
    let refused = copy.run(&["load", root, SOME]).ends_with(2).stderr;
    assert!(refused.contains("repeat it with --set history.resources=all"), "{refused}");
    assert!(!copy.path().exists(), "a store was made");
    // What a server keeps is seen when something is compared.
    let server = copy.serve(&["--set=auth.write=open", SOME]);
    let on = |args: &[&str]| Ran::of(penates(&[args, &["--server", &server.url]].concat()));
    let is_restored = || {
        let said = on(&["cat", "note/fcr:metadata"]).ends_with(0).text().to_owned();
        on(&["cat", "note"]).ends_with(0).text() == "a" && said.contains("title a")
    };
    on(&["load", root]).ends_with(0);
    assert!(is_restored());
    let printed = on(&["load", root]).ends_with(1).stderr;
    assert!(printed.contains("of its 7 versions here") && printed.contains("history.resources"), "{printed}");
    assert!(is_restored());
}
