//! `penates put`, `cat`, `rm`, `tree`: the repository from the command line.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::*;
use crate::proxy::Proxy;
use crate::store_commands::with_fraction;

/// A server with a store of its own, and files to put into it.
struct Repository {
    store: TestStore,
    served: Served,
}

impl Repository {
    fn new() -> Self {
        let store = TestStore::vacant();
        fs::create_dir(store.beside("files")).unwrap();
        store.run(&["put", "first", empty(&store).to_str().unwrap(), "--type", "text/turtle"]).ends_with(0);
        let served = store.serve(&[]);
        Self { store, served }
    }

    /// Runs a command, which uses the server's socket.
    fn run(&self, args: &[&str]) -> Ran {
        self.store.run(args)
    }

    /// Puts bytes under a name with the extension of their type.
    fn put(&self, resource: &str, name: &str, bytes: &[u8]) -> Ran {
        self.run(&["put", resource, self.file(name, bytes).to_str().unwrap()])
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.store.beside("files").join(name);
        fs::write(&file, bytes).unwrap();
        file
    }
}

fn empty(store: &TestStore) -> PathBuf {
    let file = store.beside("empty");
    fs::write(&file, "").unwrap();
    file
}

/// More bytes than fit into a row of the store, with each value.
fn image() -> Vec<u8> {
    (0..300_000_u32).map(|at| (at * 7 / 3) as u8).collect()
}

const TITLE: &str = "<http://purl.org/dc/terms/title>";

#[test]
fn bytes_from_a_file_or_standard_input_are_read_back_unchanged() {
    let store = TestStore::vacant();
    for (name, bytes) in [("scan.png", image()), ("note.txt", b"few\r\n\0\xFF".to_vec()), ("nothing.bin", Vec::new())] {
        let file = store.beside(name);
        fs::write(&file, &bytes).unwrap();
        // The first one makes the store, and each makes the missing container above it.
        let made = store.run(&["put", &format!("letters/{name}"), file.to_str().unwrap()]).ends_with(0);
        assert_eq!((made.text(), made.stderr.as_str()), (format!("made letters/{name}\n").as_str(), ""));
        let printed = store.run(&["cat", &format!("letters/{name}")]).ends_with(0);
        assert!(printed.stdout == bytes, "{name}");
        assert_eq!(printed.stderr, "");

        let mut from_stdin = store.command(&["put", "/letters/piped", "-", "--type", "application/x-any"]);
        from_stdin.stdin(fs::File::open(file).unwrap());
        Ran::of(from_stdin).ends_with(0);
        assert!(store.run(&["cat", "/letters/piped/"]).ends_with(0).stdout == bytes, "{name}");
    }
}

#[test]
fn a_second_put_replaces_and_programs_learn_whether_it_was_new() {
    let repository = Repository::new();
    assert_eq!(repository.put("a.txt", "one.txt", b"one").ends_with(0).text(), "made a.txt\n");
    assert_eq!(repository.put("a.txt", "two.txt", b"two").ends_with(0).text(), "replaced a.txt\n");
    assert_eq!(repository.run(&["cat", "a.txt"]).ends_with(0).stdout, b"two");
    let file = repository.file("three.txt", b"three");
    let put = |resource| repository.run(&["put", resource, file.to_str().unwrap(), "--json"]).ends_with(0).json();
    assert_eq!(put("a.txt"), json!({"resource": "a.txt", "new": false}));
    assert_eq!(put("b.txt"), json!({"resource": "b.txt", "new": true}));
    assert_eq!(repository.run(&["rm", "b.txt", "--json"]).ends_with(0).json()["deleted"], true);
}

