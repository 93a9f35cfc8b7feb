//! Settings of Cassandra 5.0 that the lab knows: how they are applied, as tried on real nodes.

use crate::deployment;
use crate::factor::Applied;

/// A setting that the lab knows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// How it gets into force.
    pub applied: Applied,
    /// The command of `nodetool` that sets it at run time, before the value.
    pub nodetool: Option<&'static [&'static str]>,
}

const fn restart(name: &'static str) -> Known {
    Known { name, applied: Applied::Restart, nodetool: None }
}

const fn live(name: &'static str, nodetool: &'static [&'static str]) -> Known {
    Known { name, applied: Applied::Live, nodetool: Some(nodetool) }
}

const fn table(name: &'static str) -> Known {
    Known { name, applied: Applied::Table, nodetool: None }
}

const fn around(name: &'static str, applied: Applied) -> Known {
    Known { name, applied, nodetool: None }
}

/// The names that settings had before Cassandra 4.1. A node does not start with a setting under both
/// names.
const OLD: [(&str, &str); 10] = [
    ("memtable_heap_space", "memtable_heap_space_in_mb"),
    ("memtable_offheap_space", "memtable_offheap_space_in_mb"),
    ("compaction_throughput", "compaction_throughput_mb_per_sec"),
    ("partition_size_warn_threshold", "compaction_large_partition_warning_threshold_mb"),
    ("key_cache_size", "key_cache_size_in_mb"),
    ("row_cache_size", "row_cache_size_in_mb"),
    ("commitlog_sync_period", "commitlog_sync_period_in_ms"),
    ("commitlog_segment_size", "commitlog_segment_size_in_mb"),
    ("file_cache_size", "file_cache_size_in_mb"),
    ("column_index_size", "column_index_size_in_kb"),
];

/// The option of a table that names a memtable of `cassandra.yaml`. All others are maps.
pub const MEMTABLE: &str = "memtable";

/// The memtables that the lab's nodes have where a plan varies them, with their classes, and the one
/// of tables that name none.
pub const MEMTABLES: [(&str, &str); 3] =
    [("skiplist", "SkipListMemtable"), ("skiplist_sharded", "ShardedSkipListMemtable"), ("trie", "TrieMemtable")];
/// See [`MEMTABLES`].
pub const MEMTABLE_DEFAULT: &str = "default";

/// The name that a setting had before.
pub fn old_name(name: &str) -> Option<&'static str> {
    OLD.iter().find(|(new, _)| *new == name).map(|(_, old)| *old)
}

/// All of them. The caches are applied by a restart, because `system_views.settings` does not
/// follow what a running node is given.
pub const KNOWN: [Known; 33] = [
    restart("memtable_heap_space"),
    restart("memtable_offheap_space"),
    restart("memtable_allocation_type"),
    restart("memtable_flush_writers"),
    restart("memtable_cleanup_threshold"),
    live("concurrent_compactors", &["setconcurrentcompactors"]),
    live("compaction_throughput", &["setcompactionthroughput"]),
    restart("snapshot_before_compaction"),
    restart("partition_size_warn_threshold"),
    live("concurrent_reads", &["setconcurrency", "ReadStage"]),
    live("concurrent_writes", &["setconcurrency", "MutationStage"]),
    restart("native_transport_max_threads"),
    restart("key_cache_size"),
    restart("row_cache_size"),
    restart("commitlog_sync"),
    restart("commitlog_sync_period"),
    restart("commitlog_segment_size"),
    restart("disk_access_mode"),
    restart("flush_compression"),
    restart("trickle_fsync"),
    restart("file_cache_size"),
    restart("column_index_size"),
    restart("sstable.selected_format"),
    table("compaction"),
    table("compression"),
    table("caching"),
    table(MEMTABLE),
    around(deployment::NODES, Applied::Cluster),
    around(deployment::CONTAINER, Applied::Cluster),
    around(deployment::COPIES, Applied::Keyspace),
    around(deployment::CONSISTENCY, Applied::Keyspace),
    Known { name: "heap", applied: Applied::Heap, nodetool: None },
    Known { name: "collector", applied: Applied::Jvm, nodetool: None },
];

/// The setting of a name.
pub fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The value as `nodetool` takes it: a rate is a whole number of MiB per second.
pub fn for_nodetool(name: &str, value: &str) -> Option<String> {
    match name {
        "compaction_throughput" => {
            let bytes = crate::value::bytes(value)?;
            let mib = bytes / f64::from(1 << 20);
            (mib.fract() == 0.0 && mib >= 0.0).then(|| format!("{mib:.0}"))
        }
        _ => value.parse::<u32>().ok().map(|number| number.to_string()),
    }
}
