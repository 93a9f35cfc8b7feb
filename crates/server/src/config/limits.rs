//! `[limits]`

use std::time::Duration;

use budget::part_of_memory;
use documented::DocumentedFields;
use heads::LibraryOptions;
use serde::{Deserialize, Serialize};

use super::text;

/// `limits.memory` by itself: at most one part in so many of the memory, and at least so many
/// bytes.
const MEMORY_ONE_OF: u64 = 4;
const MEMORY_MIN: u64 = 32 << 20;

/// The budget for data on its way to clients is one part in this number of `limits.memory`.
const SENDING_ONE_OF: u64 = 4;

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsConfig {
    /// Concurrent connections of HTTP, and as many of the Redis protocol. Further ones wait. `auto`:
    /// 16384, or as many as descriptors and a quarter of the memory (16 KiB for each) allow.
    #[serde(with = "text::number_or_auto")]
    pub connections: Option<usize>,
    /// Concurrent streams of one HTTP/2 connection.
    pub http2_streams: u32,
    /// Longest time for a TLS handshake, for the head of a request, between requests, and until the
    /// first command of the Redis protocol.
    #[serde(with = "humantime_serde")]
    pub header_time: Duration,
    /// Longest pause within a body, or a command of the Redis protocol.
    #[serde(with = "humantime_serde")]
    pub body_pause: Duration,
    /// Least bytes per second of a body or of a command of the Redis protocol, averaged over each
    /// `limits.body_pause`; 0: any.
    #[serde(with = "text::size")]
    pub body_rate: u64,
    /// Requests per second of one token or address; 0: any.
    pub request_rate: u32,
    /// How many of them may come at once.
    pub request_burst: u32,
    /// Commands of the Redis protocol per second of one token or address; 0: any.
    pub command_rate: u32,
    /// How many of them may come at once.
    pub command_burst: u32,
    /// Requests of one token or address at once, until their responses end; 0: any.
    pub requests_at_once: u32,
    /// Bytes of answers that one token or address gets in a day; 0: any.
    #[serde(with = "text::size")]
    pub bytes_per_day: u64,
    /// Memory that clients together may take with what they send and what is made of it; `auto`: a
    /// quarter of the memory (of the machine, or of its control group), from 32 to 512 MiB.
    #[serde(with = "text::size_or_auto")]
    pub memory: Option<u64>,
    /// How long a client may take nothing of a response before the response ends.
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
    /// How long `/readyz` says no after a stop signal before the server accepts nothing more.
    #[serde(with = "humantime_serde")]
    pub drain: Duration,
    /// How long responses may continue after a stop signal.
    #[serde(with = "humantime_serde")]
    pub shutdown_time: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections: None,
            http2_streams: 32,
            header_time: Duration::from_secs(30),
            body_pause: Duration::from_secs(30),
            body_rate: 1 << 10,
            request_rate: 0,
            request_burst: 1_000,
            command_rate: 0,
            command_burst: 10_000,
            requests_at_once: 0,
            bytes_per_day: 0,
            memory: None,
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(5),
            shutdown_time: Duration::from_secs(30),
        }
    }
}

impl LimitsConfig {
    /// The bytes of `limits.memory` in a process that may use so much memory (`None`: nobody knows).
    pub fn memory_bytes(&self, usable: Option<u64>) -> u64 {
        let usual = LibraryOptions::default().memory_bytes;
        self.memory.unwrap_or_else(|| part_of_memory(usable, MEMORY_ONE_OF, usual, MEMORY_MIN))
    }

