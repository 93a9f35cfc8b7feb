//! Compares what is there with what it should be.

use anyhow::{Context, ensure};
use http::{Method, Request, Response, header};
use preservation::about::About;

use super::super::source::Bytes;
use super::headers::{REPR_DIGEST, is_like, text};
use super::look::get_statements;
use super::{Loader, State};
use crate::client::{self, Body, ClientError};

/// Why a resource is left as it is.
const OTHER_KIND: &str = "there is a resource of another kind";
const OTHER_STATEMENTS: &str = "there is a resource with other statements";

/// What came of comparing statements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    Same,
    /// There are none, and there should be.
    Empty,
    Other,
}

impl Loader {
    /// Refuses to go on if a version has other bytes or statements.
    pub async fn compare_version(&self, state: &State, version: &str) -> anyhow::Result<()> {
        let at = |address: String| format!("{}/fcr:versions/{version}", address.trim_end_matches('/'));
        let (_, compared) = self.compare_at(state, &at(self.address(state)), &at(self.graph(state))).await?;
        ensure!(compared == Compared::Same, OTHER_STATEMENTS);
        Ok(())
    }

    /// Refuses to go on if there is a resource of another kind, or with other bytes or statements. If
    /// it has no statements, they are stored if `may_fill`. Returns whether they were.
    pub async fn compare(&self, state: &State, may_fill: bool) -> anyhow::Result<bool> {
        let compared = self.compare_at(state, &self.address(state), &self.graph(state)).await?;
        self.filled(state, compared, may_fill).await
    }

    /// Compares the statements alone. If there are none, they are stored if `may_fill`. Returns
    /// whether they were.
    pub async fn compare_statements(&self, state: &State, may_fill: bool) -> anyhow::Result<bool> {
        let compared = self.compare_statements_at(state, &self.graph(state)).await?;
        self.filled(state, compared, may_fill).await
    }

    /// Stores the statements if there are none, and `may_fill`.
    async fn filled(&self, state: &State, compared: (String, Compared), may_fill: bool) -> anyhow::Result<bool> {
        let (tag, compared) = compared;
        if compared == Compared::Same {
            return Ok(false);
        }
        ensure!(compared == Compared::Empty && may_fill, OTHER_STATEMENTS);
        let request = Request::builder().method(Method::PUT).header(header::CONTENT_TYPE, "application/n-triples");
        let statements = client::full(self.statements(state)?);
        self.client.ask(&self.graph(state), request.header(header::IF_MATCH, tag), statements).await?;
        Ok(true)
    }

    /// Whether a resource is of this kind, and has these bytes and statements.
    pub async fn is_same(&self, state: &State) -> anyhow::Result<bool> {
        match self.compare(state, false).await {
            // A refusal of the server says nothing about it.
            Err(error) if error.is::<ClientError>() => Err(error),
            compared => Ok(compared.is_ok()),
        }
    }

    /// Whether a resource has these statements.
    pub async fn has_statements(&self, state: &State) -> anyhow::Result<bool> {
        Ok(self.compare_statements_at(state, &self.graph(state)).await?.1 == Compared::Same)
    }

    /// Refuses to go on if there is a resource of another kind, or with other bytes, at an address.
    /// Compares the statements at the address of these. Returns their entity tag, too.
    async fn compare_at(&self, state: &State, address: &str, graph: &str) -> anyhow::Result<(String, Compared)> {
        if state.about.is_binary() {
            self.compare_bytes_at(state, address).await?;
            return self.compare_statements_at(state, graph).await;
        }
        let response = self.client.send(graph, get_statements(), client::empty()).await?;
        let is_there = response.status().is_success();
        // The answer names the kind already. If it does not, or there is none, OPTIONS says what is
        // wrong.
        if !is_there || !is_like(&state.about, response.headers())? {
            self.check_model(&state.about, address).await?;
        }
        match is_there {
            true => self.compare_stored(state, response).await,
            false => Err(ClientError::of_response(response).await.into()),
        }
    }

    /// Compares the statements at an address. Returns their entity tag, too.
    async fn compare_statements_at(&self, state: &State, address: &str) -> anyhow::Result<(String, Compared)> {
        let response = self.client.ask(address, get_statements(), client::empty()).await?;
        self.compare_stored(state, response).await
    }

    /// Compares the statements in a response. Returns their entity tag, too.
    async fn compare_stored(&self, state: &State, response: Response<Body>) -> anyhow::Result<(String, Compared)> {
        let tag = text(response.headers(), header::ETAG).unwrap_or_default().to_owned();
        let stored = client::whole(response).await?;
        let expected = self.statements(state)?;
        // Nearly all of them are sent as they are stored. Others may be in another order.
        if stored == expected {
            return Ok((tag, Compared::Same));
        }
        let stored = rdf::to_stored(&rdf::from_stored(&stored).context("the statements that are there")?);
        let compared = match () {
            () if stored == expected => Compared::Same,
            () if stored.is_empty() => Compared::Empty,
            () => Compared::Other,
        };
        Ok((tag, compared))
    }

