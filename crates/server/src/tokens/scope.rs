//! What a token allows, and where.
//!
//! Scopes are written as OAuth 2.0 writes them (RFC 6749, section 3.3): words, separated by spaces.
//! Some words are rights, and the others limit them to some volumes and resources ([`Limit`]).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use area::{Area, Limit, NotALimit};
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
    /// To see what operators see, such as the audit and what the fixity auditor found, and metrics.
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
            Scope::Admin => matches!(right, Right::Operate | Right::Audit | Right::Metrics),
        }
    }
}

/// The most limits of a token.
const LIMITS_MAX: usize = 64;

/// The most bytes of all limits of a token as they are written.
const LIMITS_BYTES_MAX: usize = 16 << 10;

/// Everything that a token allows: at least one scope, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    scopes: BTreeSet<Scope>,
    area: Area,
}

impl Scopes {
    /// Checks scopes and limits. Without limits they hold everywhere.
    pub(super) fn checked(scopes: BTreeSet<Scope>, limits: BTreeSet<Limit>) -> Result<Self, NotScopes> {
        if scopes.is_empty() {
            return Err(NotScopes::None);
        }
        if limits.is_empty() {
            return Ok(Self { scopes, area: Area::everywhere() });
        }
        if let Some(scope) = scopes.iter().find(|scope| !matches!(scope, Scope::Read | Scope::Write)) {
            return Err(NotScopes::NotLimited(*scope));
        }
        let bytes: usize = limits.iter().map(|limit| limit.to_string().len()).sum();
        if limits.len() > LIMITS_MAX || bytes > LIMITS_BYTES_MAX {
            return Err(NotScopes::TooManyLimits);
        }
        Ok(Self { scopes, area: Area::within(limits) })
    }

    /// The scopes without the limits.
    pub(super) fn everywhere(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }

    /// Where they hold.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// What a new token allows if nobody says what.
    pub fn usual() -> Self {
        Self { scopes: [Scope::Read, Scope::Write].into(), area: Area::everywhere() }
    }

    /// Whether they allow something at all, be it everywhere or within the area.
    pub(crate) fn allow(&self, right: Right) -> bool {
        self.scopes.iter().any(|scope| scope.allows(right))
    }
}

/// A text that is not a list of scopes.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NotScopes {
    /// No word says what is allowed.
    #[error(
        "a token needs one or more of the scopes read, write, metrics and admin; `volumes:` and `rest:` limit them"
    )]
    None,
    /// A word that is no scope.
    #[error(
        "`{0}` is no scope of a token: name one or more of read, write, metrics and admin, and limits like \
         volumes:hvd.* or rest:/maps"
    )]
    Unknown(String),
    /// A word that is meant as a limit, and is none.
    #[error(transparent)]
    Limit(#[from] NotALimit),
    /// A scope that cannot be limited.
    #[error("the scope `{0}` holds for the whole server: make another token for it, without limits")]
    NotLimited(Scope),
    /// Too many limits, or too long ones.
    #[error("a token has at most {LIMITS_MAX} limits, of {LIMITS_BYTES_MAX} bytes in all")]
    TooManyLimits,
}

impl FromStr for Scopes {
    type Err = NotScopes;

    fn from_str(text: &str) -> Result<Self, NotScopes> {
        let named = |word: &str| Scope::ALL.into_iter().find(|scope| scope.word() == word);
        let (mut scopes, mut limits) = (BTreeSet::new(), BTreeSet::new());
        for word in text.split_ascii_whitespace() {
            match named(word) {
                Some(scope) => _ = scopes.insert(scope),
                None if Limit::is_meant(word) => _ = limits.insert(word.parse()?),
                None => return Err(NotScopes::Unknown(word.chars().take(100).collect())),
            }
            if limits.len() > LIMITS_MAX {
                return Err(NotScopes::TooManyLimits);
            }
        }
        Self::checked(scopes, limits)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.scopes.iter().map(|scope| scope.word().to_owned());
        let words: Vec<_> = words.chain(self.area.limits().iter().map(Limit::to_string)).collect();
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
        let limited = "read volumes:a%20b.* volumes:hvd.* rest:/a/b";
        assert_eq!(limited.parse::<Scopes>().unwrap().to_string(), limited);
        let otherwise = "rest:/a//../b rest:/x";
        assert!(matches!(format!("read {otherwise}").parse::<Scopes>(), Err(NotScopes::Limit(_))));
        assert_eq!(" write  read ".parse::<Scopes>().unwrap().to_string(), "read write");
    }

    #[test]
    fn a_word_that_is_no_scope_and_no_word_at_all_are_refused() {
        for text in ["", " ", "Read", "read,write", "read delete", "*"] {
            assert!(text.parse::<Scopes>().is_err(), "{text}");
        }
    }

    #[test]
    fn limits_need_a_scope_that_can_be_limited_and_there_are_not_many() {
        let refused = |text: &str| text.parse::<Scopes>().unwrap_err();
        assert_eq!(refused("volumes:a.*"), NotScopes::None);
        assert_eq!(refused("read admin rest:/a"), NotScopes::NotLimited(Scope::Admin));
        assert_eq!(refused("metrics rest:/a"), NotScopes::NotLimited(Scope::Metrics));
        let many = |count: usize| (0..count).map(|n| format!(" volumes:a.{n}")).collect::<String>();
        assert_eq!(format!("read{}", many(LIMITS_MAX)).parse::<Scopes>().unwrap().area().limits().len(), LIMITS_MAX);
        for count in [LIMITS_MAX + 1, 10_000] {
            assert_eq!(refused(&format!("read{}", many(count))), NotScopes::TooManyLimits);
        }
        let long = (0..LIMITS_MAX).map(|n| format!(" volumes:{n}.{}*", "a".repeat(900))).collect::<String>();
        assert_eq!(refused(&format!("read{long}")), NotScopes::TooManyLimits);
    }

    #[test]
    fn a_scope_allows_its_rights_and_no_scope_allows_to_copy_the_store() {
        let allowed = |text: &str| {
            let scopes: Scopes = text.parse().unwrap();
            let rights = [Right::Read, Right::Write, Right::Metrics, Right::Operate, Right::Audit, Right::Copy];
            rights.map(|right| scopes.allow(right))
        };
        assert_eq!(allowed("read"), [true, false, true, false, false, false]);
        assert_eq!(allowed("write"), [true, true, true, false, false, false]);
        assert_eq!(allowed("metrics"), [false, false, true, false, false, false]);
        assert_eq!(allowed("admin"), [false, false, true, true, true, false]);
        assert_eq!(allowed("read admin"), [true, false, true, true, true, false]);
    }
}
