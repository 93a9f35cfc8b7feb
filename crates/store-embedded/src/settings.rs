//! The settings of the engine, as a program reads them from a configuration.

use std::ops::RangeInclusive;

use budget::size;
use documented::DocumentedFields;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::options::{EmbeddedOptions, JOURNALS_BYTES_MIN};

/// `auto` takes this part of the memory for the cache.
const ONE_OF: u64 = 8;

/// The least that `auto` takes, bytes.
const LEAST_BYTES: u64 = 16 << 20;

/// Writes that wait take at most one part in this number of the memory in each lane, but at least
/// so many bytes may wait.
const QUEUED_ONE_OF: u64 = 32;
const QUEUED_BYTES_MIN: usize = 4 << 20;

/// What `store.memtable` may be. A table has up to five memtables, so more would take much of a
/// machine.
const MEMTABLE_BYTES: RangeInclusive<u64> = 1 << 20..=256 << 20;

/// What `store.journals` may be. A start after a crash reads all of them.
const JOURNALS_BYTES: RangeInclusive<u64> = JOURNALS_BYTES_MIN..=16 << 30;

/// What `store.block` may be.
const BLOCK_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 20;

/// What `store.merge_files` may be. With twenty files fjall delays writes.
const MERGE_FILES: RangeInclusive<u8> = 2..=16;

/// What `store.workers` may be. One thread could not flush while it compacts.
const WORKERS: RangeInclusive<u8> = 2..=64;

/// What the journals and the memtables may come to on a disk that is nearly full: the engine leaves
/// so many times as much free.
const JOURNALS_IN_HEADROOM: u64 = 4;
const MEMTABLES_IN_HEADROOM: u64 = 8;

/// The engine's part of the section `[store]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct EmbeddedSettings {
    /// Memory for the cache of a data folder; `auto`: an eighth of the memory (of the machine, or
    /// of its control group), at least 16 MiB and at most `limits.memory`.
    #[serde(with = "budget::size_or_auto")]
    pub cache: Option<u64>,
    /// What a table of a data folder gathers in memory before it is written to a file, 1 MiB to 256
    /// MiB (in the service lane a quarter). More memory makes fewer files to merge. Up to five
    /// times as much is in memory for each table that is written fast, and eight times as much of
    /// the disk is left free. A store keeps the value with which it was made.
    #[serde(serialize_with = "size::serialize", deserialize_with = "memtable")]
    pub memtable: u64,
    /// The size of the journals of a data folder above which tables are written to files early, 64
    /// MiB to 16 GiB (in the service lane half of it). More makes fewer and larger files, and a
    /// longer start after a crash. Four times as much of the disk is left free.
    #[serde(serialize_with = "size::serialize", deserialize_with = "journals")]
    pub journals: u64,
    /// The size of a block of rows in the files of a data folder, 1 KiB to 1 MiB (page text: 32
    /// KiB). Larger ones suit rows that are read in sequence. A store keeps the value with which it
    /// was made.
    #[serde(serialize_with = "size::serialize", deserialize_with = "block")]
    pub block: u64,
    /// So many new files of a table of a data folder are merged, 2 to 16. With more, less is
    /// written, and reads look into more files. A store keeps the value with which it was made.
    #[serde(deserialize_with = "merge_files")]
    pub merge_files: u8,
    /// Threads of each lane of a data folder that write tables to files and merge these, 2 to 64.
    #[serde(deserialize_with = "workers")]
    pub workers: u8,
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        let options = EmbeddedOptions::default();
        Self {
            cache: None,
            memtable: options.memtable_bytes,
            journals: options.journals_bytes,
            block: u64::from(options.row_block_bytes),
            merge_files: options.merge_files,
            // There are few.
            workers: u8::try_from(options.worker_threads).unwrap_or(u8::MAX),
        }
    }
}

impl EmbeddedSettings {
    /// The options of a store in a server that has `limits_memory` bytes for its clients, in a process
    /// that may use so much memory (`None`: nobody knows).
    pub fn options(&self, limits_memory: u64, usable: Option<u64>) -> EmbeddedOptions {
        let usual = EmbeddedOptions::default();
        let in_headroom = (JOURNALS_IN_HEADROOM * self.journals).max(MEMTABLES_IN_HEADROOM * self.memtable);
        EmbeddedOptions {
            cache_bytes: self.cache.unwrap_or_else(|| share(usable.unwrap_or_default(), limits_memory)),
            max_queued_bytes: queued_bytes(usual.max_queued_bytes, usable),
            memtable_bytes: self.memtable,
            journals_bytes: self.journals,
            // It was checked when it was read.
            row_block_bytes: u32::try_from(self.block).unwrap_or(usual.row_block_bytes),
            merge_files: self.merge_files,
            headroom_bytes: usual.headroom_bytes.max(in_headroom),
            worker_threads: usize::from(self.workers),
            ..usual
        }
    }
}

fn memtable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    size_within(deserializer, &MEMTABLE_BYTES)
}

fn journals<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    size_within(deserializer, &JOURNALS_BYTES)
}

