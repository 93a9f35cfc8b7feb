//! Events: what was done besides requests for text. Changes, reads of resources, and refusals.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use store::{Stored, UnixMillis, ValueKind};

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Something was changed, or was to be changed.
    Change,
    /// Something was read.
    Read,
    /// Requests were refused because of who made them, or how many.
    Refusal,
    /// Something was requested in a transaction, or of one. It happens if that is committed: then
    /// the commit is a [`EventKind::Change`].
    Staged,
}

impl EventKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Read => "read",
            Self::Refusal => "refusal",
            Self::Staged => "staged",
        }
    }
}

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventResult {
    /// Nobody waited for the end, or the program failed: it may have been done.
    Unknown,
    /// With a status of HTTP.
    Status(u16),
    /// A command did it; or a request did it, and was answered with an error about what was to
    /// follow.
    Done,
    /// A command failed.
    Failed,
}

impl EventResult {
    /// Whether it was done.
    pub fn is_ok(self) -> bool {
        match self {
            Self::Status(status) => status < 400,
            Self::Done => true,
            Self::Unknown | Self::Failed => false,
        }
    }
}

impl fmt::Display for EventResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Status(status) => write!(f, "{status}"),
            Self::Done => f.write_str("done"),
            Self::Failed => f.write_str("failed"),
        }
    }
}

/// Who did it, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Actor {
    /// The name of the token, if the client sent one.
    pub token: Option<String>,
    /// The user of the operating system, if it was done on this machine without a network.
    pub user: Option<String>,
    /// The client's address, if it came over a network.
    pub address: Option<IpAddr>,
    /// The program, as it calls itself (`User-Agent`).
    pub agent: Option<String>,
}

impl Actor {
    /// One name for the actor.
    pub fn identity(&self) -> String {
        match self {
            Self { token: Some(token), .. } => format!("token {token}"),
            Self { user: Some(user), .. } => format!("user {user}"),
            Self { address: Some(address), .. } => format!("address {address}"),
            _ => "unknown".to_owned(),
        }
    }
}

/// What happened. Texts are cut when they are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What it is about.
    pub kind: EventKind,
    /// Who did it.
    pub actor: Actor,
    /// The request's id, as in the logs; empty if it was no request.
    pub request_id: String,
    /// The method of HTTP, or the command.
    pub action: String,
    /// The path of what was changed, read or refused.
    pub target: String,
    /// The query of the request, or what a command adds.
    pub detail: Option<String>,
    /// The path of what was made, if it is not the target.
    pub made: Option<String>,
    /// The revision after the change: its entity tag.
    pub revision: Option<String>,
    /// Bytes that the client sent, if it said how many.
    pub bytes: Option<u64>,
    /// How it ended.
    pub result: EventResult,
    /// How many requests it counts. Refusals of one client are counted together.
    pub count: u64,
    /// The id of the transaction that it is about, if it is about one.
    pub transaction: Option<String>,
}

impl Event {
    /// An event of one action, of nobody and without details.
    pub fn of(kind: EventKind, action: &str, target: &str, result: EventResult) -> Self {
        Self {
            kind,
            actor: Actor::default(),
            request_id: String::new(),
            action: action.to_owned(),
            target: target.to_owned(),
            detail: None,
            made: None,
            revision: None,
            bytes: None,
            result,
            count: 1,
            transaction: None,
        }
    }

    /// The same with texts of bounded length, which others chose.
    pub(super) fn shortened(&self) -> Self {
        let cut = |text: &String, bytes_max| text[..text.floor_char_boundary(bytes_max)].to_owned();
        let cut_some = |text: &Option<String>, bytes_max| text.as_ref().map(|text| cut(text, bytes_max));
        let Actor { token, user, address, agent } = &self.actor;
        Self {
            kind: self.kind,
            actor: Actor {
                token: cut_some(token, NAME_BYTES_MAX),
                user: cut_some(user, NAME_BYTES_MAX),
                address: *address,
                agent: cut_some(agent, NAME_BYTES_MAX),
            },
            request_id: cut(&self.request_id, NAME_BYTES_MAX),
            action: cut(&self.action, NAME_BYTES_MAX),
            target: cut(&self.target, TARGET_BYTES_MAX),
            detail: cut_some(&self.detail, TARGET_BYTES_MAX),
            made: cut_some(&self.made, TARGET_BYTES_MAX),
            revision: cut_some(&self.revision, NAME_BYTES_MAX),
            bytes: self.bytes,
            result: self.result,
            count: self.count,
            transaction: cut_some(&self.transaction, NAME_BYTES_MAX),
        }
    }

