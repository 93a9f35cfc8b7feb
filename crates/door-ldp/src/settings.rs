//! What can be set of this door.

use crate::body::STATEMENT_BYTES;
use crate::external::ExternalPrefix;

/// What a graph becomes when its sender does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultModel {
    /// A Basic Container, as clients of Fedora expect.
    Container,
    /// A plain RDF source.
    RdfSource,
}

/// Settings of the repository door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdpSettings {
    /// The path under which resources are, without a slash at its end.
    pub base: String,
    /// Scheme and authority under which clients see the server, as in `https://example.org`; `None`: what each request says.
    pub origin: Option<String>,
    /// What a graph becomes when its sender does not say.
    pub default_model: DefaultModel,
    /// Whether replacing something without a condition is refused (428), pages and METS of volumes included.
    pub require_condition: bool,
    /// Bytes of a graph or an update that is sent in.
    pub rdf_bytes_max: usize,
    /// Statements of a graph that is sent in.
    pub triples_max: usize,
    /// Bytes of a content that is sent in; 0: no limit.
    pub binary_bytes_max: u64,
    /// How the addresses begin at which content may be kept elsewhere; none: it may not.
    pub external: Vec<ExternalPrefix>,
}

impl LdpSettings {
    /// Bytes of memory that one request may take at most.
    pub fn memory_bytes_max(&self) -> u64 {
        let text = self.rdf_bytes_max as u64;
        text.saturating_mul(4).saturating_add(2 * STATEMENT_BYTES * self.triples_max as u64)
    }
}

impl Default for LdpSettings {
    fn default() -> Self {
        Self {
            base: "/rest".to_owned(),
            origin: None,
            default_model: DefaultModel::Container,
            require_condition: false,
            rdf_bytes_max: 4 << 20,
            triples_max: 50_000,
            binary_bytes_max: 0,
            external: Vec::new(),
        }
    }
}
