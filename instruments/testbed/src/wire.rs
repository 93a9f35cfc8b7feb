//! What a coordinator and a worker or a monitor say to each other: messages with their length before them
//! (four bytes), in postcard. Both are the same program.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::inputs::Files;
use crate::reach::Reach;
use crate::record::{Machine, ProcessRecord, Program};

/// The version of these messages.
pub const VERSION: u32 = 7;

/// The most bytes of a message before both sides have shown that they know the token.
const STRANGERS_BYTES_MAX: usize = 4 << 10;
/// The most bytes of any message: a job with all its files.
const BYTES_MAX: usize = (1 << 30) + (64 << 20);
/// How long a connection may be idle until it is looked whether the other side is there, and how often.
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVES: u32 = 3;
/// Bytes of events in one message.
pub const EVENTS_BYTES: usize = 256 << 10;

/// A number that one side uses once.
pub type Nonce = [u8; 32];
/// That one side knows the token: HMAC-SHA-256 (RFC 2104) with the token as the key.
pub type Proof = [u8; 32];

/// What a coordinator says.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first message.
    Hello {
        /// [`VERSION`]
        version: u32,
        /// A number that is used once.
        nonce: Nonce,
    },
    /// The coordinator knows the token.
    Proof(Proof),
    /// What does your clock say?
    Clock,
    /// Get ready for this.
    Prepare(Box<Job>),
    /// A piece of the worker's part of an access log; after [`ToWorker::Prepare`], if the plan replays one.
    Part(Bytes),
    /// There are no further pieces.
    PartEnd,
    /// Make the units of the fill now.
    Fill,
    /// Make no more units: one of another worker has failed.
    StopFill,
    /// To a monitor: sample from this instant of its own clock on, in microseconds since 1970.
    Watch {
        /// The instant.
        unix_us: i64,
    },
    /// To a monitor: the load has ended; send what was sampled.
    EndWatch,
    /// Begin the load, with its warm-up, at this instant of the worker's own clock, in microseconds
    /// since 1970.
    Start {
        /// The instant.
        unix_us: i64,
    },
    /// How much of the processors do others use now? Takes as long as they are watched for that.
    Others,
    /// To a monitor: which processes of the candidate do you watch?
    Processes,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToCoordinator {
    /// The answer to [`ToWorker::Hello`].
    Challenge {
        /// A number that is used once.
        nonce: Nonce,
    },
    /// The answer to [`ToWorker::Proof`]: the worker knows the token, too.
    Proof(Proof),
    /// Follows it.
    Welcome {
        /// The worker's program.
        program: Program,
        /// The worker's machine.
        machine: Box<Machine>,
        /// Its command line.
        command: Vec<String>,
    },
    /// The worker's clock, in microseconds since 1970.
    Clock {
        /// The instant.
        unix_us: i64,
    },
    /// It is ready.
    Ready,
    /// It cannot, for this reason.
    Refused(String),
    /// What it has done so far; once a second.
    Progress(Progress),
    /// All its users are done.
    Finished {
        /// Processor time since the start instant, in seconds.
        cpu_s: f64,
        /// The share of a processor that the thread of the load used until the last user had arrived.
        load_share: f64,
        /// The longest time in which its thread did nothing, in milliseconds.
        longest_stall_ms: f64,
        /// Bytes of memory that its process had at the start instant.
        memory_at_start_bytes: Option<u64>,
        /// The most bytes of memory that it had from then on.
        memory_peak_bytes: Option<u64>,
    },
    /// Its part of the fill has ended, after the events of it.
    Filled {
        /// How long it took, in seconds.
        seconds: f64,
        /// What it has done.
        progress: Progress,
    },
    /// Of a monitor, before its samples: what it could not sample, and why.
    NotSampled(Vec<String>),
    /// A piece of its events.
    Events(Bytes),
    /// Of a monitor, after its samples: a log that it has followed. Pieces of it come next.
    Log {
        /// Its file.
        name: String,
        /// How many bytes of it there were, and when, in seconds since the start instant.
        lengths: Vec<(f64, u64)>,
    },
    /// A piece of the log that was named last.
    LogPiece(Bytes),
    /// There are no further events.
    End,
    /// The answer to [`ToWorker::Others`]; `None` if it does not know.
    Others(Option<f64>),
    /// The answer to [`ToWorker::Processes`].
    Processes(Vec<ProcessRecord>),
}

/// What a worker has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The plan, as TOML.
    pub plan: String,
    /// The scenarios and the files of the plan.
    pub scenarios: Vec<(String, String)>,
    /// The files of their feeds.
    pub files: Files,
    /// The scenario of the fill.
    pub fill: Option<(String, String)>,
    /// How the candidate is reached.
    pub reach: Reach,
    /// The worker's number, from 0.
    pub worker: u32,
}

/// What a worker has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Users that were due.
    pub due: u64,
    /// Requests that were sent and have ended.
    pub sent: u64,
    /// Requests that were done.
    pub done: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that failed in any other way.
    pub failed: u64,
    /// Users that are active.
    pub users: u64,
    /// Whether this is the fill, and not the load.
    pub is_fill: bool,
}

/// Why a message did not arrive.
#[derive(Debug, Error)]
pub enum WireError {
    /// The other side has gone.
    #[error("the connection was closed")]
    Closed,
    /// The connection broke, or a message was too long.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is no message of this version.
    #[error("a message that makes no sense: {0}")]
    Invalid(#[from] postcard::Error),
}

/// A connection between a coordinator and a worker.
pub struct Wire(Framed<TcpStream, LengthDelimitedCodec>);

impl Wire {
    /// A connection to a peer that has not shown yet that it knows the token.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        // Neither side waits for ever for one that vanished without a word.
        set_socket_keepalive(&stream, true)?;
        set_tcp_keepidle(&stream, KEEPALIVE)?;
        set_tcp_keepintvl(&stream, KEEPALIVE)?;
        set_tcp_keepcnt(&stream, KEEPALIVES)?;
        Ok(Self(LengthDelimitedCodec::builder().max_frame_length(STRANGERS_BYTES_MAX).new_framed(stream)))
    }

    /// The peer knows the token: messages may be long.
    pub fn trust(&mut self) {
        self.0.codec_mut().set_max_frame_length(BYTES_MAX);
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &impl Serialize) -> Result<(), WireError> {
        Ok(self.0.send(Bytes::from(postcard::to_stdvec(message)?)).await?)
    }

    /// Receives a message.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, WireError> {
        let message = self.0.next().await.ok_or(WireError::Closed)??;
        Ok(postcard::from_bytes(&message)?)
    }
}
