//! `[[feed.webhooks]]`

use std::path::PathBuf;
use std::sync::Arc;

use heads::ResourcePath;
use serde::{Deserialize, Serialize};
use store::Hidden;

use crate::network::Network;
use crate::webhooks::{Destination, Secrets};

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
    pub(super) fn check(&self, networks: &Arc<[Network]>) -> Result<(), String> {
        ResourcePath::parse(&self.path).map_err(|error| format!("`path` `{}`: {error}", self.path))?;
        Destination::parse(&self.url, networks.clone())?;
        if self.secret_file.is_none() || self.secret.is_some() {
            self.secrets()?;
        }
        Ok(())
    }
}
