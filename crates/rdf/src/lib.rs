//! RDF graphs: reading, writing, comparing and updating them. Everything is a pure function or a
//! stream over bytes. The crate knows no HTTP and no store, and of clocks only the processor time that
//! an update takes.
//!
//! How to read it, in the order in which a body is processed:
//!
//! - [`ContentType`] and [`Syntax`] (`syntax.rs`) name the syntax of a body.
//! - [`parse`] (`parse.rs`) turns a body into a [`Graph`] (`graph.rs`), within [`Limits`].
//! - [`to_stored`] and [`from_stored`] (`stored.rs`) convert graphs to and from the stored form:
//!   sorted N-Triples.
//! - [`update::apply`] (`update.rs`) applies a SPARQL Update to one graph.
//! - [`Writer`] (`writer/`) writes any number of triples in constant memory.
//! - [`quads::Resources`] (`quads.rs`) splits N-Quads into one graph per resource.
//!
//! The crates of the Oxigraph project read the syntaxes. Their terms ([`Triple`], [`NamedNode`],
//! ...) are re-exported. The model is RDF 1.1: no triple terms and no base directions.
//!
//! ```
//! use rdf::{Iri, Limits, Syntax, Writer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let base = Iri::parse("http://example.org/rest/letters".to_owned())?;
//! let body = br#"@prefix dc: <http://purl.org/dc/terms/> .
//!     <> dc:title "Letters"@en ; dc:hasPart [ dc:title "Draft" ] ."#;
//! let graph = rdf::parse(body, Syntax::Turtle, &base, &Limits::default())?;
//! let stored = rdf::to_stored(&graph);
//!
//! let mut writer = Writer::new(Syntax::NTriples, rdf::vocab::PREFIXES);
//! for triple in &rdf::from_stored(&stored)? {
//!     writer.push(triple.as_ref())?;
//! }
//! assert_eq!(writer.finish(), stored);
//! # Ok(())
//! # }
//! ```

mod graph;
mod isomorphism;
mod lists;
mod parse;
mod stored;
mod syntax;
mod tokens;
mod writer;

pub mod quads;
pub mod update;
pub mod vocab;

pub use graph::Graph;
pub use isomorphism::isomorphic;
pub use lists::Lists;
pub use oxrdf::{
    BlankNode, BlankNodeRef, Literal, LiteralRef, NamedNode, NamedNodeRef, NamedOrBlankNode, NamedOrBlankNodeRef, Term,
    TermRef, Triple, TripleRef,
};
pub use parse::{Limits, Location, ParseError, parse, parse_cancellable};
pub use stored::{StoredError, from_stored, to_stored};
pub use syntax::{Charset, ContentType, JsonLdForm, Syntax};
pub use writer::{WriteError, Writer, used_prefixes, write};

/// An absolute IRI (RFC 3987).
pub type Iri = oxiri::Iri<String>;
