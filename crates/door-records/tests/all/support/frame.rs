//! Answers, so that they can be compared.

use redis_protocol::resp2::types::OwnedFrame as Frame2;
use redis_protocol::resp3::types::OwnedFrame as Frame3;

/// An answer in either version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frame {
    Word(Vec<u8>),
    Error(String),
    Integer(i64),
    Bytes(Vec<u8>),
    Null,
    List(Vec<Frame>),
    /// Pairs, in the order of their names.
    Map(Vec<(Frame, Frame)>),
    Other(String),
}

impl From<Frame2> for Frame {
    fn from(frame: Frame2) -> Self {
        match frame {
            Frame2::SimpleString(word) => Self::Word(word),
            Frame2::Error(error) => Self::Error(error),
            Frame2::Integer(number) => Self::Integer(number),
            Frame2::BulkString(bytes) => Self::Bytes(bytes),
            Frame2::Null => Self::Null,
            Frame2::Array(frames) => Self::List(frames.into_iter().map(Self::from).collect()),
        }
    }
}

impl From<Frame3> for Frame {
    fn from(frame: Frame3) -> Self {
        match frame {
            Frame3::SimpleString { data, .. } => Self::Word(data),
            Frame3::SimpleError { data, .. } => Self::Error(data),
            Frame3::Number { data, .. } => Self::Integer(data),
            Frame3::BlobString { data, .. } => Self::Bytes(data),
            Frame3::Null => Self::Null,
            Frame3::Array { data, .. } => Self::List(data.into_iter().map(Self::from).collect()),
            Frame3::Map { data, .. } => {
                let mut pairs: Vec<_> = data.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
                pairs.sort();
                Self::Map(pairs)
            }
            other => Self::Other(format!("{other:?}")),
        }
    }
}

impl Frame {
    /// Whether two times are the same, but for the time between the two questions: at most `most`, in
    /// the unit of the times.
    pub fn is_near(&self, other: &Self, most: u64) -> bool {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) if *one > 0 && *other > 0 => one.abs_diff(*other) <= most,
            (Self::List(some), Self::List(others)) => {
                some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one.is_near(other, most))
            }
            _ => self == other,
        }
    }

    /// A list in an order of its own, or an error by its kind: what a server may choose.
    pub fn by_kind(self) -> Self {
        match self {
            Self::Error(text) => Self::Error(text.split(' ').next().unwrap_or_default().to_owned()),
            other => other,
        }
    }

    /// Its lists sorted, also those within. `width` frames that follow each other stay together:
    /// two for names with their values.
    pub fn sorted(self, width: usize) -> Self {
        let Self::List(frames) = self else { return self };
        let mut frames: Vec<Self> = frames.into_iter().map(|frame| frame.sorted(width)).collect();
        let is_nested = frames.iter().any(|frame| matches!(frame, Self::List(_)));
        if is_nested || !frames.len().is_multiple_of(width) {
            frames.sort();
            return Self::List(frames);
        }
        let mut groups: Vec<&[Self]> = frames.chunks(width).collect();
        groups.sort();
        Self::List(groups.concat())
    }

    /// Its text, as people see it.
    pub fn text(&self) -> String {
        match self {
            Self::Word(bytes) | Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Error(text) | Self::Other(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Null => "nothing".to_owned(),
            Self::List(frames) => frames.iter().map(Self::text).collect::<Vec<_>>().join(" "),
            Self::Map(pairs) => pairs
                .iter()
                .map(|(name, value)| format!("{} {}", name.text(), value.text()))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}
