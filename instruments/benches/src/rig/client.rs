//! The client of all servers: blocking, HTTP/1.1, one connection. It counts the bytes that it
//! receives and discards them.
//!
//! It is as cheap as a client that receives all bytes can be, because it shares the machine with
//! the server. All servers get the same client.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Bytes per receive: enough for few system calls, and few enough to stay in a processor's cache.
const BUFFER_BYTES: usize = 256 << 10;
/// How long a server may send nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// More header fields than any of the servers sends.
pub const HEADERS_MAX: usize = 100;
/// The header field that the testbed sets by itself.
const CONTENT_LENGTH: &str = "content-length";

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    path: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A `GET` of a path.
    pub fn get(path: &str) -> Self {
        Self::without_body("GET", path)
    }

    /// A `DELETE` of a path.
    pub fn delete(path: &str) -> Self {
        Self::without_body("DELETE", path)
    }

    fn without_body(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), fields: Vec::new(), body: Vec::new() }
    }

    /// A `POST` of ids, one per line.
    pub fn post(path: &str, ids: &str) -> Self {
        Self::sending("POST", path, "text/plain", ids.as_bytes())
    }

    /// A `POST` of a form.
    pub fn post_form(path: &str, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        Self::sending("POST", path, "application/x-www-form-urlencoded", body.as_bytes())
    }

    /// A `PUT` or `POST` of a body.
    pub fn sending(method: &str, path: &str, media_type: &str, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..Self::announcing(method, path, media_type, body.len()) }
    }

    /// The head of a request with a body of so many bytes.
    fn announcing(method: &str, path: &str, media_type: &str, body_bytes: usize) -> Self {
        let request = Self::without_body(method, path);
        request.with("content-type", media_type).with(CONTENT_LENGTH, &body_bytes.to_string())
    }

    /// Adds a header field.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { method, path, fields, body } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        fields.iter().for_each(|(name, value)| head.extend([name.as_str(), ": ", value, "\r\n"]));
        [head.as_bytes(), b"\r\n", body].concat()
    }

    /// The same as a step of a scenario of the testbed, whose body is text.
    pub fn step(&self, name: &str) -> String {
        // A string of JSON is one of TOML.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let fields = self.fields.iter().filter(|(name, _)| name != CONTENT_LENGTH);
        let fields: Vec<_> = fields.map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
        format!(
            "[[steps]]\nname = {}\nmethod = {}\npath = {}\nheaders = {{ {} }}\nbody = {{ text = {} }}\n",
            quoted(name),
            quoted(&self.method),
            quoted(&self.path),
            fields.join(", "),
            quoted(&String::from_utf8_lossy(&self.body)),
        )
    }

    /// An error, unless the answer is a success.
    fn check(&self, head: &Head) -> Result<()> {
        let Self { method, path, .. } = self;
        ensure!((200..300).contains(&head.status), "status {} to: {method} {path}", head.status);
        Ok(())
    }
}

/// How a body ends (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    UntilClosed,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Head {
    /// Its status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    framing: Framing,
}

impl Head {
    /// The value of a header field, if there is one.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses a head; `None`: it is not complete yet. Also returns its length in bytes.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>> {
        let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(len) = response.parse(bytes)? else { return Ok(None) };
        let headers: Vec<_> = response
            .headers
            .iter()
            .map(|field| (field.name.to_ascii_lowercase(), String::from_utf8_lossy(field.value).into_owned()))
            .collect();
        let mut head = Self { status: response.code.unwrap_or_default(), headers, framing: Framing::UntilClosed };
        head.framing = match (head.header("transfer-encoding"), head.header("content-length"), head.status) {
            (_, _, 204 | 304) => Framing::Length(0),
            (Some("chunked"), ..) => Framing::Chunked,
            (_, Some(len), _) => Framing::Length(len.parse().context("a content-length that is not a number")?),
            _ => Framing::UntilClosed,
        };
        Ok(Some((head, len)))
    }

    /// The length of the body, if the head says it.
    pub fn content_length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(len) => Some(len),
            Framing::Chunked | Framing::UntilClosed => None,
        }
    }
}

