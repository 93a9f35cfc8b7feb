//! Conditional requests (RFC 9110, section 13): whether a request proceeds, given the resource's
//! current state.

use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headers::{ETag, HeaderMapExt, IfMatch, IfModifiedSince, IfNoneMatch, IfUnmodifiedSince, LastModified};
use http::{HeaderMap, header};

use thiserror::Error;

use crate::ranges::Validators;

/// A condition of a request does not hold (412).
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the condition `{condition}` does not hold: {found}")]
pub struct PreconditionFailed {
    /// The header with the condition.
    pub condition: &'static str,
    /// What the server found instead.
    pub found: String,
}

impl PreconditionFailed {
    /// `If-Match` names none of these, which are the current entity tags.
    pub fn if_match(tags: impl IntoIterator<Item = impl Display>) -> Self {
        Self { condition: "If-Match", found: tagged(tags) }
    }

    /// `If-Match` on a resource that does not exist.
    pub fn if_match_of_nothing() -> Self {
        Self { condition: "If-Match", found: "the resource does not exist".to_owned() }
    }

    /// `If-None-Match` names one of these, which are the current entity tags.
    pub fn if_none_match(tags: impl IntoIterator<Item = impl Display>) -> Self {
        Self { condition: "If-None-Match", found: tagged(tags) }
    }

    /// `If-Unmodified-Since` names a time before this.
    pub fn if_unmodified_since(modified: SystemTime) -> Self {
        let found = format!("it was modified on {}", httpdate::fmt_http_date(modified));
        Self { condition: "If-Unmodified-Since", found }
    }
}

fn tagged(tags: impl IntoIterator<Item = impl Display>) -> String {
    let tags: Vec<_> = tags.into_iter().map(|tag| tag.to_string()).collect();
    match tags.is_empty() {
        true => "the resource has no entity tag".to_owned(),
        false => format!("the current entity tag is {}", tags.join(" or ")),
    }
}

/// `If-None-Match` of a change cannot be read (400). It protects a resource, so it is not ignored.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`If-None-Match` is neither `*` nor a list of entity tags in double quotes")]
pub struct MalformedCondition;

