//! Bodies of graphs: a parsed graph comes back from the stored form, and from every syntax that can
//! express it, with as many triples.
#![no_main]

use std::alloc::System;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use rdf::{ContentType, Iri, Limits, Syntax};

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, body) = input;
    let syntax = Syntax::ALL[usize::from(choice) % Syntax::ALL.len()];
    let Ok(base) = Iri::parse("http://example.org/base".to_owned()) else { return };
    let limits = Limits { triples: 500, ..Limits::default() };
    if let Ok(graph) = rdf::parse(body, syntax, &base, &limits) {
        let stored = rdf::to_stored(&graph);
        assert_eq!(rdf::from_stored(&stored).ok(), Some(graph.clone()));
        for syntax in Syntax::ALL {
            if let Ok(written) = rdf::write(&graph, syntax, rdf::vocab::PREFIXES) {
                let read = rdf::parse(&written, syntax, &base, &Limits { triples: 1_000, ..Limits::default() });
                assert_eq!(read.map(|graph| graph.len()), Ok(graph.len()), "{}", String::from_utf8_lossy(&written));
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = ContentType::parse(text);
    }
});
