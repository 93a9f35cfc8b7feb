//! Bodies that come in: graphs are read whole, within limits and within the memory for all of them; bytes go to the store as they
//! come.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use door_http::body::{self, Held};
use door_http::digests;
use futures::{Stream, StreamExt};
use http::{HeaderMap, header};
use objects::resources::upload::digests_of;
use objects::{ResourcePath, Share};
use parking_lot::Mutex;
use rdf::{ContentType, Graph, Iri, JsonLdForm, Limits, NamedOrBlankNodeRef, Syntax, TermRef, Triple};

use crate::address::Site;
use crate::ask::Asked;
use crate::errors::LdpError;
use crate::links::values;
use crate::settings::LdpSettings;

/// A graph that came in, not read yet: what its relative IRIs mean is known once it has an address.
#[derive(Clone, Debug)]
pub struct GraphBody {
    bytes: Bytes,
    content_type: ContentType,
    /// The memory that it and the graph made of it take; `None`: next to nothing.
    share: Option<Arc<Mutex<Share>>>,
}

impl GraphBody {
    /// Takes it in, and checks that it is what the headers of the request announce.
    pub async fn read(body: Body, content_type: ContentType, asked: &Asked) -> Result<Self, LdpError> {
        let Held { bytes, share } = whole(body, asked, asked.settings().rdf_bytes_max).await?;
        Ok(Self { bytes, content_type, share: Some(Arc::new(Mutex::new(share))) })
    }

    /// One that says nothing.
    pub fn empty() -> Self {
        let content_type = ContentType { syntax: Syntax::Turtle, charset: rdf::Charset::Utf8 };
        Self { bytes: Bytes::new(), content_type, share: None }
    }

    /// One in JSON-LD, with the share of memory that it takes.
    pub fn json_ld(bytes: Bytes, share: Share) -> Self {
        let syntax = Syntax::JsonLd(JsonLdForm::Compacted);
        let content_type = ContentType { syntax, charset: rdf::Charset::Utf8 };
        Self { bytes, content_type, share: Some(Arc::new(Mutex::new(share))) }
    }

    /// The graph, of the resource at a path, as it is kept.
    pub fn graph(&self, site: &Site, path: &ResourcePath, settings: &LdpSettings) -> Result<Graph, LdpError> {
        self.graph_from(&site.base(path)?, site, settings)
    }

    /// The graph, with this base, as it is kept.
    pub fn graph_from(&self, base: &Iri, site: &Site, settings: &LdpSettings) -> Result<Graph, LdpError> {
        let limits = Limits { body_bytes: settings.rdf_bytes_max, triples: settings.triples_max, ..Limits::default() };
        let text = self.content_type.charset.to_utf8(&self.bytes);
        let graph = rdf::parse(&text, self.content_type.syntax, base, &limits)?;
        if let Some(share) = &self.share {
            // As many graphs are parsed at once as there are threads, each within its limits; what waits for the store is paid for.
            share.lock().resize(self.bytes.len() as u64 + GRAPHS_AT_ONCE * bytes_of(&graph))?;
        }
        Ok(crate::statements::map(graph, |iri| site.kept(iri)))
    }
}

/// Graphs made of one body that are held at the same time: as it came, and as it is kept.
const GRAPHS_AT_ONCE: u64 = 2;

/// Bytes that a statement takes besides the text of its terms: itself, its place in the graph, and an allocator's rounding.
pub const STATEMENT_BYTES: u64 = 256;

/// Bytes that a graph takes in memory, about.
pub fn bytes_of(graph: &Graph) -> u64 {
    let text = |triple: &Triple| {
        let subject = match triple.subject.as_ref() {
            NamedOrBlankNodeRef::NamedNode(node) => node.as_str().len(),
            NamedOrBlankNodeRef::BlankNode(node) => node.as_str().len(),
        };
        let object = match triple.object.as_ref() {
            TermRef::NamedNode(node) => node.as_str().len(),
            TermRef::BlankNode(node) => node.as_str().len(),
            TermRef::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
        };
        (subject + triple.predicate.as_str().len() + object) as u64
    };
    graph.iter().map(|triple| STATEMENT_BYTES + text(triple)).sum()
}

/// A body that is held in memory, and is what the headers of the request announce.
pub async fn whole(body: Body, asked: &Asked, bytes_max: usize) -> Result<Held, LdpError> {
    let announced = digests::announced(&asked.headers)?;
    let held = body::held(asked.library().memory(), &asked.party, body, bytes_max as u64, 1).await?;
    digests::check(&announced, &digests_of(&held.bytes, &digests::algorithms(&announced)))?;
    Ok(held)
}

/// Refuses digests of a body that is used while it comes: they would be checked when it is too late.
pub fn refuse_digests(headers: &HeaderMap) -> Result<(), LdpError> {
    let why = || "of many resources in one body no digest is checked, because each is created as it comes".to_owned();
    let names = [digests::DIGEST, digests::REPR_DIGEST, digests::CONTENT_DIGEST];
    match names.iter().any(|name| headers.contains_key(name)) {
        true => Err(LdpError::Header { name: "digest", why: why() }),
        false => Ok(()),
    }
}

/// A body as it comes, up to a limit (0: none).
pub fn pieces(body: Body, bytes_max: u64) -> impl Stream<Item = Result<Bytes, LdpError>> + Send + 'static {
    let mut taken_bytes = 0;
    body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(|error| LdpError::BodyBroken(error.to_string()))?;
        taken_bytes += piece.len() as u64;
        match bytes_max {
            0 => Ok(piece),
            max_bytes if taken_bytes <= max_bytes => Ok(piece),
            max_bytes => Err(LdpError::TooLarge { max_bytes }),
        }
    })
}

/// The type of a body, as its sender says; `None`: it does not.
pub fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

/// Refuses bodies that are coded: what is kept is what was sent.
pub fn refuse_codings(headers: &HeaderMap) -> Result<(), LdpError> {
    let codings = values(headers, &header::CONTENT_ENCODING);
    let coding = codings.into_iter().find(|coding| !coding.trim().eq_ignore_ascii_case("identity"));
    coding.map_or(Ok(()), |coding| Err(LdpError::UnsupportedCoding(coding)))
}
