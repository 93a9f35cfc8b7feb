//! PUT: creating or replacing a resource at an address of the client's choice.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, StatusCode};
use objects::resources::{Kind, Resource, Update, Written};
use objects::{ResourceError, ResourcePath};
use rdf::update::Removal;
use rdf::{ContentType, Graph};

use crate::address::Facet;
use crate::ask::{Asked, TRIES_MAX, changes_all_the_time, empty, graphs_accepted};
use crate::body::{GraphBody, content_type, refuse_codings};
use crate::conditions::{self, Validators};
use crate::errors::LdpError;
use crate::external::Named;
use crate::managed::{self, Standing};
use crate::membership;
use crate::model::Model;
use crate::post::Incoming;
use crate::prefer::Preferences;
use crate::statements::{kept_description, references};

/// Fedora's header that deletes the tombstone at the address.
const OVERWRITE_TOMBSTONE: HeaderName = HeaderName::from_static("overwrite-tombstone");

/// What exists at the address.
enum Stands {
    /// A resource to replace.
    Resource(Box<Resource>),
    /// Nothing.
    Nothing,
}

impl Asked {
    /// Creates or replaces.
    pub async fn put(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let asked = self.clone();
        // The change is completed when the client leaves.
        let change = tokio::spawn(async move {
            match asked.target.facet {
                Facet::Description => asked.put_description(body).await,
                _ => asked.put_itself(body).await,
            }
        });
        change.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    async fn put_itself(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        // Checks that need no body come before a body of any size is received.
        let first = self.stands().await?;
        let incoming = match &first {
            Stands::Resource(resource) => self.clone().take_in_for(resource, body).await?,
            Stands::Nothing => self.clone().take_in(body, self.path()).await?,
        };
        let done = self.put_incoming(first, &incoming).await;
        if let (Err(error), Incoming::Binary(uploaded)) = (&done, &incoming) {
            self.give_back(uploaded, error).await;
        }
        done
    }

    async fn put_incoming(&self, first: Stands, incoming: &Incoming) -> Result<Response, LdpError> {
        let mut stands = first;
        for _ in 0..TRIES_MAX {
            let written = match &stands {
                Stands::Resource(resource) => self.replace(resource, incoming).await,
                Stands::Nothing => {
                    let above = self.above().await?;
                    let new = self.new_resource(incoming, self.path(), above.as_ref())?;
                    self.library().create_resource(self.path(), &new).await.map_err(LdpError::from)
                }
            };
            match (written, &stands) {
                (Ok(written), Stands::Nothing) => return self.created(&written, incoming).await,
                (Ok(written), Stands::Resource(_)) => return Ok(self.replaced(&written, incoming).await),
                // Another writer was faster: the new state is checked again, with the conditions.
                (Err(LdpError::Resource(ResourceError::Moved(_) | ResourceError::Exists(_))), _) => {}
                (Err(error), _) => return Err(error),
            }
            stands = self.stands().await?;
        }
        Err(changes_all_the_time(self.path()))
    }

    /// What exists at the address, if the conditions of the request permit a change.
    async fn stands(&self) -> Result<Stands, LdpError> {
        match self.library().resource(self.path()).await {
            Ok(resource) => {
                self.may_change(&resource)?;
                Ok(Stands::Resource(Box::new(resource)))
            }
            Err(ResourceError::Absent(_)) => {
                conditions::creating(&self.headers)?;
                Ok(Stands::Nothing)
            }
            Err(ResourceError::Gone { tombstone })
                if tombstone == *self.path()
                    && self.headers.get(OVERWRITE_TOMBSTONE).is_some_and(|value| value == "true") =>
            {
                conditions::creating(&self.headers)?;
                self.library().remove_tombstone(self.path()).await?;
                Ok(Stands::Nothing)
            }
            Err(error) => Err(error.into()),
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
    fn validators(&self, resource: &Resource) -> Validators {
        match (self.target.facet, resource.kind()) {
            (Facet::Itself, Kind::Binary(binary)) => Validators::of_bytes(binary.revision),
            _ => Validators::of_graph(resource.description_revision(), None, "w"),
        }
    }

    /// The container of the new resource, if it exists.
    async fn above(&self) -> Result<Option<Resource>, LdpError> {
        let Some(above) = self.path().parent() else { return Ok(None) };
        match self.library().resource(&above).await {
            Ok(resource) => Ok(Some(resource)),
            Err(ResourceError::Absent(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives the replacement of a resource, which must have the same model.
    async fn take_in_for(self: Arc<Self>, resource: &Resource, body: Body) -> Result<Incoming, LdpError> {
        refuse_codings(&self.headers)?;
        let stands = Model::of(resource.kind());
        let said = content_type(&self.headers);
        // A graph stays a graph, so a plain text is one as well.
        let graph = said.and_then(if stands == Model::Binary { ContentType::parse } else { ContentType::of_graph });
        if let Some(asked) = Model::asked(&self.headers, graph.is_some())?
            && asked != stands
            && !(asked == Model::RdfSource && stands != Model::Binary)
        {
            return Err(LdpError::Model("the interaction model of a resource cannot be changed".to_owned()));
        }
        if let (Some(named), Model::Binary) = (Named::of(&self.headers)?, stands) {
            return self.take_in_named(named, self.path()).await.map(Incoming::Binary);
        }
        match (stands, graph) {
            (Model::Binary, _) => self.upload(body, self.path()).await.map(Incoming::Binary),
            (_, Some(content_type)) => Ok(Incoming::Graph(GraphBody::read(body, content_type, &self).await?, None)),
            (_, None) => Err(LdpError::UnsupportedMediaType {
                found: said.unwrap_or("application/octet-stream").to_owned(),
                supported: graphs_accepted(),
            }),
        }
    }

    async fn replace(&self, resource: &Resource, incoming: &Incoming) -> Result<Written, LdpError> {
        let update = match (incoming, resource.kind()) {
            (Incoming::Binary(uploaded), Kind::Binary(_)) => Update::Binary(uploaded.clone()),
            (Incoming::Graph(body, _), Kind::RdfSource | Kind::Container { .. }) => {
                let graph = body.graph(&self.site, self.path(), self.settings())?;
                self.described(resource, graph, &[]).await?
            }
            _ => return Err(LdpError::Model("the interaction model of a resource cannot be changed".to_owned())),
        };
        Ok(self.library().update_resource(resource, &update).await?)
    }

    /// The change to this description, by an update with these removals.
    pub async fn described(
        &self,
        resource: &Resource,
        mut graph: Graph,
        removals: &[Removal],
    ) -> Result<Update, LdpError> {
        let path: &ResourcePath = self.path();
        let model = Model::of(resource.kind());
        let membership = membership::rule_of(&mut graph, path, model)?;
        let mut rules = managed::rules(self.library(), resource).await?;
        let rule = (membership.clone(), path.clone());
        if !rules.contains(&rule) {
            rules.push(rule);
        }
        let lenient = Preferences::of(&self.headers).lenient;
        let standing = Standing { path, model, resource: Some(resource), rules: &rules, lenient };
        standing.refuse_removing(self.library(), removals).await?;
        let graph = standing.strip(self.library(), graph).await?;
        let members_for = membership::members_for(&membership, path);
        let mut refers_to = references(&graph, path);
        if !refers_to.is_empty() {
            let before = kept_description(self.library(), resource).await?;
            references(&before, path).iter().for_each(|known| _ = refers_to.remove(known));
        }
        let refers_to = refers_to.into_iter().collect();
        Ok(Update::Description { description: rdf::to_stored(&graph).into(), membership, members_for, refers_to })
    }

    async fn put_description(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        refuse_codings(&self.headers)?;
        let said = content_type(&self.headers);
        let content_type = said.and_then(ContentType::of_graph).ok_or_else(|| LdpError::UnsupportedMediaType {
            found: said.unwrap_or("application/octet-stream").to_owned(),
            supported: graphs_accepted(),
        })?;
        let body = GraphBody::read(body, content_type, &self).await?;
        for _ in 0..TRIES_MAX {
            let resource = self.resource().await?;
            self.may_change(&resource)?;
            let graph = body.graph(&self.site, self.path(), self.settings())?;
            let update = self.described(&resource, graph, &[]).await?;
            match self.library().update_resource(&resource, &update).await {
                Ok(written) => return Ok(self.replaced(&written, &Incoming::Graph(body, None)).await),
                Err(ResourceError::Moved(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(changes_all_the_time(self.path()))
    }

    /// The response to a replacement.
    pub async fn replaced(&self, written: &Written, incoming: &Incoming) -> Response {
        let mut response = empty(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        crate::links::append(headers, rdf::vocab::ldp::RESOURCE.as_str(), "type");
        self.confirm(written, incoming, headers);
        self.returned(&written.path, response).await
    }
}
