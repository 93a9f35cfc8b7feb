//! The [W3C LDP test suite](https://github.com/w3c/ldp-testsuite) against the built server: basic,
//! direct and indirect containers, and Non-RDF Sources, with the options that enable its
//! conditional tests.
//!
//! It runs twice: with the default settings, and with required conditions. Every test runs and
//! passes, or is listed in `ldp-exceptions.toml` with a reason, or with what was done instead
//! (`judge.rs` has the rules). The suite comes from Maven Central; it needs Java, a compiler for
//! it, and Maven.
#![allow(clippy::unwrap_used)]

mod java;
mod judge;
mod kinds;
mod results;
mod server;

use std::path::Path;

use java::{Suite, TestedResource};
use judge::{Exceptions, Settings};
use kinds::Kind;

/// A server-managed property that clients cannot change.
const READ_ONLY_PROPERTY: &str = "http://www.w3.org/ns/ldp#contains";

#[test]
fn the_server_conforms_to_ldp_by_default() {
    conforms(Settings::Default);
}

#[test]
fn the_server_conforms_to_ldp_with_required_conditions() {
    conforms(Settings::ConditionsRequired);
}

#[test]
fn each_test_left_to_a_person_names_existing_tests() {
    let missing = exceptions().missing_tests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    assert_eq!(missing, [""; 0]);
}

fn exceptions() -> Exceptions {
    Exceptions::parse(include_str!("../../ldp-exceptions.toml"))
}

fn conforms(settings: Settings) {
    let Some(suite) = provide() else { return };
    let exceptions = exceptions();
    let penates = server::Penates::start(settings);
    let plain_source =
        penates.create("plain", "RDFSource", "<> <http://purl.org/dc/terms/title> \"Not a container\" .");
    let mut complaints = Vec::new();
    for kind in Kind::ALL {
        let container = penates.create(&format!("{kind:?}"), kind.container_model(), kind.container_body());
        let target = TestedResource {
            kind,
            container: &container,
            plain_source: &plain_source,
            read_only_property: READ_ONLY_PROPERTY,
        };
        let results = suite.run(&target);
        let wrong = exceptions.judge(kind, settings, &results.outcomes).into_iter().chain(results.broken_setups);
        complaints.extend(wrong.map(|complaint| format!("{kind:?}: {complaint}")));
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn a_server_that_can_do_nothing_fails_the_suite() {
    let Some(suite) = provide() else { return };
    let address = server::serve_nothing();
    let target = TestedResource {
        kind: Kind::Basic,
        container: &address,
        plain_source: &address,
        read_only_property: READ_ONLY_PROPERTY,
    };
    let outcomes = suite.run(&target).outcomes;
    let complaints = Exceptions::default().judge(Kind::Basic, Settings::Default, &outcomes);
    let musts = complaints.iter().filter(|complaint| complaint.contains("(MUST)")).count();
    assert!(musts > 40, "{musts} of {}: {complaints:#?}", outcomes.len());
}

/// The suite, or `None` with a notice why it is not available. If `CI` is set that is a failure.
fn provide() -> Option<Suite> {
    match Suite::provide() {
        Ok(suite) => Some(suite),
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            eprintln!("not run: {reason}");
            if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
                let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
                std::io::Write::write_all(&mut list, format!("the W3C LDP test suite: {reason}\n").as_bytes()).unwrap();
            }
            None
        }
    }
}
