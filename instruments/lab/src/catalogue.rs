//! Settings of Cassandra 5.0 that the lab knows: how they are applied, as tried on real nodes.

use crate::deployment;
use crate::factor::Applied;
use crate::rig::THROTTLE;

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
const OLD: [(&str, &str); 11] = [
    ("memtable_heap_space", "memtable_heap_space_in_mb"),
    ("memtable_offheap_space", "memtable_offheap_space_in_mb"),
    ("compaction_throughput", "compaction_throughput_mb_per_sec"),
    ("partition_size_warn_threshold", "compaction_large_partition_warning_threshold_mb"),
    ("key_cache_size", "key_cache_size_in_mb"),
    ("row_cache_size", "row_cache_size_in_mb"),
    ("commitlog_sync_period", "commitlog_sync_period_in_ms"),
    ("commitlog_sync_group_window", "commitlog_sync_group_window_in_ms"),
    ("commitlog_segment_size", "commitlog_segment_size_in_mb"),
    ("file_cache_size", "file_cache_size_in_mb"),
    ("column_index_size", "column_index_size_in_kb"),
];

/// The least values with which a node starts, of settings that a running node takes. Running nodes take
/// some that are less, and would not start again with them.
const LEAST: [(&str, u32); 3] = [("concurrent_compactors", 1), ("concurrent_reads", 2), ("concurrent_writes", 2)];

/// The option of a table that names a memtable of `cassandra.yaml`. All others are maps.
pub const MEMTABLE: &str = "memtable";

/// The memtables that the lab's nodes have where a plan varies them, with their classes, and the one
/// of tables that name none.
pub const MEMTABLES: [(&str, &str); 3] =
    [("skiplist", "SkipListMemtable"), ("skiplist_sharded", "ShardedSkipListMemtable"), ("trie", "TrieMemtable")];
/// See [`MEMTABLES`].
pub const MEMTABLE_DEFAULT: &str = "default";

/// What an option of a table may be.
pub(crate) const TABLE_RULE: &str =
    "compaction, compression or caching, with a flat map such as {'class': '…'}, or memtable with a name";

/// The format of files of tables.
pub const FORMAT: &str = "sstable.selected_format";

/// The setting that says which earlier nodes can read what a node writes, and its value for none.
pub const COMPATIBILITY: &str = "storage_compatibility_mode";
/// See [`COMPATIBILITY`].
pub const COMPATIBLE_WITH_NONE: &str = "NONE";

/// Whether a node starts with a format of files only if Cassandra 4 need not read them.
pub fn needs_compatibility(format: &str) -> bool {
    format.trim() == "bti"
}

/// The factor that says which Java runs the nodes: the path of its home, or the name of a folder in
/// `/usr/lib/jvm`.
pub const JDK: &str = "jdk";

/// The factor that says how much of the heap is for young objects, in MiB: `-Xmn`.
pub const YOUNG: &str = "young";

/// The name that a setting had before.
pub fn old_name(name: &str) -> Option<&'static str> {
    OLD.iter().find(|(new, _)| *new == name).map(|(_, old)| *old)
}

/// All of them. The caches are applied by a restart, because `system_views.settings` does not
/// follow what a running node is given.
pub const KNOWN: [Known; 35] = [
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
    restart(FORMAT),
    table("compaction"),
    table("compression"),
    table("caching"),
    table(MEMTABLE),
    around(deployment::NODES, Applied::Cluster),
    around(deployment::CONTAINER, Applied::Cluster),
    around(deployment::COPIES, Applied::Keyspace),
    around(deployment::CONSISTENCY, Applied::Keyspace),
    Known { name: "heap", applied: Applied::Heap, nodetool: None },
    Known { name: YOUNG, applied: Applied::Jvm, nodetool: None },
    Known { name: "collector", applied: Applied::Jvm, nodetool: None },
    Known { name: JDK, applied: Applied::Jvm, nodetool: None },
];

/// The setting of a name.
pub fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The least value of a setting that is a number.
pub fn least(name: &str) -> u32 {
    LEAST.iter().find(|(known, _)| *known == name).map_or(0, |(_, least)| *least)
}

/// The value as `nodetool` takes it: a rate is a whole number of MiB per second. `None` if it does not
/// take it, or if a node does not start with it.
pub fn for_nodetool(name: &str, value: &str) -> Option<String> {
    match name {
        THROTTLE => {
            let bytes = crate::value::bytes(value)?;
            let mib = bytes / f64::from(1 << 20);
            (mib.fract() == 0.0 && mib >= 0.0).then(|| format!("{mib:.0}"))
        }
        _ => value.parse::<u32>().ok().filter(|number| *number >= least(name)).map(|number| number.to_string()),
    }
}

/// The value as `cassandra.yaml` takes it. There a rate is a whole number of MiB, KiB or B per second,
/// always with its unit: a node does not start with others, which `nodetool` or the lab may take.
pub fn for_yaml(name: &str, value: &str) -> String {
    let known = find(name).filter(|known| known.nodetool.is_some());
    match known.and_then(|_| for_nodetool(name, value)) {
        Some(mib) if name == THROTTLE => format!("{mib}MiB/s"),
        Some(number) => number,
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_node_is_given_what_its_command_takes() {
        for (name, value, expected) in [
            ("concurrent_compactors", "4", "setconcurrentcompactors 4"),
            ("compaction_throughput", "16MiB/s", "setcompactionthroughput 16"),
            ("compaction_throughput", "0", "setcompactionthroughput 0"),
            ("concurrent_reads", "64", "setconcurrency ReadStage 64"),
            ("concurrent_writes", "128", "setconcurrency MutationStage 128"),
        ] {
            let words = find(name).and_then(|known| known.nodetool).map(|words| words.join(" "));
            let given = words.zip(for_nodetool(name, value)).map(|(words, value)| format!("{words} {value}"));
            assert_eq!(given.as_deref(), Some(expected));
        }
        assert_eq!(for_nodetool("compaction_throughput", "1.5MiB/s"), None);
    }

    #[test]
    fn the_file_of_a_node_has_rates_with_their_unit_and_no_number_with_which_it_does_not_start() {
        for (name, value, expected) in [
            ("compaction_throughput", "0", "0MiB/s"),
            ("compaction_throughput", "16MiB", "16MiB/s"),
            ("compaction_throughput", "1GiB/s", "1024MiB/s"),
            ("compaction_throughput", "1.5GiB/s", "1536MiB/s"),
            ("compaction_throughput", "64MiB/s", "64MiB/s"),
            // Of a factor that is applied by a restart only.
            ("compaction_throughput", "500KiB/s", "500KiB/s"),
            ("concurrent_reads", "032", "32"),
            ("memtable_heap_space", "1GiB", "1GiB"),
        ] {
            assert_eq!(for_yaml(name, value), expected);
        }
        for (name, least) in LEAST {
            assert_eq!(for_nodetool(name, &least.to_string()), Some(least.to_string()), "{name}");
            assert_eq!(for_nodetool(name, &(least - 1).to_string()), None, "{name}");
        }
    }
}
