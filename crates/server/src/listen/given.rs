//! Listeners that the service manager has opened (socket activation, sd_listen_fds(3)). Their names
//! say what is spoken there: `http`, `tls`, `records`, or `redirect` for the redirect to HTTPS. The
//! configured address of the same kind is then not used.

use std::io;
use std::net::SocketAddr;

use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::error::ServerError;

/// The names of listeners.
pub(super) const HTTP: &str = "http";
pub(super) const TLS: &str = "tls";
pub(super) const RECORDS: &str = "records";
pub(super) const REDIRECT: &str = "redirect";

/// The variable with the names, in the order of the descriptors.
const NAMES_VARIABLE: &str = "LISTEN_FDNAMES";

/// Listeners by name.
#[derive(Debug, Default)]
pub(crate) struct Given(Vec<(String, std::net::TcpListener)>);

impl Given {
    /// Those that this process was given.
    pub(crate) fn by_the_service_manager() -> Result<Self, ServerError> {
        let mut sockets = ListenFd::from_env();
        let names = std::env::var(NAMES_VARIABLE).unwrap_or_default();
        let mut names = names.split(':');
        let mut given = Self::default();
        for index in 0..sockets.len() {
            let name = names.next().unwrap_or_default().to_owned();
            let taken = sockets.take_tcp_listener(index);
            let Some(listener) = taken.map_err(|source| refused(&name, source))? else { continue };
            given.add(name, listener)?;
        }
        Ok(given)
    }

    fn add(&mut self, name: String, listener: std::net::TcpListener) -> Result<(), ServerError> {
        let invalid = |reason| Err(refused(&name, io::Error::new(io::ErrorKind::InvalidInput, reason)));
        if ![HTTP, TLS, RECORDS, REDIRECT].contains(&name.as_str()) {
            return invalid(format!("name it `{HTTP}`, `{TLS}`, `{RECORDS}` or `{REDIRECT}` (FileDescriptorName=)"));
        }
        if self.has(&name) {
            return invalid("two sockets have this name, and only one of each name is served".to_owned());
        }
        self.0.push((name, listener));
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| given == name)
    }

    /// Whether there is one for the Redis protocol.
    pub(crate) fn has_records(&self) -> bool {
        self.has(RECORDS)
    }

    /// The addresses of those that serve data: of all but the redirect.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let with_data = self.0.iter().filter(|(name, _)| name != REDIRECT);
        with_data.filter_map(|(_, listener)| listener.local_addr().ok()).collect()
    }

    /// The listener of this name, if there is one.
    pub(super) fn take(&mut self, name: &str) -> Result<Option<TcpListener>, ServerError> {
        let Some(index) = self.0.iter().position(|(given, _)| given == name) else { return Ok(None) };
        let (name, listener) = self.0.swap_remove(index);
        let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        listener.map(Some).map_err(|source| refused(&name, source))
    }
}

/// Why the listener of this name cannot be used.
pub(super) fn refused(name: &str, source: io::Error) -> ServerError {
    ServerError::Bind { address: format!("the given socket `{name}`"), source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;
    use crate::listen::Listeners;
    use crate::live::Live;

    #[tokio::test]
    async fn a_given_socket_of_any_door_is_refused_beyond_loopback_if_everybody_may_read() {
        let mut config = Config::default();
        (config.listen.http, config.listen.tls) = (None, None);
        let bound = |name: &str| {
            let mut given = Given::default();
            given.add(name.to_owned(), std::net::TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
            Listeners::bind(&config, given, None, Live::new(&config.limits)).map(drop)
        };
        for name in [HTTP, TLS, RECORDS] {
            let refusal = bound(name).unwrap_err().to_string();
            assert!(refusal.contains("anybody could read the data"), "{name}: {refusal}");
        }
        // It serves no data. Here it has no HTTPS to redirect to.
        let refusal = bound(REDIRECT).unwrap_err().to_string();
        assert!(refusal.contains("no HTTPS to redirect to"), "{refusal}");
    }

    #[test]
    fn a_second_socket_of_a_name_and_an_unknown_name_are_refused() {
        let listener = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut given = Given::default();
        given.add(HTTP.to_owned(), listener()).unwrap();
        assert!(!given.has_records());
        given.add(RECORDS.to_owned(), listener()).unwrap();
        assert!(given.has_records());
        let mut refusal = |name: &str| given.add(name.to_owned(), listener()).unwrap_err().to_string();
        let second = refusal(HTTP);
        assert!(second.contains("`http`: two sockets have this name"), "{second}");
        assert!(refusal("ftp").contains("name it `http`, `tls`, `records` or `redirect`"));
    }
}
