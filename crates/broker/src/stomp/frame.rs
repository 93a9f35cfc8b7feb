//! Frames (STOMP 1.2, "STOMP Frames", "Augmented BNF").

use bytes::{Buf, BufMut, BytesMut};
use thiserror::Error;

/// The most bytes of the command and the headers of a frame that is read.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// The most bytes of the body of a frame that is read.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// The head is too long.
    #[error("a frame has a head of more than {HEAD_BYTES_MAX} bytes")]
    LongHead,
    /// The body is too long.
    #[error("a frame has a body of more than {BODY_BYTES_MAX} bytes")]
    LongBody,
    /// The head is no UTF-8.
    #[error("the head of a frame is not UTF-8")]
    NotUtf8,
    /// The first line is no command.
    #[error("a frame begins with no command")]
    NoCommand,
    /// A line of the head is no header.
    #[error("a line in the head of a frame is no header")]
    NoHeader,
    /// The length of the body is no number.
    #[error("the content-length of a frame is no number")]
    NoLength,
    /// The body does not end where it should.
    #[error("the body of a frame does not end with a zero byte where its content-length says")]
    NoEnd,
}

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// What it is: capital letters.
    pub command: String,
    /// The headers as they came. Of repeated ones the first counts ("Repeated Header Entries").
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Frame {
    /// A frame without headers.
    pub fn new(command: &str) -> Self {
        Self { command: command.to_owned(), ..Self::default() }
    }

    /// The same with one more header.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Writes it. A body with a zero byte gets its `content-length`; others get none, because by it
    /// brokers tell bytes from text.
    pub fn write(&self, out: &mut BytesMut) {
        out.put_slice(self.command.as_bytes());
        out.put_u8(b'\n');
        let escapes = escapes(&self.command);
        let mut write = |name: &str, value: &str| {
            put_escaped(out, name, escapes);
            out.put_u8(b':');
            put_escaped(out, value, escapes);
            out.put_u8(b'\n');
        };
        self.headers.iter().for_each(|(name, value)| write(name, value));
        if self.body.contains(&0) {
            write("content-length", &self.body.len().to_string());
        }
        out.put_u8(b'\n');
        out.put_slice(&self.body);
        out.put_u8(0);
    }
}

/// Whether headers are escaped: not in the frames that begin a connection ("Value Encoding").
fn escapes(command: &str) -> bool {
    !matches!(command, "CONNECT" | "CONNECTED")
}

fn put_escaped(out: &mut BytesMut, text: &str, escapes: bool) {
    for byte in text.bytes() {
        match byte {
            b'\\' if escapes => out.put_slice(b"\\\\"),
            b'\n' if escapes => out.put_slice(b"\\n"),
            b'\r' if escapes => out.put_slice(b"\\r"),
            b':' if escapes => out.put_slice(b"\\c"),
            byte => out.put_u8(byte),
        }
    }
}

/// A text with its escapes resolved; `None` if one is not defined.
fn unescaped(text: &str, escapes: bool) -> Option<String> {
    if !escapes {
        return Some(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        let char = match char {
            '\\' => match chars.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                'c' => ':',
                _ => return None,
            },
            char => char,
        };
        plain.push(char);
    }
    Some(plain)
}

/// Reads frames from bytes that come in pieces. It holds what is not complete, bounded.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    /// Bytes of the buffer in which no end was found.
    searched: usize,
    /// The frame whose body is not complete, and the length of its body if that is known.
    begun: Option<(Frame, Option<usize>)>,
}

