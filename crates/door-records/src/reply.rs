//! What a command answers, and its bytes in both versions of the protocol.

use bytes::{BufMut, Bytes, BytesMut};
use records::{Attribute, Attributes};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2;
use redis_protocol::resp2::types::BytesFrame as Frame2;
use redis_protocol::resp3;
use redis_protocol::resp3::types::{BytesFrame as Frame3, VerbatimStringFormat};

use crate::error::Refusal;
use crate::meters::Outcome;

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RESP2: every connection begins with it.
    #[default]
    Two,
    /// RESP3, after `HELLO 3`.
    Three,
}

/// A missing list in RESP2.
const NO_LIST_2: &[u8] = b"*-1\r\n";

/// The end of a line, and of bytes.
const LINE_END: &[u8] = b"\r\n";

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A word of the protocol, such as `OK`.
    Word(&'static str),
    /// A refusal.
    Refused(Refusal),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bytes(Bytes),
    /// Text for people.
    Text(String),
    /// Nothing, where bytes were asked for.
    Nothing,
    /// Nothing, in the place of the list of a transaction that did not happen.
    NoList,
    /// A list.
    List(Vec<Reply>),
    /// Names and values. A flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Likewise, those of a record. In a box, because they are larger than other parts.
    Attributes(Box<Attributes>),
    /// Pairs. A flat list in RESP2, a list of lists in RESP3.
    Pairs(Vec<(Reply, Reply)>),
}

impl Reply {
    /// About how many bytes each part of an answer takes besides what it holds.
    pub const PART_BYTES: usize = 32;

    /// `OK`.
    pub const OK: Reply = Reply::Word("OK");

    /// Bytes that do not change.
    pub fn fixed(text: &'static str) -> Self {
        Self::Bytes(Bytes::from_static(text.as_bytes()))
    }

    /// Bytes, or nothing.
    pub fn bytes_or_nothing(value: Option<Bytes>) -> Self {
        value.map_or(Self::Nothing, Self::Bytes)
    }

    /// 1 or 0.
    pub fn flag(is: bool) -> Self {
        Self::Integer(is.into())
    }

    /// A number of things.
    pub fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let pairs = |(one, other): &(Reply, Reply)| one.bytes() + other.bytes();
        let attributes = |(name, found): (&Bytes, &Attribute)| 2 * Self::PART_BYTES + name.len() + found.value.len();
        Self::PART_BYTES
            + match self {
                Self::Word(_) | Self::Integer(_) | Self::Nothing | Self::NoList => 0,
                Self::Refused(refusal) => refusal.text().len(),
                Self::Bytes(bytes) => bytes.len(),
                Self::Text(text) => text.len(),
                Self::List(replies) => replies.iter().map(Self::bytes).sum(),
                Self::Map(replies) | Self::Pairs(replies) => replies.iter().map(pairs).sum(),
                Self::Attributes(found) => found.iter().map(attributes).sum(),
            }
    }

    /// What metrics call it.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(refusal) => refusal.outcome(),
            _ => Outcome::Answered,
        }
    }

    /// Appends the answer's bytes to `out`. What has parts is written without a frame of the
    /// library for each of them: that would take several times as long.
    ///
    /// Errors: a word or a refusal has a line break.
    pub fn write(self, version: Version, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
        let attributes = None;
        match (self, version) {
            (Self::Bytes(bytes), _) => put_bytes(&bytes, out),
            (Self::List(replies), _) => {
                put_head(b'*', replies.len(), out);
                replies.into_iter().try_for_each(|reply| reply.write(version, out))?;
            }
            (Self::Map(pairs), _) => {
                put_map_head(pairs.len(), version, out);
                write_pairs(pairs, version, out)?;
            }
            (Self::Attributes(found), _) => {
                put_map_head(found.len(), version, out);
                for (name, attribute) in found.iter() {
                    put_bytes(name, out);
                    put_bytes(&attribute.value, out);
                }
            }
            (Self::Pairs(pairs), Version::Two) => {
                put_head(b'*', 2 * pairs.len(), out);
                write_pairs(pairs, version, out)?;
            }
            (Self::Pairs(pairs), Version::Three) => {
                put_head(b'*', pairs.len(), out);
                for (one, other) in pairs {
                    Self::List(vec![one, other]).write(version, out)?;
                }
            }
            // Clients tell it from nothing in the place of bytes. The library has no such frame.
            (Self::NoList, Version::Two) => out.extend_from_slice(NO_LIST_2),
            (Self::Word(word), Version::Two) => {
                write_2(Frame2::SimpleString(Bytes::from_static(word.as_bytes())), out)?;
            }
            (Self::Word(word), Version::Three) => {
                write_3(Frame3::SimpleString { data: Bytes::from_static(word.as_bytes()), attributes }, out)?;
            }
            (Self::Refused(refusal), Version::Two) => write_2(Frame2::Error(refusal.text().into()), out)?,
            (Self::Refused(refusal), Version::Three) => {
                write_3(Frame3::SimpleError { data: refusal.text().into(), attributes }, out)?;
            }
            (Self::Integer(number), Version::Two) => write_2(Frame2::Integer(number), out)?,
            (Self::Integer(data), Version::Three) => write_3(Frame3::Number { data, attributes }, out)?,
            (Self::Text(text), Version::Two) => put_bytes(text.as_bytes(), out),
            (Self::Text(text), Version::Three) => {
                let format = VerbatimStringFormat::Text;
                write_3(Frame3::VerbatimString { data: text.into(), format, attributes }, out)?;
            }
            (Self::Nothing, Version::Two) => write_2(Frame2::Null, out)?,
            (Self::Nothing | Self::NoList, Version::Three) => write_3(Frame3::Null, out)?,
        }
        Ok(())
    }
}

