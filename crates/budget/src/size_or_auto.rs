//! How settings have a size that the program may choose by itself: as a size, or as `auto`, which
//! is `None`.

use bytesize::ByteSize;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use crate::size;

const AUTO: &str = "auto";

/// Writes a size or `auto`, for serde's attribute `with`.
pub fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => size::serialize(bytes, serializer),
        None => serializer.serialize_str(AUTO),
    }
}

/// Reads a size or `auto`, for serde's attribute `with`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(bytes) => Ok(Some(bytes)),
        Written::Text(text) if text == AUTO => Ok(None),
        Written::Text(text) => match text.parse::<ByteSize>() {
            Ok(size) => Ok(Some(size.0)),
            Err(_) => Err(Error::custom(format!("`{text}` is not a size: write `auto`, or a size such as 512MiB"))),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_size_or_auto_is_read_as_it_is_written() {
        for (written, bytes) in [(json!("auto"), None), (json!("300MiB"), Some(300 << 20)), (json!("0B"), Some(0))] {
            assert_eq!(deserialize(&written).unwrap(), bytes);
            assert_eq!(serialize(&bytes, serde_json::value::Serializer).unwrap(), written);
        }
        assert_eq!(deserialize(&json!(1_024)).unwrap(), Some(1_024));
        let refused = deserialize(&json!("much")).unwrap_err().to_string();
        assert!(refused.contains("write `auto`, or a size such as 512MiB"), "{refused}");
    }
}
