//! Reports the server's state to systemd if it runs as a service of `Type=notify` (sd_notify(3)):
//! one datagram to the socket that `NOTIFY_SOCKET` names. If systemd watches it (`WatchdogSec=`),
//! the server reports regularly that its threads still run.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::ClockId;

/// The variable that names systemd's socket, if there is one.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The state of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It serves.
    Ready,
    /// It reads its configuration again; it is ready afterwards.
    Reloading,
    /// It was asked to stop.
    Stopping,
    /// It is alive.
    Alive,
}

/// Reports it, if systemd listens. A failure is logged and stops nothing.
pub(crate) fn notify(state: State) {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, ?socket, "systemd cannot be notified that the server is {state:?}");
    }
}

/// Reports that the server is alive as often as systemd expects it, until the future is dropped.
pub(crate) async fn keep_alive() {
    let timeout = watchdog(std::env::var("WATCHDOG_USEC").ok(), std::env::var("WATCHDOG_PID").ok());
    let Some(timeout) = timeout else { return std::future::pending().await };
    loop {
        notify(State::Alive);
        tokio::time::sleep(timeout / 2).await;
    }
}

/// After which silence systemd takes this process for dead (sd_watchdog_enabled(3)).
fn watchdog(usec: Option<String>, pid: Option<String>) -> Option<Duration> {
    let is_mine = pid.is_none_or(|pid| pid == std::process::id().to_string());
    let timeout = usec?.parse().ok().filter(|usec| *usec > 0).map(Duration::from_micros);
    timeout.filter(|_| is_mine)
}

/// Sends a state to a socket: a path or, after `@`, a name in Linux's abstract namespace (unix(7)).
fn send(socket: &OsStr, state: State) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let message = match state {
        State::Ready => "READY=1".to_owned(),
        State::Reloading => {
            let now = rustix::time::clock_gettime(ClockId::Monotonic);
            let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
            format!("RELOADING=1\nMONOTONIC_USEC={micros}")
        }
        State::Stopping => "STOPPING=1".to_owned(),
        State::Alive => "WATCHDOG=1".to_owned(),
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
        send(path.as_os_str(), State::Reloading).unwrap();
        let reloading = received(&socket);
        let since_boot = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(since_boot.parse::<u64>().unwrap() > 0, "{reloading}");
    }

    #[test]
    fn the_watchdog_is_the_one_of_this_process() {
        let (usec, mine) = (Some("3000000".to_owned()), std::process::id().to_string());
        assert_eq!(watchdog(usec.clone(), None), Some(Duration::from_secs(3)));
        assert_eq!(watchdog(usec.clone(), Some(mine)), Some(Duration::from_secs(3)));
        assert_eq!(watchdog(usec, Some("1".to_owned())), None);
        assert_eq!((watchdog(None, None), watchdog(Some("0".to_owned()), None)), (None, None));
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