    /// Refuses to go on if there is a resource of another kind, or with other bytes.
    pub async fn compare_bytes(&self, state: &State) -> anyhow::Result<()> {
        self.compare_bytes_at(state, &self.address(state)).await
    }

    async fn compare_bytes_at(&self, state: &State, address: &str) -> anyhow::Result<()> {
        let about = &state.about;
        if !about.is_binary() {
            return self.check_model(about, address).await;
        }
        let algorithm = state.bytes.as_ref().map_or("sha-256", Bytes::algorithm_name);
        let request = Request::builder().method(Method::HEAD);
        // Those of bytes that are elsewhere would be asked for there.
        let request = match about.stored_at {
            Some(_) => request,
            None => request.header("want-repr-digest", format!("{algorithm}=10")),
        };
        let response = self.client.send(address, request, client::empty()).await?;
        if about.handling.is_some() && !response.status().is_success() {
            // The server that stores the bytes does not answer now. Nothing of them is here.
            return self.check_model(about, address).await;
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            return Err(ClientError::of_response(response).await.into());
        }
        let headers = response.headers();
        ensure!(is_like(about, headers)?, OTHER_KIND);
        let is_same = match &state.bytes {
            Some(bytes) => text(headers, REPR_DIGEST) == Some(&bytes.repr_digest()),
            // The address of a file on the server's machine is not sent.
            None if about.handling.is_some() => {
                text(headers, header::CONTENT_LOCATION).is_none_or(|there| Some(there) == about.stored_at.as_deref())
            }
            None => text(headers, header::LOCATION) == about.stored_at.as_deref(),
        };
        ensure!(is_same, "there is a resource with other bytes");
        let is_same = text(headers, header::CONTENT_TYPE) == about.content_type.as_deref()
            && text(headers, header::CONTENT_DISPOSITION) == about.content_disposition.as_deref();
        ensure!(is_same, "there is a resource with the same bytes and another type or name of its file");
        Ok(())
    }

    /// Refuses to go on if there is a resource of another kind.
    async fn check_model(&self, about: &About, address: &str) -> anyhow::Result<()> {
        let request = Request::builder().method(Method::OPTIONS);
        let response = self.client.ask(address, request, client::empty()).await?;
        ensure!(is_like(about, response.headers())?, OTHER_KIND);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use axum::Router;
    use parking_lot::Mutex;

    use super::super::super::foreign::container;
    use super::super::headers::LDP;
    use super::*;

    /// Compares an empty container with one that a server has. In answers to some methods it names the
    /// model. Returns what came of it, and the methods that were asked for.
    async fn compared(model: &'static str, naming: Vec<Method>) -> (Result<bool, String>, Vec<Method>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let answer = move |request: axum::extract::Request| {
            let method = request.method().clone();
            let named = naming.contains(&method).then(|| format!("<{LDP}{model}>; rel=\"type\""));
            noted.lock().push(method);
            async move {
                let answer = Response::builder().header(header::ETAG, "\"1\"");
                let answer = named.into_iter().fold(answer, |answer, link| answer.header(header::LINK, link));
                answer.body(axum::body::Body::empty()).unwrap()
            }
        };
        let loader = Loader::of(Router::new().fallback(answer));
        let compared = loader.compare(&container("a", Vec::new()), false).await;
        let asked = asked.lock().clone();
        (compared.map_err(|error| error.to_string()), asked)
    }

    #[tokio::test]
    async fn a_graph_is_compared_by_one_request_that_also_says_its_kind() {
        let (compared, asked) = compared("BasicContainer", vec![Method::GET, Method::OPTIONS]).await;
        assert_eq!((compared, asked), (Ok(false), vec![Method::GET]));
    }

    #[tokio::test]
    async fn a_server_that_names_no_kind_with_statements_is_asked_for_it() {
        let (compared, asked) = compared("BasicContainer", vec![Method::OPTIONS]).await;
        assert_eq!((compared, asked), (Ok(false), vec![Method::GET, Method::OPTIONS]));
    }

    #[tokio::test]
    async fn a_resource_of_another_kind_is_not_the_same_whatever_its_statements_are() {
        let (compared, asked) = compared("NonRDFSource", vec![Method::GET, Method::OPTIONS]).await;
        assert_eq!((compared, asked), (Err(OTHER_KIND.to_owned()), vec![Method::GET, Method::OPTIONS]));
    }
}
