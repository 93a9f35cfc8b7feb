//! Which earlier versions of objects are kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Which versions are kept besides the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "Written")]
pub enum Keep {
    /// All of them.
    All,
    /// None.
    None,
    /// The newest, this many.
    Newest(u32),
    /// Those that were current at any time within this duration.
    For(Duration),
}

/// Which versions are kept, per kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Versions of resources of the repository.
    pub resources: Keep,
    /// Versions of volumes.
    pub volumes: Keep,
}

impl Default for History {
    fn default() -> Self {
        Self { resources: Keep::All, volumes: Keep::None }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::None => f.write_str("none"),
            Self::Newest(count) => write!(f, "{count}"),
            Self::For(time) => humantime::format_duration(*time).fmt(f),
        }
    }
}

impl From<Keep> for String {
    fn from(keep: Keep) -> Self {
        keep.to_string()
    }
}

/// The text does not say which versions are kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` does not say which versions are kept: write `all`, `none`, how many (`10`), or for how long (`30days`)")]
pub struct InvalidKeep(String);

impl FromStr for Keep {
    type Err = InvalidKeep;

    fn from_str(text: &str) -> Result<Self, InvalidKeep> {
        let number = || text.parse().ok().map(Self::Newest);
        let time = || humantime::parse_duration(text).ok().map(Self::For);
        match text {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => number().or_else(time).ok_or_else(|| InvalidKeep(text.to_owned())),
        }
    }
}

/// The written form. Some formats have numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Count(u32),
    Text(String),
}

impl TryFrom<Written> for Keep {
    type Error = InvalidKeep;

    fn try_from(written: Written) -> Result<Self, InvalidKeep> {
        match written {
            Written::Count(count) => Ok(Self::Newest(count)),
            Written::Text(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_kept_reads_back_from_its_text_and_rubbish_is_refused() {
        let month = Duration::from_secs(30 * 24 * 3_600);
        for (text, keep) in
            [("all", Keep::All), ("none", Keep::None), ("10", Keep::Newest(10)), ("30d", Keep::For(month))]
        {
            assert_eq!(text.parse(), Ok(keep));
            assert_eq!(keep.to_string().parse(), Ok(keep));
        }
        for rubbish in ["", "some", "-1", "10 versions"] {
            assert!(rubbish.parse::<Keep>().is_err(), "{rubbish:?}");
        }
    }
}
