//! How a request fails, by kind: kinds are counted, so there are few.

use std::error::Error;
use std::io::{self, ErrorKind};

use rustix::io::Errno;
use thiserror::Error;

use crate::event::{OF_GENERATOR, Outcome};
use crate::tls;

/// What this machine has no more of, if there is no connection for that.
pub(crate) fn exhausted(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE | Errno::NFILE => Some("too many open files"),
        Errno::ADDRNOTAVAIL => Some("no port is free"),
        Errno::NOBUFS | Errno::NOMEM => Some("no memory for connections"),
        _ => None,
    }
}

/// How a request failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// No answer in time.
    #[error("time-out")]
    TimeOut,
    /// The server has closed a connection that nobody used, and has not seen the request.
    #[error("closed early")]
    Unseen,
    /// By another kind.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// A connection could not be made.
    pub fn of_connect(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Other("connection refused".to_owned()),
            ErrorKind::TimedOut => Self::TimeOut,
            _ => match exhausted(&error) {
                Some(what) => Self::of_generator(what),
                None => Self::Other(format!("connect: {}", error.kind())),
            },
        }
    }

    /// TLS did not begin.
    pub fn of_tls(error: io::Error) -> Self {
        match tls::failure(&error) {
            Some(kind) => Self::Other(kind.to_owned()),
            None => Self::of_io(error),
        }
    }

    /// This machine has no more to give.
    pub(crate) fn of_generator(what: &str) -> Self {
        Self::Other(format!("{OF_GENERATOR}{what}"))
    }

    /// A request or its response broke.
    pub fn of_http(error: hyper::Error) -> Self {
        // The connection was closed before the request was written.
        if error.is_canceled() || error.is_closed() {
            return Self::Unseen;
        }
        match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
            Some(io) => Self::of_io(io.kind().into()),
            None if error.is_incomplete_message() => Self::of_io(ErrorKind::UnexpectedEof.into()),
            None if error.is_parse() => Self::Other("no HTTP".to_owned()),
            None => Self::Other("protocol".to_owned()),
        }
    }

    /// A connection broke.
    pub fn of_io(error: io::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "reset",
            ErrorKind::UnexpectedEof => "closed early",
            _ => "connection broke",
        };
        Self::Other(kind.to_owned())
    }

    /// As an outcome.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::TimeOut => Outcome::TimeOut,
            failed => Outcome::Failed(failed.to_string()),
        }
    }
}
