//! Connections to the candidate over HTTP.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use super::failure::Failure;
use crate::plan::{Connections, Http, Keep};
use crate::scenario::Outgoing;

/// The most bytes of a body that a check looks at.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Where a candidate answers.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address to connect to.
    pub address: SocketAddr,
    /// The host and the port, as requests name them.
    pub host: HeaderValue,
}

/// The connections of a worker.
pub struct Connector {
    target: Target,
    connections: Connections,
    /// Connections that nobody uses, if users share them. The one that was used last comes first, so
    /// that those in excess grow old.
    idle: RefCell<Vec<Connection>>,
}

/// A connection.
pub enum Connection {
    /// HTTP/1.1
    One(http1::SendRequest<Full<Bytes>>),
    /// HTTP/2
    Two(http2::SendRequest<Full<Bytes>>),
}

/// A response that was received to its end.
pub struct Received {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its body, if it was to be kept.
    pub body: Vec<u8>,
    /// The length of its body.
    pub body_bytes: u64,
}

impl Connector {
    /// Connections to a target.
    pub fn new(target: Target, connections: Connections) -> Rc<Self> {
        Rc::new(Self { target, connections, idle: RefCell::default() })
    }

    /// A connection that is free, or a new one. The second is true if it was used before.
    pub async fn connection(&self, own: &mut Option<Connection>) -> Result<(Connection, bool), Failure> {
        while let Some(known) = own.take().or_else(|| self.idle.borrow_mut().pop()) {
            if known.is_open() {
                return Ok((known, true));
            }
        }
        Ok((self.connect().await?, false))
    }

    /// A new connection.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(self.target.address).await.map_err(Failure::of_connect)?;
        stream.set_nodelay(true).map_err(Failure::of_connect)?;
        let io = TokioIo::new(stream);
        match self.connections.http {
            Http::One => {
                let (sender, connection) = http1::handshake(io).await.map_err(Failure::of_http)?;
                // Its requests report how it ended.
                spawn_local(async move { drop(connection.await) });
                Ok(Connection::One(sender))
            }
            Http::Two => {
                let (sender, connection) = http2::handshake(LocalExecutor, io).await.map_err(Failure::of_http)?;
                spawn_local(async move { drop(connection.await) });
                Ok(Connection::Two(sender))
            }
        }
    }

    /// Gives a connection back after a response.
    pub fn give_back(&self, connection: Connection, own: &mut Option<Connection>) {
        match self.connections.keep {
            Keep::User => *own = Some(connection),
            Keep::Worker => self.idle.borrow_mut().push(connection),
            Keep::Request => {}
        }
    }

    /// A request in the form of the protocol.
    pub fn request(&self, outgoing: &Outgoing<'_>) -> Result<Request<Full<Bytes>>, Failure> {
        let not_sendable = |_| Failure::Other("a request that cannot be sent".to_owned());
        let uri: Uri = outgoing.path.parse().map_err(|error: http::uri::InvalidUri| not_sendable(error.to_string()))?;
        // An address that a step has saved is one of the candidate, whatever host it names.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = match self.connections.http {
            Http::One => path.to_owned(),
            Http::Two => format!("http://{}{path}", String::from_utf8_lossy(self.target.host.as_bytes())),
        };
        let mut request = Request::builder().method(outgoing.method).uri(uri);
        if let (Http::One, Some(headers)) = (self.connections.http, request.headers_mut()) {
            headers.insert(HOST, self.target.host.clone());
        }
        if let Some(headers) = request.headers_mut() {
            headers.extend(outgoing.headers.iter().cloned());
        }
        request.body(Full::new(outgoing.body.clone())).map_err(|error| not_sendable(error.to_string()))
    }
}

impl Connection {
    fn is_open(&self) -> bool {
        match self {
            Self::One(sender) => !sender.is_closed(),
            Self::Two(sender) => !sender.is_closed(),
        }
    }

    /// Sends a request. Returns when the head of the response is there.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<hyper::Response<Incoming>, hyper::Error> {
        match self {
            Self::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

impl Received {
    /// Receives a response to its end.
    pub async fn whole(response: hyper::Response<Incoming>, keeps_body: bool) -> Result<Self, Failure> {
        let (head, mut incoming) = response.into_parts();
        let (mut body, mut body_bytes) = (Vec::new(), 0);
        while let Some(frame) = incoming.frame().await {
            let Ok(piece) = frame.map_err(Failure::of_http)?.into_data() else { continue };
            body_bytes += piece.len() as u64;
            if keeps_body {
                if body.len() + piece.len() > KEPT_BYTES_MAX {
                    return Err(Failure::Other("a body of more than 64 MiB where a check looks at it".to_owned()));
                }
                body.extend_from_slice(&piece);
            }
        }
        Ok(Self { status: head.status, headers: head.headers, body, body_bytes })
    }
}

/// Runs the tasks of HTTP/2 on the thread of the worker.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(async move { drop(future.await) });
    }
}
