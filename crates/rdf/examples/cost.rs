//! The cost of graphs: reading the stored form and writing each syntax, for a resource of ten
//! triples, and writing a listing of a million members.
//!
//! `cargo run --release -p rdf --example cost`
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use rdf::{Iri, Limits, Syntax, TripleRef, Writer};

const ROUNDS: u32 = 100_000;
const MEMBERS: u32 = 1_000_000;

const RESOURCE: &str = "
    @prefix dcterms: <http://purl.org/dc/terms/> . @prefix ldp: <http://www.w3.org/ns/ldp#> .
    @prefix fedora: <http://fedora.info/definitions/v4/repository#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
    <> a ldp:RDFSource, ldp:Resource, fedora:Resource ; dcterms:title \"A letter from Königsberg\"@de ;
        dcterms:creator <http://example.org/people/kant> ; dcterms:date \"1784-09-30\"^^xsd:date ; dcterms:extent 4 ;
        dcterms:description \"Four pages, both sides, with a seal that is broken in two.\" ;
        fedora:created \"2026-01-31T12:00:00.000Z\"^^xsd:dateTime ; fedora:lastModified \"2026-01-31T12:00:00.000Z\"^^xsd:dateTime .";

fn main() {
    let base = Iri::parse("http://127.0.0.1:8080/rest/letters/1784/0930".to_owned()).unwrap();
    let graph = rdf::parse(RESOURCE.as_bytes(), Syntax::Turtle, &base, &Limits::default()).unwrap();
    assert_eq!(graph.len(), 10);
    let stored = rdf::to_stored(&graph);
    measured("parse Turtle", || {
        rdf::parse(RESOURCE.as_bytes(), Syntax::Turtle, &base, &Limits::default()).unwrap().len()
    });
    measured("to stored form", || rdf::to_stored(&graph).len());
    measured("from stored form", || rdf::from_stored(&stored).unwrap().len());
    for syntax in Syntax::ALL {
        measured(&format!("from stored form to {syntax:?}"), || {
            rdf::write(&rdf::from_stored(&stored).unwrap(), syntax, rdf::vocab::PREFIXES).unwrap().len()
        });
    }
    for syntax in Syntax::ALL {
        let start = Instant::now();
        let bytes = list_members(&base, syntax);
        let rate = f64::from(MEMBERS) / start.elapsed().as_secs_f64() / 1e6;
        println!("listing as {syntax:?}: {rate:.2} million members/s, {bytes} bytes");
    }
}

fn measured(what: &str, mut work: impl FnMut() -> usize) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(work());
    }
    println!("{what}: {:.2} us", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
}

fn list_members(container: &Iri, syntax: Syntax) -> usize {
    let container = rdf::NamedNode::new(container.as_str()).unwrap();
    let mut writer = Writer::new(syntax, rdf::vocab::PREFIXES);
    let mut bytes = 0;
    for number in 0..MEMBERS {
        let member = rdf::NamedNode::new_unchecked(format!("{}/{number:08}", container.as_str()));
        writer.push(TripleRef::new(&container, rdf::vocab::ldp::CONTAINS, &member)).unwrap();
        bytes += writer.chunk().map_or(0, |chunk| chunk.len());
    }
    bytes + writer.finish().len()
}
