//! Which entries of the audit a reader wants.

use std::net::IpAddr;
use std::str::FromStr;

use serde::Deserialize;

use crate::event::{EventKind, EventResult};
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
}

impl WantedKind {
    fn is(self, kind: EventKind) -> bool {
        let wanted = match self {
            Self::Text => None,
            Self::Change => Some(EventKind::Change),
            Self::Read => Some(EventKind::Read),
            Self::Refusal => Some(EventKind::Refusal),
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
    /// Not the event of this request: the one that reads.
    pub except: Option<String>,
}

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
                    && self.except.as_ref().is_none_or(|request_id| *request_id != event.request_id)
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
    use crate::event::{Actor, Event, EventRecord};
    use store::UnixMillis;

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
}
