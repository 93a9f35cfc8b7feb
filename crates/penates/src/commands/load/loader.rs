//! Creates resources as they were exported. What is there already stays: it is compared, so an
//! interrupted load is continued by the same command.

use std::pin::pin;

use anyhow::{Context, anyhow, bail, ensure};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::request::Builder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use preservation::about::{ARCHIVAL_GROUP, About};
use rdf::{Graph, Iri, Limits, NamedNode, NamedOrBlankNode, Syntax, Term};
use tokio::sync::mpsc;

use super::checked_path;
use super::source::Bytes;
use crate::client::{self, Body, Client, ClientError};
use crate::commands::history::versions;
use crate::commands::tree::{children, is_away, is_container};
use crate::exit::full_message;
use crate::ingest::Summary;
use crate::resources::{BaseArgs, OWN_STATEMENTS};

/// The most bytes of the statements about one resource.
pub const DESCRIPTION_BYTES_MAX: u64 = 64 << 20;

/// Resources of one container that are loaded at the same time.
const LOADED_AT_ONCE: usize = 4;

/// Most characters of a value that a message shows.
const SHOWN_CHARS_MAX: usize = 100;

/// The namespace of interaction models.
const LDP: &str = "http://www.w3.org/ns/ldp#";
/// Their names in it, the most specific one first.
const MODELS: [&str; 5] = ["NonRDFSource", "DirectContainer", "IndirectContainer", "BasicContainer", "RDFSource"];
/// The relation to content that is stored elsewhere (Fedora API, section 3.9).
const EXTERNAL_CONTENT: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Why a resource is left as it is.
const OTHER_KIND: &str = "there is a resource of another kind";
const OTHER_STATEMENTS: &str = "there is a resource with other statements";

/// Why a resource with a tombstone is not created.
pub const IS_DELETED: &str = "it is deleted here; `penates rm --forget` frees its name";

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
    /// The statements of clients.
    pub statements: Statements,
    /// Its bytes.
    pub bytes: Option<Bytes>,
}

/// Statements about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statements {
    /// N-Triples with the addresses of the exported repository.
    Exported(Vec<u8>),
    /// The same as they are stored here, with the addresses of this repository.
    Moved(bytes::Bytes),
}

impl Statements {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Exported(text) => text.is_empty(),
            Self::Moved(text) => text.is_empty(),
        }
    }
}

impl From<Vec<u8>> for Statements {
    fn from(exported: Vec<u8>) -> Self {
        Self::Exported(exported)
    }
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
    /// resources of a container one after the other. `failed` learns of each that is not loaded,
    /// and why.
    pub async fn load_all(
        &self,
        states: &mut mpsc::Receiver<State>,
        failed: &mut (dyn FnMut(&str, &str) + Send),
    ) -> anyhow::Result<Counts> {
        let mut counts = Counts::default();
        let mut container = None;
        let mut running = FuturesUnordered::new();
        while let Some(state) = states.recv().await {
            let above = state.about.path.rsplit_once('/').map(|(above, _)| above.to_owned());
            // The container must be there first, or the server would make another one.
            let running_max = if container == Some(above.clone()) { LOADED_AT_ONCE - 1 } else { 0 };
            while running.len() > running_max {
                if let Some(done) = running.next().await {
                    counts.add(done, failed)?;
                }
            }
            container = Some(above);
            running.push(async move {
                let loaded = self.load(&state).await;
                (state.about.path, loaded)
            });
        }
        while let Some(done) = running.next().await {
            counts.add(done, failed)?;
        }
        Ok(counts)
    }

    /// Compares resources that are there with what they should be. `differing` learns of each that
    /// is not the same, and why. Returns how many are.
    pub async fn verify_all(
        &self,
        states: &mut mpsc::Receiver<State>,
        differing: &mut (dyn FnMut(&str, &str) + Send),
    ) -> anyhow::Result<u64> {
        let compare = async |state: State| {
            let compared = self.compare(&state, false).await;
            (state.about.path, compared)
        };
        let states = futures::stream::poll_fn(|context| states.poll_recv(context));
        let mut compared = pin!(states.map(compare).buffer_unordered(LOADED_AT_ONCE));
        let mut count = 0;
        while let Some((path, compared)) = compared.next().await {
            match compared {
                Ok(_) => count += 1,
                Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
                Err(error) => {
                    let why = full_message(error.as_ref());
                    note!("/{path}: {why}");
                    differing(&path, &why);
                }
            }
        }
        Ok(count)
    }

