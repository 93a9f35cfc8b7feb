//! Writing graphs as bodies, in constant memory.

mod html;
mod json_ld;
mod rdf_xml;

use std::io;
use std::sync::LazyLock;

use bytes::Bytes;
use oxrdf::vocab::xsd;
use oxrdf::{NamedOrBlankNode, Term, TripleRef};
use oxttl::ntriples::LowLevelNTriplesSerializer;
use oxttl::turtle::LowLevelTurtleSerializer;
use oxttl::{NTriplesSerializer, TurtleSerializer};

use crate::Iri;
use crate::graph::Graph;
use crate::lists::Lists;
use crate::syntax::{JsonLdForm, Syntax};
use crate::vocab::PREFIXES;
use html::HtmlWriter;
use json_ld::JsonLdWriter;
use rdf_xml::RdfXmlWriter;

/// Least size in bytes of a chunk.
const CHUNK_BYTES: usize = 16 * 1024;

/// A triple that RDF/XML cannot express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{triple} cannot be written in RDF/XML: {reason}")]
pub struct WriteError {
    /// The triple, as in N-Triples.
    pub triple: String,
    /// The reason.
    pub reason: &'static str,
}

/// Writes triples as they arrive. The caller takes the output in chunks, so a listing of any length
/// needs only memory for its largest triple (and for [`Lists`] that are written as lists).
///
/// Triples of one subject, and within it of one predicate, should arrive together. The output is
/// correct in any order, and short in this one. In flattened JSON-LD the caller must ensure it: a
/// subject is one object only if its triples arrive together.
pub struct Writer {
    encoder: Encoder,
    buffer: Vec<u8>,
}

/// One for each syntax.
enum Encoder {
    Turtle(LowLevelTurtleSerializer),
    NTriples(LowLevelNTriplesSerializer),
    JsonLd(JsonLdWriter),
    RdfXml(RdfXmlWriter),
    Html(HtmlWriter),
}

impl Writer {
    /// A writer that shortens IRIs by `prefixes` (name and namespace), if the syntax has prefixes.
    /// All IRIs are absolute.
    #[must_use]
    pub fn new(syntax: Syntax, prefixes: &[(&str, &str)]) -> Self {
        let encoder = match syntax {
            Syntax::Turtle | Syntax::N3 => Encoder::Turtle(turtle(prefixes)),
            Syntax::NTriples | Syntax::Text => Encoder::NTriples(NTriplesSerializer::new().low_level()),
            Syntax::JsonLd(JsonLdForm::Compacted) => Encoder::JsonLd(JsonLdWriter::compacted(prefixes)),
            Syntax::JsonLd(JsonLdForm::Expanded | JsonLdForm::Flattened) => Encoder::JsonLd(JsonLdWriter::expanded()),
            Syntax::RdfXml => Encoder::RdfXml(RdfXmlWriter::new(prefixes)),
        };
        Self::with(encoder)
    }

    /// A writer of a page for people: its beginning, the statements as HTML, and its end.
    #[must_use]
    pub fn html(begin: &str, end: &str, prefixes: &[(&str, &str)]) -> Self {
        let mut writer = Self::with(Encoder::Html(HtmlWriter::new(end, prefixes)));
        writer.buffer.extend_from_slice(begin.as_bytes());
        writer
    }

    /// The same writer, which writes these lists as lists if the syntax has them (JSON-LD). It
    /// skips their triples if they arrive. It keeps the lists in memory.
    #[must_use]
    pub fn with_lists(mut self, lists: Lists) -> Self {
        if let Encoder::JsonLd(encoder) = &mut self.encoder {
            encoder.lists = lists;
        }
        self
    }

    fn with(encoder: Encoder) -> Self {
        Self { encoder, buffer: Vec::with_capacity(CHUNK_BYTES / 16) }
    }

