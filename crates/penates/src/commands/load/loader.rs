//! Creates resources as they were exported. What is there already stays: it is compared, so an
//! interrupted load is continued by the same command.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::request::Builder;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use preservation::about::About;
use rdf::{Graph, Iri, Limits, NamedNode, NamedOrBlankNode, Syntax, Term};
use tokio::fs::File;
use tokio::sync::mpsc;
use tokio_util::io::ReaderStream;

use crate::client::{self, Body, Client, ClientError};
use crate::exit::told;
use crate::resources::{BaseArgs, OWN_STATEMENTS};

/// The most bytes of the statements about one resource.
pub const DESCRIPTION_BYTES_MAX: u64 = 64 << 20;

/// Resources of one container that are loaded at the same time.
const LOADED_AT_ONCE: usize = 4;

/// The namespace of interaction models.
const LDP: &str = "http://www.w3.org/ns/ldp#";
/// The relation to content that is stored elsewhere (Fedora API, section 3.9).
const EXTERNAL_CONTENT: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Loads resources into a repository.
pub struct Loader {
    /// The way to it.
    pub client: Client,
    /// Where it is.
    pub base: BaseArgs,
    /// The address that its statements have for its root.
    pub root: String,
}

/// A state of a resource.
pub struct State {
    /// What is said about it.
    pub about: About,
    /// The statements of clients, as N-Triples with the addresses of the exported repository.
    pub statements: Vec<u8>,
    /// The file of its bytes, with their SHA-256.
    pub bytes: Option<(PathBuf, [u8; 32])>,
}

/// What came of the resources.
#[derive(Debug, Default)]
pub struct Counts {
    /// Created, or completed.
    pub new: u64,
    /// There already, the same.
    pub unchanged: u64,
    /// Not loaded. The reasons were printed.
    pub failed: u64,
    /// Bytes of binaries that were sent.
    pub bytes: u64,
}

