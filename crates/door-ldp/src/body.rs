//! Request bodies. Graphs are read whole, within limits and within the memory budget, and parsed
//! where they keep no other request waiting. Bytes go to the store as they arrive.

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
use rdf::update::{Cancellation, Removal};
use rdf::{
    ContentType, Graph, Iri, JsonLdForm, Limits, Literal, NamedNode, NamedOrBlankNodeRef, ParseError, Syntax, Term,
    TermRef, Triple,
};
use repository::ResourceError;
use repository::upload::digests_of;

use crate::address::{Site, encoded};
use crate::errors::LdpError;
use crate::links::values;
use crate::request::LdpRequest;
use crate::settings::STATEMENT_BYTES;
use crate::stored::{map, mapped};

/// Up to this length in bytes a body is parsed where it was received: that takes little longer than
/// to hand it to another thread. Even a short one in JSON-LD can take long.
const PARSED_AT_ONCE_BYTES: usize = 4 << 10;

/// At least the bytes that the repository appends to a name that is taken.
const ADDED_BYTES: usize = 16;

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
    pub async fn graph(&self, path: &ResourcePath, asked: &LdpRequest) -> Result<Graph, LdpError> {
        self.graph_from(&asked.site.base(path)?, asked).await
    }

    /// The graph with this base, with stored IRIs.
    pub async fn graph_from(&self, base: &Iri, asked: &LdpRequest) -> Result<Graph, LdpError> {
        Ok(map(self.parsed(base, asked).await?, |iri| asked.site.kept(iri)))
    }

    /// The graph of a resource in a container, whose name is not known yet: the wish, the wish with
    /// something appended, or a fresh one.
    pub async fn graph_in(
        &self,
        container: &ResourcePath,
        wish: Option<&str>,
        asked: &LdpRequest,
    ) -> Result<UnnamedGraph, LdpError> {
        let drawn = hex::encode(asked.library().heads.surroundings().random.bytes::<16>());
        // No name is longer, so limits and the share of memory hold for every name.
        let wish_bytes = |wish: &str| ResourcePath::of_names([wish]).map(|name| encoded(&name).len() + ADDED_BYTES);
        let longest = wish.map_or(Ok(0), wish_bytes)?;
        let base = format!("{}/{drawn:0<longest$}", asked.site.iri(container).trim_end_matches('/'));
        let base = Iri::parse(base).map_err(|error| LdpError::Internal(error.to_string()))?;
        let graph = self.parsed(&base, asked).await.map_err(|error| unnamed(error, base.as_str()))?;
        Ok(UnnamedGraph { graph, base })
    }

    async fn parsed(&self, base: &Iri, asked: &LdpRequest) -> Result<Graph, LdpError> {
        let settings = asked.settings();
        let limits = Limits { body_bytes: settings.rdf_bytes_max, triples: settings.triples_max, ..Limits::default() };
        let is_json_ld = matches!(self.content_type.syntax, Syntax::JsonLd(_));
        let (graph, turn) = match self.bytes.len() <= PARSED_AT_ONCE_BYTES && !is_json_ld {
            true => (parse(&self.bytes, self.content_type, base, &limits, &Cancellation::default())?, None),
            false => {
                let turn = asked.stop.turn(&asked.door.parsings, &asked.party).await?;
                let (bytes, content_type, base) = (self.bytes.clone(), self.content_type, base.clone());
                let cancellation = asked.stop.computing();
                // The turn goes on until the graph has a share.
                let job = move || (parse(&bytes, content_type, &base, &limits, &cancellation), turn);
                let compute = asked.library().heads.surroundings().compute;
                let (graph, turn) = compute.run(job).await.map_err(ResourceError::from)?;
                (graph?, Some(turn))
            }
        };
        if let Some(share) = &self.share {
            // Graphs that wait for the store hold a share.
            share.lock().resize(self.bytes.len() as u64 + GRAPHS_AT_ONCE * bytes_of(&graph))?;
        }
        drop(turn);
        Ok(graph)
    }
}

fn parse(
    body: &[u8],
    content_type: ContentType,
    base: &Iri,
    limits: &Limits,
    cancellation: &Cancellation,
) -> Result<Graph, ParseError> {
    rdf::parse_cancellable(&content_type.charset.to_utf8(body), content_type.syntax, base, limits, cancellation)
}

