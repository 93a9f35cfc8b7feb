//! Clients of Fedora, of RDF and of Solid that others wrote, unchanged, on a real server.
//!
//! Each client is a program beside this file. It says in lines what it did and what came of it, and
//! the test compares the lines.

pub mod packages;

use std::path::Path;
use std::process::Command;

use store_cassandra::testing::not_run;

use crate::harness::{Ran, Served, TestStore};

/// A server, and a token that may change everything.
struct Repository {
    _store: TestStore,
    served: Served,
    token: String,
}

impl Repository {
    fn start() -> Self {
        let store = TestStore::vacant();
        let served = store.serve(&[]);
        let token = store.run(&["token", "create", "librarian"]).ends_with(0).text().trim().to_owned();
        Self { _store: store, served, token }
    }

    /// What a client says, in lines.
    fn told_by(&self, mut client: Command) -> Vec<String> {
        client.arg(format!("{}/rest/", self.served.url)).arg(&self.token);
        let output = Ran::of(client).ends_with(0).text().replace(&self.served.url, "");
        output.lines().map(str::to_owned).collect()
    }
}

/// Compares what a client says.
#[track_caller]
fn says(output: &[String], expected: &[&str]) {
    assert_eq!(output, expected, "\n{}\n", output.join("\n"));
}

/// The path of a file beside this one.
fn beside(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/clients").join(name)
}

/// A program in Java with the libraries of a list; nothing, which is reported, if they are not there.
fn java(program: &str, list: &str, part: &str) -> Option<Command> {
    match packages::of_maven(list) {
        Ok(jars) => {
            let mut command = Command::new("java");
            // It runs for a moment: optimizing it would take longer than it runs.
            command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]).arg(jars.join("*"));
            command.arg(beside(program)).arg(part);
            Some(command)
        }
        Err(reason) => {
            not_run(&format!("{program}: {reason}"));
            None
        }
    }
}

fn fedora(part: &str) -> Option<Command> {
    java("FedoraClient.java", "fcrepo-pom.xml", part)
}

fn jena(part: &str) -> Option<Command> {
    java("JenaClient.java", "jena-pom.xml", part)
}

fn solid(part: &str) -> Option<Command> {
    match packages::of_npm("@inrupt/solid-client", "3.0.0") {
        Ok(folder) => {
            let mut command = Command::new("node");
            command.arg(beside("solid_client.mjs")).arg(folder).arg(part);
            Some(command)
        }
        Err(reason) => {
            not_run(&format!("solid-client: {reason}"));
            None
        }
    }
}

#[test]
fn fedoras_java_client_creates_changes_lists_and_deletes_resources() {
    let Some(client) = fedora("resources") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "post: 201",
            "location: /rest/letters",
            "put: 204",
            "put a direct container: 201",
            "put a child: 201",
            "patch: 204",
            "read: [Briefe, Letters], contains 2",
            "head: 200",
            "types: true",
            "get what is known: 304",
            "put under a condition: 204",
            "put of what was read before: 412",
            "read: [Now], contains 2",
            "applied: return=representation",
            "minimal: [Now], contains 0, managed false",
            "put what was read, changed: 204",
            "read: [Final], contains 0",
            "options: 200",
            "allow: GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE",
            "accept-patch: application/sparql-update",
            "delete: 204",
            "get what was in it: 410",
            "get: 410",
            "tombstone: [/rest/letters/fcr:tombstone]",
            "put: 410",
            "delete the tombstone: 204",
            "get: 404",
            "put: 201",
            "read: [Again], contains 0",
        ],
    );
}

#[test]
fn fedoras_java_client_sends_bytes_with_digests_and_reads_ranges() {
    let Some(client) = fedora("bytes") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "post: 201",
            "location: /rest/box/hello",
            "get: 200",
            "type: text/plain, true",
            "name: hello.txt",
            "digest: md5=XUFAKrxLKna5cZ2REBfFkg==",
            "body: hello",
            "range: 206",
            "body: bytes 1-3/5 ell",
            "range beyond the end: 416",
            "head: sha=qvTGHdzF6KLavt4PO0gs2a6pQ00=",
            "put of other bytes than the digest's: 409",
            "body: hello",
            "put: 204",
            "body: other",
            "description: /rest/box/hello/fcr:metadata",
            "patch the description: 204",
            "read: [Hello], contains 0",
            "patch the bytes: 405",
            "put 8 MiB: 201",
            "the same 8 MiB: true",
            "delete: 204",
            "get the description: 410",
        ],
    );
}

#[test]
fn fedoras_java_client_makes_finds_and_reads_versions() {
    let Some(client) = fedora("versions") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "create a memento: 201",
            "it is one: true",
            "patch: 204",
            "draft: [First, Second], contains 0",
            "memento: [First], contains 0",
            "it has a time: true",
            "it is of: [/rest/draft]",
            "mementos: 3",
            "as of later: 302, true",
            "as of later, followed: [First, Second], contains 0",
            "timegate: [/rest/draft]",
            "put a memento: 405",
            "delete a memento: 405",
            "create a memento of the past: 409",
        ],
    );
}

