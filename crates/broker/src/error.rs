//! Why a message was not confirmed.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::{amqp, stomp};

/// Why a broker has not confirmed a message, or does not take messages at all.
#[derive(Debug, Error)]
pub enum SendError {
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Lost(#[from] io::Error),
    /// The broker closed the connection.
    #[error("the broker closed the connection")]
    Closed,
    /// The broker did not answer in time.
    #[error("the broker did not confirm within {0:?}")]
    TimedOut(Duration),
    /// The broker sent nothing for longer than agreed.
    #[error("the broker was silent for {0:?}")]
    Silent(Duration),
    /// The broker took nothing of what was to be sent.
    #[error("the broker took nothing for {0:?}")]
    Stalled(Duration),
    /// The broker refuses the login, the destination or the message.
    #[error("the broker refuses: {0}")]
    Refused(String),
    /// The broker sent what the protocol does not allow here.
    #[error("the broker does not keep to the protocol: {0}")]
    Protocol(String),
}

impl From<stomp::FrameError> for SendError {
    fn from(error: stomp::FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<amqp::FrameError> for SendError {
    fn from(error: amqp::FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl SendError {
    /// A refusal in the words of the broker, without characters that control a terminal or a log.
    pub(crate) fn refused(text: &str) -> Self {
        Self::Refused(printable(text))
    }

    /// A breach of the protocol.
    pub(crate) fn protocol(text: &str) -> Self {
        Self::Protocol(printable(text))
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
