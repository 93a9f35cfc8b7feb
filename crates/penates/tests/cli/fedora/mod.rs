//! Loads of storage roots that a real Fedora 6.1 wrote: `roots/` has two that were recorded, with what
//! Fedora answered about them. `roots/README.md` says how.

pub mod answers;
mod damaged;
pub mod population;
pub mod server;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::harness::*;
use crate::load::is_group;
use answers::{Answer, answers};
use server::Site;

/// Which of the two roots.
#[derive(Clone, Copy, Debug)]
pub enum Recorded {
    /// Of a Fedora that makes a version of each change.
    Versioned,
    /// Of one that makes versions on request.
    OnRequest,
}

/// What Fedora answered.
#[derive(Serialize, Deserialize)]
pub struct Told {
    /// The address of content that it links to.
    pub elsewhere: String,
    pub answers: BTreeMap<String, Answer>,
}

impl Recorded {
    /// The names of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Versioned => "versioned",
            Self::OnRequest => "on-request",
        }
    }

    /// Its resources.
    pub fn resources(self) -> &'static [(&'static str, bool)] {
        match self {
            Self::Versioned => &population::VERSIONED,
            Self::OnRequest => &population::ON_REQUEST,
        }
    }

    /// What Fedora answered.
    pub fn expected(self) -> Told {
        serde_json::from_slice(&fs::read(folder().join(format!("{}.json", self.name()))).unwrap()).unwrap()
    }

    /// Unpacks it. Returns the storage root.
    pub fn unpacked(self, into: &Path) -> PathBuf {
        fs::create_dir_all(into).unwrap();
        let archive = folder().join(format!("{}.tar.gz", self.name()));
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--gzip", "--file"]).arg(archive).arg("--directory").arg(into);
        assert!(tar.status().unwrap().success());
        into.to_owned()
    }
}

/// The kinds of lines in a report that say that something is missing or not as it was.
const FAILURES: [&str; 7] = ["damaged", "foreign", "name", "failed", "differs", "time", "changed"];

/// Where the recorded roots are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fedora/roots")
}

/// A command on a store that may link to content elsewhere.
pub fn command(store: &TestStore, elsewhere: &str, args: &[&str]) -> Command {
    let mut command = store.command(args);
    command.env("PENATES_LDP__EXTERNAL", format!("[\"{elsewhere}\"]"));
    command
}

/// Loads a storage root, and compares what Penates then answers with what Fedora answered. Returns the
/// report.
pub fn loads_as_told(store: &TestStore, storage_root: &Path, expected: &Told, recorded: Recorded) -> Vec<Value> {
    let report = store.beside("report.ndjson");
    let args = ["load", storage_root.to_str().unwrap(), "--report", report.to_str().unwrap()];
    let ran = Ran::of(command(store, &expected.elsewhere, &args));
    assert!(ran.code == 0 || ran.code == 1, "{}", ran.stderr);
    println!("{}{}", ran.text(), ran.stderr);
    compare(store, expected, recorded);
    let lines = fs::read_to_string(report).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares what Penates answers with what Fedora answered.
pub fn compare(store: &TestStore, expected: &Told, recorded: Recorded) {
    let serve = command(store, &expected.elsewhere, &["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"]);
    let server = Served::start(serve);
    let ours = answers(&Site::open(format!("{}/rest/", server.url)), recorded.resources());
    let is_same = |path: &str, theirs: &Answer| {
        let ours = &ours[path];
        // The last version of a second is the same. Here there may be more: states that were none, and
        // two in the place of one that changed bytes and description.
        let version = |second: &str| ours.versions.get(second);
        let are_there = theirs
            .versions
            .iter()
            .all(|(second, (count, state))| version(second).is_some_and(|(here, is)| is == state && here >= count));
        // And Fedora lists none of its root, and none of what is deleted.
        let is_exact =
            matches!(recorded, Recorded::Versioned) && path != population::IN_ONE && !theirs.versions.is_empty();
        let are_same = are_there && (!is_exact || ours.versions == theirs.versions);
        are_same && ours.status == theirs.status && ours.state == theirs.state
    };
    let differing = expected.answers.iter().filter(|(path, theirs)| !is_same(path, theirs));
    let shown = differing.map(|(path, theirs)| format!("{path}\n  theirs {theirs:?}\n  ours   {:?}", ours[path]));
    let shown: Vec<_> = shown.collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

/// The lines of a report about something.
fn lines<'a>(report: &'a [Value], what: &str) -> Vec<&'a Value> {
    report.iter().filter(|line| line["what"] == what).collect()
}

