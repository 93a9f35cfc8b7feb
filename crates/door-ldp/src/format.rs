//! What graphs are sent as: one of their syntaxes, or a page for people.

use http::{HeaderMap, HeaderValue, header};
use objects::ResourcePath;
use rdf::vocab::PREFIXES;
use rdf::{JsonLdForm, Offer, Syntax, Writer};

use crate::address::Site;
use crate::errors::LdpError;
use crate::links;

/// Of a page only its own stylesheet may be loaded, and nothing run.
pub const SECURITY_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'");

/// What a graph is sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A syntax of RDF.
    Graph(Syntax),
    /// A page for people.
    Html,
}

impl Format {
    /// What a client likes best.
    pub fn negotiated(headers: &HeaderMap) -> Result<Self, LdpError> {
        let accept = links::values(headers, &header::ACCEPT).join(",");
        let mut offers = Syntax::ALL.map(|syntax| Offer::of(syntax, Self::Graph(syntax))).to_vec();
        offers.push(Offer::new("text/html", Self::Html));
        let refused = || LdpError::NotAcceptable(format!("{}, text/html", Syntax::MEDIA_TYPES.join(", ")));
        rdf::negotiate(Some(&accept), &offers).copied().ok_or_else(refused)
    }

    /// A writer of it; a page for people has a title.
    pub fn writer(self, site: &Site, title: &str) -> Writer {
        match self {
            Self::Graph(syntax) => Writer::new(syntax, PREFIXES),
            Self::Html => Writer::html(title, Some(&site.iri_of(&ResourcePath::root(), "style")), PREFIXES),
        }
    }

    /// What tells it from the others in an entity tag.
    pub fn tag(self) -> usize {
        match self {
            Self::Graph(syntax) => Syntax::ALL.iter().position(|known| *known == syntax).unwrap_or_default(),
            Self::Html => Syntax::ALL.len(),
        }
    }

    /// Says what it is. No charset where a graph's own specification says UTF-8 (RFC 9110, section 8.3).
    pub fn insert(self, headers: &mut HeaderMap) {
        let value = match self {
            Self::Html => {
                headers.insert(header::CONTENT_SECURITY_POLICY, SECURITY_POLICY);
                HeaderValue::from_static("text/html; charset=utf-8")
            }
            Self::Graph(syntax @ Syntax::JsonLd(JsonLdForm::Expanded | JsonLdForm::Flattened)) => {
                let profile = syntax.profile().unwrap_or_default();
                HeaderValue::try_from(format!("{}; profile=\"{profile}\"", syntax.media_type()))
                    .unwrap_or(HeaderValue::from_static("application/ld+json"))
            }
            Self::Graph(syntax) => HeaderValue::from_static(syntax.media_type()),
        };
        headers.insert(header::CONTENT_TYPE, value);
    }
}
