//! What the audit says of commands.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use clap::CommandFactory;
use penates::cli::Cli;
use serde_json::Value;

use crate::documentation::file;
use crate::harness::*;

use Said::{In, Nothing, This};

/// What the audit says of a command.
enum Said {
    /// An event that begins like this, which the test below finds.
    This(&'static str),
    /// What a test shows, in this file and of this name.
    In(&'static str, &'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// What it says of each command that can be given.
const OF_COMMANDS: [(&str, Said); 27] = [
    ("import", This("import /volumes/psia.ark:/13960/t0ks80527")),
    ("synth", This("import /volumes/")),
    ("delete", This("DELETE /volumes/psia.ark:/13960/t0ks80527")),
    ("put", This("PUT /rest/notes/one")),
    ("rm", This("DELETE /rest/notes/one")),
    ("restore", This("POST /rest/notes/one/")),
    ("load", This("PUT /rest/again/notes/one")),
    ("token create", This("POST /admin/tokens/guest")),
    ("token revoke", This("DELETE /admin/tokens/guest")),
    ("read-only", This("PUT /admin/read-only")),
    ("webhooks resume", This("POST /admin/webhooks/index/resume")),
    ("bridges resume", This("POST /admin/bridges/fedora/resume")),
    ("search rebuild", This("POST /admin/search/rebuild")),
    ("reload", This("POST /admin/reload")),
    ("backup create", This("POST /admin/cut")),
    // In the new store.
    ("salvage", In("audited.rs", "every_command_that_changes_something_is_in_the_audit_with_its_user")),
    ("copy", In("copy.rs", "a_store_is_copied_while_it_serves_and_its_promises_hold_in_the_copy")),
    ("promote", In("follow.rs", "a_copy_follows_its_source_by_the_feed_and_takes_its_place_with_all_versions")),
    ("upgrade", Nothing("there is one level")),
    (
        "audit erase",
        In(
            "audited.rs",
            "a_person_is_erased_from_what_was_read_and_changed_and_the_erasure_is_recorded_without_the_name",
        ),
    ),
    ("home", In("proofs/two_datacenters.rs", "the_home_is_moved_and_lost_and_no_two_data_centers_write_at_once")),
    ("init", Nothing("a store has to be empty to be copied to")),
    ("demo, serve", Nothing("they serve, and the audit has what their clients do")),
    ("records import, records set", Nothing("there are too many records")),
    ("backup delete, backup restore", Nothing("they change no store")),
    (
        "audit, backup check, backup list, bridges list, bridges test, cat, export, feed, fixity check, fixity copies, \
         fixity report, fixity status, get, history, ls, records export, records get, records scan, search status, \
         stat, token list, tokens, tree, verify, webhooks list, webhooks test",
        Nothing("they change nothing"),
    ),
    (
        "completions, config, man, plan, records plan, warm",
        Nothing("they are about no store, or about the caches of its nodes"),
    ),
];

/// The commands that can be given, below a command.
fn commands(command: &clap::Command, above: &str) -> Vec<String> {
    let mut all = Vec::new();
    for below in command.get_subcommands() {
        let name = format!("{above}{}", below.get_name());
        all.extend(commands(below, &format!("{name} ")));
        if !below.is_subcommand_required_set() {
            all.push(name);
        }
    }
    all
}

#[test]
fn of_each_command_it_is_known_what_the_audit_says() {
    let mut known: Vec<&str> = OF_COMMANDS.iter().flat_map(|(names, _)| names.split(", ")).collect();
    known.sort_unstable();
    let mut all = commands(&Cli::command(), "");
    all.sort_unstable();
    assert_eq!(known, all);
    for (names, said) in &OF_COMMANDS {
        match said {
            This(event) => assert!(!event.is_empty()),
            In(name, test) => {
                let tests = fs::read_to_string(file("crates/penates/tests/cli").join(name)).unwrap();
                assert!(tests.contains(&format!("fn {test}(")), "{names}: {name} has no test {test}");
            }
            Nothing(why) => assert!(!why.is_empty()),
        }
    }
}

/// Receivers that nobody listens for.
const RECEIVERS: &str = r#"
[ldp]
origin = "http://books.test"
[feed]
webhooks_networks = ["127.0.0.0/8"]
bridges_networks = ["127.0.0.0/8"]
[[feed.webhooks]]
name = "index"
url = "http://127.0.0.1:1/"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
[[feed.bridges]]
name = "fedora"
url = "amqp://127.0.0.1:1"
"#;

#[test]
fn every_command_that_changes_something_is_in_the_audit_with_its_user() {
    let store = TestStore::with(&[SMALL]);
    let run = |args: &[&str]| {
        let mut command = store.command(args);
        command.env("PENATES_HISTORY__VOLUMES", "all");
        Ran::of(command).ends_with(0)
    };
    let beside = |name: &str| store.beside(name).to_str().unwrap().to_owned();
    let [note, receivers] = ["note.txt", "receivers.toml"].map(beside);
    fs::write(&note, "a note").unwrap();
    fs::write(&receivers, RECEIVERS).unwrap();
    let [bag, rescued, backups] = ["bag", "rescued", "backups"].map(beside);
    for command in [
        &["put", "notes/one", &note][..],
        &["export", "notes", &bag, "--as", "bagit"],
        &["synth", "--volumes", "1", "--pages", "1"],
        &["token", "create", "guest", "--scope", "read"],
        &["token", "revoke", "guest"],
        &["delete", SMALL],
        &["restore", "--volume", SMALL],
        &["rm", "notes/one"],
        &["restore", "notes/one"],
        &["load", "--into", "again", &bag],
        &["read-only", "on", "--reason", "the disk"],
        &["read-only", "off"],
        &["webhooks", "resume", "index", "--from", "start", "--config", &receivers],
        &["bridges", "resume", "fedora", "--from", "start", "--config", &receivers],
        &["salvage", "--to", &rescued],
    ] {
        run(command);
    }
    let server = store.serve(&[]);
    // It makes the index soon after it has started.
    wait_until(|| store.run(&["search", "rebuild"]).code == 0);
    run(&["reload"]);
    run(&["backup", "create", &backups]);
    assert_eq!(server.stop("TERM").0, 0);

    let done = store.run(&["audit", "--json", "--kind", "change", "--result", "ok"]).ends_with(0).json_lines();
    let has = |command: &str, event: &str| {
        let by = format!("({})", command.split(' ').next().unwrap());
        done.iter().any(|line| {
            let [action, target, agent] =
                ["action", "target", "agent"].map(|key| line[key].as_str().unwrap_or_default());
            format!("{action} {target}").starts_with(event) && agent.contains(&by)
        })
    };
    for (command, said) in &OF_COMMANDS {
        if let This(event) = said {
            assert!(has(command, event), "{command}: {event} is not among {done:?}");
        }
    }
    assert!(has("restore", &format!("POST /volumes/{SMALL}/versions/")), "{done:?}");
    assert!(has("read-only", "DELETE /admin/read-only"), "{done:?}");
    let lines = store.run(&["audit", "--json", "--kind", "change"]).ends_with(0).json_lines();
    assert!(lines.iter().all(|event| event["user"].is_string()), "{lines:?}");

    let rescued = penates(&["audit", "--target", "/", "--kind", "change", "--store", &rescued]);
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
