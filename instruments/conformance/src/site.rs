//! Requests to the server that is judged.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::link::Link;

/// The longest body that is read.
const BODY_BYTES_MAX: usize = 16 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server that is judged.
pub struct Site {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The container in which resources are created.
    container: String,
    /// The collection that has notifications.
    feed: Option<String>,
    /// Content to which the server may link.
    external: Option<String>,
    /// Headers of each request, such as `Authorization`.
    headers: HeaderMap,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Site {
    /// A server whose container at an `http://` or `https://` address may get new resources, and
    /// whose notifications are in the collection `feed`.
    ///
    /// # Errors
    /// If the address or a header is malformed, or the system's root certificates cannot be read.
    pub fn new(container: &str, feed: Option<String>, headers: &[(String, String)]) -> Result<Self> {
        let uri: Uri = container.parse().with_context(|| format!("{container} is not an address"))?;
        ensure!(
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some(),
            "the address must begin with http:// or https://"
        );
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name.parse::<HeaderName>()?, HeaderValue::from_str(value)?);
        }
        let roots = HttpsConnectorBuilder::new().with_native_roots();
        let connector = roots.context("the root certificates cannot be read")?.https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, container: container.to_owned(), feed, external: None, headers: all })
    }

    /// With the address of content to which the server may link.
    #[must_use]
    pub fn with_external(self, external: Option<String>) -> Self {
        Self { external, ..self }
    }

    /// The container in which resources are created.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The collection that has notifications.
    pub fn feed(&self) -> Option<&str> {
        self.feed.as_deref()
    }

    /// Content to which the server may link.
    pub fn external(&self) -> Option<&str> {
        self.external.as_deref()
    }

    /// Sends a request to an address, or to a path on the server.
    pub async fn send(&self, method: Method, url: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer> {
        let url = self.absolute(url)?;
        let mut request = Request::builder().method(method.clone()).uri(&url).body(Full::from(body.to_owned()))?;
        request.headers_mut().extend(self.headers.clone());
        for (name, value) in headers {
            request.headers_mut().append(name.parse::<HeaderName>()?, HeaderValue::from_str(value)?);
        }
        let answered = async {
            let (head, body) = self.client.request(request).await?.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
            anyhow::Ok(Answer { status: head.status, headers: head.headers, body })
        };
        tokio::time::timeout(PATIENCE, answered)
            .await
            .ok()
            .context("no answer")
            .and_then(|it| it)
            .with_context(|| format!("{method} {url}"))
    }

    /// A `GET`.
    pub async fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        self.send(Method::GET, url, headers, "").await
    }

    /// An address, which may be a path on the server.
    pub fn absolute(&self, url: &str) -> Result<String> {
        if !url.starts_with('/') {
            return Ok(url.to_owned());
        }
        let container: Uri = self.container.parse()?;
        let (scheme, authority) = container.scheme_str().zip(container.authority()).context("no authority")?;
        Ok(format!("{scheme}://{authority}{url}"))
    }
}

impl Answer {
    /// The value of a header that occurs once.
    pub fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether a header that is a list has an element.
    pub fn lists(&self, name: &str, wanted: &str) -> bool {
        let values = self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
    }

    /// The links in its headers.
    pub fn links(&self) -> Vec<Link> {
        let values = self.headers.get_all(header::LINK).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(Link::parse_all).collect()
    }

    /// The target of the first link with a relation.
    pub fn link(&self, relation: &str) -> Option<String> {
        self.links().into_iter().find(|link| link.is(relation)).map(|link| link.target)
    }

    /// Whether a link says that it is of a type.
    pub fn is_of_type(&self, class: &str) -> bool {
        self.links().iter().any(|link| link.target == class && link.is("type"))
    }

    /// Refuses another status.
    pub fn expect(&self, status: StatusCode) -> Result<()> {
        ensure!(self.status == status, "status {} instead of {status}", self.status);
        Ok(())
    }

    /// Its body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
