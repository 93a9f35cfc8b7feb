//! `[[feed.webhooks]]`

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use heads::ResourcePath;
use serde::{Deserialize, Serialize};
use store::Hidden;

use super::{ConfigError, FeedConfig, refused};
use crate::network::Network;
use crate::webhooks::{Destination, Secrets};

/// Most webhooks.
const WEBHOOKS_MAX: usize = 64;

/// Most characters of a webhook's name.
const NAME_CHARS_MAX: usize = 64;

/// A webhook: where events of the change feed are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// Its name in logs, metrics and commands. Another name is another webhook, which
    /// gets what happens from then on.
    pub name: String,
    /// The address that gets them by `POST`.
    pub url: String,
    /// The secret that signs: `whsec_` and the Base64 of 24 to 64 bytes; or several of these,
    /// separated by spaces.
    #[serde(default)]
    pub secret: Option<Hidden>,
    /// A file that holds the secret, instead of `secret`.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Only events of what is at this path of the repository, and below it (`letters`, `volumes`);
    /// empty: of everything.
    #[serde(default)]
    pub path: String,
}

impl WebhookConfig {
    /// The secrets. It reads the file if there is one. Returns what is wrong.
    pub(crate) fn secrets(&self) -> Result<Secrets, String> {
        let text = match (&self.secret, &self.secret_file) {
            (Some(secret), None) => secret.reveal().to_owned(),
            (None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| format!("`secret_file` {} cannot be read: {error}", file.display()))?,
            _ => return Err("it needs either `secret` or `secret_file`".to_owned()),
        };
        Secrets::parse(&text).map_err(|error| format!("its secret: {error}"))
    }

    /// Returns what is wrong. It reads no file.
    fn check(&self, networks: &Arc<[Network]>) -> Result<(), String> {
        let is_plain = |name: char| name.is_ascii_alphanumeric() || ".-_".contains(name);
        if self.name.is_empty() || self.name.len() > NAME_CHARS_MAX || !self.name.chars().all(is_plain) {
            return Err(format!("a name has 1 to {NAME_CHARS_MAX} letters, digits, or `.`, `_`, `-`"));
        }
        ResourcePath::parse(&self.path).map_err(|error| format!("`path` `{}`: {error}", self.path))?;
        Destination::parse(&self.url, networks.clone())?;
        if self.secret_file.is_none() || self.secret.is_some() {
            self.secrets()?;
        }
        Ok(())
    }
}

impl FeedConfig {
    /// The networks that webhooks may be sent to.
    pub(crate) fn networks(&self) -> Result<Arc<[Network]>, ConfigError> {
        let networks = self.webhooks_networks.iter().map(|network| network.parse::<Network>());
        networks.collect::<Result<_, _>>().map_err(|error| refused(format!("feed.webhooks_networks: {error}")))
    }

    /// `origin` is `ldp.origin`.
    pub(super) fn check(&self, origin: &str) -> Result<(), ConfigError> {
        let networks = self.networks()?;
        if self.webhooks.is_empty() {
            return Ok(());
        }
        if self.webhooks.len() > WEBHOOKS_MAX {
            return Err(refused(format!("feed.webhooks has more than {WEBHOOKS_MAX} webhooks")));
        }
        if self.keep.is_zero() {
            return Err(refused("feed.webhooks get events of the change feed, and feed.keep = \"0s\" turns it off"));
        }
        if origin.is_empty() {
            return Err(refused("feed.webhooks need ldp.origin: the addresses in events begin with it"));
        }
        let mut names = HashSet::new();
        for hook in &self.webhooks {
            let named = |why: String| refused(format!("feed.webhooks `{}`: {why}", hook.name));
            hook.check(&networks).map_err(named)?;
            if !names.insert(&hook.name) {
                return Err(named("another webhook has this name".to_owned()));
            }
        }
        Ok(())
    }
}