    /// Loads a resource. Returns whether anything changed, and how many bytes were sent.
    async fn load(&self, state: &State) -> anyhow::Result<(bool, u64)> {
        let (sent, bytes) = self.create(state).await?;
        match sent {
            // A graph is created with its statements.
            Sent::Made => {
                if state.about.is_binary() && !state.statements.is_empty() {
                    self.replace_statements(state).await?;
                }
                Ok((true, bytes))
            }
            // A load that was interrupted leaves a description empty; and every repository has a root.
            Sent::IsThere => Ok((self.compare(state, true).await?, 0)),
        }
    }

    /// Creates a resource: a graph with its statements, or bytes without. Returns how many bytes
    /// were sent.
    pub async fn create(&self, state: &State) -> anyhow::Result<(Sent, u64)> {
        self.create_unless_deleted(state).await?.context(IS_DELETED)
    }

    /// The same; `None` if the resource, or a container above it, was deleted and has a tombstone.
    pub async fn create_unless_deleted(&self, state: &State) -> anyhow::Result<Option<(Sent, u64)>> {
        let request = put(&state.about)?.header(header::IF_NONE_MATCH, "*");
        let (request, body, len_bytes) = self.body(state, request).await?;
        let response = self.client.send(&self.address(state), request, body).await?;
        match response.status() {
            StatusCode::PRECONDITION_FAILED => Ok(Some((Sent::IsThere, 0))),
            status if status.is_success() => Ok(Some((Sent::Made, len_bytes))),
            StatusCode::GONE => Ok(None),
            _ => Err(ClientError::of_response(response).await.into()),
        }
    }

    /// Replaces bytes. Returns how many were sent.
    pub async fn replace_bytes(&self, state: &State) -> anyhow::Result<u64> {
        let (request, body, len_bytes) = self.body(state, put(&state.about)?).await?;
        self.client.ask(&self.address(state), request, body).await?;
        Ok(len_bytes)
    }

    async fn body(&self, state: &State, request: Builder) -> anyhow::Result<(Builder, Body, u64)> {
        match &state.bytes {
            None if state.about.is_binary() => Ok((request, client::empty(), 0)),
            None => Ok((request, client::full(self.statements(state)?), 0)),
            Some(bytes) => {
                let (body, len_bytes) = bytes.source.read().await?;
                Ok((request.header(REPR_DIGEST, bytes.repr_digest()), body, len_bytes))
            }
        }
    }

    /// Replaces the statements of clients about a resource.
    pub async fn replace_statements(&self, state: &State) -> anyhow::Result<()> {
        let request = Request::builder().method(Method::PUT).header(header::CONTENT_TYPE, "application/n-triples");
        self.client.ask(&self.graph(state), request, client::full(self.statements(state)?)).await?;
        Ok(())
    }

    /// Makes the earlier version with this number, counted from 0, the current state again, if `made`
    /// versions were made so far. Returns how many bytes were sent.
    ///
    /// Where the server keeps some versions only, its list begins with a later one, and the earlier one
    /// may be gone. Then the state is sent again.
    pub async fn restore(&self, state: &State, earlier: usize, made: usize) -> anyhow::Result<u64> {
        let address = self.address(state);
        let kept = versions(&self.client, &address).await?.filter(|list| !list.are_explicit);
        let versions = kept.map(|list| list.versions).filter(|versions| versions.len() == made);
        if let Some((name, _)) = versions.as_deref().and_then(|versions| versions.get(earlier))
            && self.compare_version(state, name).await.is_ok()
        {
            let address = format!("{}?restore={name}", self.base.versions(&state.about.path));
            self.client.ask(&address, Request::builder().method(Method::POST), client::empty()).await?;
            return Ok(0);
        }
        let bytes = self.replace_bytes(state).await?;
        self.replace_statements(state).await?;
        Ok(bytes)
    }

    /// Makes a version of the same state.
    pub async fn snapshot(&self, about: &About) -> anyhow::Result<()> {
        let request = Request::builder().method(Method::POST);
        self.client.ask(&self.base.versions(&about.path), request, client::empty()).await?;
        Ok(())
    }

