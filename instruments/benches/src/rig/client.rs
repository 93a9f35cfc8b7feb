//! The client of all servers: blocking, HTTP/1.1, one connection. It counts the bytes that it
//! receives and discards them.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    path: String,
    media_type: &'static str,
    body: Bytes,
}

impl Request {
    /// A `GET` of a path.
    pub fn get(path: &str) -> Self {
        Self { method: Method::GET, path: path.to_owned(), media_type: "", body: Bytes::new() }
    }

    /// A `POST` of ids, one per line.
    pub fn post(path: &str, ids: &str) -> Self {
        Self { method: Method::POST, media_type: "text/plain", body: ids.to_owned().into(), ..Self::get(path) }
    }

    /// A `POST` of a form.
    pub fn post_form(path: &str, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        Self { media_type: "application/x-www-form-urlencoded", ..Self::post(path, &body) }
    }
}

/// A response that was received to its end.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its header fields.
    pub headers: HeaderMap,
    /// Bytes of its body.
    pub body_bytes: u64,
}

impl Received {
    /// The value of a header field, if there is one.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A connection.
pub struct Client {
    /// Its tasks run on the thread of the caller.
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let sender = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            // Its requests report how it ended.
            tokio::spawn(async move { drop(connection.await) });
            anyhow::Ok(sender)
        })?;
        Ok(Self { runtime, sender })
    }

    /// Sends a request, receives the whole response, and discards it. A status other than 2xx is an
    /// error.
    pub fn fetch(&mut self, request: &Request) -> Result<Received> {
        self.fetch_into(request, |_| Ok(()))
    }

    /// The same, but passes the received bytes on.
    pub fn fetch_into(&mut self, request: &Request, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<Received> {
        let Self { runtime, sender } = self;
        let Request { method, path, media_type, body } = request;
        let sent = http::Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let sent = match media_type.is_empty() {
            true => sent,
            false => sent.header(header::CONTENT_TYPE, *media_type),
        };
        runtime.block_on(async {
            sender.ready().await?;
            let (head, mut incoming) = sender.send_request(sent.body(Full::new(body.clone()))?).await?.into_parts();
            ensure!(head.status.is_success(), "status {} to: {method} {path}", head.status);
            let mut body_bytes = 0;
            while let Some(frame) = incoming.frame().await {
                let Ok(piece) = frame?.into_data() else { continue };
                body_bytes += piece.len() as u64;
                take(&piece)?;
            }
            Ok(Received { headers: head.headers, body_bytes })
        })
    }

    /// The body as text.
    pub fn text(&mut self, request: &Request) -> Result<String> {
        let mut body = Vec::new();
        self.fetch_into(request, |bytes| {
            body.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(String::from_utf8(body)?)
    }
}
