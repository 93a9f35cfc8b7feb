//! The words of a command after its name, read from left to right.

use bytes::Bytes;
use records::{ExpiryRule, Order, integer};
use store::UnixMillis;

use crate::error::{CommandResult, Refusal};

/// The words that are left.
pub(crate) struct Words<'a> {
    /// The command's name in lower case, for messages.
    pub(crate) command: &'static str,
    rest: &'a [Bytes],
}

/// When an expiry is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryWord {
    /// So many seconds or milliseconds from now.
    In(TimeUnit),
    /// At a time.
    At(TimeUnit),
}

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Seconds,
    Milliseconds,
}

impl ExpiryWord {
    /// The word of an option: `EX`, `PX`, `EXAT`, `PXAT`.
    fn of(word: &[u8]) -> Option<Self> {
        Some(match word.to_ascii_uppercase().as_slice() {
            b"EX" => Self::In(TimeUnit::Seconds),
            b"PX" => Self::In(TimeUnit::Milliseconds),
            b"EXAT" => Self::At(TimeUnit::Seconds),
            b"PXAT" => Self::At(TimeUnit::Milliseconds),
            _ => return None,
        })
    }

    /// The time that a number means, in milliseconds since 1970; `None`: it is out of range. It may
    /// lie before 1970.
    pub(crate) fn time(self, number: i64, now: UnixMillis) -> Option<i64> {
        let unit = match self {
            Self::In(unit) | Self::At(unit) => unit,
        };
        let milliseconds = match unit {
            TimeUnit::Seconds => number.checked_mul(1_000)?,
            TimeUnit::Milliseconds => number,
        };
        match self {
            Self::At(_) => Some(milliseconds),
            Self::In(_) => i64::try_from(now.0).ok()?.checked_add(milliseconds),
        }
    }
}

/// A time as it was sent. Redis looks at it later than at the words around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentTime<'a> {
    command: &'static str,
    word: ExpiryWord,
    number: &'a Bytes,
}

impl SentTime<'_> {
    /// The time, which must lie after 1970, and not be now.
    pub(crate) fn moment(self, now: UnixMillis) -> CommandResult<UnixMillis> {
        self.at_least(1, now)
    }

    /// The time of an attribute, which may also be now or the beginning of 1970, as in Valkey.
    pub(crate) fn moment_of_attribute(self, now: UnixMillis) -> CommandResult<UnixMillis> {
        self.at_least(0, now)
    }

    fn at_least(self, least: i64, now: UnixMillis) -> CommandResult<UnixMillis> {
        let number = integer(self.number).map_err(|_| Refusal::not_an_integer())?;
        let time = self.word.time(number, now).filter(|time| number >= least && *time >= least);
        time.and_then(|time| u64::try_from(time).ok()).map(UnixMillis).ok_or_else(|| Refusal::expire_time(self.command))
    }
}

/// What an option says about the expiry of what is set or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryOption<T = UnixMillis> {
    /// Nothing.
    Unsaid,
    /// This time.
    At(T),
    /// It stays as it is.
    Keep,
    /// There shall be none.
    Drop,
}

impl<T> ExpiryOption<T> {
    /// The same with a time that is looked at.
    pub(crate) fn looked_at(
        self,
        look: impl FnOnce(T) -> CommandResult<UnixMillis>,
    ) -> CommandResult<ExpiryOption<UnixMillis>> {
        Ok(match self {
            Self::Unsaid => ExpiryOption::Unsaid,
            Self::At(time) => ExpiryOption::At(look(time)?),
            Self::Keep => ExpiryOption::Keep,
            Self::Drop => ExpiryOption::Drop,
        })
    }
}

impl<'a> Words<'a> {
    pub(crate) fn new(command: &'static str, rest: &'a [Bytes]) -> Self {
        Self { command, rest }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The words that are left.
    pub(crate) fn rest(&self) -> &'a [Bytes] {
        self.rest
    }