#[test]
fn fedoras_java_client_does_all_of_a_transaction_or_nothing() {
    let Some(client) = fedora("transactions") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "begin: 201",
            "put in it: 201",
            "get in it: 200",
            "get: 404",
            "is open: 204",
            "commit: 204",
            "get: 200",
            "is over: 410",
            "delete in another: 204",
            "roll back: 204",
            "get: 200",
            "put in one that is over: 409",
        ],
    );
}

#[test]
fn fedoras_java_client_is_told_what_the_server_does_not_offer() {
    let Some(client) = fedora("refused") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "put without a password: 401",
            "put with a header: 204",
            "read: [Three], contains 0",
            "a list of access rules: 409",
            "content stored elsewhere: 400",
            "a state token: 412",
            "a state token of nothing: 412",
            "read: [Three], contains 0",
        ],
    );
}

#[test]
fn graphs_that_jena_read_and_changed_are_accepted_in_every_syntax() {
    let Some(client) = jena("syntaxes") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "/rest/graph Turtle: done",
            "/rest/graph N-Triples: done",
            "/rest/graph JSON-LD: done",
            "/rest/graph RDF/XML: done",
            "/rest/graph: [by JSON-LD, by N-Triples, by RDF/XML, by Turtle, by nobody]",
            "/rest/box Turtle: done",
            "/rest/box N-Triples: done",
            "/rest/box JSON-LD: done",
            "/rest/box RDF/XML: done",
            "/rest/box: [by JSON-LD, by N-Triples, by RDF/XML, by Turtle, by nobody]",
            "/rest/bytes Turtle: done",
            "/rest/bytes N-Triples: done",
            "/rest/bytes JSON-LD: done",
            "/rest/bytes RDF/XML: done",
            "/rest/bytes: [by JSON-LD, by N-Triples, by RDF/XML, by Turtle]",
            "a syntax that the server lacks: 406",
        ],
    );
}

#[test]
fn jena_updates_with_sparql_and_creates_and_deletes_resources() {
    let Some(client) = jena("changes") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "put: done",
            "patch: done",
            "titles: [Boxes]",
            "post: done",
            "children: 1, [Child]",
            "put under a condition that does not hold: 412",
            "put under a condition that holds: done",
            "titles: [Kept]",
            "head: text/turtle",
            "options: GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE",
            "delete: done",
            "get: 410",
            "put without a token: 401",
            "put with a password: done",
        ],
    );
}

#[test]
fn jenas_graph_stores_are_single_resources_and_no_graph_of_another_name_touches_one() {
    let Some(client) = jena("graph-stores") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "fetch: [Box]",
            "put: done",
            "titles: [Changed]",
            "fetch another graph: 400",
            "put another graph: 400",
            "load another graph: 400",
            "delete another graph: 400",
            "delete a graph of another server: 400",
            "its own graph: false",
            "titles: [Changed] [Child]",
            "children: [/rest/box/child]",
            "update by post: done",
            "titles: [Changed]",
            "children: 2",
        ],
    );
}

#[test]
fn solid_client_creates_changes_lists_and_deletes_containers_and_data() {
    let Some(client) = solid("data") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "create a container: /rest/box",
            "create it again: 412",
            "create one in it: /rest/box/inner",
            "save: /rest/box/letters",
            "save over it: 412",
            r#"titles: ["One"]"#,
            r#"change: [["Two"],3]"#,
            r#"change a container: ["Box"]"#,
            "save in the container: /rest/box/named",
            r#"titles: ["Named"]"#,
            r#"members: ["/rest/box/inner","/rest/box/letters","/rest/box/named"]"#,
            "members of the root: true",
            "are all valid: true",
            "delete: done",
            "titles: 410",
            "delete the container: done",
            "members: 410",
            "create without a token: 401",
        ],
    );
}

#[test]
fn solid_client_writes_reads_and_deletes_files() {
    let Some(client) = solid("files") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "overwrite what is not there: /rest/box/note.txt",
            "overwrite: done",
            r#"get: ["hello again","text/plain",true]"#,
            r#"overwrite with bytes: ["image/png",[0,255,1]]"#,
            "save in the container: /rest/box/named.txt",
            r#"about it: ["text/plain",["/rest/box/named.txt/fcr:metadata"]]"#,
            r#"members: ["/rest/box/image","/rest/box/named.txt","/rest/box/note.txt"]"#,
            "delete: done",
            "get: 410",
            "delete without a token: 401",
        ],
    );
}

#[test]
fn solid_client_finds_no_access_rules_and_no_slashes() {
    let Some(client) = solid("differences") else { return };
    says(
        &Repository::start().told_by(client),
        &[
            "the address of a container: /rest/box",
            "is a container: false",
            "delete the container that was read: the client refuses",
            r#"statements with a slash are about another resource: [[],["Inner"]]"#,
            r#"two changes of one title: ["Three","Two"]"#,
            "rules of its own: [false,false,null]",
            "public access: null",
            "set public access: null",
            r#"effective access: {"user":{"read":false,"append":false,"write":false}}"#,
            "owner: null",
            "storage: the client refuses",
            "delete a container with members: done",
            "create it again: 410",
        ],
    );
}
