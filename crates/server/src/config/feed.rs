//! `[feed]`

use std::time::Duration;

use documented::DocumentedFields;
use heads::LibraryOptions;
use serde::{Deserialize, Serialize};

use super::{BridgeConfig, WebhookConfig};

/// `[feed]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct FeedConfig {
    /// How long changes are kept; `0s`: none are recorded.
    #[serde(with = "humantime_serde")]
    pub keep: Duration,
    /// Consumers of the stream, and followers of the audit, at the same time.
    pub consumers_max: usize,
    /// Whether events name the token and the program (`User-Agent`) with which a change was made.
    pub actors: bool,
    /// Webhooks that get events, at most 64.
    pub webhooks: Vec<WebhookConfig>,
    /// Networks (`10.0.0.0/8`) that webhooks may be sent to besides the public Internet, also
    /// without TLS.
    pub webhooks_networks: Vec<String>,
    /// Bridges to brokers, which get events as messages, at most 64.
    pub bridges: Vec<BridgeConfig>,
    /// Networks that these brokers may be in, besides brokers with TLS in the public Internet.
    pub bridges_networks: Vec<String>,
}

impl Default for FeedConfig {
    fn default() -> Self {
        let keep = LibraryOptions::default().feed_keep;
        Self {
            keep,
            consumers_max: 1_000,
            actors: false,
            webhooks: Vec::new(),
            webhooks_networks: Vec::new(),
            bridges: Vec::new(),
            bridges_networks: Vec::new(),
        }
    }
}