    /// An upper bound for the bytes of its record.
    pub(super) fn len_bytes(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let Actor { token, user, agent, .. } = &self.actor;
        let others = [token, user, agent, &self.detail, &self.made, &self.revision, &self.transaction];
        let texts: usize = others.into_iter().map(of).sum();
        FRAME_BYTES + texts + self.request_id.len() + self.action.len() + self.target.len()
    }
}

/// Bytes kept of a name.
const NAME_BYTES_MAX: usize = 256;

/// Bytes kept of a path or a query.
const TARGET_BYTES_MAX: usize = 1_024;

/// Bytes of a record of an event and its key, without the texts.
const FRAME_BYTES: usize = 192;

/// A record of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// When it was written: for refusals, the end of the time in which they are counted.
    pub at: UnixMillis,
    /// What happened.
    pub event: Event,
}

impl Stored for EventRecord {
    const KIND: ValueKind = ValueKind::AuditEvent;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use heads::head;
    use store::Table;

    use super::*;

    fn event() -> Event {
        Event {
            actor: Actor {
                token: Some("archivist".to_owned()),
                user: None,
                address: Some("192.0.2.7".parse().unwrap()),
                agent: Some("curl/8".to_owned()),
            },
            request_id: "r-1".to_owned(),
            detail: Some("force=true".to_owned()),
            made: Some("/rest/a/b".to_owned()),
            revision: Some("\"e\"".to_owned()),
            bytes: Some(300),
            ..Event::of(EventKind::Change, "POST", "/rest/a/", EventResult::Status(201))
        }
    }

    fn sealed(record: &EventRecord) -> bytes::Bytes {
        head::seal(record).unwrap()
    }

    /// Every later program reads these bytes.
    #[test]
    fn the_stored_bytes_do_not_change() {
        let value = sealed(&EventRecord { at: UnixMillis(1_000), event: event() });
        let payload = [
            &b"\xe8\x07\x00\x01\x09archivist\x00\x01\x00\xc0\x00\x02\x07\x01\x06curl/8\x03r-1\x04POST\x08/rest/a/"[..],
            b"\x01\x0aforce=true\x01\x09/rest/a/b\x01\x03\"e\"\x01\xac\x02\x01\xc9\x01\x01\x00",
        ]
        .concat();
        assert_eq!(value[7..], payload);
        assert_eq!(value[..3], [3, 61, 1]);
        let least = Event::of(EventKind::Refusal, "GET", "/", EventResult::Unknown);
        let value = sealed(&EventRecord { at: UnixMillis(1), event: least.clone() });
        assert_eq!(value[7..], *b"\x01\x02\x00\x00\x00\x00\x00\x03GET\x01/\x00\x00\x00\x00\x00\x01\x00");
        let opened: EventRecord = head::open(Table::Audit, &value).unwrap();
        assert_eq!(opened.event, least);
        let staged = Event { kind: EventKind::Staged, transaction: Some("4f".to_owned()), count: 1, ..least.clone() };
        let value = sealed(&EventRecord { at: UnixMillis(1), event: staged.clone() });
        assert_eq!(value[7..], *b"\x01\x03\x00\x00\x00\x00\x00\x03GET\x01/\x00\x00\x00\x00\x00\x01\x01\x024f");
        let opened: EventRecord = head::open(Table::Audit, &value).unwrap();
        assert_eq!(opened.event, staged);
        for (result, number) in [(EventResult::Done, 2), (EventResult::Failed, 3)] {
            assert_eq!(postcard::to_stdvec(&result).unwrap(), [number]);
        }
    }

    #[test]
    fn an_event_is_bounded_whatever_a_client_sends() {
        let long = "é".repeat(100_000);
        let actor =
            Actor { token: Some(long.clone()), user: Some(long.clone()), address: None, agent: Some(long.clone()) };
        let event = Event {
            actor,
            request_id: long.clone(),
            detail: Some(long.clone()),
            made: Some(long.clone()),
            revision: Some(long.clone()),
            transaction: Some(long.clone()),
            ..Event::of(EventKind::Change, &long, &long, EventResult::Unknown)
        };
        let shortened = event.shortened();
        let value = sealed(&EventRecord { at: UnixMillis(u64::MAX), event: shortened.clone() });
        assert!(value.len() + 16 <= shortened.len_bytes() && shortened.len_bytes() < 8 << 10);
    }
}
