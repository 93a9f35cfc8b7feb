//! Terms of statements as people read them.

use door_http::Second;
use heads::ResourcePath;
use maud::{Markup, html};
use rdf::vocab::PREFIXES;
use rdf::{Graph, Literal, NamedOrBlankNode, Term};
use store::UnixMillis;

use crate::address::{Site, kept_iri, path_of_kept};
use crate::managed::time_text;
use crate::pages::local;

/// The properties that name something, the best one first.
const TITLES: [&str; 8] = [
    "http://purl.org/dc/terms/title",
    "http://purl.org/dc/elements/1.1/title",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://xmlns.com/foaf/0.1/name",
    "https://schema.org/name",
    "http://schema.org/name",
    "http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#filename",
];

/// Most characters of a title.
const TITLE_CHARS_MAX: usize = 200;

/// Most bytes of a tag of a language. Those in use have at most 35 (RFC 5646, section 4.4.1).
const LANGUAGE_BYTES_MAX: usize = 64;

/// Most characters of a term on a page. The other formats have all of them.
const TEXT_CHARS_MAX: usize = 4_000;

/// Most bytes of an address to which a page links.
const ADDRESS_BYTES_MAX: usize = 8 << 10;

/// What people call a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// Its text.
    pub text: String,
    /// Its language, a tag of BCP 47; `None` if nothing says it.
    pub language: Option<String>,
}

impl Title {
    /// A title of which nothing says the language.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), language: None }
    }

    /// As it is beside a name.
    pub fn shown(&self) -> Markup {
        html! { span.title lang=[self.language.as_deref()] { (self.text) } }
    }
}

/// What a resource is called in its own description (with stored IRIs).
pub fn title_in(description: &Graph, path: &ResourcePath) -> Option<Title> {
    let own = kept_iri(path);
    let named = |property: &str| {
        description.iter().find_map(|triple| match (&triple.subject, &triple.object) {
            (NamedOrBlankNode::NamedNode(subject), Term::Literal(literal))
                if subject.as_str() == own && triple.predicate.as_str() == property =>
            {
                Some(literal).filter(|literal| !literal.value().trim().is_empty())
            }
            _ => None,
        })
    };
    let literal = TITLES.iter().find_map(|property| named(property))?;
    Some(Title { text: title(literal.value().trim()), language: language(literal).map(str::to_owned) })
}

/// The language of a literal for the attribute `lang`. A stored tag may be malformed (RFC 5646) or
/// very long, and such a one says nothing.
fn language(literal: &Literal) -> Option<&str> {
    let tag = literal.language().filter(|tag| tag.len() <= LANGUAGE_BYTES_MAX);
    tag.filter(|tag| Literal::new_language_tagged_literal("", *tag).is_ok())
}

/// A title of a length that people read.
pub fn title(text: &str) -> String {
    shortened(text, TITLE_CHARS_MAX)
}

/// A text of at most so many characters.
fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An IRI, as a link if it is one of the web, and short if a prefix fits or it is of this
/// repository.
pub fn iri(site: &Site, kept: &str) -> Markup {
    if let (Some(address), Some(path)) = (site.shown(kept), path_of_kept(kept)) {
        let part = kept.find(['#', '?']).map_or("", |at| &kept[at..]);
        let text = shortened(&format!("/{path}{part}"), TEXT_CHARS_MAX);
        return html! { a href=(local(&address)) { (text) } };
    }
    let address = site.shown(kept).unwrap_or_else(|| kept.to_owned());
    let text = prefixed(&address).unwrap_or_else(|| address.clone());
    let text = shortened(&text, TEXT_CHARS_MAX);
    let scheme = address.split(':').next().unwrap_or_default();
    let is_link = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    // A longer one is of no use in a browser.
    let is_link = is_link && address.len() <= ADDRESS_BYTES_MAX;
    html! { @if is_link { a href=(address) { (text) } } @else { (text) } }
}

/// An IRI with a prefix, if a usual one fits.
fn prefixed(iri: &str) -> Option<String> {
    PREFIXES.iter().find_map(|(name, namespace)| Some(format!("{name}:{}", iri.strip_prefix(namespace)?)))
}

/// A literal with its language or its type.
pub fn literal(literal: &Literal) -> Markup {
    let note = match literal.language() {
        Some(language) => Some(language.to_owned()),
        None if literal.datatype() == rdf::vocab::xsd::STRING => None,
        None => Some(prefixed(literal.datatype().as_str()).unwrap_or_else(|| literal.datatype().as_str().to_owned())),
    };
    html! {
        span lang=[language(literal)] { (shortened(literal.value(), TEXT_CHARS_MAX)) }
        @if let Some(note) = note { " " small.badge { (note) } }
    }
}

/// A time.
pub fn time(time: UnixMillis) -> Markup {
    let text = time_text(time);
    let shown = match text.split_once('T') {
        Some((day, clock)) => format!("{day} {} UTC", clock.get(..8).unwrap_or(clock)),
        None => text.clone(),
    };
    html! { time datetime=(text) { (shown) } }
}

/// A size in bytes, in decimal units.
pub fn size(len_bytes: u64) -> String {
    bytesize::ByteSize::b(len_bytes).display().si().to_string()
}

/// The day of a time.
pub fn day(time: UnixMillis) -> String {
    Second::of(time).written("%-d %B %Y")
}

/// A time on a day that people know.
pub fn clock(time: UnixMillis) -> Markup {
    html! { time datetime=(time_text(time)) { (Second::of(time).written("%H:%M:%S UTC")) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_tag_that_is_not_very_long_is_a_language() {
        let long = format!("de-x{}", "-long".repeat(12));
        let longer = format!("{long}-er");
        for (tag, is_language) in [
            ("de", true),
            ("sr-latn-rs", true),
            (&*long, true),
            (&*longer, false),
            ("toolonglangtag", false),
            ("d-e", false),
        ] {
            let literal = Literal::new_language_tagged_literal_unchecked("text", tag);
            assert_eq!(language(&literal), Some(tag).filter(|_| is_language), "{tag}");
        }
        assert_eq!(language(&Literal::from("text")), None);
    }

    #[test]
    fn a_long_title_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
