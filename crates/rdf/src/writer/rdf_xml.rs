//! [RDF/XML](https://www.w3.org/TR/rdf-syntax-grammar/), written as triples arrive: an
//! `rdf:Description` per subject, an element per property.
//!
//! Oxigraph's serializer lacks two things that this one does: it writes a carriage return in a
//! literal as a character reference, so that it survives an XML parser, and it refuses what XML
//! cannot express.

use oxrdf::vocab::xsd;
use oxrdf::{NamedNodeRef, NamedOrBlankNode, NamedOrBlankNodeRef, TermRef, TripleRef};

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";

/// Names with a meaning of their own in the syntax (section 5.1, `coreSyntaxTerms` and more), and those
/// that had one (`oldTerms`). No property element can have them.
const RESERVED: [&str; 12] = [
    "Description",
    "li",
    "RDF",
    "ID",
    "about",
    "parseType",
    "resource",
    "nodeID",
    "datatype",
    "aboutEach",
    "aboutEachPrefix",
    "bagID",
];

/// The writer of one document.
pub(super) struct RdfXmlWriter {
    /// Name and namespace.
    prefixes: Vec<(String, String)>,
    started: bool,
    subject: Option<NamedOrBlankNode>,
}

impl RdfXmlWriter {
    pub(super) fn new(prefixes: &[(&str, &str)]) -> Self {
        let others = prefixes.iter().filter(|(name, _)| *name != "rdf");
        let prefixes = std::iter::once(&("rdf", RDF))
            .chain(others)
            .map(|(name, namespace)| ((*name).to_owned(), (*namespace).to_owned()))
            .collect();
        Self { prefixes, started: false, subject: None }
    }

    /// Writes a triple, or returns why XML cannot express it and writes nothing.
    pub(super) fn push(&mut self, triple: TripleRef<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let (namespace, local) = split(triple.predicate)?;
        check(triple)?;
        if self.subject.as_ref().is_none_or(|subject| subject.as_ref() != triple.subject) {
            self.close_subject(out);
            self.open_subject(triple.subject, out);
        }
        let prefix = self.prefixes.iter().find(|(_, known)| known == namespace).map(|(name, _)| name.as_str());
        let element = format!("{}:{local}", prefix.unwrap_or("ns"));
        out.extend_from_slice(b"    <");
        out.extend_from_slice(element.as_bytes());
        if prefix.is_none() {
            attribute("xmlns:ns", namespace, out);
        }
        match triple.object {
            TermRef::NamedNode(node) => empty_element("rdf:resource", node.as_str(), out),
            TermRef::BlankNode(node) => empty_element("rdf:nodeID", node.as_str(), out),
            TermRef::Literal(literal) => {
                if let Some(language) = literal.language() {
                    attribute("xml:lang", language, out);
                } else if literal.datatype() != xsd::STRING {
                    attribute("rdf:datatype", literal.datatype().as_str(), out);
                }
                out.push(b'>');
                escape(literal.value(), out);
                out.extend_from_slice(format!("</{element}>\n").as_bytes());
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.start(out);
        self.close_subject(out);
        out.extend_from_slice(b"</rdf:RDF>\n");
    }

    /// The beginning of the document, once.
    fn start(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rdf:RDF");
        for (name, namespace) in &self.prefixes {
            attribute(&format!("xmlns:{name}"), namespace, out);
        }
        out.extend_from_slice(b">\n");
    }

    fn open_subject(&mut self, subject: NamedOrBlankNodeRef<'_>, out: &mut Vec<u8>) {
        self.start(out);
        out.extend_from_slice(b"  <rdf:Description");
        match subject {
            NamedOrBlankNodeRef::NamedNode(node) => attribute("rdf:about", node.as_str(), out),
            NamedOrBlankNodeRef::BlankNode(node) => attribute("rdf:nodeID", node.as_str(), out),
        }
        out.extend_from_slice(b">\n");
        self.subject = Some(subject.into_owned());
    }

    fn close_subject(&mut self, out: &mut Vec<u8>) {
        if self.subject.take().is_some() {
            out.extend_from_slice(b"  </rdf:Description>\n");
        }
    }
}

fn empty_element(name: &str, value: &str, out: &mut Vec<u8>) {
    attribute(name, value, out);
    out.extend_from_slice(b"/>\n");
}

fn attribute(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    escape(value, out);
    out.push(b'"');
}

/// Namespace and local name of a property. The local name is the longest suffix of the IRI that is
/// an XML name without a colon.
fn split(predicate: NamedNodeRef<'_>) -> Result<(&str, &str), &'static str> {
    let iri = predicate.as_str();
    let tail_start =
        iri.rfind(|c| !is_name_char(c)).map_or(0, |at| at + iri[at..].chars().next().map_or(0, char::len_utf8));
    let local = iri[tail_start..].find(is_name_start).map(|at| tail_start + at);
    match local.map(|at| iri.split_at(at)) {
        None => Err("the property's IRI does not end in an XML name"),
        Some(("", _)) => Err("the property's IRI has no namespace"),
        Some((RDF, local)) if RESERVED.contains(&local) => Err("the property's name is reserved"),
        Some(("http://www.w3.org/2000/xmlns/" | "http://www.w3.org/XML/1998/namespace", _)) => {
            Err("the property's namespace is reserved")
        }
        Some((namespace, local)) => Ok((namespace, local)),
    }
}

/// Whether XML can express subject and object.
fn check(triple: TripleRef<'_>) -> Result<(), &'static str> {
    let label = |label: &str| {
        let is_name = label.starts_with(is_name_start) && label.chars().all(is_name_char);
        if is_name { Ok(()) } else { Err("the blank node's label is not an XML name") }
    };
    if let NamedOrBlankNodeRef::BlankNode(node) = triple.subject {
        label(node.as_str())?;
    }
    match triple.object {
        TermRef::BlankNode(node) => label(node.as_str()),
        TermRef::Literal(literal) if !literal.value().chars().all(is_xml_char) => {
            Err("the literal has a character that XML does not have")
        }
        TermRef::Literal(_) | TermRef::NamedNode(_) => Ok(()),
    }
}

/// Writes text with everything that an XML parser would read as markup, or change, as references.
fn escape(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\r' => out.extend_from_slice(b"&#13;"),
            byte => out.push(byte),
        }
    }
}

/// XML 1.0, production 2.
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// Namespaces in XML 1.0: production 4 of XML 1.0 without the colon.
fn is_name_start(c: char) -> bool {
    matches!(c, 'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}' | '\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// Production 4a of XML 1.0 without the colon.
fn is_name_char(c: char) -> bool {
    is_name_start(c) || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}' | '\u{2040}')
}