    /// Writes one triple.
    ///
    /// # Errors
    /// [`WriteError`] if the syntax cannot express it (RDF/XML only). Nothing of it is written, and
    /// other triples can follow.
    pub fn push<'a>(&mut self, triple: impl Into<TripleRef<'a>>) -> Result<(), WriteError> {
        let triple = triple.into();
        match &mut self.encoder {
            Encoder::Turtle(encoder) => in_memory(encoder.serialize_triple(triple, &mut self.buffer)),
            Encoder::NTriples(encoder) => in_memory(encoder.serialize_triple(triple, &mut self.buffer)),
            Encoder::JsonLd(encoder) => encoder.push(triple, &mut self.buffer),
            Encoder::RdfXml(encoder) => {
                let refused = |reason| WriteError { triple: triple.to_string(), reason };
                encoder.push(triple, &mut self.buffer).map_err(refused)?;
            }
            Encoder::Html(encoder) => encoder.push(triple, &mut self.buffer),
        }
        Ok(())
    }

    /// What was written since the last chunk, if it is at least 16 KiB.
    pub fn chunk(&mut self) -> Option<Bytes> {
        (self.buffer.len() >= CHUNK_BYTES).then(|| Bytes::from(std::mem::take(&mut self.buffer)))
    }

    /// Ends the document after the last triple, and returns what was written since the last chunk.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        match &mut self.encoder {
            Encoder::Turtle(encoder) => in_memory(encoder.finish(&mut self.buffer)),
            Encoder::NTriples(_) => {}
            Encoder::JsonLd(encoder) => encoder.finish(&mut self.buffer),
            Encoder::RdfXml(encoder) => encoder.finish(&mut self.buffer),
            Encoder::Html(encoder) => encoder.finish(&mut self.buffer),
        }
        Bytes::from(self.buffer)
    }
}

/// Writes a whole graph, with those of the `prefixes` that it uses.
///
/// # Errors
/// [`WriteError`] if the syntax cannot express one of its triples (RDF/XML only).
pub fn write(graph: &Graph, syntax: Syntax, prefixes: &[(&str, &str)]) -> Result<Bytes, WriteError> {
    let mut writer = Writer::new(syntax, &used_prefixes(graph, prefixes)).with_lists(Lists::of(graph));
    for triple in graph {
        writer.push(triple)?;
    }
    Ok(writer.finish())
}

/// Those of the `prefixes` whose namespaces begin an IRI of the graph.
#[must_use]
pub fn used_prefixes<'a>(graph: &Graph, prefixes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let is_used = |namespace: &str| {
        graph.iter().any(|triple| {
            let subject = match &triple.subject {
                NamedOrBlankNode::NamedNode(node) => node.as_str().starts_with(namespace),
                NamedOrBlankNode::BlankNode(_) => false,
            };
            let object = match &triple.object {
                Term::NamedNode(node) => node.as_str().starts_with(namespace),
                Term::Literal(literal) => {
                    let datatype = literal.datatype();
                    let is_written = literal.language().is_none() && datatype != xsd::STRING;
                    is_written && datatype.as_str().starts_with(namespace)
                }
                Term::BlankNode(_) => false,
            };
            subject || object || triple.predicate.as_str().starts_with(namespace)
        })
    };
    prefixes.iter().copied().filter(|(_, namespace)| is_used(namespace)).collect()
}

/// Has [`PREFIXES`] checked and sorted, which took as long as writing a small graph.
static WITH_USUAL_PREFIXES: LazyLock<TurtleSerializer> = LazyLock::new(|| with_prefixes(PREFIXES));

fn turtle(prefixes: &[(&str, &str)]) -> LowLevelTurtleSerializer {
    let serializer = if prefixes == PREFIXES { WITH_USUAL_PREFIXES.clone() } else { with_prefixes(prefixes) };
    serializer.low_level()
}

fn with_prefixes(prefixes: &[(&str, &str)]) -> TurtleSerializer {
    // A namespace that is not an IRI shortens nothing.
    let prefixes = prefixes.iter().filter(|(_, namespace)| Iri::parse((*namespace).to_owned()).is_ok());
    prefixes.fold(TurtleSerializer::new(), |serializer, (name, namespace)| {
        serializer.with_prefix(*name, *namespace).unwrap_or_default()
    })
}

/// Writing into memory does not fail.
fn in_memory(result: io::Result<()>) {
    debug_assert!(result.is_ok(), "{result:?}");
}