fn block<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    size_within(deserializer, &BLOCK_BYTES)
}

fn merge_files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    number_within(deserializer, &MERGE_FILES)
}

fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    number_within(deserializer, &WORKERS)
}

fn size_within<'de, D: Deserializer<'de>>(deserializer: D, bounds: &RangeInclusive<u64>) -> Result<u64, D::Error> {
    let bytes = size::deserialize(deserializer)?;
    if bounds.contains(&bytes) {
        return Ok(bytes);
    }
    let [bytes, least, most] = [bytes, *bounds.start(), *bounds.end()].map(size::format);
    Err(Error::custom(format!("{bytes} is not from {least} to {most}")))
}

fn number_within<'de, D: Deserializer<'de>>(deserializer: D, bounds: &RangeInclusive<u8>) -> Result<u8, D::Error> {
    let number = u8::deserialize(deserializer)?;
    if bounds.contains(&number) {
        return Ok(number);
    }
    Err(Error::custom(format!("{number} is not from {} to {}", bounds.start(), bounds.end())))
}

/// What `auto` takes for the cache of a store in a process that may use so much memory: at least 16
/// MiB, and otherwise at most `limits_memory` (`limits.memory`), so that what the server may use
/// grows with that one setting.
fn share(usable: u64, limits_memory: u64) -> u64 {
    (usable / ONE_OF).min(limits_memory).max(LEAST_BYTES)
}

fn queued_bytes(usual: usize, usable: Option<u64>) -> usize {
    let part = usable.map(|usable| usize::try_from(usable / QUEUED_ONE_OF).unwrap_or(usize::MAX));
    part.map_or(usual, |part| usual.min(part.max(QUEUED_BYTES_MIN)))
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
        let cache = |cache, usable| {
            let settings = EmbeddedSettings { cache, ..EmbeddedSettings::default() };
            settings.options(limits_memory, usable).cache_bytes
        };
        assert_eq!(cache(None, Some(2 << 30)), 256 << 20);
        assert_eq!(cache(None, None), LEAST_BYTES);
        assert_eq!(cache(Some(1 << 20), None), 1 << 20);
    }

    #[test]
    fn settings_by_default_are_the_options_by_default() {
        let of = |options: EmbeddedOptions| EmbeddedOptions { cache_bytes: 0, ..options };
        let (read, usual) = (EmbeddedSettings::default().options(512 << 20, None), EmbeddedOptions::default());
        assert_eq!(format!("{:?}", of(read)), format!("{:?}", of(usual)));
    }

    #[test]
    fn settings_of_the_engine_are_read_as_they_are_written_and_within_bounds() {
        let read = |json: &str| serde_json::from_str::<EmbeddedSettings>(json);
        let usual = EmbeddedSettings::default();
        let text = serde_json::to_string(&usual).unwrap();
        let sizes = r#""cache":"auto","memtable":"8MiB","journals":"128MiB","block":"4KiB","merge_files":4"#;
        assert!(text.contains(sizes), "{text}");
        assert_eq!(read(&text).unwrap(), usual);
        let other = read(r#"{"cache": "64MiB", "memtable": "64MiB", "journals": 1073741824, "workers": 6}"#).unwrap();
        let cache = Some(64 << 20);
        assert_eq!(other, EmbeddedSettings { cache, memtable: 64 << 20, journals: 1 << 30, workers: 6, ..usual });
        for (wrong, why) in [
            (r#"{"cache": "much"}"#, "`much` is not a size: write `auto`, or a size such as 512MiB"),
            (r#"{"memtable": "512KiB"}"#, "512KiB is not from 1MiB to 256MiB"),
            (r#"{"journals": "63MiB"}"#, "63MiB is not from 64MiB to 16GiB"),
            (r#"{"block": "2MiB"}"#, "2MiB is not from 1KiB to 1MiB"),
            (r#"{"merge_files": 1}"#, "1 is not from 2 to 16"),
            (r#"{"workers": 1}"#, "1 is not from 2 to 64"),
        ] {
            let refused = read(wrong).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_disk_keeps_room_for_larger_journals_and_memtables() {
        let headroom = |journals, memtable| {
            let settings = EmbeddedSettings { journals, memtable, ..EmbeddedSettings::default() };
            settings.options(512 << 20, None).headroom_bytes
        };
        assert_eq!(headroom(1 << 30, 8 << 20), 4 << 30);
        assert_eq!(headroom(128 << 20, 256 << 20), 2 << 30);
        assert_eq!(headroom(64 << 20, 1 << 20), 512 << 20);
    }

    #[test]
    fn fewer_bytes_of_writes_wait_where_there_is_little_memory() {
        let queued = |usable| EmbeddedSettings::default().options(512 << 20, usable).max_queued_bytes;
        assert_eq!([None, Some(1 << 40), Some(1 << 30)].map(queued), [32 << 20; 3]);
        assert_eq!([Some(512 << 20), Some(256 << 20)].map(queued), [16 << 20, 8 << 20]);
        assert_eq!([Some(100 << 20), Some(0)].map(queued), [4 << 20; 2]);
    }
}
