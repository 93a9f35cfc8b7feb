//! Versions with a stated time: a POST to `fcr:versions` with `Memento-Datetime` makes one of its
//! body (Fedora API, section 4.3.3), where the operator allows it. It never becomes the current
//! state, and what is sent as of a time stays the same.
//!
//! A version of bytes also has a description, and the other way round. What the body does not have
//! is that of the version before this one or, if it is the first, of the next one.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use door_http::Second;
use heads::actor;
use repository::{Kind, Membership, NewVersion, Resource, Update, Written};

use crate::address::Facet;
use crate::conditions::is_conditional;
use crate::errors::LdpError;
use crate::given_up::GivenUp;
use crate::incoming::Incoming;
use crate::mementos::MEMENTO_DATETIME;
use crate::request::LdpRequest;
use crate::timegate::second_in;

impl LdpRequest {
    /// Makes a version of the body, with the time of the request.
    pub async fn receive_version(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        if !self.settings().receive_versions {
            return Err(LdpError::NotOffered(
                "a version has the time at which it is made: leave out `Memento-Datetime`".to_owned(),
            ));
        }
        if self.query.as_deref().is_some_and(|query| !query.is_empty()) {
            return Err(LdpError::Query("a version with a stated time is that of the body: there are no parameters"));
        }
        let second = self.stated_time()?;
        let (asked, _given_up) = (self.clone(), GivenUp(self.stop.clone()));
        // The change is completed when the client leaves. Parsing a large graph before it stops.
        let change = actor::spawn(async move {
            let written = asked.clone().received(second, body).await?;
            asked.version_made(&written).await
        });
        change.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    /// The time of `Memento-Datetime`, which is not in the future.
    fn stated_time(&self) -> Result<Second, LdpError> {
        let name = "memento-datetime";
        let malformed = |why: &str| LdpError::Header { name, why: why.to_owned() };
        let second = second_in(&self.headers, &MEMENTO_DATETIME, name)?.ok_or_else(|| malformed("it has no time"))?;
        if second > Second::of(self.library().clock().now()) {
            return Err(malformed("it is in the future"));
        }
        Ok(second)
    }

    async fn received(self: Arc<Self>, second: Second, body: Body) -> Result<Written, LdpError> {
        let resource = self.resource().await?;
        // No update can be lost by it, so it needs no condition.
        if is_conditional(&self.headers) {
            self.may_change(&resource)?;
        }
        // Checks that need no body come before a body of any size is received.
        self.library().repository.check_receivable(&resource, second.begin()).await?;
        let incoming = match self.target.facet {
            Facet::Description => Incoming::Graph(self.receive_description(body).await?, None),
            _ => self.clone().receive_replacement(&resource, body).await?,
        };
        let new = match (self.new_version(&resource, second, &incoming).await, &incoming) {
            (Ok(new), _) => new,
            (Err(error), Incoming::Binary(uploaded)) => {
                self.give_back(uploaded, &error).await;
                return Err(error);
            }
            (Err(error), Incoming::Graph(..)) => return Err(error),
        };
        let done = self.library().repository.receive_version(&resource, &new).await.map_err(LdpError::from);
        self.unless_done(new.bytes.as_ref(), done).await
    }

    async fn new_version(
        &self,
        resource: &Resource,
        second: Second,
        incoming: &Incoming,
    ) -> Result<NewVersion, LdpError> {
        let (repository, at) = (&self.library().repository, second.begin());
        let body = match incoming {
            Incoming::Binary(uploaded) => {
                let beside = self.version_beside(resource, second).await?;
                let (description, bytes) = (repository.description(&beside).await?, Some(uploaded.clone()));
                return Ok(NewVersion { at, description, membership: Membership::Basic, bytes });
            }
            Incoming::Graph(body, _) => body,
        };
        let graph = body.graph(self.path(), self).await?;
        let Update::Description { description, membership, .. } = self.described(resource, graph, &[]).await? else {
            return Err(LdpError::Internal("a description is no update of one".to_owned()));
        };
        let bytes = match resource.kind() {
            Kind::Binary(_) => {
                let beside = self.version_beside(resource, second).await?;
                match beside.kind() {
                    Kind::Binary(binary) => Some(repository.upload_again(&beside, binary).await?),
                    Kind::RdfSource | Kind::Container { .. } => None,
                }
            }
            Kind::RdfSource | Kind::Container { .. } => None,
        };
        Ok(NewVersion { at, description, membership, bytes })
    }

    /// The version of a binary that is before a time; if there is none, the next one.
    async fn version_beside(&self, resource: &Resource, second: Second) -> Result<Resource, LdpError> {
        let versions = self.versions().await?.of_binaries();
        let beside = match versions.newest_below(second.first()).await? {
            Some(before) => Some(before),
            None => versions.oldest_from(second.first()).await?,
        };
        Ok(beside.unwrap_or_else(|| resource.clone()))
    }
}
