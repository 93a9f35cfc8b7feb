//! Reads requests: lists of words, or lines that people type.
//!
//! A request may arrive in any pieces. What was read of it is kept, so that each byte is looked at
//! once. Nothing is reserved for bytes that were announced and did not arrive, but for the places
//! of a few words.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::http;

/// The longest line: a length, or an inline request.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The greatest length that can be announced, as in Redis: 512 MiB. What is too long for a record
/// is refused for that reason, after a look at the limit.
const ANNOUNCED_BYTES_MAX: i64 = 512 << 20;

/// The greatest number of words that can be announced, as in Redis.
const ANNOUNCED_WORDS_MAX: i64 = 1 << 20;

/// Limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of all words, and 16 for each word.
    pub bytes: usize,
}

impl RequestLimits {
    /// Most bytes of memory of one request.
    pub fn memory_bytes_max(&self) -> u64 {
        http::memory_bytes(self.bytes)
    }

    /// The same limits, but smaller if a request could take more memory than so many bytes.
    pub fn within(self, bytes_max: u64) -> Self {
        Self { bytes: self.bytes.min(http::line_within(bytes_max)) }
    }
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { bytes: 1 << 20 }
    }
}

/// What each word costs besides its bytes.
const WORD_BYTES: usize = 16;

/// For so many announced words at most there is room at once.
const WORDS_RESERVED_MAX: usize = 16;

/// Why a connection ends: what follows cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// A line without an end.
    #[error("Protocol error: too big {0}")]
    LongLine(&'static str),
    /// A number of words that is none, or too large.
    #[error("Protocol error: invalid multibulk length")]
    WordCount,
    /// A length that is none, or too large.
    #[error("Protocol error: invalid bulk length")]
    WordLength,
    /// Something else than a word in a list of words.
    #[error("Protocol error: expected '$', got '{0}'")]
    NotAWord(char),
    /// An inline request with a quote that does not end.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// A request over [`RequestLimits::bytes`].
    #[error("Protocol error: a request of more than {0} bytes")]
    TooLarge(usize),
}

/// A request that is being read.
#[derive(Debug)]
pub struct Requests {
    limits: RequestLimits,
    words: Vec<Bytes>,
    /// Words that are still to come; `None`: no request has begun.
    missing: Option<usize>,
    /// The length of the word that comes next, once it is known.
    length: Option<usize>,
    /// The cost of the words so far.
    bytes: usize,
    /// How far the line that comes next has been searched for its end.
    searched: usize,
}

impl Requests {
    /// A reader at the beginning of a connection.
    pub fn new(limits: RequestLimits) -> Self {
        Self { limits, words: Vec::new(), missing: None, length: None, bytes: 0, searched: 0 }
    }

    /// Whether a list of words has begun and not ended.
    pub fn has_begun(&self) -> bool {
        self.missing.is_some()
    }

    /// Bytes of the words of an unfinished request.
    pub fn held_bytes(&self) -> usize {
        if self.missing.is_some() { self.bytes - self.length.unwrap_or(0) } else { 0 }
    }

    /// Bytes of an unfinished request with the word that is announced.
    pub fn announced_bytes(&self) -> usize {
        if self.missing.is_some() { self.bytes } else { 0 }
    }

