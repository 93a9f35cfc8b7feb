//! A connection to a broker that takes messages.

use std::time::Duration;

use store::Hidden;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::address::Protocol;
use crate::error::SendError;
use crate::message::Message;
use crate::{amqp, driver, stomp};

/// A user of a broker.
#[derive(Clone, Debug)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Hidden,
}

/// How messages are sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the broker speaks.
    pub protocol: Protocol,
    /// Its name, as the client knows it.
    pub host: String,
    /// What the client is called in the logs of the broker.
    pub client: String,
    /// Where messages go, as the broker names it.
    pub destination: String,
    /// As whom; `None`: as nobody.
    pub login: Option<Login>,
    /// How long logging in, and the confirmation of one message, may take.
    pub attempt_max: Duration,
    /// How often each side is to show that it is there.
    pub heart_beat: Duration,
    /// The tasks of connections.
    pub tasks: TaskTracker,
}

/// What came of some messages.
#[derive(Debug, Default)]
pub struct Sent {
    /// Of each message, in order, whether the broker has confirmed it. What is not confirmed may have
    /// arrived.
    pub confirmed: Vec<bool>,
    /// The first message that failed. Without one, some may have had no time.
    pub failed: Option<(usize, SendError)>,
}

/// Messages to be sent, and where the outcome is reported.
pub(crate) struct Request {
    pub(crate) messages: Vec<Message>,
    pub(crate) round: Duration,
    pub(crate) outcome: oneshot::Sender<Sent>,
}

/// A broker that takes messages. Dropping the value closes the connection, also while messages are on
/// their way. [`Settings::tasks`] shows when that is done.
#[derive(Debug)]
pub struct Connection {
    requests: mpsc::Sender<Request>,
}

impl Connection {
    /// Logs in over a stream that is connected.
    ///
    /// Errors: the broker refuses, or does not answer within `attempt_max`.
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        settings: Settings,
    ) -> Result<Self, SendError> {
        let (requests, taken) = mpsc::channel(1);
        let attempt_max = settings.attempt_max;
        let opened = async {
            match settings.protocol {
                Protocol::Stomp => driver::open::<_, stomp::client::Client>(stream, settings, taken).await,
                Protocol::Amqp => driver::open::<_, amqp::client::Client>(stream, settings, taken).await,
            }
        };
        tokio::time::timeout(attempt_max, opened).await.unwrap_or(Err(SendError::TimedOut(attempt_max)))?;
        Ok(Self { requests })
    }

    /// Whether the connection is there, as far as is known.
    pub fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Sends messages, those of one key in their order. None is begun after `round`, so it takes
    /// `round` and `attempt_max` at most. If it is dropped, nothing more is sent, and the connection
    /// ends.
    pub async fn send(&self, messages: Vec<Message>, round: Duration) -> Sent {
        let count = messages.len();
        let (outcome, sent) = oneshot::channel();
        let closed = || Sent { confirmed: vec![false; count], failed: Some((0, SendError::Closed)) };
        if self.requests.send(Request { messages, round, outcome }).await.is_err() {
            return closed();
        }
        sent.await.unwrap_or_else(|_| closed())
    }
}
