//! Sends messages to message brokers: STOMP 1.2, AMQP 1.0. No feed, no TLS, no names.
//!
//! `address.rs` reads the address of a broker; `message.rs` is what is sent. The caller connects,
//! and gives the stream to a [`Connection`] (`connection.rs`), which logs in and sends. It sends
//! several messages at once, but never two with the same key (`window.rs`): so messages of one key
//! arrive in order. A message counts as sent when the broker has confirmed it.
//!
//! `wire.rs` reads, writes and keeps a connection alive; `driver.rs` sends over it, in a task. What
//! they say is the protocol's: `stomp/`, `amqp/`, each with its frames and its client.

mod address;
pub mod amqp;
mod connection;
mod driver;
mod error;
mod message;
pub mod stomp;
mod window;
mod wire;

pub use address::{Address, Protocol};
pub use connection::{Connection, Login, Sent, Settings};
pub use error::SendError;
pub use message::{Message, Value};
