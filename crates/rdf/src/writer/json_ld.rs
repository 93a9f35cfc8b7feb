//! JSON-LD 1.1, written as triples arrive, expanded or compacted. No object is nested in another,
//! so an expanded document is flattened too if all triples of a subject arrive together.
//!
//! A compacted document is always an object with `@context` (prefixes only) and `@graph`, because
//! it is not known whether a second subject follows when the first is written.

use std::collections::HashSet;
use std::io::Write as _;

use oxrdf::vocab::{rdf, xsd};
use oxrdf::{LiteralRef, NamedNodeRef, NamedOrBlankNode, NamedOrBlankNodeRef, Term, TermRef, TripleRef};

use crate::lists::Lists;

/// The writer of one document.
pub(super) struct JsonLdWriter {
    /// Name and namespace; none in expanded documents.
    prefixes: Vec<(String, String)>,
    compacted: bool,
    started: bool,
    node: Option<Node>,
    /// Lists that are written as lists.
    pub(super) lists: Lists,
}

/// The current node object.
struct Node {
    subject: NamedOrBlankNode,
    /// Whether the document's context applies to it.
    compacted: bool,
    property: Option<Property>,
    /// Finished keys, as in [`Property`]. They must not repeat in the same object.
    written: HashSet<String>,
}

/// The current property.
struct Property {
    /// `@type`, or the IRI in full.
    key: String,
    /// A first value that waits for a second one, which would make them an array (compacted
    /// documents only).
    only_value: Option<Vec<u8>>,
}

impl JsonLdWriter {
    pub(super) fn compacted(prefixes: &[(&str, &str)]) -> Self {
        let prefixes = prefixes.iter().map(|(name, namespace)| ((*name).to_owned(), (*namespace).to_owned())).collect();
        Self { prefixes, compacted: true, started: false, node: None, lists: Lists::default() }
    }

    pub(super) fn expanded() -> Self {
        Self { prefixes: Vec::new(), compacted: false, started: false, node: None, lists: Lists::default() }
    }

    pub(super) fn push(&mut self, triple: TripleRef<'_>, out: &mut Vec<u8>) {
        if self.lists.is_part(triple.subject) {
            return;
        }
        let compacted = self.compacted && !self.is_misread_when_compacted(triple);
        let is_type_keyword = triple.predicate == rdf::TYPE && !triple.object.is_literal();
        let key = if is_type_keyword { "@type" } else { triple.predicate.as_str() };
        if self.node.as_ref().is_some_and(|node| !node.takes(triple.subject, compacted, key)) {
            self.close_node(out);
        }
        if self.node.is_none() {
            self.open_node(triple.subject, compacted, out);
        }
        let value = self.value(triple.object, compacted, is_type_keyword);
        let written_key = if is_type_keyword { key.to_owned() } else { self.iri(triple.predicate, compacted) };
        let Some(node) = &mut self.node else { return };
        if node.property.as_ref().is_some_and(|property| property.key != key) {
            node.close_property(out);
        }
        match &mut node.property {
            Some(property) => {
                if let Some(first) = property.only_value.take() {
                    out.push(b'[');
                    out.extend_from_slice(&first);
                }
                out.push(b',');
                out.extend_from_slice(&value);
            }
            None => {
                out.push(b',');
                string(&written_key, out);
                out.push(b':');
                let only_value = if compacted {
                    Some(value)
                } else {
                    out.push(b'[');
                    out.extend_from_slice(&value);
                    None
                };
                node.property = Some(Property { key: key.to_owned(), only_value });
            }
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.start(out);
        self.close_node(out);
        out.extend_from_slice(if self.compacted { b"]}\n" } else { b"]\n" });
    }

    /// The beginning of the document, once.
    fn start(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        if self.compacted {
            out.extend_from_slice(b"{\"@context\":{");
            for (index, (name, namespace)) in self.prefixes.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                string(name, out);
                out.push(b':');
                string(namespace, out);
            }
            out.extend_from_slice(b"},\"@graph\":");
        }
        out.push(b'[');
    }

    fn open_node(&mut self, subject: NamedOrBlankNodeRef<'_>, compacted: bool, out: &mut Vec<u8>) {
        let is_first = !self.started;
        self.start(out);
        if !is_first {
            out.extend_from_slice(b",\n");
        }
        out.push(b'{');
        if self.compacted && !compacted {
            out.extend_from_slice(b"\"@context\":null,");
        }
        out.extend_from_slice(b"\"@id\":");
        match subject {
            NamedOrBlankNodeRef::NamedNode(node) => string(node.as_str(), out),
            NamedOrBlankNodeRef::BlankNode(node) => string(&node.to_string(), out),
        }
        self.node = Some(Node { subject: subject.into_owned(), compacted, property: None, written: HashSet::new() });
    }