fn resources<'a>(report: &'a [Value], what: &str) -> Vec<&'a str> {
    let mut paths: Vec<_> = lines(report, what).into_iter().filter_map(|line| line["resource"].as_str()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn a_root_of_fedora_is_loaded_with_its_versions_and_what_is_not_is_reported() {
    let store = TestStore::vacant();
    let root = Recorded::Versioned.unpacked(&store.beside("root"));
    let expected = Recorded::Versioned.expected();
    let report = loads_as_told(&store, &root, &expected, Recorded::Versioned);
    assert_eq!(resources(&report, "acl"), ["/letters", "/letters/1.txt"]);
    let statements = lines(&report, "acl")[0]["statements"].as_str().unwrap();
    assert!(statements.contains("<http://www.w3.org/ns/auth/acl#mode>"), "{statements}");
    assert_eq!(resources(&report, "group"), ["/group"]);
    assert!(is_group(&store, "group") && !is_group(&store, "group/sub"));
    assert_eq!(resources(&report, "container"), ["/gh", "/gh/ost", "/letters/a"]);
    assert_eq!(resources(&report, "name"), ["/volumes", "/volumes/v"]);
    for what in FAILURES.iter().filter(|what| **what != "name") {
        assert_eq!(resources(&report, what), [""; 0], "{what}");
    }
    let by_alice = lines(&report, "people").into_iter().find(|line| line["resource"] == "/letters/by-alice");
    assert_eq!(by_alice.unwrap()["created_by"], "alice");
}

#[test]
fn a_root_of_fedora_with_mutable_heads_is_loaded_with_their_states() {
    let store = TestStore::vacant();
    let root = Recorded::OnRequest.unpacked(&store.beside("root"));
    let expected = Recorded::OnRequest.expected();
    let report = loads_as_told(&store, &root, &expected, Recorded::OnRequest);
    assert_eq!(resources(&report, "unversioned"), ["/a", "/a/b.txt", "/group", "/never"]);
    assert_eq!(resources(&report, "tombstone"), ["/unseen"]);
    for what in FAILURES {
        assert_eq!(resources(&report, what), [""; 0], "{what}");
    }
}

#[test]
fn a_second_load_of_a_root_of_fedora_finds_all_of_it() {
    let store = TestStore::vacant();
    let root = Recorded::OnRequest.unpacked(&store.beside("root"));
    let load = || store.run(&["load", root.to_str().unwrap()]).ends_with(0).text().to_owned();
    assert!(load().starts_with("loaded 7 resources"));
    let again = load();
    assert!(again.starts_with("loaded 0 resources (0 B of bytes), 8 unchanged, 0 failed"), "{again}");
    assert!(again.contains("verified 8 resources with all of their versions"), "{again}");
}

#[test]
fn acls_of_fedora_are_kept_as_files_also_without_a_report_and_a_second_load_changes_none() {
    let store = TestStore::vacant();
    let root = Recorded::OnRequest.unpacked(&store.beside("root"));
    let load = || {
        let loaded = store.run(&["load", root.to_str().unwrap()]).ends_with(0);
        assert!(loaded.stderr.contains("warning: everything loaded is readable"), "{}", loaded.stderr);
        loaded.text().to_owned()
    };
    let histories = || {
        let history = |path: &str| store.run(&["history", path]).ends_with(0).text().to_owned();
        ["acl", "acl/group~fcr-acl.nt"].map(history)
    };
    let told = load();
    assert!(told.contains("\n1 ACLs kept below /acl, not applied\n"), "{told}");
    assert!(!told.contains("ACLs not applied") && !told.contains("ACLs not kept"), "{told}");
    let kept = store.run(&["cat", "acl/group~fcr-acl.nt"]).ends_with(0).text().to_owned();
    assert!(kept.contains("<http://www.w3.org/ns/auth/acl#accessTo> <info:fedora/group> ."), "{kept}");
    let before = histories();
    let again = load();
    assert!(again.contains("\n1 ACLs kept below /acl, not applied\n"), "{again}");
    assert_eq!(histories(), before);
    let server = Served::start(store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"]));
    let site = Site::open(format!("{}/rest/", server.url));
    let (status, description) = site.get("acl/group~fcr-acl.nt/fcr:metadata", &["Accept: application/n-triples"]);
    let relation = format!("<http://purl.org/dc/terms/relation> <{}/rest/group> .", server.url);
    assert!(status == 200 && description.contains(&relation), "{description}");
}

#[test]
fn acls_of_fedora_are_kept_below_a_free_name_if_there_is_something_else_at_theirs() {
    let store = TestStore::vacant();
    let root = Recorded::OnRequest.unpacked(&store.beside("root"));
    let note = store.beside("note");
    fs::write(&note, "note").unwrap();
    store.run(&["put", "acl", note.to_str().unwrap()]).ends_with(0);
    for _ in 0..2 {
        let ran = store.run(&["load", root.to_str().unwrap()]);
        assert!(ran.text().contains("\n1 ACLs kept below /acl-2, not applied\n"), "{}{}", ran.text(), ran.stderr);
    }
    assert_eq!(store.run(&["cat", "acl"]).ends_with(0).text(), "note");
    assert!(store.run(&["cat", "acl-2/group~fcr-acl.nt"]).ends_with(0).text().contains("acl#mode"));
}

#[test]
fn a_root_of_fedora_makes_no_store_if_it_is_checked_or_if_the_load_is_not_told_to() {
    let store = TestStore::vacant();
    let root = Recorded::OnRequest.unpacked(&store.beside("root"));
    let expected = store.run(&["load", root.to_str().unwrap(), "--check"]).ends_with(0);
    assert!(expected.text().starts_with("checked 8 objects with "), "{}", expected.text());
    let load = ["load", root.to_str().unwrap(), "--store", store.path().to_str().unwrap()].map(str::to_owned);
    let refused = Ran::of(penates(&load)).ends_with(3);
    assert!(refused.stderr.contains("--init makes a new one"), "{}", refused.stderr);
    assert!(!store.path().exists());
    let root = Recorded::Versioned.unpacked(&store.beside("versioned"));
    let expected = store.run(&["load", root.to_str().unwrap(), "--check"]).ends_with(1);
    assert!(
        expected.text().contains(" resources with bytes stored elsewhere, which need ldp.external"),
        "{}",
        expected.text()
    );
}
