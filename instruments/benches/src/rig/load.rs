//! Many small requests over many connections, each sent when its connection has its response (a
//! closed loop). It uses one thread and few system calls, because it shares the processors with the
//! server.
//!
//! The testbed makes closed loops too, but each of its users costs more: it draws, checks and
//! writes down every request. That would take processors from a server that answers 20,000 requests
//! per second. Published figures depend on this cost.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use testbed::results::Times;
use testbed::tally;

use super::client;

/// The greatest length of a response.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The initial buffer for a response.
const BUFFER_BYTES: usize = 16 << 10;
/// How long no byte may arrive at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// The results.
pub struct Load {
    /// Responses.
    pub answers: u64,
    /// The duration in seconds.
    pub seconds: f64,
    /// The time of each in microseconds.
    pub latencies_us: Histogram<u64>,
}

impl Load {
    /// Responses per second.
    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.seconds
    }

    /// The times in milliseconds.
    pub fn times(&self) -> Times {
        tally::times(&self.latencies_us)
    }

    /// The share (0 to 1) of all responses that took longer than a time in milliseconds.
    pub fn share_above_ms(&self, ms: f64) -> f64 {
        1.0 - self.latencies_us.quantile_below((ms * 1e3) as u64)
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    sent: Instant,
}

/// Sends requests for a while. `next` returns the bytes of the next request on the connection of a
/// given number. Every response must be a success or a redirect.
pub fn closed<B: AsRef<[u8]>>(
    address: SocketAddr,
    connections: usize,
    duration: Duration,
    mut next: impl FnMut(usize) -> B,
) -> Result<Load> {
    let mut poll = Poll::new()?;
    let mut all = Vec::with_capacity(connections);
    let begun = Instant::now();
    for index in 0..connections {
        let stream = client::open(address)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
        let mut connection = Connection { stream, buffer: vec![0; BUFFER_BYTES], filled: 0, sent: begun };
        connection.send(next(index).as_ref())?;
        all.push(connection);
    }
    let mut load = Load { answers: 0, seconds: 0.0, latencies_us: Histogram::new(3)? };
    let mut events = Events::with_capacity(connections);
    let mut waiting = connections;
    while waiting > 0 {
        poll.poll(&mut events, Some(PATIENCE))?;
        ensure!(!events.is_empty(), "no answer for {PATIENCE:?}");
        for event in &events {
            let index = event.token().0;
            let connection = &mut all[index];
            if !connection.receive()? {
                continue;
            }
            load.answers += 1;
            load.latencies_us.record(connection.sent.elapsed().as_micros() as u64)?;
            if begun.elapsed() < duration {
                connection.send(next(index).as_ref())?;
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
        // It is small, and earlier bytes have been taken, so it fits.
        self.stream.write_all(request).context("a request could not be sent at once")
    }

    /// Receives bytes. Returns whether they complete the response.
    ///
    /// After a response nothing arrives until the next request. So reading until the socket is
    /// empty, as edge triggering requires, is not needed then.
    fn receive(&mut self) -> Result<bool> {
        loop {
            if self.filled == self.buffer.len() {
                ensure!(self.filled < ANSWER_BYTES_MAX, "an answer is longer than {ANSWER_BYTES_MAX} bytes");
                self.buffer.resize(2 * self.filled, 0);
            }
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => bail!("the connection was closed before an answer was whole"),
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

/// Bytes of the response that begins here, head and body; `None` as long as they are unknown.
fn answer_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let mut fields = [httparse::EMPTY_HEADER; client::HEADERS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = response.parse(bytes)? else { return Ok(None) };
    let status = response.code.unwrap_or_default();
    ensure!((200..400).contains(&status), "status {status}");
    let field = |name: &str| response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    if let Some(len) = field("content-length") {
        return Ok(Some(head_bytes + std::str::from_utf8(len.value)?.parse::<usize>()?));
    }
    match field("transfer-encoding") {
        Some(_) => Ok(chunks_bytes(&bytes[head_bytes..])?.map(|body_bytes| head_bytes + body_bytes)),
        // RFC 9110, 15.3.5: it has no body.
        None if status == 204 => Ok(Some(head_bytes)),
        None => bail!("a response without a defined end"),
    }
}

/// Bytes of the chunks that begin here, including the last one (RFC 9112, 7.1); no server here
/// sends trailers.
fn chunks_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let mut at = 0;
    while at < bytes.len() {
        let parsed = httparse::parse_chunk_size(&bytes[at..]).map_err(|_| anyhow!("a chunk without a size"))?;
        let httparse::Status::Complete((line_bytes, chunk_bytes)) = parsed else { return Ok(None) };
        at += line_bytes + usize::try_from(chunk_bytes)? + 2;
        if chunk_bytes == 0 {
            return Ok((at <= bytes.len()).then_some(at));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_response_is_as_long_as_its_head_and_the_announced_body() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(answer_bytes(answer).unwrap(), Some(answer.len()));
        assert_eq!(answer_bytes(&answer[..20]).unwrap(), None);
        assert!(answer_bytes(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err());
        assert_eq!(answer_bytes(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), Some(27));
        assert!(answer_bytes(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "nothing tells where it ends");
    }

    #[test]
    fn a_chunked_response_ends_with_the_empty_chunk() {
        let answer = b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(answer_bytes(answer).unwrap(), Some(answer.len()));
        for len in 0..answer.len() {
            assert_eq!(answer_bytes(&answer[..len]).unwrap(), None, "{len} bytes");
        }
    }

    #[test]
    fn every_request_gets_its_response_and_each_is_counted() {
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
        let load = closed(address, 1, Duration::from_millis(20), |_| b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(load.answers, server.join().unwrap());
        assert_eq!(load.answers, load.latencies_us.len());
    }
}
