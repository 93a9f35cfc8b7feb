//! `penates copy` and `penates read-only`: copies one store into another while the first serves.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use store::copying::{Copier, Patience};
use store::{Store, SystemClock};
use store_cassandra::testing;
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::harness::*;

fn copy(from: &str, to: &str, more: &[&str]) -> Command {
    penates(&[&["copy", "--from", from, "--to", to], more].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The archive of a volume, and its entity tag.
fn archive(url: &str) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (headers, body) = (folder.path().join("headers"), folder.path().join("body"));
    let got = Command::new("curl").args(["-sf", "-D", text(&headers), "-o", text(&body), url]).status().unwrap();
    assert!(got.success(), "{url}: {got}");
    let headers = std::fs::read_to_string(headers).unwrap().to_lowercase();
    let etag = headers.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_default().to_owned();
    (etag, std::fs::read(body).unwrap())
}

fn volume(server: &Served, id: &str) -> (String, Vec<u8>) {
    archive(&format!("{}/volumes?volumeIDs={id}", server.url))
}

#[test]
fn a_store_is_copied_while_it_serves_and_its_promises_hold_in_the_copy() {
    let from = TestStore::with(&[SMALL]);
    let server = from.serve(&["--set", "auth.write=open"]);
    let imported =
        ["import", "--server", &server.url, text(&sample_folder(OTHER)).to_owned().as_str()].map(str::to_owned);
    Ran::of(penates(&imported)).ends_with(0);
    let ids = from.beside("ids.txt");
    std::fs::write(&ids, format!("{SMALL}\n{OTHER}\n")).unwrap();
    let selected = Command::new("curl")
        .args(["-sf", "-H", "Content-Type: text/plain", "--data-binary", &format!("@{}", text(&ids))])
        .arg(format!("{}/selections", server.url))
        .output()
        .unwrap();
    let selection: serde_json::Value = serde_json::from_slice(&selected.stdout).unwrap();
    let address = selection["address"].as_str().unwrap().to_owned();
    let (of_volume, of_selection) = (volume(&server, SMALL), archive(&format!("{}{address}", server.url)));

    let to = TestStore::vacant();
    let copied = Ran::of(copy(text(&from.path()), text(&to.path()), &["--json"])).ends_with(0);
    assert!(copied.json()["passes"].as_u64().unwrap() >= 2, "{}", copied.text());

    // It continues to serve, and refuses changes.
    assert_eq!(volume(&server, SMALL), of_volume);
    let refused = Ran::of(penates(&["delete", "--server", &server.url, SMALL])).ends_with(1);
    assert!(refused.stderr.contains("read-only"), "{}", refused.stderr);
    assert!(from.run(&["read-only"]).ends_with(0).text().contains("it is being copied to"));
    from.run(&["read-only", "off"]).ends_with(0);
    Ran::of(penates(&["delete", "--server", &server.url, OTHER])).ends_with(0);
    assert_eq!(server.stop("TERM").0, 0);

    let server = to.serve(&[]);
    assert_eq!(volume(&server, SMALL), of_volume, "another archive, or another tag");
    assert_eq!(archive(&format!("{}{address}", server.url)), of_selection, "the selection does not hold");
    assert_eq!(to.ids(), [SMALL, OTHER]);
    assert!(to.run(&["audit", "--json"]).ends_with(0).text().contains(OTHER), "the audit was left behind");
    let changes = to.run(&["audit", "--kind", "change"]).ends_with(0);
    assert!(changes.text().contains("change  copy /"), "{}", changes.text());
    to.run(&["verify"]).ends_with(0);
    assert_eq!(to.run(&["read-only", "--json"]).ends_with(0).json(), json!({"reason": null}));
}

#[test]
fn records_are_copied_from_a_running_server() {
    let from = TestStore::vacant();
    let lines: String =
        (0..500).map(|n| format!("{{\"id\":\"r{n:03}\",\"attributes\":{{\"n\":\"{n}\"}}}}\n")).collect();
    let file = from.beside("records.ndjson");
    std::fs::write(&file, lines).unwrap();
    from.run(&["records", "import", text(&file)]).ends_with(0);
    let server = from.serve(&[]);
    let to = TestStore::vacant();
    Ran::of(copy(text(&from.path()), text(&to.path()), &[])).ends_with(0);
    let exported = |store: &TestStore| {
        let exported = store.run(&["records", "export"]).ends_with(0);
        let mut lines: Vec<_> = exported.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let copied = exported(&to);
    assert_eq!(copied.len(), 500);
    assert_eq!(copied, exported(&from));
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn a_question_that_no_copy_asks_is_refused_before_it_is_decoded() {
    let store = TestStore::vacant();
    store.run(&["records", "set", "a", "x=1"]).ends_with(0);
    let server = store.serve(&[]);
    let socket = store.path().join("penates.sock");
    let ask = |bytes: usize| {
        let file = store.beside("question");
        std::fs::write(&file, vec![0xff; bytes]).unwrap();
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", text(&socket)]);
        curl.args(["--data-binary", &format!("@{}", text(&file)), "http://localhost/admin/store"]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    assert_eq!(ask(500_000), "413");
    assert_eq!(ask(100), "400");
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn repeating_a_finished_copy_changes_nothing_in_the_source() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    Ran::of(copy(text(&from.path()), text(&to.path()), &[])).ends_with(0);
    for more in [&[][..], &["--keep-source"]] {
        let again = Ran::of(copy(text(&from.path()), text(&to.path()), more)).ends_with(2);
        assert!(again.stderr.contains("a finished copy of"), "{}", again.stderr);
        assert!(again.stderr.contains("name an empty target"), "{}", again.stderr);
        let refused = from.run(&["delete", SMALL]).ends_with(1);
        assert!(refused.stderr.contains("it is being copied to"), "the source takes changes: {}", refused.stderr);
    }
    assert_eq!(to.ids(), [SMALL]);
}

#[test]
fn a_failed_copy_leaves_a_read_only_source_read_only() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    from.run(&["read-only", "on", "--reason", "it is being moved"]).ends_with(0);
    Ran::of(copy(text(&from.path()), text(&to.path()), &["--keep-source"])).ends_with(0);
    assert_eq!(from.run(&["read-only", "--json"]).ends_with(0).json(), json!({"reason": "it is being moved"}));
}

#[test]
fn a_copy_that_is_killed_leaves_its_source_read_only_only_until_its_lease_ends() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let server = from.serve(&["--set", "auth.write=open"]);
    let state = || from.run(&["read-only", "--json"]).ends_with(0).json()["reason"].as_str().map(str::to_owned);
    // It takes a while to compare.
    let more = ["--rate", "50KiB", "--lease", "3s"];
    let mut copying = copy(text(&from.path()), text(&to.path()), &more).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| state().is_some());
    copying.kill().unwrap();
    copying.wait().unwrap();
    let delete = || Ran::of(penates(&["delete", "--server", &server.url, SMALL]));
    if let Some(reason) = state() {
        assert!(reason.contains("it is being copied to") && reason.contains("(lease until "), "{reason}");
    }
    wait_until(|| state().is_none());
    delete().ends_with(0);
    assert_eq!(server.stop("TERM").0, 0);
    // The row is still there, and means nothing.
    from.run(&["import", text(&sample_folder(OTHER))]).ends_with(0);
    Ran::of(copy(text(&from.path()), text(&to.path()), &[])).ends_with(0);
    assert_eq!(to.ids(), [OTHER]);
    assert!(!state().unwrap().contains("lease"), "a finished copy replaces its source for good");
}

#[test]
fn a_copy_ends_with_an_error_once_somebody_lets_its_source_take_changes() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let _server = from.serve(&[]);
    let state = || from.run(&["read-only", "--json"]).ends_with(0).json()["reason"].as_str().map(str::to_owned);
    let (child, _stdout) = piped(copy(text(&from.path()), text(&to.path()), &["--rate", "30KiB", "--lease", "4s"]));
    wait_until(|| state().is_some());
    let printed = from.run(&["read-only", "off"]).ends_with(0);
    assert!(printed.text().contains("will end with an error"), "{}", printed.text());
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("has changed whether"), "{said}");
    assert_eq!(state(), None);
}

