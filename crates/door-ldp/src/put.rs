//! PUT: creating or replacing a resource at an address of the client's choice.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use heads::actor;
use http::{HeaderMap, HeaderName};
use repository::ResourceError;
use repository::{Kind, Resource, Update, Written};

use crate::address::Facet;
use crate::conditions;
use crate::errors::LdpError;
use crate::given_up::GivenUp;
use crate::incoming::Incoming;
use crate::model::Model;
use crate::request::{LdpRequest, TRIES_MAX, changes_all_the_time};

/// Fedora's header that deletes the tombstone at the address. Its value is `true`, in capital or
/// small letters, as for Fedora.
const OVERWRITE_TOMBSTONE: HeaderName = HeaderName::from_static("overwrite-tombstone");

/// What exists at the address.
enum Found {
    /// A resource to replace.
    Resource(Box<Resource>),
    /// A tombstone to create something in place of.
    Tombstone,
    /// Nothing.
    Nothing,
}

/// Whether a request overwrites a tombstone.
fn asks_to_overwrite(headers: &HeaderMap) -> bool {
    headers.get(OVERWRITE_TOMBSTONE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

impl LdpRequest {
    /// Creates or replaces.
    pub async fn put(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let (asked, _given_up) = (self.clone(), GivenUp(self.stop.clone()));
        // The change is completed when the client leaves. Parsing a large graph before it stops.
        let change = actor::spawn(async move {
            match asked.target.facet {
                Facet::Description => asked.put_description(body).await,
                _ => asked.put_itself(body).await,
            }
        });
        change.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    async fn put_itself(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        // Checks that need no body come before a body of any size is received.
        let first = self.find().await?;
        let incoming = match &first {
            Found::Resource(resource) => self.clone().receive_replacement(resource, body).await?,
            Found::Tombstone | Found::Nothing => {
                self.may_touch_above(self.path()).await?;
                self.clone().receive_new(body, self.path()).await?
            }
        };
        let done = self.put_incoming(first, &incoming).await;
        if let (Err(error), Incoming::Binary(uploaded)) = (&done, &incoming) {
            self.give_back(uploaded, error).await;
        }
        match done? {
            (written, true) => self.created(&written, incoming).await,
            (written, false) => Ok(self.replaced(&written, incoming).await),
        }
    }

    /// Also returns whether the resource is new.
    async fn put_incoming(&self, first: Found, incoming: &Incoming) -> Result<(Written, bool), LdpError> {
        let mut found = first;
        for _ in 0..TRIES_MAX {
            let written = match &found {
                Found::Resource(resource) => self.replace(resource, incoming).await,
                Found::Tombstone | Found::Nothing => {
                    // There may have been a resource to replace when the body began.
                    self.may_touch_above(self.path()).await?;
                    let above = match incoming {
                        Incoming::Graph(..) => self.above().await?,
                        // Its container says nothing about bytes.
                        Incoming::Binary(_) => None,
                    };
                    let new = self.new_resource(incoming, self.path(), above.as_ref()).await?;
                    let repository = &self.library().repository;
                    let created = match found {
                        Found::Tombstone => repository.create_over(self.path(), &new).await,
                        _ => repository.create(self.path(), &new).await,
                    };
                    created.map_err(LdpError::from)
                }
            };
            match (written, &found) {
                (Ok(written), found) => return Ok((written, !matches!(found, Found::Resource(_)))),
                // What was there is still being deleted.
                (Err(error @ LdpError::Resource(ResourceError::Moved(_))), Found::Tombstone) => return Err(error),
                // Another writer was faster: the new state is checked again, with the conditions.
                (Err(LdpError::Resource(ResourceError::Moved(_) | ResourceError::Exists(_))), _) => {}
                (Err(error), _) => return Err(error),
            }
            found = self.find().await?;
        }
        Err(changes_all_the_time(self.path()))
    }

    /// What exists at the address, if the conditions of the request permit a change.
    async fn find(&self) -> Result<Found, LdpError> {
        match self.library().repository.resource(self.path()).await {
            Ok(resource) => {
                self.may_change(&resource)?;
                Ok(Found::Resource(Box::new(resource)))
            }
            Err(ResourceError::Absent(_)) => {
                conditions::creating(&self.headers)?;
                Ok(Found::Nothing)
            }
            Err(ResourceError::Gone { tombstone }) if tombstone == *self.path() && asks_to_overwrite(&self.headers) => {
                conditions::creating(&self.headers)?;
                self.refuse_in_transaction("tombstones are not removed")?;
                Ok(Found::Tombstone)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The container of the new resource, if it exists.
    async fn above(&self) -> Result<Option<Resource>, LdpError> {
        let Some(above) = self.path().parent() else { return Ok(None) };
        match self.library().repository.resource(&above).await {
            Ok(resource) => Ok(Some(resource)),
            Err(ResourceError::Absent(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn replace(&self, resource: &Resource, incoming: &Incoming) -> Result<Written, LdpError> {
        let update = match (incoming, resource.kind()) {
            (Incoming::Binary(uploaded), Kind::Binary(_)) => Update::Binary(uploaded.clone()),
            (Incoming::Graph(body, asked), Kind::RdfSource | Kind::Container { .. })
                if asked.is_none_or(|asked| asked.fits(Model::of(resource))) =>
            {
                let graph = body.graph(self.path(), self).await?;
                self.described(resource, graph, &[]).await?
            }
            _ => return Err(LdpError::Model("the interaction model of a resource cannot be changed".to_owned())),
        };
        Ok(self.library().repository.update(resource, &update).await?)
    }

    async fn put_description(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let body = self.receive_description(body).await?;
        for _ in 0..TRIES_MAX {
            let resource = self.resource().await?;
            self.may_change(&resource)?;
            let graph = body.graph(self.path(), &self).await?;
            let update = self.described(&resource, graph, &[]).await?;
            match self.library().repository.update(&resource, &update).await {
                Ok(written) => return Ok(self.replaced(&written, Incoming::Graph(body, None)).await),
                Err(ResourceError::Moved(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(changes_all_the_time(self.path()))
    }
}
