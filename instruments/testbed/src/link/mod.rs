//! A proxy that makes loopback a longer link: bytes pass it at a rate and with a delay, in both
//! directions.
//!
//! It loses nothing, has no slow start, and its window is always large enough for its delay. So it
//! is faster than a real line of that rate and delay.

mod line;

use std::future::poll_fn;
use std::io::{Error, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::plan::{PlanError, invalid};
use crate::worker::failure::exhausted;
use line::Line;

/// The greatest number of bytes in one piece.
const PIECE_BYTES: usize = 64 << 10;
/// How long it waits if no connection can be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// The greatest rate of a link in a plan.
const MBIT_PER_S_MAX: u64 = 100_000;
/// The longest round trip of a link in a plan.
const ROUND_TRIP_MS_MAX: u64 = 10_000;

/// A longer link, as each connection has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Rate of each direction in Mbit/s (10⁶ bits per second); `None`: no proxy, loopback itself.
    #[serde(default)]
    pub mbit_per_s: Option<u64>,
    /// From a request to its response: half of it each way.
    #[serde(default)]
    pub round_trip_ms: u64,
}

impl Link {
    /// No proxy.
    pub const LOOPBACK: Self = Self { mbit_per_s: None, round_trip_ms: 0 };

    /// Bytes per second that it lets through, if it limits them.
    pub fn bytes_per_s(self) -> Option<u64> {
        self.mbit_per_s.map(|rate| rate * 1_000_000 / 8)
    }

    pub(crate) fn check(self) -> std::result::Result<(), PlanError> {
        if self.mbit_per_s.is_some_and(|rate| !(1..=MBIT_PER_S_MAX).contains(&rate)) {
            return Err(invalid("plan: link.mbit_per_s", format!("1 to {MBIT_PER_S_MAX}")));
        }
        if self.round_trip_ms > ROUND_TRIP_MS_MAX {
            return Err(invalid("plan: link.round_trip_ms", format!("at most {ROUND_TRIP_MS_MAX}")));
        }
        match self == Self::LOOPBACK {
            true => {
                Err(invalid("plan: link", "a rate, a round trip or both: { mbit_per_s = 100, round_trip_ms = 40 }"))
            }
            false => Ok(()),
        }
    }

    fn line(self) -> Line {
        Line::new(self.bytes_per_s(), Duration::from_micros(self.round_trip_ms * 500))
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.mbit_per_s {
            None => write!(out, "loopback")?,
            Some(rate) if rate % 1_000 == 0 => write!(out, "{} Gbit/s", rate / 1_000)?,
            Some(rate) => write!(out, "{rate} Mbit/s")?,
        }
        if self.round_trip_ms > 0 { write!(out, ", {} ms", self.round_trip_ms) } else { Ok(()) }
    }
}

/// What this machine had no more of when a proxy needed it: files, ports or memory for connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lack(Arc<Mutex<Option<&'static str>>>);

impl Lack {
    /// Keeps why there was no connection, if that is no fault of the server.
    pub fn note(&self, error: &Error) {
        if let Some(what) = exhausted(error) {
            *self.0.lock() = Some(what);
        }
    }

    /// What there was no more of since this was asked last.
    pub fn take(&self) -> Option<&'static str> {
        self.0.lock().take()
    }
}

