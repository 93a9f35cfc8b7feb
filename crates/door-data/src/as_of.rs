//! The time or the position in `as_of`: which state of the volumes a request means.

use heads::RevisionId;
use jiff::Timestamp;
use store::UnixMillis;

use crate::errors::DoorError;

/// The parameter.
pub const AS_OF: &str = "as_of";

/// A time (RFC 3339), to the millisecond. A time without a fraction means the whole second, as a
/// time in a header does. Or a position, which names one change: the state that it made
/// ([`heads::Head::since`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsOf {
    below: RevisionId,
}

impl AsOf {
    /// Reads the value of the parameter.
    pub fn parse(text: &str) -> Result<Self, DoorError> {
        if let Some(position) = RevisionId::parse(text) {
            return Ok(Self { below: position.successor() });
        }
        let time: Timestamp = text.parse().map_err(|_| malformed(text))?;
        let step = if text.contains(['.', ',']) { 1 } else { 1_000 };
        // Before 1970 there was nothing.
        let millis = u64::try_from(time.as_millisecond()).map_or(0, |millis| millis.saturating_add(step));
        Ok(Self { below: RevisionId::first_at(UnixMillis(millis)) })
    }

    /// Exactly the changes below this position had been made.
    pub fn below(self) -> RevisionId {
        self.below
    }

    /// Whether it is over.
    pub fn is_over(self, now: UnixMillis) -> bool {
        self.below <= RevisionId::first_at(now)
    }
}

/// The refusal of a text that is no time, or of a time that is not over.
pub fn malformed(value: &str) -> DoorError {
    let expected = "a time in the past, like 2025-06-15T15:06:40Z";
    DoorError::MalformedParameter { name: AS_OF, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn end(text: &str) -> u64 {
        let below = AsOf::parse(text).unwrap().below();
        assert_eq!(below, RevisionId::first_at(below.time()), "all of a millisecond");
        below.time().0
    }

    #[test]
    fn a_time_without_a_fraction_means_the_whole_second() {
        assert_eq!(end("2025-06-15T15:06:40Z"), 1_750_000_001_000);
        assert_eq!(end("2025-06-15T17:06:40+02:00"), 1_750_000_001_000);
        assert_eq!(end("2025-06-15T15:06:40.0Z"), 1_750_000_000_001);
        assert_eq!(end("2025-06-15T15:06:40.1239Z"), 1_750_000_000_124);
        assert_eq!(end("1969-12-31T23:59:59Z"), 0);
    }

    #[test]
    fn a_time_without_an_offset_and_rubbish_are_refused() {
        for rubbish in ["yesterday", "2025-06-15", "2025-06-15T15:06:40", "2025-06-31T15:06:40Z", "1750000000", "now"] {
            assert!(AsOf::parse(rubbish).is_err(), "{rubbish}");
        }
    }

    #[test]
    fn a_position_means_the_state_after_the_change_that_it_names() {
        let position = RevisionId::first_with(UnixMillis(1_750_000_000_000), 7);
        let as_of = AsOf::parse(&position.to_string()).unwrap();
        assert_eq!(as_of.below(), position.successor());
        assert!(!as_of.is_over(UnixMillis(1_750_000_000_000)) && as_of.is_over(UnixMillis(1_750_000_000_001)));
        assert!(AsOf::parse(&position.to_string()[1..]).is_err());
    }

    #[test]
    fn a_second_is_over_when_the_next_one_begins() {
        let second = AsOf::parse("2025-06-15T15:06:40Z").unwrap();
        assert!(!second.is_over(UnixMillis(1_750_000_000_999)));
        assert!(second.is_over(UnixMillis(1_750_000_001_000)));
    }
}
