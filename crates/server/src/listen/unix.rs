//! Unix sockets: the administrator's in the data folder, and those that the configuration names: one
//! for proxies on this machine, and one for the administrator.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::Path;

use tokio::net::UnixListener;

/// Binds a socket with a mode. The socket of a process that has died is replaced, and nothing else.
pub(super) fn bind_shared(path: &Path, mode: u32) -> io::Result<UnixListener> {
    check_length(path, "name the socket by a shorter path")?;
    remove_dead(path)?;
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    // A server keeps its new files private, so it was closed to others until now.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    UnixListener::from_std(listener)
}

/// Removes a socket on which nobody listens, such as the server's own at its end.
pub(super) fn remove_dead(path: &Path) -> io::Result<()> {
    let file = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    if !file.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there")),
    }
}

/// Binds a socket that only its owner may open, from the first moment on. It is made in a private
/// folder and moved into place, which also replaces the socket of a killed process.
pub(super) fn bind_private(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    // The path where it is bound is shorter than its final one, which is checked here: clients must
    // be able to connect to it.
    check_length(path, "name the data folder by a shorter or a relative path")?;
    let private = folder.join(".sock");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&private)?;
    let fresh = private.join("s");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
    fs::rename(&fresh, path)?;
    fs::remove_dir(&private)?;
    Ok(listener)
}

fn check_length(path: &Path, advice: &str) -> io::Result<()> {
    std::os::unix::net::SocketAddr::from_pathname(path).map(drop).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("the path is too long for a socket; {advice}"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_socket_replaces_a_dead_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let first = bind_shared(&path, 0o660).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let refused = |path| bind_shared(path, 0o660).err().unwrap().kind();
        assert_eq!(refused(&path), io::ErrorKind::AddrInUse);
        // Its process has died.
        drop(first);
        let second = bind_shared(&path, 0o600).unwrap();
        assert!(remove_dead(&path).is_err() && path.exists());
        drop(second);
        remove_dead(&path).unwrap();
        assert!(!path.exists());
        remove_dead(&path).unwrap();
        fs::write(&path, "notes").unwrap();
        assert_eq!(refused(&path), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"notes");
        std::os::unix::fs::symlink("elsewhere", folder.path().join("link")).unwrap();
        assert_eq!(refused(&folder.path().join("link")), io::ErrorKind::AlreadyExists);
    }
}
