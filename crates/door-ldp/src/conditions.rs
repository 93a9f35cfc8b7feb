//! Conditions and validators (RFC 9110, section 13).
//!
//! The entity tag of a graph begins with the revision of its description, and `If-Match` compares
//! only that. So a new child changes the tag of its container and fails no writer's `If-Match`. The
//! rest distinguishes representations: when the listing changed, and the format. A binary's tag is
//! the revision of its bytes. A form that deletes or restores a binary changes its description too,
//! so the tag in the form has both revisions.
//!
//! A condition that cannot be read never permits a change. An `If-Match` in which the present tag
//! cannot be read does not hold (412), as the W3C's test suite for LDP requires. An `If-None-Match`
//! that cannot be read is refused (400), because it would hold. For a read, a tag that cannot be
//! read matches nothing: the client gets what it may have already, and nothing is lost. Dates that
//! cannot be read are ignored (sections 13.1.3 and 13.1.4).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use door_http::PreconditionFailed;
use door_http::conditional::check_if_none_match;
use headers::{HeaderMapExt, IfModifiedSince, IfUnmodifiedSince, LastModified};
use heads::RevisionId;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use store::UnixMillis;

use crate::errors::LdpError;
use crate::links::values;

/// Fedora's condition on the state of a resource.
const IF_STATE_TOKEN: HeaderName = HeaderName::from_static("x-if-state-token");

/// Headers of a request that are about one representation of its target (RFC 9110, sections 13.1
/// and 14.2).
const OF_ONE_REPRESENTATION: [HeaderName; 6] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

/// The validators of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// The revision that writers compare with.
    pub revision: RevisionId,
    /// The revision of the description of bytes, with which forms compare as well.
    pub described: Option<RevisionId>,
    /// The whole entity tag, as in a header.
    pub etag: String,
    /// Last change of the representation.
    pub modified: UnixMillis,
}

/// How a GET or HEAD proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// With the representation.
    Send,
    /// With 304: the client has it already.
    NotModified,
}

impl Validators {
    /// Those of bytes.
    pub fn of_bytes(revision: RevisionId) -> Self {
        Self { revision, described: None, etag: format!("\"{revision}\""), modified: revision.time() }
    }

    /// Those of bytes stored elsewhere, where they may change. The tag is weak, and serves to
    /// change their description here.
    pub fn of_bytes_elsewhere(revision: RevisionId) -> Self {
        Self { etag: format!("W/\"{revision}\""), ..Self::of_bytes(revision) }
    }

    /// The same, with the revision of the description of the bytes.
    pub fn with_description(self, described: RevisionId) -> Self {
        Self { described: Some(described), ..self }
    }

    /// Those of a graph in the representation named by `variant`. A streaming listing may change
    /// meanwhile, so its tag is weak.
    pub fn of_graph(revision: RevisionId, listing: Option<Option<RevisionId>>, variant: &str) -> Self {
        let (etag, changed) = match listing {
            None => (format!("\"{revision}-{variant}\""), None),
            Some(None) => (format!("W/\"{revision}-0-{variant}\""), None),
            Some(Some(change)) => (format!("W/\"{revision}-{change}-{variant}\""), Some(change)),
        };
        let modified = revision.time().max(changed.map_or(UnixMillis(0), |change| change.time()));
        Self { revision, described: None, etag, modified }
    }

    /// The tag of a form that changes all of the resource.
    pub fn tag_of_form(&self) -> String {
        match self.described {
            Some(described) => format!("\"{}-{described}\"", self.revision),
            None => self.etag.clone(),
        }
    }

    /// Sets their headers.
    pub fn insert(&self, headers: &mut HeaderMap) {
        self.insert_tag(headers);
        headers.typed_insert(LastModified::from(self.time()));
    }

    /// Sets only the tag: the time would also be that of a later state.
    pub fn insert_tag(&self, headers: &mut HeaderMap) {
        // Digits, letters and quotes.
        if let Ok(value) = HeaderValue::try_from(&self.etag) {
            headers.insert(header::ETAG, value);
        }
    }

    /// Evaluates the conditions of a GET or HEAD, in the order of section 13.2.2.
    pub fn reading(&self, headers: &HeaderMap) -> Result<Reading, LdpError> {
        self.protecting(headers)?;
        if headers.contains_key(header::IF_NONE_MATCH) {
            let known = tags(headers, &header::IF_NONE_MATCH).iter().any(|tag| tag == "*" || same(tag, &self.etag));
            return Ok(if known { Reading::NotModified } else { Reading::Send });
        }
        match headers.typed_get::<IfModifiedSince>() {
            Some(condition) if !condition.is_modified(self.time()) => Ok(Reading::NotModified),
            _ => Ok(Reading::Send),
        }
    }

