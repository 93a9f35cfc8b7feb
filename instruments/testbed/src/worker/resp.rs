//! Commands over the Redis protocol, version 2 (RESP2).

use std::borrow::Cow;
use std::io::ErrorKind;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_bytes_mut;
use redis_protocol::resp2::encode::extend_encode_borrowed;
use redis_protocol::resp2::types::{BorrowedFrame, BytesFrame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connection::{ANSWER_BYTES_MAX, OnReached, Reached};
use super::failure::Failure;
use crate::scenario::{Answer, Head};

/// The most arrays within each other.
const DEPTH_MAX: usize = 32;
/// The least space that a read has.
const READ_BYTES_MIN: usize = 4 << 10;

/// A connection.
pub struct RespConnection {
    stream: TcpStream,
    /// What was received and is no whole answer yet.
    received: BytesMut,
}

/// A command in the form of the protocol.
pub fn request(words: &[Cow<'_, str>]) -> Result<Bytes, Failure> {
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    request_of_bytes(&words)
}

fn request_of_bytes(words: &[&[u8]]) -> Result<Bytes, Failure> {
    let words: Vec<_> = words.iter().copied().map(BorrowedFrame::BulkString).collect();
    let mut command = BytesMut::new();
    extend_encode_borrowed(&mut command, &BorrowedFrame::Array(&words), false)
        .map_err(|_| Failure::Other("a command that cannot be sent".to_owned()))?;
    Ok(command.freeze())
}

impl RespConnection {
    /// Connects to an address.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await.map_err(Failure::of_connect)?;
        stream.set_nodelay(true).map_err(Failure::of_io)?;
        Ok(Self::new(stream))
    }

    /// Begins the protocol on a connection.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, received: BytesMut::new() }
    }

    /// Whether the server has not closed it, as far as is known, and has sent nothing unasked.
    pub fn is_open(&self) -> bool {
        let is_silent = || {
            let read = self.stream.try_read(&mut [0]);
            read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        self.received.is_empty() && is_silent()
    }

    /// Asks a short question, which may be an error.
    pub async fn ask(&mut self, words: &[&str]) -> Result<Answer, Failure> {
        let words: Vec<_> = words.iter().map(|word| Cow::Borrowed(*word)).collect();
        self.answer(&request(&words)?, |_| {}).await
    }

    /// Sends a command of any bytes, and receives its answer. Afterwards the connection can only be used
    /// again if this did not fail.
    ///
    /// # Errors
    /// The connection broke, or what came is no answer.
    pub async fn send(&mut self, words: &[&[u8]]) -> Result<Answer, Failure> {
        self.answer(&request_of_bytes(words)?, |_| {}).await
    }

    /// Sends a command, and receives its answer.
    pub(super) async fn exchange(&mut self, command: &[u8], on: OnReached<'_>) -> Result<Answer, Failure> {
        self.answer(command, on).await
    }

    async fn answer(&mut self, command: &[u8], mut on: impl FnMut(Reached)) -> Result<Answer, Failure> {
        on(Reached::Sent);
        self.stream.write_all(command).await.map_err(Failure::of_io)?;
        let (mut is_first, mut extent) = (true, Extent::default());
        loop {
            self.received.reserve(READ_BYTES_MIN.max(self.received.len()));
            let count = self.stream.read_buf(&mut self.received).await.map_err(Failure::of_io)?;
            if count == 0 {
                return Err(Failure::of_io(ErrorKind::UnexpectedEof.into()));
            }
            if std::mem::take(&mut is_first) {
                on(Reached::Head(None));
            }
            let no_resp = || Failure::Other("no RESP".to_owned());
            if !extent.is_whole(&self.received).ok_or_else(no_resp)? {
                match self.received.len() > ANSWER_BYTES_MAX {
                    true => return Err(Failure::Other("an answer of more than 64 MiB".to_owned())),
                    false => continue,
                }
            }
            let decoded = decode_bytes_mut(&mut self.received).ok().flatten();
            return Ok(answer(&decoded.ok_or_else(no_resp)?.0));
        }
    }
}

/// How far an answer or a request reaches in what was received. The decoder would read all of it again
/// after each piece, and its depth has no bound.
#[derive(Debug, Default)]
pub(crate) struct Extent {
    /// What was looked at.
    at: usize,
    /// How many bytes after it were looked at without an end of their line.
    without_end: usize,
    /// How many items are missing in each array that is open; the first is the message itself.
    missing: Option<Vec<u64>>,
}

impl Extent {
    /// Whether the message is whole; `None`: it is no RESP, or arrays are too deep.
    pub(crate) fn is_whole(&mut self, received: &[u8]) -> Option<bool> {
        let missing = self.missing.get_or_insert_with(|| vec![1]);
        loop {
            while missing.last() == Some(&0) {
                missing.pop();
            }
            let Some(left) = missing.last_mut() else { return Some(true) };
            let rest = received.get(self.at..)?;
            let Some(end) = rest.get(self.without_end..)?.windows(2).position(|end| end == b"\r\n") else {
                // It is bounded like an answer. Its last byte may be the half of an end.
                self.without_end = rest.len().saturating_sub(1);
                return Some(false);
            };
            let line_bytes = self.without_end + end;
            let (kind, line) = rest[..line_bytes].split_first()?;
            let len = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
            let (item_bytes, items) = match kind {
                b'+' | b'-' | b':' => (0, 0),
                b'$' => match usize::try_from(len()?) {
                    Ok(len) => (len.checked_add(2)?, 0),
                    Err(_) => (0, 0),
                },
                b'*' => (0, u64::try_from(len()?).unwrap_or(0)),
                _ => return None,
            };
            let whole_bytes = (line_bytes + 2).checked_add(item_bytes)?;
            if rest.len() < whole_bytes {
                return Some(false);
            }
            *left -= 1;
            (self.at, self.without_end) = (self.at + whole_bytes, 0);
            if items > 0 {
                missing.push(items);
                if missing.len() > DEPTH_MAX {
                    return None;
                }
            }
        }
    }
}

fn answer(frame: &BytesFrame) -> Answer {
    let head = match frame {
        BytesFrame::Error(_) => Head::Error,
        _ => Head::Done,
    };
    let body = text(frame);
    Answer { head, body_bytes: body.len() as u64, body }
}

/// An answer as text: the items of an array are lines.
fn text(frame: &BytesFrame) -> Bytes {
    match frame {
        BytesFrame::SimpleString(bytes) | BytesFrame::BulkString(bytes) => bytes.clone(),
        BytesFrame::Error(text) => Bytes::copy_from_slice(text.as_bytes()),
        BytesFrame::Integer(number) => number.to_string().into(),
        BytesFrame::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(&b'\n').into(),
        BytesFrame::Null => Bytes::from_static(b"(nil)"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(answer: &str) -> String {
        let frame = decode_bytes_mut(&mut BytesMut::from(answer)).unwrap().unwrap().0;
        String::from_utf8(text(&frame).to_vec()).unwrap()
    }

    #[test]
    fn every_answer_has_a_text() {
        assert_eq!(read("+OK\r\n"), "OK");
        assert_eq!(read(":-7\r\n"), "-7");
        assert_eq!(read("$5\r\na\r\nbc\r\n"), "a\r\nbc");
        assert_eq!(read("$-1\r\n"), "(nil)");
        assert_eq!(read("*-1\r\n"), "(nil)");
        assert_eq!(read("*3\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n$-1\r\n"), "a\n1\n2\n(nil)");
        assert_eq!(read("*0\r\n"), "");
        assert_eq!(read("-ERR no such thing\r\n"), "ERR no such thing");
    }

    #[test]
    fn an_answer_is_whole_when_its_last_byte_is_there_in_any_pieces() {
        for answer in
            ["+OK\r\n", "$5\r\na\r\nbc\r\n", "$-1\r\n", "*3\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n$-1\r\n", "*0\r\n"]
        {
            let mut extent = Extent::default();
            for len in 0..answer.len() {
                assert_eq!(extent.is_whole(&answer.as_bytes()[..len]), Some(false), "{len} bytes of {answer:?}");
            }
            assert_eq!(extent.is_whole(answer.as_bytes()), Some(true), "{answer:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_looked_at_once_however_many_pieces_it_comes_in() {
        let mut extent = Extent::default();
        assert_eq!(extent.is_whole(b"+aaaaaa"), Some(false));
        // Nobody looks again at what was there before, even if it had an end now.
        assert_eq!(extent.is_whole(b"+a\r\naaabb"), Some(false));
        assert_eq!(extent.is_whole(b"+a\r\naaabb\r"), Some(false));
        assert_eq!(extent.is_whole(b"+a\r\naaabb\r\n"), Some(true));
    }

    #[test]
    fn garbage_and_arrays_that_are_too_deep_are_refused_before_they_are_decoded() {
        for answer in ["HTTP/1.1 400\r\n".to_owned(), "$x\r\n".to_owned(), "*1\r\n".repeat(40)] {
            assert_eq!(Extent::default().is_whole(answer.as_bytes()), None, "{answer:?}");
        }
    }

    #[test]
    fn a_command_is_an_array_of_its_words() {
        let sent = request(&["SET".into(), "größe".into(), "".into()]).unwrap();
        assert_eq!(sent, "*3\r\n$3\r\nSET\r\n$7\r\ngröße\r\n$0\r\n\r\n");
    }
}