#[test]
fn a_graph_is_a_container_with_its_statements_in_the_requested_syntax() {
    let repository = Repository::new();
    let said = format!("<> {TITLE} \"Letters\" .");
    for (number, name) in ["a.ttl", "a.TTL", "a.nt", "a.rdf", "a.jsonld"].into_iter().enumerate() {
        let body = match name {
            "a.jsonld" => r#"{"@id": "", "http://purl.org/dc/terms/title": "Letters"}"#.to_owned(),
            "a.nt" => said.replace("<>", &format!("<http://localhost/rest/letters{number}>")),
            "a.rdf" => "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:d=\"http://purl.org/dc/terms/\">\
                        <rdf:Description rdf:about=\"\"><d:title>Letters</d:title></rdf:Description></rdf:RDF>"
                .to_owned(),
            _ => said.clone(),
        };
        let container = format!("letters{number}");
        repository.put(&format!("{container}/"), name, body.as_bytes()).ends_with(0);
        repository.put(&format!("{container}/note"), "note.txt", b"in it").ends_with(0);
        let printed = repository.run(&["cat", &container, "--accept", "application/n-triples"]).ends_with(0);
        let iri = format!("<http://localhost/rest/{container}>");
        let lines: Vec<&str> = printed.text().lines().collect();
        for line in [
            format!("{iri} {TITLE} \"Letters\" ."),
            format!("{iri} <http://www.w3.org/ns/ldp#contains> {}/note> .", &iri[..iri.len() - 1]),
        ] {
            assert!(lines.contains(&line.as_str()), "{name}: {line} is not in {lines:?}");
        }
    }
    let turtle = repository.run(&["cat", "letters0"]).ends_with(0);
    assert!(turtle.text().contains("dcterms:title \"Letters\""), "{}", turtle.text());
    let refused = repository.run(&["cat", "letters0", "--accept", "image/png"]).ends_with(1);
    assert!(refused.stderr.contains("text/turtle"), "the available types: {}", refused.stderr);
}

#[test]
fn an_empty_file_of_a_graphs_type_makes_an_empty_container() {
    let repository = Repository::new();
    repository.run(&["put", "shelf/", "/dev/null", "--type", "text/turtle"]).ends_with(0);
    assert_eq!(repository.run(&["tree", "shelf"]).ends_with(0).text(), "shelf/\n");
}

#[test]
fn bytes_are_not_put_at_an_address_that_ends_with_a_slash() {
    let repository = Repository::new();
    let refused = repository.put("shelf/", "scan.png", &image()).ends_with(2);
    assert!(refused.stderr.contains("shelf/scan.png"), "a suggestion: {}", refused.stderr);
    repository.run(&["cat", "shelf"]).ends_with(1);
}

#[test]
fn absent_and_deleted_resources_are_distinguished() {
    let repository = Repository::new();
    for command in ["cat", "rm", "tree", "history", "restore"] {
        let absent = repository.run(&[command, "no/where"]).ends_with(1);
        assert!(absent.stderr.contains("there is nothing at /no/where"), "{command}: {}", absent.stderr);
        assert_eq!(absent.text(), "", "{command}");
    }
    repository.put("letters/note", "note.txt", b"a note").ends_with(0);
    repository.put("letters/other", "other.txt", b"stays").ends_with(0);
    assert_eq!(repository.run(&["rm", "letters/note"]).ends_with(0).text(), "deleted letters/note\n");
    for command in ["cat", "rm", "tree"] {
        let gone = repository.run(&[command, "letters/note"]).ends_with(1);
        assert!(gone.stderr.contains("/letters/note was deleted"), "{command}: {}", gone.stderr);
        assert_eq!(gone.text(), "", "{command}");
    }
    assert_eq!(repository.run(&["tree", "letters"]).ends_with(0).text(), "letters/\n  other\n");
}

#[test]
fn a_container_is_deleted_with_its_contents() {
    let repository = Repository::new();
    for name in ["letters/1870/a", "letters/1870/b", "letters/index", "kept"] {
        repository.put(name, "note.txt", name.as_bytes()).ends_with(0);
    }
    assert_eq!(repository.run(&["rm", "letters/"]).ends_with(0).text(), "deleted letters/\n");
    for name in ["letters", "letters/1870", "letters/1870/a", "letters/index"] {
        let gone = repository.run(&["cat", name]).ends_with(1);
        assert!(gone.stderr.contains("/letters was deleted"), "{name}: {}", gone.stderr);
    }
    assert_eq!(repository.run(&["tree"]).ends_with(0).text(), "/\n  first/\n  kept\n  volumes/\n");
}

