//! One limit, as it is written in the scope of a token: `volumes:hvd.*` or
//! `rest:/collections/maps`.

use std::fmt;
use std::str::FromStr;

use heads::{ResourcePath, VOLUMES};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::pattern::{ENCODED, VolumePattern};

/// The most bytes of a limit as it is written, and as it is stored: percent-encoded.
pub const LIMIT_BYTES_MAX: usize = 1_000;

const OF_VOLUMES: &str = "volumes:";
const OF_RESOURCES: &str = "rest:";

/// Names that begin with this are those of parts of resources, such as their versions.
const RESERVED: &str = "fcr:";

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Limit {
    /// The volumes whose ids are like this.
    Volumes(VolumePattern),
    /// The resource at this path of the repository, and all below it, except volumes.
    Resources(ResourcePath),
}

/// A text that is not a limit.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{text}` is no limit: {why}")]
pub struct NotALimit {
    text: String,
    why: String,
}

impl NotALimit {
    pub(crate) fn new(text: &str, why: impl Into<String>) -> Self {
        let text = text.chars().take(100).collect();
        Self { text, why: why.into() }
    }
}

impl Limit {
    /// Whether a word is meant as a limit, be it well formed or not.
    pub fn is_meant(word: &str) -> bool {
        word.starts_with(OF_VOLUMES) || word.starts_with(OF_RESOURCES)
    }
}

/// The path that a text names, from the root of the repository down: percent-encoded, with a slash
/// at its end or without.
fn path_of(text: &str) -> Result<ResourcePath, NotALimit> {
    let refused = |why: String| NotALimit::new(text, why);
    let below = text.strip_prefix('/').ok_or_else(|| refused("a path begins with a slash".to_owned()))?;
    if below.is_empty() {
        return Ok(ResourcePath::root());
    }
    let names = below.strip_suffix('/').unwrap_or(below).split('/').map(decoded).collect::<Result<Vec<_>, _>>()?;
    if names.iter().any(|name| name.starts_with(RESERVED)) {
        return Err(refused(format!("names that begin with `{RESERVED}` are parts of resources; name the resource")));
    }
    if names.first().is_some_and(|name| name == VOLUMES) {
        return Err(refused(format!("volumes are named as in `{OF_VOLUMES}hvd.*`, wherever they are read")));
    }
    ResourcePath::of_names(names.iter().map(String::as_str)).map_err(|error| refused(error.to_string()))
}

/// A text without its percent-encoding (RFC 3986, section 2.1).
pub(crate) fn decoded(text: &str) -> Result<String, NotALimit> {
    let is_hex = |pair: Option<&[u8]>| pair.is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
    let bytes = text.as_bytes();
    let percents = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    if !percents.into_iter().all(|(at, _)| is_hex(bytes.get(at + 1..at + 3))) {
        return Err(NotALimit::new(text, "% begins an encoded character, %25 is the character itself"));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| NotALimit::new(text, "it is not UTF-8 once it is decoded"))
}

impl FromStr for Limit {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        if text.len() > LIMIT_BYTES_MAX {
            return Err(NotALimit::new(text, format!("it has more than {LIMIT_BYTES_MAX} bytes")));
        }
        let limit = match (text.strip_prefix(OF_VOLUMES), text.strip_prefix(OF_RESOURCES)) {
            (Some(pattern), _) => Self::Volumes(VolumePattern::parse(pattern)?),
            (None, Some(path)) => Self::Resources(path_of(path)?),
            (None, None) => {
                return Err(NotALimit::new(text, format!("it begins with `{OF_VOLUMES}` or `{OF_RESOURCES}`")));
            }
        };
        // It is stored in this form, and read again.
        if limit.to_string().len() > LIMIT_BYTES_MAX {
            return Err(NotALimit::new(text, format!("it has more than {LIMIT_BYTES_MAX} bytes percent-encoded")));
        }
        Ok(limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volumes(pattern) => write!(f, "{OF_VOLUMES}{pattern}"),
            Self::Resources(path) => write!(f, "{OF_RESOURCES}/{}", utf8_percent_encode(path.as_str(), ENCODED)),
        }
    }
}

impl TryFrom<String> for Limit {
    type Error = NotALimit;

    fn try_from(text: String) -> Result<Self, NotALimit> {
        text.parse()
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_is_taken_without_its_spelling() {
        for text in ["rest:/a/b c/ü", "rest:/a/b c/ü/", "rest:/a/b%20c/%C3%BC", "rest:/%61/b c/%c3%bc/"] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(limit, Limit::Resources("a/b c/ü".parse().unwrap()), "{text}");
            assert_eq!(limit.to_string(), "rest:/a/b%20c/%C3%BC");
        }
        assert_eq!("rest:/".parse::<Limit>().unwrap(), Limit::Resources(ResourcePath::root()));
        assert_eq!("rest:/a;x=1".parse::<Limit>().unwrap(), Limit::Resources("a;x=1".parse().unwrap()));
    }

    #[test]
    fn path_tricks_are_refused() {
        for text in [
            "rest:",
            "rest:a",
            "rest://",
            "rest:/a//b",
            "rest:/a/../b",
            "rest:/a/%2e%2E/b",
            "rest:/./a",
            "rest:/a%2Fb",
            "rest:/a//",
            "rest:/%00",
            "rest:/%FF",
            "rest:/%",
            "rest:/a/fcr:versions",
            "rest:/volumes",
            "rest:/%76olumes/a.1",
            "volumes:",
            "volume:a.*",
            "Rest:/a",
        ] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
        assert!(format!("volumes:{}*", "a".repeat(LIMIT_BYTES_MAX)).parse::<Limit>().is_err());
    }

    #[test]
    fn a_limit_is_kept_as_text() {
        let limits: Vec<Limit> = vec!["volumes:a.*".parse().unwrap(), "rest:/x".parse().unwrap()];
        let json = serde_json::to_string(&limits).unwrap();
        assert_eq!(json, r#"["volumes:a.*","rest:/x"]"#);
        assert_eq!(serde_json::from_str::<Vec<Limit>>(&json).unwrap(), limits);
        assert!(serde_json::from_str::<Limit>("\"rest:/a/..\"").is_err());
    }

    #[test]
    fn a_limit_that_could_not_be_read_again_is_refused() {
        // Each letter is two bytes, and six in the form that is stored.
        let limit = |begin: &str, letters: usize| format!("{begin}{}", "ü".repeat(letters)).parse::<Limit>();
        for begin in ["volumes:*", "rest:/"] {
            let longest = limit(begin, 165).unwrap();
            let json = serde_json::to_string(&longest).unwrap();
            assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), longest);
            assert!(limit(begin, 166).unwrap_err().to_string().contains("percent-encoded"));
        }
    }
}
