//! A request: which resource it names, and what each response about that says.

use std::convert::Infallible;
use std::sync::Arc;

use area::Area;
use audit::Requester;
use axum::body::Body;
use axum::response::Response;
use budget::{Party, Share, Turn, Turns};
use bytes::Bytes;
use door_http::ReadsOnly;
use futures::stream;
use heads::{ObjectsError, ResourcePath};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use library::Library;
use rdf::Syntax;
use repository::ResourceError;
use repository::{Kind, Resource};

use crate::address::{At, Facet, Site, Target};
use crate::conditions::{self, Validators};
use crate::errors::{ACCEPT_PATCH, ACCEPT_POST, LdpError};
use crate::external::{ACCEPT_EXTERNAL_CONTENT_HANDLING, External, HANDLINGS};
use crate::given_up::Stop;
use crate::held::share_max;
use crate::joined::Joined;
use crate::model::Model;
use crate::settings::LdpSettings;
use crate::{LdpDoor, links};

/// Name of the container of volumes in the root.
const VOLUMES: &str = heads::VOLUMES;

/// The methods of a memento (Fedora API, section 4.2.2).
const MEMENTO_METHODS: &str = "GET, HEAD, OPTIONS";

/// Memory that a reading takes: a few pieces of bytes, or some small descriptions.
const READING_BYTES: u64 = 1 << 20;

/// SPARQL 1.1 Update, section 1 (the media type is registered by SPARQL 1.1 Protocol).
pub const SPARQL_UPDATE: &str = "application/sparql-update";

/// Number of tries of a change while others change the same resource. A try fails only if another
/// change succeeded, so this many changes at once all succeed.
pub const TRIES_MAX: u32 = 64;

/// A resource was changed by others in each try.
pub fn changes_all_the_time(path: &ResourcePath) -> LdpError {
    ObjectsError::Overloaded(format!("/{path} is being changed by many others; try again")).into()
}

/// A request, without its body.
pub struct LdpRequest {
    pub door: Arc<LdpDoor>,
    /// Whose share of the memory it takes.
    pub party: Party,
    /// To which resources the client is limited. The target is within.
    pub area: Area,
    pub method: Method,
    pub site: Site,
    pub target: Target,
    pub headers: HeaderMap,
    pub query: Option<String>,
    /// The name of the client over many requests.
    pub requester: String,
    /// The transaction that it is part of.
    pub joined: Option<Joined>,
    /// Whether the client lacks the right to change anything.
    pub reads_only: bool,
    /// What stops when the client leaves, if it asks for a change.
    pub stop: Stop,
}

impl LdpRequest {
    /// Finds out what a request asks for. It fails if that is not within the client's area. Parts
    /// of a resource, and its states in time, are within if it is.
    pub fn of(door: Arc<LdpDoor>, parts: Parts) -> Result<Self, LdpError> {
        let Parts { method, uri, headers, extensions, .. } = parts;
        let party = extensions.get::<Requester>().map(Requester::party).unwrap_or_default();
        let requester =
            extensions.get::<Requester>().map_or_else(|| Requester::default().identity(), Requester::identity);
        let site = Site::of(&door.settings, &uri, &headers, &extensions)?;
        let target = Target::parse(uri.path().strip_prefix(&door.settings.base).unwrap_or_default())?;
        let area = extensions.get::<Area>().cloned().unwrap_or_default();
        match target.facet {
            // What everybody may see.
            Facet::Constraints | Facet::Style => {}
            // It is asked for each possible result.
            Facet::Search => {}
            // A transaction is about the whole repository.
            Facet::Transactions | Facet::Transaction(_) => area.check_resource(&target.path)?,
            Facet::Itself | Facet::Description | Facet::Fixity | Facet::Tombstone | Facet::Forms => {
                area.check_resource(&target.path)?;
            }
        }
        let reads_only = extensions.get::<ReadsOnly>().is_some();
        let (query, joined, stop) = (uri.query().map(str::to_owned), None, Stop::default());
        Ok(Self { party, area, method, site, target, headers, query, requester, joined, reads_only, stop, door })
    }

    /// A request of the same client for another target.
    pub fn request_like(&self, method: Method, target: Target, headers: HeaderMap) -> Self {
        Self {
            door: self.door.clone(),
            party: self.party.clone(),
            area: self.area.clone(),
            method,
            site: self.site.clone(),
            target,
            headers,
            query: None,
            requester: self.requester.clone(),
            joined: self.joined.clone(),
            reads_only: self.reads_only,
            stop: Stop::default(),
        }
    }

    /// The library, as the transaction of the request sees it.
    pub fn library(&self) -> &Library {
        self.joined.as_ref().map_or(&self.door.library, |joined| &joined.library)
    }

    pub fn settings(&self) -> &LdpSettings {
        &self.door.settings
    }

    /// The client for content stored elsewhere, if that is allowed.
    pub fn external(&self) -> Result<&External, LdpError> {
        let none = || {
            LdpError::External(
                "links to content stored elsewhere are not enabled on this server (ldp.external)".to_owned(),
            )
        };
        self.door.external.as_ref().ok_or_else(none)
    }

    /// The right to read for a page: a share of the memory, then a turn. The client that asks pays
    /// for them, and waits behind its own other readings. `large_bytes` is for what is not small.
    pub async fn turn_to_read(&self, large_bytes: u64) -> Result<(Share, Turn), LdpError> {
        self.turn_of(&self.door.readings, large_bytes.min(share_max(self.library()))).await
    }

