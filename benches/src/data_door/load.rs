//! Many small requests over many connections, each sent when its connection has its answer (a closed loop): one thread and as few
//! system calls as such a client can do with, because it shares the processors with the server.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::rig::client;

/// The longest answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long nothing may come at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came out.
pub struct Load {
    /// Answers.
    pub answers: u64,
    /// In how many seconds.
    pub seconds: f64,
    /// How long each took, in microseconds.
    pub latencies_us: Histogram<u64>,
}

impl Load {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.seconds
    }

    /// Milliseconds that so much of all answers took at most (0 to 1).
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latencies_us.value_at_quantile(quantile) as f64 / 1e3
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    sent: Instant,
}

/// Sends requests for a while; `next` gives the bytes of each. Every answer must be a 200 with a length.
pub fn run<'a>(
    address: SocketAddr,
    connections: usize,
    duration: Duration,
    mut next: impl FnMut() -> &'a [u8],
) -> Result<Load> {
    let mut poll = Poll::new()?;
    let mut all = Vec::with_capacity(connections);
    let begun = Instant::now();
    for index in 0..connections {
        let stream = client::open(address)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
        let mut connection = Connection { stream, buffer: vec![0; ANSWER_BYTES_MAX], filled: 0, sent: begun };
        connection.send(next())?;
        all.push(connection);
    }
    let mut load = Load { answers: 0, seconds: 0.0, latencies_us: Histogram::new(3)? };
    let mut events = Events::with_capacity(connections);
    let mut waiting = connections;
    while waiting > 0 {
        poll.poll(&mut events, Some(PATIENCE))?;
        ensure!(!events.is_empty(), "no answer for {PATIENCE:?}");
        for event in &events {
            let connection = &mut all[event.token().0];
            if !connection.receive()? {
                continue;
            }
            load.answers += 1;
            load.latencies_us.record(connection.sent.elapsed().as_micros() as u64)?;
            if begun.elapsed() < duration {
                connection.send(next())?;
            } else {
                waiting -= 1;
            }
        }
    }
    load.seconds = begun.elapsed().as_secs_f64();
    Ok(load)
}

impl Connection {
    fn send(&mut self, request: &[u8]) -> Result<()> {
        self.filled = 0;
        self.sent = Instant::now();
        // It is small, and what was sent before has been taken: there is room for it.
        self.stream.write_all(request).context("a request could not be sent at once")
    }

    /// Takes what has come; whether that completes the answer.
    ///
    /// After an answer nothing more comes until the next request, so that reading until there is nothing more, as edges ask for,
    /// can be left out then.
    fn receive(&mut self) -> Result<bool> {
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => bail!("the connection was closed, or an answer is longer than {ANSWER_BYTES_MAX} bytes"),
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            match answer_bytes(&self.buffer[..self.filled])? {
                Some(bytes) if bytes < self.filled => bail!("more came than was asked for"),
                Some(bytes) if bytes == self.filled => return Ok(true),
                _ => {}
            }
        }
    }
}

/// Bytes of the answer that begins here, head and body; `None` as long as its head is not whole.
fn answer_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let mut fields = [httparse::EMPTY_HEADER; client::HEADERS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = response.parse(bytes)? else { return Ok(None) };
    ensure!(response.code == Some(200), "status {:?}", response.code);
    let len = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let len: usize = std::str::from_utf8(len.context("an answer without a length")?.value)?.parse()?;
    Ok(Some(head_bytes + len))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_its_head_and_what_that_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(answer_bytes(answer).unwrap(), Some(answer.len()));
        assert_eq!(answer_bytes(&answer[..20]).unwrap(), None);
        assert!(answer_bytes(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err());
    }

    #[test]
    fn every_request_gets_its_answer_and_each_is_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut answers, mut buffer) = (0, [0; 100]);
            while stream.read(&mut buffer).unwrap() > 0 {
                // In two pieces, as servers may send them.
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n").unwrap();
                stream.write_all(b"\r\nhi").unwrap();
                answers += 1;
            }
            answers
        });
        let load = run(address, 1, Duration::from_millis(20), || b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(load.answers, server.join().unwrap());
        assert_eq!(load.answers, load.latencies_us.len());
    }
}
