//! Headers: what Fedora says about a resource beside its statements and bytes (`.fcrepo/*.json`).

use serde::Deserialize;

use super::ROOT;
use crate::ocfl::Object;

/// The most bytes of a header.
pub(super) const HEADER_BYTES_MAX: u64 = 1 << 20;

/// A header, as far as it is of use.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The resource: `info:fedora` and its path, decoded.
    pub id: String,
    /// The container that it is in; of a description or an ACL, the resource that it is of.
    pub parent: Option<String>,
    /// The class of LDP or Fedora that says what it is.
    pub interaction_model: Option<String>,
    /// The media type of bytes.
    pub mime_type: Option<String>,
    /// The name of their file; often empty.
    pub filename: Option<String>,
    /// Digests of the bytes or statements, as in `urn:sha-512:…`.
    #[serde(default)]
    pub digests: Vec<String>,
    /// The address of bytes that are stored elsewhere.
    pub external_url: Option<String>,
    /// `proxy` or `redirect`.
    pub external_handling: Option<String>,
    /// Who created it.
    pub created_by: Option<String>,
    /// When it was changed last, or deleted (RFC 3339, with nanoseconds).
    pub last_modified_date: Option<String>,
    /// Who changed it last.
    pub last_modified_by: Option<String>,
    /// Whether it is an Archival Group.
    #[serde(default)]
    pub archival_group: bool,
    /// Whether it is deleted.
    #[serde(default)]
    pub deleted: bool,
    /// The logical path of its bytes or statements.
    pub content_path: Option<String>,
}

/// What a header is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Container,
    Binary,
    Description,
    Acl,
}

impl Header {
    /// Whether it is of an Archival Group, which is an object with all that is in it. The root of a
    /// repository is none.
    pub(super) fn is_group(&self, object: &Object) -> bool {
        self.archival_group && self.id == object.id() && self.id != ROOT
    }

    /// What it is of; `None` if its model is unknown.
    pub(super) fn kind(&self) -> Option<Kind> {
        let model = self.interaction_model.as_deref()?;
        Some(match model.rsplit_once('#')?.1 {
            "NonRDFSource" => Kind::Binary,
            "NonRdfSourceDescription" => Kind::Description,
            "Acl" => Kind::Acl,
            "BasicContainer" | "DirectContainer" | "IndirectContainer" | "RDFSource" => Kind::Container,
            _ => return None,
        })
    }
}