    /// Deletes a resource, unless it is deleted already.
    pub async fn remove(&self, about: &About) -> anyhow::Result<()> {
        let request = Request::builder().method(Method::DELETE);
        match self.client.ask(&self.base.address(&about.path), request, client::empty()).await {
            Err(error) if !is_away(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Deletes a resource, and frees its name.
    pub async fn delete(&self, about: &About) -> anyhow::Result<()> {
        let address = self.base.address(&about.path);
        for address in [address.clone(), format!("{}/fcr:tombstone", address.trim_end_matches('/'))] {
            self.client.ask(&address, Request::builder().method(Method::DELETE), client::empty()).await?;
        }
        Ok(())
    }

    /// Deletes a resource, and frees its name, also if it is deleted already or was never there.
    pub async fn forget(&self, about: &About) -> anyhow::Result<()> {
        match self.delete(about).await {
            Err(error) if error.downcast_ref().and_then(ClientError::status) == Some(StatusCode::NOT_FOUND) => Ok(()),
            Err(error) if error.downcast_ref().and_then(ClientError::status) == Some(StatusCode::GONE) => {
                let tombstone = format!("{}/fcr:tombstone", self.base.address(&about.path).trim_end_matches('/'));
                let request = Request::builder().method(Method::DELETE);
                match self.client.ask(&tombstone, request, client::empty()).await {
                    Err(error) if !is_away(&error) => Err(error.into()),
                    // It has none, if a container above it is deleted.
                    _ => Ok(()),
                }
            }
            deleted => deleted,
        }
    }

    /// The statements of clients about a resource that is there.
    pub async fn own_statements(&self, state: &State) -> anyhow::Result<Graph> {
        let response = self.client.ask(&self.graph(state), get_statements(), client::empty()).await?;
        rdf::from_stored(&client::whole(response).await?).context("the statements that are there")
    }

    /// The names of the versions of a resource, oldest first; `None` if the server keeps none, or
    /// only those that clients ask for.
    pub async fn version_names(&self, path: &str) -> anyhow::Result<Option<Vec<String>>> {
        let versions = versions(&self.client, &self.base.address(path)).await?;
        Ok(versions
            .filter(|list| !list.are_explicit)
            .map(|list| list.versions.into_iter().map(|(name, _)| name).collect()))
    }

    /// How many versions a resource has; `None` if the server keeps none.
    pub async fn version_count(&self, path: &str) -> anyhow::Result<Option<usize>> {
        Ok(self.version_names(path).await?.map(|names| names.len()))
    }

    /// Whether a resource is there, and not deleted.
    pub async fn is_there(&self, path: &str) -> anyhow::Result<bool> {
        let request = Request::builder().method(Method::OPTIONS);
        match self.client.ask(&self.base.address(path), request, client::empty()).await {
            Err(error) if is_away(&error) => Ok(false),
            there => Ok(there.map(|_| true)?),
        }
    }

    /// Whether a resource was there and is deleted, as far as can be known: it has a tombstone, or the
    /// server keeps no versions of anything. One in a deleted container may never have been there.
    pub async fn is_known_as_deleted(&self, path: &str) -> anyhow::Result<bool> {
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        let request = Request::builder().method(Method::OPTIONS);
        let response = self.client.send(&self.base.address(path), request, client::empty()).await?;
        // Below a live container the tombstone is its own.
        let has_tombstone = response.status() == StatusCode::GONE && self.is_there(above).await?;
        Ok(has_tombstone || self.version_count("").await?.is_none())
    }

    /// The resources below one.
    pub fn within(&self, path: &str) -> Within<'_> {
        let waiting = vec![(self.base.address(path), path.to_owned())];
        Within { loader: self, waiting, above: String::new(), children: Vec::new().into_iter() }
    }

    /// Refuses to go on if a version has other bytes or statements.
    pub async fn compare_version(&self, state: &State, version: &str) -> anyhow::Result<()> {
        let at = |address: String| format!("{}/fcr:versions/{version}", address.trim_end_matches('/'));
        let (_, compared) = self.compare_at(state, &at(self.address(state)), &at(self.graph(state))).await?;
        ensure!(compared == Compared::Same, OTHER_STATEMENTS);
        Ok(())
    }

    /// Refuses to go on if there is a resource of another kind, or with other bytes or statements. If
    /// it has no statements, they are stored if `may_fill`. Returns whether they were.
    pub async fn compare(&self, state: &State, may_fill: bool) -> anyhow::Result<bool> {
        let compared = self.compare_at(state, &self.address(state), &self.graph(state)).await?;
        self.filled(state, compared, may_fill).await
    }

    /// Compares the statements alone. If there are none, they are stored if `may_fill`. Returns
    /// whether they were.
    pub async fn compare_statements(&self, state: &State, may_fill: bool) -> anyhow::Result<bool> {
        let compared = self.compare_statements_at(state, &self.graph(state)).await?;
        self.filled(state, compared, may_fill).await
    }

    /// Stores the statements if there are none, and `may_fill`.
    async fn filled(&self, state: &State, compared: (String, Compared), may_fill: bool) -> anyhow::Result<bool> {
        let (tag, compared) = compared;
        if compared == Compared::Same {
            return Ok(false);
        }
        ensure!(compared == Compared::Empty && may_fill, OTHER_STATEMENTS);
        let request = Request::builder().method(Method::PUT).header(header::CONTENT_TYPE, "application/n-triples");
        let statements = client::full(self.statements(state)?);
        self.client.ask(&self.graph(state), request.header(header::IF_MATCH, tag), statements).await?;
        Ok(true)
    }

    /// Whether a resource is of this kind, and has these bytes and statements.
    pub async fn is_same(&self, state: &State) -> anyhow::Result<bool> {
        match self.compare(state, false).await {
            // A refusal of the server says nothing about it.
            Err(error) if error.is::<ClientError>() => Err(error),
            compared => Ok(compared.is_ok()),
        }
    }

    /// Whether a resource has these statements.
    pub async fn has_statements(&self, state: &State) -> anyhow::Result<bool> {
        Ok(self.compare_statements_at(state, &self.graph(state)).await?.1 == Compared::Same)
    }

    /// The SHA-256 of the bytes of a resource, as in headers; `None` if there is none.
    pub async fn sha256(&self, path: &str) -> anyhow::Result<Option<String>> {
        let request = Request::builder().method(Method::HEAD).header("want-repr-digest", "sha-256=10");
        let response = self.client.send(&self.base.address(path), request, client::empty()).await?;
        let digest = text(response.headers(), REPR_DIGEST).map(str::to_owned);
        Ok(digest.filter(|_| response.status().is_success()))
    }

    /// The bytes of a resource, which are not many.
    pub async fn small_bytes(&self, path: &str) -> anyhow::Result<bytes::Bytes> {
        let request = Request::builder().method(Method::GET);
        let response = self.client.ask(&self.base.address(path), request, client::empty()).await?;
        Ok(client::whole(response).await?)
    }

    /// Refuses to go on if there is a resource of another kind, or with other bytes, at an address.
    /// Compares the statements at the address of these. Returns their entity tag, too.
    async fn compare_at(&self, state: &State, address: &str, graph: &str) -> anyhow::Result<(String, Compared)> {
        if state.about.is_binary() {
            self.compare_bytes_at(state, address).await?;
            return self.compare_statements_at(state, graph).await;
        }
        let response = self.client.send(graph, get_statements(), client::empty()).await?;
        let is_there = response.status().is_success();
        // The answer names the kind already. If it does not, or there is none, OPTIONS says what is
        // wrong.
        if !is_there || !is_like(&state.about, response.headers())? {
            self.check_model(&state.about, address).await?;
        }
        match is_there {
            true => self.compare_stored(state, response).await,
            false => Err(ClientError::of_response(response).await.into()),
        }
    }

    /// Compares the statements at an address. Returns their entity tag, too.
    async fn compare_statements_at(&self, state: &State, address: &str) -> anyhow::Result<(String, Compared)> {
        let response = self.client.ask(address, get_statements(), client::empty()).await?;
        self.compare_stored(state, response).await
    }

    /// Compares the statements in a response. Returns their entity tag, too.
    async fn compare_stored(&self, state: &State, response: Response<Body>) -> anyhow::Result<(String, Compared)> {
        let tag = text(response.headers(), header::ETAG).unwrap_or_default().to_owned();
        let stored = client::whole(response).await?;
        let expected = self.statements(state)?;
        // Nearly all of them are sent as they are stored. Others may be in another order.
        if stored == expected {
            return Ok((tag, Compared::Same));
        }
        let stored = rdf::to_stored(&rdf::from_stored(&stored).context("the statements that are there")?);
        let compared = match () {
            () if stored == expected => Compared::Same,
            () if stored.is_empty() => Compared::Empty,
            () => Compared::Other,
        };
        Ok((tag, compared))
    }

    /// Refuses to go on if there is a resource of another kind, or with other bytes.
    pub async fn compare_bytes(&self, state: &State) -> anyhow::Result<()> {
        self.compare_bytes_at(state, &self.address(state)).await
    }

    async fn compare_bytes_at(&self, state: &State, address: &str) -> anyhow::Result<()> {
        let about = &state.about;
        if !about.is_binary() {
            return self.check_model(about, address).await;
        }
        let algorithm = state.bytes.as_ref().map_or("sha-256", Bytes::algorithm_name);
        let request = Request::builder().method(Method::HEAD);
        // Those of bytes that are elsewhere would be asked for there.
        let request = match about.stored_at {
            Some(_) => request,
            None => request.header("want-repr-digest", format!("{algorithm}=10")),
        };
        let response = self.client.send(address, request, client::empty()).await?;
        if about.handling.is_some() && !response.status().is_success() {
            // The server that stores the bytes does not answer now. Nothing of them is here.
            return self.check_model(about, address).await;
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            return Err(ClientError::of_response(response).await.into());
        }
        let headers = response.headers();
        ensure!(is_like(about, headers)?, OTHER_KIND);
        let is_same = match &state.bytes {
            Some(bytes) => text(headers, REPR_DIGEST) == Some(&bytes.repr_digest()),
            // The address of a file on the server's machine is not sent.
            None if about.handling.is_some() => {
                text(headers, header::CONTENT_LOCATION).is_none_or(|there| Some(there) == about.stored_at.as_deref())
            }
            None => text(headers, header::LOCATION) == about.stored_at.as_deref(),
        };
        ensure!(is_same, "there is a resource with other bytes");
        let is_same = text(headers, header::CONTENT_TYPE) == about.content_type.as_deref()
            && text(headers, header::CONTENT_DISPOSITION) == about.content_disposition.as_deref();
        ensure!(is_same, "there is a resource with the same bytes and another type or name of its file");
        Ok(())
    }

    fn address(&self, state: &State) -> String {
        self.base.address(&state.about.path)
    }

    /// The address of the statements about a resource.
    fn graph(&self, state: &State) -> String {
        let address = self.address(state);
        if state.about.is_binary() { format!("{}/fcr:metadata", address.trim_end_matches('/')) } else { address }
    }

    /// Statements as they are stored here.
    fn statements(&self, state: &State) -> anyhow::Result<bytes::Bytes> {
        match &state.statements {
            Statements::Exported(text) => Ok(self.moved(&state.about, parsed(&state.about, text)?)),
            Statements::Moved(text) => Ok(text.clone()),
        }
    }

    /// Refuses to go on if there is a resource of another kind.
    async fn check_model(&self, about: &About, address: &str) -> anyhow::Result<()> {
        let request = Request::builder().method(Method::OPTIONS);
        let response = self.client.ask(address, request, client::empty()).await?;
        ensure!(is_like(about, response.headers())?, OTHER_KIND);
        Ok(())
    }

    /// Statements as they are stored here, with the addresses of this repository in the place of those
    /// of the exported one.
    pub fn moved(&self, about: &About, statements: Graph) -> bytes::Bytes {
        let move_node = |node: &mut NamedNode| {
            let rest = node.as_str().strip_prefix(about.repository.trim_end_matches('/'));
            let is_within = |rest: &&str| rest.is_empty() || rest.starts_with(['/', '#', '?']);
            if let Some(rest) = rest.filter(is_within) {
                *node = NamedNode::new_unchecked(format!("{}{rest}", self.root.trim_end_matches('/')));
            }
        };
        let moved = statements.into_iter().map(|mut triple| {
            if let NamedOrBlankNode::NamedNode(node) = &mut triple.subject {
                move_node(node);
            }
            move_node(&mut triple.predicate);
            if let Term::NamedNode(node) = &mut triple.object {
                move_node(node);
            }
            triple
        });
        rdf::to_stored(&moved.collect()).into()
    }
}

/// The resources below another one, a container before those in it.
pub struct Within<'a> {
    loader: &'a Loader,
    /// The addresses and paths of those that were not looked into.
    waiting: Vec<(String, String)>,
    /// The path of the one that was looked into last.
    above: String,
    /// The addresses of the rest of those in it.
    children: std::vec::IntoIter<String>,
}

impl Within<'_> {
    /// The path of the next one; `None` if there is no other. What is deleted meanwhile is left out.
    ///
    /// # Errors
    /// A [`ClientError`], or a name that is not UTF-8.
    pub async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(child) = self.children.next() {
                let name = child.rsplit('/').next().unwrap_or_default();
                let name = percent_decode_str(name).decode_utf8().context("a name of a resource")?;
                let path = format!("{}/{name}", self.above);
                self.waiting.push((child, path.clone()));
                return Ok(Some(path));
            }
            let Some((address, path)) = self.waiting.pop() else { return Ok(None) };
            let client = &self.loader.client;
            let listed = async {
                match is_container(client, &address).await? {
                    true => children(client, &address).await,
                    false => Ok(Vec::new()),
                }
            };
            match listed.await {
                Err(error) if is_away(&error) => {}
                listed => {
                    self.children = listed?.into_iter();
                    self.above = path;
                }
            }
        }
    }
}

