//! What a record of the audit says.

use std::net::IpAddr;

use hathi::VolumeId;
use serde::{Deserialize, Serialize};
use store::UnixMillis;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The name of the token, if one was shown.
    pub name: Option<String>,
    /// Where the request came from, if it came over a network.
    pub address: Option<IpAddr>,
    /// The request's id, as the logs have it.
    pub request_id: String,
}

impl Requester {
    /// One name for the same asker over many requests: the token's name, or else the address.
    pub fn identity(&self) -> String {
        match (&self.name, self.address) {
            (Some(name), _) => format!("token {name}"),
            (None, Some(address)) => format!("address {address}"),
            (None, None) => "local".to_owned(),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AuditAction {
    /// It was asked for.
    Requested,
    /// It was sent, or was about to be.
    Accessed,
    /// Its words were counted and the counts were sent, or were about to be.
    TokenCountAccessed,
    /// Single pages were asked for, each by a request of its own: those of a window. While it is open, or if its writer died: all of
    /// the volume.
    PagesRequested,
    /// A selection of it was made: its bytes are asked for, if at all, by other requests.
    Selected,
}

impl AuditAction {
    /// The word that the HTRC Data API's audit has for it; for a selection, of which that knows nothing, a word of our own.
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
    /// Which one.
    pub volume: VolumeId,
    /// The sequences of the pages; `None`: all; empty: something else of it (METS, the record).
    pub pages: Option<Vec<u32>>,
}

/// What a row of the audit says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AuditEntry {
    /// A record.
    Record(AuditRecord),
    /// A record that cannot be read any more.
    Damaged(DamagedRecord),
}

impl AuditEntry {
    /// The record, if it can be read.
    pub fn record(self) -> Option<AuditRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::Damaged(_) => None,
        }
    }
}

/// A record that cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedRecord {
    /// When it was written, to which its key testifies.
    pub at: UnixMillis,
    /// How its damage was noticed.
    pub damage: String,
}

/// One record of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When it was written.
    pub at: UnixMillis,
    /// By whose request; of those of a window, the first.
    pub requester: Requester,
    /// What was done.
    pub action: AuditAction,
    /// The ETag of the plan, for a bulk request that has one.
    pub plan: Option<String>,
    /// 0 for the first record of one event; lists too long for one record go on in 1, 2 and so on.
    pub part: u32,
    /// With what.
    pub volumes: Vec<AuditedVolume>,
}
