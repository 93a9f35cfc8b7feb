//! Refusals, in the words of Redis, which clients compare.

use std::fmt;

use records::RecordError;

use crate::admission::NoPlace;
use crate::meters::Outcome;
use crate::pattern::LongPattern;

/// Why a command is refused that would wait too long.
pub(crate) const CROWDED: &str = "the commands before this one take longer than its deadline allows";

/// How a refusal ends that says that nothing was changed.
const NOTHING_CHANGED: &str = "; nothing was changed";

/// How a refusal ends that only mode fast has.
const NOT_FAST: &str = "depends on what is stored, and is not offered in mode fast";

/// A refusal. The connection goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

/// The result of a command.
pub type CommandResult<T> = Result<T, Refusal>;

impl Refusal {
    /// An error of the usual kind.
    pub fn error(what: impl fmt::Display) -> Self {
        Self::of_kind("ERR", what)
    }

    /// An error of another kind, which clients tell apart. Line breaks would end it early.
    pub fn of_kind(kind: &str, what: impl fmt::Display) -> Self {
        Self(format!("{kind} {what}").replace(['\r', '\n'], " "))
    }

    /// The words of a command are not in the right order, or one is unknown.
    pub fn syntax() -> Self {
        Self::error("syntax error")
    }

    /// There was no answer by the deadline. Nothing was changed.
    pub fn deadline() -> Self {
        Self::of_kind("DEADLINE", format_args!("there was no answer in time{NOTHING_CHANGED}"))
    }

    /// The server has too much to do now. Nothing was changed.
    pub fn overloaded(why: impl fmt::Display) -> Self {
        Self::of_kind("OVERLOADED", format_args!("{why}{NOTHING_CHANGED}"))
    }

    /// The refusal of a command of which a part was done, from that of the rest.
    pub fn in_part(&self) -> Self {
        let why = self.0.strip_suffix(NOTHING_CHANGED).unwrap_or(&self.0);
        let what = "whether the change was made is not known: a part of it was made";
        Self::of_kind("UNKNOWN", format_args!("{what}: {why}"))
    }

    /// The command depends on what is stored, and in mode fast nothing is read before a change.
    pub fn not_fast(command: &str) -> Self {
        Self::error(format_args!("'{command}' {NOT_FAST}"))
    }

    /// Likewise, with these options.
    pub fn option_not_fast(command: &str) -> Self {
        Self::error(format_args!("an option of '{command}' {NOT_FAST}"))
    }

    /// Whether it is one of these two: the command, or its option, is not offered in mode fast.
    pub fn is_of_mode_fast(&self) -> bool {
        self.0.ends_with(NOT_FAST)
    }

    /// What metrics call it.
    pub fn outcome(&self) -> Outcome {
        match self.0.split_once(' ').map(|(kind, _)| kind) {
            Some("DEADLINE") => Outcome::Deadline,
            Some("OVERLOADED") => Outcome::Overloaded,
            Some("UNKNOWN") => Outcome::Unknown,
            Some("LIMIT") => Outcome::Limited,
            Some("DAMAGED") => Outcome::Damaged,
            _ => Outcome::Refused,
        }
    }

    /// Whether commands that were refused as one may be tried one by one: nothing was changed, and the
    /// server is not overloaded.
    pub fn allows_each(&self) -> bool {
        matches!(self.outcome(), Outcome::Refused | Outcome::Deadline | Outcome::Damaged)
    }

    /// A number was expected.
    pub fn not_an_integer() -> Self {
        Self::error("value is not an integer or out of range")
    }

    /// A time that cannot be stored, or that must be positive.
    pub fn expire_time(command: &str) -> Self {
        Self::error(format_args!("invalid expire time in '{command}' command"))
    }

    /// Too few or too many words.
    pub fn arity(command: &str) -> Self {
        Self::error(format_args!("wrong number of arguments for '{command}' command"))
    }

    /// The refusal of `EXEC`, whose transaction does not happen for the reason of this one.
    pub fn of_transaction(&self) -> Self {
        let why = self.0.split_once(' ').map_or(&*self.0, |(_, why)| why);
        Self::of_kind("EXECABORT", format_args!("Transaction discarded because of: {why}"))
    }

    /// The text that a client gets. The first word is the kind.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<NoPlace> for Refusal {
    fn from(reason: NoPlace) -> Self {
        match reason {
            NoPlace::Overloaded => Self::overloaded(CROWDED),
            NoPlace::Late => Self::deadline(),
        }
    }
}

impl From<LongPattern> for Refusal {
    fn from(error: LongPattern) -> Self {
        Self::error(error)
    }
}

impl From<RecordError> for Refusal {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::OtherKind => {
                Self("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned())
            }
            RecordError::NotAnInteger => Self::not_an_integer(),
            RecordError::NotADecimal => Self::error("value is not a valid float"),
            RecordError::Overflow => Self::error("increment or decrement would overflow"),
        }
    }
}
