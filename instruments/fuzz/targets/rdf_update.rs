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

/// An update with a `WHERE`.
const ACCEPTED: &str = include_str!("../seeds/rdf_update/accepted");

/// Returns whether the update changes the graph.
fn check(update: &str) -> bool {
    let Ok(base) = Iri::parse("http://example.org/base".to_owned()) else { return false };
    let limits = Limits { solutions: 10_000, ..Limits::default() };
    let Ok(graph) = rdf::parse(GRAPH, Syntax::Turtle, &base, &limits) else { return false };
    let updated = rdf::update::apply(&graph, update, &base, &limits, &Cancellation::default());
    let Ok(updated) = updated.map(|updated| updated.graph) else { return false };
    assert_eq!(rdf::from_stored(&rdf::to_stored(&updated)).ok().as_ref(), Some(&updated));
    updated != graph
}

fuzz_target!(init: assert!(check(ACCEPTED)), |update: &str| { check(update); });
