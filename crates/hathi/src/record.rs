//! A volume's metadata record: the JSON file beside ZIP and METS (HathiTrust Research Center,
//! schema version 1.3).

use serde::Deserialize;
use serde_json::Value;

use crate::VolumeId;

/// The largest record that is read, in bytes.
pub const MAX_RECORD_BYTES: usize = 1024 * 1024;

/// The used fields of a record; others are ignored. A field that is `null` counts as absent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Record {
    /// `volumeIdentifier`: the volume that the record describes.
    #[serde(rename = "volumeIdentifier")]
    pub id: VolumeId,
    /// `rightsAttributes`: HathiTrust's rights code, such as `pd` (public domain).
    #[serde(rename = "rightsAttributes")]
    pub rights: Option<String>,
    /// `accessProfile`: who may read the whole volume, such as `open`.
    #[serde(rename = "accessProfile")]
    pub access_profile: Option<String>,
    /// `title`: the catalogue's title.
    pub title: Option<String>,
    /// `pubDate`: the year of publication, as the catalogue writes it.
    #[serde(rename = "pubDate")]
    pub pub_date: Option<String>,
    /// `language`: a MARC language code, such as `eng`.
    pub language: Option<String>,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The record is larger than [`MAX_RECORD_BYTES`].
    #[error("the record has {0} bytes, more than the {MAX_RECORD_BYTES} that are read")]
    TooLarge(usize),
    /// The record is not JSON, lacks its `volumeIdentifier`, or a field is no text.
    #[error("the record cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

impl Record {
    /// Reads a record of at most [`MAX_RECORD_BYTES`].
    pub fn parse(json: &[u8]) -> Result<Self, RecordError> {
        if json.len() > MAX_RECORD_BYTES {
            return Err(RecordError::TooLarge(json.len()));
        }
        Ok(serde_json::from_slice(json)?)
    }
}

/// The names in a record, as the catalogue writes them: `names`, a list of authors, editors and
/// bodies. What is not such a list has none, because an import does not check it.
pub fn record_names(json: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Names {
        #[serde(default)]
        names: Value,
    }
    let Ok(Names { names: Value::Array(names) }) = serde_json::from_slice(json) else { return Vec::new() };
    let texts = names.iter().filter_map(Value::as_str).map(str::trim).filter(|name| !name.is_empty());
    texts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_record_contains_id_rights_and_description() {
        let json = r#"{"schemaVersion":"1.3","volumeIdentifier":"yale.1","accessProfile":"open","rightsAttributes":"pd",
                       "oclc":["1"],"title":"A life","pubDate":"1847","language":null}"#;
        let record = Record::parse(json.as_bytes()).unwrap();
        assert_eq!(record.id.as_str(), "yale.1");
        assert_eq!(record.rights.as_deref(), Some("pd"));
        assert_eq!(record.access_profile.as_deref(), Some("open"));
        assert_eq!(record.title.as_deref(), Some("A life"));
        assert_eq!(record.pub_date.as_deref(), Some("1847"));
        assert_eq!(record.language, None);
    }

    #[test]
    fn names_are_read_as_far_as_they_are_texts() {
        let names = |json: &str| record_names(json.as_bytes());
        assert_eq!(
            names(r#"{"names":["Frost, John 1800-1859 "," ",7,"Taylor"]}"#),
            ["Frost, John 1800-1859", "Taylor"]
        );
        for none in ["{}", r#"{"names":null}"#, r#"{"names":"Frost"}"#, "[]", "{"] {
            assert!(names(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn a_record_without_a_valid_id_or_beyond_the_limit_is_refused() {
        assert!(matches!(Record::parse(br#"{"title":"A life"}"#), Err(RecordError::Json(_))));
        assert!(matches!(Record::parse(br#"{"volumeIdentifier":"yale"}"#), Err(RecordError::Json(_))));
        assert!(matches!(Record::parse(b"{"), Err(RecordError::Json(_))));
        let mut padded = br#"{"volumeIdentifier":"yale.1"}"#.to_vec();
        padded.resize(MAX_RECORD_BYTES, b' ');
        assert!(Record::parse(&padded).is_ok());
        padded.push(b' ');
        assert!(matches!(Record::parse(&padded), Err(RecordError::TooLarge(_))));
    }
}
