//! Bodies of graphs: a parsed graph comes back from the stored form, and from every syntax that can
//! express it, with as many triples.
#![no_main]

use std::alloc::System;

use cap::Cap;
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use rdf::{ContentType, Iri, Limits, Syntax};

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

/// A graph in Turtle.
const ACCEPTED: &[u8] = include_bytes!("../seeds/rdf_parse/accepted");

/// Returns whether the body is a graph.
fn check((choice, body): (u8, &[u8])) -> bool {
    let syntax = Syntax::ALL[usize::from(choice) % Syntax::ALL.len()];
    let Ok(base) = Iri::parse("http://example.org/base".to_owned()) else { return false };
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = ContentType::parse(text);
    }
    let limits = Limits { triples: 500, ..Limits::default() };
    let Ok(graph) = rdf::parse(body, syntax, &base, &limits) else { return false };
    let stored = rdf::to_stored(&graph);
    assert_eq!(rdf::from_stored(&stored).ok(), Some(graph.clone()));
    for syntax in Syntax::ALL {
        if let Ok(written) = rdf::write(&graph, syntax, rdf::vocab::PREFIXES) {
            let read = rdf::parse(&written, syntax, &base, &Limits { triples: 1_000, ..Limits::default() });
            assert_eq!(read.map(|graph| graph.len()), Ok(graph.len()), "{}", String::from_utf8_lossy(&written));
        }
    }
    true
}

fn check_seed() {
    assert!(<(u8, &[u8])>::arbitrary_take_rest(Unstructured::new(ACCEPTED)).is_ok_and(check));
}

fuzz_target!(init: check_seed(), |input: (u8, &[u8])| { check(input); });