    /// The bytes of data on its way to clients.
    pub(crate) fn sending_bytes(&self, usable: Option<u64>) -> u64 {
        self.memory_bytes(usable) / SENDING_ONE_OF
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use store_embedded::EmbeddedSettings;

    use super::*;
    use crate::config::Config;
    use crate::descriptors::{CONNECTION_BYTES, USUAL, most_in_memory};

    const MIB: u64 = 1 << 20;

    /// What a server takes that does nothing.
    const IDLE_BYTES: u64 = 32 * MIB;
    /// Records of the audit that wait to be written (`audit/src/queue.rs`).
    const AUDIT_BYTES: u64 = 32 * MIB;
    /// HTTP, and the Redis protocol.
    const KINDS: usize = 2;
    const LANES: u64 = 3;
    /// Memtables of a table that is written fast (`store.memtable`).
    const MEMTABLES: u64 = 5;

    #[test]
    fn memory_by_itself_is_a_part_of_what_there_is_and_a_number_is_that_number() {
        let auto = LimitsConfig::default();
        let of = |usable| auto.memory_bytes(usable);
        assert_eq!([None, Some(64 << 30), Some(2 << 30)].map(of), [512 * MIB; 3]);
        assert_eq!([Some(512 * MIB), Some(200_000_000)].map(of), [128 * MIB, 50_000_000]);
        assert_eq!([Some(100_000_000), Some(0)].map(of), [32 * MIB; 2]);
        let number = LimitsConfig { memory: Some(600 * MIB), ..LimitsConfig::default() };
        assert_eq!([None, Some(0), Some(64 << 30)].map(|usable| number.memory_bytes(usable)), [600 * MIB; 3]);
    }

    #[test]
    fn requests_have_to_be_smaller_where_there_is_little_memory_and_a_number_has_to_suffice() {
        let mut config = Config::default();
        for (usable, is_smaller) in [(None, false), (Some(2 << 30), false), (Some(512 * MIB), true), (Some(0), true)] {
            let memory = config.limits.memory_bytes(usable);
            assert_eq!(config.allow_more_than(memory).unwrap().is_some(), is_smaller, "{usable:?}");
            let most = budget::Memory::largest_request(memory);
            assert!(config.data.settings().within(most).memory_bytes_max() <= most, "{usable:?}");
            assert!(config.ldp.settings("").unwrap().within(most).memory_bytes_max() <= most, "{usable:?}");
            assert!(config.search.settings().within(most).memory_bytes_max() <= most, "{usable:?}");
            assert!(config.records.request_limits().within(most).memory_bytes_max() <= most, "{usable:?}");
        }
        config.limits.memory = Some(64 * MIB);
        let refused = config.check().unwrap_err().to_string();
        assert!(refused.contains("limits.memory (64MiB) must be at least 353MiB"), "{refused}");
        (config.data.ids_max, config.data.form_max) = (20_000, MIB);
        (config.ldp.rdf_max, config.ldp.triples_max) = (MIB, 10_000);
        config.check().unwrap();
    }

    /// All budgets of a server with so much memory, if clients fill them at the same time.
    fn all_at_once(usable: u64) -> u64 {
        let (config, usable) = (Config::default(), Some(usable));
        let limits = &config.limits;
        let memory = limits.memory_bytes(usable);
        let connections = KINDS * most_in_memory(limits.connections.unwrap_or(USUAL), KINDS, usable);
        let engine = EmbeddedSettings::default().options(memory, usable);
        // Tables of the service lane have a quarter.
        let memtables = MEMTABLES * (2 * engine.memtable_bytes + engine.memtable_bytes / 4);
        IDLE_BYTES
            + AUDIT_BYTES
            + memory
            + limits.sending_bytes(usable)
            + connections as u64 * CONNECTION_BYTES
            + engine.cache_bytes
            + memtables
            + LANES * engine.max_queued_bytes as u64
            + config.data.read_ahead
    }

    #[test]
    fn the_operations_guide_says_what_a_server_takes_at_most_by_its_memory() {
        let sums = [256 * MIB, 512 * MIB, 1 << 30, 2 << 30].map(|usable| all_at_once(usable) / MIB);
        let written = |mib: u64| match mib {
            0..1_000 => mib.to_string(),
            _ => format!("{},{:03}", mib / 1_000, mib % 1_000),
        };
        let row = sums.map(written).join(" | ");
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/access.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        assert!(guide.contains(&format!("| all of this at once | | {row} |")), "{row}");
        assert!(all_at_once(2 << 30) <= 2 << 30);
    }
}
