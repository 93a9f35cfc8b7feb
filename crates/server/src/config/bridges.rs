//! `[[feed.bridges]]`

use std::path::PathBuf;
use std::sync::Arc;

use broker::{Address, Login};
use heads::ResourcePath;
use serde::{Deserialize, Serialize};
use store::Hidden;

use crate::bridges;
use crate::network::Network;

/// Most characters of a destination, a user or a password.
const TEXT_CHARS_MAX: usize = 255;

/// A bridge: a broker that gets events of the change feed as messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeConfig {
    /// Its name in logs, metrics and commands. Another name is another bridge, which sends what
    /// happens from then on.
    pub name: String,
    /// The broker: `stomp://`, `stomp+ssl://`, `amqp://` or `amqps://` with a host and perhaps a port.
    pub url: String,
    /// Where messages go, as the broker names it; by default the topic `fedora` of ActiveMQ.
    #[serde(default)]
    pub destination: Option<String>,
    /// The user of the broker.
    #[serde(default)]
    pub user: Option<String>,
    /// The password of the user.
    #[serde(default)]
    pub password: Option<Hidden>,
    /// A file that holds the password, instead of `password`.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// A file with the certificates (PEM) that the broker's must come from; by default those that
    /// the system trusts.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Only events of what is at this path of the repository, and below it (`letters`, `volumes`);
    /// empty: of everything.
    #[serde(default)]
    pub path: String,
}

impl BridgeConfig {
    /// Where messages go.
    pub(crate) fn destination(&self, address: &Address) -> &str {
        self.destination.as_deref().unwrap_or(address.usual_destination())
    }

    /// The user, if there is one. It reads the file of the password. Returns what is wrong.
    pub(crate) fn login(&self) -> Result<Option<Login>, String> {
        let Some(user) = &self.user else { return Ok(None) };
        let password = match (&self.password, &self.password_file) {
            (Some(password), None) => password.reveal().to_owned(),
            (None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| format!("`password_file` {} cannot be read: {error}", file.display()))?,
            _ => return Err("a user needs either `password` or `password_file`".to_owned()),
        };
        let password = password.trim_end_matches(['\r', '\n']);
        check_text("its password", password)?;
        Ok(Some(Login { user: user.clone(), password: Hidden::new(password) }))
    }

    /// Returns what is wrong. It reads no file.
    pub(super) fn check(&self, networks: &Arc<[Network]>) -> Result<(), String> {
        ResourcePath::parse(&self.path).map_err(|error| format!("`path` `{}`: {error}", self.path))?;
        let address = Address::parse(&self.url)?;
        bridges::allowed(&address, networks.clone())?;
        check_text("`destination`", self.destination(&address))?;
        if let Some(user) = &self.user {
            check_text("`user`", user)?;
        } else if self.password.is_some() || self.password_file.is_some() {
            return Err("a password needs a `user`".to_owned());
        }
        if self.ca_file.is_some() && !address.tls {
            return Err("`ca_file` is for an `url` with TLS (stomp+ssl://, amqps://)".to_owned());
        }
        if self.password_file.is_none() || self.password.is_some() {
            self.login()?;
        }
        Ok(())
    }
}

/// Refuses what a header could not hold. It does not repeat the text.
fn check_text(what: &str, text: &str) -> Result<(), String> {
    match text.is_empty() || text.chars().count() > TEXT_CHARS_MAX || text.chars().any(char::is_control) {
        true => Err(format!("{what} must have 1 to {TEXT_CHARS_MAX} characters, without control characters")),
        false => Ok(()),
    }
}