impl Loader {
    /// Loads resources that come in this order: a container before the resources in it, and the
    /// resources of a container one after the other.
    pub async fn load_all(&self, states: &mut mpsc::Receiver<State>) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        let mut container = None;
        let mut running = FuturesUnordered::new();
        while let Some(state) = states.recv().await {
            let above = state.about.path.rsplit_once('/').map(|(above, _)| above.to_owned());
            // The container must be there first, or the server would make another one.
            let running_max = if container == Some(above.clone()) { LOADED_AT_ONCE - 1 } else { 0 };
            while running.len() > running_max {
                if let Some(done) = running.next().await {
                    counts.add(done)?;
                }
            }
            container = Some(above);
            running.push(async move {
                let loaded = self.load(&state).await;
                (state.about.path, loaded)
            });
        }
        while let Some(done) = running.next().await {
            counts.add(done)?;
        }
        Ok(counts)
    }

    /// Loads a resource. Returns whether anything changed, and how many bytes were sent.
    async fn load(&self, state: &State) -> anyhow::Result<(bool, u64)> {
        let about = &state.about;
        let statements = rdf::to_stored(&self.moved(about, &state.statements)?);
        let address = self.base.address(&about.path);
        if !about.is_binary() {
            let request = put(about)?.header(header::IF_NONE_MATCH, "*");
            return match self.send(&address, request, client::full(statements.clone())).await? {
                Sent::Made => Ok((true, 0)),
                Sent::IsThere => Ok((self.compare_graph(about, &address, &address, statements).await?, 0)),
            };
        }
        let request = put(about)?.header(header::IF_NONE_MATCH, "*");
        let (request, body, len_bytes) = match &state.bytes {
            None => (request, client::empty(), 0),
            Some((place, sha256)) => {
                let digest = format!("sha-256=:{}:", BASE64.encode(sha256));
                let (body, len_bytes) = read(place).await?;
                (request.header(REPR_DIGEST, digest), body, len_bytes)
            }
        };
        let is_new = match self.send(&address, request, body).await? {
            Sent::Made => true,
            Sent::IsThere => {
                self.compare_bytes(state, &address).await?;
                false
            }
        };
        let description = format!("{}/fcr:metadata", address.trim_end_matches('/'));
        if !is_new {
            return Ok((self.compare_graph(about, &address, &description, statements).await?, 0));
        }
        if !statements.is_empty() {
            let request = Request::builder().method(Method::PUT).header(header::CONTENT_TYPE, "application/n-triples");
            self.client.ask(&description, request, client::full(statements)).await?;
        }
        Ok((true, len_bytes))
    }

    async fn send(&self, address: &str, request: Builder, body: Body) -> anyhow::Result<Sent> {
        let response = self.client.send(address, request, body).await?;
        match response.status() {
            StatusCode::PRECONDITION_FAILED => Ok(Sent::IsThere),
            status if status.is_success() => Ok(Sent::Made),
            _ => Err(with_way_out(ClientError::of_response(response).await)),
        }
    }

    /// Compares a stored graph, and stores `statements` where it is empty. Returns whether it did.
    async fn compare_graph(
        &self,
        about: &About,
        address: &str,
        graph: &str,
        statements: Vec<u8>,
    ) -> anyhow::Result<bool> {
        ensure!(self.has_model(about, address).await?, "there is a resource of another kind");
        let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples");
        let response = self.client.ask(graph, request.header("prefer", OWN_STATEMENTS), client::empty()).await?;
        let tag = text(response.headers(), header::ETAG).unwrap_or_default().to_owned();
        let stored = client::whole(response).await?;
        let stored = rdf::to_stored(&rdf::from_stored(&stored).context("the statements that are there")?);
        if stored == statements {
            return Ok(false);
        }
        // A load that was interrupted leaves a description empty; and every repository has a root.
        ensure!(stored.is_empty(), "there is a resource with other statements");
        let request = Request::builder().method(Method::PUT).header(header::CONTENT_TYPE, "application/n-triples");
        let request = request.header(header::IF_MATCH, tag);
        self.client.ask(graph, request, client::full(statements)).await?;
        Ok(true)
    }

    /// Refuses to go on if the bytes that are stored are others.
    async fn compare_bytes(&self, state: &State, address: &str) -> anyhow::Result<()> {
        let request = Request::builder().method(Method::HEAD).header("want-repr-digest", "sha-256=10");
        let response = self.client.send(address, request, client::empty()).await?;
        let headers = response.headers();
        let is_same = match &state.bytes {
            Some((_, sha256)) => {
                let digest = format!("sha-256=:{}:", BASE64.encode(sha256));
                text(headers, REPR_DIGEST) == Some(&digest)
            }
            None => text(headers, header::LOCATION) == state.about.stored_at.as_deref(),
        };
        ensure!(is_same, "there is a resource with other bytes");
        let about = &state.about;
        let is_same = text(headers, header::CONTENT_TYPE) == about.content_type.as_deref()
            && text(headers, header::CONTENT_DISPOSITION) == about.content_disposition.as_deref();
        ensure!(is_same, "there is a resource with the same bytes and another type or name of its file");
        Ok(())
    }

    async fn has_model(&self, about: &About, address: &str) -> anyhow::Result<bool> {
        let request = Request::builder().method(Method::OPTIONS);
        let response = self.client.ask(address, request, client::empty()).await?;
        let model = format!("<{}>", model(about)?);
        let links = response.headers().get_all(header::LINK).iter().filter_map(|link| link.to_str().ok());
        Ok(links.into_iter().any(|link| link.starts_with(&model)))
    }

    /// The statements, with the addresses of this repository in the place of those of the exported
    /// one.
    fn moved(&self, about: &About, statements: &[u8]) -> anyhow::Result<Graph> {
        let limits = Limits { body_bytes: DESCRIPTION_BYTES_MAX as usize, triples: usize::MAX, ..Limits::default() };
        let base = Iri::parse(about.repository.clone()).context("the address of the exported repository")?;
        ensure!(about.repository.ends_with('/'), "the address of the exported repository has no slash at its end");
        let graph = rdf::parse(statements, Syntax::NTriples, &base, &limits).context("its statements")?;
        let move_node = |node: &mut NamedNode| {
            let rest = node.as_str().strip_prefix(about.repository.trim_end_matches('/'));
            let is_within = |rest: &&str| rest.is_empty() || rest.starts_with(['/', '#', '?']);
            if let Some(rest) = rest.filter(is_within) {
                *node = NamedNode::new_unchecked(format!("{}{rest}", self.root.trim_end_matches('/')));
            }
        };
        let moved = graph.into_iter().map(|mut triple| {
            if let NamedOrBlankNode::NamedNode(node) = &mut triple.subject {
                move_node(node);
            }
            move_node(&mut triple.predicate);
            if let Term::NamedNode(node) = &mut triple.object {
                move_node(node);
            }
            triple
        });
        Ok(moved.collect())
    }
}

