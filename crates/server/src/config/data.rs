//! `[data]`

use std::time::Duration;

use documented::DocumentedFields;
use door_data::DataSettings;
use heads::LibraryOptions;
use serde::{Deserialize, Serialize};

use super::text;

/// What a bulk response does about damage found while it streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDamage {
    /// It ends visibly broken, because its length was promised. The next request gets a whole
    /// archive, with `ERROR.err`.
    Break,
    /// It promises no length, leaves out what is damaged, and names it in `ERROR.err`.
    Report,
}

/// `[data]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct DataConfig {
    /// A second path of the data door, besides `/`; empty: none.
    pub prefix: String,
    /// Most volumes of one request; 0: no limit.
    pub max_volumes: u64,
    /// Most pages of one request; 0: no limit.
    pub max_pages: u64,
    /// Most pages of one volume in one request; 0: no limit.
    pub max_pages_per_volume: u64,
    /// Most volumes, and pages by number, that one request may name, existing or not; 0: no limit.
    pub ids_max: u64,
    /// Whether a bulk `POST` creates a selection, through which it can be resumed.
    pub post_selection: bool,
    /// What to do about damage found while streaming: `break` or `report`.
    pub on_damage: OnDamage,
    /// Most bytes of a form or a list of ids.
    #[serde(with = "text::size")]
    pub form_max: u64,
    /// Most bytes of an imported volume's ZIP.
    #[serde(with = "text::size")]
    pub import_max: u64,
    /// Most selections of one token, or of one address without a token; 0: no limit.
    pub selections_max: u64,
    /// Default lifetime of a selection, from `1ms` to `data.selection_life_max`.
    #[serde(with = "humantime_serde")]
    pub selection_life: Duration,
    /// Longest lifetime of a selection, at most `36525days`.
    #[serde(with = "humantime_serde")]
    pub selection_life_max: Duration,
    /// Bytes that all bulk responses together may read ahead of their clients.
    #[serde(with = "text::size")]
    pub read_ahead: u64,
    /// Concurrent bulk responses; further requests get 503.
    pub bulk_requests_max: usize,
}

impl DataConfig {
    /// What the door needs to know.
    pub(crate) fn settings(&self) -> DataSettings {
        DataSettings {
            max_volumes: self.max_volumes,
            max_pages: self.max_pages,
            max_pages_per_volume: self.max_pages_per_volume,
            ids_max: self.ids_max,
            post_selection: self.post_selection,
            on_damage: match self.on_damage {
                OnDamage::Break => volumes::OnDamage::Break,
                OnDamage::Report => volumes::OnDamage::Report,
            },
            form_bytes_max: self.form_max,
            import_bytes_max: self.import_max,
            selections_per_requester_max: self.selections_max,
            repository: None,
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        let (library, door) = (LibraryOptions::default(), DataSettings::default());
        Self {
            prefix: "/data-api".to_owned(),
            max_volumes: door.max_volumes,
            max_pages: door.max_pages,
            max_pages_per_volume: door.max_pages_per_volume,
            ids_max: door.ids_max,
            post_selection: door.post_selection,
            on_damage: OnDamage::Break,
            form_max: door.form_bytes_max,
            import_max: door.import_bytes_max,
            selections_max: door.selections_per_requester_max,
            selection_life: library.selection_life,
            selection_life_max: library.selection_life_max,
            read_ahead: library.read_ahead_bytes as u64,
            bulk_requests_max: library.bulk_requests_max,
        }
    }
}
