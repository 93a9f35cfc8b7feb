//! The client of all stages: one connection, HTTP/1.1, plain or over TLS, all in one task.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::unpack::Unpacker;

/// The protocol over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/1.1 over TLS 1.3.
    Https,
}

/// The client's treatment of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// It counts the bytes and discards them.
    Receives,
    /// It inflates every entry and checks its CRC-32, in the thread that receives.
    Unpacks,
}

/// A request: a POST of ids, one per line, or a GET if there are none.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Path and query.
    pub path: String,
    /// The ids.
    pub ids: Bytes,
}

/// The received bytes of all responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the bodies.
    pub zip_bytes: u64,
    /// Bytes of text, if the client unpacked.
    pub text_bytes: Option<u64>,
}

/// A client of one server.
pub struct Client {
    tls: TlsConnector,
}

impl Client {
    /// A client that trusts only this certificate (PEM).
    pub fn new(certificate: &Path) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate).context("reading the server's certificate")?)?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Each connection is made like the first.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Connects, sends the request `passes` times, one after the other, and reads all responses to
    /// their ends.
    pub async fn fetch(
        &self,
        address: SocketAddr,
        protocol: Protocol,
        ask: &Ask,
        passes: u32,
        task: Task,
    ) -> Result<Received> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        match protocol {
            Protocol::Http => exchange(stream, ask, passes, task).await,
            Protocol::Https => {
                let stream = self.tls.connect(ServerName::try_from("localhost")?, stream).await?;
                exchange(stream, ask, passes, task).await
            }
        }
    }
}

async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, ask: &Ask, passes: u32, task: Task) -> Result<Received> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let asking = async move {
        let mut received = Received::default();
        for _ in 0..passes {
            let answer = receive(&mut sender, ask, task).await?;
            received.zip_bytes += answer.zip_bytes;
            received.text_bytes = answer.text_bytes.map(|bytes| bytes + received.text_bytes.unwrap_or(0));
        }
        anyhow::Ok(received)
    };
    // The connection ends once its sender is dropped, with `asking`. If it ends earlier, `asking`
    // gets an error.
    let (received, _) = tokio::join!(asking, connection);
    received
}

async fn receive(sender: &mut SendRequest<Full<Bytes>>, ask: &Ask, task: Task) -> Result<Received> {
    let method = if ask.ids.is_empty() { Method::GET } else { Method::POST };
    let request = Request::builder()
        .method(method)
        .uri(&ask.path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "text/plain")
        .body(Full::new(ask.ids.clone()))?;
    let response = sender.send_request(request).await?;
    ensure!(response.status() == StatusCode::OK, "{} is answered with {}", ask.path, response.status());
    let mut unpacker = (task == Task::Unpacks).then(Unpacker::default);
    let (mut body, mut zip_bytes) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        zip_bytes += data.len() as u64;
        if let Some(unpacker) = &mut unpacker {
            unpacker.take(&data)?;
        }
    }
    let contents = unpacker.map(Unpacker::end).transpose()?;
    Ok(Received { zip_bytes, text_bytes: contents.map(|contents| contents.text_bytes) })
}
