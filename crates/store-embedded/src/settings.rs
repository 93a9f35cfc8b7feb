//! The settings of the engine, as a program reads them from a configuration.

use bytesize::ByteSize;
use documented::DocumentedFields;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use sysinfo::{MemoryRefreshKind, System};

use crate::options::EmbeddedOptions;

const AUTO: &str = "auto";

/// `auto` takes this part of the memory.
const ONE_OF: u64 = 8;

/// The least that `auto` takes, bytes.
const LEAST_BYTES: u64 = 16 << 20;

/// The engine's part of the section `[store]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct EmbeddedSettings {
    /// Memory for the cache of a store in a folder; `auto`: an eighth of the memory (of the
    /// machine, or of its control group), at least 16 MiB and at most `limits.memory`.
    pub cache: CacheSize,
}

impl EmbeddedSettings {
    /// The options of a store in a server that has `limits_memory` for its clients.
    pub fn options(&self, limits_memory: u64) -> EmbeddedOptions {
        EmbeddedOptions { cache_bytes: self.cache.bytes(limits_memory), ..EmbeddedOptions::default() }
    }
}

/// Memory for the engine's cache: a size, or `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheSize {
    /// An eighth of the memory that the server may use, within [`CacheSize::bytes`]'s bounds.
    #[default]
    Auto,
    /// This many bytes.
    Bytes(u64),
}

impl CacheSize {
    /// The size in bytes. `auto` is at least 16 MiB, and otherwise at most `limits_memory`
    /// (`limits.memory`), so that what the server may use grows with that one setting.
    pub fn bytes(self, limits_memory: u64) -> u64 {
        match self {
            CacheSize::Auto => share(usable_memory().unwrap_or_default(), limits_memory),
            CacheSize::Bytes(bytes) => bytes,
        }
    }
}

fn share(usable: u64, limits_memory: u64) -> u64 {
    (usable / ONE_OF).min(limits_memory).max(LEAST_BYTES)
}

/// The machine's memory, or what the control group of this process (a container, for example) may
/// use of it. `None` where the system does not say.
fn usable_memory() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let machine = system.total_memory();
    Some(system.cgroup_limits().map_or(machine, |group| group.total_memory.min(machine)))
}

/// A size in the greatest unit that divides it, so that it is read back exactly.
fn written(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

impl Serialize for CacheSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            CacheSize::Auto => serializer.serialize_str(AUTO),
            CacheSize::Bytes(bytes) => serializer.collect_str(&written(*bytes)),
        }
    }
}

impl<'de> Deserialize<'de> for CacheSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(CacheSize::Bytes(bytes)),
            Written::Text(text) if text == AUTO => Ok(CacheSize::Auto),
            Written::Text(text) => match text.parse::<ByteSize>() {
                Ok(size) => Ok(CacheSize::Bytes(size.0)),
                Err(_) => Err(Error::custom(format!("`{text}` is not a size: write `auto`, or a size such as 512MiB"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn auto_takes_an_eighth_of_the_memory_within_its_bounds() {
        let limits_memory = 512 << 20;
        assert_eq!(share(2 << 30, limits_memory), 256 << 20);
        assert_eq!(share(64 << 20, limits_memory), LEAST_BYTES);
        assert_eq!(share(1 << 40, limits_memory), limits_memory);
    }

    #[test]
    fn auto_learns_how_much_memory_there_is() {
        assert!(usable_memory().is_some_and(|bytes| bytes >= 64 << 20));
    }

    #[test]
    fn a_cache_size_is_read_as_it_is_written() {
        for (written, size) in [("\"auto\"", CacheSize::Auto), ("\"64MiB\"", CacheSize::Bytes(64 << 20))] {
            assert_eq!(serde_json::from_str::<CacheSize>(written).unwrap(), size);
            assert_eq!(serde_json::to_string(&size).unwrap(), written);
        }
        assert_eq!(serde_json::from_str::<CacheSize>("1048576").unwrap(), CacheSize::Bytes(1 << 20));
        let refused = serde_json::from_str::<CacheSize>("\"much\"").unwrap_err().to_string();
        assert!(refused.contains("write `auto`, or a size such as 512MiB"), "{refused}");
    }
}
