//! Reports the server's state to systemd if it runs as a service of `Type=notify` (sd_notify(3)):
//! one datagram to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that names systemd's socket, if there is one.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The state of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It serves.
    Ready,
    /// It was asked to stop.
    Stopping,
}

/// Reports it, if systemd listens. A failure is logged and stops nothing.
pub(crate) fn tell(state: State) {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, ?socket, "systemd cannot be notified that the server is {state:?}");
    }
}

/// Sends a state to a socket: a path or, after `@`, a name in Linux's abstract namespace (unix(7)).
fn send(socket: &OsStr, state: State) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let message = match state {
        State::Ready => "READY=1",
        State::Stopping => "STOPPING=1",
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut message = [0; 64];
        let len = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    }

    #[test]
    fn each_state_is_one_datagram_to_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), State::Ready).unwrap();
        send(path.as_os_str(), State::Stopping).unwrap();
        assert_eq!([received(&socket), received(&socket)], ["READY=1", "STOPPING=1"]);
    }

    #[test]
    fn a_name_after_an_at_sign_is_abstract() {
        let name = format!("penates-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(OsStr::new(&format!("@{name}")), State::Ready).unwrap();
        assert_eq!(received(&socket), "READY=1");
    }

    #[test]
    fn a_missing_listener_is_only_an_error() {
        assert!(send(OsStr::new("/nowhere/notify"), State::Ready).is_err());
    }
}
