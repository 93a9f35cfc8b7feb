//! POST: creating a resource in a container, and what PUT shares with that.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use door_http::digests;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use objects::resources::{Kind, NewKind, NewResource, Resource, Uploaded, Written};
use objects::{ResourceError, ResourcePath};
use rdf::ContentType;

use crate::address::{kept_iri, wished_name};
use crate::ask::{Asked, empty, graphs_accepted, refuse_volumes};
use crate::body::{GraphBody, content_type, pieces, refuse_codings, whole};
use crate::conditions::Validators;
use crate::errors::LdpError;
use crate::external::{Named, Wanted};
use crate::managed::Standing;
use crate::many::Many;
use crate::model::Model;
use crate::prefer::Preferences;
use crate::statements::references;
use crate::{disposition, links, membership};

/// RFC 5023, section 9.7.
const SLUG: HeaderName = HeaderName::from_static("slug");

/// The media type of bytes without a stated one.
pub const OCTETS: &str = "application/octet-stream";

/// A received body.
pub enum Incoming {
    /// A graph, and the requested model.
    Graph(GraphBody, Option<Model>),
    /// Bytes.
    Binary(Uploaded),
}

impl Asked {
    /// Receives a body. The existing model is `None` if no resource exists.
    pub async fn take_in(self: Arc<Self>, body: Body, path: &ResourcePath) -> Result<Incoming, LdpError> {
        refuse_codings(&self.headers)?;
        if let Some(named) = Named::of(&self.headers)? {
            if !matches!(Model::asked(&self.headers, false)?, None | Some(Model::Binary)) {
                return Err(LdpError::Model("content stored elsewhere is bytes".to_owned()));
            }
            return self.take_in_named(named, path).await.map(Incoming::Binary);
        }
        let said = content_type(&self.headers);
        let graph = said.and_then(ContentType::parse);
        let asked = Model::asked(&self.headers, graph.is_some())?;
        // A plain text is bytes, unless it is declared a graph.
        let is_said = matches!(asked, Some(Model::RdfSource | Model::Container(_)));
        let graph = graph.or_else(|| said.filter(|_| is_said).and_then(ContentType::of_graph));
        match (asked, graph) {
            (Some(Model::Binary), _) => self.upload(body, path).await.map(Incoming::Binary),
            (asked, Some(content_type)) => {
                let body = GraphBody::read(body, content_type, &self).await?;
                Ok(Incoming::Graph(body, asked))
            }
            (None, None) => self.upload(body, path).await.map(Incoming::Binary),
            (Some(asked), None) => {
                let found = said.unwrap_or(OCTETS).to_owned();
                let unsupported = || LdpError::UnsupportedMediaType { found, supported: graphs_accepted() };
                // An empty body needs no type. No header says for sure whether it is empty.
                match whole(body, &self, 0).await {
                    Ok(_) if said.is_none() => Ok(Incoming::Graph(GraphBody::empty(), Some(asked))),
                    Ok(_) | Err(LdpError::TooLarge { .. }) => Err(unsupported()),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Receives bytes, and checks them against announced digests.
    pub async fn upload(&self, body: Body, path: &ResourcePath) -> Result<Uploaded, LdpError> {
        let media_type = content_type(&self.headers).unwrap_or(OCTETS);
        self.upload_of(body, &self.headers, media_type, path).await
    }

    /// Receives content stored elsewhere: its bytes, or its address.
    pub async fn take_in_named(&self, named: Named, path: &ResourcePath) -> Result<Uploaded, LdpError> {
        let Named { url, wanted, media_type } = named;
        let external = self.external()?;
        let handling = match wanted {
            Wanted::Copy => {
                let (head, body) = external.ask(Method::GET, &url, None).await?.into_parts();
                let media_type = media_type.or_else(|| content_type(&head.headers).map(str::to_owned));
                return self.upload_of(body, &head.headers, media_type.as_deref().unwrap_or(OCTETS), path).await;
            }
            Wanted::Kept(handling) => handling,
        };
        external.check(&url, handling)?;
        let announced = digests::announced(&self.headers)?;
        if !announced.is_empty() {
            // They are read once, so that announced digests are true at least now.
            let body = external.ask(Method::GET, &url, None).await?.into_body();
            let bytes = pieces(body, self.settings().binary_bytes_max);
            let read = self.library().summed_up(bytes, &digests::algorithms(&announced)).await?;
            digests::check(&announced, &read)?;
        }
        let mut uploaded = Uploaded::elsewhere(url, handling);
        // Without a type in the link, the server that stores it states the type with each response.
        uploaded.media_type = media_type.unwrap_or_default();
        uploaded.disposition = disposition::of(&self.headers);
        Ok(uploaded)
    }

    /// Receives bytes with these headers. The request announces their digests.
    async fn upload_of(
        &self,
        body: Body,
        headers: &HeaderMap,
        media_type: &str,
        path: &ResourcePath,
    ) -> Result<Uploaded, LdpError> {
        let announced = digests::announced(&self.headers)?;
        let max_bytes = self.settings().binary_bytes_max;
        if max_bytes > 0 && announced_len(headers).is_some_and(|len_bytes| len_bytes > max_bytes) {
            return Err(LdpError::TooLarge { max_bytes });
        }
        let algorithms = digests::algorithms(&announced);
        let mut uploaded = self.library().upload(path, pieces(body, max_bytes), &algorithms).await?;
        if let Err(error) = digests::check(&announced, &uploaded.digests) {
            self.library().discard(&uploaded).await;
            return Err(error.into());
        }
        uploaded.media_type = media_type.to_owned();
        uploaded.disposition = disposition::of(&self.headers);
        Ok(uploaded)
    }

    /// The resource to create at a path, in the given container.
    pub fn new_resource(
        &self,
        incoming: &Incoming,
        path: &ResourcePath,
        above: Option<&Resource>,
    ) -> Result<NewResource, LdpError> {
        match incoming {
            Incoming::Graph(body, asked) => {
                self.new_graph(body.graph(&self.site, path, self.settings())?, *asked, path, above)
            }
            Incoming::Binary(uploaded) => Ok(NewResource {
                kind: NewKind::Binary(uploaded.clone()),
                description: bytes::Bytes::new(),
                member: None,
                members_for: None,
                refers_to: Vec::new(),
            }),
        }
    }

    /// The same for a graph (with stored IRIs).
    pub fn new_graph(
        &self,
        mut graph: rdf::Graph,
        asked: Option<Model>,
        path: &ResourcePath,
        above: Option<&Resource>,
    ) -> Result<NewResource, LdpError> {
        let model = match asked {
            Some(model) => model,
            None => Model::of_graph(&graph, &kept_iri(path), self.settings().default_model)?,
        };
        let membership = membership::rule_of(&mut graph, path, model)?;
        let rules = [membership::of_containment(path), membership.clone()].map(|rule| (rule, path.clone()));
        let lenient = Preferences::of(&self.headers).lenient;
        let standing = Standing { path, model, resource: None, rules: &rules, lenient };
        // It contains nothing yet, so no statement of containment or membership can be true.
        let graph = standing.strip_new(graph)?;
        let of_above = above.and_then(|above| match above.kind() {
            Kind::Container { membership, .. } => Some(membership),
            _ => None,
        });
        let member = of_above.and_then(|membership| membership::member_named(membership, &graph, path));
        let (kind, members_for) = match model {
            Model::Container(_) => {
                let members_for = membership::members_for(&membership, path);
                (NewKind::Container(membership), members_for)
            }
            Model::RdfSource => (NewKind::RdfSource, None),
            Model::Binary => return Err(LdpError::Internal("a graph was taken for bytes".to_owned())),
        };
        let refers_to = references(&graph, path).into_iter().collect();
        Ok(NewResource { kind, description: rdf::to_stored(&graph).into(), member, members_for, refers_to })
    }

    /// Creates a resource in a container.
    pub async fn post(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let container = self.resource().await?;
        if !matches!(container.kind(), Kind::Container { .. }) {
            return Err(self.not_allowed(self.allow(&container)));
        }
        if let Some(many) = Many::of(self) {
            return self.post_many(many, container, body);
        }
        let asked = self.clone();
        // The creation is completed when the client leaves, and unused bytes are given back.
        let creation = tokio::spawn(async move { asked.create(body).await });
        creation.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    async fn create(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let incoming = self.clone().take_in(body, self.path()).await?;
        // RFC 5023 has it percent-encoded. Many clients send plain UTF-8.
        let slug = self.headers.get(SLUG).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        let wish = slug.and_then(wished_name);
        let wish = wish.filter(|wish| self.path().child(wish).is_ok_and(|path| refuse_volumes(&path).is_ok()));
        let make = |above: &Resource, path: &ResourcePath| self.new_resource(&incoming, path, Some(above));
        let created = self.library().create_in::<LdpError>(self.path(), wish.as_deref(), make).await;
        if let (Err(error), Incoming::Binary(uploaded)) = (&created, &incoming) {
            self.give_back(uploaded, error).await;
        }
        self.created(&created?, &incoming).await
    }

    /// Gives back unused bytes, unless it is uncertain whether they are used.
    pub async fn give_back(&self, uploaded: &Uploaded, error: &LdpError) {
        if !matches!(error, LdpError::Resource(ResourceError::Objects(objects::ObjectsError::Unknown(_)))) {
            self.library().discard(uploaded).await;
        }
    }

    /// The response to a creation.
    pub async fn created(&self, written: &Written, incoming: &Incoming) -> Result<Response, LdpError> {
        let mut response = empty(StatusCode::CREATED);
        let headers = response.headers_mut();
        let iri = self.site.iri(&written.path);
        let location = HeaderValue::try_from(&iri).map_err(|error| LdpError::Internal(error.to_string()))?;
        headers.insert(header::LOCATION, location);
        links::append(headers, rdf::vocab::ldp::RESOURCE.as_str(), "type");
        if let Incoming::Binary(_) = incoming {
            // LDP 1.0, section 5.2.3.12: the target is the container, or the new resource itself.
            links::append_of(headers, &iri, &self.site.iri_of(&written.path, "metadata"), "describedby");
        }
        self.confirm(written, incoming, headers);
        Ok(self.returned(&written.path, response).await)
    }

    /// The entity tag for the writer's next change, and whether the response is minimal as
    /// preferred.
    pub fn confirm(&self, written: &Written, incoming: &Incoming, headers: &mut HeaderMap) {
        Preferences::confirm_minimal(&self.headers, headers);
        match incoming {
            Incoming::Binary(_) => Validators::of_bytes(written.revision),
            Incoming::Graph(..) => Validators::of_graph(written.revision, None, "w"),
        }
        .insert(headers);
    }
}

fn announced_len(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
