//! `[auth]`

use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

/// Who has a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Everyone.
    Open,
    /// Clients with a token.
    Token,
}

/// `[auth]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct AuthConfig {
    /// Who may read: `open` (everyone) or `token` (clients with a token).
    pub read: Access,
    /// Who may change: `open` or `token`.
    pub write: Access,
    /// Allows open reading beyond loopback addresses.
    pub read_open_anywhere: bool,
    /// Allows open changes beyond loopback addresses.
    pub write_open_anywhere: bool,
    /// The names of tokens with which another site may
    /// [follow](operations/upgrade.md#a-following-site) the whole store over a network, with the
    /// audit and the hashes of tokens.
    pub copy: Vec<String>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            read: Access::Open,
            write: Access::Token,
            read_open_anywhere: false,
            write_open_anywhere: false,
            copy: Vec::new(),
        }
    }
}