    fn close_node(&mut self, out: &mut Vec<u8>) {
        if let Some(mut node) = self.node.take() {
            node.close_property(out);
            out.push(b'}');
        }
    }

    /// An IRI in a place where the context's prefixes apply: as a key or as a type.
    fn iri(&self, iri: NamedNodeRef<'_>, compacted: bool) -> String {
        let prefix = |(name, namespace): &(String, String)| {
            let local = iri.as_str().strip_prefix(namespace.as_str())?;
            // Two slashes would make an absolute IRI of it (JSON-LD 1.1, section 5.2.2).
            (!local.starts_with("//")).then(|| format!("{name}:{local}"))
        };
        let short = if compacted { self.prefixes.iter().find_map(prefix) } else { None };
        short.unwrap_or_else(|| iri.as_str().to_owned())
    }

    fn value(&self, object: TermRef<'_>, compacted: bool, is_type_keyword: bool) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(items) = self.list(object).filter(|_| !is_type_keyword) {
            out.extend_from_slice(b"{\"@list\":[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&self.value(item.as_ref(), compacted, false));
            }
            out.extend_from_slice(b"]}");
            return out;
        }
        match object {
            TermRef::NamedNode(node) if is_type_keyword => string(&self.iri(node, compacted), &mut out),
            TermRef::BlankNode(node) if is_type_keyword => string(&node.to_string(), &mut out),
            TermRef::NamedNode(node) => id(node.as_str(), &mut out),
            TermRef::BlankNode(node) => id(&node.to_string(), &mut out),
            TermRef::Literal(literal) => self.literal(literal, compacted, &mut out),
        }
        out
    }

    fn literal(&self, literal: LiteralRef<'_>, compacted: bool, out: &mut Vec<u8>) {
        let is_plain = literal.language().is_none() && literal.datatype() == xsd::STRING;
        if is_plain && compacted {
            return string(literal.value(), out);
        }
        out.extend_from_slice(b"{\"@value\":");
        string(literal.value(), out);
        if let Some(language) = literal.language() {
            out.extend_from_slice(b",\"@language\":");
            string(language, out);
        } else if !is_plain {
            out.extend_from_slice(b",\"@type\":");
            string(&self.iri(literal.datatype(), compacted), out);
        }
        out.push(b'}');
    }

    /// The items of a list that is written as a list.
    fn list(&self, object: TermRef<'_>) -> Option<&[Term]> {
        match object {
            TermRef::BlankNode(node) => self.lists.items(node.as_str()),
            TermRef::NamedNode(node) => (node == rdf::NIL).then_some(&[]),
            TermRef::Literal(_) => None,
        }
    }

    /// Whether one of the IRIs would be misread as prefix and local name: `ldp:x`, where `ldp` is
    /// its scheme. A node with such an IRI is written without context.
    fn is_misread_when_compacted(&self, triple: TripleRef<'_>) -> bool {
        let subject = match triple.subject {
            NamedOrBlankNodeRef::NamedNode(node) => self.is_misread(node.as_str()),
            NamedOrBlankNodeRef::BlankNode(_) => false,
        };
        subject || self.is_misread(triple.predicate.as_str()) || self.is_object_misread(triple.object)
    }

    fn is_object_misread(&self, object: TermRef<'_>) -> bool {
        match object {
            TermRef::NamedNode(node) => self.is_misread(node.as_str()),
            TermRef::Literal(literal) => self.is_misread(literal.datatype().as_str()),
            TermRef::BlankNode(_) => {
                let items = self.list(object).unwrap_or_default();
                items.iter().any(|item| self.is_object_misread(item.as_ref()))
            }
        }
    }

    fn is_misread(&self, iri: &str) -> bool {
        iri.split_once(':').is_some_and(|(scheme, rest)| {
            !rest.starts_with("//") && self.prefixes.iter().any(|(name, _)| name == scheme)
        })
    }
}

impl Node {
    /// Whether a triple with this subject and key can be written into the object.
    fn takes(&self, subject: NamedOrBlankNodeRef<'_>, compacted: bool, key: &str) -> bool {
        self.subject.as_ref() == subject && self.compacted == compacted && !self.written.contains(key)
    }

    fn close_property(&mut self, out: &mut Vec<u8>) {
        if let Some(property) = self.property.take() {
            match property.only_value {
                Some(value) => out.extend_from_slice(&value),
                None => out.push(b']'),
            }
            self.written.insert(property.key);
        }
    }
}

fn id(id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"@id\":");
    string(id, out);
    out.push(b'}');
}

/// A JSON string with its quotes.
fn string(text: &str, out: &mut Vec<u8>) {
    // A text cannot fail to serialize, nor memory to be written.
    let written = serde_json::to_writer(out.by_ref(), text);
    debug_assert!(written.is_ok(), "{written:?}");
}
