//! Requests for what is there.

use anyhow::Context;
use http::request::Builder;
use http::{Method, Request, StatusCode, header};
use percent_encoding::percent_decode_str;
use rdf::Graph;

use super::headers::{REPR_DIGEST, text};
use super::{Loader, State};
use crate::client;
use crate::commands::history::versions;
use crate::commands::tree::{children, is_away, is_container};
use crate::resources::OWN_STATEMENTS;

impl Loader {
    /// The statements of clients about a resource that is there.
    pub async fn own_statements(&self, state: &State) -> anyhow::Result<Graph> {
        let response = self.client.ask(&self.graph(state), get_statements(), client::empty()).await?;
        rdf::from_stored(&client::whole(response).await?).context("the statements that are there")
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
    /// A [`ClientError`](client::ClientError), or a name that is not UTF-8.
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

/// A request for the statements of clients.
pub(super) fn get_statements() -> Builder {
    let request = Request::builder().method(Method::GET).header(header::ACCEPT, "application/n-triples");
    request.header("prefer", OWN_STATEMENTS)
}