#[test]
fn a_copy_neither_replaces_nor_removes_the_reason_of_an_operator() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let _server = from.serve(&[]);
    let (child, _stdout) = piped(copy(text(&from.path()), text(&to.path()), &["--rate", "30KiB"]));
    // The source is open then.
    wait_until(|| to.path().join("db").exists());
    from.run(&["read-only", "on", "--reason", "the disk is being replaced"]).ends_with(0);
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("read-only"), "{said}");
    let state = || from.run(&["read-only", "--json"]).ends_with(0).json();
    assert_eq!(state(), json!({"reason": "the disk is being replaced"}));

    let socket = from.path().join("penates.sock");
    let ask = |method: &str, query: &str| {
        let url = format!("http://localhost/admin/read-only?{query}");
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", text(&socket), "-X", method]);
        String::from_utf8(curl.arg(url).output().unwrap().stdout).unwrap()
    };
    assert_eq!(ask("PUT", "reason=mine&instead_of="), "409", "another reason holds");
    assert_eq!(ask("DELETE", "instead_of=mine"), "409");
    assert_eq!(state(), json!({"reason": "the disk is being replaced"}));
    assert_eq!(ask("PUT", "reason=mine&instead_of=the%20disk%20is%20being%20replaced"), "200");
    assert_eq!(ask("DELETE", "instead_of=mine"), "200");
    assert_eq!(ask("PUT", "reason=past%20(lease%20until%202020-01-01T00:00:00Z)&instead_of="), "200");
    assert_eq!(ask("PUT", "reason=mine&instead_of="), "200", "a lease that has ended does not count");
}

