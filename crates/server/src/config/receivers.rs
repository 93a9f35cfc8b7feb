//! What webhooks and bridges have in common: names, networks, and what they need.

use std::collections::HashSet;
use std::sync::Arc;

use super::{ConfigError, FeedConfig, refused};
use crate::bridges::NETWORKS_SETTING;
use crate::network::Network;

/// Most receivers of one kind.
const RECEIVERS_MAX: usize = 64;

/// Most characters of a receiver's name.
const NAME_CHARS_MAX: usize = 64;

// Both kinds together.
const _: () = assert!(2 * RECEIVERS_MAX as u64 == library::bounds::WEBHOOKS_MAX);

// Bridges have `bridge/` before it in the store.
const _: () = assert!(NAME_CHARS_MAX + 7 == library::bounds::WEBHOOK_NAME_BYTES);

impl FeedConfig {
    /// The networks that webhooks may be sent to.
    pub(crate) fn networks(&self) -> Result<Arc<[Network]>, ConfigError> {
        networks("feed.webhooks_networks", &self.webhooks_networks)
    }

    /// The networks that brokers may be in.
    pub(crate) fn bridges_networks(&self) -> Result<Arc<[Network]>, ConfigError> {
        networks(NETWORKS_SETTING, &self.bridges_networks)
    }

    /// `origin` is `ldp.origin`.
    pub(super) fn check(&self, origin: &str) -> Result<(), ConfigError> {
        let allowed = self.networks()?;
        let webhooks = self.webhooks.iter().map(|hook| (hook.name.as_str(), hook.check(&allowed)));
        self.check_receivers("feed.webhooks", "webhook", origin, webhooks.collect())?;
        let allowed = self.bridges_networks()?;
        let bridges = self.bridges.iter().map(|bridge| (bridge.name.as_str(), bridge.check(&allowed)));
        self.check_receivers("feed.bridges", "bridge", origin, bridges.collect())
    }

    /// Checks receivers of one kind, each with its name and what is wrong with it.
    fn check_receivers(
        &self,
        setting: &str,
        word: &str,
        origin: &str,
        receivers: Vec<(&str, Result<(), String>)>,
    ) -> Result<(), ConfigError> {
        if receivers.is_empty() {
            return Ok(());
        }
        if receivers.len() > RECEIVERS_MAX {
            return Err(refused(format!("{setting} has more than {RECEIVERS_MAX} {word}s")));
        }
        if self.keep.is_zero() {
            return Err(refused(format!(
                "{setting} get events of the change feed, and feed.keep = \"0s\" turns it off"
            )));
        }
        if origin.is_empty() {
            return Err(refused(format!("{setting} need ldp.origin: the addresses in events begin with it")));
        }
        let mut names = HashSet::new();
        for (name, checked) in receivers {
            let named = |why: String| refused(format!("{setting} `{name}`: {why}"));
            let is_plain = |name: char| name.is_ascii_alphanumeric() || ".-_".contains(name);
            if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
                return Err(named(format!("a name has 1 to {NAME_CHARS_MAX} letters, digits, or `.`, `_`, `-`")));
            }
            checked.map_err(named)?;
            if !names.insert(name) {
                return Err(named(format!("another {word} has this name")));
            }
        }
        Ok(())
    }
}

fn networks(setting: &str, texts: &[String]) -> Result<Arc<[Network]>, ConfigError> {
    let networks = texts.iter().map(|network| network.parse::<Network>());
    networks.collect::<Result<_, _>>().map_err(|error| refused(format!("{setting}: {error}")))
}
