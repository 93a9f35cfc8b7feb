//! The names of versions, below `fcr:versions`.
//!
//! The first version of a second is named by it, as in Fedora: `20250615150640`. Further versions
//! of the same second have their millisecond too, `20250615150640-123`, and further ones of the
//! same millisecond the counter in their revision, `20250615150640-123-1`. Versions of one resource
//! differ in one of these. A version is never added before another in its second, so a name stays.

use std::fmt;
use std::str::FromStr;

use door_http::Second;
use heads::RevisionId;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use store::UnixMillis;
use thiserror::Error;

const SECOND: &str = "%Y%m%d%H%M%S";

/// A name that no version can have.
#[derive(Debug, Error)]
#[error("`{0}` is no name of a version: names are like 20250615150640, 20250615150640-123 and 20250615150640-123-1")]
pub struct InvalidVersionName(String);

/// The name of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionName {
    second: Second,
    /// Milliseconds within the second and the counter within that, unless it is the first of its
    /// second.
    within: Option<(u16, u16)>,
}

impl VersionName {
    /// The name of a revision's version.
    pub fn of(revision: RevisionId, is_first_of_second: bool) -> Self {
        let millis = u16::try_from(revision.time().0 % 1_000).unwrap_or(0);
        let within = (!is_first_of_second).then_some((millis, revision.counter()));
        Self { second: Second::of(revision.time()), within }
    }

    /// The name of a second.
    pub fn of_second(second: Second) -> Self {
        Self { second, within: None }
    }

    /// Its second.
    pub fn second(self) -> Second {
        self.second
    }

    /// Whether it names the first version of its second.
    pub fn is_of_first(self) -> bool {
        self.within.is_none()
    }

    /// The smallest revision that it may mean.
    pub fn first(self) -> RevisionId {
        match self.within {
            None => self.second.first(),
            Some((millis, counter)) => {
                RevisionId::first_with(UnixMillis(self.second.begin().0 + u64::from(millis)), counter)
            }
        }
    }

    /// The revision before which those that it may mean end.
    pub fn end(self) -> RevisionId {
        match self.within {
            None => self.second.end(),
            Some((millis, counter)) => {
                let time = UnixMillis(self.second.begin().0 + u64::from(millis));
                match counter.checked_add(1) {
                    Some(next) => RevisionId::first_with(time, next),
                    None => RevisionId::first_at(UnixMillis(time.0 + 1)),
                }
            }
        }
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.second.written(SECOND))?;
        match self.within {
            None => Ok(()),
            Some((millis, 0)) => write!(f, "-{millis:03}"),
            Some((millis, counter)) => write!(f, "-{millis:03}-{counter}"),
        }
    }
}

impl FromStr for VersionName {
    type Err = InvalidVersionName;

    fn from_str(text: &str) -> Result<Self, InvalidVersionName> {
        let invalid = || InvalidVersionName(text.to_owned());
        let mut fields = text.split('-');
        let second = DateTime::strptime(SECOND, fields.next().unwrap_or_default()).map_err(|_| invalid())?;
        let second = second.to_zoned(TimeZone::UTC).map_err(|_| invalid())?.timestamp().as_second();
        let within = match fields.next() {
            None => None,
            Some(millis) => {
                let counter = fields.next().map_or(Ok(0), str::parse).map_err(|_| invalid())?;
                let millis = millis.parse().ok().filter(|millis| *millis < 1_000).ok_or_else(invalid)?;
                Some((millis, counter))
            }
        };
        let name = Self { second: Second::of_unix(second), within };
        // A version has one name: other spellings are none.
        (name.to_string() == text).then_some(name).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_has_one_spelling_and_rubbish_is_refused() {
        for text in ["20250615150640", "20250615150640-007", "20250615150640-123-1", "19691231235959", "99981231235959"]
        {
            assert_eq!(text.parse::<VersionName>().unwrap().to_string(), text);
        }
        for rubbish in [
            "",
            "2025061515064",
            "202506151506400",
            "20250631150640",
            "20250615156040",
            "20250615150640-",
            "20250615150640-7",
            "20250615150640-0007",
            "20250615150640-1000",
            "20250615150640-123-0",
            "20250615150640-123-01",
            "20250615150640-123-65536",
            "20250615150640-123-1-1",
            "+0250615150640",
            "20250615150640 ",
            "٢٠٢٥٠٦١٥١٥٠٦٤٠",
        ] {
            assert!(rubbish.parse::<VersionName>().is_err(), "{rubbish:?}");
        }
    }

    proptest! {
        #[test]
        fn the_name_of_a_version_means_it_and_reads_back(
            millis in 0..4_000_000_000_000u64, counter in any::<u16>(), is_first in any::<bool>(),
        ) {
            let revision = RevisionId::first_with(UnixMillis(millis), counter);
            let name = VersionName::of(revision, is_first);
            prop_assert!(name.first() <= revision && revision < name.end());
            prop_assert_eq!(name.to_string().parse::<VersionName>().unwrap(), name);
        }
    }
}
