//! An event as an activity of Activity Streams 2.0 (W3C).

use ::feed::{Change, Event, ObjectKind, Subject};
use door_ldp::Site;
use serde_json::{Value, json};
use store::UnixMillis;

use super::PATH;

/// The context, exactly as the standard names it (section 2.1).
pub(super) const CONTEXT: &str = "https://www.w3.org/ns/activitystreams";

const LDP: &str = "http://www.w3.org/ns/ldp#";
/// The type of an archival group.
const ARCHIVAL_GROUP: &str = "http://fedora.info/definitions/v4/repository#ArchivalGroup";

/// An event as a member of a collection, without a context of its own. Its id ends with the cursor
/// of a reader that has read it.
pub(super) fn activity(event: &Event, site: &Site) -> Value {
    let kind = match event.change {
        Change::Created => "Create",
        Change::Updated => "Update",
        Change::Deleted => "Delete",
    };
    let published = rfc3339(event.at);
    let id = match &event.subject {
        Subject::Resource(path) => site.iri(path),
        Subject::Volume(id) => site.volume_iri(id),
    };
    let types = types(event.kind);
    let object = match event.change {
        Change::Deleted => json!({"id": id, "type": "Tombstone", "formerType": types, "deleted": published}),
        Change::Created | Change::Updated => json!({"id": id, "type": types}),
    };
    let mut activity = json!({
        "id": format!("{}{PATH}#{}", site.server(), event.cursor),
        "type": kind,
        "published": published,
        "object": object,
    });
    if let Some(name) = &event.actor {
        activity["actor"] = json!({"type": "Application", "name": name});
    }
    if let Some(agent) = &event.agent {
        activity["instrument"] = json!({"type": "Application", "name": agent});
    }
    activity
}

/// An event by itself.
pub(crate) fn with_context(event: &Event, site: &Site) -> Value {
    let mut activity = activity(event, site);
    activity["@context"] = CONTEXT.into();
    activity
}

/// The types of an object: those of Activity Streams that fit, and its interaction model (LDP 1.0).
fn types(kind: ObjectKind) -> Vec<String> {
    let ldp = |name: &str| format!("{LDP}{name}");
    let group = |name: &str| vec!["Collection".to_owned(), ldp(name), ARCHIVAL_GROUP.to_owned()];
    match kind {
        ObjectKind::Volume => vec!["Document".to_owned()],
        ObjectKind::RdfSource => vec![ldp("RDFSource")],
        ObjectKind::BasicContainer => vec!["Collection".to_owned(), ldp("BasicContainer")],
        ObjectKind::DirectContainer => vec!["Collection".to_owned(), ldp("DirectContainer")],
        ObjectKind::IndirectContainer => vec!["Collection".to_owned(), ldp("IndirectContainer")],
        ObjectKind::BasicGroup => group("BasicContainer"),
        ObjectKind::DirectGroup => group("DirectContainer"),
        ObjectKind::IndirectGroup => group("IndirectContainer"),
        ObjectKind::Binary => vec!["Document".to_owned(), ldp("NonRDFSource")],
    }
}

/// A time in UTC.
pub(crate) fn rfc3339(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    millis.unwrap_or(jiff::Timestamp::MAX).to_string()
}
