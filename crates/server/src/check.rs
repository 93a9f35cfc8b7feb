//! Looks at what a configuration names: files, certificates, addresses.

use std::io;
use std::net::{SocketAddr, TcpListener};

use jiff::Timestamp;

use crate::config::{Config, ListenAddress};
use crate::{bridges, certificate};

/// Something about a configuration that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether clients would notice; otherwise it is a warning.
    pub is_fault: bool,
    /// What it is. It names the setting, the file or the address.
    pub what: String,
}

impl Finding {
    /// Something that clients would notice.
    pub fn fault(what: impl Into<String>) -> Self {
        Self { is_fault: true, what: what.into() }
    }

    /// Something to look at.
    pub fn warning(what: impl Into<String>) -> Self {
        Self { is_fault: false, what: what.into() }
    }
}

/// Opens the files that the settings of the server name.
pub fn check_files(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_tls_used = config.listen.tls.is_some() || config.records.tls;
    if let (Some(cert), Some(key), true) = (&config.listen.tls_cert, &config.listen.tls_key, is_tls_used) {
        match certificate::read(cert, key, Timestamp::now()) {
            Ok(certificate) => findings.extend(certificate.findings),
            Err(error) => findings.push(Finding::fault(error.to_string())),
        }
    }
    for webhook in &config.feed.webhooks {
        if let Err(reason) = webhook.secrets() {
            findings.push(Finding::fault(format!("webhook `{}`: {reason}", webhook.name)));
        }
    }
    for bridge in &config.feed.bridges {
        let files = bridge.login().map(drop).and_then(|()| match &bridge.ca_file {
            Some(file) => bridges::roots(Some(file)).map(drop),
            None => Ok(()),
        });
        if let Err(reason) = files {
            findings.push(Finding::fault(format!("bridge `{}`: {reason}", bridge.name)));
        }
    }
    findings
}

/// Tries to listen on each address. That it is in use is a warning: the server itself may run. Two of
/// its own cannot be the same.
pub fn check_addresses(config: &Config) -> Vec<Finding> {
    let named = [
        ("listen.http", config.listen.http.as_ref().and_then(ListenAddress::tcp)),
        ("listen.tls", config.listen.tls),
        ("listen.redirect", config.listen.redirect),
        ("records.listen", config.records.listen),
    ];
    let named = named.into_iter().filter_map(|(key, address)| Some((key, address?)));
    let mut listeners: Vec<(&str, SocketAddr, TcpListener)> = Vec::new();
    let mut findings = Vec::new();
    for (key, address) in named {
        let error = match TcpListener::bind(address) {
            Ok(listener) => {
                listeners.push((key, address, listener));
                continue;
            }
            Err(error) => error,
        };
        let is_taken = error.kind() == io::ErrorKind::AddrInUse;
        let own = listeners.iter().find(|(_, taken, _)| is_taken && taken.port() == address.port());
        findings.push(match own {
            Some((first, ..)) => Finding::fault(format!("{key} and {first} cannot both listen on {address}")),
            None if is_taken => Finding::warning(format!("{key}: cannot listen on {address}: {error}")),
            None => Finding::fault(format!("{key}: cannot listen on {address}: {error}")),
        });
    }
    if let Some(ListenAddress::Unix(socket)) = &config.listen.http
        && let Some(folder) = socket.parent().filter(|folder| !folder.is_dir())
    {
        findings.push(Finding::fault(format!("listen.http: there is no folder {}", folder.display())));
    }
    findings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn two_doors_cannot_have_one_address_and_a_socket_needs_a_folder() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut config = Config::default();
        config.listen.http = Some(ListenAddress::Tcp(free));
        config.listen.tls = None;
        config.records.listen = Some(free);
        let found = check_addresses(&config);
        let what = format!("records.listen and listen.http cannot both listen on {free}");
        assert_eq!(found, [Finding::fault(what)]);
        config.listen.http = Some(ListenAddress::Unix("/nonexistent/x.sock".into()));
        assert_eq!(check_addresses(&config), [Finding::fault("listen.http: there is no folder /nonexistent")]);
    }
}
