//! Which earlier versions of objects are kept.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::path::ResourcePath;

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
    /// Those that a client asked for.
    Explicit,
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

/// What is kept in some trees of the repository, instead of [`History::resources`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryTrees(Vec<(ResourcePath, Keep)>);

impl HistoryTrees {
    /// Each path says what is kept of the resource there, and of those below it.
    pub fn new(trees: Vec<(ResourcePath, Keep)>) -> Self {
        Self(trees)
    }

    /// What is kept at a path; `None` if it is in none of these trees. The innermost tree decides.
    pub(crate) fn at(&self, path: &ResourcePath) -> Option<Keep> {
        let around = self.0.iter().filter(|(tree, _)| path.is_within(tree));
        around.max_by_key(|(tree, _)| tree.as_str().len()).map(|(_, keep)| *keep)
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::None => f.write_str("none"),
            Self::Newest(count) => write!(f, "{count}"),
            Self::For(time) => humantime::format_duration(*time).fmt(f),
            Self::Explicit => f.write_str("explicit"),
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
#[error(
    "`{0}` does not say which versions are kept: write `all`, `none`, how many (`10`), for how long (`30days`), or \
     `explicit`"
)]
pub struct InvalidKeep(String);

impl FromStr for Keep {
    type Err = InvalidKeep;

    fn from_str(text: &str) -> Result<Self, InvalidKeep> {
        let number = || text.parse().ok().map(Self::Newest);
        let time = || humantime::parse_duration(text).ok().map(Self::For);
        match text {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            "explicit" => Ok(Self::Explicit),
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
    use crate::options::LibraryOptions;

    #[test]
    fn what_is_kept_reads_back_from_its_text_and_rubbish_is_refused() {
        let month = Duration::from_secs(30 * 24 * 3_600);
        for (text, keep) in [
            ("all", Keep::All),
            ("none", Keep::None),
            ("10", Keep::Newest(10)),
            ("30d", Keep::For(month)),
            ("explicit", Keep::Explicit),
        ] {
            assert_eq!(text.parse(), Ok(keep));
            assert_eq!(keep.to_string().parse(), Ok(keep));
        }
        for rubbish in ["", "some", "-1", "10 versions"] {
            assert!(rubbish.parse::<Keep>().is_err(), "{rubbish:?}");
        }
    }

    #[test]
    fn the_innermost_tree_says_what_is_kept() {
        let tree = |path: &str, keep| (path.parse().unwrap(), keep);
        let trees = vec![tree("a/b", Keep::All), tree("a", Keep::None), tree("c", Keep::Newest(2))];
        let options = LibraryOptions { history_trees: HistoryTrees::new(trees), ..LibraryOptions::default() };
        let kept_at = |path: &str| options.kept_at(&path.parse().unwrap());
        assert_eq!(["a", "a/x", "a/bc"].map(kept_at), [Keep::None; 3]);
        assert_eq!(["", "ab", "b", "a/b", "a/b/c"].map(kept_at), [Keep::All; 5]);
        assert_eq!(kept_at("c/d"), Keep::Newest(2));
    }
}
