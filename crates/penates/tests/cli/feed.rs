//! `penates feed`

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;

use serde_json::Value;

use crate::harness::*;

fn objects(events: &[Value]) -> Vec<(&str, &str)> {
    events.iter().map(|event| (event["type"].as_str().unwrap(), event["object"]["id"].as_str().unwrap())).collect()
}

#[test]
fn the_feed_is_printed_one_event_per_line_and_resumed_by_cursor_id_or_time() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let all = store.run(&["feed"]).ends_with(0).json_lines();
    let volume = |id: &str| format!("http://localhost/rest/volumes/{}", id.replace('/', "=").replacen(':', "+", 1));
    let (small, other) = (volume(SMALL), volume(OTHER));
    let expected = [("Create", "http://localhost/rest/"), ("Create", small.as_str()), ("Create", other.as_str())];
    assert_eq!(objects(&all), expected);
    assert!(all.iter().all(|event| event["@context"] == "https://www.w3.org/ns/activitystreams"));
    store.run(&["delete", SMALL]).ends_with(0);
    let id = all[1]["id"].as_str().unwrap();
    for from in [id, id.rsplit_once('#').unwrap().1] {
        let rest = store.run(&["feed", "--from", from]).ends_with(0).json_lines();
        assert_eq!(objects(&rest), [expected[2], ("Delete", small.as_str())]);
    }
    let rest = store.run(&["feed", "--from", "2000-01-01T00:00:00Z"]);
    assert!(rest.stderr.contains("30 days"), "{}", rest.stderr);
    let rest = store.run(&["feed", "--from", "yesterday"]);
    assert_eq!(rest.code, 2, "{}", rest.stderr);
}

/// A server that sends these texts as streams, one per connection, and then breaks. Returns its
/// address, and the request lines that it gets.
fn broken_streams(texts: &'static [&'static str]) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (requested, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for text in texts {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            requested.send(lines.next().unwrap()).unwrap();
            lines.find(String::is_empty).unwrap();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            (&stream).write_all([head, text].concat().as_bytes()).unwrap();
        }
    });
    (url, requests)
}

#[test]
fn a_follower_whose_connection_breaks_inside_an_event_gets_that_event_again() {
    let (url, requests) = broken_streams(&[
        "retry: 3000\nid: 01\n\nid: 02\n",
        "id: 02\ndata: {\"n\":",
        "id: 02\ndata: {\"n\":2}\n",
        "id: 02\ndata: {\"n\":2}\n\n: nothing new\nid: 03\n\nid: 04",
        "id: 04\ndata: {\"n\":4}\n\n",
    ]);
    let mut follower = penates(&["feed", "--follow", "--from", "00", "--server", &url]);
    let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut printed = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert_eq!(printed.next().unwrap().unwrap(), r#"{"n":2}"#);
    assert_eq!(printed.next().unwrap().unwrap(), r#"{"n":4}"#);
    let resumed = requests.iter().take(5).map(|line| line.split(['=', ' ']).nth(2).unwrap().to_owned());
    assert_eq!(resumed.collect::<Vec<_>>(), ["00", "01", "01", "01", "03"]);
    signal(&follower, "INT");
    assert_eq!(follower.wait().unwrap().code(), Some(0));
}

#[test]
fn followers_print_what_happens_at_once_and_survive_a_restart_of_the_server() {
    let store = TestStore::vacant();
    let settings = ["--set=auth.write=open", "--set=ldp.origin=http://feed.test"];
    let served = store.serve(&settings);
    let address = served.url.strip_prefix("http://").unwrap().to_owned();
    let mut follower = penates(&["feed", "--follow", "--from", "start", "--server", &served.url]);
    let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || {
        let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        (event["type"].as_str().unwrap().to_owned(), event["object"]["id"].as_str().unwrap().to_owned())
    };
    let created = |path: &str| ("Create".to_owned(), format!("http://feed.test/rest/{path}"));
    assert_eq!(next(), created(""));
    let put = |url: &str, name: &str| {
        let file = store.beside("text");
        std::fs::write(&file, "text").unwrap();
        Ran::of(penates(&["put", name, file.to_str().unwrap(), "--server", url])).ends_with(0);
    };
    put(&served.url, "a");
    assert_eq!(next(), created("a"));
    assert_eq!(served.stop("TERM").0, 0, "a follower holds up no stop");
    let listen = format!("--listen={address}");
    let served = Served::start(store.command(&[&["serve", &listen, "--tls-listen", "off"], &settings[..]].concat()));
    put(&served.url, "b");
    assert_eq!(next(), created("b"), "what happened meanwhile is not missed, and nothing comes twice");
    signal(&follower, "INT");
    let status = follower.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}
