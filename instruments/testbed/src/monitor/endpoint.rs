//! An HTTP endpoint that reports metrics as text.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::{MetricsSource, MonitorError};

/// How long an answer may take, its body included.
const PATIENCE: Duration = Duration::from_millis(900);

/// The longest body that is read.
const BODY_BYTES_MAX: usize = 8 << 20;

/// The endpoint.
#[derive(Debug)]
pub struct Endpoint {
    client: Client<HttpConnector, Full<Bytes>>,
    url: Uri,
    authorization: Option<HeaderValue>,
    patience: Duration,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It took too long.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The request failed.
    #[error("the request failed: {0}")]
    Request(#[from] hyper_util::client::legacy::Error),
    /// Another status than 200.
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    /// The body ended early or is too long.
    #[error("the body cannot be read: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The body is no text.
    #[error("the body is not UTF-8")]
    Text,
    /// The answer has not what was asked for.
    #[error("the answer makes no sense: {0}")]
    Answer(String),
}

impl Endpoint {
    /// The endpoint of a source.
    ///
    /// # Errors
    /// If the address does not begin with `http://` and a host, or the token has characters that
    /// no header may have.
    pub fn new(source: &MetricsSource) -> Result<Self, MonitorError> {
        let malformed = || MonitorError::Url(source.url.clone());
        let url: Uri = source.url.parse().map_err(|_| malformed())?;
        if url.scheme_str() != Some("http") || url.authority().is_none() {
            return Err(malformed());
        }
        let authorization = source.token.as_deref().map(bearer).transpose()?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        Ok(Self { client, url, authorization, patience: PATIENCE })
    }

    /// Waits so long for an answer.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Fetches the page.
    ///
    /// # Errors
    /// If there is none in time, or it is longer than 8 MiB.
    pub async fn fetch(&self) -> Result<String, FetchError> {
        self.ask(Request::new(Full::default())).await
    }

    /// Sends JSON, and returns the answer.
    ///
    /// # Errors
    /// Those of [`Endpoint::fetch`].
    pub async fn post(&self, json: Vec<u8>) -> Result<String, FetchError> {
        let mut request = Request::new(Full::from(json));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.ask(request).await
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<String, FetchError> {
        let late = |_| FetchError::Late(self.patience);
        tokio::time::timeout(self.patience, self.answer(request)).await.map_err(late)?
    }

    async fn answer(&self, mut request: Request<Full<Bytes>>) -> Result<String, FetchError> {
        *request.uri_mut() = self.url.clone();
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        }
        let (head, body) = self.client.request(request).await?.into_parts();
        if head.status != StatusCode::OK {
            return Err(FetchError::Status(head.status));
        }
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(FetchError::Body)?;
        String::from_utf8(body.to_bytes().into()).map_err(|_| FetchError::Text)
    }
}

fn bearer(token: &str) -> Result<HeaderValue, MonitorError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| MonitorError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::test_server::{Reply, Server};
    use super::*;

    fn source(url: &str, token: Option<&str>) -> MetricsSource {
        MetricsSource { url: url.to_owned(), token: token.map(str::to_owned), prefixes: vec![] }
    }

    /// What a server's reply to any request becomes. The time limit is one that no reply reaches.
    async fn fetched(reply: Reply) -> Result<String, FetchError> {
        let server = Server::start(move |_, _| reply.clone()).await;
        let mut endpoint = Endpoint::new(&source(&server.url, None)).unwrap();
        endpoint.patience = Duration::from_secs(60);
        endpoint.fetch().await
    }

    #[tokio::test]
    async fn a_page_is_fetched() {
        assert_eq!(fetched(Reply::page("up 1\n")).await.unwrap(), "up 1\n");
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_given_up() {
        let server = Server::start(|_, _| Reply::Never).await;
        let mut endpoint = Endpoint::new(&source(&server.url, None)).unwrap();
        endpoint.patience = Duration::from_millis(20);
        assert!(matches!(endpoint.fetch().await, Err(FetchError::Late(_))));
    }

    #[tokio::test]
    async fn the_time_limit_is_900_ms() {
        assert_eq!(Endpoint::new(&source("http://[::1]:9/", None)).unwrap().patience.as_millis(), 900);
    }

    #[tokio::test]
    async fn garbage_is_no_page() {
        let garbage = Bytes::from_static(b"up 1\n\xff\xfe\x00");
        assert!(matches!(fetched(Reply::Body(garbage)).await, Err(FetchError::Text)));
    }

    #[tokio::test]
    async fn a_page_of_8_mib_is_read_and_a_longer_one_is_not() {
        let page = |bytes| Reply::Body(Bytes::from(vec![b'\n'; bytes]));
        assert_eq!(fetched(page(8 << 20)).await.unwrap().len(), 8 << 20);
        assert!(matches!(fetched(page((8 << 20) + 1)).await, Err(FetchError::Body(_))));
        assert!(matches!(fetched(page(20 << 20)).await, Err(FetchError::Body(_))));
    }

    #[tokio::test]
    async fn another_status_and_a_closed_port_are_failures() {
        assert!(matches!(fetched(Reply::Status(503)).await, Err(FetchError::Status(status)) if status == 503));
        let server = Server::start(|_, _| Reply::Never).await;
        let endpoint = Endpoint::new(&source(&server.url, None)).unwrap();
        server.stop().await;
        assert!(matches!(endpoint.fetch().await, Err(FetchError::Request(_))));
    }

    #[tokio::test]
    async fn the_token_is_sent() {
        let server = Server::start(|_, authorization| match authorization {
            Some("Bearer secret") => Reply::page("up 1\n"),
            _ => Reply::Status(401),
        });
        let server = server.await;
        let fetch = async |token| Endpoint::new(&source(&server.url, token)).unwrap().fetch().await;
        assert_eq!(fetch(Some("secret")).await.unwrap(), "up 1\n");
        assert!(matches!(fetch(None).await, Err(FetchError::Status(status)) if status == 401));
    }

    #[tokio::test]
    async fn malformed_addresses_and_tokens_are_errors() {
        for url in ["", "/metrics", "https://localhost/metrics", "http://", "http://a b/"] {
            assert!(matches!(Endpoint::new(&source(url, None)), Err(MonitorError::Url(_))), "{url:?}");
        }
        let error = Endpoint::new(&source("http://localhost/", Some("a\nb"))).unwrap_err();
        assert!(matches!(error, MonitorError::Token));
    }
}