/// The error with relative IRIs in place of those that begin with the base, whose name the client
/// does not know.
fn unnamed(error: LdpError, base: &str) -> LdpError {
    let relative = |text: &str| text.replace(&format!("<{base}"), "<").replace(base, "<>");
    match error {
        LdpError::Graph(ParseError::Syntax { location, message }) => {
            ParseError::Syntax { location, message: relative(&message) }.into()
        }
        LdpError::Graph(ParseError::RemoteContext { iri }) => ParseError::RemoteContext { iri: relative(&iri) }.into(),
        LdpError::Graph(ParseError::NamedGraph { graph }) => ParseError::NamedGraph { graph: relative(&graph) }.into(),
        other => other,
    }
}

/// A graph of a resource whose name is not known yet. It has a name that no resource has instead.
#[derive(Debug)]
pub struct UnnamedGraph {
    graph: Graph,
    /// The resource's IRI with that name.
    base: Iri,
}

impl UnnamedGraph {
    /// The graph once the resource has a path in its container, with stored IRIs.
    pub fn at(&self, site: &Site, path: &ResourcePath) -> Graph {
        let iri = site.iri(path);
        let named = |found: &str| Some(format!("{iri}{}", found.strip_prefix(self.base.as_str())?));
        let kept = |found: &str| site.kept(found);
        let statements = self.graph.iter().map(|triple| {
            let mut triple = mapped(triple.clone(), &named);
            if let Term::Literal(literal) = &triple.object
                && let Some(datatype) = named(literal.datatype().as_str())
            {
                let datatype = NamedNode::new_unchecked(datatype);
                triple.object = Literal::new_typed_literal(literal.value(), datatype).into();
            }
            mapped(triple, &kept)
        });
        statements.collect()
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
        (subject + triple.predicate.as_str().len() + text_bytes(triple.object.as_ref())) as u64
    };
    graph.iter().map(|triple| STATEMENT_BYTES + text(triple)).sum()
}

/// Approximate bytes of the removals of an update in memory.
pub fn bytes_of_removals(removals: &[Removal]) -> u64 {
    let name = |name: &Option<NamedNode>| name.as_ref().map_or(0, |name| name.as_str().len());
    let text = |removal: &Removal| {
        let object = removal.object.as_ref().map_or(0, |object| text_bytes(object.as_ref()));
        (name(&removal.subject) + name(&removal.predicate) + object) as u64
    };
    removals.iter().map(|removal| STATEMENT_BYTES + text(removal)).sum()
}

/// Bytes of the text of an object.
fn text_bytes(object: TermRef<'_>) -> usize {
    match object {
        TermRef::NamedNode(node) => node.as_str().len(),
        TermRef::BlankNode(node) => node.as_str().len(),
        TermRef::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Extensions;

    use super::*;
    use crate::settings::LdpSettings;

    #[test]
    fn a_graph_that_is_parsed_before_its_resource_has_a_name_is_the_same_as_after() {
        let headers = HeaderMap::from_iter([(header::HOST, "example.org".parse().unwrap())]);
        let site = Site::of(&LdpSettings::default(), &"/rest/".parse().unwrap(), &headers, &Extensions::new()).unwrap();
        let body = b"@prefix p: <> . @prefix h: <#> . <> a p:x , h:y , <?z> , <x> , <../x> , <./> , </rest/x> .
            <#part> <p> 'text' , 'text'@en , 1 , '1'^^<#type> , '1'^^<http://example.org/rest/t> .
            <http://b/> <p> <> .";
        let turtle = ContentType { syntax: Syntax::Turtle, charset: rdf::Charset::Utf8 };
        let parsed = |base: &Iri| rdf::parse(body, turtle.syntax, base, &Limits::default()).unwrap();
        for (container, path) in [("", "a b"), ("c/d", "c/d/e")] {
            let (container, path) = (ResourcePath::parse(container).unwrap(), ResourcePath::parse(path).unwrap());
            let base = Iri::parse(format!("{}/0123", site.iri(&container).trim_end_matches('/'))).unwrap();
            let unnamed = UnnamedGraph { graph: parsed(&base), base };
            let named = map(parsed(&site.base(&path).unwrap()), |iri| site.kept(iri));
            assert_eq!(unnamed.at(&site, &path), named);
        }
    }
}
