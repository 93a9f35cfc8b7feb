//! Which entries of the audit a reader wants.

use std::net::IpAddr;
use std::str::FromStr;

use serde::Deserialize;
use store::UnixMillis;

use crate::event::{EventKind, EventRecord, EventResult};
use crate::record::{AuditEntry, AuditRecord};

/// How something ended, as a reader asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedResult {
    /// It was done.
    Ok,
    /// It was not done, as far as is known.
    Failed,
    /// It may have been done.
    Unknown,
    /// Exactly this.
    Exactly(EventResult),
}

impl WantedResult {
    fn is(self, result: EventResult) -> bool {
        match self {
            Self::Ok => result.is_ok(),
            Self::Failed => !result.is_ok() && !is_unknown(result),
            Self::Unknown => is_unknown(result),
            Self::Exactly(wanted) => result == wanted,
        }
    }
}

/// Whether nobody knows the outcome: that is what doors answer with 504.
fn is_unknown(result: EventResult) -> bool {
    matches!(result, EventResult::Unknown | EventResult::Status(504))
}

impl FromStr for WantedResult {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ok" => Ok(Self::Ok),
            "failed" => Ok(Self::Failed),
            "unknown" => Ok(Self::Unknown),
            _ => match text.parse() {
                Ok(status @ 100..=999) => Ok(Self::Exactly(EventResult::Status(status))),
                _ => Err(format!("`{text}` is no result: write ok, failed, unknown, or a status such as 412")),
            },
        }
    }
}

/// What entries are about, as a reader asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WantedKind {
    /// Requests for text.
    Text,
    /// Changes.
    Change,
    /// Other reads.
    Read,
    /// Refusals.
    Refusal,
    /// What was requested in a transaction, or of one.
    Staged,
}

impl WantedKind {
    fn is(self, kind: EventKind) -> bool {
        let wanted = match self {
            Self::Text => None,
            Self::Change => Some(EventKind::Change),
            Self::Read => Some(EventKind::Read),
            Self::Refusal => Some(EventKind::Refusal),
            Self::Staged => Some(EventKind::Staged),
        };
        wanted == Some(kind)
    }
}

/// Which entries are wanted: those that meet every condition.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// With this token.
    pub token: Option<String>,
    /// From this address.
    pub address: Option<IpAddr>,
    /// Whose target, or what was made, begins so. A volume's target is `/volumes/` and its id.
    pub target: Option<String>,
    /// Of this kind.
    pub kind: Option<WantedKind>,
    /// That ended so.
    pub result: Option<WantedResult>,
    /// Not the reading itself.
    pub except: Option<Reading>,
}

/// A reading of the audit that is under way. Its own event is recorded before it sees any. Clients
/// choose ids of requests, so an id alone hides nothing: only an event of a read, and none that is
/// older than the reading.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The id of its request.
    pub request_id: String,
    /// When it began.
    pub since: UnixMillis,
}

impl Reading {
    fn is_recorded_by(&self, EventRecord { at, event }: &EventRecord) -> bool {
        let is_read = event.kind == EventKind::Read && event.target.ends_with(AUDIT);
        is_read && *at >= self.since && event.request_id == self.request_id
    }
}

/// The end of the paths at which the audit is read.
const AUDIT: &str = "/audit";

impl Conditions {
    /// Whether an entry is wanted. One that cannot be read always is.
    pub fn hold(&self, entry: &AuditEntry) -> bool {
        match entry {
            AuditEntry::Record(record) => self.hold_of_record(record),
            AuditEntry::Event(record) => {
                let event = &record.event;
                let begins = |prefix: &String| {
                    let made = event.made.as_ref().is_some_and(|made| made.starts_with(prefix));
                    made || event.target.starts_with(prefix)
                };
                self.is_by(event.actor.token.as_ref(), event.actor.address)
                    && self.target.as_ref().is_none_or(begins)
                    && self.kind.is_none_or(|kind| kind.is(event.kind))
                    && self.result.is_none_or(|wanted| wanted.is(event.result))
                    && self.except.as_ref().is_none_or(|reading| !reading.is_recorded_by(record))
            }
            AuditEntry::Damaged(_) => true,
        }
    }

    fn hold_of_record(&self, record: &AuditRecord) -> bool {
        let begins = |prefix: &String| {
            let begins = |id: &str| format!("/volumes/{id}").starts_with(prefix);
            record.volumes.iter().any(|audited| begins(audited.volume.as_str()))
        };
        self.is_by(record.requester.name.as_ref(), record.requester.address)
            && self.target.as_ref().is_none_or(begins)
            && self.kind.is_none_or(|kind| kind == WantedKind::Text)
            && self.result.is_none_or(|wanted| wanted == WantedResult::Ok)
    }

    fn is_by(&self, token: Option<&String>, address: Option<IpAddr>) -> bool {
        let is_token = self.token.as_ref().is_none_or(|wanted| token == Some(wanted));
        is_token && self.address.is_none_or(|wanted| address == Some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Actor, Event};

    fn entry(result: EventResult) -> AuditEntry {
        let actor = Actor { token: Some("a".to_owned()), ..Actor::default() };
        let event = Event { actor, ..Event::of(EventKind::Change, "PUT", "/rest/a", result) };
        AuditEntry::Event(EventRecord { at: UnixMillis(1), event })
    }

    #[test]
    fn results_are_asked_for_as_words_or_statuses() {
        let holds = |text: &str, result| {
            let conditions = Conditions { result: text.parse().ok(), ..Conditions::default() };
            assert!(conditions.result.is_some(), "{text}");
            conditions.hold(&entry(result))
        };
        assert!(holds("ok", EventResult::Status(201)) && holds("ok", EventResult::Done));
        assert!(!holds("ok", EventResult::Unknown) && !holds("failed", EventResult::Unknown));
        assert!(holds("failed", EventResult::Status(412)) && holds("failed", EventResult::Failed));
        assert!(holds("412", EventResult::Status(412)) && !holds("412", EventResult::Status(409)));
        for text in ["", "well", "99", "-1", "70000"] {
            assert!(text.parse::<WantedResult>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_condition_must_hold() {
        let wanted = |token: &str, target: &str| Conditions {
            token: Some(token.to_owned()),
            target: Some(target.to_owned()),
            ..Conditions::default()
        };
        let entry = entry(EventResult::Status(201));
        assert!(wanted("a", "/rest/").hold(&entry));
        assert!(!wanted("a", "/volumes/").hold(&entry) && !wanted("b", "/rest/").hold(&entry));
    }

    #[test]
    fn a_reader_hides_its_own_reading_and_nothing_else_by_the_id_of_its_request() {
        let reading = Reading { request_id: "mine".to_owned(), since: UnixMillis(10) };
        let conditions = Conditions { except: Some(reading), ..Conditions::default() };
        let holds = |at, kind, target: &str| {
            let event =
                Event { request_id: "mine".to_owned(), ..Event::of(kind, "GET", target, EventResult::Status(200)) };
            conditions.hold(&AuditEntry::Event(EventRecord { at: UnixMillis(at), event }))
        };
        assert!(!holds(10, EventKind::Read, "/audit"));
        assert!(holds(9, EventKind::Read, "/audit"), "an earlier reading with the same id");
        assert!(holds(11, EventKind::Change, "/rest/a") && holds(11, EventKind::Read, "/rest/a"));
    }
}
