//! What the audit says of commands.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;

use serde_json::Value;
use store::{FormatLevel, Store, SystemClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::harness::*;

/// The events of a store, as `action target` with their results.
fn events(store: &TestStore, conditions: &[&str]) -> Vec<(String, String)> {
    let lines = store.run(&[&["audit", "--json"], conditions].concat()).ends_with(0).json_lines();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown =
        |event: &Value| (format!("{} {}", text(&event["action"]), text(&event["target"])), text(&event["result"]));
    lines.iter().map(shown).collect()
}

#[test]
fn every_command_that_changes_something_is_in_the_audit_with_its_user() {
    let store = TestStore::with(&[SMALL]);
    let file = store.beside("note.txt");
    std::fs::write(&file, "a note").unwrap();
    let file = file.to_str().unwrap();
    store.run(&["put", "notes/one", file]).ends_with(0);
    let bag = store.beside("bag");
    let bag = bag.to_str().unwrap();
    store.run(&["export", "notes", bag, "--as", "bagit"]).ends_with(0);
    let rescued = store.beside("rescued");
    let commands = [
        &["token", "create", "guest", "--scope", "read"][..],
        &["token", "revoke", "guest"],
        &["delete", SMALL],
        &["rm", "notes/one"],
        &["restore", "notes/one"],
        &["load", "--into", "again", bag],
        &["read-only", "on", "--reason", "the disk"],
        &["read-only", "off"],
        &["salvage", "--to", rescued.to_str().unwrap()],
    ];
    for command in commands {
        store.run(command).ends_with(0);
    }
    let done = events(&store, &["--kind", "change", "--result", "ok"]);
    let volume = format!("/volumes/{SMALL}");
    let expected = [
        format!("import {volume}"),
        "PUT /rest/notes/one".to_owned(),
        "POST /admin/tokens/guest".to_owned(),
        "DELETE /admin/tokens/guest".to_owned(),
        format!("DELETE {volume}"),
        "DELETE /rest/notes/one".to_owned(),
        "PUT /rest/again/notes/one".to_owned(),
        "PUT /admin/read-only".to_owned(),
        "DELETE /admin/read-only".to_owned(),
    ];
    for event in expected {
        assert!(done.iter().any(|(done, _)| *done == event), "{event} is not among {done:?}");
    }
    let lines = store.run(&["audit", "--json", "--kind", "change"]).ends_with(0).json_lines();
    assert!(lines.iter().all(|event| event["user"].is_string()), "{lines:?}");
    let by = |agent: &str| lines.iter().any(|event| event["agent"].as_str().unwrap().contains(agent));
    assert!(
        ["(import)", "(put)", "(token)", "(delete)", "(rm)", "(restore)", "(load)", "(read-only)"].into_iter().all(by),
        "{lines:?}"
    );
    let rescued = penates(&["audit", "--target", "/", "--kind", "change", "--store", rescued.to_str().unwrap()]);
    let rescued = Ran::of(rescued).ends_with(0);
    assert!(rescued.text().lines().any(|line| line.contains("change  salvage /")), "{}", rescued.text());
    let table = store.run(&["audit", "--csv", "--result", "404"]).ends_with(0);
    assert_eq!(table.text().lines().count(), 1, "headings alone: {}", table.text());
    let table = store.run(&["audit", "--csv", "--target", "/rest/notes/"]).ends_with(0);
    assert!(table.text().lines().nth(1).unwrap().contains(",PUT,"), "{}", table.text());
}

#[test]
fn a_person_is_erased_from_what_was_read_and_changed_and_the_erasure_is_recorded_without_the_name() {
    let store = TestStore::with(&[SMALL]);
    let token = store.run(&["token", "create", "jane@example.org"]).ends_with(0).text().trim().to_owned();
    let served = store.serve(&[]);
    Ran::of(penates(&["get", "--server", &served.url, "--token", &token, SMALL])).ends_with(0);
    Ran::of(penates(&["delete", "--server", &served.url, "--token", &token, SMALL])).ends_with(0);
    assert!(store.run(&["audit"]).ends_with(0).text().contains("jane@example.org"));
    let erased = store.run(&["audit", "erase", "--token", "jane@example.org", "--json"]).ends_with(0).json();
    assert!(erased["records"].as_u64().unwrap() >= 4, "{erased}");
    let left = store.run(&["audit", "--json"]).ends_with(0);
    assert!(!left.text().contains("jane"), "{}", left.text());
    assert!(!left.text().contains("127.0.0.1"), "{}", left.text());
    assert!(left.text().contains("/admin/tokens/(erased)") && left.text().contains("/admin/audit/erase"));
    assert!(left.text().contains("ACCESSED") && left.text().contains(SMALL), "what was done stays");
    let again = store.run(&["audit", "erase", "--token", "jane@example.org", "--json"]).ends_with(0).json();
    assert_eq!(again["records"], 0);
    served.stop("TERM");
}

#[tokio::test]
async fn a_store_of_an_earlier_level_has_changes_in_its_audit_once_it_is_upgraded() {
    let store = TestStore::vacant();
    let earlier = EmbeddedOptions { newest_level: FormatLevel::SCOPES, ..EmbeddedOptions::default() };
    EmbeddedStore::open(&store.path(), earlier, Arc::new(SystemClock)).unwrap().close().await.unwrap();
    store.run(&["token", "create", "early"]).ends_with(0);
    assert_eq!(events(&store, &[]), []);
    store.run(&["upgrade"]).ends_with(0);
    store.run(&["token", "create", "late"]).ends_with(0);
    let changes: Vec<_> = events(&store, &["--kind", "change"]).into_iter().map(|(change, _)| change).collect();
    assert_eq!(changes, ["upgrade /", "POST /admin/tokens/late"]);
}

#[test]
fn a_follower_prints_what_is_recorded_and_ends_when_asked_or_when_nobody_reads() {
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let refused = store.run(&["audit", "--follow"]).ends_with(2);
    assert!(refused.stderr.contains("needs a running server"), "{}", refused.stderr);
    let served = store.serve(&[]);
    let from = ["audit", "--follow", "--json", "--from", "2020-01-01T00:00:00Z", "--kind", "change"];
    let follow = || {
        let mut follower = store.command(&from);
        let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
        (follower, lines)
    };
    let (mut follower, mut lines) = follow();
    let (mut other, others) = follow();
    for name in ["one", "two"] {
        store.run(&["token", "create", name]).ends_with(0);
        let line = lines.next().unwrap().unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["target"], format!("/admin/tokens/{name}"), "{line}");
    }
    drop(others);
    assert_eq!(other.wait().unwrap().code(), Some(0), "nobody reads it, and nothing happens");
    signal(&follower, "INT");
    let mut said = String::new();
    follower.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(follower.wait().unwrap().code(), Some(0), "{said}");
    assert!(said.contains("To go on: --from 20"), "{said}");
    assert_eq!(served.stop("TERM").0, 0);
}
