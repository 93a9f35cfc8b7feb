//! Looks at what a configuration names: files, certificates, addresses.

use std::io;
use std::net::{SocketAddr, TcpListener};

use jiff::Timestamp;

use crate::config::{Config, ListenAddress};
use crate::{bridges, certificate};

/// Where service managers make folders for services when they start them.
const RUNTIME: &str = "/run";

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
    let mut findings = check_certificate(config);
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

/// Reads the certificate and its key, if they are named. What is wrong with them is a fault if an own
/// address speaks TLS. Otherwise the service manager may open a port that does, or they are left over.
fn check_certificate(config: &Config) -> Vec<Finding> {
    let (Some(cert), Some(key)) = (&config.listen.tls_cert, &config.listen.tls_key) else { return Vec::new() };
    let findings = match certificate::read(cert, key, Timestamp::now()) {
        Ok(certificate) => certificate.findings,
        Err(error) => vec![Finding::fault(error.to_string())],
    };
    if config.listen.tls.is_some() || config.records.listen.is_some() && config.records.tls {
        return findings;
    }
    let of_others = |what| Finding::warning(format!("{what} (for a port that the service manager opens)"));
    findings.into_iter().map(|finding| of_others(finding.what)).collect()
}

/// Tries to listen on each address. That it is in use is a warning: the server itself may run. Two
/// of its own cannot be the same.
pub fn check_addresses(config: &Config) -> Vec<Finding> {
    let named = [
        ("listen.http", config.listen.http.as_ref().and_then(ListenAddress::tcp)),
        ("listen.tls", config.listen.tls),
        ("listen.redirect", config.listen.redirect),
        ("records.listen", config.records.listen),
    ];
    let named: Vec<_> = named.into_iter().filter_map(|(key, address)| Some((key, address?))).collect();
    let mut findings = Vec::new();
    for (at, (key, address)) in named.iter().enumerate() {
        if let Some((first, _)) = named[..at].iter().find(|(_, earlier)| clash(*earlier, *address)) {
            findings.push(Finding::fault(format!("{key} and {first} cannot both listen on {address}")));
        } else if let Err(error) = TcpListener::bind(address) {
            let what = format!("{key}: cannot listen on {address}: {error}");
            let is_taken = error.kind() == io::ErrorKind::AddrInUse;
            findings.push(if is_taken { Finding::warning(what) } else { Finding::fault(what) });
        }
    }
    let sockets = [("listen.http", &config.listen.http), ("listen.admin", &config.listen.admin)];
    let sockets: Vec<_> = sockets
        .into_iter()
        .filter_map(|(key, address)| match address {
            Some(ListenAddress::Unix(socket)) => Some((key, socket)),
            _ => None,
        })
        .collect();
    if let [(first, one), (key, other)] = &sockets[..]
        && one == other
    {
        findings.push(Finding::fault(format!("{key} and {first} cannot both listen on {}", one.display())));
    }
    for (key, socket) in sockets {
        let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
        let Some(folder) = folder else { continue };
        let what = format!("{key}: there is no folder {}", folder.display());
        // What a service has there is gone while it is stopped.
        findings.push(match folder.starts_with(RUNTIME) {
            true => Finding::warning(format!(
                "{what}; a service has it while it runs (RuntimeDirectory= of systemd.exec(5))"
            )),
            false => Finding::fault(what),
        });
    }
    findings
}

/// Whether nobody can listen on both addresses. Linux serves IPv4 at `[::]` too.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let has = |all: SocketAddr, one: SocketAddr| all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let is_one_port = one.port() == other.port() && one.port() != 0;
    is_one_port && (one.ip() == other.ip() || has(one, other) || has(other, one))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_clash_where_one_has_the_other() {
        let clash = |one: &str, other: &str| clash(one.parse().unwrap(), other.parse().unwrap());
        for (one, other) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "[::]:80"),
            ("[::]:80", "[::1]:80"),
        ] {
            assert!(clash(one, other) && clash(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("127.0.0.1:80", "127.0.0.2:80"),
            ("127.0.0.1:80", "127.0.0.1:81"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("0.0.0.0:80", "[::1]:80"),
        ] {
            assert!(!clash(one, other) && !clash(other, one), "{one} {other}");
        }
    }

    #[test]
    fn a_certificate_is_read_also_where_the_service_manager_may_open_the_port() {
        let mut config = Config::default();
        config.listen.tls = None;
        assert_eq!(check_files(&config), []);
        config.listen.tls_cert = Some("/nonexistent/cert.pem".into());
        config.listen.tls_key = Some("/nonexistent/key.pem".into());
        let found = check_files(&config);
        let [Finding { is_fault: false, what }] = &found[..] else { panic!("{found:?}") };
        assert!(what.contains("/nonexistent/") && what.ends_with("that the service manager opens)"), "{what}");
        config.records.tls = true;
        assert_eq!(check_files(&config), found, "there is no address for records");
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
        let found = check_files(&config);
        assert!(matches!(&found[..], [Finding { is_fault: true, what }] if !what.contains("service")), "{found:?}");
    }

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
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
        for here in ["x.sock", "/x.sock"] {
            config.listen.http = Some(ListenAddress::Unix(here.into()));
            assert_eq!(check_addresses(&config), [], "{here}");
        }
        config.listen.http = Some(ListenAddress::Unix("/nonexistent/x.sock".into()));
        assert_eq!(check_addresses(&config), [Finding::fault("listen.http: there is no folder /nonexistent")]);
        config.listen.http = Some(ListenAddress::Unix("/run/no-such-service/x.sock".into()));
        let found = check_addresses(&config);
        let [Finding { is_fault: false, what }] = &found[..] else { panic!("{found:?}") };
        assert!(what.contains("no folder /run/no-such-service; a service has it while it runs"), "{what}");
        config.listen.http = Some(ListenAddress::Unix("/x.sock".into()));
        config.listen.admin = Some(ListenAddress::Unix("/nonexistent/x.sock".into()));
        assert_eq!(check_addresses(&config), [Finding::fault("listen.admin: there is no folder /nonexistent")]);
        config.listen.admin.clone_from(&config.listen.http);
        let what = "listen.admin and listen.http cannot both listen on /x.sock";
        assert_eq!(check_addresses(&config), [Finding::fault(what)]);
    }
}
