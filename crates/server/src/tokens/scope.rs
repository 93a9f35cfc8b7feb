//! What a token allows.
//!
//! Scopes are written as OAuth 2.0 writes them (RFC 6749, section 3.3): words, separated by spaces.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::access::Right;

/// One thing that a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// To read what is stored, and its changes.
    Read,
    /// To change it, and to read it.
    Write,
    /// To read metrics and statistics, and nothing that is stored.
    Metrics,
    /// To see what operators see, such as what the fixity auditor found, and metrics.
    Admin,
}

impl Scope {
    const ALL: [Scope; 4] = [Scope::Read, Scope::Write, Scope::Metrics, Scope::Admin];

    fn word(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Metrics => "metrics",
            Scope::Admin => "admin",
        }
    }

    fn allows(self, right: Right) -> bool {
        match self {
            Scope::Read => matches!(right, Right::Read | Right::Metrics),
            Scope::Write => matches!(right, Right::Read | Right::Write | Right::Metrics),
            Scope::Metrics => right == Right::Metrics,
            Scope::Admin => matches!(right, Right::Operate | Right::Metrics),
        }
    }
}

/// Everything that a token allows: at least one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// What a token allows that was made before there were scopes.
    pub fn before_scopes() -> Self {
        Self([Scope::Read, Scope::Write, Scope::Admin].into())
    }

    /// What a new token allows if nobody says what.
    pub fn usual() -> Self {
        Self([Scope::Read, Scope::Write].into())
    }

    pub(crate) fn allow(&self, right: Right) -> bool {
        self.0.iter().any(|scope| scope.allows(right))
    }
}

/// A text that is not a list of scopes.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no scope of a token: name one or more of read, write, metrics and admin")]
pub struct NotScopes(String);

impl FromStr for Scopes {
    type Err = NotScopes;

    fn from_str(text: &str) -> Result<Self, NotScopes> {
        let named = |word: &str| Scope::ALL.into_iter().find(|scope| scope.word() == word);
        let scopes = text.split_ascii_whitespace().map(|word| named(word).ok_or_else(|| NotScopes(word.to_owned())));
        let scopes: BTreeSet<Scope> = scopes.collect::<Result<_, _>>()?;
        if scopes.is_empty() { Err(NotScopes(String::new())) } else { Ok(Self(scopes)) }
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|scope| scope.word()).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn scopes_read_back_as_they_are_written() {
        for text in ["read", "read write", "metrics", "read metrics admin"] {
            assert_eq!(text.parse::<Scopes>().unwrap().to_string(), text);
        }
        assert_eq!(" write  read ".parse::<Scopes>().unwrap().to_string(), "read write");
    }

    #[test]
    fn a_word_that_is_no_scope_and_no_word_at_all_are_refused() {
        for text in ["", " ", "Read", "read,write", "read delete", "*"] {
            assert!(text.parse::<Scopes>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_scope_allows_its_rights_and_no_scope_allows_to_copy_the_store() {
        let allowed = |text: &str| {
            let scopes: Scopes = text.parse().unwrap();
            let rights = [Right::Read, Right::Write, Right::Metrics, Right::Operate, Right::Copy];
            rights.map(|right| scopes.allow(right))
        };
        assert_eq!(allowed("read"), [true, false, true, false, false]);
        assert_eq!(allowed("write"), [true, true, true, false, false]);
        assert_eq!(allowed("metrics"), [false, false, true, false, false]);
        assert_eq!(allowed("admin"), [false, false, true, true, false]);
        assert_eq!(allowed("read admin"), [true, false, true, true, false]);
    }
}
