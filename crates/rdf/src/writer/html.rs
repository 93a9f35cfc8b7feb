//! The content of a page for people, written as triples arrive: a heading per subject, and below it
//! a list of its properties. Everything from outside is escaped, and only `http:` and `https:`
//! addresses become links.

use oxrdf::{NamedNode, NamedNodeRef, NamedOrBlankNode, NamedOrBlankNodeRef, TermRef, TripleRef};

/// The writer of the statements on a page.
pub(super) struct HtmlWriter {
    /// Name and namespace.
    prefixes: Vec<(String, String)>,
    /// What is behind the last statement.
    end: String,
    subject: Option<NamedOrBlankNode>,
    predicate: Option<NamedNode>,
}

impl HtmlWriter {
    pub(super) fn new(end: &str, prefixes: &[(&str, &str)]) -> Self {
        Self {
            prefixes: prefixes.iter().map(|(name, namespace)| ((*name).to_owned(), (*namespace).to_owned())).collect(),
            end: end.to_owned(),
            subject: None,
            predicate: None,
        }
    }

    pub(super) fn push(&mut self, triple: TripleRef<'_>, out: &mut Vec<u8>) {
        if self.subject.as_ref().is_none_or(|subject| subject.as_ref() != triple.subject) {
            self.close_subject(out);
            self.open_subject(triple.subject, out);
        }
        if self.predicate.as_ref().is_none_or(|predicate| predicate.as_ref() != triple.predicate) {
            out.extend_from_slice(b"<dt>");
            self.iri(triple.predicate, out);
            out.extend_from_slice(b"</dt>\n");
            self.predicate = Some(triple.predicate.into_owned());
        }
        match triple.object {
            TermRef::NamedNode(node) => {
                out.extend_from_slice(b"<dd>");
                self.iri(node, out);
            }
            TermRef::BlankNode(node) => {
                let id = escaped(node.as_str());
                out.extend_from_slice(format!("<dd><a href=\"#_:{id}\">_:{id}</a>").as_bytes());
            }
            TermRef::Literal(literal) => {
                match literal.language() {
                    Some(language) => out.extend_from_slice(format!("<dd lang=\"{}\">", escaped(language)).as_bytes()),
                    None => out.extend_from_slice(b"<dd>"),
                }
                out.extend_from_slice(escaped(literal.value()).as_bytes());
            }
        }
        out.extend_from_slice(b"</dd>\n");
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.close_subject(out);
        out.extend_from_slice(self.end.as_bytes());
    }

    fn open_subject(&mut self, subject: NamedOrBlankNodeRef<'_>, out: &mut Vec<u8>) {
        match subject {
            NamedOrBlankNodeRef::NamedNode(node) => {
                out.extend_from_slice(b"<h2>");
                self.iri(node, out);
            }
            NamedOrBlankNodeRef::BlankNode(node) => {
                let id = escaped(node.as_str());
                out.extend_from_slice(format!("<h2 id=\"_:{id}\">_:{id}").as_bytes());
            }
        }
        out.extend_from_slice(b"</h2>\n<dl class=\"statements\">\n");
        self.subject = Some(subject.into_owned());
    }

    fn close_subject(&mut self, out: &mut Vec<u8>) {
        self.predicate = None;
        if self.subject.take().is_some() {
            out.extend_from_slice(b"</dl>\n");
        }
    }

    /// An IRI, short where a prefix fits.
    fn iri(&self, iri: NamedNodeRef<'_>, out: &mut Vec<u8>) {
        let address = escaped(iri.as_str());
        let short = self.prefixes.iter().find_map(|(name, namespace)| {
            let local = iri.as_str().strip_prefix(namespace.as_str())?;
            Some(format!("{}:{}", escaped(name), escaped(local)))
        });
        let text = short.as_deref().unwrap_or(&address);
        let scheme = iri.as_str().split(':').next().unwrap_or_default();
        let is_link = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        let html = if is_link { format!("<a href=\"{address}\">{text}</a>") } else { text.to_owned() };
        out.extend_from_slice(html.as_bytes());
    }
}

/// Text with markup characters as references, for content and for attributes in double quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}
