//! The door over a fresh store, requests without a socket, and responses as graphs.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use door_ldp::{LdpDoor, LdpSettings, Routes, routes};
use heads::{LibraryOptions, keys};
use http::{HeaderMap, Method, Request, StatusCode};
use library::Library;
use rdf::{ContentType, Graph, Iri, Limits};
use repository::BytesPlace;
use store::faults::Faults;
use store::{
    Call, Class, ContentId, ContentState, Deadline, ManualClock, Outcome, Removal, Step, Store, Table, UnixMillis,
};
pub use store_cassandra::testing::on_cassandra;
use store_cassandra::testing::{damage, shared_options};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;
use tower::ServiceExt;

pub const TURTLE: &str = "text/turtle";
pub const LDP: &str = "http://www.w3.org/ns/ldp#";
/// The IRI of `/rest/` for clients here.
pub const ROOT: &str = "http://test/rest/";

pub struct Fixture {
    pub router: Router,
    pub library: Library,
    pub clock: Arc<ManualClock>,
    pub folder: TempDir,
}

pub async fn fixture() -> Fixture {
    fixture_with(LdpSettings::default()).await
}

pub async fn fixture_with(settings: LdpSettings) -> Fixture {
    fixture_of(settings, LibraryOptions::default()).await
}

/// The door over a library with other options.
pub async fn fixture_keeping(options: LibraryOptions) -> Fixture {
    fixture_of(LdpSettings::default(), options).await
}

/// The door with other settings, over a library with other options.
pub async fn fixture_of(settings: LdpSettings, options: LibraryOptions) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let store = engine(&folder, clock.clone()).await;
    served(store, folder, clock, settings, options).await
}

/// A server of the same store, which can meet faults. It has the default settings.
pub async fn faulty(fixture: Fixture) -> (Fixture, Arc<Faults>) {
    let Fixture { library, clock, folder, .. } = fixture;
    let faults = Arc::new(Faults::new(library.store().clone()));
    (served(faults.clone(), folder, clock, LdpSettings::default(), LibraryOptions::default()).await, faults)
}

/// A server of a store.
async fn served(
    store: Arc<dyn Store>,
    folder: TempDir,
    clock: Arc<ManualClock>,
    settings: LdpSettings,
    options: LibraryOptions,
) -> Fixture {
    let library = Library::open(store, clock.clone(), options).await.unwrap();
    let Routes { read, write } = routes(Arc::new(LdpDoor::new(library.clone(), settings)));
    Fixture { router: read.merge(write), library, clock, folder }
}

/// The engine under the door. If that is Cassandra, and no node can be started, that
/// is reported, and the tests use the embedded engine.
async fn engine(folder: &TempDir, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    if on_cassandra()
        && let Some(store) = store_cassandra::testing::shared_store(clock.clone()).await
    {
        return store;
    }
    let options = EmbeddedOptions { headroom_bytes: 0, ..EmbeddedOptions::default() };
    EmbeddedStore::open(folder.path(), options, clock).unwrap()
}

/// A response, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn etag(&self) -> String {
        self.header("etag").unwrap().to_owned()
    }

    pub fn detail(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["status"], self.status.as_u16());
        problem["detail"].as_str().unwrap().to_owned()
    }

    /// The targets of links of a relation type.
    pub fn links(&self, rel: &str) -> Vec<String> {
        let links = self.headers.get_all("link").iter().map(|link| link.to_str().unwrap());
        let of_rel = links.filter(|link| link.contains(&format!("rel=\"{rel}\"")));
        of_rel.map(|link| link[1..link.find('>').unwrap()].to_owned()).collect()
    }

    /// Whether it states that it is of a class of LDP.
    pub fn is(&self, class: &str) -> bool {
        self.links("type").contains(&format!("{LDP}{class}"))
    }

    pub fn graph(&self) -> Graph {
        let content_type = ContentType::parse(self.header("content-type").unwrap()).unwrap();
        let base = Iri::parse("http://nowhere/".to_owned()).unwrap();
        rdf::parse(&self.body, content_type.syntax, &base, &Limits::default()).unwrap()
    }

    /// Whether it contains these statements, in Turtle with absolute IRIs and the prefixes `ldp`
    /// and `dc`.
    pub fn says(&self, turtle: &str) -> bool {
        let graph = self.graph();
        parsed(turtle).iter().all(|triple| graph.contains(triple))
    }

    /// The objects of a relation of LDP, sorted.
    pub fn objects(&self, subject: &str, relation: &str) -> Vec<String> {
        let graph = self.graph();
        let subject = rdf::NamedNode::new_unchecked(subject);
        let relation = rdf::NamedNode::new_unchecked(format!("{LDP}{relation}"));
        let objects = graph.objects(subject.as_ref().into(), relation.as_ref());
        let mut objects: Vec<_> = objects.map(|object| object.to_string().replace(['<', '>'], "")).collect();
        objects.sort();
        objects
    }
}