fn write_2(frame: Frame2, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
    resp2::encode::extend_encode(out, &frame, false).map(drop)
}

fn write_3(frame: Frame3, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
    resp3::encode::complete::extend_encode(out, &frame, false).map(drop)
}

fn write_pairs(pairs: Vec<(Reply, Reply)>, version: Version, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
    for (one, other) in pairs {
        one.write(version, out)?;
        other.write(version, out)?;
    }
    Ok(())
}

/// The head of names and values.
fn put_map_head(count: usize, version: Version, out: &mut BytesMut) {
    match version {
        Version::Two => put_head(b'*', 2 * count, out),
        Version::Three => put_head(b'%', count, out),
    }
}

/// The kind of what follows, and how much of it there is.
fn put_head(kind: u8, count: usize, out: &mut BytesMut) {
    out.put_u8(kind);
    out.put_slice(itoa::Buffer::new().format(count).as_bytes());
    out.put_slice(LINE_END);
}

/// Bytes, which both versions have in the same form.
fn put_bytes(bytes: &[u8], out: &mut BytesMut) {
    put_head(b'$', bytes.len(), out);
    out.put_slice(bytes);
    out.put_slice(LINE_END);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(reply: Reply, version: Version) -> Vec<u8> {
        let mut out = BytesMut::from(&b"+OK\r\n"[..]);
        reply.write(version, &mut out).unwrap();
        out.to_vec()
    }

    #[test]
    fn names_and_values_are_a_flat_list_in_version_2_and_a_map_in_version_3() {
        let [a, b] = ["a", "b"].map(|name| Bytes::from_static(name.as_bytes()));
        let long = Bytes::from_static(b"0123456789");
        let of = |value: &Bytes| Attribute::lasting(value.clone());
        let attributes = [(a.clone(), of(&Bytes::new())), (b.clone(), of(&long))];
        let attributes = Reply::Attributes(Box::new(attributes.into_iter().collect()));
        let map = vec![(Reply::Bytes(a), Reply::Bytes(Bytes::new())), (Reply::Bytes(b), Reply::Bytes(long))];
        assert_eq!(attributes.bytes(), Reply::Map(map.clone()).bytes());
        let parts = "$1\r\na\r\n$0\r\n\r\n$1\r\nb\r\n$10\r\n0123456789\r\n";
        for (version, head) in [(Version::Two, "*4"), (Version::Three, "%2")] {
            let expected = format!("+OK\r\n{head}\r\n{parts}").into_bytes();
            assert_eq!(written(attributes.clone(), version), expected);
            assert_eq!(written(Reply::Map(map.clone()), version), expected);
        }
        assert_eq!(written(Reply::Pairs(map.clone()), Version::Two), written(attributes, Version::Two));
        let pairs = "+OK\r\n*2\r\n*2\r\n$1\r\na\r\n$0\r\n\r\n*2\r\n$1\r\nb\r\n$10\r\n0123456789\r\n";
        assert_eq!(written(Reply::Pairs(map), Version::Three), pairs.as_bytes());
    }

    #[test]
    fn each_part_of_a_list_has_its_own_form() {
        let list = Reply::List(vec![
            Reply::OK,
            Reply::Integer(-12),
            Reply::Refused(Refusal::syntax()),
            Reply::Nothing,
            Reply::List(Vec::new()),
            Reply::Text("text".to_owned()),
        ]);
        let begin = "+OK\r\n*6\r\n+OK\r\n:-12\r\n-ERR syntax error\r\n";
        let [two, three] = ["$-1\r\n*0\r\n$4\r\ntext\r\n", "_\r\n*0\r\n=8\r\ntxt:text\r\n"];
        assert_eq!(written(list.clone(), Version::Two), format!("{begin}{two}").into_bytes());
        assert_eq!(written(list, Version::Three), format!("{begin}{three}").into_bytes());
    }

    #[test]
    fn a_missing_list_and_missing_bytes_are_told_apart_in_version_2() {
        assert_eq!(written(Reply::NoList, Version::Two), b"+OK\r\n*-1\r\n");
        assert_eq!(written(Reply::Nothing, Version::Two), b"+OK\r\n$-1\r\n");
        for missing in [Reply::NoList, Reply::Nothing] {
            assert_eq!(written(missing, Version::Three), b"+OK\r\n_\r\n");
        }
    }
}
