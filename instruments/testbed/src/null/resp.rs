//! What a server that does nothing answers over the Redis protocol: RESP2, and RESP3 after `HELLO 3`. It
//! keeps nothing. Each record has five attributes, which are as long as those that the scenarios of records
//! write.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2;
use redis_protocol::resp2::decode::decode_bytes_mut;
use redis_protocol::resp2::types::BytesFrame as Frame;
use redis_protocol::resp3;
use redis_protocol::resp3::types::BytesFrame as Frame3;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::worker::Extent;

/// The least space that a read has.
const READ_BYTES_MIN: usize = 16 << 10;
/// The most bytes of a request that is not whole yet.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Answers of so many bytes are sent before the next one is made.
const ANSWERS_BYTES: usize = 64 << 10;
/// The most characters of a name that an error repeats.
const NAME_CHARS_MAX: usize = 40;

/// The attributes of each record.
const ATTRIBUTES: [&str; 5] =
    ["profile.segments", "profile.interest", "consent.purposes", "session.referrer", "feature.embedded"];
/// The value of each: as long as a SHA-256 in hexadecimal.
const VALUE: &str = "................................................................";

/// The version of Redis that it resembles, as `HELLO` and `INFO` report it.
const REDIS_VERSION: &str = "7.4.0";
/// What it says about itself. The testbed calls it so.
const INFO: &str = concat!(
    "# Server\r\nredis_version:7.4.0\r\nserver_name:null-redis\r\nnull-redis_version:",
    env!("CARGO_PKG_VERSION"),
    "\r\nredis_mode:standalone\r\n"
);

/// Serves a client until it leaves, or sends what is no request.
///
/// # Errors
/// The connection broke.
pub(super) async fn serve(mut stream: TcpStream, delay: Duration) -> io::Result<()> {
    let (mut session, mut received, mut out) = (Session::default(), BytesMut::new(), BytesMut::new());
    loop {
        received.reserve(READ_BYTES_MIN);
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        loop {
            let may_be_more = session.answer(&mut received, &mut out);
            stream.write_all(&out).await?;
            out.clear();
            if !may_be_more {
                break;
            }
        }
        if session.is_over {
            return Ok(());
        }
    }
}

/// An answer.
enum Reply {
    /// One that is the same in both versions.
    One(Frame),
    /// Names and values. A flat list in RESP2.
    Map(Vec<(Frame, Frame)>),
}

impl Reply {
    fn word(word: &'static str) -> Self {
        Self::One(Frame::SimpleString(Bytes::from_static(word.as_bytes())))
    }

    fn text(text: &'static str) -> Self {
        Self::One(fixed(text))
    }

    fn count(count: usize) -> Self {
        Self::One(Frame::Integer(i64::try_from(count).unwrap_or(i64::MAX)))
    }

    fn values(count: usize) -> Self {
        Self::One(Frame::Array(vec![fixed(VALUE); count]))
    }

    fn error(text: &str) -> Self {
        Self::One(Frame::Error(text.into()))
    }

    /// Appends its bytes. It fails if a word or an error has a line break.
    fn write(self, is_version_3: bool, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
        let written = match (self, is_version_3) {
            (Self::One(frame), false) => resp2::encode::extend_encode(out, &frame, false),
            (Self::One(frame), true) => resp3::encode::complete::extend_encode(out, &frame.into_resp3(), false),
            (Self::Map(pairs), false) => {
                let flat = pairs.into_iter().flat_map(|(name, value)| [name, value]).collect();
                resp2::encode::extend_encode(out, &Frame::Array(flat), false)
            }
            (Self::Map(pairs), true) => {
                let data = pairs.into_iter().map(|(name, value)| (name.into_resp3(), value.into_resp3())).collect();
                resp3::encode::complete::extend_encode(out, &Frame3::Map { data, attributes: None }, false)
            }
        };
        written.map(drop)
    }
}

fn fixed(text: &'static str) -> Frame {
    Frame::BulkString(Bytes::from_static(text.as_bytes()))
}

/// The words of a request; `None`: it is no list of words.
fn words(request: Frame) -> Option<Vec<Bytes>> {
    let Frame::Array(items) = request else { return None };
    let word = |item| match item {
        Frame::BulkString(word) => Some(word),
        _ => None,
    };
    items.into_iter().map(word).collect()
}

/// What is known of a connection.
#[derive(Default)]
struct Session {
    is_version_3: bool,
    /// It ends after its answers.
    is_over: bool,
    /// How far the request reaches that comes next.
    extent: Extent,
}

