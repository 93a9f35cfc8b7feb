//! Settings of this door.

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
    /// Most bytes of memory of one request that names volumes or pages.
    pub fn memory_bytes_max(&self) -> u64 {
        let ids = if self.ids_max == 0 { self.form_bytes_max } else { self.ids_max };
        self.form_bytes_max.saturating_mul(2).saturating_add(ids.saturating_mul(NAMED_BYTES))
    }

    /// The same settings, with smaller lists if a request could take more memory than so many bytes.
    pub fn within(self, bytes_max: u64) -> Self {
        if self.memory_bytes_max() <= bytes_max {
            return self;
        }
        let ids_max = (bytes_max / 2 / NAMED_BYTES).max(1);
        Self {
            form_bytes_max: self.form_bytes_max.min(bytes_max / 4),
            ids_max: if self.ids_max == 0 { ids_max } else { self.ids_max.min(ids_max) },
            ..self
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_smaller_where_they_would_take_more_than_there_is() {
        let usual = DataSettings::default();
        assert_eq!(usual.clone().within(usual.memory_bytes_max()), usual);
        for settings in [usual.clone(), DataSettings { ids_max: 0, ..usual.clone() }] {
            for bytes_max in [14 << 20, 28 << 20, 112 << 20] {
                let within = settings.clone().within(bytes_max);
                assert!(within.memory_bytes_max() <= bytes_max && within.ids_max > 0, "{bytes_max}: {within:?}");
            }
        }
        let small = usual.within(14 << 20);
        assert_eq!((small.form_bytes_max, small.ids_max), (7 << 19, 28_672));
        let small = DataSettings { ids_max: 100, ..small };
        assert_eq!(small.clone().within(8 << 20), small, "it fits");
    }
}
