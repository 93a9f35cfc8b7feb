//! Settings of this door.

use std::time::Duration;

use rdf::Limits;

use crate::external::ExternalPrefix;
use crate::search;

/// Bytes per statement besides the text of its terms: itself, its place in the graph, and rounding
/// of the allocator.
pub const STATEMENT_BYTES: u64 = 256;

/// The default model of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultModel {
    /// A Basic Container, as clients of Fedora expect.
    Container,
    /// A plain RDF source.
    RdfSource,
}

impl DefaultModel {
    /// The name of its class in the namespace of LDP.
    pub fn class(self) -> &'static str {
        match self {
            Self::Container => "BasicContainer",
            Self::RdfSource => "RDFSource",
        }
    }
}

/// Settings of the repository door.
#[derive(Clone, Debug)]
pub struct LdpSettings {
    /// Path of the repository, without a slash at its end.
    pub base: String,
    /// Path in front of all routes of the server, as clients see it, without a slash at its end.
    /// Requests come without it.
    pub mount: String,
    /// Scheme and authority under which clients see the server, as in `https://example.org`;
    /// `None`: what each request says.
    pub origin: Option<String>,
    /// The default model of a graph.
    pub default_model: DefaultModel,
    /// Whether unconditional replacement is refused (428), including pages and METS of volumes.
    pub require_condition: bool,
    /// Whether versions of a deleted resource can be read, and those of an earlier one with the
    /// same path.
    pub deleted_versions: bool,
    /// Whether a client may delete a single earlier version.
    pub delete_versions: bool,
    /// Whether a client may add a version with a time in the past.
    pub receive_versions: bool,
    /// Most bytes of a graph or an update in a request.
    pub rdf_bytes_max: usize,
    /// Most statements of a graph in a request.
    pub triples_max: usize,
    /// Most bytes that an update may hold while it is computed, as far as `held` knows. It gets no more
    /// than one request may have of the budget of memory, its text and graphs included.
    pub update_bytes_max: usize,
    /// Returns the bytes that the calling thread holds; see [`Limits::held`]. Without it, the memory
    /// of updates is only estimated.
    pub held: Option<fn() -> i64>,
    /// Most bytes of a content; 0: no limit.
    pub binary_bytes_max: u64,
    /// Prefixes of addresses whose content may be stored elsewhere; none: it may not.
    pub external: Vec<ExternalPrefix>,
    /// How much a search may read.
    pub search: SearchSettings,
}

/// How much a search may read, and give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchSettings {
    /// Whether the index is kept up to date: by this server or, where servers share a store, perhaps
    /// by another one. Without it there is no search on pages.
    pub is_kept: bool,
    /// Most rows of the index that one search reads, about.
    pub rows_max: usize,
    /// The time after which a search ends with what it has.
    pub time_max: Duration,
    /// Most results of one page.
    pub results_max: usize,
}

impl SearchSettings {
    /// Most bytes of memory of one search.
    pub fn memory_bytes_max(&self) -> u64 {
        search::memory_bytes(self.results_max)
    }

    /// The same settings, with fewer results on a page if a search could take more memory than so
    /// many bytes.
    pub fn within(self, bytes_max: u64) -> Self {
        Self { results_max: self.results_max.min(search::results_within(bytes_max)), ..self }
    }
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { is_kept: true, rows_max: 50_000, time_max: Duration::from_secs(2), results_max: 1_000 }
    }
}

impl LdpSettings {
    /// Most bytes of memory of one request with a graph or an update.
    pub fn memory_bytes_max(&self) -> u64 {
        let text = self.rdf_bytes_max as u64;
        text.saturating_mul(4).saturating_add((2 * STATEMENT_BYTES).saturating_mul(self.triples_max as u64))
    }

    /// The same settings, with smaller graphs and pages of searches if a request could take more
    /// memory than so many bytes.
    pub fn within(self, bytes_max: u64) -> Self {
        let search = self.search.within(bytes_max);
        if self.memory_bytes_max() <= bytes_max {
            return Self { search, ..self };
        }
        let at_most = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            rdf_bytes_max: self.rdf_bytes_max.min(at_most(bytes_max / 8)),
            triples_max: self.triples_max.min(at_most(bytes_max / 4 / STATEMENT_BYTES)),
            search,
            ..self
        }
    }
}

impl Default for LdpSettings {
    fn default() -> Self {
        Self {
            base: "/rest".to_owned(),
            mount: String::new(),
            origin: None,
            default_model: DefaultModel::Container,
            require_condition: false,
            deleted_versions: true,
            delete_versions: false,
            receive_versions: false,
            rdf_bytes_max: 4 << 20,
            triples_max: 50_000,
            update_bytes_max: Limits::default().held_bytes,
            held: None,
            binary_bytes_max: 0,
            external: Vec::new(),
            search: SearchSettings::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_and_pages_of_searches_are_smaller_where_they_would_take_more_than_there_is() {
        let sizes =
            |settings: &LdpSettings| (settings.rdf_bytes_max, settings.triples_max, settings.search.results_max);
        let usual = LdpSettings::default();
        assert_eq!(sizes(&usual.clone().within(usual.memory_bytes_max())), sizes(&usual));
        let small = usual.clone().within(14 << 20);
        assert_eq!(sizes(&small), (7 << 18, 14_336, 329));
        assert_eq!(small.memory_bytes_max(), 14 << 20);
        assert!(small.search.memory_bytes_max() <= 14 << 20, "{:?}", small.search);
        let many = SearchSettings { results_max: usize::MAX, ..SearchSettings::default() };
        let within = LdpSettings { search: many, ..usual.clone() }.within(usual.memory_bytes_max());
        assert!(within.search.memory_bytes_max() <= usual.memory_bytes_max(), "{:?}", within.search);
        assert_eq!(within.rdf_bytes_max, usual.rdf_bytes_max, "graphs are as large as before");
    }
}
