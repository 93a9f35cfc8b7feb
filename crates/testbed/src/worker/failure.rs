//! How a request fails, by kind: kinds are counted, so there are few.

use std::error::Error;
use std::io::{self, ErrorKind};

use crate::event::Outcome;

/// How a request failed.
#[derive(Debug)]
pub enum Failure {
    /// No answer in time.
    TimeOut,
    /// By another kind.
    Other(String),
}

impl Failure {
    /// A connection could not be made.
    pub fn of_connect(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Other("connection refused".to_owned()),
            ErrorKind::TimedOut => Self::TimeOut,
            _ => Self::Other(format!("connect: {}", error.kind())),
        }
    }

    /// A request or its response broke.
    pub fn of_http(error: hyper::Error) -> Self {
        let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let kind = match (io.map(io::Error::kind), error.is_incomplete_message()) {
            (Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), _) => "reset",
            (_, true) => "closed early",
            (Some(_), _) => "connection broke",
            (None, _) if error.is_parse() => "no HTTP",
            (None, _) => "protocol",
        };
        Self::Other(kind.to_owned())
    }

    /// As an outcome.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::TimeOut => Outcome::TimeOut,
            Self::Other(kind) => Outcome::Failed(kind),
        }
    }
}
