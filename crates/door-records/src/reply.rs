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
    /// Nothing, where a list was asked for.
    NoList,
    /// A list.
    List(Vec<Reply>),
    /// Names and values. A flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Pairs. A flat list in RESP2, a list of lists in RESP3.
    Pairs(Vec<(Reply, Reply)>),
}

impl Reply {
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
        const PART: usize = 32;
        let pairs = |(one, other): &(Reply, Reply)| one.bytes() + other.bytes();
        PART + match self {
            Self::Word(_) | Self::Integer(_) | Self::Nothing | Self::NoList => 0,
            Self::Refused(refusal) => refusal.text().len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
            Self::List(replies) => replies.iter().map(Self::bytes).sum(),
            Self::Map(replies) | Self::Pairs(replies) => replies.iter().map(pairs).sum(),
        }
    }

    /// Appends the answer's bytes to `out`.
    ///
    /// Errors: a word or a refusal has a line break.
    pub fn write(self, version: Version, out: &mut BytesMut) -> Result<(), RedisProtocolError> {
        match version {
            Version::Two => resp2::encode::extend_encode(out, &self.frame_2(), false).map(drop),
            Version::Three => resp3::encode::complete::extend_encode(out, &self.frame_3(), false).map(drop),
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