    /// The next request: at least one word. `None`: more bytes are needed. After an error nothing
    /// can be read any more.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        loop {
            match self.missing {
                None => {
                    let is_list = match input.first() {
                        None => return Ok(None),
                        Some(first) => *first == b'*',
                    };
                    let what = if is_list { "mbulk count string" } else { "inline request" };
                    let Some((line, taken)) = self.line(input, what)? else { return Ok(None) };
                    if !is_list {
                        let words = inline_words(line)?;
                        input.advance(taken);
                        if words.iter().map(|word| word.len() + WORD_BYTES).sum::<usize>() > self.limits.bytes {
                            return Err(ProtocolError::TooLarge(self.limits.bytes));
                        }
                        match words.is_empty() {
                            true => continue,
                            false => return Ok(Some(words)),
                        }
                    }
                    let count = number(&line[1..]).filter(|count| *count <= ANNOUNCED_WORDS_MAX);
                    let count = count.ok_or(ProtocolError::WordCount)?;
                    input.advance(taken);
                    if let Ok(count @ 1..) = usize::try_from(count) {
                        (self.missing, self.bytes) = (Some(count), 0);
                        self.words.reserve(count.min(WORDS_RESERVED_MAX));
                    }
                }
                Some(0) => {
                    self.missing = None;
                    return Ok(Some(std::mem::take(&mut self.words)));
                }
                Some(missing) => {
                    let Some(word) = self.word(input)? else { return Ok(None) };
                    self.words.push(word);
                    self.missing = Some(missing - 1);
                }
            }
        }
    }

    fn word(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, ProtocolError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                match input.first() {
                    None => return Ok(None),
                    Some(b'$') => {}
                    Some(other) => return Err(ProtocolError::NotAWord(char::from(*other))),
                }
                let Some((line, taken)) = self.line(input, "bulk count string")? else { return Ok(None) };
                let length = number(&line[1..]).filter(|length| (0..=ANNOUNCED_BYTES_MAX).contains(length));
                let length = length.and_then(|length| usize::try_from(length).ok()).ok_or(ProtocolError::WordLength)?;
                input.advance(taken);
                self.bytes += length + WORD_BYTES;
                if self.bytes > self.limits.bytes {
                    return Err(ProtocolError::TooLarge(self.limits.bytes));
                }
                *self.length.insert(length)
            }
        };
        if input.len() < length + 2 {
            return Ok(None);
        }
        let word = input.split_to(length).freeze();
        input.advance(2);
        self.length = None;
        Ok(Some(word))
    }

    /// The next line without its end (LF, or CR and LF), and its length with that. It stays where
    /// it is: to take it out as bytes of its own costs as much as a word.
    fn line<'a>(
        &mut self,
        input: &'a BytesMut,
        what: &'static str,
    ) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
        let found = input[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = input.len();
            return if input.len() > LINE_BYTES_MAX { Err(ProtocolError::LongLine(what)) } else { Ok(None) };
        };
        self.searched = 0;
        if end > LINE_BYTES_MAX {
            return Err(ProtocolError::LongLine(what));
        }
        let line = &input[..end];
        Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
    }
}

fn number(text: &[u8]) -> Option<i64> {
    records::integer(text).ok()
}

/// The words of a line: separated by blanks, or quoted. Between double quotes, `\n`, `\r`, `\t`,
/// `\b`, `\a` and `\xFF` are bytes; between single quotes, `\'` is a quote.
fn inline_words(line: &[u8]) -> Result<Vec<Bytes>, ProtocolError> {
    // All words are in one allocation: none is longer than what is read for it.
    let (mut words, mut word) = (Vec::new(), BytesMut::with_capacity(line.len()));
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let mut quote = None;
        loop {
            let Some((&byte, after)) = rest.split_first() else {
                if quote.is_some() {
                    return Err(ProtocolError::Quotes);
                }
                break;
            };
            rest = after;
            match (quote, byte) {
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, byte) if byte.is_ascii_whitespace() => break,
                (Some(open), byte) if byte == open => {
                    quote = None;
                    // A closing quote ends a word.
                    if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                        return Err(ProtocolError::Quotes);
                    }
                }
                (Some(b'"'), b'\\') => {
                    let (byte, after) = escaped(rest)?;
                    word.put_u8(byte);
                    rest = after;
                }
                (Some(b'\''), b'\\') if rest.first() == Some(&b'\'') => {
                    word.put_u8(b'\'');
                    rest = &rest[1..];
                }
                (_, byte) => word.put_u8(byte),
            }
        }
        words.push(word.split().freeze());
    }
}

