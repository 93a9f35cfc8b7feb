//! Storage roots of Fedora that are damaged, or in the hands of strangers: what is whole is loaded,
//! and the rest is reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use preservation::bagit::text::Algorithm;
use proptest::prelude::*;
use serde_json::Value;

use super::{HEADER, Recorded, lines, object, report, resources};
use crate::harness::*;
use crate::load::{change_file, change_inventory, digest};

/// Loads a root. Returns the report.
fn load(store: &TestStore, root: &Path, code: i32) -> Vec<Value> {
    let place = store.beside("report.ndjson");
    let args = ["load", root.to_str().unwrap(), "--report", place.to_str().unwrap()];
    println!("{}", store.run(&args).ends_with(code).text());
    report(&place)
}

fn tree(store: &TestStore) -> String {
    store.run(&["tree"]).ends_with(0).text().to_owned()
}

/// A root with mutable heads, and a store for it.
fn unpacked() -> (TestStore, PathBuf) {
    let store = TestStore::vacant();
    let root = Recorded::OnRequest.unpacked(&store.beside("root"));
    (store, root)
}

#[test]
fn a_flipped_byte_costs_its_object_and_the_load_goes_on() {
    let (store, root) = unpacked();
    let damaged = object(&root, "info:fedora/gone");
    let place = damaged.join("v2/content/r1/fcr-container.nt");
    let mut bytes = fs::read(&place).unwrap();
    bytes[3] ^= 1;
    fs::write(&place, bytes).unwrap();
    let report = load(&store, &root, 1);
    let damaged = lines(&report, "damaged");
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0]["why"].as_str().unwrap().contains("another digest"), "{}", damaged[0]);
    assert!(tree(&store).contains("a/b.txt") || tree(&store).contains("b.txt"));
}

#[test]
fn a_missing_file_a_wrong_sidecar_and_a_link_cost_their_objects_only() {
    let (store, root) = unpacked();
    fs::remove_file(object(&root, "info:fedora/gone").join("v2/content/r1/fcr-container.nt")).unwrap();
    let never = object(&root, "info:fedora/never");
    fs::write(never.join("extensions/0005-mutable-head/head/inventory.json.sha512"), "00 inventory.json").unwrap();
    let secret = store.beside("secret");
    fs::write(&secret, "secret").unwrap();
    std::os::unix::fs::symlink(&secret, root.join("link")).unwrap();
    let report = load(&store, &root, 1);
    assert_eq!(lines(&report, "damaged").len(), 3, "{report:?}");
    let tree = tree(&store);
    assert!(!tree.contains("never") && tree.contains("sub"), "{tree}");
}

#[test]
fn an_inventory_that_leaves_its_object_is_not_followed() {
    let (store, root) = unpacked();
    let secret = root.join("secret");
    fs::write(&secret, "secret").unwrap();
    change_inventory(&object(&root, "info:fedora/gone"), |inventory| {
        let path = "v1/content/../../../../../../secret".to_owned();
        inventory.manifest.insert(digest(Algorithm::Sha512, b"secret"), vec![path]);
    });
    let report = load(&store, &root, 1);
    assert!(lines(&report, "damaged")[0]["why"].as_str().unwrap().contains("is not the path of a file"), "{report:?}");
}

#[test]
fn a_header_of_another_object_is_refused() {
    let (store, root) = unpacked();
    change_inventory(&object(&root, "info:fedora/gone"), |inventory| inventory.id = "info:fedora/other".to_owned());
    let report = load(&store, &root, 1);
    assert!(lines(&report, "damaged")[0]["why"].as_str().unwrap().contains("of another object"), "{report:?}");
}

#[test]
fn a_media_type_that_no_header_may_have_costs_its_resource_and_the_check_names_it() {
    let store = TestStore::vacant();
    let root = Recorded::Versioned.unpacked(&store.beside("root"));
    let object = object(&root, "info:fedora/redirected");
    change_file(&object, HEADER, |header| header.replace("text/plain", "text/plain\\r\\nx: y"));
    let report = store.beside("report.ndjson");
    let args = ["load", root.to_str().unwrap(), "--check", "--report", report.to_str().unwrap()];
    let output = store.run(&args).ends_with(1).stderr;
    assert!(
        output.contains("/redirected: its media type has characters that are not allowed: \"text/plain"),
        "{output}"
    );
    let report = fs::read_to_string(report).unwrap();
    assert!(report.contains("\"what\":\"damaged\",\"resource\":\"/redirected\""), "{report}");
}

#[test]
fn an_object_has_one_resource_unless_it_is_an_archival_group() {
    let (store, root) = unpacked();
    // Each header is below the identifier of the root.
    change_inventory(&object(&root, "info:fedora/gone"), |inventory| inventory.id = "info:fedora".to_owned());
    let report = load(&store, &root, 1);
    let damaged = lines(&report, "damaged");
    assert_eq!(damaged.len(), 1, "{report:?}");
    assert!(damaged[0]["why"].as_str().unwrap().contains("it is no Archival Group"), "{report:?}");
}

