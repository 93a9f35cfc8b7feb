//! Many resources in one request as lines of JSON. Each line is a JSON-LD object and becomes one
//! resource.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::errors::LdpError;

/// One line of JSON-LD, and its subject.
pub struct Line {
    /// The `@id`, if there is one.
    pub id: Option<String>,
    /// The line. One without an `@id` gets its own base as the subject.
    pub json_ld: Bytes,
}

impl Line {
    /// Reads a line.
    pub fn parse(line: &Bytes) -> Result<Self, LdpError> {
        let object: Object = serde_json::from_slice(line).map_err(|error| LdpError::Line(error.to_string()))?;
        if object.id.is_some() {
            return Ok(Self { id: object.id, json_ld: line.clone() });
        }
        // Values keep their text, because not all numbers would survive reading and writing.
        let inside = line.trim_ascii().strip_prefix(b"{").map(<[u8]>::trim_ascii_start).unwrap_or_default();
        let comma: &[u8] = if inside.starts_with(b"}") { b"" } else { b"," };
        Ok(Self { id: None, json_ld: [b"{\"@id\":\"\"", comma, inside].concat().into() })
    }
}

/// An object of which only its name matters. An array is not one.
#[derive(Deserialize)]
struct Object {
    #[serde(rename = "@id")]
    id: Option<String>,
    #[serde(flatten)]
    _others: BTreeMap<String, IgnoredAny>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_has_a_subject_and_keeps_its_values_unchanged() {
        let parsed = |line: &'static str| Line::parse(&Bytes::from_static(line.as_bytes()));
        let named = parsed("{\"@id\": \"a/b\", \"n\": 12345678901234567890.10}\n").unwrap();
        assert_eq!(named.id.as_deref(), Some("a/b"));
        let text = |line: Line| String::from_utf8(line.json_ld.to_vec()).unwrap();
        assert_eq!(text(parsed(" { \"n\": 1.10}\n").unwrap()), "{\"@id\":\"\",\"n\": 1.10}");
        assert_eq!(text(parsed("{ }").unwrap()), "{\"@id\":\"\"}");
        for broken in ["[]", "{", "{\"@id\": 1}", "\"a\"", "[\"a\"]"] {
            assert!(parsed(broken).is_err(), "{broken}");
        }
    }
}