/// A running proxy. It ends when the value is dropped.
pub struct Proxy {
    address: SocketAddr,
    lack: Lack,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of loopback and passes everything on to `to`.
    pub async fn start(link: Link, to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, lack) = (listener.local_addr()?, Lack::default());
        let accept = move |context: &mut Context<'_>| listener.poll_accept(context);
        let accepting = tokio::spawn(accept_all(accept, link, to, lack.clone()));
        Ok(Self { address, lack, accepting })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A proxy on a thread of its own. It ends when the value is dropped.
pub(crate) struct ProxyThread {
    address: SocketAddr,
    lack: Lack,
    _end: oneshot::Sender<()>,
}

impl ProxyThread {
    /// Starts a proxy that shares no thread with the load.
    pub fn start(link: Link, to: SocketAddr) -> Result<Self> {
        let (end, ended) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || {
            runtime.block_on(async move {
                let proxy = Proxy::start(link, to).await;
                let started = proxy.as_ref().map(|proxy| (proxy.address(), proxy.lack.clone()));
                // Whoever waits for the address is there.
                let _ = tell.send(started.map_err(|error| error.kind()));
                // Nothing is sent: the value is dropped.
                let _ = ended.await;
            });
        });
        let (address, lack) = told.recv().map_err(Error::other)?.map_err(Error::from)?;
        Ok(Self { address, lack, _end: end })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it lacks.
    pub fn lack(&self) -> Lack {
        self.lack.clone()
    }
}

/// Accepts connections for ever, and passes each on to `to`.
async fn accept_all(
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<Result<(TcpStream, SocketAddr)>>,
    link: Link,
    to: SocketAddr,
    lack: Lack,
) {
    loop {
        match poll_fn(&mut accept).await {
            Ok((client, _)) => {
                let lack = lack.clone();
                tokio::spawn(async move {
                    // Both ends of a broken connection notice it.
                    let _ = connect(link, client, to, &lack).await;
                });
            }
            // A client that has gone, or more connections than files for a moment.
            Err(error) => {
                lack.note(&error);
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn connect(link: Link, client: TcpStream, to: SocketAddr, lack: &Lack) -> Result<()> {
    // A connection takes one round trip; loopback made this one at once.
    tokio::time::sleep(Duration::from_millis(link.round_trip_ms)).await;
    let server = TcpStream::connect(to).await.inspect_err(|error| lack.note(error))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(relay(link.line(), from_client, to_server), relay(link.line(), from_server, to_client))?;
    Ok(())
}

/// A piece on its way.
struct Piece {
    bytes: Bytes,
    arrives_at: Instant,
    _place: OwnedSemaphorePermit,
}

/// Passes one direction on, to its end.
async fn relay(line: Line, from: impl AsyncRead + Unpin, to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    let (pieces, arriving) = mpsc::unbounded_channel();
    let (taken, delivered) = tokio::join!(take(line, from, pieces), deliver(arriving, to));
    taken.and(delivered)
}

/// Takes pieces as fast as the line can send them. No more of them are under way than fit on it.
async fn take(
    mut line: Line,
    mut from: impl AsyncRead + Unpin,
    pieces: mpsc::UnboundedSender<Piece>,
) -> std::io::Result<()> {
    let window = Arc::new(Semaphore::new(line.window_bytes().max(2 * PIECE_BYTES)));
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE_BYTES);
        // Reads at most the size of a piece: a buffer may be larger than what was reserved.
        let read = (&mut from).take(PIECE_BYTES as u64).read_buf(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let Ok(place) = window.clone().acquire_many_owned(read as u32).await else { return Ok(()) };
        let passage = line.send(Instant::now(), read);
        let piece = Piece { bytes: buffer.split().freeze(), arrives_at: passage.arrives_at, _place: place };
        if pieces.send(piece).is_err() {
            return Ok(());
        }
        wait_until(passage.sent_at).await;
    }
}

/// Delivers each piece when it arrives, and then the end.
async fn deliver(mut arriving: mpsc::UnboundedReceiver<Piece>, mut to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    while let Some(piece) = arriving.recv().await {
        wait_until(piece.arrives_at).await;
        to.write_all(&piece.bytes).await?;
    }
    to.shutdown().await
}

/// Timers have a resolution of a millisecond and are late rather than early: none is set for a past
/// time.
async fn wait_until(instant: Instant) {
    if instant > Instant::now() {
        tokio::time::sleep_until(instant.into()).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rustix::io::Errno;

    use super::*;

    #[tokio::test]
    async fn a_proxy_without_files_for_a_moment_keeps_that_and_accepts_again() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (to, address) = (server.local_addr().unwrap(), listener.local_addr().unwrap());
        let mut has_files = false;
        let accept = move |context: &mut Context<'_>| match std::mem::replace(&mut has_files, true) {
            true => listener.poll_accept(context),
            false => Poll::Ready(Err(Error::from(Errno::MFILE))),
        };
        let (lack, link) = (Lack::default(), Link { mbit_per_s: None, round_trip_ms: 1 });
        let accepting = tokio::spawn(accept_all(accept, link, to, lack.clone()));
        let _client = TcpStream::connect(address).await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), server.accept()).await.unwrap().unwrap();
        assert_eq!((lack.take(), lack.take()), (Some("too many open files"), None));
        accepting.abort();
    }

    #[tokio::test]
    async fn bytes_pass_a_proxy_unchanged_in_both_directions() {
        let echo = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let to = echo.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = echo.accept().await.unwrap();
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let link = Link { mbit_per_s: Some(100_000), round_trip_ms: 2 };
        let proxy = Proxy::start(link, to).await.unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| (number * 7 / 5) as u8).collect();

        let stream = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let writing = {
            let sent = sent.clone();
            tokio::spawn(async move {
                write.write_all(&sent).await.unwrap();
                write.shutdown().await.unwrap();
            })
        };
        let mut received = Vec::new();
        read.read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received == sent, "{} bytes came back of {}", received.len(), sent.len());
    }

    #[test]
    fn links_are_named_by_rate_and_round_trip() {
        let named = |mbit_per_s, round_trip_ms| Link { mbit_per_s, round_trip_ms }.to_string();
        assert_eq!(named(Some(1_000), 0), "1 Gbit/s");
        assert_eq!(named(Some(100), 40), "100 Mbit/s, 40 ms");
        assert_eq!(Link::LOOPBACK.to_string(), "loopback");
    }
}