pub fn parsed(turtle: &str) -> Graph {
    let prefixes = format!("@prefix ldp: <{LDP}> . @prefix dc: <http://purl.org/dc/terms/> . ");
    let base = Iri::parse(ROOT.to_owned()).unwrap();
    rdf::parse((prefixes + turtle).as_bytes(), rdf::Syntax::Turtle, &base, &Limits::default()).unwrap()
}

pub struct Ask<'a> {
    fixture: &'a Fixture,
    request: http::request::Builder,
    body: Body,
}

impl Fixture {
    /// Another server of the same store, with the default settings.
    pub async fn beside(&self) -> Self {
        let (store, folder) = (self.library.store().clone(), tempfile::tempdir().unwrap());
        served(store, folder, self.clock.clone(), LdpSettings::default(), LibraryOptions::default()).await
    }

    pub fn ask(&self, method: Method, path: &str) -> Ask<'_> {
        let request = Request::builder().method(method).uri(path).header("host", "test");
        Ask { fixture: self, request, body: Body::empty() }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path).answer().await
    }

    /// A PUT of Turtle.
    pub fn put(&self, path: &str, turtle: &str) -> Ask<'_> {
        self.ask(Method::PUT, path).header("content-type", TURTLE).body(turtle.to_owned())
    }

    /// A POST of Turtle.
    pub fn post(&self, path: &str, turtle: &str) -> Ask<'_> {
        self.ask(Method::POST, path).header("content-type", TURTLE).body(turtle.to_owned())
    }

    /// Makes a container, or a resource of type `class`.
    pub async fn make(&self, path: &str, class: &str, turtle: &str) {
        let answer = self.put(path, turtle).of_class(class).answer().await;
        assert_eq!(answer.status, StatusCode::CREATED, "{path}: {}", answer.text());
    }

    /// The contents in the store, or their files if those are more: on the embedded engine an
    /// interrupted upload would be a file only.
    pub async fn contents(&self) -> usize {
        let call = || Call::new(Class::Content, Deadline::within(Duration::from_secs(60)));
        let store = self.library.store();
        let mut sealed = 0;
        for id in store.walk(call(), Table::Contents, None, 100).await.unwrap().partitions {
            let id = ContentId(id[..].try_into().unwrap());
            let header = store.content_header(call(), id).await.unwrap();
            sealed += usize::from(header.is_some_and(|header| header.state == ContentState::Sealed));
        }
        sealed.max(self.content_files())
    }

    /// Deletes the stored description of the resource at a path, as damage does.
    pub async fn lose_description(&self, path: &str) {
        let path = path.parse().unwrap();
        let revision = self.library.repository.resource(&path).await.unwrap().body().description.revision;
        let partition = keys::version(&keys::resource_partition(&path), revision);
        let rows = Removal::Rows(vec![keys::description(revision, 0)]);
        let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
        let lost = Step::Remove { table: Table::Objects, partition, rows };
        assert!(matches!(self.library.store().run(call, vec![lost]).await.unwrap(), Outcome::Applied));
    }

    /// Flips a bit of the byte near `at` in the bytes of the binary at a path, which are large.
    pub async fn flip_bit(&self, path: &str, at: usize) {
        let resource = self.library.repository.resource(&path.parse().unwrap()).await.unwrap();
        let place = resource.body().binary().unwrap().place.clone();
        let BytesPlace::Content(id) = place else { panic!("{path} is small") };
        let (name, contents) = (id.to_string(), self.folder.path().join("contents"));
        if contents.exists() {
            let file = contents.join(&name[..2]).join(name);
            let mut content = std::fs::read(&file).unwrap();
            content[at] ^= 1;
            std::fs::write(&file, content).unwrap();
        } else {
            damage::flip_bit(&shared_options().await.unwrap(), id, at as u64).await;
        }
    }

    /// Files of contents in the store.
    fn content_files(&self) -> usize {
        fn count(folder: &std::path::Path) -> usize {
            let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
            entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
        }
        count(&self.folder.path().join("contents"))
    }
}

impl Ask<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Requests an interaction model.
    pub fn of_class(self, class: &str) -> Self {
        self.header("link", &format!("<{LDP}{class}>; rel=\"type\""))
    }

    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// The response, whose body is not read yet.
    pub async fn response(self) -> Response {
        self.fixture.router.clone().oneshot(self.request.body(self.body).unwrap()).await.unwrap()
    }

    pub async fn answer(self) -> Reply {
        let (head, body) = self.response().await.into_parts();
        Reply { status: head.status, headers: head.headers, body: to_bytes(body, usize::MAX).await.unwrap() }
    }
}