/// The graph of exported statements.
pub fn parsed(about: &About, statements: &[u8]) -> anyhow::Result<Graph> {
    let limits = Limits { body_bytes: DESCRIPTION_BYTES_MAX as usize, triples: usize::MAX, ..Limits::default() };
    let base = Iri::parse(about.repository.clone()).context("the address of the exported repository")?;
    ensure!(about.repository.ends_with('/'), "the address of the exported repository has no slash at its end");
    rdf::parse(statements, Syntax::NTriples, &base, &limits).context("its statements")
}

/// A request for the statements of clients.
fn get_statements() -> Builder {
    let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples");
    request.header("prefer", OWN_STATEMENTS)
}

/// What came of a request to create.
pub enum Sent {
    /// The resource is created.
    Made,
    /// There is one already.
    IsThere,
}

/// What came of comparing statements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    Same,
    /// There are none, and there should be.
    Empty,
    Other,
}

impl Counts {
    /// With volumes that were imported.
    pub fn with(self, volumes: &Summary) -> Self {
        Self {
            new: self.new + volumes.new + volumes.replaced,
            unchanged: self.unchanged + volumes.unchanged,
            failed: self.failed + volumes.failed + u64::from(volumes.interrupted),
            bytes: self.bytes + volumes.zip_bytes,
        }
    }

