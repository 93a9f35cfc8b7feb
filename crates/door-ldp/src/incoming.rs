//! Receiving the body of a change: a graph, bytes, or a link to content stored elsewhere.

use std::sync::Arc;

use axum::body::Body;
use door_http::digests;
use heads::ResourcePath;
use http::{HeaderMap, Method, header};
use rdf::ContentType;
use repository::ResourceError;
use repository::{Resource, Uploaded};

use crate::body::{GraphBody, content_type, pieces, refuse_codings, whole};
use crate::disposition;
use crate::errors::LdpError;
use crate::external::{Named, Wanted};
use crate::model::Model;
use crate::request::{LdpRequest, graphs_accepted};

/// The media type of bytes without a stated one.
pub const OCTETS: &str = "application/octet-stream";

/// A received body.
pub enum Incoming {
    /// A graph, and the requested model.
    Graph(GraphBody, Option<Model>),
    /// Bytes.
    Binary(Uploaded),
}

impl LdpRequest {
    /// Receives the body of a resource to create.
    pub async fn receive_new(self: Arc<Self>, body: Body, path: &ResourcePath) -> Result<Incoming, LdpError> {
        refuse_codings(&self.headers)?;
        if let Some(named) = Named::of(&self.headers)? {
            if !matches!(Model::asked(&self.headers, false)?, None | Some(Model::Binary)) {
                return Err(LdpError::Model("content stored elsewhere is bytes".to_owned()));
            }
            return self.receive_external(named, path).await.map(Incoming::Binary);
        }
        let said = content_type(&self.headers);
        let graph = said.and_then(ContentType::parse);
        let asked = Model::asked(&self.headers, graph.is_some())?;
        // A plain text is bytes, unless it is declared a graph.
        let is_said = asked.is_some_and(|asked| asked != Model::Binary);
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

    /// Receives the description of bytes.
    pub async fn receive_description(&self, body: Body) -> Result<GraphBody, LdpError> {
        refuse_codings(&self.headers)?;
        let said = content_type(&self.headers);
        let content_type = said.and_then(ContentType::of_graph).ok_or_else(|| LdpError::UnsupportedMediaType {
            found: said.unwrap_or(OCTETS).to_owned(),
            supported: graphs_accepted(),
        })?;
        GraphBody::read(body, content_type, self).await
    }

    /// Receives bytes, and checks them against announced digests.
    pub async fn upload(&self, body: Body, path: &ResourcePath) -> Result<Uploaded, LdpError> {
        let media_type = content_type(&self.headers).unwrap_or(OCTETS);
        self.upload_of(body, &self.headers, media_type, path).await
    }

    /// Receives content stored elsewhere: its bytes, or its address.
    pub async fn receive_external(&self, named: Named, path: &ResourcePath) -> Result<Uploaded, LdpError> {
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
            let read = self.digests_elsewhere(&url, &digests::algorithms(&announced)).await?;
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
        let mut uploaded = self.library().repository.upload(path, pieces(body, max_bytes), &algorithms).await?;
        if let Err(error) = digests::check(&announced, &uploaded.digests) {
            self.library().repository.discard(&uploaded).await;
            return Err(error.into());
        }
        uploaded.media_type = media_type.to_owned();
        uploaded.disposition = disposition::of(&self.headers);
        Ok(uploaded)
    }

    /// Receives the replacement of a resource, which must have the same model. The requested one
    /// counts if the resource is gone by the end of the body, and another one is created.
    pub async fn receive_replacement(self: Arc<Self>, resource: &Resource, body: Body) -> Result<Incoming, LdpError> {
        refuse_codings(&self.headers)?;
        let current = Model::of(resource);
        let said = content_type(&self.headers);
        // A graph stays a graph, so a plain text is one as well.
        let graph = said.and_then(if current == Model::Binary { ContentType::parse } else { ContentType::of_graph });
        let asked = Model::asked(&self.headers, graph.is_some())?;
        if asked.is_some_and(|asked| !asked.fits(current)) {
            return Err(LdpError::Model("the interaction model of a resource cannot be changed".to_owned()));
        }
        if let (Some(named), Model::Binary) = (Named::of(&self.headers)?, current) {
            return self.receive_external(named, self.path()).await.map(Incoming::Binary);
        }
        match (current, graph) {
            (Model::Binary, _) => self.upload(body, self.path()).await.map(Incoming::Binary),
            (_, Some(content_type)) => Ok(Incoming::Graph(GraphBody::read(body, content_type, &self).await?, asked)),
            (_, None) => Err(LdpError::UnsupportedMediaType {
                found: said.unwrap_or("application/octet-stream").to_owned(),
                supported: graphs_accepted(),
            }),
        }
    }

    /// Gives back unused bytes, unless it is uncertain whether they are used.
    pub async fn give_back(&self, uploaded: &Uploaded, error: &LdpError) {
        if !matches!(error, LdpError::Resource(ResourceError::Objects(heads::ObjectsError::Unknown(_)))) {
            self.library().repository.discard(uploaded).await;
        }
    }
}

fn announced_len(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
