//! The HTTP client that sends to the collector. It runs on the server's runtime, also for threads
//! of the OpenTelemetry library, which have none.

use std::fmt;
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use door_http::trust;
use http::uri::Scheme;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prost::Message;
use tokio::runtime::Handle;

/// How long one request may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// Bytes of a response that are read.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// How long a connection without requests is kept.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// A client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
}

impl Collector {
    /// A client on the present runtime, for a collector at this address. Fails if that has TLS and
    /// the system's root certificates cannot be read.
    pub(super) fn new(address: &str) -> Result<Self, BoxError> {
        let is_encrypted = address.parse::<Uri>().is_ok_and(|uri| uri.scheme() == Some(&Scheme::HTTPS));
        let builder = HttpsConnectorBuilder::new().with_tls_config(trust::client_config(is_encrypted)?);
        let connector = builder.https_or_http().enable_http1().build();
        let mut builder = Client::builder(TokioExecutor::new());
        let client = builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_MAX).build(connector);
        Ok(Self { client, runtime: Handle::current() })
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

impl Collector {
    /// Sends a message. Fails if the collector does not take it.
    pub(super) async fn post(&self, address: &str, message: &impl Message) -> Result<(), BoxError> {
        let request = Request::post(address)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(message.encode_to_vec())))?;
        let client = self.client.clone();
        let sending = async move {
            let response = client.request(request).await?;
            let status = response.status();
            // Once it is read, the connection serves again.
            Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await?;
            if status.is_success() { Ok(()) } else { Err(format!("the collector responded with {status}").into()) }
        };
        // The timer too is made on the runtime.
        self.runtime.spawn(async { tokio::time::timeout(ATTEMPT_MAX, sending).await }).await??
    }
}
