//! The transports of requests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::net::UnixStream;
use tower::ServiceExt;

use super::{Body, ClientError};
use crate::client::error::Cause;
use crate::exit::CliError;

/// A connection that was idle for so long is not used again. Servers close idle connections, ours
/// after `limits.header_time` (30 s), and a request that meets the end of one fails.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// After this time without a byte from the server, the system asks whether its machine is there
/// (TCP keep-alive, RFC 9293, section 3.8.4). A server is silent while it plans a long download,
/// and a connection that is dead looks the same.
const PROBED_AFTER: Duration = Duration::from_secs(30);

/// The time between these questions.
const PROBED_EVERY: Duration = Duration::from_secs(10);

/// Questions without an answer after which the connection is broken.
const PROBES_MAX: u32 = 3;

/// The transport of a request.
#[derive(Clone)]
pub(super) enum Transport {
    /// TCP, with TLS for https addresses.
    Network(Box<legacy::Client<HttpsConnector<HttpConnector>, Body>>),
    /// A Unix socket; each request has a connection of its own.
    Socket(PathBuf),
    /// A router in this process.
    InProcess(axum::Router),
}

impl Transport {
    /// TCP, with TLS that trusts the certificates of `ca_cert`, or those that the system trusts. A
    /// connection that is not encrypted needs none of them.
    pub(super) fn network(is_encrypted: bool, ca_cert: Option<&Path>) -> anyhow::Result<Self> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(is_encrypted, ca_cert)?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(watched());
        let mut client = legacy::Client::builder(TokioExecutor::new());
        Ok(Self::Network(Box::new(client.pool_idle_timeout(IDLE_MAX).build(connector))))
    }

    pub(super) async fn send(self, request: Request<Body>) -> Result<Response<Body>, ClientError> {
        match self {
            Self::Network(client) => {
                let again = repeatable(&request);
                let response = match (client.request(request).await, again) {
                    (Err(error), Some(again)) if !error.is_connect() => client.request(again).await,
                    (response, _) => response,
                };
                Ok(response.map_err(unreachable)?.map(|body| body.map_err(io::Error::other).boxed_unsync()))
            }
            Self::Socket(path) => over_socket(&path, request).await,
            Self::InProcess(router) => {
                let Ok(response) = router.oneshot(request).await;
                Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
            }
        }
    }
}

/// Connects by TCP. A connection that waits for an answer, and whose other end is gone, breaks within
/// about a minute. One that sends breaks when the system gives up sending again.
fn watched() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT_MAX));
    connector.set_keepalive(Some(PROBED_AFTER));
    connector.set_keepalive_interval(Some(PROBED_EVERY));
    connector.set_keepalive_retries(Some(PROBES_MAX));
    connector
}

/// The same request, if it may be sent a second time: it is safe, and has no body. A server may
/// close a connection at the moment when a client uses it again (RFC 9112, section 9.3.1).
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    let is_repeatable = request.method().is_safe() && request.body().is_end_stream();
    is_repeatable.then(|| {
        let mut again = Request::new(super::empty());
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.version_mut() = request.version();
        again.headers_mut().clone_from(request.headers());
        again
    })
}

async fn over_socket(path: &Path, mut request: Request<Body>) -> Result<Response<Body>, ClientError> {
    let stream = UnixStream::connect(path).await.map_err(unreachable)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
    // It ends with the response's body, or when that is dropped. The body reports how it ended.
    tokio::spawn(connection);
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    let response = sender.send_request(request).await.map_err(unreachable)?;
    Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
}

fn unreachable(error: impl Into<Cause>) -> ClientError {
    ClientError::Unreachable(error.into())
}

fn tls_config(is_encrypted: bool, ca_cert: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("setting up TLS")?;
    let builder = match ca_cert {
        Some(file) => builder.with_root_certificates(roots(file)?),
        None if is_encrypted => builder.with_native_roots().context(
            "reading the certificates that the system trusts (Debian package ca-certificates; --ca-cert names others)",
        )?,
        // A small image has none.
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

fn roots(file: &Path) -> anyhow::Result<RootCertStore> {
    let refused = |why: String| CliError::Usage(format!("--ca-cert {}: {why}", file.display()));
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| refused(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(refused("there is no certificate in it".to_owned()).into());
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Method;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;
    use crate::client::{empty, full, whole};

    /// Reads the head of a request, or the end of the connection.
    async fn read_head(stream: &mut TcpStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        String::from_utf8(head).unwrap()
    }

    /// A server that answers one request on each connection, and closes it at the next one. Returns
    /// its address.
    async fn closes_at_the_second() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                read_head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                read_head(&mut stream).await;
            }
        });
        format!("http://{address}/")
    }

    fn request(url: &str, method: Method, body: Body) -> Request<Body> {
        Request::builder().uri(url).method(method).body(body).unwrap()
    }

    #[tokio::test]
    async fn the_system_watches_whether_the_other_end_of_a_connection_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // The connector does not mind that HTTPS is wanted: what wraps it encrypts.
        let uri: Uri = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let stream = watched().oneshot(uri).await.unwrap().into_inner().into_std().unwrap();
        assert!(TcpSocket::from_std_stream(stream).keepalive().unwrap());
    }

    #[tokio::test]
    async fn a_request_that_meets_the_end_of_a_connection_is_repeated_if_it_is_safe() {
        let url = closes_at_the_second().await;
        let transport = Transport::network(false, None).unwrap();
        for _ in 0..3 {
            let response = transport.clone().send(request(&url, Method::GET, empty())).await.unwrap();
            assert_eq!(whole(response).await.unwrap(), "ok");
        }
    }

    #[tokio::test]
    async fn a_change_that_meets_the_end_of_a_connection_is_not_repeated() {
        let url = closes_at_the_second().await;
        let transport = Transport::network(false, None).unwrap();
        whole(transport.clone().send(request(&url, Method::GET, empty())).await.unwrap()).await.unwrap();
        let changed = transport.send(request(&url, Method::PUT, full("state"))).await;
        assert!(matches!(changed, Err(ClientError::Unreachable(_))), "{changed:?}");
    }
}
