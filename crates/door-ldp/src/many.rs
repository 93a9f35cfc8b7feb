//! Many resources in one request, posted to a container: N-Quads with one resource per graph, or
//! lines of JSON-LD with one resource each. The response has a line per resource, written when it
//! is created. It starts while the request still arrives, and waits for a client that does not read
//! yet, within shares of the memory.

use std::future;
use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use budget::Share;
use bytes::Bytes;
use door_http::spooled::{self, Answered};
use door_http::{in_order, lines};
use futures::stream::{self, Stream, StreamExt};
use heads::ResourcePath;
use heads::actor;
use http::{HeaderValue, StatusCode, header};
use rdf::quads;
use rdf::{Iri, Limits};
use repository::Resource;

use crate::address::path_of_kept;
use crate::body::{GraphBody, bytes_of, content_type, refuse_codings, refuse_digests};
use crate::errors::LdpError;
use crate::incoming::Incoming;
use crate::lines::Line;
use crate::model::Model;
use crate::request::{LdpRequest, empty, refuse_volumes};
use crate::stored::map;

/// The media type of N-Quads (RDF 1.1 N-Quads, section 6).
const N_QUADS: &str = "application/n-quads";

/// Resources that are created at the same time: durable writes share their syncs.
const CREATED_AT_ONCE: usize = 64;

/// First share of memory of a request, in bytes, for the part of an incomplete resource.
const HELD_BYTES: u64 = 64 << 10;

/// Approximate memory per byte of quads as a graph, at most: the shortest quads have some 30 bytes.
const QUADS_TIMES: u64 = 8;

/// Media types of lines of JSON. None of them is registered.
const JSON_LINES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/// The format of many resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// As N-Quads.
    Quads,
    /// As lines of JSON-LD.
    Lines,
}

/// One that cannot be made, by its name if that is known.
struct Unmade(Option<String>, LdpError);

/// One of them.
enum Sent {
    Graph(quads::Resource),
    Line(Bytes),
}

impl Sent {
    /// Its name, if it is known before it is parsed.
    fn name(&self) -> Option<String> {
        match self {
            Self::Graph(resource) => Some(resource.name.as_str().to_owned()),
            Self::Line(_) => None,
        }
    }

    /// Approximate bytes that it takes until it is created. A parsed line has a share of its own.
    fn bytes(&self) -> u64 {
        match self {
            Self::Graph(resource) => 2 * bytes_of(&resource.graph),
            Self::Line(line) => line.len() as u64,
        }
    }
}

impl Many {
    /// The format, if a request has many resources. A request to store bytes is not one.
    pub fn of(asked: &LdpRequest) -> Option<Self> {
        if matches!(Model::asked(&asked.headers, false), Ok(Some(Model::Binary))) {
            return None;
        }
        let said = content_type(&asked.headers).unwrap_or_default();
        let said = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match said.as_str() {
            N_QUADS => Some(Self::Quads),
            said if JSON_LINES.contains(&said) => Some(Self::Lines),
            _ => None,
        }
    }
}

impl LdpRequest {
    /// Creates each of many resources. An existing resource stays unchanged, and its line says so.
    pub fn post_many(self: &Arc<Self>, many: Many, container: Resource, body: Body) -> Result<Response, LdpError> {
        refuse_codings(&self.headers)?;
        refuse_digests(&self.headers)?;
        let model = Model::asked(&self.headers, true)?;
        let limits = Limits {
            body_bytes: self.settings().rdf_bytes_max,
            triples: self.settings().triples_max,
            ..Limits::default()
        };
        let (asked, container) = (self.clone(), Arc::new(container));
        let share = self.library().memory.try_reserve(&self.party, HELD_BYTES)?;
        let sent = match many {
            Many::Quads => resources(body, limits, share).map(|resource| resource.map(Sent::Graph)).boxed(),
            Many::Lines => lines::of(body, limits.body_bytes, share)
                .map(|line| Ok(Sent::Line(line.map_err(|error| Unmade(None, error.into()))?)))
                .boxed(),
        };
        let payer = self.clone();
        let paid = sent.then(move |sent| {
            let payer = payer.clone();
            async move {
                let sent = sent?;
                let share = payer.library().memory.reserve(&payer.party, sent.bytes()).await;
                match share {
                    Ok(share) => Ok((sent, share)),
                    Err(error) => Err(Unmade(sent.name(), error.into())),
                }
            }
        });
        let lines = paid.map(move |sent: Result<_, Unmade>| {
            let (asked, container) = (asked.clone(), container.clone());
            async move {
                match sent {
                    Ok((Sent::Graph(resource), _share)) => asked.create_graph(&container, model, resource).await,
                    Ok((Sent::Line(line), share)) => asked.create_line(&container, model, &line, share).await,
                    Err(Unmade(name, error)) => line(name.as_deref(), &error),
                }
            }
        });
        let (outcomes, answer) = spooled::new(self.library().memory.clone(), self.party.clone());
        // Creation continues when the client leaves, and does not wait for it to read.
        actor::spawn(async move {
            let to = &outcomes;
            let write = |line: String| to.write(Answered::free(line));
            if let Err(error) = in_order(lines, CREATED_AT_ONCE, write).await {
                return tracing::warn!(%error, "lines that wait for their client cannot be kept");
            }
            outcomes.finish();
        });
        let mut response = empty(StatusCode::OK);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        *response.body_mut() = Body::from_stream(answer);
        Ok(response)
    }

