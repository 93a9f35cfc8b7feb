//! How settings have a size: as text such as `64MiB`. It is read leniently (also a bare number) and
//! written exactly.

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, Serializer};

const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// The size in the greatest binary unit that divides it, so that reading it back gives the same
/// number.
pub fn format(bytes: u64) -> String {
    UNITS
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Writes a size, for serde's attribute `with`.
pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*bytes))
}

/// Reads a size, for serde's attribute `with`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    ByteSize::deserialize(deserializer).map(|size| size.0)
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn a_size_is_written_exactly() {
        assert_eq!(format(64 << 20), "64MiB");
        assert_eq!(format(1_536), "1536B");
        assert_eq!(format(3 << 9 << 10), "1536KiB");
        assert_eq!(format(0), "0B");
    }
}
