//! What an export says about a resource beside its statements and bytes: `…=about.json`.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// The ending of the name of the file that says it.
pub const ABOUT: &str = "=about.json";
/// The ending of the name of the file with the statements of clients, as N-Triples.
pub const DESCRIPTION: &str = "=description.nt";

/// The most bytes of such a file.
pub const ABOUT_BYTES_MAX: u64 = 1 << 20;

/// The class of archival groups.
pub const ARCHIVAL_GROUP: &str = "http://fedora.info/definitions/v4/repository#ArchivalGroup";

/// What is said about a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The address of the repository that it was exported from, with a slash at its end. The
    /// statements name resources of the repository by addresses that begin with it.
    pub repository: String,
    /// The path of the resource from the root of the repository.
    pub path: String,
    /// The classes that the server names: those of LDP and of Fedora.
    pub types: Vec<String>,
    /// The media type of bytes.
    pub content_type: Option<String>,
    /// The `Content-Disposition` of bytes.
    pub content_disposition: Option<String>,
    /// When it changed last (RFC 9110, section 5.6.7).
    pub last_modified: Option<String>,
    /// The address of bytes that are stored elsewhere.
    pub stored_at: Option<String>,
    /// How requests for these are handled: `proxy`; else they are redirected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handling: Option<String>,
}

impl About {
    /// Whether it has bytes, here or elsewhere.
    pub fn is_binary(&self) -> bool {
        self.types.iter().any(|class| class == "http://www.w3.org/ns/ldp#NonRDFSource")
    }

    /// Whether it is an archival group.
    pub fn is_group(&self) -> bool {
        self.types.iter().any(|class| class == ARCHIVAL_GROUP)
    }

    /// Whether its bytes are in the export.
    pub fn has_bytes(&self) -> bool {
        self.is_binary() && self.stored_at.is_none()
    }

    /// As a file.
    pub fn written(&self) -> Vec<u8> {
        // Texts are written without an error.
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The names in its path.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').filter(|name| !name.is_empty())
    }
}

/// The `Content-Disposition` for the name of a file (RFC 6266, RFC 8187).
pub fn disposition(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && !matches!(byte, b'"' | b'\\'));
    match is_plain {
        true => format!("attachment; filename=\"{name}\""),
        false => format!("attachment; filename*=UTF-8''{}", utf8_percent_encode(name, NON_ALPHANUMERIC)),
    }
}
