//! POST: creating a resource in a container.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use heads::actor;
use http::HeaderName;
use repository::Kind;

use crate::address::wished_name;
use crate::errors::LdpError;
use crate::given_up::GivenUp;
use crate::incoming::Incoming;
use crate::many::Many;
use crate::request::{LdpRequest, refuse_volumes};

/// RFC 5023, section 9.7.
pub const SLUG: HeaderName = HeaderName::from_static("slug");

impl LdpRequest {
    /// Creates a resource in a container.
    pub async fn post(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let container = self.resource().await?;
        if !matches!(container.kind(), Kind::Container { .. }) {
            return Err(self.not_allowed(self.allow(&container)));
        }
        if let Kind::Container { membership, .. } = container.kind() {
            self.members_for(membership, self.path())?;
        }
        if let Some(many) = Many::of(self) {
            return self.post_many(many, container, body);
        }
        let (asked, _given_up) = (self.clone(), GivenUp(self.stop.clone()));
        // The creation is completed when the client leaves, and unused bytes are given back. Parsing
        // a large graph before it stops.
        let creation = actor::spawn(async move { asked.create(body).await });
        creation.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    async fn create(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let incoming = self.clone().receive_new(body, self.path()).await?;
        // RFC 5023 has it percent-encoded. Many clients send plain UTF-8.
        let slug = self.headers.get(SLUG).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        let wish = slug.and_then(wished_name);
        let wish = wish.filter(|wish| self.path().child(wish).is_ok_and(|path| refuse_volumes(&path).is_ok()));
        let created = self.create_in(self.path(), wish.as_deref(), &incoming).await;
        if let (Err(error), Incoming::Binary(uploaded)) = (&created, &incoming) {
            self.give_back(uploaded, error).await;
        }
        self.created(&created?, incoming).await
    }
}