#[test]
fn a_name_is_free_again_once_its_deletion_is_forgotten_even_repeatedly() {
    let repository = Repository::new();
    let put = || repository.put("note", "note.txt", b"again");
    for forget in [&[&["rm", "--forget", "note"][..]][..], &[&["rm", "note"], &["rm", "--forget", "note"]]] {
        put().ends_with(0);
        for command in forget {
            repository.run(command).ends_with(0);
        }
        let absent = repository.run(&["cat", "note"]).ends_with(1);
        assert!(absent.stderr.contains("there is nothing at /note"), "{}", absent.stderr);
    }
    put().ends_with(0);
    repository.run(&["rm", "note"]).ends_with(0);
    let refused = put().ends_with(1);
    assert!(refused.stderr.contains("/note was deleted"), "{}", refused.stderr);
    assert!(refused.stderr.contains("penates rm --forget"), "the remedy: {}", refused.stderr);
    let never = repository.run(&["rm", "--forget", "never"]).ends_with(1);
    assert!(never.stderr.contains("there is nothing at /never"), "{}", never.stderr);
}

#[test]
fn if_one_of_several_resources_cannot_be_removed_the_others_are() {
    let repository = Repository::new();
    for name in ["a", "b"] {
        repository.put(name, "note.txt", b"").ends_with(0);
    }
    let ran = repository.run(&["rm", "a", "never", "b"]).ends_with(1);
    assert_eq!(ran.text(), "deleted a\ndeleted b\n");
    assert!(ran.stderr.contains("never"), "{}", ran.stderr);
    assert_eq!(repository.run(&["tree"]).ends_with(0).text(), "/\n  first/\n  volumes/\n");
    let output = repository.run(&["rm", "first", "a", "--json"]).ends_with(1).json_lines();
    assert_eq!(output[0], json!({"resource": "first", "deleted": true}));
    assert_eq!(output[1]["resource"], "a");
    assert!(output[1]["error"].as_str().unwrap().contains("/a was deleted"), "{output:?}");
}

#[test]
fn the_root_is_not_removed() {
    let repository = Repository::new();
    for root in ["", "/"] {
        let refused = repository.run(&["rm", root]).ends_with(1);
        assert!(refused.stderr.contains("405"), "{}", refused.stderr);
    }
    repository.run(&["cat", "first"]).ends_with(0);
}

#[test]
fn a_tree_is_plain_text_sorted_by_name_and_as_deep_as_requested() {
    let repository = Repository::new();
    for name in ["letters/1871/b", "letters/1870/a", "letters/index", "letters/1870/z/deep"] {
        repository.put(name, "note.txt", b"").ends_with(0);
    }
    let tree = |args: &[&str]| {
        let ran = repository.run(&[&["tree"], args].concat()).ends_with(0);
        assert_eq!(ran.stderr, "");
        ran.text().to_owned()
    };
    let whole = "letters/\n  1870/\n    a\n    z/\n      deep\n  1871/\n    b\n  index\n";
    for name in ["letters", "/letters", "letters/"] {
        assert_eq!(tree(&[name]), whole, "{name}");
    }
    assert_eq!(tree(&["letters", "--depth", "1"]), "letters/\n  1870/\n  1871/\n  index\n");
    assert_eq!(tree(&["letters/index"]), "letters/index\n");
    assert!(tree(&[]).starts_with("/\n  first/\n  letters/\n    1870/\n"));
    let output = repository.run(&["tree", "letters/1870", "--depth", "1", "--json"]).ends_with(0).json_lines();
    let expected = [("letters/1870", 0, true), ("letters/1870/a", 1, false), ("letters/1870/z", 1, true)];
    let expected = expected.map(|(resource, depth, container)| {
        json!({"resource": resource, "address": format!("/rest/{resource}"), "depth": depth, "container": container})
    });
    assert_eq!(output, expected);
}

#[test]
fn a_tree_shows_names_as_the_other_commands_accept_them() {
    let repository = Repository::new();
    // A literal in a description that looks like containment is not a child.
    let said = format!("<> {TITLE} \"<http://www.w3.org/ns/ldp#contains> <http://localhost/rest/odd/not> .\" .");
    repository.put("odd", "odd.ttl", said.as_bytes()).ends_with(0);
    let names = ["100%", "a?b#c", "my first", "ü, (and) & 'more'"];
    for name in names {
        repository.put(&format!("odd/{name}"), "note.txt", name.as_bytes()).ends_with(0);
    }
    let shown = repository.run(&["tree", "odd"]).ends_with(0);
    assert_eq!(shown.text().lines().skip(1).map(str::trim_start).collect::<Vec<_>>(), names);
    for name in shown.text().lines().skip(1).map(str::trim_start) {
        assert_eq!(repository.run(&["cat", &format!("odd/{name}")]).ends_with(0).text(), name);
    }
}

