//! SPARQL updates: within limits, without a crash, and with a graph as the result that can be
//! stored.
#![no_main]

use std::alloc::System;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use rdf::update::Cancellation;
use rdf::{Iri, Limits, Syntax};

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

const GRAPH: &[u8] = b"<> <p> 1, \"x\"@en, <a> ; <q> [ <p> 2 ] . <a> <p> 3 .";

fuzz_target!(|update: &str| {
    let Ok(base) = Iri::parse("http://example.org/base".to_owned()) else { return };
    let limits = Limits { solutions: 10_000, ..Limits::default() };
    let Ok(graph) = rdf::parse(GRAPH, Syntax::Turtle, &base, &limits) else { return };
    if let Ok(updated) = rdf::update::apply(&graph, update, &base, &limits, &Cancellation::default()) {
        assert_eq!(rdf::from_stored(&rdf::to_stored(&updated.graph)).ok(), Some(updated.graph));
    }
});
