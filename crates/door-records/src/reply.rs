//! What a command answers, and its bytes in both versions of the protocol.

use bytes::{Bytes, BytesMut};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::resp2;
use redis_protocol::resp2::types::BytesFrame as Frame2;
use redis_protocol::resp3;
use redis_protocol::resp3::types::{BytesFrame as Frame3, FrameMap, VerbatimStringFormat};

use crate::error::Refusal;

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
        Self::PART_BYTES
            + match self {
                Self::Word(_) | Self::Integer(_) | Self::Nothing | Self::NoList => 0,
                Self::Refused(refusal) => refusal.text().len(),
                Self::Bytes(bytes) => bytes.len(),
                Self::Text(text) => text.len(),
                Self::List(replies) => replies.iter().map(Self::bytes).sum(),
                Self::Map(replies) | Self::Pairs(replies) => replies.iter().map(pairs).sum(),
            }
    }

    /// What metrics call it.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.outcome(),
            _ => "answered",
        }
    }

    /// Appends the answer's bytes to `out`.
    ///
    /// Errors: a word or a refusal has a line break.
    pub fn write(self, version: Version, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
        match (version, self) {
            // Clients tell it from nothing in the place of bytes. The library has no such frame.
            (Version::Two, Self::NoList) => {
                out.extend_from_slice(NO_LIST_2);
                Ok(())
            }
            (Version::Two, reply) => resp2::encode::extend_encode(out, &reply.frame_2(), false).map(drop),
            (Version::Three, reply) => resp3::encode::complete::extend_encode(out, &reply.frame_3(), false).map(drop),
        }
    }

    fn frame_2(self) -> Frame2 {
        match self {
            Self::Word(word) => Frame2::SimpleString(Bytes::from_static(word.as_bytes())),
            Self::Refused(refusal) => Frame2::Error(refusal.text().into()),
            Self::Integer(number) => Frame2::Integer(number),
            Self::Bytes(bytes) => Frame2::BulkString(bytes),
            Self::Text(text) => Frame2::BulkString(text.into()),
            Self::Nothing | Self::NoList => Frame2::Null,
            Self::List(replies) => Frame2::Array(replies.into_iter().map(Self::frame_2).collect()),
            Self::Map(pairs) | Self::Pairs(pairs) => {
                Frame2::Array(pairs.into_iter().flat_map(|(one, other)| [one.frame_2(), other.frame_2()]).collect())
            }
        }
    }

    fn frame_3(self) -> Frame3 {
        let attributes = None;
        match self {
            Self::Word(word) => Frame3::SimpleString { data: Bytes::from_static(word.as_bytes()), attributes },
            Self::Refused(refusal) => Frame3::SimpleError { data: refusal.text().into(), attributes },
            Self::Integer(data) => Frame3::Number { data, attributes },
            Self::Bytes(data) => Frame3::BlobString { data, attributes },
            Self::Text(text) => {
                Frame3::VerbatimString { data: text.into(), format: VerbatimStringFormat::Text, attributes }
            }
            Self::Nothing | Self::NoList => Frame3::Null,
            Self::List(replies) => Frame3::Array { data: replies.into_iter().map(Self::frame_3).collect(), attributes },
            Self::Map(pairs) => {
                let mut data = FrameMap::with_capacity(pairs.len());
                data.extend(pairs.into_iter().map(|(name, value)| (name.frame_3(), value.frame_3())));
                Frame3::Map { data, attributes }
            }
            Self::Pairs(pairs) => {
                let pair = |(one, other): (Self, Self)| Self::List(vec![one, other]).frame_3();
                Frame3::Array { data: pairs.into_iter().map(pair).collect(), attributes }
            }
        }
    }
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
    fn a_missing_list_and_missing_bytes_are_told_apart_in_version_2() {
        assert_eq!(written(Reply::NoList, Version::Two), b"+OK\r\n*-1\r\n");
        assert_eq!(written(Reply::Nothing, Version::Two), b"+OK\r\n$-1\r\n");
        for missing in [Reply::NoList, Reply::Nothing] {
            assert_eq!(written(missing, Version::Three), b"+OK\r\n_\r\n");
        }
    }
}
