//! `penates plan`

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;

use hathi::VolumeId;
use serde_json::Value;

use crate::harness::*;

/// Resources that a test makes.
const RESOURCES: usize = 300;

/// Connections over which a test reads each volume once.
const READERS: usize = 5;

/// Bytes of the files below a folder.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = |path: &Path| if path.is_dir() { bytes_below(path) } else { fs::metadata(path).unwrap().len() };
    entries.map(|entry| bytes(&entry.path())).sum()
}

fn part(plan: &Value, what: &str) -> f64 {
    let parts = plan["disk"].as_array().unwrap();
    parts.iter().find(|part| part["what"] == what).unwrap()["bytes"].as_f64().unwrap()
}

/// A description as it is stored or, with a graph, as it is sent.
fn description(resource: &str, graph: &str) -> String {
    let value = "a value of some words, ".repeat(3);
    let statement = |n| format!("<{resource}> <http://example.org/terms/{n}> \"{value}\"{graph} .\n");
    (0..7).map(statement).collect()
}

/// All that a server answers to requests over one connection, of which the last one closes it.
fn answers(host: &str, requests: &str) -> String {
    let mut connection = TcpStream::connect(host).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(requests.as_bytes()).unwrap();
    let mut answers = Vec::new();
    connection.read_to_end(&mut answers).unwrap();
    String::from_utf8_lossy(&answers).into_owned()
}

/// Makes resources, each a graph below the root of the repository.
fn make_resources(host: &str) {
    let quads = |n: usize| {
        let iri = format!("http://{host}/rest/resource-with-a-path-of-forty-chars-{n:04}");
        description(&iri, &format!(" <{iri}>"))
    };
    let body: String = (0..RESOURCES).map(quads).collect();
    let head = format!("Host: {host}\r\nContent-Type: application/n-quads\r\nContent-Length: {}", body.len());
    let answer = answers(host, &format!("POST /rest/ HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n{body}"));
    assert_eq!(answer.matches("\"status\":201").count(), RESOURCES, "{answer}");
}

/// Requests the first byte of each volume's text, so that the audit has a volume for each.
fn read_volumes(host: &str, ids: &[String]) {
    let request = |id: &String| {
        let segment = VolumeId::parse(id).unwrap().path_segment();
        format!("GET /volumes/{segment}/text HTTP/1.1\r\nHost: {host}\r\nRange: bytes=0-0\r\n")
    };
    let requests = ids.iter().map(request).collect::<Vec<_>>().join("\r\n") + "Connection: close\r\n\r\n";
    let read = || answers(host, &requests).matches("HTTP/1.1 206 ").count();
    let sent = thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<usize>()
    });
    assert_eq!(sent, READERS * ids.len());
}