    /// Creates the resource of a graph. Returns its line.
    async fn create_graph(&self, container: &Resource, model: Option<Model>, resource: quads::Resource) -> String {
        let quads::Resource { name, graph } = resource;
        let graph = map(graph, |iri| self.site.kept(iri));
        let made = self.create_named(container, model, name.as_str(), future::ready(Ok(graph))).await;
        self.outcome(Some(name.as_str()), made)
    }

    /// Creates the resource of a line of JSON-LD. Returns its line. The base of relative IRIs is
    /// the container, or, without an `@id`, the new resource.
    async fn create_line(&self, container: &Resource, model: Option<Model>, sent: &Bytes, share: Share) -> String {
        let Line { id, json_ld } = match Line::parse(sent) {
            Ok(line) => line,
            Err(error) => return line(None, &error),
        };
        let body = GraphBody::json_ld(json_ld, share);
        let Some(id) = id else {
            let made = self.create_in(container.path(), None, &Incoming::Graph(body, model)).await;
            return self.outcome(None, made.map(|written| self.site.iri(&written.path)));
        };
        // With or without a slash at the end of a container's address, its children follow a slash.
        let base = Iri::parse(format!("{}/", self.site.iri(container.path()).trim_end_matches('/')));
        let named = base.and_then(|base| Ok((base.resolve(&id)?, base)));
        match named.map_err(|error| LdpError::Line(format!("@id: {error}"))) {
            Ok((named, base)) => {
                let graph = body.graph_from(&base, self);
                self.outcome(Some(&named), self.create_named(container, model, &named, graph).await)
            }
            Err(error) => line(Some(&id), &error),
        }
    }

    /// Creates a resource under its stated name, in the container or deeper. Its graph is awaited
    /// only if the name is possible.
    async fn create_named(
        &self,
        container: &Resource,
        model: Option<Model>,
        name: &str,
        graph: impl Future<Output = Result<rdf::Graph, LdpError>>,
    ) -> Result<String, LdpError> {
        let outside = || LdpError::Outside(name.to_owned());
        let path = self.site.kept(name).and_then(|iri| path_of_kept(&iri)).ok_or_else(outside)?;
        if !is_below(&path, container.path()) {
            return Err(outside());
        }
        refuse_volumes(&path)?;
        self.may_touch_above(&path).await?;
        let above = (path.parent().as_ref() == Some(container.path())).then_some(container);
        let new = self.new_graph(graph.await?, model, &path, above)?;
        self.library().repository.create(&path, &new).await?;
        Ok(name.to_owned())
    }

    /// The line of a resource with this requested name.
    fn outcome(&self, name: Option<&str>, made: Result<String, LdpError>) -> String {
        match made {
            Ok(iri) => format!("{}\n", serde_json::json!({"resource": iri, "status": StatusCode::CREATED.as_u16()})),
            Err(error) => line(name, &self.site.shown_error(error)),
        }
    }
}

/// The resources in a body, as they arrive, and what is refused among them. They end at a malformed
/// line, or if the memory budget does not allow more.
fn resources(
    body: Body,
    limits: Limits,
    share: Share,
) -> impl Stream<Item = Result<quads::Resource, Unmade>> + Send + 'static {
    let state = Some((body.into_data_stream(), quads::Resources::new(limits), share));
    stream::unfold(state, |state| async move {
        let (mut body, mut read, mut share) = state?;
        match next(&mut body, &mut read, &mut share).await {
            Ok(Some(Ok(resource))) => Some((Ok(resource), Some((body, read, share)))),
            Ok(Some(Err(refused))) => {
                let name = refused.name.as_ref().map(|name| name.as_str().to_owned());
                Some((Err(Unmade(name, refused.into())), Some((body, read, share))))
            }
            Ok(None) => None,
            Err(error) => {
                let name = read.unfinished().map(|name| name.as_str().to_owned());
                Some((Err(Unmade(name, error)), None))
            }
        }
    })
}

async fn next(
    body: &mut BodyDataStream,
    read: &mut quads::Resources,
    share: &mut Share,
) -> Result<Option<Result<quads::Resource, quads::Refused>>, LdpError> {
    let (mut ended, mut fed_bytes) = (false, 0);
    share.resize(HELD_BYTES + read.remembered_bytes())?;
    loop {
        if let Some(resource) = read.next_resource() {
            return Ok(Some(resource));
        }
        if read.has_failed() {
            return Ok(None);
        }
        match body.next().await {
            Some(Ok(piece)) => {
                fed_bytes += piece.len() as u64;
                let needed = fed_bytes * QUADS_TIMES + read.remembered_bytes();
                if needed > share.bytes() {
                    share.resize(needed.max(2 * share.bytes()))?;
                }
                read.feed(&piece);
            }
            Some(Err(error)) => return Err(LdpError::BodyBroken(error.to_string())),
            None if ended => return Ok(None),
            None => {
                read.end();
                ended = true;
            }
        }
    }
}

/// Whether a resource is in a container, however deep.
fn is_below(path: &ResourcePath, container: &ResourcePath) -> bool {
    let mut names = path.names();
    container.names().all(|name| names.next() == Some(name)) && names.next().is_some()
}

/// The line of a resource that was not created.
fn line(name: Option<&str>, error: &LdpError) -> String {
    let (status, detail) = error.status_and_detail();
    format!("{}\n", serde_json::json!({"resource": name, "status": status.as_u16(), "detail": detail}))
}
