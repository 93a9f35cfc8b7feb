//! Request bodies. Graphs are read whole, within limits and within the memory budget. Bytes go to
//! the store as they arrive.

use std::sync::Arc;

use axum::body::Body;
use budget::Share;
use bytes::Bytes;
use door_http::body::{self, Held};
use door_http::digests;
use futures::{Stream, StreamExt};
use heads::ResourcePath;
use http::{HeaderMap, header};
use parking_lot::Mutex;
use rdf::{ContentType, Graph, Iri, JsonLdForm, Limits, NamedOrBlankNodeRef, Syntax, TermRef, Triple};
use repository::upload::digests_of;

use crate::address::Site;
use crate::errors::LdpError;
use crate::links::values;
use crate::request::LdpRequest;
use crate::settings::{LdpSettings, STATEMENT_BYTES};
use crate::stored::map;

/// A received graph that is not parsed yet, because its relative IRIs have a meaning only once it
/// has an address.
#[derive(Clone, Debug)]
pub struct GraphBody {
    bytes: Bytes,
    content_type: ContentType,
    /// The share of memory for it and the parsed graph; `None` if it is tiny.
    share: Option<Arc<Mutex<Share>>>,
}

impl GraphBody {
    /// Reads it, and checks it against the digests in the request's headers.
    pub async fn read(body: Body, content_type: ContentType, asked: &LdpRequest) -> Result<Self, LdpError> {
        let Held { bytes, share } = whole(body, asked, asked.settings().rdf_bytes_max).await?;
        Ok(Self { bytes, content_type, share: Some(Arc::new(Mutex::new(share))) })
    }

    /// An empty graph.
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

    /// The graph of the resource at a path, with stored IRIs.
    pub fn graph(&self, site: &Site, path: &ResourcePath, settings: &LdpSettings) -> Result<Graph, LdpError> {
        self.graph_from(&site.base(path)?, site, settings)
    }

    /// The graph with this base, with stored IRIs.
    pub fn graph_from(&self, base: &Iri, site: &Site, settings: &LdpSettings) -> Result<Graph, LdpError> {
        let limits = Limits { body_bytes: settings.rdf_bytes_max, triples: settings.triples_max, ..Limits::default() };
        let text = self.content_type.charset.to_utf8(&self.bytes);
        let graph = rdf::parse(&text, self.content_type.syntax, base, &limits)?;
        if let Some(share) = &self.share {
            // At most one graph per thread is parsed at once, each within its limits. Graphs that
            // wait for the store hold a share.
            share.lock().resize(self.bytes.len() as u64 + GRAPHS_AT_ONCE * bytes_of(&graph))?;
        }
        Ok(map(graph, |iri| site.kept(iri)))
    }
}

/// Graphs of one body in memory at the same time: as sent, and with stored IRIs.
const GRAPHS_AT_ONCE: u64 = 2;

/// Approximate bytes of a graph in memory.
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

/// Reads a body into memory, and checks it against the digests in the request's headers.
pub async fn whole(body: Body, asked: &LdpRequest, bytes_max: usize) -> Result<Held, LdpError> {
    let announced = digests::announced(&asked.headers)?;
    let held = body::held(&asked.library().memory, &asked.party, body, bytes_max as u64, 1).await?;
    digests::check(&announced, &digests_of(&held.bytes, &digests::algorithms(&announced)))?;
    Ok(held)
}

/// Refuses digests of a body that is processed while it arrives, because the check would come too
/// late.
pub fn refuse_digests(headers: &HeaderMap) -> Result<(), LdpError> {
    let why = || {
        "the digest of a body with many resources cannot be checked, because each resource is created as it arrives"
            .to_owned()
    };
    let names = [digests::DIGEST, digests::REPR_DIGEST, digests::CONTENT_DIGEST];
    match names.iter().any(|name| headers.contains_key(name)) {
        true => Err(LdpError::Header { name: "digest", why: why() }),
        false => Ok(()),
    }
}

/// A body as a stream, up to a limit (0: none).
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

/// The type of a body; `None` if the client does not state it.
pub fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

/// Refuses bodies with a content coding: bytes are stored as sent.
pub fn refuse_codings(headers: &HeaderMap) -> Result<(), LdpError> {
    let codings = values(headers, &header::CONTENT_ENCODING);
    let coding = codings.into_iter().find(|coding| !coding.trim().eq_ignore_ascii_case("identity"));
    coding.map_or(Ok(()), |coding| Err(LdpError::UnsupportedCoding(coding)))
}