#[test]
fn an_unfinished_copy_is_neither_served_nor_shown_nor_copied() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::vacant());
    let name = from.path().canonicalize().unwrap().display().to_string();
    let begun = async {
        let open = |path: &Path| {
            EmbeddedStore::open(path, EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap() as Arc<dyn Store>
        };
        let (source, target) = (open(&from.path()), open(&to.path()));
        Copier::begin(source.clone(), target.clone(), &name, Patience::default()).await.unwrap();
        source.close().await.unwrap();
        target.close().await.unwrap();
    };
    tokio::runtime::Runtime::new().unwrap().block_on(begun);
    let beside = TestStore::vacant();
    let to_copy = ["copy", "--from", text(&to.path()), "--to", text(&beside.path())].map(str::to_owned);
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let import = ["import", text(&sample_folder(OTHER))].map(str::to_owned);
    for refused in [
        to.run(&["ls"]),
        to.run(&["stat"]),
        to.run(&[&import[0], &import[1]]),
        to.run(&listen),
        Ran::of(penates(&to_copy)),
    ] {
        let refused = refused.ends_with(3);
        assert!(refused.stderr.contains("an unfinished copy"), "{}", refused.stderr);
        let goes_on = format!("penates copy --from {name} --to {}", text(&to.path()));
        assert!(refused.stderr.contains(&goes_on), "{}", refused.stderr);
    }
    Ran::of(copy(text(&from.path()), text(&to.path()), &[])).ends_with(0);
    assert_eq!(to.ids(), [SMALL]);
}

/// The repository's own address, whatever port serves it; anybody may write.
const REPOSITORY: [&str; 4] = ["--set", "ldp.origin=http://library.example", "--set", "auth.write=open"];

/// Requests a resource of the repository. Returns the status, the entity tag and the body.
fn ask(server: &Served, method: &str, path: &str, headers: &[&str], body: &[u8]) -> (u16, String, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let [head, sent, got] = ["headers", "sent", "got"].map(|name| folder.path().join(name));
    std::fs::write(&sent, body).unwrap();
    let mut curl = Command::new("curl");
    curl.args([
        "-s",
        "-X",
        method,
        "-D",
        text(&head),
        "-o",
        text(&got),
        "-H",
        "Accept: application/n-triples, */*;q=0.1",
    ]);
    for header in headers {
        curl.args(["-H", header]);
    }
    if !body.is_empty() {
        curl.args(["--data-binary", &format!("@{}", text(&sent))]);
    }
    let answered = curl.arg(format!("{}/rest/{path}", server.url)).status().unwrap();
    assert!(answered.success(), "{method} {path}: {answered}");
    let head = std::fs::read_to_string(head).unwrap();
    // There is a head for each "continue" before the last.
    let last = head.trim_end().rsplit("\r\n\r\n").next().unwrap();
    let status = last.split_whitespace().nth(1).unwrap().parse().unwrap();
    let etag =
        last.lines().find_map(|line| line.to_lowercase().starts_with("etag: ").then(|| line[6..].trim().to_owned()));
    (status, etag.unwrap_or_default(), std::fs::read(got).unwrap_or_default())
}

fn read(server: &Served, path: &str) -> (u16, String, Vec<u8>) {
    let (status, etag, body) = ask(server, "GET", path, &[], &[]);
    // A graph is a set: the order of its lines and the labels of its blank nodes do not matter.
    let mut lines: Vec<Vec<u8>> = body.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.sort();
    (status, etag, lines.concat())
}

