//! Looks at what a configuration names: files, certificates, addresses.

use std::io;
use std::net::TcpListener;

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

/// Tries to listen on each address. That it is in use is a warning: the server itself may run.
pub fn check_addresses(config: &Config) -> Vec<Finding> {
    let named = [
        ("listen.http", config.listen.http.as_ref().and_then(ListenAddress::tcp)),
        ("listen.tls", config.listen.tls),
        ("listen.redirect", config.listen.redirect),
        ("records.listen", config.records.listen),
    ];
    let named = named.into_iter().filter_map(|(key, address)| Some((key, address?)));
    let found = named.filter_map(|(key, address)| {
        let error = TcpListener::bind(address).err()?;
        let what = format!("{key}: cannot listen on {address}: {error}");
        Some(if error.kind() == io::ErrorKind::AddrInUse { Finding::warning(what) } else { Finding::fault(what) })
    });
    found.collect()
}