impl Session {
    /// Answers the requests that have arrived whole, until the answers are long. Returns whether more of them
    /// may be there. What is no request ends the connection.
    fn answer(&mut self, received: &mut BytesMut, out: &mut BytesMut) -> bool {
        while !self.is_over && !received.is_empty() {
            if out.len() >= ANSWERS_BYTES {
                return true;
            }
            let request = match self.extent.is_whole(received) {
                Some(true) => decode_bytes_mut(received).ok().flatten(),
                Some(false) if received.len() <= REQUEST_BYTES_MAX => return false,
                Some(false) | None => None,
            };
            self.extent = Extent::default();
            let reply = match request.and_then(|(request, ..)| words(request)) {
                Some(words) => match words.split_first() {
                    Some((name, words)) => self.reply(name, words),
                    // As in Redis, an empty list has no answer.
                    None => continue,
                },
                None => {
                    self.is_over = true;
                    Reply::error("ERR Protocol error: no list of words, or one of more than 1 MiB")
                }
            };
            self.is_over |= reply.write(self.is_version_3, out).is_err();
        }
        false
    }

    fn reply(&mut self, name: &[u8], words: &[Bytes]) -> Reply {
        let name = name.to_ascii_uppercase();
        match (name.as_slice(), words.len()) {
            (b"HGETALL", 1) => Reply::Map(ATTRIBUTES.map(|name| (fixed(name), fixed(VALUE))).into()),
            (b"HSET", count @ 3..) if !count.is_multiple_of(2) => Reply::count(count / 2),
            (b"HGET", 2) | (b"GET", 1) => Reply::text(VALUE),
            (b"HMGET", count @ 2..) => Reply::values(count - 1),
            (b"MGET", count @ 1..) => Reply::values(count),
            (b"EXPIRE" | b"PEXPIRE" | b"EXPIREAT" | b"PEXPIREAT", 2..) | (b"PERSIST", 1) => Reply::count(1),
            (b"INCR" | b"DECR", 1) | (b"INCRBY" | b"DECRBY", 2) | (b"HINCRBY", 3) => Reply::count(1),
            (b"TTL", 1) => Reply::count(86_400),
            (b"PTTL", 1) => Reply::count(86_400_000),
            (b"DEL" | b"UNLINK" | b"EXISTS", count @ 1..) => Reply::count(count),
            (b"HDEL", count @ 2..) => Reply::count(count - 1),
            (b"HEXISTS", 2) => Reply::count(1),
            (b"HLEN", 1) => Reply::count(ATTRIBUTES.len()),
            (b"SET" | b"MSET", 2..) | (b"HMSET", 3..) | (b"SETEX" | b"PSETEX", 3) => Reply::word("OK"),
            (b"AUTH", 1 | 2) | (b"SELECT", 1) | (b"CLIENT", 1..) => Reply::word("OK"),
            (b"PING", 0) => Reply::word("PONG"),
            (b"PING" | b"ECHO", 1) => Reply::One(Frame::BulkString(words[0].clone())),
            (b"INFO", _) => Reply::text(INFO),
            (b"CONFIG", 2..) if words[0].eq_ignore_ascii_case(b"GET") => Reply::Map(Vec::new()),
            (b"COMMAND", _) => Reply::values(0),
            (b"HELLO", _) => self.hello(words),
            (b"RESET", 0) => {
                self.is_version_3 = false;
                Reply::word("RESET")
            }
            (b"QUIT", 0) => {
                self.is_over = true;
                Reply::word("OK")
            }
            _ => {
                let shown = name.iter().map(|byte| char::from(*byte)).filter(char::is_ascii_graphic);
                let shown: String = shown.take(NAME_CHARS_MAX).collect();
                Reply::error(&format!("ERR unknown command '{shown}', or wrong number of arguments"))
            }
        }
    }

