//! Times of whole seconds, as in the headers of Memento (RFC 7089).

use heads::RevisionId;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use store::UnixMillis;

/// RFC 7089, section 2.1.1.1: the fixed form of RFC 1123.
const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// A second, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Second(i64);

impl Second {
    /// So many seconds after the beginning of 1970.
    pub fn of_unix(seconds: i64) -> Self {
        Self(seconds)
    }

    /// The second of a time.
    pub fn of(time: UnixMillis) -> Self {
        Self(i64::try_from(time.0 / 1_000).unwrap_or(i64::MAX))
    }

    /// The time of a header (RFC 7089, section 2.1.1.1); `None` if it is malformed.
    pub fn of_http(text: &str) -> Option<Self> {
        let time = DateTime::strptime(HTTP_DATE, text.trim()).ok()?;
        // The weekday is the right one, and nothing is abbreviated.
        time.strftime(HTTP_DATE).to_string().eq_ignore_ascii_case(text.trim()).then(|| {
            // The last hours of the year 9999 are beyond what a timestamp can be.
            let time = time.to_zoned(TimeZone::UTC).map_or(Timestamp::MAX, |zoned| zoned.timestamp());
            Self(time.as_second())
        })
    }

    /// As in headers.
    pub fn http(self) -> String {
        self.written(HTTP_DATE)
    }

    /// Its first revision.
    pub fn first(self) -> RevisionId {
        RevisionId::first_at(self.begin())
    }

    /// The revision before which it ends.
    pub fn end(self) -> RevisionId {
        Self(self.0.saturating_add(1)).first()
    }

    /// The second before it.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Its first millisecond; that of 1970 if it is earlier.
    pub fn begin(self) -> UnixMillis {
        UnixMillis(u64::try_from(self.0).unwrap_or(0).saturating_mul(1_000))
    }

    /// In a form of `strftime`, in UTC.
    pub fn written(self, form: &str) -> String {
        let time = Timestamp::from_second(self.0).unwrap_or(Timestamp::MAX);
        time.to_zoned(TimeZone::UTC).strftime(form).to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_time_in_a_header_is_that_of_rfc_1123_with_the_right_weekday() {
        let date = "Sun, 15 Jun 2025 15:06:40 GMT";
        assert_eq!(Second::of_http(date), Some(Second(1_750_000_000)));
        assert_eq!(Second(1_750_000_000).http(), date);
        for rubbish in [
            "",
            "Mon, 15 Jun 2025 15:06:40 GMT",
            "Sun, 15 Jun 2025 15:06:40",
            "Sun, 15 Jun 2025 15:06:40 CET",
            "Sun, 15 Jun 2025 15:06:40 +0000",
            "Sunday, 15-Jun-25 15:06:40 GMT",
            "Sun Jun 15 15:06:40 2025",
            "Sun, 32 Jun 2025 15:06:40 GMT",
            "2025-06-15T15:06:40Z",
            "Sun, 15 Jun 99999 15:06:40 GMT",
            "tomorrow",
        ] {
            assert_eq!(Second::of_http(rubbish), None, "{rubbish:?}");
        }
    }
}
