//! The syntaxes of graphs, and their media types.

use std::borrow::Cow;

use mediatype::{MediaType, Name, ReadParams, names};

/// The parameter that distinguishes forms of JSON-LD.
const PROFILE: Name<'_> = Name::new_unchecked("profile");

/// A syntax of RDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// [Turtle](https://www.w3.org/TR/turtle/), the default (LDP 4.3.2.1).
    Turtle,
    /// [N-Triples](https://www.w3.org/TR/n-triples/).
    NTriples,
    /// [JSON-LD 1.1](https://www.w3.org/TR/json-ld11/), in one of its forms.
    JsonLd(JsonLdForm),
    /// [RDF/XML](https://www.w3.org/TR/rdf-syntax-grammar/).
    RdfXml,
    /// Turtle under the name of [N3](https://www.w3.org/TeamSubmission/n3/), of which it is a
    /// subset. Other parts of N3 are not read.
    N3,
    /// N-Triples as plain text, their older media type (N-Triples, section 5).
    Text,
}

/// A form of JSON-LD documents. The reader treats all forms alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum JsonLdForm {
    /// IRIs shortened by a context in the document.
    #[default]
    Compacted,
    /// No context, all IRIs in full.
    Expanded,
    /// As expanded, with one object per subject, none inside another.
    Flattened,
}

impl JsonLdForm {
    /// The profile that names the form (JSON-LD 1.1, section 6.1).
    #[must_use]
    pub const fn profile(self) -> &'static str {
        match self {
            Self::Compacted => "http://www.w3.org/ns/json-ld#compacted",
            Self::Expanded => "http://www.w3.org/ns/json-ld#expanded",
            Self::Flattened => "http://www.w3.org/ns/json-ld#flattened",
        }
    }

    /// The first form in a list of profiles, which spaces separate.
    #[must_use]
    pub fn from_profiles(profiles: &str) -> Option<Self> {
        let forms = [Self::Compacted, Self::Expanded, Self::Flattened];
        profiles.split_ascii_whitespace().find_map(|profile| forms.into_iter().find(|form| form.profile() == profile))
    }
}

impl Syntax {
    /// All syntaxes, in the server's order of preference.
    pub const ALL: [Self; 8] = [
        Self::Turtle,
        Self::JsonLd(JsonLdForm::Compacted),
        Self::NTriples,
        Self::RdfXml,
        Self::JsonLd(JsonLdForm::Expanded),
        Self::JsonLd(JsonLdForm::Flattened),
        Self::N3,
        Self::Text,
    ];

    /// Media types that always mean a graph, each once, for `Accept-Post`.
    pub const MEDIA_TYPES: [&'static str; 5] =
        ["text/turtle", "application/ld+json", "application/n-triples", "application/rdf+xml", "text/n3"];

    /// The media type, without parameters.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Turtle => "text/turtle",
            Self::NTriples => "application/n-triples",
            Self::JsonLd(_) => "application/ld+json",
            Self::RdfXml => "application/rdf+xml",
            Self::N3 => "text/n3",
            Self::Text => "text/plain",
        }
    }

    /// The value of the media type's `profile` parameter, where it has one.
    #[must_use]
    pub const fn profile(self) -> Option<&'static str> {
        match self {
            Self::JsonLd(form) => Some(form.profile()),
            Self::Turtle | Self::NTriples | Self::RdfXml | Self::N3 | Self::Text => None,
        }
    }

    /// The syntax of a media type (without parameters, in any case). An unknown profile is ignored
    /// (RFC 6906, section 3).
    #[must_use]
    pub fn from_media_type(media_type: &str, profile: Option<&str>) -> Option<Self> {
        let mut syntaxes = Self::ALL.into_iter();
        match syntaxes.find(|syntax| syntax.media_type().eq_ignore_ascii_case(media_type))? {
            Self::JsonLd(_) => Some(Self::JsonLd(profile.and_then(JsonLdForm::from_profiles).unwrap_or_default())),
            syntax => Some(syntax),
        }
    }
}

/// The character encoding of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Charset {
    /// The encoding of all syntaxes of RDF.
    #[default]
    Utf8,
    /// ISO-8859-1, which old HTTP libraries add to every `text/*`.
    Latin1,
}

