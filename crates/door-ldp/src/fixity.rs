//! `fcr:fixity` of a binary: its bytes are read again and compared with the stored SHA-256.
//! Fedora's address, and Fedora's statements in the vocabulary of PREMIS, so that its clients work
//! unchanged.
//!
//! The Fedora API (section 7) defines fixity for binaries only. So a container or a graph has no
//! such address here (404), and neither has a description (400, as in Fedora).

use axum::response::Response;
use budget::Pace;
use http::{HeaderValue, Method, StatusCode, header};
use rdf::vocab::PREFIXES;
use rdf::vocab::rdf::TYPE;
use rdf::{Literal, NamedNode, NamedNodeRef, Term, Triple, Writer};
use repository::{Binary, Part, VerifiedResource};

use crate::address::kept_iri;
use crate::arrange::Section;
use crate::errors::LdpError;
use crate::format::Format;
use crate::links;
use crate::managed::{HAS_SIZE, has_digest};
use crate::request::{LdpRequest, empty, unsent};
use crate::statements::Statements;

/// The outcome if the bytes are those that were stored.
const SUCCESS: &str = "SUCCESS";
/// The outcome if they are not, or cannot be read. Clients of Fedora know this one.
const BAD_CHECKSUM: &str = "BAD_CHECKSUM";

macro_rules! premis {
    ($($name:ident = $local:literal;)*) => {$(
        const $name: NamedNodeRef<'static> =
            NamedNodeRef::new_unchecked(concat!("http://www.loc.gov/premis/rdf/v1#", $local));
    )*};
}

premis! {
    HAS_FIXITY = "hasFixity";
    FIXITY = "Fixity";
    EVENT_OUTCOME_DETAIL = "EventOutcomeDetail";
    HAS_EVENT_OUTCOME = "hasEventOutcome";
    HAS_EVENT_OUTCOME_DETAIL_NOTE = "hasEventOutcomeDetailNote";
}

impl LdpRequest {
    /// Reads the bytes of a binary again and reports what it found. A damaged binary is marked, and
    /// a sound one is unmarked. If the client leaves, reading stops.
    pub async fn check_fixity(&self) -> Result<Response, LdpError> {
        let resource = self.library().repository.resource(self.path()).await?;
        let binary = resource.body().binary().ok_or_else(|| LdpError::NoBytes(self.path().clone()))?;
        if binary.elsewhere().is_some() {
            let why = "the bytes are stored elsewhere, and no digest of them is stored here to compare them with";
            return Err(LdpError::NotOffered(why.to_owned()));
        }
        let format = Format::negotiated(&self.headers)?;
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        links::append(headers, &self.site.iri(self.path()), "describes");
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        format.insert(headers);
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let reading = self.turn_to_read_whole().await?;
        let verified = self.library().repository.verify_parts(&resource, &[Part::Bytes], Pace::unlimited()).await?;
        drop(reading);
        let Format::Graph(syntax) = format else {
            let checked = self.library().clock().now();
            return Ok(self.page_of_fixity(&verified, binary, checked, response));
        };
        let writer = Writer::new(syntax, PREFIXES);
        let described = vec![Section::Triples(statements(&verified, binary))];
        let statements = Statements::new(self.library().clone(), self.site.clone(), writer, described);
        *response.body_mut() = statements.write().await?.into();
        Ok(response)
    }
}

/// The statements about a check. It gets a name of its own, so that a client can keep the results
/// of several checks together.
fn statements(verified: &VerifiedResource, binary: &Binary) -> Vec<Triple> {
    let resource = kept_iri(&verified.path);
    let check = NamedNode::new_unchecked(format!("{resource}/fcr:fixity#{:032x}", rand::random::<u128>()));
    let say = |predicate: NamedNodeRef<'_>, object: Term| Triple::new(check.clone(), predicate.into_owned(), object);
    let outcome = if verified.damaged.is_empty() { SUCCESS } else { BAD_CHECKSUM };
    let mut triples = vec![
        Triple::new(NamedNode::new_unchecked(resource), HAS_FIXITY.into_owned(), check.clone()),
        say(TYPE, FIXITY.into_owned().into()),
        say(TYPE, EVENT_OUTCOME_DETAIL.into_owned().into()),
        say(HAS_EVENT_OUTCOME, Literal::from(outcome).into()),
        say(HAS_SIZE, Literal::new_typed_literal(binary.len_bytes.to_string(), rdf::vocab::xsd::LONG).into()),
    ];
    let (predicate, digest) = has_digest(binary);
    triples.push(say(predicate, digest));
    let notes = verified.damaged.iter().map(|damaged| Literal::from(damaged.detail.as_str()).into());
    triples.extend(notes.map(|note| say(HAS_EVENT_OUTCOME_DETAIL_NOTE, note)));
    triples
}
