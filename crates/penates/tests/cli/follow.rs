//! `penates copy --follow` and `penates promote`: a copy that is kept up to date by the change feed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use store::copying::{Copier, Followed, Patience};
use store::{Store, SystemClock, UnixMillis};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::harness::*;
use crate::ocfl_volumes::sha512;

/// Anybody may write, and resources have the same addresses whatever port serves them.
const OPEN: [&str; 3] =
    ["--set=auth.write=open", "--set=ldp.origin=http://library.example", "--set=history.volumes=all"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A follower, with its lines of JSON.
pub struct Follower {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Follower {
    pub fn start(from: &str, to: &TestStore, more: &[&str]) -> Self {
        let follow = ["copy", "--follow", "--json", "--report-every", "50ms", "--from", from, "--to"];
        let mut follower = penates(&[&follow[..], &[text(&to.path())], more].concat());
        let mut child = follower.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next report for which this holds.
    fn reports(&mut self, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().expect("the follower has ended").unwrap();
            let report: Value = serde_json::from_str(&line).unwrap();
            if what(&report) {
                return report;
            }
        }
    }

    /// Waits until it has all changes until now.
    pub fn is_up_to_date(&mut self) -> Value {
        let now = Timestamp::now();
        let until = |report: &Value| report["until"].as_str().map(|until| until.parse::<Timestamp>().unwrap());
        self.reports(|report| until(report).is_some_and(|until| until > now))
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn stop(mut self) {
        signal(&self.child, "TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stores a text at a path.
pub fn put(server: &Served, store: &TestStore, path: &str, content: &str) {
    let file = store.beside("content");
    std::fs::write(&file, content).unwrap();
    Ran::of(penates(&["put", path, text(&file), "--type", "text/plain", "--server", &server.url])).ends_with(0);
}

/// What clients see of some resources: their versions with names and times, their bytes with tags,
/// and how they are listed. Then the versions of volumes, with what an archive has of each.
pub fn seen(server: &Served, paths: &[&str]) -> Vec<String> {
    let at = |args: &[&str]| Ran::of(penates(&[args, &["--server", &server.url]].concat()));
    let mut seen = vec![at(&["tree"]).ends_with(0).text().to_owned()];
    seen.push(sorted_lines(at(&["ls"]).ends_with(0).text()).join(" "));
    for path in paths {
        let history = at(&["history", path, "--json"]);
        seen.push(format!("{path} {} {}", history.code, history.text()));
        let curl = ["-s", "-D", "-", "-H", "Accept: text/turtle, */*;q=0.1"];
        let got = Command::new("curl").args(curl).arg(format!("{}/rest/{path}", server.url)).output().unwrap();
        let lines = String::from_utf8_lossy(&got.stdout).into_owned();
        let varying = ["date:", "x-request-id:"];
        let lines = lines.lines().filter(|line| !varying.iter().any(|name| line.to_lowercase().starts_with(name)));
        seen.push(lines.collect::<Vec<_>>().join("\n"));
    }
    for id in VOLUMES {
        let history = at(&["history", "--volume", id, "--json"]);
        seen.push(format!("versions of {id}: {} {}", history.code, history.text()));
        for version in history.json_lines() {
            let time = version["time"].as_str().unwrap();
            let archive = at(&["get", id, "--mets", "--as-of", time]).ends_with(0).stdout;
            seen.push(format!("archive of {id} at {time}: {}", sha512(&archive)));
        }
    }
    seen
}

/// What is changed, and compared.
pub const PATHS: [&str; 6] = ["letters", "letters/1", "letters/2", "letters/large", "letters/gone", "late"];

/// The volumes that are changed, and compared.
const VOLUMES: [&str; 2] = [SMALL, OTHER];

/// Changes of every kind, the larger of them in several versions.
pub fn change(server: &Served, store: &TestStore) {
    let description = store.beside("description.ttl");
    std::fs::write(&description, "<> <http://purl.org/dc/terms/references> </rest/letters/1> .").unwrap();
    for path in ["letters", "letters/2"] {
        let file = text(&description).to_owned();
        Ran::of(penates(&["put", path, &file, "--server", &server.url])).ends_with(0);
    }
    for version in ["one", "two", "three"] {
        put(server, store, "letters/1", version);
        put(server, store, "letters/large", &version.repeat(50_000));
    }
    put(server, store, "letters/gone", "gone");
    Ran::of(penates(&["rm", "letters/gone", "--server", &server.url])).ends_with(0);
    Ran::of(penates(&["import", "--server", &server.url, text(&sample_folder(OTHER))])).ends_with(0);
    let page = format!("{}/volumes/{}/pages/3", server.url, OTHER.replace('/', "%2F"));
    let read_again = ["-sf", "-X", "PUT", "-H", "Content-Type: text/plain", "-d", "It was misread.", &page];
    assert!(Command::new("curl").args(read_again).status().unwrap().success());
    Ran::of(penates(&["delete", "--server", &server.url, SMALL])).ends_with(0);
}

#[test]
fn a_copy_follows_its_source_by_the_feed_and_takes_its_place_with_all_versions() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let server = from.serve(&OPEN);
    put(&server, &from, "early", "early");
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    let first = follower.is_up_to_date();
    assert_eq!(first["state"], "following");
    change(&server, &from);
    let report = follower.is_up_to_date();
    assert_eq!(report["whole_pass"], first["whole_pass"], "the feed was followed, and not everything compared");
    assert!(report["changed"].as_u64() > first["changed"].as_u64());
    assert!(report["lag_seconds"].as_f64().unwrap() < 60.0, "{report}");
    follower.stop();
    assert!(to.run(&["ls"]).ends_with(3).stderr.contains("unfinished copy"), "nobody reads it meanwhile");

    // The source is lost.
    let before = seen(&server, &PATHS);
    assert!(before.iter().any(|line| line.contains("three")), "{before:?}");
    let kept = before.iter().find(|lines| lines.starts_with(&format!("versions of {OTHER}"))).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
    drop(server);
    let promoted = to.run(&["promote", "--json"]).ends_with(0).json();
    assert_eq!(promoted["incomplete"], serde_json::json!([]));
    assert!(to.run(&["audit"]).ends_with(0).text().contains("change  promote /"));
    let server = to.serve(&OPEN);
    for (after, before) in seen(&server, &PATHS).into_iter().zip(before) {
        assert_eq!(after, before);
    }
    put(&server, &to, "late", "it takes changes");
    assert_eq!(server.stop("TERM").0, 0);
    to.run(&["verify"]).ends_with(0);
    assert!(to.run(&["promote"]).ends_with(2).stderr.contains("takes changes already"));
}

#[test]
fn another_site_follows_with_a_token_that_the_source_names_and_ends_equal() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let token = |name: &str| from.run(&["token", "create", name]).ends_with(0).text().trim().to_owned();
    let (site, other) = (token("site"), token("other"));
    let copy = |server: &Served, token: &str, follow: &[&str]| {
        let target = to.path();
        let args = ["copy", "--from", &server.url, "--to", text(&target), "--token", token];
        Ran::of(penates(&[&args[..], follow].concat()))
    };
    let closed = from.serve(&OPEN);
    let refused = copy(&closed, &site, &["--follow"]).ends_with(2);
    assert!(refused.stderr.contains("auth.copy"), "{}", refused.stderr);
    assert_eq!(closed.stop("TERM").0, 0);

    let listen = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0", "--set=auth.copy=[\"site\"]"];
    let server = Served::start(from.command(&[&listen[..], &OPEN].concat()));
    let refused = copy(&server, &other, &["--follow"]).ends_with(1);
    assert!(refused.stderr.contains("auth.copy"), "{}", refused.stderr);
    // Over TLS, with the certificate that it names.
    let certificate = from.path().join("tls/cert.pem");
    let given = ["--token", &site, "--rate", "100MiB", "--ca-cert", text(&certificate)];
    let mut follower = Follower::start(&server.tls_url(), &to, &given);
    follower.is_up_to_date();
    change(&server, &from);
    let first = follower.is_up_to_date();
    follower.stop();
    // The same store by another address, now and at the end.
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    assert_eq!(follower.is_up_to_date()["whole_pass"], first["whole_pass"], "it went on where it was");
    follower.stop();

    let refused = copy(&server, &site, &[]).ends_with(2);
    assert!(refused.stderr.contains("read-only on"), "{}", refused.stderr);
    // A store that is read-only sends no archives, because it cannot pin what they read.
    let before = seen(&server, &PATHS);
    from.run(&["read-only", "on", "--reason", "it moves"]).ends_with(0);
    copy(&server, &site, &[]).ends_with(0);
    drop(server);
    let server = to.serve(&OPEN);
    assert_eq!(seen(&server, &PATHS), before);
}

#[test]
fn a_follower_and_a_source_that_are_killed_go_on_and_lose_nothing() {
    let (from, to) = (TestStore::vacant(), TestStore::vacant());
    let mut server = from.serve(&OPEN);
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    for round in 0..4 {
        for n in 0..6 {
            // Half of them are so large that they are uploaded.
            put(&server, &from, &format!("letters/{n}"), &format!("{round} {n}").repeat(1 + 10_000 * (n % 2)));
        }
        match round {
            0 => {}
            1 | 3 => {
                follower.kill();
                follower = Follower::start(text(&from.path()), &to, &[]);
            }
            _ => {
                drop(server);
                follower.reports(|report| report["state"] == "unreachable");
                server = from.serve(&OPEN);
            }
        }
    }
    follower.is_up_to_date();
    follower.kill();
    let paths: Vec<String> = (0..6).map(|n| format!("letters/{n}")).collect();
    let paths: Vec<&str> = std::iter::once("letters").chain(paths.iter().map(String::as_str)).collect();
    let before = seen(&server, &paths);
    drop(server);
    to.run(&["promote"]).ends_with(0);
    let server = to.serve(&OPEN);
    for (after, before) in seen(&server, &paths).into_iter().zip(before) {
        assert_eq!(after, before);
    }
    drop(server);
    to.run(&["verify"]).ends_with(0);
}

#[test]
fn a_container_that_came_and_went_while_the_follower_was_down_is_restored_whole_after_a_promotion() {
    let (from, to) = (TestStore::vacant(), TestStore::vacant());
    let server = from.serve(&OPEN);
    put(&server, &from, "early", "early");
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    let first = follower.is_up_to_date();
    follower.stop();
    let children: Vec<String> = (0..20).map(|n| format!("short/{n}")).collect();
    for child in &children {
        put(&server, &from, child, child);
    }
    Ran::of(penates(&["rm", "short", "--server", &server.url])).ends_with(0);
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    let report = follower.is_up_to_date();
    assert_eq!(report["whole_pass"], first["whole_pass"], "the feed was followed, and not everything compared");
    follower.stop();

    // The source is lost.
    drop(server);
    to.run(&["promote"]).ends_with(0);
    let server = to.serve(&OPEN);
    let at = |args: &[&str]| Ran::of(penates(&[args, &["--server", &server.url]].concat()));
    assert_eq!(at(&["restore", "short"]).ends_with(0).text(), "restored short\n");
    for child in &children {
        assert_eq!(at(&["cat", child]).ends_with(0).text(), child);
    }
    drop(server);
    to.run(&["verify"]).ends_with(0);
}

#[test]
fn a_follower_whose_changes_were_dropped_compares_everything() {
    let (from, to) = (TestStore::vacant(), TestStore::vacant());
    let server = from.serve(&OPEN);
    put(&server, &from, "kept", "first");
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    let first = follower.is_up_to_date();
    follower.stop();
    put(&server, &from, "kept", "second");
    assert_eq!(server.stop("TERM").0, 0);
    // Without a feed nothing is announced, and earlier cursors are refused.
    let server = from.serve(&[&OPEN[..], &["--set=feed.keep=0s"]].concat());
    put(&server, &from, "unannounced", "text");
    let mut refused = penates(&["copy", "--follow", "--from", text(&from.path()), "--to", text(&to.path())]);
    let refused = Ran::of({
        refused.stdout(Stdio::null());
        refused
    });
    assert!(refused.ends_with(1).stderr.contains("feed.keep"));
    assert_eq!(server.stop("TERM").0, 0);
    let server = from.serve(&OPEN);
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    let second = follower.reports(|report| report["whole_pass"].as_str() > first["whole_pass"].as_str());
    assert_ne!(second["whole_pass"], first["whole_pass"]);
    follower.is_up_to_date();
    follower.stop();
    let before = seen(&server, &["kept", "unannounced"]);
    drop(server);
    to.run(&["promote"]).ends_with(0);
    let server = to.serve(&OPEN);
    assert_eq!(seen(&server, &["kept", "unannounced"]), before);
}

/// Leaves a copy like a follower that died in a pass, when it had copied so many tables: in its
/// first pass, or in one of which the last whole one before it was long ago. No process has the two
/// stores open.
fn die_in_a_pass(from: &TestStore, to: &TestStore, tables_copied: u32, last_whole: Option<UnixMillis>) {
    let name = from.path().canonicalize().unwrap().display().to_string();
    let died = async {
        let open = |store: &TestStore| -> Arc<dyn Store> {
            EmbeddedStore::open(&store.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap()
        };
        let (source, target) = (open(from), open(to));
        let copier = Copier::begin(source.clone(), target.clone(), &name, Patience::default()).await.unwrap();
        let followed = copier.followed().await.unwrap().unwrap();
        let until = last_whole.and(followed.until);
        copier.set_followed(&Followed { whole: last_whole, until, ..followed }).await.unwrap();
        let mut tables = 0;
        let between = async || {
            tables += 1;
            anyhow::ensure!(tables < tables_copied, "it dies");
            anyhow::Ok(())
        };
        copier.pass_with(between).await.unwrap_err();
        drop(copier);
        source.close().await.unwrap();
        target.close().await.unwrap();
    };
    tokio::runtime::Runtime::new().unwrap().block_on(died);
}

#[test]
fn a_follower_that_died_in_its_first_pass_and_whose_changes_were_dropped_begins_that_pass_again() {
    let (from, to) = (TestStore::vacant(), TestStore::vacant());
    let server = from.serve(&OPEN);
    put(&server, &from, "kept", "first");
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    follower.is_up_to_date();
    follower.stop();
    assert_eq!(server.stop("TERM").0, 0);
    // Contents, objects and packs.
    die_in_a_pass(&from, &to, 3, None);
    // Nothing of these is announced, and earlier cursors are refused.
    let server = from.serve(&[&OPEN[..], &["--set=feed.keep=0s"]].concat());
    put(&server, &from, "kept", "second");
    put(&server, &from, "unannounced", "text");
    assert_eq!(server.stop("TERM").0, 0);
    let server = from.serve(&OPEN);
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    follower.is_up_to_date();
    follower.stop();
    let before = seen(&server, &["kept", "unannounced"]);
    drop(server);
    to.run(&["promote"]).ends_with(0);
    let server = to.serve(&OPEN);
    assert_eq!(seen(&server, &["kept", "unannounced"]), before);
}

#[test]
fn a_follower_that_goes_on_with_a_pass_reports_no_whole_one_before_it_has_compared_everything() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let server = from.serve(&OPEN);
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    follower.is_up_to_date();
    follower.stop();
    assert_eq!(server.stop("TERM").0, 0);
    // All tables up to the selections.
    die_in_a_pass(&from, &to, 7, Some(UnixMillis(0)));
    let server = from.serve(&OPEN);
    // The feed does not name it.
    let selected = ["-sf", "-H", "Content-Type: text/plain", "--data-binary", SMALL];
    let selected = Command::new("curl").args(selected).arg(format!("{}/selections", server.url)).output().unwrap();
    let selected: Value = serde_json::from_slice(&selected.stdout).unwrap();
    let address = selected["address"].as_str().unwrap();
    let mut follower = Follower::start(text(&from.path()), &to, &[]);
    follower.reports(|report| report["whole_pass"].as_str().is_some_and(|time| !time.starts_with("1970")));
    follower.stop();
    drop(server);
    to.run(&["promote"]).ends_with(0);
    let server = to.serve(&OPEN);
    let status = ["-s", "-o", "/dev/null", "-w", "%{http_code}"];
    let got = Command::new("curl").args(status).arg(format!("{}{address}", server.url)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&got.stdout), "200", "the selection was not copied");
}

#[test]
fn a_follower_refuses_another_store_at_the_same_place_and_a_copy_that_was_never_whole() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let server = from.serve(&OPEN);
    let metrics = from.beside("metrics");
    let mut follower = Follower::start(text(&from.path()), &to, &["--metrics", text(&metrics)]);
    follower.is_up_to_date();
    follower.stop();
    let written = std::fs::read_to_string(metrics).unwrap();
    assert!(written.contains("penates_copy_reachable 1\n"), "{written}");
    crate::watch::assert_follower_documented(&written);
    drop(server);
    std::fs::remove_dir_all(from.path()).unwrap();
    from.run(&["import", text(&sample_folder(OTHER))]).ends_with(0);
    let _server = from.serve(&OPEN);
    let follow = ["copy", "--follow", "--from", text(&from.path()), "--to", text(&to.path())].map(str::to_owned);
    let refused = Ran::of(penates(&follow)).ends_with(2);
    assert!(refused.stderr.contains("another store"), "{}", refused.stderr);
    let part = TestStore::with(&[SMALL]);
    for other in [&from, &part] {
        let copy = penates(&["copy", "--from", text(&other.path()), "--to", text(&to.path())]);
        let refused = Ran::of(copy).ends_with(2);
        assert!(refused.stderr.contains("another store"), "{}", refused.stderr);
    }
    to.run(&["promote"]).ends_with(0);
    assert_eq!(to.ids(), [SMALL]);

    assert!(part.run(&["promote"]).ends_with(2).stderr.contains("takes changes already"));
}
