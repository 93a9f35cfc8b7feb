//! `[audit]`

use std::time::Duration;

use documented::DocumentedFields;
use heads::LibraryOptions;
use serde::{Deserialize, Serialize};

use super::text;

/// `[audit]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditConfig {
    /// How far the audit may lag before requests are refused, `1ms` to `366days`.
    #[serde(with = "humantime_serde")]
    pub max_lag: Duration,
    /// Whether changes and refusals are recorded: before the answer, but a power failure may undo
    /// the last tenth of a second (`awaited`); before it and on the disk (`synced`); soon after it
    /// (`queued`); or not (`off`).
    pub changes: AuditMode,
    /// Likewise for reads of resources of the repository. (Requests for text are always recorded.)
    pub resource_reads: AuditMode,
    /// How long records are kept, an hour at least, or `forever`.
    #[serde(with = "text::keep")]
    pub keep: Option<Duration>,
}

/// Whether something is recorded in the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditMode {
    /// It is not.
    Off,
    /// It is, soon after the answer: an answer may be known of which the record was lost.
    Queued,
    /// It is, before the answer. The death of the server does not undo it.
    Awaited,
    /// It is, before the answer. A power failure does not undo it either.
    Synced,
}

impl Default for AuditConfig {
    fn default() -> Self {
        let LibraryOptions { audit_max_lag: max_lag, audit_keep: keep, .. } = LibraryOptions::default();
        Self { max_lag, changes: AuditMode::Awaited, resource_reads: AuditMode::Off, keep }
    }
}