    /// The same, to read all bytes of a resource for a small response.
    pub async fn turn_to_read_whole(&self) -> Result<(Share, Turn), LdpError> {
        self.turn_of(&self.door.whole_readings, 0).await
    }

    async fn turn_of(&self, turns: &Turns, large_bytes: u64) -> Result<(Share, Turn), LdpError> {
        let share = self.library().memory.reserve(&self.party, READING_BYTES + large_bytes).await?;
        Ok((share, self.stop.turn(turns, &self.party).await?))
    }

    pub fn path(&self) -> &ResourcePath {
        &self.target.path
    }

    pub fn not_allowed(&self, allow: &str) -> LdpError {
        LdpError::NotAllowed { method: self.method.clone(), allow: allow.to_owned() }
    }

    /// The requested resource; for a description, the resource that has one of its own.
    pub async fn resource(&self) -> Result<Resource, LdpError> {
        let resource = self.library().repository.resource(self.path()).await?;
        match (self.target.facet, resource.kind()) {
            (Facet::Description, Kind::RdfSource | Kind::Container { .. }) => {
                Err(ResourceError::Absent(self.path().clone()).into())
            }
            _ => Ok(resource),
        }
    }

    /// The interaction model of the target: a description is an RDF source, whatever it describes.
    pub fn model_of(&self, resource: &Resource) -> Model {
        match self.target.facet {
            Facet::Description => Model::RdfSource,
            _ => Model::of(resource),
        }
    }

    /// Evaluates the conditions of a change of an existing resource.
    pub fn may_change(&self, resource: &Resource) -> Result<(), LdpError> {
        if self.settings().require_condition && !conditions::is_conditional(&self.headers) {
            return Err(LdpError::PreconditionRequired);
        }
        self.validators(resource).writing(&self.headers)
    }

    /// The validators for a writer's conditions.
    pub fn validators(&self, resource: &Resource) -> Validators {
        match (self.target.facet, resource.kind()) {
            (Facet::Itself, Kind::Binary(binary)) => {
                Validators::of_bytes(binary.revision).with_description(resource.description_revision())
            }
            _ => Validators::of_graph(resource.description_revision(), None, "w"),
        }
    }

    /// The methods of a version.
    pub fn memento_methods(&self) -> &'static str {
        if self.settings().delete_versions { "GET, HEAD, OPTIONS, DELETE" } else { MEMENTO_METHODS }
    }

    /// The headers of every response about a resource: its types and its methods.
    pub fn describe(&self, resource: &Resource, headers: &mut HeaderMap) {
        let model = self.model_of(resource);
        for class in model.types() {
            links::append(headers, class.as_str(), "type");
        }
        let beside = |facet| self.site.iri_of_target(&Target { path: resource.path().clone(), facet, ..self.target });
        match (self.target.facet, model) {
            (Facet::Description, _) => links::append(headers, &beside(Facet::Itself), "describes"),
            (_, Model::Binary) => links::append(headers, &beside(Facet::Description), "describedby"),
            _ => {}
        }
        self.describe_in_time(headers);
        if self.target.at != At::Present {
            headers.insert(header::ALLOW, HeaderValue::from_static(self.memento_methods()));
            return;
        }
        headers.insert(header::ALLOW, HeaderValue::from_static(self.allow(resource)));
        if resource.path().is_root() {
            self.link_transactions(headers);
        }
        if model != Model::Binary {
            headers.insert(ACCEPT_PATCH, HeaderValue::from_static(SPARQL_UPDATE));
        }
        if self.door.external.is_some() && (model.is_container() || model == Model::Binary) {
            headers.insert(ACCEPT_EXTERNAL_CONTENT_HANDLING, HANDLINGS);
        }
        if model.is_container() {
            headers.insert(ACCEPT_POST, HeaderValue::from_static(ACCEPTED));
        }
    }

    /// The methods that the target supports.
    pub fn allow(&self, resource: &Resource) -> &'static str {
        match (self.target.facet, self.model_of(resource)) {
            (Facet::Description, _) => "GET, HEAD, OPTIONS, PUT, PATCH",
            (_, Model::Container(_) | Model::Group(_)) if resource.path().is_root() => {
                "GET, HEAD, OPTIONS, POST, PUT, PATCH"
            }
            (_, Model::Container(_) | Model::Group(_)) => "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE",
            (_, Model::RdfSource) => "GET, HEAD, OPTIONS, PUT, PATCH, DELETE",
            (_, Model::Binary) => "GET, HEAD, OPTIONS, PUT, DELETE",
        }
    }
}

/// Media types for a container: graphs, and anything else as bytes.
const ACCEPTED: &str = "text/turtle, application/ld+json, application/n-triples, application/rdf+xml, \
                        application/n-quads, application/x-ndjson, */*";

/// Media types for a graph.
pub fn graphs_accepted() -> String {
    Syntax::MEDIA_TYPES.join(", ")
}

/// Refuses to change what the data door changes.
pub fn refuse_volumes(path: &ResourcePath) -> Result<(), LdpError> {
    match path.names().next() {
        Some(VOLUMES) => Err(LdpError::ReservedPath(path.to_string())),
        _ => Ok(()),
    }
}

/// A response without its body (HEAD, 304) and of unknown length, so that it has no
/// `Content-Length` (RFC 9110, section 8.6).
pub fn unsent(mut response: Response) -> Response {
    *response.body_mut() = Body::from_stream(stream::empty::<Result<Bytes, Infallible>>());
    response
}

/// A response without a body.
pub fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
