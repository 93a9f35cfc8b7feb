//! One client for every way to reach the doors: TCP, TLS, a Unix socket, or a router in this
//! process.

mod body;
mod error;
pub mod multipart;
mod transport;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, TryStreamExt};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::request::Builder;
use http::uri::Scheme;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::io::AsyncBufReadExt;
use tokio_util::io::StreamReader;

pub use body::{Body, empty, full, stream};
pub use error::ClientError;
use transport::Transport;

use crate::exit::CliError;

/// The greatest length of a response that is read as a whole (a description, a report, an error).
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A client of the doors of one server, or of the router in this process.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    /// Scheme, authority, and the prefix of all paths.
    base: String,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// A client of a server at an `http://` or `https://` address. It trusts the certificates in
    /// `ca_cert`, or by default those that the system trusts.
    pub fn network(server: &str, token: Option<&str>, ca_cert: Option<&Path>) -> anyhow::Result<Self> {
        let usage = |detail: String| CliError::Usage(format!("--server {server}: {detail}"));
        let uri: Uri = server.parse().map_err(|error: http::uri::InvalidUri| usage(error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.authority().is_none() || uri.query().is_some() {
            return Err(usage("must be http://HOST[:PORT][/PATH] or https://…".to_owned()).into());
        }
        let authorization = token.map(bearer).transpose()?;
        let base = server.trim_end_matches('/').to_owned();
        let is_encrypted = uri.scheme() == Some(&Scheme::HTTPS);
        Ok(Self { transport: Transport::network(is_encrypted, ca_cert)?, base, authorization })
    }

    /// A client of the server that listens on a Unix socket.
    pub fn socket(path: PathBuf) -> Self {
        Self { transport: Transport::Socket(path), base: "http://localhost".to_owned(), authorization: None }
    }

    /// A client of a router in this process.
    pub fn in_process(router: axum::Router) -> Self {
        Self { transport: Transport::InProcess(router), base: "http://localhost".to_owned(), authorization: None }
    }

    /// Sends a request for `path` (with its query, percent-encoded) and returns the response,
    /// success or not.
    pub fn send(
        &self,
        path: &str,
        request: Builder,
        body: Body,
    ) -> BoxFuture<'static, Result<Response<Body>, ClientError>> {
        let (transport, authorization) = (self.transport.clone(), self.authorization.clone());
        let request = request.uri(format!("{}{path}", self.base)).body(body);
        Box::pin(async move {
            let mut request: Request<Body> = request?;
            request.headers_mut().entry(USER_AGENT).or_insert_with(agent_value);
            if let Some(authorization) = authorization {
                request.headers_mut().insert(AUTHORIZATION, authorization);
            }
            transport.send(request).await
        })
    }

    /// Sends a request and returns a success, or the server's error.
    pub async fn ask(&self, path: &str, request: Builder, body: Body) -> Result<Response<Body>, ClientError> {
        let response = self.send(path, request, body).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(ClientError::of_response(response).await)
    }

    /// A path from the server, without the prefix that this client adds to all paths.
    pub fn relative<'a>(&self, path: &'a str) -> &'a str {
        let base_path = self.base.splitn(4, '/').nth(3);
        let rest = base_path.and_then(|base_path| path.strip_prefix('/')?.strip_prefix(base_path));
        rest.filter(|rest| rest.starts_with('/')).unwrap_or(path)
    }

    /// A GET with a streamed response; `accept` names the media type.
    pub async fn get(&self, path: &str, accept: &str) -> Result<Response<Body>, ClientError> {
        self.ask(path, Request::builder().method(Method::GET).header(ACCEPT, accept), empty()).await
    }

    /// A GET of lines, as they arrive.
    pub async fn get_lines(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<impl Stream<Item = Result<String, ClientError>> + use<>, ClientError> {
        Ok(lines(self.get(path, accept).await?))
    }

    /// A GET of a JSON value.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        json(self.get(path, "application/json").await?).await
    }

    /// A request without a body and with a JSON response.
    pub async fn ask_json<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T, ClientError> {
        let request = Request::builder().method(method).header(ACCEPT, "application/json");
        json(self.ask(path, request, empty()).await?).await
    }

    /// A POST of a form.
    pub async fn post_form(&self, path: &str, form: String, accept: &str) -> Result<Response<Body>, ClientError> {
        let request = Request::builder()
            .method(Method::POST)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, accept);
        self.ask(path, request, full(form)).await
    }
}

/// The name of this program, its version and the command, by which the audit knows it.
pub fn agent() -> &'static str {
    static AGENT: OnceLock<String> = OnceLock::new();
    AGENT.get_or_init(|| {
        let command = std::env::args()
            .nth(1)
            .filter(|command| command.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        let command = command.map(|command| format!(" ({command})")).unwrap_or_default();
        format!("penates/{}{command}", env!("CARGO_PKG_VERSION"))
    })
}

fn agent_value() -> HeaderValue {
    HeaderValue::from_static(agent())
}

/// The header with a token.
fn bearer(token: &str) -> anyhow::Result<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| CliError::Usage("the token contains invalid characters".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

/// The whole body of a response.
pub async fn whole(response: Response<Body>) -> Result<Bytes, ClientError> {
    let limited = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    Ok(limited.collect().await.map_err(ClientError::Broken)?.to_bytes())
}

/// The lines of a response, as they arrive.
pub fn lines(response: Response<Body>) -> impl Stream<Item = Result<String, ClientError>> + use<> {
    let body = response.into_body().into_data_stream();
    let lines = StreamReader::new(body.map_err(io::Error::other)).lines();
    futures::stream::try_unfold(lines, async |mut lines| {
        let line = lines.next_line().await.map_err(|error| ClientError::Broken(error.into()))?;
        Ok(line.map(|line| (line, lines)))
    })
}

/// The JSON value of a response.
pub async fn json<T: DeserializeOwned>(response: Response<Body>) -> Result<T, ClientError> {
    Ok(serde_json::from_slice(&whole(response).await?)?)
}

/// A volume id as one segment of a path.
pub fn segment(id: &hathi::VolumeId) -> String {
    id.path_segment()
}

/// Text as a value in a query or a form.
pub fn query_value(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Everything but the unreserved characters of RFC 3986 section 2.3.
const UNRESERVED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_from_the_server_is_requested_below_the_same_prefix() {
        let client = |server| Client::network(server, None, None).unwrap();
        assert_eq!(client("http://h:1").relative("/selections/7"), "/selections/7");
        assert_eq!(client("http://h:1/data-api/").relative("/data-api/selections/7"), "/selections/7");
        assert_eq!(client("http://h:1/data").relative("/data-api/selections/7"), "/data-api/selections/7");
    }

    #[test]
    fn an_invalid_address_is_a_mistake_of_usage() {
        for server in ["localhost:8080", "ftp://here", "http://", "http://h/?a=b", "not an address"] {
            let error = Client::network(server, None, None).err().unwrap();
            assert!(matches!(error.downcast_ref(), Some(CliError::Usage(_))), "{server}: {error}");
        }
    }

    #[test]
    fn a_token_is_never_shown_by_debug() {
        assert!(!format!("{:?}", bearer("secret-token").unwrap()).contains("secret"));
    }
}
