//! Times in JSON (RFC 3339, UTC).

use jiff::Timestamp;
use store::UnixMillis;

/// A time as text; empty for one beyond the year 9999, which RFC 3339 cannot express.
pub fn rfc3339(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    millis.map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc() {
        assert_eq!(rfc3339(UnixMillis(784_111_777_500)), "1994-11-06T08:49:37.5Z");
        assert_eq!(rfc3339(UnixMillis(u64::MAX)), "");
    }
}
