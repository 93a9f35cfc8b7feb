//! Settings of this door.

use hathi::mets::MAX_METS_BYTES;
use volumes::OnDamage;

/// Approximate bytes per id of a request: in the list, and in the plan that is made of it.
pub const NAMED_BYTES: u64 = 256;

/// Settings of the data door. 0 means no limit where stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSettings {
    /// Most volumes in a request; 0: no limit.
    pub max_volumes: u64,
    /// Most pages in a request; 0: no limit.
    pub max_pages: u64,
    /// Most pages of one volume in a request; 0: no limit.
    pub max_pages_per_volume: u64,
    /// Most volumes, and pages by number, that one request may name, existing or not; 0: no limit.
    /// Unlike the three above this protects memory: each id takes some hundred bytes.
    pub ids_max: u64,
    /// Whether the response to a POST of ids names a selection, through which it can be resumed for
    /// a day. Such selections take at most half of `selections_per_requester_max`.
    pub post_selection: bool,
    /// What to do when a stream meets new damage.
    pub on_damage: OnDamage,
    /// Most bytes of a form or a list of ids.
    pub form_bytes_max: u64,
    /// Most bytes of the ZIP of an uploaded volume.
    pub import_bytes_max: u64,
    /// Most selections of one token, or one address without a token; 0: no limit.
    pub selections_per_requester_max: u64,
    /// The repository door of the same server, if there is one: pages for people lead to it.
    pub repository: Option<RepositoryPlace>,
}

/// Where the repository door is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryPlace {
    /// Its address from the root of the server, with a slash at the end: `rest/`.
    pub address: String,
    /// Whether it has a search.
    pub has_search: bool,
}

impl DataSettings {
    /// Most bytes of memory of one request: to read a list of ids, or to hold a METS while it is
    /// copied.
    pub fn memory_bytes_max(&self) -> u64 {
        let ids = if self.ids_max == 0 { self.form_bytes_max } else { self.ids_max };
        let list = self.form_bytes_max.saturating_mul(2).saturating_add(ids.saturating_mul(NAMED_BYTES));
        list.max(2 * MAX_METS_BYTES as u64)
    }
}

impl Default for DataSettings {
    fn default() -> Self {
        Self {
            max_volumes: 0,
            max_pages: 0,
            max_pages_per_volume: 0,
            ids_max: 500_000,
            post_selection: true,
            on_damage: OnDamage::Break,
            form_bytes_max: 16 << 20,
            import_bytes_max: 1 << 30,
            selections_per_requester_max: 100,
            repository: None,
        }
    }
}
