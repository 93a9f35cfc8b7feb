//! Loads of storage roots that a real Fedora 6.1 wrote: `roots/` has two that were recorded, with what
//! Fedora answered about them. `roots/README.md` says how.

pub mod answers;
mod damaged;
mod elsewhere;
pub mod population;
pub mod server;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use preservation::bagit::text::Algorithm;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::harness::*;
use crate::load::{change_file, digest, is_group};
use answers::{Answer, answers, versions};
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

impl Told {
    /// The same if links lead to another server.
    fn relinked(&self, elsewhere: &str) -> Self {
        let text = serde_json::to_string(self).unwrap().replace(&self.elsewhere, elsewhere);
        serde_json::from_str(&text).unwrap()
    }
}

/// The resources that link to content elsewhere.
const LINKS: [&str; 2] = ["proxied", "redirected"];

/// The file with what Fedora says of the resource of an object in its first version.
const HEADER: &str = "v1/content/.fcrepo/fcr-root.json";

/// Lets the links of an unpacked root lead to a server that runs: the recorded one does not any
/// more. Returns what Fedora then answers.
fn relinked(root: &Path) -> Told {
    let (told, elsewhere) = (Recorded::Versioned.expected(), server::elsewhere());
    for path in LINKS {
        let object = object(root, &format!("info:fedora/{path}"));
        change_file(&object, HEADER, |header| header.replace(&told.elsewhere, &elsewhere));
    }
    told.relinked(&elsewhere)
}

/// The folder of an object, by its identifier (OCFL extension 0004).
fn object(root: &Path, id: &str) -> PathBuf {
    let digest = digest(Algorithm::Sha256, id.as_bytes());
    root.join(&digest[..3]).join(&digest[3..6]).join(&digest[6..9]).join(digest)
}

/// The kinds of lines in a report that say that something is missing or not as it was.
const FAILURES: [&str; 7] = ["damaged", "foreign", "name", "failed", "differs", "time", "changed"];

/// Where the recorded roots are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fedora/roots")
}

/// A server on any port.
const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"];

/// A command on a store that may link to content elsewhere.
pub fn command(store: &TestStore, elsewhere: &str, args: &[&str]) -> Command {
    let mut command = store.command(args);
    command.env("PENATES_LDP__EXTERNAL", format!("[\"{elsewhere}\"]"));
    command
}

/// Loads a storage root, and compares what Penates then answers with what Fedora answered. Returns the
/// report.
pub fn loads_as_told(store: &TestStore, storage_root: &Path, expected: &Told, recorded: Recorded) -> Vec<Value> {
    let place = store.beside("report.ndjson");
    let args = ["load", storage_root.to_str().unwrap(), "--report", place.to_str().unwrap()];
    let ran = Ran::of(command(store, &expected.elsewhere, &args));
    assert!(ran.code == 0 || ran.code == 1, "{}", ran.stderr);
    println!("{}{}", ran.text(), ran.stderr);
    compare(store, expected, recorded);
    report(&place)
}

/// The lines of a report.
fn report(place: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(place).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Compares what a server answers with what Fedora answered, but for the times of versions: only a
/// data folder keeps them.
pub fn compare_without_times(site: &Site, expected: &Told, recorded: Recorded) {
    let all = answers(site, recorded.resources());
    for (path, is_binary) in recorded.resources() {
        let (ours, theirs) = (&all[*path], &expected.answers[*path]);
        assert_eq!((ours.status, &ours.state), (theirs.status, &theirs.state), "{path}");
        let versions = versions(site, path, *is_binary);
        let count: usize = theirs.versions.values().map(|(count, _)| count).sum();
        assert!(versions.len() >= count, "{path}: {versions:?}");
        // Those of Fedora are among them, in their order.
        let mut later = versions.iter();
        for (_, state) in theirs.versions.values() {
            assert!(later.any(|version| version == state), "{path}: {state:?} is not in its place in {versions:?}");
        }
    }
}

/// Compares what Penates answers with what Fedora answered.
pub fn compare(store: &TestStore, expected: &Told, recorded: Recorded) {
    let server = Served::start(command(store, &expected.elsewhere, &SERVE));
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
    let expected = relinked(&root);
    let report = loads_as_told(&store, &root, &expected, Recorded::Versioned);
    assert_eq!(resources(&report, "acl"), ["/letters", "/letters/1.txt"]);
    let statements = lines(&report, "acl")[0]["statements"].as_str().unwrap();
    assert!(statements.contains("<http://www.w3.org/ns/auth/acl#mode>"), "{statements}");
    assert_eq!(resources(&report, "group"), ["/group"]);
    assert!(is_group(&store, "group") && !is_group(&store, "group/sub"));
    assert_eq!(resources(&report, "container"), ["/gh", "/gh/ost", "/letters/a"]);
    assert_eq!(resources(&report, "name"), ["/volumes", "/volumes/v"]);
    assert_eq!(resources(&report, "elsewhere"), LINKS.map(|path| format!("/{path}")));
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
    let server = Served::start(store.command(&SERVE));
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