#[test]
fn resources_deleted_while_a_tree_is_printed_are_left_out() {
    let url = forgetful_server();
    let output = Ran::of(penates(&["tree", "--server", &url])).ends_with(0);
    assert_eq!((output.text(), output.stderr.as_str()), ("/\n  stays\n", ""));
}

/// A server that lists a resource, and then says that it was deleted.
fn forgetful_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut request = [0; 4 << 10];
            let len = client.read(&mut request).unwrap();
            let request = std::str::from_utf8(&request[..len]).unwrap();
            let contains =
                |name| format!("<http://h/rest/> <http://www.w3.org/ns/ldp#contains> <http://h/rest/{name}> .\n");
            let (status, body) = match request.split(' ').nth(1).unwrap() {
                "/rest/" if request.starts_with("GET") => ("200 OK", contains("gone") + &contains("stays")),
                "/rest/" => ("200 OK\r\nlink: <http://www.w3.org/ns/ldp#Container>; rel=\"type\"", String::new()),
                "/rest/stays" => ("200 OK", String::new()),
                _ => ("410 Gone", String::new()),
            };
            let len = body.len();
            write!(client, "HTTP/1.1 {status}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}").unwrap();
        }
    });
    url
}

#[test]
fn a_reader_that_leaves_ends_tree_and_cat_quietly() {
    let repository = Repository::new();
    repository.put("scan", "scan.png", &[0; 1 << 20]).ends_with(0);
    for args in [&["cat", "scan"][..], &["tree"]] {
        let url = repository.served.url.as_str();
        let (mut child, mut stdout) = piped(penates(&[args, &["--server", url]].concat()));
        if args[0] == "cat" {
            stdout.read_exact(&mut [0; 4]).unwrap();
        }
        drop(stdout);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "{args:?}");
    }
}

#[test]
fn an_invalid_graph_is_refused_with_line_and_column_and_nothing_is_made() {
    let repository = Repository::new();
    let broken = format!("<> {TITLE} \"Letters\" ;\n   {TITLE} oops .\n");
    for resource in ["letters", "above/letters", "first"] {
        let before = repository.run(&["cat", "first"]).ends_with(0).stdout;
        let ran = repository.put(resource, "broken.ttl", broken.as_bytes()).ends_with(2);
        assert!(ran.stderr.contains("line 2") && ran.stderr.contains("column"), "{}", ran.stderr);
        assert_eq!(ran.text(), "");
        assert_eq!(repository.run(&["tree"]).ends_with(0).text(), "/\n  first/\n  volumes/\n");
        assert_eq!(repository.run(&["cat", "first"]).ends_with(0).stdout, before);
    }
}

#[test]
fn a_failed_put_reports_its_reason_and_makes_nothing() {
    let repository = Repository::new();
    repository.put("scan", "scan.png", b"bytes").ends_with(0);
    let tree = || repository.run(&["tree"]).ends_with(0).text().to_owned();
    let before = tree();
    let file = repository.file("note.txt", b"a note");
    let file = file.to_str().unwrap();
    let folder = repository.store.beside("files");
    let nowhere = folder.join("nowhere.txt");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["scan/below", file], 1, "/scan is no container"),
        (&["first", file, "--type", "image/png"], 1, "text/turtle"),
        // Plain text instead of a graph is N-Triples.
        (&["first", file], 2, "The subject of a triple must be"),
        (&["a/../b", file], 2, "`..` cannot be a name"),
        (&["a\tb", file], 2, "control character"),
        (&["fcr:own", file], 2, "fcr:"),
        (&["volumes/mine", file], 1, "reserved for the volumes"),
        (&["note", nowhere.to_str().unwrap()], 2, nowhere.to_str().unwrap()),
        (&["note", folder.to_str().unwrap()], 2, folder.to_str().unwrap()),
        (&["note", file, "--type", "no\ntype"], 2, "--type"),
        (&["note"], 2, "FILE"),
    ];
    for (args, code, output) in cases {
        let mut command = repository.store.command(&["put"]);
        command.args(*args);
        let ran = Ran::of(command).ends_with(*code);
        assert!(ran.stderr.contains(output), "{args:?}: {}", ran.stderr);
        assert_eq!(tree(), before, "{args:?}");
    }
}