/// The byte after a backslash, and what follows it.
fn escaped(rest: &[u8]) -> Result<(u8, &[u8]), ProtocolError> {
    if let [b'x', high, low, after @ ..] = rest {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        if let (Some(high), Some(low)) = (digit(high), digit(low)) {
            return Ok((high << 4 | low, after));
        }
    }
    let (byte, after) = rest.split_first().ok_or(ProtocolError::Quotes)?;
    let byte = match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => *other,
    };
    Ok((byte, after))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// All requests in `bytes`, which arrive in pieces of `piece` bytes.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Vec<Bytes>>, ProtocolError> {
        let (mut requests, mut input, mut found) = (Requests::new(RequestLimits::default()), BytesMut::new(), vec![]);
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            while let Some(request) = requests.next(&mut input)? {
                found.push(request);
            }
        }
        Ok(found)
    }

    fn words(texts: &[&'static str]) -> Vec<Bytes> {
        texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect()
    }

    #[test]
    fn requests_are_read_whatever_the_pieces() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\nset 'a b' \"\\x41\\n\"\n";
        let expected = [words(&["GET", "a"]), words(&["PING"]), words(&[""]), words(&["set", "a b", "A\n"])];
        for piece in [1, 2, 7, bytes.len()] {
            assert_eq!(read(bytes, piece).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn garbage_is_refused_in_the_words_of_redis() {
        let refusal = |bytes: &[u8]| read(bytes, 4096).unwrap_err().to_string();
        assert_eq!(refusal(b"*1\r\n:5\r\n"), "Protocol error: expected '$', got ':'");
        assert_eq!(refusal(b"*x\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refusal(b"*2000000\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refusal(b"*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(refusal(b"*1\r\n$600000000\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(refusal(b"get \"a\r\n"), "Protocol error: unbalanced quotes in request");
        assert_eq!(refusal(b"get \"a\"b\r\n"), "Protocol error: unbalanced quotes in request");
        assert_eq!(refusal(&[b'a'; 70_000]), "Protocol error: too big inline request");
        assert_eq!(
            refusal(&[b"*".to_vec(), b"1".repeat(70_000)].concat()),
            "Protocol error: too big mbulk count string"
        );
    }

    #[test]
    fn the_words_of_a_line_count_like_those_of_a_list() {
        let mut requests = Requests::new(RequestLimits { bytes: 100 * (1 + WORD_BYTES) });
        let mut input = BytesMut::from(format!("{}\r\n{}\r\n", "a ".repeat(100), "a ".repeat(101)).as_bytes());
        assert_eq!(requests.next(&mut input).unwrap().unwrap().len(), 100);
        assert_eq!(requests.next(&mut input), Err(ProtocolError::TooLarge(1_700)));
    }

    #[test]
    fn requests_are_smaller_where_they_would_take_more_memory_than_there_is() {
        let usual = RequestLimits::default();
        assert_eq!(usual.within(usual.memory_bytes_max()), usual);
        let large = RequestLimits { bytes: usize::MAX };
        for bytes_max in [1 << 20, 14 << 20] {
            let within = large.within(bytes_max);
            assert!(within.memory_bytes_max() <= bytes_max && within.bytes > 0, "{bytes_max}: {within:?}");
        }
    }

    #[test]
    fn what_is_announced_costs_nothing_until_it_arrives() {
        let mut requests = Requests::new(RequestLimits::default());
        let mut input = BytesMut::from(&b"*1000000\r\n$3\r\nGET\r\n"[..]);
        assert_eq!(requests.next(&mut input), Ok(None));
        assert!(requests.words.capacity() < 100, "{}", requests.words.capacity());
        let too_long = read(b"*2\r\n$3\r\nGET\r\n$1048576\r\n", 4096);
        assert_eq!(too_long, Err(ProtocolError::TooLarge(1 << 20)));
        let many = [&b"*1000000\r\n"[..], &b"$0\r\n\r\n".repeat(70_000)].concat();
        assert_eq!(read(&many, 4096), Err(ProtocolError::TooLarge(1 << 20)));
    }
}