impl Decoder {
    /// Where the next bytes are added. After each time call [`Decoder::next_frame`] until it has no frame.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame that is complete. After an error the bytes that follow mean nothing.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.begun.is_none() {
            self.skip_ends_of_lines();
            let Some((end, next)) = self.end_of_head()? else { return Ok(None) };
            let begun = parse_head(&self.buffer[..end])?;
            self.buffer.advance(next);
            (self.begun, self.searched) = (Some(begun), 0);
        }
        let Some((_, length)) = &self.begun else { return Ok(None) };
        let Some(end) = self.end_of_body(*length)? else { return Ok(None) };
        let Some((mut frame, _)) = self.begun.take() else { return Ok(None) };
        frame.body = self.buffer[..end].to_vec();
        self.buffer.advance(end + 1);
        self.searched = 0;
        Ok(Some(frame))
    }

    /// Between frames there may be ends of lines: each is a heart-beat.
    fn skip_ends_of_lines(&mut self) {
        loop {
            match *self.buffer {
                [b'\n', ..] => self.buffer.advance(1),
                [b'\r', b'\n', ..] => self.buffer.advance(2),
                _ => return,
            }
            self.searched = 0;
        }
    }

    /// Where the head ends, and where the body begins: behind an empty line.
    fn end_of_head(&mut self) -> Result<Option<(usize, usize)>, FrameError> {
        let from = self.searched;
        let mut lines = memchr_lines(&self.buffer, from);
        let found = lines.find_map(|end| match self.buffer[end + 1..] {
            [b'\n', ..] => Some((end, end + 2)),
            [b'\r', b'\n', ..] => Some((end, end + 3)),
            _ => None,
        });
        match found {
            Some((end, _)) if end > HEAD_BYTES_MAX => Err(FrameError::LongHead),
            Some(found) => Ok(Some(found)),
            None if self.buffer.len() > HEAD_BYTES_MAX + 3 => Err(FrameError::LongHead),
            None => {
                // The end may be cut.
                self.searched = self.buffer.len().saturating_sub(2);
                Ok(None)
            }
        }
    }

    fn end_of_body(&mut self, length: Option<usize>) -> Result<Option<usize>, FrameError> {
        match length {
            Some(length) if length > BODY_BYTES_MAX => Err(FrameError::LongBody),
            Some(length) => match self.buffer.get(length) {
                None => Ok(None),
                Some(0) => Ok(Some(length)),
                Some(_) => Err(FrameError::NoEnd),
            },
            None => {
                let found = self.buffer[self.searched..].iter().position(|byte| *byte == 0);
                match found.map(|place| self.searched + place) {
                    Some(end) if end > BODY_BYTES_MAX => Err(FrameError::LongBody),
                    Some(end) => Ok(Some(end)),
                    None if self.buffer.len() > BODY_BYTES_MAX => Err(FrameError::LongBody),
                    None => {
                        self.searched = self.buffer.len();
                        Ok(None)
                    }
                }
            }
        }
    }
}

/// The places of line feeds.
fn memchr_lines(bytes: &[u8], from: usize) -> impl Iterator<Item = usize> + '_ {
    (from..bytes.len()).filter(|place| bytes[*place] == b'\n')
}

