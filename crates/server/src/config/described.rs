//! What the settings mean: the comments of their fields.

use documented::DocumentedFields;

use super::*;

/// A section, as its comments describe it.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Names and meanings of its fields.
    pub settings: Vec<(&'static str, &'static str)>,
}

/// Names and meanings of the fields of a section.
pub fn described<T: DocumentedFields>() -> Vec<(&'static str, &'static str)> {
    T::FIELD_NAMES.iter().copied().zip(T::FIELD_DOCS.iter().copied()).collect()
}

impl Config {
    /// The sections, in order. Fields that are no settings (`serde(skip)`) are among them.
    pub fn described() -> Vec<Described> {
        let sections = [
            ("store", described::<StoreConfig>()),
            ("history", described::<HistoryConfig>()),
            ("listen", described::<ListenConfig>()),
            ("http", described::<HttpConfig>()),
            ("auth", described::<AuthConfig>()),
            ("data", described::<DataConfig>()),
            ("ldp", described::<LdpConfig>()),
            ("feed", described::<FeedConfig>()),
            ("search", described::<SearchConfig>()),
            ("records", described::<RecordsConfig>()),
            ("audit", described::<AuditConfig>()),
            ("fixity", described::<FixityConfig>()),
            ("log", described::<LogConfig>()),
            ("telemetry", described::<TelemetryConfig>()),
            ("limits", described::<LimitsConfig>()),
        ];
        let about = |name| Self::get_field_docs(name).unwrap_or_default();
        sections.map(|(name, settings)| Described { name, about: about(name), settings }).into()
    }
}