#[test]
fn two_objects_of_one_resource_are_left_out_and_the_load_goes_on() {
    let (store, root) = unpacked();
    copy_folder(&object(&root, "info:fedora/never"), &root.join("again"));
    let report = load(&store, &root, 1);
    let damaged = lines(&report, "damaged");
    assert_eq!(damaged.len(), 2, "{report:?}");
    assert!(damaged[0]["why"].as_str().unwrap().contains("another object has /never too"), "{report:?}");
    let tree = tree(&store);
    assert!(!tree.contains("never") && tree.contains("sub"), "{tree}");
}

#[test]
fn a_version_that_is_older_than_what_an_earlier_load_brought_is_reported() {
    let store = TestStore::vacant();
    let root = Recorded::Versioned.unpacked(&store.beside("root"));
    assert_eq!(lines(&load(&store, &root, 1), "time").len(), 0);
    // Fedora went on with this one while others were read: its newest state is its first one again.
    let letters = object(&root, "info:fedora/letters");
    change_inventory(&letters, |inventory| {
        let mut again = inventory.versions["v1"].clone();
        again.created.clone_from(&inventory.versions[&inventory.head].created);
        let head = format!("v{}", inventory.versions.len() + 1);
        inventory.versions.insert(head.clone(), again);
        inventory.head = head;
    });
    let report = load(&store, &root, 1);
    let times = lines(&report, "time");
    assert_eq!(resources(&report, "time"), ["/letters"], "{report:?}");
    assert!(times[0]["there"].as_str().unwrap() < times[0]["here"].as_str().unwrap(), "{report:?}");
}

#[test]
fn what_is_deleted_below_a_container_that_is_deleted_here_is_not_counted_as_loaded() {
    let store = TestStore::vacant();
    let root = Recorded::Versioned.unpacked(&store.beside("root"));
    let note = store.beside("note");
    fs::write(&note, "note").unwrap();
    store.run(&["put", "gone/else", note.to_str().unwrap()]).ends_with(0);
    store.run(&["rm", "gone"]).ends_with(0);
    let report = load(&store, &root, 1);
    let failed = resources(&report, "failed");
    assert!(["/gone", "/gone/child", "/gone/other"].iter().all(|path| failed.contains(path)), "{report:?}");
    assert_eq!(resources(&report, "differs"), [""; 0]);
}