/// What came of a request to create.
enum Sent {
    Made,
    IsThere,
}

impl Counts {
    fn add(&mut self, (path, loaded): (String, anyhow::Result<(bool, u64)>)) -> anyhow::Result<()> {
        match loaded {
            Ok((is_new, bytes)) => {
                *(if is_new { &mut self.new } else { &mut self.unchanged }) += 1;
                self.bytes += bytes;
                Ok(())
            }
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => Err(error),
            Err(error) => {
                eprintln!("/{path}: {}", told(error.as_ref()));
                self.failed += 1;
                Ok(())
            }
        }
    }
}

/// The most specific interaction model of a resource.
fn model(about: &About) -> anyhow::Result<String> {
    let names = ["NonRDFSource", "DirectContainer", "IndirectContainer", "BasicContainer", "RDFSource"];
    let class = names.into_iter().map(|name| format!("{LDP}{name}")).find(|class| about.types.contains(class));
    class.context("its types name no interaction model")
}

/// A request that creates a resource.
fn put(about: &About) -> anyhow::Result<Builder> {
    let request =
        Request::builder().method(Method::PUT).header(header::LINK, format!("<{}>; rel=\"type\"", model(about)?));
    if !about.is_binary() {
        return Ok(request.header(header::CONTENT_TYPE, "application/n-triples"));
    }
    let request = match &about.content_disposition {
        Some(disposition) => request.header(header::CONTENT_DISPOSITION, disposition),
        None => request,
    };
    Ok(match (&about.stored_at, &about.content_type) {
        (Some(url), media_type) => {
            if url.contains(['<', '>']) || media_type.as_ref().is_some_and(|said| said.contains(['"', '\\'])) {
                bail!("the address or the type of its bytes has characters that are not allowed");
            }
            let said = media_type.as_ref().map(|said| format!("; type=\"{said}\"")).unwrap_or_default();
            let link = format!("<{url}>; rel=\"{EXTERNAL_CONTENT}\"; handling=\"redirect\"{said}");
            request.header(header::LINK, link)
        }
        (None, Some(media_type)) => request.header(header::CONTENT_TYPE, media_type),
        (None, None) => request,
    })
}

/// The bytes of a file, and their number.
async fn read(place: &PathBuf) -> anyhow::Result<(Body, u64)> {
    let named = || place.display().to_string();
    let file = File::open(place).await.with_context(named)?;
    let len_bytes = file.metadata().await.with_context(named)?.len();
    Ok((client::stream(ReaderStream::new(file)), len_bytes))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Adds to the error for a deleted resource what to do about it.
fn with_way_out(error: ClientError) -> anyhow::Error {
    match error.status() {
        Some(StatusCode::GONE) => anyhow::anyhow!("{error}; `penates rm --forget` frees its name"),
        _ => error.into(),
    }
}
