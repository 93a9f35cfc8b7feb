//! The formats of graphs in responses: a syntax, or a page for people.

use door_http::accept::{self, Offer};
use door_http::{Page, page};
use http::{HeaderMap, HeaderValue, header};
use rdf::vocab::PREFIXES;
use rdf::{JsonLdForm, Syntax, Writer};

use crate::errors::LdpError;

/// The media type of an archive of a container.
pub const ZIP: &str = "application/zip";

/// The format of a graph in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A syntax of RDF.
    Graph(Syntax),
    /// A page for people.
    Html,
}

/// The representation that a client prefers, among all formats and other offers.
fn negotiated(headers: &HeaderMap, more: Vec<Offer<Option<Format>>>) -> Result<Option<Format>, LdpError> {
    let offer = |syntax: Syntax| Offer {
        media_type: syntax.media_type(),
        profile: syntax.profile(),
        value: Some(Format::Graph(syntax)),
    };
    let mut offers = Syntax::ALL.map(offer).to_vec();
    offers.push(Offer::new("text/html", Some(Format::Html)));
    offers.extend(more);
    let offered = || offers.iter().map(|offer| offer.media_type).collect::<Vec<_>>().join(", ");
    accept::media_type(headers, &offers).copied().ok_or_else(|| LdpError::NotAcceptable(offered()))
}

impl Format {
    /// The format that a client prefers.
    pub fn negotiated(headers: &HeaderMap) -> Result<Self, LdpError> {
        let none = || LdpError::Internal("nothing was negotiated".to_owned());
        negotiated(headers, Vec::new())?.ok_or_else(none)
    }

    /// The same for a resource that is also offered as an archive; `None` if the client prefers the
    /// archive.
    pub fn negotiated_or_archive(headers: &HeaderMap) -> Result<Option<Self>, LdpError> {
        negotiated(headers, vec![Offer::new(ZIP, None)])
    }

    /// A writer of this format; for people, of statements within a page.
    pub fn writer(self, page: impl FnOnce() -> Page) -> Writer {
        match self {
            Self::Graph(syntax) => Writer::new(syntax, PREFIXES),
            Self::Html => Writer::html(&page().begin(), Page::END, PREFIXES),
        }
    }

    /// Its mark in an entity tag.
    pub fn tag(self) -> usize {
        match self {
            Self::Graph(syntax) => Syntax::ALL.iter().position(|known| *known == syntax).unwrap_or_default(),
            Self::Html => Syntax::ALL.len(),
        }
    }

    /// Its media type, without a charset if the specification of the syntax fixes UTF-8 (RFC 9110,
    /// section 8.3).
    pub fn insert(self, headers: &mut HeaderMap) {
        let value = match self {
            Self::Html => {
                headers.insert(header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY);
                page::TYPE
            }
            Self::Graph(syntax @ Syntax::JsonLd(JsonLdForm::Expanded | JsonLdForm::Flattened)) => {
                let profile = syntax.profile().unwrap_or_default();
                HeaderValue::try_from(format!("{}; profile=\"{profile}\"", syntax.media_type()))
                    .unwrap_or(HeaderValue::from_static("application/ld+json"))
            }
            // The one whose specification does not fix it.
            Self::Graph(Syntax::Text) => HeaderValue::from_static("text/plain; charset=utf-8"),
            Self::Graph(syntax) => HeaderValue::from_static(syntax.media_type()),
        };
        headers.insert(header::CONTENT_TYPE, value);
    }
}
