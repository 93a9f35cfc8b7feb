//! An event as the messages that Fedora 6 sends for it: properties `org.fcrepo.jms.*`, and a body of
//! JSON-LD (fcrepo's DefaultMessageFactory and JsonLDEventMessage). `fedora.json` beside the tests
//! was recorded from Fedora 6.1.
//!
//! The types that a client gave a resource, and whether a binary or its description changed, are
//! read when a message is sent. Fedora's namespace of Activity Streams has a `#`, which the
//! standard's has not, and consumers expect it.

use ::broker::{Message, Value};
use ::feed::{Change, Cursor, Event, ObjectKind, Subject};
use door_ldp::{Changed, Parts, Site};
use heads::ResourcePath;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::feed::activity::rfc3339;

const ACTIVITY_STREAMS: &str = "https://www.w3.org/ns/activitystreams#";
const FEDORA: &str = "http://fedora.info/definitions/v4/repository#";
const LDP: &str = "http://www.w3.org/ns/ldp#";
const MEMENTO: &str = "http://mementoweb.org/ns#";
const ENTITY: &str = "http://www.w3.org/ns/prov#Entity";

/// What the addresses of users begin with, as Fedora has it by default.
const USERS: &str = "info:fedora/local-user#";

/// What Fedora's name of a description ends with.
const DESCRIPTION: &str = "/fcr:metadata";

/// The most bytes of the types that a client gave a resource. ActiveMQ refuses a header of more
/// than 10 KiB over STOMP, where some characters become two.
const TYPES_BYTES_MAX: usize = 4 << 10;

/// The messages of an event, in order. A binary is deleted with its description, and both may also
/// change at once.
pub(super) fn messages(event: &Event, changed: &Changed, site: &Site) -> Vec<Message> {
    let path = match &event.subject {
        Subject::Resource(path) if path.is_root() => String::new(),
        Subject::Resource(path) => format!("/{path}"),
        Subject::Volume(id) => format!("/{}/{}", heads::VOLUMES, id.cleaned()),
    };
    let description = format!("{path}{DESCRIPTION}");
    let about = match (event.change, changed.parts) {
        (Change::Deleted, _) if event.kind == ObjectKind::Binary => vec![&description, &path],
        (Change::Updated, Parts::Description) => vec![&description],
        (Change::Updated, Parts::Both) => vec![&path, &description],
        _ => vec![&path],
    };
    // Of one key, so that none of them comes before an earlier change of the other.
    about.into_iter().map(|about| message(event, changed, site, about, path.clone())).collect()
}

/// The body, in Fedora's order.
#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    r#type: [&'static str; 1],
    name: &'static str,
    published: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actor: Vec<Actor>,
    object: Object<'a>,
    #[serde(rename = "@context")]
    context: serde_json::Value,
}

#[derive(Serialize)]
struct Actor {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Serialize)]
struct Object<'a> {
    r#type: Vec<String>,
    id: String,
    #[serde(rename = "isPartOf")]
    is_part_of: &'a str,
}