#[test]
fn the_repository_is_the_same_in_a_copy_and_can_be_changed_there() {
    let from = TestStore::vacant();
    let server = from.serve(&REPOSITORY);
    let put = |path: &str, headers: &[&str], body: &[u8], expected: u16| {
        let (status, _, printed) = ask(&server, "PUT", path, headers, body);
        assert_eq!(status, expected, "{path}: {}", String::from_utf8_lossy(&printed));
    };
    let basic = ["Content-Type: text/turtle", "Link: <http://www.w3.org/ns/ldp#BasicContainer>; rel=\"type\""];
    let direct = ["Content-Type: text/turtle", "Link: <http://www.w3.org/ns/ldp#DirectContainer>; rel=\"type\""];
    let bytes = ["Content-Type: application/x-bytes"];
    put("letters", &basic, b"<> <http://example.org/title> \"Letters\" .", 201);
    put("letters/note", &bytes, b"a note", 201);
    put("letters/scan", &bytes, &b"first ".repeat(50_000), 201);
    put("letters/scan", &bytes, &b"second ".repeat(50_000), 204);
    put("letters/lost", &bytes, b"lost", 201);
    put(
        "members",
        &direct,
        b"@prefix ldp: <http://www.w3.org/ns/ldp#> . <> ldp:membershipResource </rest/letters> ; \
          ldp:hasMemberRelation <http://example.org/has> .",
        201,
    );
    put("members/one", &basic, b"<> <http://example.org/n> 1 .", 201);
    put("members/one", &basic, b"<> <http://example.org/n> 2 .", 204);
    assert_eq!(ask(&server, "DELETE", "letters/lost", &[], &[]).0, 204);
    let paths = ["", "letters", "letters/note", "letters/scan", "letters/lost", "members", "members/one"];
    let before = paths.map(|path| read(&server, path));
    assert_eq!(before.clone().map(|(status, ..)| status), [200, 200, 200, 200, 410, 200, 200]);
    let tree = from.run(&["tree"]).ends_with(0).text().to_owned();

    let to = TestStore::vacant();
    Ran::of(copy(text(&from.path()), text(&to.path()), &[])).ends_with(0);
    let (status, _, printed) = ask(&server, "PUT", "late", &bytes, b"late");
    assert_eq!(status, 503, "{}", String::from_utf8_lossy(&printed));
    assert_eq!(server.stop("TERM").0, 0);

    let server = to.serve(&REPOSITORY);
    for (path, before) in paths.iter().zip(before.clone()) {
        let after = read(&server, path);
        assert!(after == before, "/{path} is another: {:?} {:?}", (before.0, &before.1), (after.0, &after.1));
    }
    assert_eq!(to.run(&["tree"]).ends_with(0).text(), tree);
    // A client that read a resource from the source can change it in the copy; another client
    // cannot.
    let graph = b"<> <http://example.org/n> 3 .";
    let [tagged, stale] = [&before[6].1, &before[1].1].map(|etag| format!("If-Match: {etag}"));
    assert_eq!(ask(&server, "PUT", "members/one", &[basic[0], &stale], graph).0, 412);
    assert_eq!(ask(&server, "PUT", "members/one", &[basic[0], &tagged], graph).0, 204);
    assert_eq!(ask(&server, "PUT", "members/two", &basic, b"").0, 201);
    let listed = String::from_utf8(read(&server, "members").2).unwrap();
    let named = |name: &str| listed.contains(&format!("ldp#contains> <http://library.example/rest/members/{name}>"));
    assert!(named("one") && named("two"), "{listed}");
    assert_eq!(ask(&server, "DELETE", "letters/lost/fcr:tombstone", &[], &[]).0, 204);
    assert_eq!(ask(&server, "PUT", "letters/lost", &bytes, b"found").0, 201);
}

/// The bytes that the files in a folder take on the disk; 0 for a missing file.
fn disk_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => 512 * metadata.blocks(),
        // It was deleted meanwhile.
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[test]
fn a_copy_killed_at_any_moment_resumes_and_ends_whole() {
    let from = TestStore::vacant();
    from.run(&["synth", "--volumes", "30", "--pages", "60"]).ends_with(0);
    let to = TestStore::vacant();
    let mut has_ended = false;
    for round in 1..=6 {
        let mut copying = copy(text(&from.path()), text(&to.path()), &[]).spawn().unwrap();
        // In the first round before anything is copied, and later after a part of the rest.
        let enough_bytes = disk_bytes(&to.path()) + (round - 1) * (100 << 10);
        wait_until(|| disk_bytes(&to.path()) >= enough_bytes || copying.try_wait().unwrap().is_some());
        copying.kill().unwrap();
        has_ended = copying.wait().unwrap().success();
        if has_ended {
            break;
        }
    }
    if !has_ended {
        // It may have been killed between its end and that of its process.
        let last = Ran::of(copy(text(&from.path()), text(&to.path()), &[]));
        assert!(last.code == 0 || last.stderr.contains("finished copy"), "{}", last.stderr);
    }
    assert_eq!(to.ids(), from.ids());
    to.run(&["verify"]).ends_with(0);
}

