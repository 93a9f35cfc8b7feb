//! What can be set of this door.

use hathi::mets::MAX_METS_BYTES;
use objects::OnDamage;

use crate::bulk::NAMED_BYTES;

/// Settings of the data door. Numbers are plain; 0 means no limit where that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSettings {
    /// Volumes that a request may ask for; 0: no limit.
    pub max_volumes: u64,
    /// Pages that a request may ask for in all; 0: no limit.
    pub max_pages: u64,
    /// Pages of one volume that a request may ask for; 0: no limit.
    pub max_pages_per_volume: u64,
    /// Volumes, and pages by number, that one request may name, whether they are there or not; 0: no limit. Unlike the three
    /// above this is not about what may be had but about memory: each takes some hundred bytes of it.
    pub ids_max: u64,
    /// Whether the answer to a POST of ids names a selection, by which it can be resumed for a day. Such selections take at most
    /// half of `selections_per_requester_max`.
    pub post_selection: bool,
    /// What becomes of a stream that meets damage nobody knew of.
    pub on_damage: OnDamage,
    /// Bytes of a form or a list of ids.
    pub form_bytes_max: u64,
    /// Bytes of the ZIP of a volume that is sent in.
    pub import_bytes_max: u64,
    /// Selections that one token, or one address without a token, may have at a time; 0: no limit.
    pub selections_per_requester_max: u64,
}

impl DataSettings {
    /// Bytes of memory that one request may take at most: to read a list of ids, or to hold a METS while it is copied.
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
        }
    }
}
