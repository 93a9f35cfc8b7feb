//! The records door: records over the Redis protocol and over HTTP.
//!
//! How to read it:
//!
//! - [`Door`] and [`Settings`] below; `connection.rs` serves a connection, `session.rs` has its
//!   state and the commands about it, `clients.rs` all of them, `pipeline.rs` what is under way;
//! - `run.rs` runs commands on records, `transaction.rs` several on one, `watch.rs` if it is as it
//!   was; `fast.rs`: in mode fast; `admission.rs`: how many are at work; `meters.rs`: what is
//!   counted of them; `access.rs`: what a client may do, and how much of it;
//! - `request.rs`: requests, from the bytes that arrive; `words.rs`: the words of one command;
//!   `arity.rs`: how many there are;
//! - `commands/`: what each command does on a record, in a [`records::Draft`];
//! - `reply.rs`, `answer.rs` and `error.rs`: what a client gets;
//! - `walk.rs` and `cursors.rs`: commands about all records; `listing.rs`: about commands;
//! - `pattern.rs` and `random.rs`: choosing names;
//! - [`http`]: the same records over HTTP.

mod access;
mod admission;
mod answer;
mod arity;
mod clients;
mod commands;
mod connection;
mod cursors;
mod error;
mod fast;
pub mod http;
mod listing;
mod meters;
mod pattern;
mod pipeline;
mod random;
mod reply;
mod request;
mod run;
mod session;
mod transaction;
mod walk;
mod watch;
mod words;

use std::sync::Arc;
use std::time::Duration;

use budget::{Memory, Party};
use records::{Records, RecordsError};
use store::Deadline;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use access::{Access, Exceeded, Refused, RequestPace, Rights, Why, WrongPassword};
pub use clients::Ends;
pub use request::RequestLimits;

use admission::Admission;
use clients::Clients;
use connection::Connection;
use cursors::Cursors;
use meters::Meters;

/// What an operator decides about the door.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The time that a command may take, unless the connection asks for another.
    pub deadline: Duration,
    /// The longest time that a connection may ask for.
    pub deadline_max: Duration,
    /// How long a client may be silent between requests.
    pub silence_max: Duration,
    /// How long a client may read nothing of an answer.
    pub stall_max: Duration,
    /// Limits of one request.
    pub request: RequestLimits,
}

/// The names of the door's metrics.
#[derive(Clone, Copy, Debug)]
pub struct MetricNames {
    /// A counter of commands on records, by `kind` (`read`, `write`) and `outcome` (`answered`,
    /// `refused`, `limited`, `deadline`, `overloaded`, `unknown`, `damaged`).
    pub commands: &'static str,
    /// A histogram of the seconds from their arrival to their answer, by `kind`.
    pub duration: &'static str,
}

/// The door's metrics.
pub const METRICS: MetricNames =
    MetricNames { commands: "penates_records_commands_total", duration: "penates_records_command_seconds" };

/// So many commands on records are at work at once. Further ones wait, or are refused.
const COMMANDS_AT_WORK: usize = 1_024;

/// The door.
pub struct Door {
    records: Arc<Records>,
    access: Box<dyn Access>,
    memory: Memory,
    settings: Settings,
    cursors: Cursors,
    clients: Clients,
    admission: Admission,
    meters: Meters,
}

impl Door {
    /// A door to records. Large requests and answers take shares of `memory`.
    pub fn new(records: Arc<Records>, access: Box<dyn Access>, memory: Memory, settings: Settings) -> Arc<Self> {
        let admission = Admission::new(COMMANDS_AT_WORK);
        Arc::new(Self {
            records,
            access,
            memory,
            settings,
            cursors: Cursors::default(),
            clients: Clients::default(),
            admission,
            meters: Meters::default(),
        })
    }

    /// Refuses if the records of the store are in another mode than the door's.
    pub async fn check_mode(&self, deadline: Deadline) -> Result<(), RecordsError> {
        self.records.check_mode(deadline).await
    }

    /// How many commands and requests met a damaged record.
    pub fn damage_found(&self) -> u64 {
        self.meters.damage_found()
    }

    /// Serves a connection of a party until it ends. `ends` are the addresses that lists of
    /// connections show. `stop` lets the requests that are under way end.
    pub async fn serve(
        self: Arc<Self>,
        io: impl AsyncRead + AsyncWrite + Unpin,
        party: Party,
        ends: Ends,
        stop: CancellationToken,
    ) {
        Connection::new(self, io, party, ends).serve(stop).await;
    }
}