/// The frame that begins with this head, and the length of its body if the head says it.
fn parse_head(head: &[u8]) -> Result<(Frame, Option<usize>), FrameError> {
    let text = std::str::from_utf8(head).map_err(|_| FrameError::NotUtf8)?;
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let command = lines.next().unwrap_or_default();
    if command.is_empty() || !command.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(FrameError::NoCommand);
    }
    let mut frame = Frame::new(command);
    let escapes = escapes(command);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(FrameError::NoHeader)?;
        if name.is_empty() || escapes && (value.contains(':') || line.contains('\r')) {
            return Err(FrameError::NoHeader);
        }
        let unescaped = |text: &str| unescaped(text, escapes).ok_or(FrameError::NoHeader);
        frame.headers.push((unescaped(name)?, unescaped(value)?));
    }
    let length = frame.header("content-length").map(|length| length.parse().map_err(|_| FrameError::NoLength));
    let length = length.transpose()?;
    Ok((frame, length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// What is read of bytes that come in pieces of a size, until an error.
    fn read(bytes: &[u8], size: usize) -> (Vec<Frame>, Option<FrameError>) {
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(size) {
            decoder.buffer().put_slice(piece);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
            assert!(decoder.buffer.len() <= HEAD_BYTES_MAX.max(BODY_BYTES_MAX) + size + 3);
        }
        (frames, None)
    }

    fn written(frame: &Frame) -> BytesMut {
        let mut out = BytesMut::new();
        frame.write(&mut out);
        out
    }

    #[test]
    fn a_frame_is_written_as_the_standard_has_it() {
        let frame = Frame { body: b"text".to_vec(), ..Frame::new("SEND").with("destination", "/topic/a:\\\r\nb") };
        assert_eq!(&written(&frame)[..], b"SEND\ndestination:/topic/a\\c\\\\\\r\\nb\n\ntext\0");
        assert_eq!(&written(&Frame::new("CONNECT").with("login", "a:b"))[..], b"CONNECT\nlogin:a:b\n\n\0");
        let bytes = Frame { body: vec![0], ..Frame::new("SEND") };
        assert_eq!(&written(&bytes)[..], b"SEND\ncontent-length:1\n\n\0\0");
    }

    #[test]
    fn frames_are_read_with_heart_beats_carriage_returns_and_repeated_headers() {
        let bytes =
            b"\n\r\nCONNECTED\r\nversion:1.2\r\nserver:a:b\\n\r\n\r\n\0\nRECEIPT\nreceipt-id:1\\c\nreceipt-id:2\n\n\0\
                      ERROR\ncontent-length:3\n\na\0b\0\n";
        for size in 1..=bytes.len() {
            let (frames, error) = read(bytes, size);
            assert_eq!(error, None);
            assert_eq!(frames.len(), 3);
            assert_eq!(frames[0].header("server"), Some("a:b\\n"));
            assert_eq!(frames[1].header("receipt-id"), Some("1:"));
            assert_eq!(frames[2].body, b"a\0b");
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error_and_no_more_is_held_than_a_bound() {
        let long = |part: &str, count: usize| format!("ERROR\n{}", part.repeat(count)).into_bytes();
        for (bytes, error) in [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), FrameError::NoCommand),
            (b"ERROR\nmessage\n\n\0".to_vec(), FrameError::NoHeader),
            (b"ERROR\nmessage:\\t\n\n\0".to_vec(), FrameError::NoHeader),
            (b"ERROR\nmessage:a:b\n\n\0".to_vec(), FrameError::NoHeader),
            (b"ERROR\n:a\n\n\0".to_vec(), FrameError::NoHeader),
            (b"ERROR\nmessage:\xFF\n\n\0".to_vec(), FrameError::NotUtf8),
            (b"ERROR\ncontent-length:-1\n\n\0".to_vec(), FrameError::NoLength),
            (b"ERROR\ncontent-length:1\n\nab\0".to_vec(), FrameError::NoEnd),
            (b"ERROR\ncontent-length:65537\n\n".to_vec(), FrameError::LongBody),
            (long("a:b\n", 5_000), FrameError::LongHead),
            ([long("\n", 1), vec![b'a'; BODY_BYTES_MAX + 1]].concat(), FrameError::LongBody),
        ] {
            for size in [1, 7, 8_192] {
                assert_eq!(read(&bytes, size), (Vec::new(), Some(error)), "{}", bytes.escape_ascii());
            }
        }
    }

    proptest! {
        #[test]
        fn a_frame_that_is_written_is_read_as_it_was(
            headers in prop::collection::vec(("[a-z]{1,4}|\\PC{1,4}", "\\PC{0,8}|[:\\\\\r\n]{0,4}"), 0..5),
            body in prop::collection::vec(any::<u8>(), 0..50),
            size in 1_usize..40,
        ) {
            let frame = Frame { command: "MESSAGE".to_owned(), headers, body };
            let (frames, error) = read(&written(&frame), size);
            prop_assert_eq!(error, None);
            prop_assert_eq!(frames.len(), 1);
            prop_assert_eq!(&frames[0].body, &frame.body);
            prop_assert_eq!(&frames[0].headers[..frame.headers.len()], &frame.headers[..]);
        }

        #[test]
        fn bytes_mean_the_same_in_whatever_pieces_they_come(
            bytes in "(A|\n|\r|:|\\\\|\0|content-length:2\n|\u{fc}){0,40}",
            size in 1_usize..40,
        ) {
            prop_assert_eq!(read(bytes.as_bytes(), size), read(bytes.as_bytes(), bytes.len().max(1)));
        }
    }
}
