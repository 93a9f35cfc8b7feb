//! Requests that make and change resources.

use anyhow::Context;
use http::request::Builder;
use http::{Method, Request, StatusCode, header};
use preservation::about::About;

use super::headers::{REPR_DIGEST, put};
use super::{Loader, State};
use crate::client::{self, Body, ClientError};
use crate::commands::history::versions;
use crate::commands::tree::is_away;

/// Why a resource with a tombstone is not created.
pub const IS_DELETED: &str = "it is deleted here; `penates rm --forget` frees its name";

/// What came of a request to create.
pub enum Sent {
    /// The resource is created.
    Made,
    /// There is one already.
    IsThere,
}

impl Loader {
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
}
