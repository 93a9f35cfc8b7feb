//! Conditional requests (RFC 9110, section 13): whether a request goes ahead, given what the resource is now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headers::{ETag, HeaderMapExt, IfMatch, IfModifiedSince, IfNoneMatch, IfUnmodifiedSince, LastModified};
use http::{HeaderMap, header};

use thiserror::Error;

use crate::ranges::Validators;

/// A condition of a request does not hold (412).
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a precondition of the request does not hold: the resource has changed")]
pub struct PreconditionFailed;

/// How a GET or HEAD goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum Condition {
    /// With the representation.
    Send,
    /// With 304: the client has it already.
    NotModified,
}

/// Evaluates the preconditions of a GET or HEAD in the order of section 13.2.2. If-Range belongs to [`crate::ranges`].
///
/// A condition that cannot be read as one does not hold where it protects (If-Match), and says nothing otherwise.
pub fn evaluate(headers: &HeaderMap, validators: Validators<'_>) -> Result<Condition, PreconditionFailed> {
    if headers.contains_key(header::IF_MATCH) {
        let condition = headers.typed_get::<IfMatch>();
        let holds = condition.is_some_and(|condition| {
            condition.is_any() || validators.etag.is_some_and(|etag| condition.precondition_passes(etag))
        });
        if !holds {
            return Err(PreconditionFailed);
        }
    } else if let (Some(condition), Some(time)) = (headers.typed_get::<IfUnmodifiedSince>(), time(validators))
        && !condition.precondition_passes(time)
    {
        return Err(PreconditionFailed);
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        let condition = headers.typed_get::<IfNoneMatch>();
        let known =
            condition.zip(validators.etag).is_some_and(|(condition, etag)| !condition.precondition_passes(etag));
        return Ok(if known { Condition::NotModified } else { Condition::Send });
    }
    match (headers.typed_get::<IfModifiedSince>(), time(validators)) {
        (Some(condition), Some(time)) if !condition.is_modified(time) => Ok(Condition::NotModified),
        _ => Ok(Condition::Send),
    }
}

fn time(validators: Validators<'_>) -> Option<SystemTime> {
    validators.last_modified.map(|last_modified| (*last_modified).into())
}

/// A strong entity tag of text that has no quotes and no spaces in it: hexadecimal digits and the like.
pub fn strong_etag(text: &str) -> Option<ETag> {
    format!("\"{text}\"").parse().ok()
}

/// Last-Modified of a time in milliseconds since the epoch; HTTP knows whole seconds only.
pub fn last_modified(unix_millis: u64) -> LastModified {
    LastModified::from(UNIX_EPOCH + Duration::from_secs(unix_millis / 1_000))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::{HeaderName, HeaderValue};

    use super::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    /// [`THEN`] and half a second.
    const THEN_MILLIS: u64 = 784_111_777_500;

    fn evaluated(conditions: &[(HeaderName, &'static str)]) -> Result<Condition, PreconditionFailed> {
        let value = |(name, value): &(HeaderName, &'static str)| (name.clone(), HeaderValue::from_static(value));
        let headers: HeaderMap = conditions.iter().map(value).collect();
        let (etag, last_modified) = (strong_etag("now").unwrap(), last_modified(THEN_MILLIS));
        evaluate(&headers, Validators { etag: Some(&etag), last_modified: Some(&last_modified) })
    }

    #[test]
    fn if_match_lets_through_the_current_tag_and_the_star_only() {
        for value in ["\"now\"", "\"x\", \"now\"", "*"] {
            assert_eq!(evaluated(&[(header::IF_MATCH, value)]).unwrap(), Condition::Send, "{value}");
        }
        for value in ["\"x\"", "W/\"now\"", "nonsense"] {
            let error = evaluated(&[(header::IF_MATCH, value)]).unwrap_err();
            assert_eq!(error, PreconditionFailed, "{value}");
        }
    }

    #[test]
    fn if_none_match_saves_sending_what_is_known() {
        for value in ["\"now\"", "W/\"now\"", "\"x\",\"now\"", "*"] {
            assert_eq!(evaluated(&[(header::IF_NONE_MATCH, value)]).unwrap(), Condition::NotModified, "{value}");
        }
        assert_eq!(evaluated(&[(header::IF_NONE_MATCH, "\"x\"")]).unwrap(), Condition::Send);
    }

    #[test]
    fn times_count_in_whole_seconds() {
        assert_eq!(evaluated(&[(header::IF_MODIFIED_SINCE, THEN)]).unwrap(), Condition::NotModified);
        assert_eq!(evaluated(&[(header::IF_MODIFIED_SINCE, AFTER)]).unwrap(), Condition::NotModified);
        assert_eq!(evaluated(&[(header::IF_MODIFIED_SINCE, BEFORE)]).unwrap(), Condition::Send);
        assert_eq!(evaluated(&[(header::IF_UNMODIFIED_SINCE, THEN)]).unwrap(), Condition::Send);
        assert!(evaluated(&[(header::IF_UNMODIFIED_SINCE, BEFORE)]).is_err());
    }

    #[test]
    fn tags_go_before_times() {
        let known_by_time_only = [(header::IF_NONE_MATCH, "\"x\""), (header::IF_MODIFIED_SINCE, AFTER)];
        assert_eq!(evaluated(&known_by_time_only).unwrap(), Condition::Send);
        let unmodified_by_tag = [(header::IF_MATCH, "\"now\""), (header::IF_UNMODIFIED_SINCE, BEFORE)];
        assert_eq!(evaluated(&unmodified_by_tag).unwrap(), Condition::Send);
    }
}