    /// The same for a representation without a date: it ignores conditions on one (sections 13.1.3
    /// and 13.1.4).
    pub fn reading_undated(&self, headers: &HeaderMap) -> Result<Reading, LdpError> {
        let mut conditions = headers.clone();
        conditions.remove(header::IF_MODIFIED_SINCE);
        conditions.remove(header::IF_UNMODIFIED_SINCE);
        self.reading(&conditions)
    }

    /// Evaluates the conditions of a change. `If-Modified-Since` applies only to reading (section
    /// 13.1.3).
    pub fn writing(&self, headers: &HeaderMap) -> Result<(), LdpError> {
        refuse_state_token(headers)?;
        self.protecting(headers)?;
        check_if_none_match(headers)?;
        let known = tags(headers, &header::IF_NONE_MATCH).iter().any(|tag| tag == "*" || self.is_of(tag));
        if known { Err(PreconditionFailed::if_none_match([&self.etag]).into()) } else { Ok(()) }
    }

    fn protecting(&self, headers: &HeaderMap) -> Result<(), LdpError> {
        if headers.contains_key(header::IF_MATCH) {
            let holds = tags(headers, &header::IF_MATCH).iter().any(|tag| tag == "*" || self.is_of(tag));
            return if holds { Ok(()) } else { Err(PreconditionFailed::if_match([&self.etag]).into()) };
        }
        // For a container this is about its description, too: members do not modify that.
        let modified = system_time(self.revision.time());
        match headers.typed_get::<IfUnmodifiedSince>() {
            Some(condition) if !condition.precondition_passes(modified) => {
                Err(PreconditionFailed::if_unmodified_since(modified).into())
            }
            _ => Ok(()),
        }
    }

    /// Whether a tag is one of this revision, in whatever representation. A tag of bytes that names
    /// their description has to name the present one.
    fn is_of(&self, tag: &str) -> bool {
        let opaque = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
        let mut parts = opaque.split('-').map(RevisionId::parse);
        let (revision, described) = (parts.next().flatten(), parts.next().flatten());
        let is_described = self.described.is_none() || described.is_none() || described == self.described;
        revision == Some(self.revision) && is_described
    }

    fn time(&self) -> SystemTime {
        system_time(self.modified)
    }
}

/// Evaluates the conditions of a creation, where no resource exists.
pub fn creating(headers: &HeaderMap) -> Result<(), LdpError> {
    refuse_state_token(headers)?;
    check_if_none_match(headers)?;
    // Section 13.1.1: a missing resource matches nothing. Section 13.1.2: `If-None-Match` holds.
    if headers.contains_key(header::IF_MATCH) { Err(PreconditionFailed::if_match_of_nothing().into()) } else { Ok(()) }
}

/// No condition on a state token holds, because this server gives none. To ignore one would lose the
/// update that the client protects.
fn refuse_state_token(headers: &HeaderMap) -> Result<(), LdpError> {
    if !headers.contains_key(IF_STATE_TOKEN) {
        return Ok(());
    }
    let found = "this server gives no state tokens: send `If-Match` with the entity tag".to_owned();
    Err(PreconditionFailed { condition: "X-If-State-Token", found }.into())
}

/// Whether a change has a condition that prevents lost updates. `If-Unmodified-Since` does not: it
/// cannot distinguish two changes within a second (section 8.8.2.2).
pub fn is_conditional(headers: &HeaderMap) -> bool {
    headers.contains_key(header::IF_MATCH) || headers.contains_key(header::IF_NONE_MATCH)
}

/// Removes the conditions and the range of a request, which are not about what is sent instead: the
/// representation after a change, or a page that shows the bytes.
pub fn remove(headers: &mut HeaderMap) {
    for name in OF_ONE_REPRESENTATION {
        headers.remove(name);
    }
}

fn system_time(time: UnixMillis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(time.0)
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values = values(headers, name);
    values.iter().flat_map(|value| value.split(',')).map(|tag| tag.trim().to_owned()).collect()
}

