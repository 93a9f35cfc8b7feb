//! Operations over the Redis protocol: a record is a hash with a field for each column.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use testbed::scenario::Head;
use testbed::worker::RespConnection;
use tokio::sync::Semaphore;

use crate::load::records::{COLUMNS, Columns, Place};
use crate::load::{Asked, Door};

/// Connections at once. An operation that finds all of them busy waits, and its latency counts from
/// when it was due.
const CONNECTIONS: usize = 64;

/// The names of the fields.
const FIELDS: [&[u8]; COLUMNS] = [b"C0", b"C1", b"C2", b"C3", b"C4"];

/// Connections that are used again and again.
pub(super) struct Connections {
    address: SocketAddr,
    free: Mutex<Vec<RespConnection>>,
    at_once: Semaphore,
}

impl Connections {
    /// Connections to an address. They are made when they are needed.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, free: Mutex::default(), at_once: Semaphore::new(CONNECTIONS) }
    }

    /// Where they lead.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a command. One that is refused has failed.
    async fn send(&self, words: &[&[u8]]) -> Result<(), String> {
        let _turn = self.at_once.acquire().await.map_err(|error| error.to_string())?;
        let free = self.free.lock().pop();
        let mut connection = match free {
            Some(connection) => connection,
            None => RespConnection::connect(self.address).await.map_err(|error| error.to_string())?,
        };
        let answer = connection.send(words).await.map_err(|error| error.to_string())?;
        self.free.lock().push(connection);
        match answer.head {
            Head::Error => Err(String::from_utf8_lossy(&answer.body).into_owned()),
            _ => Ok(()),
        }
    }

    async fn write(&self, place: Place, columns: Columns) -> Result<(), String> {
        let mut words: Vec<&[u8]> = vec![b"HSET", place.key.as_bytes()];
        words.extend(FIELDS.iter().zip(&columns).flat_map(|(field, value)| [*field, value.as_slice()]));
        self.send(&words).await
    }
}

impl Door for Connections {
    async fn make(self: Arc<Self>, asked: Asked) -> Result<(), String> {
        match asked {
            Asked::Write(place, columns) => self.write(place, columns).await,
            Asked::Read(place) => self.send(&[b"HGETALL", place.key.as_bytes()]).await,
            Asked::Delete(place) => self.send(&[b"DEL", place.key.as_bytes()]).await,
        }
    }

    async fn fill(&self, place: Place, columns: Columns) -> Result<(), String> {
        self.write(place, columns).await
    }
}
