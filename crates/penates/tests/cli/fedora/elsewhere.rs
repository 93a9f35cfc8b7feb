//! Content that a Fedora links to: here there are links to it too, if the server allows them.

use super::answers::{Answer, State, answers};
use super::server::Site;
use super::{LINKS, Recorded, SERVE, command, lines, relinked, report, resources};
use crate::harness::*;

#[test]
fn content_that_fedora_passes_on_from_elsewhere_is_passed_on_here_too() {
    let store = TestStore::vacant();
    let root = Recorded::Versioned.unpacked(&store.beside("root"));
    let elsewhere = relinked(&root).elsewhere;
    Ran::of(command(&store, &elsewhere, &["load", root.to_str().unwrap()])).ends_with(1);

    let server = Served::start(command(&store, &elsewhere, &SERVE));
    let site = Site::open(format!("{}/rest/", server.url));
    let there = format!("{elsewhere}1.txt");
    let answer = |status: u16, second: &str, bytes: &str, media_type: Option<&str>| {
        let (bytes, media_type) = (Some(bytes.to_owned()), media_type.map(str::to_owned));
        let state = || Some(State { statements: Vec::new(), bytes: bytes.clone(), media_type: media_type.clone() });
        Answer { status, state: state(), versions: [(second.to_owned(), (1, state()))].into() }
    };
    let answers = answers(&site, &LINKS.map(|path| (path, true)));
    assert_eq!(answers["proxied"], answer(200, "20261123144711", "elsewhere", Some("text/plain")));
    assert_eq!(answers["redirected"], answer(307, "20261123144710", &there, None));
    let head = site.get("proxied", &["X-Print: head"]).1.to_lowercase();
    assert!(head.contains(&format!("content-location: {there}\r\n")), "{head}");
}

#[test]
fn links_that_the_server_does_not_allow_are_reported_and_nothing_is_in_their_place() {
    let store = TestStore::vacant();
    let root = Recorded::Versioned.unpacked(&store.beside("root"));
    let place = store.beside("report.ndjson");
    let load = ["load", root.to_str().unwrap(), "--report", place.to_str().unwrap()];
    store.run(&load).ends_with(1);
    let report = report(&place);
    let linked = LINKS.map(|path| format!("/{path}"));
    for what in ["elsewhere", "failed"] {
        assert_eq!(resources(&report, what), linked, "{what}");
    }
    for failed in lines(&report, "failed") {
        assert!(failed["why"].as_str().unwrap().contains("ldp.external"), "{failed}");
    }
    for path in LINKS {
        store.run(&["cat", path]).ends_with(1);
    }
}
