//! `[fixity]`

use std::time::Duration;

use ::fixity::FixityOptions;
use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

use super::text;

/// `[fixity]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct FixityConfig {
    /// Time from the beginning of a pass to that of the next one, or `off`.
    #[serde(with = "text::period")]
    pub every: Option<Duration>,
    /// Most bytes per second that this server reads in a pass; 0: no limit.
    #[serde(with = "text::size")]
    pub rate: u64,
}

impl Default for FixityConfig {
    fn default() -> Self {
        let options = FixityOptions::default();
        Self { every: Some(options.every), rate: options.bytes_per_second }
    }
}

impl FixityConfig {
    /// What the auditor needs to know.
    pub(crate) fn options(&self) -> FixityOptions {
        let default = FixityOptions::default();
        FixityOptions { every: self.every.unwrap_or(default.every), bytes_per_second: self.rate, ..default }
    }
}