    fn add(
        &mut self,
        (path, loaded): (String, anyhow::Result<(bool, u64)>),
        failed: &mut (dyn FnMut(&str, &str) + Send),
    ) -> anyhow::Result<()> {
        match loaded {
            Ok((is_new, bytes)) => {
                *(if is_new { &mut self.new } else { &mut self.unchanged }) += 1;
                self.bytes += bytes;
                Ok(())
            }
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => Err(error),
            Err(error) => {
                let why = full_message(error.as_ref());
                note!("/{path}: {why}");
                failed(&path, &why);
                self.failed += 1;
                Ok(())
            }
        }
    }
}

/// The most specific interaction model of a resource.
fn model(about: &About) -> anyhow::Result<String> {
    let name = model_name(about).context("its types name no interaction model")?;
    Ok(format!("{LDP}{name}"))
}

/// The name of the most specific interaction model of a resource, if its types name any.
pub fn model_name(about: &About) -> Option<&'static str> {
    let is_named = |name: &&str| about.types.iter().any(|class| class.strip_prefix(LDP) == Some(*name));
    MODELS.into_iter().find(is_named)
}

/// A request that creates a resource.
fn put(about: &About) -> anyhow::Result<Builder> {
    checked_path(&about.path).map_err(|why| anyhow!(why))?;
    let types = [model(about)?].into_iter().chain(about.is_group().then(|| ARCHIVAL_GROUP.to_owned()));
    let request = types.fold(Request::builder().method(Method::PUT), |request, class| {
        request.header(header::LINK, format!("<{class}>; rel=\"type\""))
    });
    if !about.is_binary() {
        return Ok(request.header(header::CONTENT_TYPE, "application/n-triples"));
    }
    check_headers(about)?;
    let request = match &about.content_disposition {
        Some(disposition) => request.header(header::CONTENT_DISPOSITION, disposition),
        None => request,
    };
    Ok(match (&about.stored_at, &about.content_type) {
        (Some(url), media_type) => {
            let said = media_type.as_ref().map(|said| format!("; type=\"{said}\"")).unwrap_or_default();
            let handling = about.handling.as_deref().filter(|handling| *handling == "proxy").unwrap_or("redirect");
            let link = format!("<{url}>; rel=\"{EXTERNAL_CONTENT}\"; handling=\"{handling}\"{said}");
            request.header(header::LINK, link)
        }
        (None, Some(media_type)) => request.header(header::CONTENT_TYPE, media_type),
        (None, None) => request,
    })
}