impl Charset {
    /// The charset of that name, in any case. US-ASCII is a part of UTF-8.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" | "us-ascii" | "ascii" => Some(Self::Utf8),
            "iso-8859-1" | "iso8859-1" | "latin1" => Some(Self::Latin1),
            _ => None,
        }
    }

    /// The same text in UTF-8. A text in UTF-8 is neither copied nor checked; [`crate::parse`]
    /// checks it.
    #[must_use]
    pub fn to_utf8(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Utf8 => Cow::Borrowed(text),
            Self::Latin1 if text.is_ascii() => Cow::Borrowed(text),
            // Latin 1 is the first 256 code points.
            Self::Latin1 => Cow::Owned(text.iter().copied().map(char::from).collect::<String>().into_bytes()),
        }
    }
}

/// The `Content-Type` of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentType {
    /// The syntax.
    pub syntax: Syntax,
    /// The charset, UTF-8 by default.
    pub charset: Charset,
}

impl ContentType {
    /// Reads a value of `Content-Type` (RFC 9110, section 8.3). `None` if it is not a media type,
    /// not one of a graph, or its charset is unknown. Plain text is not a graph.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        Self::of_graph(value).filter(|content_type| content_type.syntax != Syntax::Text)
    }

    /// The same for a body that is known to be a graph: plain text is N-Triples.
    #[must_use]
    pub fn of_graph(value: &str) -> Option<Self> {
        let media_type = MediaType::parse(value).ok()?;
        let parameter = |name| media_type.get_param(name).map(|value| value.unquoted_str().into_owned());
        let profile = parameter(PROFILE);
        let syntax = Syntax::from_media_type(&media_type.essence().to_string(), profile.as_deref())?;
        let charset = match parameter(names::CHARSET) {
            Some(name) => Charset::from_name(&name)?,
            None => Charset::default(),
        };
        Some(Self { syntax, charset })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_content_type_names_syntax_and_charset() {
        let plain = |syntax| Some(ContentType { syntax, charset: Charset::Utf8 });
        assert_eq!(ContentType::parse("text/turtle"), plain(Syntax::Turtle));
        assert_eq!(ContentType::parse("Text/Turtle; Charset=\"UTF-8\""), plain(Syntax::Turtle));
        assert_eq!(ContentType::parse("application/rdf+xml"), plain(Syntax::RdfXml));
        assert_eq!(ContentType::parse("application/n-triples;charset=us-ascii"), plain(Syntax::NTriples));
        assert_eq!(
            ContentType::parse("text/turtle; charset=ISO-8859-1"),
            Some(ContentType { syntax: Syntax::Turtle, charset: Charset::Latin1 })
        );
        assert_eq!(ContentType::parse("text/n3"), plain(Syntax::N3));
        assert_eq!(ContentType::of_graph("text/plain; charset=utf-8"), plain(Syntax::Text));
        for other in ["", "text", "text/plain", "text/turtle; charset=utf-16", "application/json"] {
            assert_eq!(ContentType::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_profile_names_the_form_of_json_ld_and_an_unknown_one_is_ignored() {
        let form = |value: &str| match ContentType::parse(value).unwrap().syntax {
            Syntax::JsonLd(form) => form,
            other => panic!("{other:?}"),
        };
        assert_eq!(form("application/ld+json"), JsonLdForm::Compacted);
        assert_eq!(
            form("application/ld+json; profile=\"http://www.w3.org/ns/json-ld#expanded\""),
            JsonLdForm::Expanded
        );
        assert_eq!(
            form("application/ld+json;profile=\"http://example.org/a http://www.w3.org/ns/json-ld#flattened\""),
            JsonLdForm::Flattened
        );
        assert_eq!(form("application/ld+json;profile=\"http://example.org/a\""), JsonLdForm::Compacted);
    }

    #[test]
    fn every_syntax_is_found_by_its_own_media_type_and_profile() {
        for syntax in Syntax::ALL {
            assert_eq!(Syntax::from_media_type(syntax.media_type(), syntax.profile()), Some(syntax));
            assert!(syntax == Syntax::Text || Syntax::MEDIA_TYPES.contains(&syntax.media_type()));
        }
    }

    #[test]
    fn latin_1_becomes_utf_8() {
        assert_eq!(Charset::Latin1.to_utf8(b"caf\xE9").as_ref(), "caf\u{e9}".as_bytes());
        assert_eq!(Charset::Utf8.to_utf8(b"caf\xC3\xA9").as_ref(), "caf\u{e9}".as_bytes());
    }
}