/// A response that was received to its end.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its head.
    pub head: Head,
    /// Bytes of its body, without the framing of chunks.
    pub body_bytes: u64,
    /// From sending the request to the first byte of the body (or to the end of the head, if there
    /// is no body).
    pub first_byte: Duration,
    /// From sending the request to the last byte.
    pub whole: Duration,
}

/// A connection.
pub struct Client<S> {
    stream: S,
    buffer: Box<[u8]>,
    /// The range of `buffer` that was received and not processed yet.
    rest: std::ops::Range<usize>,
}

impl Client<TcpStream> {
    /// Connects without TLS.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self::new(open(address)?))
    }
}

/// A TCP connection with the options of all clients here.
pub fn open(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

impl<S: Read + Write> Client<S> {
    /// A client over a connection.
    pub fn new(stream: S) -> Self {
        Self { stream, buffer: vec![0; BUFFER_BYTES].into(), rest: 0..0 }
    }

    /// Sends a request, receives the whole response, and discards it. A status other than 2xx is an
    /// error.
    pub fn fetch(&mut self, request: &Request) -> Result<Received> {
        self.fetch_into(request, |_| Ok(()))
    }

    /// The same, but any status is an answer.
    pub fn fetch_any(&mut self, request: &Request) -> Result<Received> {
        let begun = Instant::now();
        self.stream.write_all(&request.bytes())?;
        let head = self.head()?;
        self.body(head, begun, &mut |_| Ok(()))
    }

    /// The same as `fetch`, but passes the received bytes on.
    pub fn fetch_into(&mut self, request: &Request, take: impl FnMut(&[u8]) -> Result<()>) -> Result<Received> {
        let begun = Instant::now();
        self.stream.write_all(&request.bytes())?;
        self.receive(request, begun, take)
    }

    /// Sends a piece repeatedly as one body, and receives the response.
    pub fn upload(&mut self, path: &str, media_type: &str, piece: &[u8], pieces: usize) -> Result<Received> {
        let request = Request::announcing("PUT", path, media_type, piece.len() * pieces);
        let begun = Instant::now();
        self.stream.write_all(&request.bytes())?;
        for _ in 0..pieces {
            self.stream.write_all(piece)?;
        }
        self.receive(&request, begun, |_| Ok(()))
    }

    fn receive(
        &mut self,
        request: &Request,
        begun: Instant,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Received> {
        let head = self.head()?;
        request.check(&head)?;
        self.body(head, begun, &mut take)
    }

    /// Receives the body that follows a head.
    fn body(&mut self, head: Head, begun: Instant, take: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<Received> {
        let mut first_byte = None;
        let mut counting = |bytes: &[u8]| {
            first_byte.get_or_insert_with(|| begun.elapsed());
            take(bytes)
        };
        let body_bytes = match head.framing {
            Framing::Length(len) => self.exactly(len, &mut counting)?,
            Framing::Chunked => self.chunks(&mut counting)?,
            Framing::UntilClosed => self.until_closed(&mut counting)?,
        };
        let whole = begun.elapsed();
        Ok(Received { head, body_bytes, first_byte: first_byte.unwrap_or(whole), whole })
    }

    /// The body as text.
    pub fn text(&mut self, request: &Request) -> Result<(Head, String)> {
        let mut body = Vec::new();
        let received = self.fetch_into(request, |bytes| {
            body.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok((received.head, String::from_utf8(body)?))
    }

    /// Sends a request that must be redirected. Returns the path to which it is.
    pub fn redirected(&mut self, request: &Request) -> Result<String> {
        self.stream.write_all(&request.bytes())?;
        let head = self.head()?;
        let target = head.header("location").filter(|_| (300..400).contains(&head.status));
        let target = target.with_context(|| format!("no redirect but status {}", head.status))?.to_owned();
        self.exactly(head.content_length().context("a redirect without a length")?, &mut |_| Ok(()))?;
        let target: http::Uri = target.parse()?;
        Ok(target.path().to_owned())
    }

    /// Sends a request, waits for the first byte of the body, and closes the connection.
    pub fn first_byte(mut self, request: &Request) -> Result<(Head, Duration)> {
        let begun = Instant::now();
        self.stream.write_all(&request.bytes())?;
        let head = self.head()?;
        request.check(&head)?;
        if self.rest.is_empty() {
            ensure!(self.receive_more()? > 0, "the connection was closed before the first byte of a body");
        }
        Ok((head, begun.elapsed()))
    }

    fn head(&mut self) -> Result<Head> {
        loop {
            if let Some((head, len)) = Head::parse(&self.buffer[self.rest.clone()])? {
                self.rest.start += len;
                return Ok(head);
            }
            ensure!(self.receive_more()? > 0, "the connection was closed before the head of an answer was whole");
        }
    }

    fn exactly(&mut self, len: u64, take: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let mut missing = len;
        while missing > 0 {
            if self.rest.is_empty() {
                ensure!(self.receive_more()? > 0, "the connection was closed {missing} bytes too early");
            }
            let now = self.rest.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
            take(&self.buffer[self.rest.start..self.rest.start + now])?;
            self.rest.start += now;
            missing -= now as u64;
        }
        Ok(len)
    }

    /// RFC 9112, 7.1; no server here sends trailers.
    fn chunks(&mut self, take: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let mut sum = 0;
        loop {
            let (line_bytes, chunk_bytes) = loop {
                let parsed = httparse::parse_chunk_size(&self.buffer[self.rest.clone()]);
                match parsed.map_err(|_| anyhow::anyhow!("a chunk without a size"))? {
                    httparse::Status::Complete(found) => break found,
                    httparse::Status::Partial => {
                        ensure!(self.receive_more()? > 0, "the connection was closed between chunks");
                    }
                }
            };
            self.rest.start += line_bytes;
            sum += self.exactly(chunk_bytes, take)?;
            self.exactly(2, &mut |_| Ok(()))?; // the line end after each chunk
            if chunk_bytes == 0 {
                return Ok(sum);
            }
        }
    }

    fn until_closed(&mut self, take: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let mut sum = 0;
        loop {
            let rest = std::mem::replace(&mut self.rest, 0..0);
            sum += rest.len() as u64;
            if !rest.is_empty() {
                take(&self.buffer[rest])?;
            }
            if self.receive_more()? == 0 {
                return Ok(sum);
            }
        }
    }

    /// Receives more bytes. Returns 0 at the end.
    fn receive_more(&mut self) -> Result<usize> {
        if self.rest.is_empty() {
            self.rest = 0..0;
        }
        if self.rest.end == self.buffer.len() {
            self.buffer.copy_within(self.rest.clone(), 0);
            self.rest = 0..self.rest.len();
        }
        loop {
            match self.stream.read(&mut self.buffer[self.rest.end..]) {
                Ok(0) if self.rest.end == self.buffer.len() => {
                    bail!("a head or a line of more than {BUFFER_BYTES} bytes")
                }
                Ok(bytes) => {
                    self.rest.end += bytes;
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A server that has sent everything already, in pieces of `piece` bytes.
    struct Said<'a>(&'a [u8], usize);

    impl Read for Said<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let len = into.len().min(self.1);
            self.0.read(&mut into[..len])
        }
    }

    impl Write for Said<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn texts(said: &str, piece: usize, count: usize) -> Vec<String> {
        let mut client = Client::new(Said(said.as_bytes(), piece));
        (0..count).map(|_| client.text(&Request::get("/")).unwrap().1).collect()
    }

    #[test]
    fn a_body_ends_with_its_length_its_last_chunk_or_the_connection_in_any_pieces() {
        let length = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        let closed = "HTTP/1.0 200 OK\r\n\r\nhello";
        for piece in [1, 2, 7, 1000] {
            let all = [length, chunked, length, closed].concat();
            assert_eq!(texts(&all, piece, 4), ["hello"; 4], "pieces of {piece}");
        }
    }

    #[test]
    fn a_body_that_is_too_short_is_an_error() {
        for said in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhe",
        ] {
            assert!(Client::new(Said(said.as_bytes(), 100)).fetch(&Request::get("/")).is_err(), "{said}");
        }
    }

    #[test]
    fn a_status_other_than_success_is_an_error() {
        let said = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
        assert!(Client::new(Said(said, 100)).fetch(&Request::get("/")).unwrap_err().to_string().contains("503"));
    }
}
