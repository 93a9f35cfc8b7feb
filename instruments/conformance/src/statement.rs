//! Normative statements, and judgements.

use std::fmt;

use anyhow::Error;
use futures::future::BoxFuture;

use crate::sample::Sample;

/// How much a statement demands (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// MUST, or MUST NOT.
    Must,
    /// SHOULD, or SHOULD NOT.
    Should,
}

/// A normative statement.
pub struct Statement {
    /// How much it demands.
    pub level: Level,
    /// The document and the section.
    pub source: &'static str,
    /// What it says, as the name of the function that judges it.
    pub name: &'static str,
    pub(crate) check: for<'a> fn(&'a Sample<'_>) -> BoxFuture<'a, Result<(), Error>>,
}

/// A statement and how a server keeps to it.
#[derive(Debug)]
pub struct Judged {
    /// How much it demands.
    pub level: Level,
    /// The document and the section.
    pub source: &'static str,
    /// What it says.
    pub says: String,
    /// Why the server does not keep to it; `None` if it does.
    pub violation: Option<String>,
}

impl Statement {
    pub(crate) async fn judge(&self, sample: &Sample<'_>) -> Judged {
        let violation = (self.check)(sample).await.err().map(|error| format!("{error:#}"));
        Judged { level: self.level, source: self.source, says: self.name.replace('_', " "), violation }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
        })
    }
}

/// A list of statements: level, source and the function that judges it.
macro_rules! statements {
    ($($level:ident $source:literal $check:ident;)*) => {
        &[$($crate::statement::Statement {
            level: $crate::statement::Level::$level,
            source: $source,
            name: stringify!($check),
            check: |sample| Box::pin($check(sample)),
        }),*]
    };
}
pub(crate) use statements;