/// Why a change does not proceed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unmet {
    /// A condition does not hold.
    #[error(transparent)]
    Failed(#[from] PreconditionFailed),
    /// A condition cannot be read.
    #[error(transparent)]
    Malformed(#[from] MalformedCondition),
}

/// An entity tag as written in a header.
pub fn text(etag: &ETag) -> String {
    let mut headers = HeaderMap::new();
    headers.typed_insert(etag.clone());
    headers.get(header::ETAG).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// How a GET or HEAD proceeds.
#[derive(Debug, PartialEq, Eq)]
pub enum Condition {
    /// With the representation.
    Send,
    /// With 304: the client has it already.
    NotModified,
}

/// Evaluates the preconditions of a GET or HEAD in the order of section 13.2.2. If-Range belongs to
/// [`crate::ranges`].
///
/// A malformed If-Match fails, because it protects a resource. Any other malformed condition is
/// ignored.
pub fn evaluate(headers: &HeaderMap, validators: Validators<'_>) -> Result<Condition, PreconditionFailed> {
    if headers.contains_key(header::IF_MATCH) {
        let condition = headers.typed_get::<IfMatch>();
        let holds = condition.is_some_and(|condition| {
            condition.is_any() || validators.etag.is_some_and(|etag| condition.precondition_passes(etag))
        });
        if !holds {
            return Err(PreconditionFailed::if_match(validators.etag.map(text)));
        }
    } else if let (Some(condition), Some(time)) = (headers.typed_get::<IfUnmodifiedSince>(), time(validators))
        && !condition.precondition_passes(time)
    {
        return Err(PreconditionFailed::if_unmodified_since(time));
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

/// Evaluates the preconditions of a change of what has an entity tag and no time. `None`: it does
/// not exist.
pub fn writing_undated(headers: &HeaderMap, etag: Option<&ETag>) -> Result<(), Unmet> {
    if headers.contains_key(header::IF_MATCH) {
        let etag = etag.ok_or_else(PreconditionFailed::if_match_of_nothing)?;
        let condition = headers.typed_get::<IfMatch>();
        let holds = condition.is_some_and(|condition| condition.is_any() || condition.precondition_passes(etag));
        if !holds {
            return Err(PreconditionFailed::if_match([text(etag)]).into());
        }
    }
    check_if_none_match(headers)?;
    match (headers.typed_get::<IfNoneMatch>(), etag) {
        (Some(condition), Some(etag)) if !condition.precondition_passes(etag) => {
            Err(PreconditionFailed::if_none_match([text(etag)]).into())
        }
        _ => Ok(()),
    }
}

/// Checks that `If-None-Match` of a change can be read, if it is there. `headers` leaves out what
/// it cannot read of a list, so a change that the client forbids would be made.
///
/// `If-Match` needs no such check: what cannot be read of it names no entity tag. So it does not
/// hold (412), as the W3C's test suite for LDP requires.
pub fn check_if_none_match(headers: &HeaderMap) -> Result<(), MalformedCondition> {
    if !headers.contains_key(header::IF_NONE_MATCH) {
        return Ok(());
    }
    let lines = headers.get_all(header::IF_NONE_MATCH).iter().map(|line| line.to_str());
    let list = lines.collect::<Result<Vec<_>, _>>().map_err(|_| MalformedCondition)?.join(",");
    if list == "*" || are_tags(&list) { Ok(()) } else { Err(MalformedCondition) }
}

/// Whether this is a list of entity tags (RFC 9110, sections 5.6.1 and 8.8.3), at least one.
fn are_tags(list: &str) -> bool {
    const BLANKS: [char; 2] = [' ', '\t'];
    const BETWEEN: [char; 3] = [' ', '\t', ','];
    let mut rest = list.trim_start_matches(BETWEEN);
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let Some(quoted) = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"') else { return false };
        let Some((tag, after)) = quoted.split_once('"') else { return false };
        let after = after.trim_start_matches(BLANKS);
        let is_last = after.is_empty() || after.starts_with(',');
        if !is_last || !tag.bytes().all(|byte| byte.is_ascii_graphic()) {
            return false;
        }
        rest = after.trim_start_matches(BETWEEN);
    }
    true
}

/// Evaluates the preconditions of a change, in the order of section 13.2.2. Any of `etags`
/// identifies the current state.
pub fn writing(headers: &HeaderMap, etags: &[ETag], last_modified: LastModified) -> Result<(), Unmet> {
    if headers.contains_key(header::IF_MATCH) {
        let condition = headers.typed_get::<IfMatch>();
        let holds = condition.is_some_and(|condition| {
            condition.is_any() || etags.iter().any(|etag| condition.precondition_passes(etag))
        });
        if !holds {
            return Err(PreconditionFailed::if_match(etags.iter().map(text)).into());
        }
    } else if headers
        .typed_get::<IfUnmodifiedSince>()
        .is_some_and(|condition| !condition.precondition_passes(last_modified.into()))
    {
        return Err(PreconditionFailed::if_unmodified_since(last_modified.into()).into());
    }
    check_if_none_match(headers)?;
    let passes = |condition: IfNoneMatch| etags.iter().all(|etag| condition.precondition_passes(etag));
    match headers.typed_get().is_none_or(passes) {
        true => Ok(()),
        false => Err(PreconditionFailed::if_none_match(etags.iter().map(text)).into()),
    }
}

fn time(validators: Validators<'_>) -> Option<SystemTime> {
    validators.last_modified.map(|last_modified| (*last_modified).into())
}

/// A strong entity tag of a text without quotes and spaces, such as hexadecimal digits.
pub fn strong_etag(text: &str) -> Option<ETag> {
    format!("\"{text}\"").parse().ok()
}

/// Last-Modified for a time in milliseconds since the epoch, cut to whole seconds as HTTP has them.
pub fn last_modified(unix_millis: u64) -> LastModified {
    LastModified::from(UNIX_EPOCH + Duration::from_secs(unix_millis / 1_000))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::slice;

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
    fn if_match_accepts_only_the_current_tag_and_the_star() {
        for value in ["\"now\"", "\"x\", \"now\"", "*"] {
            assert_eq!(evaluated(&[(header::IF_MATCH, value)]).unwrap(), Condition::Send, "{value}");
        }
        for value in ["\"x\"", "W/\"now\"", "nonsense"] {
            let error = evaluated(&[(header::IF_MATCH, value)]).unwrap_err();
            let message = "the condition `If-Match` does not hold: the current entity tag is \"now\"";
            assert_eq!(error.to_string(), message, "{value}");
        }
    }

    #[test]
    fn if_none_match_avoids_sending_a_known_representation() {
        for value in ["\"now\"", "W/\"now\"", "\"x\",\"now\"", "*"] {
            assert_eq!(evaluated(&[(header::IF_NONE_MATCH, value)]).unwrap(), Condition::NotModified, "{value}");
        }
        assert_eq!(evaluated(&[(header::IF_NONE_MATCH, "\"x\"")]).unwrap(), Condition::Send);
    }

    #[test]
    fn a_writer_needs_a_tag_of_if_match_and_none_of_if_none_match() {
        let holds = |name: HeaderName, value: &'static str| {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            writing(&headers, &[strong_etag("a").unwrap(), strong_etag("b").unwrap()], last_modified(THEN_MILLIS))
                .is_ok()
        };
        assert!(holds(header::IF_MATCH, "\"b\"") && holds(header::IF_MATCH, "*"));
        assert!(!holds(header::IF_MATCH, "\"c\"") && !holds(header::IF_MATCH, "W/\"a\""));
        assert!(holds(header::IF_NONE_MATCH, "\"c\""));
        assert!(!holds(header::IF_NONE_MATCH, "*") && !holds(header::IF_NONE_MATCH, "\"b\""));
        assert!(holds(header::IF_UNMODIFIED_SINCE, THEN) && !holds(header::IF_UNMODIFIED_SINCE, BEFORE));
    }

    #[test]
    fn a_condition_of_a_change_that_cannot_be_read_is_not_ignored() {
        let with = |value: &str| HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(value).unwrap())]);
        let tag = strong_etag("a").unwrap();
        let of_dated = |headers: &HeaderMap| writing(headers, slice::from_ref(&tag), last_modified(THEN_MILLIS));
        for value in ["b", "", "\"b", "b\"", "\"b\" \"c\"", "\"b\", c", "*, *", " *", "w/\"b\"", "\"b c\"", ","] {
            let headers = with(value);
            for etag in [None, Some(&tag)] {
                assert_eq!(writing_undated(&headers, etag), Err(MalformedCondition.into()), "{value}");
            }
            assert_eq!(of_dated(&headers), Err(MalformedCondition.into()), "{value}");
        }
        assert_eq!(evaluated(&[(header::IF_NONE_MATCH, "b")]), Ok(Condition::Send), "of a read it is");
        for (value, holds) in [
            ("*", false),
            ("\"a\"", false),
            ("W/\"a\"", false),
            ("\"b\" ,\t\"a\"", false),
            (", \"b,c\",,W/\"d\"", true),
            ("\"\"", true),
        ] {
            assert_eq!(writing_undated(&with(value), Some(&tag)).is_ok(), holds, "{value}");
            assert_eq!(of_dated(&with(value)).is_ok(), holds, "{value}");
            assert!(writing_undated(&with(value), None).is_ok(), "{value}");
        }
    }

    #[test]
    fn times_count_in_whole_seconds() {
        assert_eq!(evaluated(&[(header::IF_MODIFIED_SINCE, THEN)]).unwrap(), Condition::NotModified);
        assert_eq!(evaluated(&[(header::IF_MODIFIED_SINCE, AFTER)]).unwrap(), Condition::NotModified);
        assert_eq!(evaluated(&[(header::IF_MODIFIED_SINCE, BEFORE)]).unwrap(), Condition::Send);
        assert_eq!(evaluated(&[(header::IF_UNMODIFIED_SINCE, THEN)]).unwrap(), Condition::Send);
        let error = evaluated(&[(header::IF_UNMODIFIED_SINCE, BEFORE)]).unwrap_err();
        assert_eq!((error.condition, error.found), ("If-Unmodified-Since", format!("it was modified on {THEN}")));
    }

    #[test]
    fn tags_go_before_times() {
        let known_by_time_only = [(header::IF_NONE_MATCH, "\"x\""), (header::IF_MODIFIED_SINCE, AFTER)];
        assert_eq!(evaluated(&known_by_time_only).unwrap(), Condition::Send);
        let unmodified_by_tag = [(header::IF_MATCH, "\"now\""), (header::IF_UNMODIFIED_SINCE, BEFORE)];
        assert_eq!(evaluated(&unmodified_by_tag).unwrap(), Condition::Send);
    }
}