/// Checks that what is said of bytes can be sent in headers.
pub fn check_headers(about: &About) -> anyhow::Result<()> {
    let is_elsewhere = about.stored_at.is_some();
    for (what, value, refused) in [
        ("media type", &about.content_type, if is_elsewhere { &['"', '\\'][..] } else { &[] }),
        ("`Content-Disposition`", &about.content_disposition, &[]),
        ("address of its bytes", &about.stored_at, &['<', '>']),
    ] {
        let Some(value) = value else { continue };
        if HeaderValue::try_from(value).is_err() || value.contains(refused) {
            let shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
            bail!("its {what} has characters that are not allowed: {shown:?}");
        }
    }
    Ok(())
}

/// Whether the headers of a response name the interaction model of a resource.
fn is_like(about: &About, headers: &HeaderMap) -> anyhow::Result<bool> {
    let model = format!("<{}>", model(about)?);
    let group = format!("<{ARCHIVAL_GROUP}>");
    let links = || headers.get_all(header::LINK).iter().filter_map(|link| link.to_str().ok());
    let is_group = links().any(|link| link.starts_with(&group));
    Ok(links().any(|link| link.starts_with(&model)) && is_group == about.is_group())
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
impl Loader {
    /// A loader that sends to a router.
    pub fn of(router: axum::Router) -> Self {
        use clap::Parser as _;
        /// Arguments without a command.
        #[derive(clap::Parser)]
        struct Args {
            #[command(flatten)]
            base: BaseArgs,
        }
        let root = "http://localhost/rest/".to_owned();
        Self { client: Client::in_process(router), base: Args::parse_from(["load"]).base, root }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use axum::Router;
    use parking_lot::Mutex;

    use super::super::foreign::container;
    use super::*;

    /// Compares an empty container with one that a server has. In answers to some methods it names the
    /// model. Returns what came of it, and the methods that were asked for.
    async fn compared(model: &'static str, naming: Vec<Method>) -> (Result<bool, String>, Vec<Method>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let answer = move |request: axum::extract::Request| {
            let method = request.method().clone();
            let named = naming.contains(&method).then(|| format!("<{LDP}{model}>; rel=\"type\""));
            noted.lock().push(method);
            async move {
                let answer = Response::builder().header(header::ETAG, "\"1\"");
                let answer = named.into_iter().fold(answer, |answer, link| answer.header(header::LINK, link));
                answer.body(axum::body::Body::empty()).unwrap()
            }
        };
        let loader = Loader::of(Router::new().fallback(answer));
        let compared = loader.compare(&container("a", Vec::new()), false).await;
        let asked = asked.lock().clone();
        (compared.map_err(|error| error.to_string()), asked)
    }

    #[tokio::test]
    async fn a_graph_is_compared_by_one_request_that_also_says_its_kind() {
        let (compared, asked) = compared("BasicContainer", vec![Method::GET, Method::OPTIONS]).await;
        assert_eq!((compared, asked), (Ok(false), vec![Method::GET]));
    }

    #[tokio::test]
    async fn a_server_that_names_no_kind_with_statements_is_asked_for_it() {
        let (compared, asked) = compared("BasicContainer", vec![Method::OPTIONS]).await;
        assert_eq!((compared, asked), (Ok(false), vec![Method::GET, Method::OPTIONS]));
    }

    #[tokio::test]
    async fn a_resource_of_another_kind_is_not_the_same_whatever_its_statements_are() {
        let (compared, asked) = compared("NonRDFSource", vec![Method::GET, Method::OPTIONS]).await;
        assert_eq!((compared, asked), (Err(OTHER_KIND.to_owned()), vec![Method::GET, Method::OPTIONS]));
    }
}