    /// `HELLO [version …]`: everybody is let in.
    fn hello(&mut self, words: &[Bytes]) -> Reply {
        self.is_version_3 = match words.first().map(|word| &word[..]) {
            None => self.is_version_3,
            Some(b"2") => false,
            Some(b"3") => true,
            Some(_) => return Reply::error("NOPROTO unsupported protocol version"),
        };
        let version = if self.is_version_3 { 3 } else { 2 };
        Reply::Map(vec![
            (fixed("server"), fixed("redis")),
            (fixed("version"), fixed(REDIS_VERSION)),
            (fixed("proto"), Frame::Integer(version)),
            (fixed("id"), Frame::Integer(1)),
            (fixed("mode"), fixed("standalone")),
            (fixed("role"), fixed("master")),
            (fixed("modules"), Frame::Array(Vec::new())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request in the form of the protocol.
    fn request(words: &str) -> String {
        let words: Vec<_> = words.split(' ').collect();
        let items: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{items}", words.len())
    }

    /// What a session answers to these bytes, which arrive in pieces of so many.
    fn answers_in_pieces(session: &mut Session, bytes: &[u8], piece_bytes: usize) -> String {
        let (mut received, mut out) = (BytesMut::new(), BytesMut::new());
        for piece in bytes.chunks(piece_bytes) {
            received.extend_from_slice(piece);
            while session.answer(&mut received, &mut out) {
                assert!(out.len() < 2 * ANSWERS_BYTES, "{}", out.len());
                out.clear();
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    fn answers(session: &mut Session, bytes: &str) -> String {
        answers_in_pieces(session, bytes.as_bytes(), usize::MAX)
    }

    #[test]
    fn the_commands_of_records_have_plausible_answers() {
        let value = format!("$64\r\n{VALUE}\r\n");
        let cases = [
            ("HSET user:1 a 1 b 2", ":2\r\n".to_owned()),
            ("hget user:1 a", value.clone()),
            ("HMGET user:1 a b", format!("*2\r\n{value}{value}")),
            ("SET a 1 EX 10", "+OK\r\n".to_owned()),
            ("GET a", value.clone()),
            ("EXPIRE user:1 86400", ":1\r\n".to_owned()),
            ("DEL a b c", ":3\r\n".to_owned()),
            ("PING", "+PONG\r\n".to_owned()),
            ("ECHO here", "$4\r\nhere\r\n".to_owned()),
        ];
        for (words, wanted) in cases {
            assert_eq!(answers(&mut Session::default(), &request(words)), wanted, "{words}");
        }
        let all = answers(&mut Session::default(), &request("HGETALL user:1"));
        assert!(all.starts_with("*10\r\n$16\r\nprofile.segments\r\n$64\r\n"), "{all}");
        assert!(all.contains("feature.embedded"), "{all}");
        let info = answers(&mut Session::default(), &request("INFO server"));
        assert!(info.contains(&format!("redis_version:{REDIS_VERSION}\r\n")), "{info}");
    }

    #[test]
    fn names_and_values_are_a_map_after_hello_3_and_a_list_again_after_hello_2() {
        let mut session = Session::default();
        let hello = answers(&mut session, &request("HELLO 3 AUTH default secret SETNAME x"));
        assert!(hello.starts_with("%7\r\n$6\r\nserver\r\n") && hello.contains("$5\r\nproto\r\n:3\r\n"), "{hello}");
        assert!(answers(&mut session, &request("HGETALL user:1")).starts_with("%5\r\n"));
        assert_eq!(answers(&mut session, &request("CONFIG GET save")), "%0\r\n");
        assert_eq!(answers(&mut session, &request("HSET user:1 a 1")), ":1\r\n");
        assert!(answers(&mut session, &request("HELLO 4")).starts_with("-NOPROTO "));
        assert!(answers(&mut session, &request("HELLO")).starts_with("%7\r\n"));
        assert!(answers(&mut session, &request("HELLO 2")).starts_with("*14\r\n"));
        assert!(answers(&mut session, &request("HGETALL user:1")).starts_with("*10\r\n"));
    }

    #[test]
    fn pipelined_commands_are_answered_in_order_in_whatever_pieces_they_arrive() {
        let all = [request("PING"), "*0\r\n".to_owned(), request("HSET a b c"), request("ECHO x")].concat();
        for piece_bytes in [1, 2, 7, all.len()] {
            let answers = answers_in_pieces(&mut Session::default(), all.as_bytes(), piece_bytes);
            assert_eq!(answers, "+PONG\r\n:1\r\n$1\r\nx\r\n", "{piece_bytes}");
        }
        // Long answers are sent in parts.
        let many = request("HGETALL user:1").repeat(1_000);
        let mut session = Session::default();
        answers_in_pieces(&mut session, many.as_bytes(), many.len());
        assert!(!session.is_over);
        assert_eq!(answers(&mut session, &request("PING")), "+PONG\r\n");
    }

    #[test]
    fn a_command_that_is_not_known_or_lacks_words_is_an_error_and_the_connection_goes_on() {
        let mut session = Session::default();
        for words in ["NOTHING a b", "HSET user:1 a", "HGETALL", "GET", "CONFIG SET a b"] {
            let answer = answers(&mut session, &request(words));
            assert!(answer.starts_with("-ERR unknown command '") && answer.ends_with("\r\n"), "{answer}");
        }
        let hostile = answers(&mut session, "*1\r\n$7\r\nA\r\n+OK\n\r\n");
        assert_eq!(hostile, "-ERR unknown command 'A+OK', or wrong number of arguments\r\n");
        assert_eq!(answers(&mut session, &request("PING")), "+PONG\r\n");
    }

    #[test]
    fn what_is_no_request_ends_the_connection_and_needs_no_memory() {
        let deep = "*1\r\n".repeat(1_000);
        let long = format!("*2\r\n$3\r\nGET\r\n${}\r\n{}", 4 << 20, "x".repeat(REQUEST_BYTES_MAX));
        let short = ["GET / HTTP/1.1\r\n\r\n", "+OK\r\n", "*1\r\n:1\r\n", "*-1\r\n", "*1\r\n$x\r\n"];
        for bytes in short.into_iter().chain([deep.as_str(), long.as_str()]) {
            let mut session = Session::default();
            let answer = answers(&mut session, bytes);
            assert!(session.is_over && answer.starts_with("-ERR Protocol error"), "{answer}");
        }
        let mut session = Session::default();
        assert_eq!(answers(&mut session, &[request("QUIT"), request("PING")].concat()), "+OK\r\n");
        assert!(session.is_over);
    }
}
