//! Content in files of this machine, below configured folders (`file:///srv/scans/`).
//!
//! No address leads out of such a folder. Each name of an address is opened in the folder before
//! it, and no symbolic link is followed. Only regular files are opened, never a device, a pipe or a
//! socket.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, SeekFrom};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use door_http::ranges::{self, Extent, Validators};
use futures::{StreamExt, TryFutureExt};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, openat, statat};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use crate::errors::LdpError;

/// Prefix of addresses of files (RFC 8089, without a host).
const SCHEME: &str = "file://";

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Whether an address is one of a file.
pub fn is_file(url: &str) -> bool {
    url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}

/// A folder below which files may be content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    names: Vec<OsString>,
}

impl Folder {
    /// Reads the address of one, which ends with a slash.
    pub fn parse(url: &str) -> Option<Self> {
        let names = names(url.strip_suffix('/')?)?;
        (!names.is_empty()).then_some(Self { names })
    }

    /// The names on the path from here to a file; `None` if the address is not a plain one of a
    /// file below here.
    pub fn below(&self, url: &str) -> Option<Vec<OsString>> {
        let names = names(url)?;
        let below = names.strip_prefix(&self.names[..])?;
        (!below.is_empty()).then(|| below.to_vec())
    }

    /// Opens the file that these names lead to.
    fn open(&self, below: &[OsString]) -> io::Result<File> {
        let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = PathBuf::from("/").join(self.names.iter().collect::<PathBuf>());
        let (name, folders) = below.split_last().ok_or(Errno::NOENT)?;
        let mut folder: OwnedFd = open(&path, folder_flags, Mode::empty())?;
        for name in folders {
            folder = openat(&folder, name, folder_flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        // Opening a device may have effects, and opening a pipe may wait. So its type is checked
        // before, and again once it is open.
        let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&folder, name, flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no regular file")),
        }
    }

    /// Responds as a server of the file would.
    pub async fn ask(
        &self,
        method: &Method,
        url: &str,
        below: Vec<OsString>,
        range: Option<&HeaderValue>,
    ) -> Result<Response, LdpError> {
        let failed = |why: io::Error| LdpError::Elsewhere { url: url.to_owned(), why: why.to_string() };
        let folder = self.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let file = folder.open(&below)?;
            let len_bytes = file.metadata()?.len();
            Ok((file, len_bytes))
        });
        let opened = opened.await.map_err(|error| LdpError::Internal(error.to_string()))?;
        let (file, len_bytes) = opened.map_err(failed)?;
        let asked: HeaderMap = range.map(|range| (header::RANGE, range.clone())).into_iter().collect();
        let none = Validators { etag: None, last_modified: None };
        let mut response = Response::new(Body::empty());
        let (from, to) = match ranges::extent(method, &asked, len_bytes, none) {
            Ok(Extent::Parts(parts)) if parts.len() == 1 => {
                let part = parts[0].clone();
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                let value = format!("bytes {}-{}/{len_bytes}", part.start, part.end - 1);
                insert(response.headers_mut(), header::CONTENT_RANGE, &value);
                (part.start, part.end)
            }
            Ok(_) => (0, len_bytes),
            Err(_) => {
                *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
                insert(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{len_bytes}"));
                return Ok(response);
            }
        };
        let headers = response.headers_mut();
        insert(headers, header::ACCEPT_RANGES, "bytes");
        insert(headers, header::CONTENT_LENGTH, &(to - from).to_string());
        if *method != Method::HEAD {
            let mut file = tokio::fs::File::from_std(file);
            file.seek(SeekFrom::Start(from)).map_err(failed).await?;
            let pieces = ReaderStream::with_capacity(file.take(to - from), PIECE_BYTES);
            *response.body_mut() = Body::from_stream(pieces.map(|piece| piece.map_err(BoxError::from)));
        }
        Ok(response)
    }
}

/// The names in the address of a file; `None` if it is none, or is ambiguous.
fn names(url: &str) -> Option<Vec<OsString>> {
    let path = url.strip_prefix(SCHEME)?.strip_prefix('/')?;
    if path.is_empty() {
        return Some(Vec::new());
    }
    let name = |segment: &str| {
        let name: Vec<u8> = percent_decode_str(segment).collect();
        let is_plain = !name.is_empty() && name != b"." && name != b"..";
        (is_plain && !name.contains(&0) && !name.contains(&b'/')).then(|| OsString::from_vec(name))
    };
    let is_address = !path.contains(['?', '#', '\\']);
    path.split('/').map(name).collect::<Option<Vec<_>>>().filter(|_| is_address)
}

fn insert(headers: &mut HeaderMap, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with files in it, and a file beside it that nobody may read.
    fn folder() -> (tempfile::TempDir, Folder) {
        let outside = tempfile::tempdir().unwrap();
        let inside = outside.path().join("open");
        std::fs::create_dir_all(inside.join("deep")).unwrap();
        std::fs::write(inside.join("deep/a scan"), "a scan").unwrap();
        std::fs::write(outside.path().join("secret"), "a secret").unwrap();
        symlink("../secret", inside.join("link")).unwrap();
        symlink("../..", inside.join("deep/up")).unwrap();
        symlink("deep", inside.join("within")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, inside.join("pipe"), Mode::RWXU).unwrap();
        drop(std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap());
        let folder = Folder::parse(&format!("file://{}/", inside.display())).unwrap();
        (outside, folder)
    }

    fn read(folder: &Folder, below: &str) -> Option<String> {
        let base = folder.names.iter().map(|name| format!("/{}", name.to_str().unwrap())).collect::<String>();
        let names = folder.below(&format!("file://{base}/{below}"))?;
        let mut text = String::new();
        io::Read::read_to_string(&mut folder.open(&names).ok()?, &mut text).ok()?;
        Some(text)
    }

    #[test]
    fn files_in_the_folder_are_read_and_nothing_leads_out_of_it() {
        let (_outside, folder) = folder();
        assert_eq!(read(&folder, "deep/a%20scan").as_deref(), Some("a scan"));
        for below in [
            "",
            "deep",
            "deep/",
            "nothing",
            "link",
            "within/a%20scan",
            "deep/up/secret",
            "../secret",
            "%2e%2e/secret",
            "deep/..%2f..%2fsecret",
            "deep//a%20scan",
            "./deep/a%20scan",
            "deep/a%20scan%00",
            "deep/a%20scan?x",
            "pipe",
            "socket",
        ] {
            assert_eq!(read(&folder, below), None, "{below}");
        }
    }

    #[test]
    fn only_addresses_below_the_folder_belong_to_it() {
        let folder = Folder::parse("file:///srv/scans/").unwrap();
        assert_eq!(folder.below("file:///srv/scans/a/b").unwrap(), ["a", "b"]);
        for url in
            ["file:///srv/scans", "file:///srv/scansion/a", "file:///srv/a", "file://host/srv/scans/a", "/srv/scans/a"]
        {
            assert_eq!(folder.below(url), None, "{url}");
        }
        for url in
            ["file:///srv/scans", "file:///", "file://host/srv/", "file:///srv/../etc/", "file:///srv//scans/", "/srv/"]
        {
            assert_eq!(Folder::parse(url), None, "{url}");
        }
    }

    #[tokio::test]
    async fn a_device_is_never_opened() {
        let folder = Folder::parse("file:///dev/").unwrap();
        let names = folder.below("file:///dev/zero").unwrap();
        let error = folder.ask(&Method::GET, "file:///dev/zero", names, None).await.unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
    }
}
