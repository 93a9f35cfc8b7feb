//! Listeners that the service manager has opened (socket activation, sd_listen_fds(3)). Their names
//! say what is spoken there: `http`, `tls` or `records`. The configured address of the same kind is
//! then not used.

use std::net::SocketAddr;

use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::error::ServerError;

/// The names of listeners.
pub(super) const HTTP: &str = "http";
pub(super) const TLS: &str = "tls";
pub(super) const RECORDS: &str = "records";

/// The variable with the names, in the order of the descriptors.
const NAMES_VARIABLE: &str = "LISTEN_FDNAMES";

/// Listeners by name.
#[derive(Debug, Default)]
pub(super) struct Given(Vec<(String, std::net::TcpListener)>);

impl Given {
    /// Those that this process was given.
    pub(super) fn by_the_service_manager() -> Result<Self, ServerError> {
        let mut sockets = ListenFd::from_env();
        let names = std::env::var(NAMES_VARIABLE).unwrap_or_default();
        let mut names = names.split(':');
        let mut given = Vec::new();
        for index in 0..sockets.len() {
            let name = names.next().unwrap_or_default().to_owned();
            let refused = |source| ServerError::Bind { address: format!("the given socket `{name}`"), source };
            let Some(listener) = sockets.take_tcp_listener(index).map_err(refused)? else { continue };
            if ![HTTP, TLS, RECORDS].contains(&name.as_str()) {
                let reason = format!("name it `{HTTP}`, `{TLS}` or `{RECORDS}` (FileDescriptorName=)");
                return Err(refused(std::io::Error::new(std::io::ErrorKind::InvalidInput, reason)));
            }
            given.push((name, listener));
        }
        Ok(Self(given))
    }

    /// The addresses of those that speak HTTP.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let of_http = self.0.iter().filter(|(name, _)| name != RECORDS);
        of_http.filter_map(|(_, listener)| listener.local_addr().ok()).collect()
    }

    /// The listener of this name, if there is one.
    pub(super) fn take(&mut self, name: &str) -> Result<Option<TcpListener>, ServerError> {
        let Some(index) = self.0.iter().position(|(given, _)| given == name) else { return Ok(None) };
        let (name, listener) = self.0.swap_remove(index);
        let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        listener.map(Some).map_err(|source| ServerError::Bind { address: format!("the given socket `{name}`"), source })
    }
}