#[test]
fn an_object_of_another_program_is_left_out() {
    let (store, root) = unpacked();
    let other = TestStore::vacant();
    fs::write(other.beside("note"), "note").unwrap();
    other.run(&["put", "note", other.beside("note").to_str().unwrap()]).ends_with(0);
    let archive = other.beside("archive");
    other.run(&["export", "note", archive.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    copy_folder(&archive.join(preservation::ocfl::layout::place("penates:/note")), &root.join("foreign"));
    let report = load(&store, &root, 1);
    assert_eq!(lines(&report, "foreign").len(), 1);
    assert!(lines(&report, "foreign")[0]["why"].as_str().unwrap().contains("--into"), "{report:?}");
}

#[test]
fn what_is_in_a_container_that_is_left_out_is_loaded_into_an_empty_one() {
    let (store, root) = unpacked();
    fs::remove_dir_all(object(&root, "info:fedora/a")).unwrap();
    let report = load(&store, &root, 0);
    assert_eq!(resources(&report, "container"), ["/a"]);
    assert!(tree(&store).contains("b.txt"));
}

#[test]
fn a_root_without_a_layout_is_loaded() {
    let (store, root) = unpacked();
    fs::remove_file(root.join("ocfl_layout.json")).unwrap();
    fs::remove_dir_all(root.join("extensions")).unwrap();
    let moved = root.join("somewhere");
    fs::create_dir(&moved).unwrap();
    fs::rename(object(&root, "info:fedora/gone"), moved.join("else")).unwrap();
    load(&store, &root, 0);
    assert!(tree(&store).contains("b.txt"));
}

#[test]
fn the_folder_above_a_root_is_refused_with_its_place() {
    let store = TestStore::vacant();
    Recorded::OnRequest.unpacked(&store.beside("home/data/ocfl-root"));
    let output = store.run(&["load", store.beside("home").to_str().unwrap()]).ends_with(1);
    assert!(output.stderr.contains("home/data/ocfl-root is one"), "{}", output.stderr);
}

#[test]
fn an_object_with_the_same_state_once_more_is_unchanged() {
    let (store, root) = unpacked();
    load(&store, &root, 0);
    // Fedora went on: a version with the same state once more.
    change_inventory(&object(&root, "info:fedora"), |inventory| {
        let mut again = inventory.versions["v1"].clone();
        again.created = "2026-12-01T10:00:00.5Z".to_owned();
        inventory.versions.insert("v2".to_owned(), again);
        inventory.head = "v2".to_owned();
    });
    let output = store.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert!(output.text().starts_with("loaded 0 resources"), "{}", output.text());
}

#[test]
fn a_killed_load_goes_on_where_it_stopped_with_the_times_of_all_versions() {
    let (whole, root) = unpacked();
    load(&whole, &root, 0);
    let paths = ["", "a", "a/b.txt", "never", "group", "group/sub", "group/sub/b"];
    let histories = |store: &TestStore| paths.map(|path| store.run(&["history", path]).ends_with(0).text().to_owned());
    let expected = histories(&whole);
    let mut killed = 0;
    for round in 0..8_u32 {
        let store = TestStore::vacant();
        let mut command = store.command(&["load", root.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let count = |folder: PathBuf| fs::read_dir(folder).map_or(0, Iterator::count);
        wait_until(|| count(store.path()) > 1 || child.try_wait().unwrap().is_some());
        // This is no wait for an event: the moment of the kill differs from round to round.
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round) * 40));
        let _ = child.kill();
        killed += u32::from(!child.wait().unwrap().success());
        load(&store, &root, 0);
        assert_eq!(histories(&store), expected, "round {round}");
        assert_eq!(tree(&store), tree(&whole));
    }
    assert!(killed > 0, "no load was killed");
}

#[test]
fn an_unfinished_load_is_not_served() {
    let (store, root) = unpacked();
    load(&store, &root, 0);
    let mark = store.path().join("load.json");
    let text = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, text.replace("\"is_finished\":true", "\"is_finished\":false")).unwrap();
    let (backups, copy) = (store.beside("backups"), store.beside("copy"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let backup = store.run(&["backup", "create", &path(&backups)]);
    let copied = Ran::of(penates(&["copy", "--from", &path(&store.path()), "--to", &path(&copy)]));
    for output in [store.run(&["tree"]), backup, copied] {
        assert!(output.code != 0 && output.stderr.contains("unfinished load"), "{}", output.stderr);
    }
    let other = Recorded::OnRequest.unpacked(&store.beside("other"));
    let output = store.run(&["load", &path(&other)]);
    assert!(output.code != 0 && output.stderr.contains("has not finished"), "{}", output.stderr);
    load(&store, &root, 0);
    store.run(&["tree"]).ends_with(0);
    assert!(!mark.exists(), "another command has used the store");
}

/// Whether a file is the inventory that an earlier version had.
fn is_copy(name: &str) -> bool {
    let mut names = name.rsplit('/');
    names.next().is_some_and(|name| name.starts_with("inventory.json"))
        && names.next().is_some_and(|name| name.starts_with('v'))
}

#[test]
fn a_member_of_a_group_that_a_later_version_lacks_is_deleted_here_too() {
    let store = TestStore::vacant();
    let root = Recorded::Versioned.unpacked(&store.beside("root"));
    let member = ["sub/b.bin", "sub/b.bin~fcr-desc.nt", ".fcrepo/sub/b.bin.json", ".fcrepo/sub/b.bin~fcr-desc.json"];
    change_inventory(&object(&root, "info:fedora/group"), |inventory| {
        let mut without = inventory.versions[&inventory.head].clone();
        for paths in without.state.values_mut() {
            paths.retain(|path| !member.contains(&path.as_str()));
        }
        without.state.retain(|_, paths| !paths.is_empty());
        let head = format!("v{}", inventory.versions.len() + 1);
        inventory.versions.insert(head.clone(), without);
        inventory.head = head;
    });
    let report = load(&store, &root, 1);
    assert!(!resources(&report, "failed").contains(&"/group/sub/b.bin"), "{report:?}");
    assert_eq!(resources(&report, "differs"), [""; 0]);
    let gone = store.run(&["cat", "group/sub/b.bin"]).ends_with(1);
    assert!(gone.stderr.contains("deleted"), "{}", gone.stderr);
    assert!(store.run(&["history", "group/sub/b.bin"]).ends_with(0).text().lines().count() > 0);
    assert!(tree(&store).contains("new"), "{}", tree(&store));
}

/// The declaration of an object. What is in it is not read.
const DECLARATION: &str = "0=ocfl_object_1.0";

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn whatever_byte_is_changed_or_file_is_lost_the_check_ends_and_reports_it(pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), flip in any::<u8>()) {
        let (store, root) = unpacked();
        let mut files: Vec<_> = crate::load::files(&root).into_iter().filter(|(name, bytes)| {
            !bytes.is_empty() && name.contains('/') && !name.starts_with("extensions")
                && !name.contains("/revisions/") && !is_copy(name)
        }).collect();
        files.sort();
        let (name, mut bytes) = pick.get(&files).clone();
        // A third of the files are lost.
        let is_lost = flip % 3 == 0 || name.ends_with(DECLARATION);
        if is_lost {
            fs::remove_file(root.join(&name)).unwrap();
        } else {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            fs::write(root.join(&name), bytes).unwrap();
        }
        let ran = store.run(&["load", root.to_str().unwrap(), "--check"]);
        // A sidecar may have another case or other blanks.
        let may_be_sound = !is_lost && name.contains(".sha512");
        prop_assert!(ran.code == 1 || (ran.code == 0 && may_be_sound), "{}: {}", name, ran.stderr);
        prop_assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}