/// A message about a path, which begins with a slash unless it is the root's. `key` is the path of
/// the resource; for a description of bytes, that of the bytes.
fn message(event: &Event, changed: &Changed, site: &Site, path: &str, key: String) -> Message {
    let base = site.iri(&ResourcePath::root());
    let base = base.trim_end_matches('/');
    // When it is sent again, it may not be known any more that only the description changed.
    let id = event_id(event.cursor, if changed.parts == Parts::Description { key.as_str() } else { path });
    let (change, name) = match event.change {
        Change::Created => ("Create", "create resource"),
        Change::Updated => ("Update", "update resource"),
        Change::Deleted => ("Delete", "delete resource"),
    };
    let types = match event.change {
        Change::Deleted => Vec::new(),
        Change::Created | Change::Updated => types(event.kind, path != key, &changed.types, path.is_empty()),
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let timestamp = Value::Number(i64::try_from(event.at.0).unwrap_or(i64::MAX));
    let mut properties = vec![
        ("org.fcrepo.jms.baseURL", text(base)),
        ("org.fcrepo.jms.identifier", text(path)),
        ("org.fcrepo.jms.eventType", Value::Text(format!("{ACTIVITY_STREAMS}{change}"))),
        ("org.fcrepo.jms.resourceType", Value::Text(types.join(","))),
        ("org.fcrepo.jms.eventID", text(&id)),
        ("org.fcrepo.jms.timestamp", timestamp),
    ];
    properties.extend(event.actor.as_deref().map(|actor| ("org.fcrepo.jms.user", text(actor))));
    properties.extend(event.agent.as_deref().map(|agent| ("org.fcrepo.jms.userAgent", text(agent))));
    let person = |name: &String| Actor { r#type: "Person", id: Some(format!("{USERS}{name}")), name: None };
    let program = |name: &String| Actor { r#type: "Application", id: None, name: Some(name.clone()) };
    let actors = event.actor.iter().map(person).chain(event.agent.iter().map(program));
    let body = Body {
        id: &id,
        r#type: [change],
        name,
        published: rfc3339(event.at),
        actor: actors.collect(),
        object: Object {
            r#type: types.iter().map(String::as_str).chain([ENTITY]).map(str::to_owned).collect(),
            id: format!("{base}{path}"),
            is_part_of: base,
        },
        context: json!([ACTIVITY_STREAMS, {
            "prov": "http://www.w3.org/ns/prov#",
            "dcterms": "http://purl.org/dc/terms/",
            "type": "@type",
            "id": "@id",
            "isPartOf": { "@id": "dcterms:isPartOf", "@type": "@id" },
        }]),
    };
    // A value of texts is always written, and JSON escapes a zero byte.
    let text = serde_json::to_string(&body).unwrap_or_default();
    Message { key, id, properties, text }
}

/// The types that Fedora gives a resource, or the description of bytes, by itself, and those that a
/// client gave it.
fn types(kind: ObjectKind, is_description: bool, of_clients: &[String], is_root: bool) -> Vec<String> {
    let ldp = |names: &[&str]| names.iter().map(|name| format!("{LDP}{name}")).collect::<Vec<_>>();
    let container =
        |class: &str| [ldp(&["RDFSource", "Container", class]), vec![format!("{FEDORA}Container")]].concat();
    let group = |class: &str| [container(class), vec![format!("{FEDORA}ArchivalGroup")]].concat();
    let mut types = match kind {
        ObjectKind::RdfSource => ldp(&["RDFSource"]),
        ObjectKind::BasicContainer => container("BasicContainer"),
        ObjectKind::DirectContainer => container("DirectContainer"),
        ObjectKind::IndirectContainer => container("IndirectContainer"),
        ObjectKind::Volume | ObjectKind::BasicGroup => group("BasicContainer"),
        ObjectKind::DirectGroup => group("DirectContainer"),
        ObjectKind::IndirectGroup => group("IndirectContainer"),
        ObjectKind::Binary if is_description => {
            [ldp(&["RDFSource"]), vec![format!("{FEDORA}NonRdfSourceDescription")]].concat()
        }
        ObjectKind::Binary => [ldp(&["NonRDFSource"]), vec![format!("{FEDORA}Binary")]].concat(),
    };
    types.extend(is_root.then(|| format!("{FEDORA}RepositoryRoot")));
    types.extend([format!("{LDP}Resource"), format!("{FEDORA}Resource")]);
    types.extend(["OriginalResource", "TimeGate"].map(|name| format!("{MEMENTO}{name}")));
    let mut left = TYPES_BYTES_MAX;
    for of_client in of_clients {
        let Some(rest) = left.checked_sub(of_client.len()) else { continue };
        if !types.contains(of_client) {
            left = rest;
            types.push(of_client.clone());
        }
    }
    types
}

/// The id of a message: the same each time that it is sent (RFC 9562, section 5.8 and appendix B.2).
fn event_id(cursor: Cursor, path: &str) -> String {
    let digest = Sha256::new().chain_update(cursor.to_string()).chain_update(path).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0F | 0x80;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let digits = hex::encode(bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    format!("urn:uuid:{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::{BTreeMap, BTreeSet};

    use heads::RevisionId;
    use http::{Extensions, HeaderMap, Uri};
    use serde_json::Value as Json;
    use store::UnixMillis;

    use super::*;

    /// What Fedora 6.1 sent while a client changed a repository.
    const RECORDED: &str = include_str!("fedora.json");

    fn site() -> Site {
        let settings = door_ldp::LdpSettings {
            origin: Some("http://127.0.0.1:39080".to_owned()),
            ..door_ldp::LdpSettings::default()
        };
        Site::of(&settings, &Uri::default(), &HeaderMap::new(), &Extensions::new()).unwrap()
    }

    fn event(change: Change, kind: ObjectKind, path: &str, at: u64) -> Event {
        Event {
            cursor: Cursor::before(UnixMillis(at)),
            change,
            kind,
            subject: Subject::Resource(ResourcePath::parse(path).unwrap()),
            revision: RevisionId::ZERO,
            at: UnixMillis(at),
            actor: Some("fedoraAdmin".to_owned()),
            agent: Some("penates-test/1.0".to_owned()),
        }
    }

    /// The event behind a recorded message; `None` if the feed has none like it.
    fn behind(recorded: &Json, deleted: ObjectKind) -> Option<Event> {
        let header = |name: &str| recorded["headers"][format!("org.fcrepo.jms.{name}")].as_str().unwrap();
        let change = match header("eventType").rsplit_once('#').unwrap().1 {
            "Create" => Change::Created,
            "Update" => Change::Updated,
            "Delete" => Change::Deleted,
            _ => return None,
        };
        let types: BTreeSet<_> =
            header("resourceType").split(',').map(|name| name.rsplit_once('#').unwrap_or_default().1).collect();
        let known = [
            ("NonRDFSource", ObjectKind::Binary),
            ("DirectContainer", ObjectKind::DirectContainer),
            ("IndirectContainer", ObjectKind::IndirectContainer),
            ("ArchivalGroup", ObjectKind::BasicGroup),
            ("BasicContainer", ObjectKind::BasicContainer),
            ("", deleted),
        ];
        let kind = known.into_iter().find(|(name, _)| types.contains(name))?.1;
        let path = header("identifier").trim_start_matches('/').trim_end_matches(DESCRIPTION).to_owned();
        let at = header("timestamp").parse().unwrap();
        Some(event(change, kind, &path, at))
    }

    /// A message with what differs from one to the next replaced, and types as a set.
    fn comparable(headers: BTreeMap<String, String>, mut body: Json) -> (BTreeMap<String, String>, Json) {
        let sorted = |types: &str| {
            let types: BTreeSet<_> = types.split(',').collect();
            types.into_iter().collect::<Vec<_>>().join(",")
        };
        let id = body["id"].as_str().unwrap().to_owned();
        let headers = headers.into_iter().filter(|(name, _)| name != "persistent");
        let headers = headers.map(|(name, value)| match name.rsplit_once('.').unwrap().1 {
            "resourceType" => (name, sorted(&value)),
            "eventID" => {
                assert!(value == id && value.len() == 45 && value.starts_with("urn:uuid:"), "{value}");
                (name, "id".to_owned())
            }
            _ => (name, value),
        });
        let types: Vec<_> =
            body["object"]["type"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let types = sorted(&types.join(","));
        body["object"]["type"] = types.into();
        body["id"] = "id".into();
        // Fedora has nanoseconds.
        let published: jiff::Timestamp = body["published"].as_str().unwrap().parse().unwrap();
        body["published"] = published.as_millisecond().into();
        (headers.collect(), body)
    }

    fn of_ours(message: &Message) -> (BTreeMap<String, String>, Json) {
        let properties = message.properties.iter().map(|(name, value)| match value {
            Value::Text(text) => ((*name).to_owned(), text.clone()),
            Value::Number(number) => ((*name).to_owned(), number.to_string()),
        });
        comparable(properties.collect(), serde_json::from_str(&message.text).unwrap())
    }

    /// What a message is about.
    fn about(message: &Message) -> &str {
        let identifier = message.properties.iter().find(|(name, _)| name.ends_with("identifier"));
        let Some((_, Value::Text(path))) = identifier else { panic!("{message:?}") };
        path
    }

    /// Fedora's fields come in its order too: some consumers read text.
    fn fields(text: &str) -> Vec<usize> {
        ["\"id\"", "\"type\"", "\"name\"", "\"published\"", "\"actor\"", "\"object\"", "\"isPartOf\"", "\"@context\""]
            .map(|field| text.find(field).unwrap())
            .to_vec()
    }

    #[test]
    fn messages_are_those_that_fedora_was_recorded_to_send() {
        let recorded: Vec<Json> = serde_json::from_str(RECORDED).unwrap();
        let mut compared = Vec::new();
        for recorded in recorded {
            let deleted = match recorded["headers"]["org.fcrepo.jms.identifier"].as_str().unwrap().contains("bin1") {
                true => ObjectKind::Binary,
                false => ObjectKind::BasicContainer,
            };
            let Some(event) = behind(&recorded, deleted) else { continue };
            let headers: BTreeMap<String, String> = serde_json::from_value(recorded["headers"].clone()).unwrap();
            let identifier = headers["org.fcrepo.jms.identifier"].clone();
            // The client gave this type to one resource, when it created it.
            let types = headers["org.fcrepo.jms.resourceType"].split(',');
            let types = types.filter(|name| *name == "http://example.org/T").map(str::to_owned).collect();
            let changed = Changed { types, ..Changed::default() };
            let expected = comparable(headers, recorded["body"].clone());
            let ours = messages(&event, &changed, &site());
            let ours = ours.iter().find(|message| about(message) == identifier);
            let ours = ours.unwrap_or_else(|| panic!("no message about {identifier}"));
            assert_eq!(of_ours(ours), expected);
            assert!(fields(&ours.text).is_sorted(), "{}", ours.text);
            compared.push(format!("{:?} {:?} {identifier}", event.change, event.kind));
        }
        compared.sort();
        compared.dedup();
        assert_eq!(compared.len(), 13, "{compared:#?}");
    }

    #[test]
    fn a_deleted_binary_is_two_messages_and_each_has_an_id_of_its_own_that_stays() {
        let event = event(Change::Deleted, ObjectKind::Binary, "a/b", 1_750_000_000_123);
        let sent = messages(&event, &Changed::default(), &site());
        assert_eq!(sent.iter().map(about).collect::<Vec<_>>(), ["/a/b/fcr:metadata", "/a/b"]);
        assert_eq!(sent[0].key, sent[1].key, "they stay in order with other changes of the binary");
        assert_ne!(sent[0].id, sent[1].id);
        assert_eq!(messages(&event, &Changed::default(), &site()), sent);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let event = Event { actor: None, agent: None, ..event(Change::Created, ObjectKind::RdfSource, "a", 1) };
        let sent = messages(&event, &Changed::default(), &site()).remove(0);
        assert!(sent.properties.iter().all(|(name, _)| !name.contains("user")));
        assert!(!sent.text.contains("actor"), "{}", sent.text);
        assert!(sent.text.contains("\"published\":\"1970-01-01T00:00:00.001Z\""), "{}", sent.text);
    }

    fn types_of(message: &Message) -> Vec<String> {
        let types = message.properties.iter().find(|(name, _)| name.ends_with("resourceType"));
        let Some((_, Value::Text(types))) = types else { panic!("{message:?}") };
        types.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn a_change_of_a_description_names_the_description_and_keeps_the_id_and_the_order_of_the_binary() {
        let event = event(Change::Updated, ObjectKind::Binary, "a/b", 1_750_000_000_123);
        let of_bytes = messages(&event, &Changed::default(), &site());
        let changed = Changed { types: vec!["urn:T".to_owned()], parts: Parts::Description };
        let of_description = messages(&event, &changed, &site());
        assert_eq!(of_bytes.iter().map(about).collect::<Vec<_>>(), ["/a/b"]);
        assert_eq!(of_description.iter().map(about).collect::<Vec<_>>(), ["/a/b/fcr:metadata"]);
        assert_eq!(of_description[0].key, of_bytes[0].key);
        assert_eq!(of_description[0].id, of_bytes[0].id, "a consumer recognises it if it comes again");
        let types = types_of(&of_description[0]);
        assert!(types.contains(&"urn:T".to_owned()) && types.contains(&format!("{LDP}RDFSource")), "{types:?}");
        assert!(!types.iter().any(|name| name.ends_with("NonRDFSource") || name.ends_with("Binary")), "{types:?}");
    }

    #[test]
    fn a_change_of_bytes_and_their_description_is_two_messages_and_that_of_the_bytes_has_the_id_that_stays() {
        let event = event(Change::Updated, ObjectKind::Binary, "a/b", 1_750_000_000_123);
        let changed = Changed { parts: Parts::Both, ..Changed::default() };
        let sent = messages(&event, &changed, &site());
        assert_eq!(sent.iter().map(about).collect::<Vec<_>>(), ["/a/b", "/a/b/fcr:metadata"]);
        assert_eq!(sent[..1], messages(&event, &Changed::default(), &site()), "what is sent if no more is known");
        assert_eq!(sent[0].key, sent[1].key);
        assert_ne!(sent[0].id, sent[1].id);
        let types = types_of(&sent[1]);
        assert!(types.contains(&format!("{FEDORA}NonRdfSourceDescription")), "{types:?}");
        let created = Event { change: Change::Created, ..event };
        assert_eq!(messages(&created, &changed, &site()).len(), 1, "as Fedora creates bytes");
    }

    #[test]
    fn types_of_clients_are_named_once_and_as_many_as_a_broker_takes() {
        let event = event(Change::Updated, ObjectKind::BasicContainer, "a", 1);
        let long = format!("urn:{}", "x".repeat(TYPES_BYTES_MAX));
        let own = format!("{LDP}Container");
        let types = [own.as_str(), "urn:a", long.as_str(), "urn:b", "urn:a"].map(str::to_owned).to_vec();
        let sent = messages(&event, &Changed { types, ..Changed::default() }, &site());
        let sent = types_of(&sent[0]);
        assert!(sent.ends_with(&["urn:a".to_owned(), "urn:b".to_owned()]), "{sent:?}");
        assert_eq!(sent.iter().filter(|name| **name == own).count(), 1);
    }
}