    /// The next word.
    pub(crate) fn next(&mut self) -> CommandResult<&'a Bytes> {
        let (word, rest) = self.rest.split_first().ok_or_else(Refusal::syntax)?;
        self.rest = rest;
        Ok(word)
    }

    /// Takes the next word if it is this one, in any case.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let is_next = self.rest.first().is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()));
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    /// The next word, as an integer.
    pub(crate) fn integer(&mut self) -> CommandResult<i64> {
        integer(self.next()?).map_err(|_| Refusal::not_an_integer())
    }

    /// Fails if a word is left.
    pub(crate) fn end(&self) -> CommandResult<()> {
        if self.is_empty() { Ok(()) } else { Err(Refusal::syntax()) }
    }

    /// Takes an option with a time, if it is next and may follow the one that was taken `before`: the
    /// same one may come again, and the last one counts.
    pub(crate) fn expiry(&mut self, before: Option<SentTime<'_>>) -> CommandResult<Option<SentTime<'a>>> {
        let word = self.rest.first().and_then(|word| ExpiryWord::of(word));
        let Some(word) = word.filter(|word| before.is_none_or(|before| before.word == *word)) else { return Ok(None) };
        self.next()?;
        self.time(word).map(Some)
    }

    /// The next word, as the number of a time.
    pub(crate) fn time(&mut self, word: ExpiryWord) -> CommandResult<SentTime<'a>> {
        Ok(SentTime { command: self.command, word, number: self.next()? })
    }

    /// Takes the conditions of a command that sets an expiry: `NX`, `XX`, `GT`, `LT`.
    pub(crate) fn expiry_rule(&mut self) -> CommandResult<ExpiryRule> {
        let (mut only_without, mut only_with, mut later, mut earlier) = (false, false, false, false);
        loop {
            if self.takes("NX") {
                only_without = true;
            } else if self.takes("XX") {
                only_with = true;
            } else if self.takes("GT") {
                later = true;
            } else if self.takes("LT") {
                earlier = true;
            } else {
                break;
            }
        }
        if only_without && (only_with || later || earlier) {
            return Err(Refusal::error("NX and XX, GT or LT options at the same time are not compatible"));
        }
        if later && earlier {
            return Err(Refusal::error("GT and LT options at the same time are not compatible"));
        }
        let is_set = if only_without { Some(false) } else { only_with.then_some(true) };
        let order = if later { Some(Order::Later) } else { earlier.then_some(Order::Earlier) };
        Ok(ExpiryRule { is_set, order })
    }

    /// Takes `FIELDS`, their number, and that many groups of `each` words: all that is left.
    pub(crate) fn fields(&mut self, each: usize) -> CommandResult<&'a [Bytes]> {
        if !self.takes("FIELDS") {
            return Err(Refusal::error("Mandatory argument FIELDS is missing or not at the right position"));
        }
        let count = self.next().and_then(|count| integer(count).map_err(|_| Refusal::syntax()));
        let count = count.ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| Refusal::error("Parameter `numFields` should be greater than 0"))?;
        if usize::try_from(count).ok().and_then(|count| count.checked_mul(each)) != Some(self.len()) {
            return Err(Refusal::error("The `numfields` parameter must match the number of arguments"));
        }
        Ok(std::mem::take(&mut self.rest))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn texts(words: &'static [&'static str]) -> Vec<Bytes> {
        words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect()
    }

    #[test]
    fn times_are_absolute_and_stay_in_range() {
        let now = UnixMillis(1_000);
        assert_eq!(ExpiryWord::In(TimeUnit::Seconds).time(2, now), Some(3_000));
        assert_eq!(ExpiryWord::In(TimeUnit::Milliseconds).time(-2_000, now), Some(-1_000));
        assert_eq!(ExpiryWord::At(TimeUnit::Seconds).time(2, now), Some(2_000));
        assert_eq!(ExpiryWord::In(TimeUnit::Seconds).time(i64::MAX, now), None);
        assert_eq!(ExpiryWord::In(TimeUnit::Milliseconds).time(i64::MAX, now), None);
    }

    #[test]
    fn conditions_that_exclude_each_other_are_refused() {
        let rule = |words| Words::new("expire", &texts(words)).expiry_rule();
        assert_eq!(rule(&["nx"]).unwrap(), ExpiryRule { is_set: Some(false), order: None });
        assert_eq!(rule(&["XX", "gt"]).unwrap(), ExpiryRule { is_set: Some(true), order: Some(Order::Later) });
        assert!(rule(&["NX", "GT"]).unwrap_err().text().starts_with("ERR NX and XX"));
        assert!(rule(&["LT", "GT"]).unwrap_err().text().starts_with("ERR GT and LT"));
    }

    #[test]
    fn the_number_of_fields_must_match() {
        let fields = |words: &'static [&'static str], each| {
            let words = texts(words);
            Words::new("hexpire", &words).fields(each).map(<[Bytes]>::len)
        };
        assert_eq!(fields(&["FIELDS", "2", "a", "b"], 1), Ok(2));
        assert_eq!(fields(&["fields", "1", "a", "b"], 2), Ok(2));
        for wrong in [&["2", "a"][..], &["FIELDS", "0"], &["FIELDS", "x", "a"], &["FIELDS", "1", "a", "b"], &["FIELDS"]]
        {
            assert!(fields(wrong, 1).is_err(), "{wrong:?}");
        }
        assert!(fields(&["FIELDS", "9223372036854775807", "a"], 2).is_err());
    }
}