/// Weak comparison (section 8.8.3.2).
fn same(one: &str, other: &str) -> bool {
    one.strip_prefix("W/").unwrap_or(one) == other.strip_prefix("W/").unwrap_or(other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const REVISION: RevisionId = RevisionId([7; 16]);
    const CHANGE: RevisionId = RevisionId([8; 16]);

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn a_child_changes_the_tag_of_a_container_and_fails_no_condition_on_its_description() {
        let before = Validators::of_graph(REVISION, Some(None), "t");
        let after = Validators::of_graph(REVISION, Some(Some(CHANGE)), "t");
        assert_ne!(before.etag, after.etag);
        let none_match = with(header::IF_NONE_MATCH, &before.etag);
        assert_eq!(before.reading(&none_match).unwrap(), Reading::NotModified);
        assert_eq!(after.reading(&none_match).unwrap(), Reading::Send);
        after.writing(&with(header::IF_MATCH, &before.etag)).unwrap();
    }

    #[test]
    fn a_writer_may_use_the_tag_of_any_representation_and_no_other() {
        let current = Validators::of_graph(REVISION, None, "t");
        for tag in [
            &*current.etag,
            "*",
            "\"x\", \"07070707070707070707070707070707-j\"",
            "\"07070707070707070707070707070707\"",
        ] {
            current.writing(&with(header::IF_MATCH, tag)).unwrap();
        }
        for tag in ["\"08080808080808080808080808080808-t\"", "nonsense", "", "\"\""] {
            assert!(current.writing(&with(header::IF_MATCH, tag)).is_err(), "{tag}");
        }
        assert!(current.writing(&with(header::IF_NONE_MATCH, "*")).is_err());
        assert!(creating(&with(header::IF_NONE_MATCH, "*")).is_ok());
        assert!(creating(&with(header::IF_MATCH, "*")).is_err());
        assert!(current.writing(&with(IF_STATE_TOKEN, "W/\"1\"")).is_err());
        assert!(creating(&with(IF_STATE_TOKEN, "W/\"1\"")).is_err());
    }

    #[test]
    fn a_change_whose_if_none_match_cannot_be_read_is_refused_and_a_read_is_not() {
        let current = Validators::of_graph(REVISION, None, "t");
        let unquoted = current.etag.replace('"', "");
        for value in [&*unquoted, "", "\"x", "\"x\" \"y\"", "\"x\", y", "*, \"x\"", "w/\"x\""] {
            let headers = with(header::IF_NONE_MATCH, value);
            assert!(matches!(current.writing(&headers), Err(LdpError::Condition(_))), "{value}");
            assert!(matches!(creating(&headers), Err(LdpError::Condition(_))), "{value}");
            assert!(current.reading(&headers).is_ok(), "{value}");
        }
        for value in ["\"x\"", "W/\"x\", \"y\"", ", \"\" ,"] {
            current.writing(&with(header::IF_NONE_MATCH, value)).unwrap();
            creating(&with(header::IF_NONE_MATCH, value)).unwrap();
        }
        // The W3C's test suite sends this one, and expects 412.
        let refused = current.writing(&with(header::IF_MATCH, "\"These aren't the ETags you're looking for.\""));
        assert!(matches!(refused, Err(LdpError::PreconditionFailed(_))));
    }

    #[test]
    fn a_date_that_cannot_be_read_is_ignored() {
        let current = Validators::of_graph(REVISION, None, "t");
        for name in [header::IF_UNMODIFIED_SINCE, header::IF_MODIFIED_SINCE] {
            let headers = with(name, "yesterday");
            current.writing(&headers).unwrap();
            assert_eq!(current.reading(&headers).unwrap(), Reading::Send);
        }
    }

    #[test]
    fn a_form_compares_the_description_of_bytes_too_and_a_program_only_the_bytes() {
        let before = Validators::of_bytes(REVISION).with_description(REVISION);
        let after = Validators::of_bytes(REVISION).with_description(CHANGE);
        assert_eq!(before.etag, after.etag);
        after.writing(&with(header::IF_MATCH, &after.etag)).unwrap();
        after.writing(&with(header::IF_MATCH, &after.tag_of_form())).unwrap();
        assert!(after.writing(&with(header::IF_MATCH, &before.tag_of_form())).is_err());
        let graph = Validators::of_graph(REVISION, None, "w");
        assert_eq!(graph.tag_of_form(), graph.etag);
    }

    #[test]
    fn a_client_that_requests_another_representation_does_not_have_it_already() {
        let turtle = Validators::of_graph(REVISION, None, "t");
        let json = Validators::of_graph(REVISION, None, "j");
        assert_eq!(json.reading(&with(header::IF_NONE_MATCH, &turtle.etag)).unwrap(), Reading::Send);
    }
}
