//! Connections to the candidate, how users share them, and what goes over them.

use std::cell::RefCell;
use std::rc::Rc;

use ::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use http_body_util::Full;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::failure::Failure;
use super::http::{self, HttpConnection};
use super::resp::{self, RespConnection};
use super::target::Target;
use crate::plan::{Connections, Http, Keep};
use crate::scenario::{Answer, Outgoing, Protocol};
use crate::tls::Tls;

/// The most bytes of an answer that is kept in memory.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The connections of a worker.
pub struct Connector {
    target: Target,
    tls: Option<Tls>,
    /// Header fields of all requests.
    headers: Vec<(HeaderName, HeaderValue)>,
    connections: Connections,
    /// The connection that all users have, if it takes many requests at once.
    common: RefCell<Option<Connection>>,
    /// Connections that nobody uses, if users share them. The one that was used last comes first, so
    /// that those in excess grow old. A request looks only at the one that it takes: there may
    /// be thousands.
    idle: RefCell<Vec<Connection>>,
    /// Is held while a connection is made that all share.
    making: Mutex<()>,
}

/// What a request has reached.
pub enum Reached {
    /// It is being sent: the connection takes it.
    Sent,
    /// The beginning of the answer is there, with the status if the protocol has one.
    Head(Option<u16>),
}

/// Is called with what a request has reached.
pub type OnReached<'a> = &'a mut dyn FnMut(Reached);

/// A connection.
pub enum Connection {
    /// Over HTTP.
    Http(HttpConnection),
    /// Over the Redis protocol.
    Resp(RespConnection),
}

/// A request in the form of its protocol.
pub enum Request {
    /// Over HTTP.
    Http(Box<::http::Request<Full<Bytes>>>),
    /// Over the Redis protocol.
    Resp(Bytes),
}

impl Connector {
    /// Connections to a target.
    pub fn new(
        target: Target,
        tls: Option<Tls>,
        headers: Vec<(HeaderName, HeaderValue)>,
        connections: Connections,
    ) -> Rc<Self> {
        let (common, idle, making) = Default::default();
        Rc::new(Self { target, tls, headers, connections, common, idle, making })
    }

    /// Connections to the same target, of its own, that users share in another way.
    pub fn with_keep(&self, keep: Keep) -> Rc<Self> {
        let connections = Connections { keep, ..self.connections.clone() };
        Self::new(self.target.clone(), self.tls.clone(), self.headers.clone(), connections)
    }

    /// A connection that is free, or a new one. The second is true if it was used before.
    pub async fn connection(&self, own: &mut Option<Connection>) -> Result<(Connection, bool), Failure> {
        if let Some(common) = self.common() {
            return Ok((common, true));
        }
        // One user makes the connection that all share; the others wait for it.
        let _making = if self.is_shared() { Some(self.making.lock().await) } else { None };
        if let Some(common) = self.common() {
            return Ok((common, true));
        }
        while let Some(known) = own.take().or_else(|| self.idle.borrow_mut().pop()) {
            if known.is_open() {
                return Ok((known, true));
            }
        }
        let connection = self.connect().await?;
        if self.connections.keep == Keep::Worker
            && let Some(common) = connection.share()
        {
            self.common.replace(Some(common));
        }
        Ok((connection, false))
    }

    /// A connection for a request that another one, which the server had closed, did not take.
    pub async fn another(&self) -> Result<Connection, Failure> {
        match self.is_shared() {
            true => Ok(self.connection(&mut None).await?.0),
            false => self.connect().await,
        }
    }

    /// Whether all users of the worker have one connection, which takes many requests at once.
    fn is_shared(&self) -> bool {
        let Connections { keep, http, .. } = self.connections;
        self.target.protocol == Protocol::Http && keep == Keep::Worker && http == Http::Two
    }

    /// The connection that all users have, once more, if it is there and open.
    fn common(&self) -> Option<Connection> {
        let mut common = self.common.borrow_mut();
        let open = common.take().filter(Connection::is_open)?;
        common.insert(open).share()
    }

    /// A new connection.
    async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(self.target.address).await.map_err(Failure::of_connect)?;
        stream.set_nodelay(true).map_err(Failure::of_connect)?;
        match self.target.protocol {
            Protocol::Resp => Ok(Connection::Resp(RespConnection::new(stream))),
            Protocol::Http => {
                let version = self.connections.http;
                let connection = match &self.tls {
                    Some(tls) => HttpConnection::new(tls.begin(stream).await.map_err(Failure::of_tls)?, version).await,
                    None => HttpConnection::new(stream, version).await,
                };
                Ok(Connection::Http(connection?))
            }
        }
    }

    /// Gives a connection back after an answer.
    pub fn give_back(&self, connection: Connection, own: &mut Option<Connection>) {
        match self.connections.keep {
            Keep::User => *own = Some(connection),
            // All users have it already.
            Keep::Worker if connection.share().is_some() => {}
            Keep::Worker => self.idle.borrow_mut().push(connection),
            Keep::Request => {}
        }
    }

    /// The path of a request over HTTP.
    pub fn path(&self, outgoing: &Outgoing<'_>, base: &str) -> Option<String> {
        match outgoing {
            Outgoing::Http(request) => http::path(&request.path, base).ok(),
            Outgoing::Command(_) => None,
        }
    }

    /// A request in the form of its protocol. `base` is the path of the one before.
    pub fn request(&self, outgoing: &Outgoing<'_>, base: &str) -> Result<Request, Failure> {
        match outgoing {
            Outgoing::Http(request) => {
                let path = http::path(&request.path, base)?;
                let version = self.connections.http;
                let request = http::request(request, &path, version, &self.target, &self.headers)?;
                Ok(Request::Http(Box::new(request)))
            }
            Outgoing::Command(words) => Ok(Request::Resp(resp::request(words)?)),
        }
    }
}

impl Connection {
    /// The same connection once more, if its protocol lets many requests use it at once.
    fn share(&self) -> Option<Self> {
        match self {
            Self::Http(connection) => connection.share().map(Self::Http),
            Self::Resp(_) => None,
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Http(connection) => connection.is_open(),
            Self::Resp(connection) => connection.is_open(),
        }
    }

    /// Sends a request, and receives its answer to the end.
    pub async fn exchange(&mut self, request: Request, keeps_body: bool, on: OnReached<'_>) -> Result<Answer, Failure> {
        match (self, request) {
            (Self::Http(connection), Request::Http(request)) => connection.exchange(*request, keeps_body, on).await,
            (Self::Resp(connection), Request::Resp(command)) => connection.exchange(&command, on).await,
            // The steps and the address of a job were compared before it began.
            _ => Err(Failure::Other("a request of another protocol".to_owned())),
        }
    }
}