#[test]
fn a_store_moves_to_cassandra_and_back() {
    let Some(node) = testing::node() else { return };
    let cluster = format!("cassandra://{}/moved", node.contact_points()[0]);
    let at = |args: &[&str]| Ran::of(penates(&[args, &["--store", &cluster]].concat()));
    let from = TestStore::with(&[SMALL]);
    let before = volume(&from.serve(&[]), SMALL);
    from.run(&["delete", SMALL]).ends_with(0);
    from.run(&["import", text(&sample_folder(SMALL))]).ends_with(0);
    from.run(&["token", "create", "reader"]).ends_with(0);

    Ran::of(copy(text(&from.path()), &cluster, &[])).ends_with(3);
    at(&["init"]).ends_with(0);
    Ran::of(copy(text(&from.path()), &cluster, &["--keep-source"])).ends_with(0);
    assert_eq!(from.run(&["read-only", "--json"]).ends_with(0).json(), json!({"reason": null}));
    at(&["verify"]).ends_with(0);
    assert_eq!(sorted_lines(at(&["ls"]).ends_with(0).text()), [SMALL]);
    assert!(at(&["token", "list"]).ends_with(0).text().contains("reader"));

    at(&["import", text(&sample_folder(OTHER))]).ends_with(0);
    let back = TestStore::vacant();
    Ran::of(copy(&cluster, text(&back.path()), &[])).ends_with(0);
    assert_eq!(back.ids(), [SMALL, OTHER]);
    back.run(&["verify"]).ends_with(0);
    assert_eq!(volume(&back.serve(&[]), SMALL).1, before.1);
    let refused = at(&["delete", SMALL]).ends_with(1);
    assert!(refused.stderr.contains("read-only"), "{}", refused.stderr);
}

#[test]
fn a_copy_onto_itself_or_onto_other_data_is_refused_and_changes_nothing() {
    let (from, to) = (TestStore::with(&[SMALL]), TestStore::with(&[OTHER]));
    let same = Ran::of(copy(text(&from.path()), text(&from.path()), &[])).ends_with(2);
    assert!(same.stderr.contains("same store"), "{}", same.stderr);
    let other = Ran::of(copy(text(&from.path()), text(&to.path()), &[])).ends_with(2);
    assert!(other.stderr.contains("not empty"), "{}", other.stderr);
    assert_eq!(to.ids(), [OTHER]);
    Ran::of(copy(text(&from.path()), text(&to.path()), &["--set", "no.such=1"])).ends_with(2);
    Ran::of(copy(text(&from.beside("nowhere")), text(&to.beside("new")), &[])).ends_with(3);
    from.run(&["delete", SMALL]).ends_with(0);
    to.run(&["delete", OTHER]).ends_with(0);
}

#[test]
fn a_damaged_content_is_left_out_and_named_with_or_without_a_server() {
    let store = TestStore::with(&[SMALL]);
    let scan = store.beside("scan.bin");
    // The first block, and one that is reached after some data was sent.
    for (name, at) in [("first", 10), ("later", 700_000)] {
        let known = contents(&store.path());
        std::fs::write(&scan, name.repeat(200_000)).unwrap();
        store.run(&["put", name, text(&scan)]).ends_with(0);
        let file = contents(&store.path()).into_iter().find(|file| !known.contains(file)).unwrap();
        let mut content = std::fs::read(&file).unwrap();
        content[at] ^= 1;
        std::fs::write(file, content).unwrap();
    }
    std::fs::write(&scan, "sound".repeat(200_000)).unwrap();
    store.run(&["put", "sound", text(&scan)]).ends_with(0);
    let copied = |to: &str| {
        let to = store.beside(to);
        let ran = Ran::of(copy(text(&store.path()), text(&to), &["--keep-source", "--json"])).ends_with(1);
        let mut printed: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(contents(&to).len(), 1, "the sound one");
        printed["damaged_contents"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
        printed["damaged_contents"].clone()
    };
    let own = copied("own");
    assert_eq!(own.as_array().unwrap().len(), 2);
    let _server = store.serve(&[]);
    assert_eq!(copied("served"), own);
}

/// The files of contents of a store.
fn contents(store: &Path) -> Vec<std::path::PathBuf> {
    let shards = std::fs::read_dir(store.join("contents")).unwrap().map(|shard| shard.unwrap().path());
    shards.flat_map(|shard| std::fs::read_dir(shard).unwrap()).map(|file| file.unwrap().path()).collect()
}
