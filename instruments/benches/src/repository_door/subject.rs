//! A measured server, and how requests to it look.

use std::fmt;
use std::net::SocketAddr;

use clap::ValueEnum;
use serde::Serialize;
use tempfile::TempDir;

use crate::rig::client::Request;
use crate::rig::process::Process;

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Penates, with its embedded engine and default settings
    Penates,
    /// Fedora 6
    Fedora,
    /// Community Solid Server, in files
    SolidFile,
    /// Community Solid Server, in memory
    SolidMemory,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Penates => "Penates",
            Self::Fedora => "Fedora",
            Self::SolidFile => "CSS (file)",
            Self::SolidMemory => "CSS (memory)",
        })
    }
}

/// A server over its own store, which is deleted with it.
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Its process.
    pub process: Process,
    /// Its HTTP address.
    pub address: SocketAddr,
    /// The path of its root container, with a slash at the end.
    pub root: &'static str,
    /// The suffix of a container's address.
    pub container_suffix: &'static str,
    /// The header fields that all requests must have.
    pub fields: &'static [(&'static str, &'static str)],
    /// Its store. It follows the process, so that it is deleted after the process has ended.
    pub folder: TempDir,
}

/// Bytes of a small binary.
pub const SMALL_BYTES: usize = 1_024;

/// The statements about each container: two triples, as in the testbed of DRAS-TIC.
const TWO_TRIPLES: &str =
    "@prefix dc: <http://purl.org/dc/terms/> . <> dc:title \"A container\" ; dc:creator \"Nobody\" .";

impl Subject {
    /// A path below the root.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.root)
    }

    /// The path of a container.
    pub fn container(&self, name: &str) -> String {
        format!("{}{name}{}", self.root, self.container_suffix)
    }

    /// Makes a Basic Container with two triples.
    pub fn make_container(&self, name: &str) -> Request {
        let link = "<http://www.w3.org/ns/ldp#BasicContainer>; rel=\"type\"";
        self.authorized(
            Request::sending("PUT", &self.container(name), "text/turtle", TWO_TRIPLES.as_bytes()).with("link", link),
        )
    }

    /// Makes a binary of 1 KB.
    pub fn make_binary(&self, name: &str) -> Request {
        let link = "<http://www.w3.org/ns/ldp#NonRDFSource>; rel=\"type\"";
        let body = [b'x'; SMALL_BYTES];
        self.authorized(Request::sending("PUT", &self.path(name), "application/x-bytes", &body).with("link", link))
    }

    /// Adds the header fields that all requests must have.
    pub fn authorized(&self, request: Request) -> Request {
        self.fields.iter().fold(request, |request, (name, value)| request.with(name, value))
    }
}