/// The files of synthetic volumes; then what resources, their index and a part of the audit add to
/// them. Few of these are stored, so that it takes no longer, and files have bytes of their own. So
/// of them only a figure that is wrong by a factor of 2 is found.
#[test]
fn a_plan_says_what_the_files_of_such_a_store_take() {
    let store = TestStore::vacant();
    store.run(&["synth", "--volumes", "40", "--pages", "60"]).ends_with(0);
    let stat = store.run(&["stat", "--json"]).ends_with(0).json();
    let [text, pages] = ["size_bytes", "pages"].map(|count| stat[count].as_u64().unwrap());
    let page_bytes = (text / pages).to_string();
    let wanted = ["--volumes", "40", "--pages", "60", "--page-bytes", &page_bytes, "--json"];
    let plan = Ran::of(penates(&[&["plan"], &wanted[..]].concat())).ends_with(0).json();
    // METS of synthetic volumes are much smaller than those of scans.
    let planned = part(&plan, "text of pages") + part(&plan, "directories and digests of pages");
    let stored = |lane: &str| bytes_below(&store.path().join(format!("db/{lane}/keyspaces"))) as f64;
    let of_volumes = stored("text");
    assert!((0.8..1.4).contains(&(of_volumes / planned)), "{of_volumes} bytes are stored, {planned} were planned");

    let ids = store.ids();
    let served = |more: &[&str], work: &dyn Fn(&str)| {
        let server = store.serve(more);
        work(server.url.strip_prefix("http://").unwrap());
        assert_eq!(server.stop("TERM").0, 0);
        [stored("text"), stored("service")]
    };
    let [without_index, without_audit] =
        served(&["--set", "auth.write=open", "--set", "search.index=false"], &make_resources);
    let [with_index, with_audit] = served(&[], &|host: &str| {
        wait_until(|| {
            let status = store.run(&["search", "status", "--json"]);
            status.code == 0 && status.json()["state"] == "complete"
        });
        read_volumes(host, &ids);
    });
    let [resources, description_bytes, volumes, years] = [
        RESOURCES.to_string(),
        description("penates:/resource-with-a-path-of-forty-chars-0000", "").len().to_string(),
        (READERS * ids.len()).to_string(),
        // A day.
        (1.0_f64 / 365.25).to_string(),
    ];
    let wanted = ["--resources", &resources, "--description-bytes", &description_bytes];
    let asked = ["--volumes-per-day", &volumes, "--years", &years, "--json"];
    let plan = Ran::of(penates(&[&["plan"], &wanted[..], &asked].concat())).ends_with(0).json();
    for (what, stored) in [
        ("descriptions of resources", without_index - of_volumes),
        ("search index", with_index - without_index),
        ("audit", with_audit - without_audit),
    ] {
        let planned = part(&plan, what);
        assert!((0.5..2.0).contains(&(stored / planned)), "{what}: {stored} bytes are stored, {planned} were planned");
    }
}

#[test]
fn a_plan_names_what_a_machine_has_too_little_of_and_refuses_what_is_no_number() {
    let load = ["plan", "--volumes", "1e6", "--pages-per-second", "1e5"];
    let output = Ran::of(penates(&[&load[..], &["--disk", "100GB", "--memory", "1TB"]].concat())).ends_with(0);
    assert!(output.text().contains("too little: disk.") && output.text().contains("too little: processor cores."));
    assert!(!output.text().contains("too little: memory."), "{}", output.text());
    Ran::of(penates(&["plan", "--volumes", "many"])).ends_with(2);
    let costs = Ran::of(penates(&["plan", "--show-costs"])).ends_with(0);
    assert!(costs.text().contains("frame_ratio"));
}

#[test]
fn a_plan_says_what_goes_over_the_network_and_how_many_nodes_there_are() {
    let load = ["plan", "--resources", "1e6", "--binary-bytes", "10KB", "--reads-per-second", "100", "--copies", "2"];
    let plan = Ran::of(penates(&[&load[..], &["--json"]].concat())).ends_with(0).json();
    // Each answer has the content, and a head of 500 bytes.
    assert_eq!(plan["network"]["out_bytes_per_second"], 100.0 * 10_500.0);
    assert_eq!(plan["network"]["in_bytes_per_second"], 100.0 * 500.0);
    assert_eq!(plan["cassandra"]["nodes"], 2);
    assert_eq!(plan["cassandra"]["limit"], "copies");
    assert!(plan["cassandra"]["network"]["out_bytes_per_second"].as_f64().unwrap() > 1e6);
    // Twelve rows of a binary.
    assert_eq!(part(&plan, "search index"), 1e6 * 12.0 * 60.0);
    let without = Ran::of(penates(&[&load[..], &["--json", "--no-search"]].concat())).ends_with(0);
    assert!(!without.text().contains("search index"), "{}", without.text());
    let shown = Ran::of(penates(&load)).ends_with(0);
    for line in ["network out", "ON CASSANDRA", "nodes", "between nodes"] {
        assert!(shown.text().contains(line), "{line}: {}", shown.text());
    }
}