#[test]
fn an_unreachable_server_has_its_own_exit_code() {
    let (_socket, closed) = closed_address();
    let url = format!("http://{closed}");
    for args in [&["cat", "a"][..], &["rm", "a"], &["tree"], &["put", "a", "/dev/null"]] {
        let ran = Ran::of(penates(&[args, &["--server", &url]].concat())).ends_with(3);
        assert!(ran.stderr.contains("cannot be reached"), "{args:?}: {}", ran.stderr);
    }
    let store = TestStore::vacant();
    for args in [&["cat", "a"][..], &["rm", "a"], &["tree"]] {
        let ran = store.run(args).ends_with(3);
        assert!(ran.stderr.contains("there is no store in"), "{args:?}: {}", ran.stderr);
    }
    assert!(!store.path().exists());
}

#[test]
fn a_client_that_may_not_write_is_told_how_to_get_the_right() {
    let repository = Repository::new();
    let url = repository.served.url.as_str();
    for args in [&["put", "a", "/dev/null"][..], &["rm", "first"]] {
        let ran = Ran::of(penates(&[args, &["--server", url]].concat())).ends_with(1);
        assert!(ran.stderr.contains("--token"), "{args:?}: {}", ran.stderr);
    }
    Ran::of(penates(&["cat", "first", "--server", url])).ends_with(0);
}

#[test]
fn a_refusal_is_reported_however_much_is_being_sent() {
    let repository = Repository::new();
    let graph = repository.file("large.ttl", &b"# nothing but a comment\n".repeat(1 << 20));
    let bytes = repository.file("large.bin", &[0; 32 << 20]);
    let unknown = ["put", "a", bytes.to_str().unwrap(), "--server", repository.served.url.as_str()];
    let ran = Ran::of(penates(&unknown)).ends_with(1);
    assert!(ran.stderr.contains("--token"), "{}", ran.stderr);
    let ran = repository.run(&["put", "a", graph.to_str().unwrap()]).ends_with(1);
    assert!(ran.stderr.contains("larger than"), "{}", ran.stderr);
    assert_eq!(repository.run(&["tree"]).ends_with(0).text(), "/\n  first/\n  volumes/\n");
}

#[test]
fn a_broken_download_is_a_failure() {
    let repository = Repository::new();
    repository.put("scan", "scan.png", &image()).ends_with(0);
    let proxy = Proxy::start(&repository.served.url, &[10_000]);
    let ran = Ran::of(penates(&["cat", "scan", "--server", &proxy.url])).ends_with(1);
    assert!(ran.stderr.contains("ended early"), "{}", ran.stderr);
    assert!(image().starts_with(&ran.stdout));
}

#[test]
fn direct_and_indirect_containers_are_made_by_flags() {
    let repository = Repository::new();
    let run = |args: &[&str]| repository.run(args);
    run(&["put", "book", "--model", "basic"]).ends_with(0);
    let has_part = "http://purl.org/dc/terms/hasPart";
    run(&["put", "book/pages", "--model", "direct", "--member-of", "book", "--relation", has_part]).ends_with(0);
    repository.put("book/pages/1", "1.txt", b"one").ends_with(0);
    let book = run(&["cat", "book", "--accept", "application/n-triples"]).ends_with(0);
    assert!(book.text().contains("<http://purl.org/dc/terms/hasPart> <") && book.text().contains("book/pages/1> ."));
    let title = repository.file("shelf.ttl", b"<> <http://purl.org/dc/terms/title> \"Shelf\" .");
    let proxies = ["put", "book/about", title.to_str().unwrap(), "--model", "indirect", "--member-of", "book"];
    let flags = [
        "--inverse-relation",
        "http://purl.org/dc/terms/isPartOf",
        "--named-by",
        "http://www.openarchives.org/ore/terms/proxyFor",
    ];
    run(&[&proxies[..], &flags].concat()).ends_with(0);
    let about = run(&["cat", "book/about", "--accept", "application/n-triples"]).ends_with(0);
    assert!(about.text().contains("\"Shelf\"") && about.text().contains("#IndirectContainer>"), "{}", about.text());
    for wrong in [
        &["put", "x", "--model", "direct"][..],
        &["put", "x"],
        &["put", "x", "--model", "direct", "--member-of", "book", "--relation", "no iri"],
        &["put", "x", "--model", "basic", "--member-of", "book"],
        &["put", "x", "--model", "indirect", "--member-of", "book"],
    ] {
        run(wrong).ends_with(2);
    }
    let graph = repository.file("asks.ttl", b"<> <http://www.w3.org/ns/ldp#membershipResource> <book> .");
    let asks = run(&["put", "asks", graph.to_str().unwrap()]).ends_with(1);
    assert!(asks.stderr.contains("say which it is by Link:"), "{}", asks.stderr);
    run(&["put", "asks", graph.to_str().unwrap(), "--model", "source"]).ends_with(0);
}

