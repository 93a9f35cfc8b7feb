//! The contents of audit records.

use std::net::IpAddr;

use budget::Party;
use hathi::VolumeId;
use heads::actor::BY_TOKEN;
use serde::{Deserialize, Serialize};
use store::{Stored, UnixMillis, ValueKind};

use crate::event::EventRecord;

/// The client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The name of the token, if the client sent one.
    pub name: Option<String>,
    /// The client's address, if the request came over a network.
    pub address: Option<IpAddr>,
    /// The request's id, as in the logs.
    pub request_id: String,
}

impl Requester {
    /// The party that shares scarce resources: the clients with the same token or, without a token,
    /// the clients with the same address.
    pub fn party(&self) -> Party {
        match (&self.name, self.address) {
            (Some(name), _) => Party::of_token(name),
            (None, Some(address)) => Party::of_address(address),
            (None, None) => Party::Local,
        }
    }

    /// One name for the party of the client: it owns what clients of the party make.
    pub fn owner(&self) -> String {
        match self.party() {
            Party::Token(name) => format!("{BY_TOKEN}{name}"),
            Party::Network(address) => format!("address {address}"),
            Party::Local => "local".to_owned(),
        }
    }

    /// One name for the same client over many requests: the token's name, or else the address.
    pub fn identity(&self) -> String {
        match (&self.name, self.address) {
            (Some(name), _) => format!("{BY_TOKEN}{name}"),
            (None, Some(address)) => format!("address {address}"),
            (None, None) => "local".to_owned(),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AuditAction {
    /// The volume was requested.
    Requested,
    /// The volume was sent, or was about to be sent.
    Accessed,
    /// Its words were counted, and the counts were sent or were about to be sent.
    TokenCountAccessed,
    /// The single pages of a window were requested, each by its own request. While the window is
    /// open, or if its writer died, the record names the whole volume.
    PagesRequested,
    /// A selection of it was made. Other requests fetch its bytes, if any do.
    Selected,
}

impl AuditAction {
    /// The word that the HTRC Data API's audit uses. That audit has no selections, so they have a
    /// word of our own.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested | Self::PagesRequested => "REQUESTED",
            Self::Accessed => "ACCESSED",
            Self::TokenCountAccessed => "TOKEN_COUNT_ACCESSED",
            Self::Selected => "SELECTED",
        }
    }
}

/// A volume in an audit record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedVolume {
    /// The volume's id.
    pub volume: VolumeId,
    /// The sequences of the pages. `None` means all; empty means another part of the volume (METS,
    /// the record).
    pub pages: Option<Vec<u32>>,
}

/// The contents of an audit row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AuditEntry {
    /// A record of a request for text.
    Record(AuditRecord),
    /// A record of an event.
    Event(EventRecord),
    /// A record that cannot be read any more.
    Damaged(DamagedRecord),
}

impl AuditEntry {
    /// The record of a request for text, if it is one and can be read.
    pub fn record(self) -> Option<AuditRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::Event(_) | Self::Damaged(_) => None,
        }
    }
}

/// A record that cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedRecord {
    /// When it was written, according to its key.
    pub at: UnixMillis,
    /// The error that the read reported.
    pub damage: String,
}

/// One record of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When it was written.
    pub at: UnixMillis,
    /// The client of the request; for a window, that of its first request.
    pub requester: Requester,
    /// The action.
    pub action: AuditAction,
    /// The ETag of the plan, for a bulk request that has one.
    pub plan: Option<String>,
    /// 0 for the first record of an event. A list too long for one record continues in 1, 2 and so
    /// on.
    pub part: u32,
    /// The volumes concerned.
    pub volumes: Vec<AuditedVolume>,
}

impl Stored for AuditRecord {
    const KIND: ValueKind = ValueKind::Audit;
}