#[test]
fn each_help_has_examples() {
    for command in ["put", "cat", "rm", "tree"] {
        let help = Ran::of(penates(&[command, "--help"])).ends_with(0);
        assert!(help.text().contains(&format!("\n  penates {command} ")), "{}", help.text());
    }
}

#[test]
fn versions_are_listed_and_restored_and_what_was_deleted_comes_back() {
    let repository = Repository::new();
    for text in ["first", "second", "third"] {
        repository.put("letters/note", "note.txt", text.as_bytes()).ends_with(0);
    }
    let listed = repository.run(&["history", "letters/note"]).ends_with(0);
    let versions: Vec<_> = listed.text().lines().map(|line| line.split_once('\t').unwrap().0.to_owned()).collect();
    assert_eq!(versions.len(), 3, "{}", listed.text());
    let first = format!("letters/note/fcr:versions/{}", versions[0]);
    assert_eq!(repository.run(&["cat", &first]).ends_with(0).text(), "first");
    let json = repository.run(&["history", "letters/note", "--json"]).ends_with(0);
    let json: serde_json::Value = serde_json::from_str(json.text().lines().next().unwrap()).unwrap();
    assert_eq!(json["version"], *versions[0]);

    let graph = ["cat", "letters/note/fcr:versions", "--accept", "application/n-triples"];
    let graph = repository.run(&graph).ends_with(0);
    let begins = format!("fcr:versions/{}> <http://purl.org/dc/terms/created> \"", versions[0]);
    let time = graph.text().split_once(&begins).unwrap().1.split('"').next().unwrap();
    repository.run(&["restore", "letters/note", "--at", &with_fraction(time)]).ends_with(0);
    assert_eq!(repository.run(&["cat", "letters/note"]).ends_with(0).text(), "first");

    let restored = repository.run(&["restore", "letters/note", "--at", &versions[1]]).ends_with(0);
    assert_eq!(restored.text(), "restored letters/note\n");
    assert_eq!(repository.run(&["cat", "letters/note"]).ends_with(0).text(), "second");
    let too_early = repository.run(&["restore", "letters/note", "--at", "2001-01-01T00:00:00Z"]).ends_with(1);
    assert!(too_early.stderr.contains("has no version 20010101000000"), "{}", too_early.stderr);
    let restored = repository.run(&["restore", "letters/note", "--at", "2101-01-01T00:00:00Z", "--json"]).ends_with(0);
    assert_eq!(restored.json()["restored"], true);
    assert_eq!(repository.run(&["cat", "letters/note"]).ends_with(0).text(), "second");

    repository.run(&["rm", "letters"]).ends_with(0);
    assert_eq!(repository.run(&["history", "letters/note"]).ends_with(0).text().lines().count(), 6);
    assert_eq!(repository.run(&["restore", "letters"]).ends_with(0).text(), "restored letters\n");
    assert_eq!(repository.run(&["cat", "letters/note"]).ends_with(0).text(), "second");

    let refused = repository.run(&["restore", "letters", "--at", "yesterday"]).ends_with(2);
    assert!(refused.stderr.contains("2025-06-15T15:06:40Z"), "{}", refused.stderr);
    let refused = repository.run(&["restore", "letters"]).ends_with(2);
    assert!(refused.stderr.contains("name the version"), "{}", refused.stderr);
}
