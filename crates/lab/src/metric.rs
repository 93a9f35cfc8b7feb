//! What a run measures: names, units, and which direction is better.

/// A metric that can be an objective.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name in files.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether less of it is better.
    pub is_less_better: bool,
}

const fn less(name: &'static str, title: &'static str, unit: &'static str) -> Metric {
    Metric { name, title, unit, is_less_better: true }
}

const fn more(name: &'static str, title: &'static str, unit: &'static str) -> Metric {
    Metric { name, title, unit, is_less_better: false }
}

/// Metrics that can be objectives. The files of a run have more.
pub const KNOWN: [Metric; 48] = [
    less("mean_ms", "mean latency", "ms"),
    less("p50_ms", "median latency", "ms"),
    less("p90_ms", "p90 of latency", "ms"),
    less("p99_ms", "p99 of latency", "ms"),
    less("p999_ms", "p99.9 of latency", "ms"),
    less("read_mean_ms", "mean latency of reads", "ms"),
    less("read_p99_ms", "p99 of reads", "ms"),
    less("write_mean_ms", "mean latency of writes", "ms"),
    less("write_p99_ms", "p99 of writes", "ms"),
    less("late_share", "operations above 10 ms", "share"),
    more("rate_per_s", "operations done", "per second"),
    less("compacted_bytes", "bytes compacted during the load", "bytes"),
    less("compacted_bytes_drained", "bytes compacted until drained", "bytes"),
    less("compactions", "compactions during the load", ""),
    less("compactions_drained", "compactions until drained", ""),
    less("drain_s", "time until flushes and compactions have ended", "s"),
    less("disk_bytes", "size on disk in the end", "bytes"),
    less("space_amplification", "size on disk by size of records", ""),
    less("write_amplification", "bytes to disk by bytes written, during the load", ""),
    less("write_amplification_drained", "bytes to disk by bytes written, until drained", ""),
    less("cpu_ms_per_operation", "processor time of the node per operation, during the load", "ms"),
    less("cpu_ms_per_operation_drained", "processor time of the node per operation, until drained", "ms"),
    less("node_read_bytes", "reads of the node from the disk during the load", "bytes"),
    less("node_read_bytes_drained", "reads of the node from the disk until drained", "bytes"),
    less("node_written_bytes", "writes of the node to the disk during the load", "bytes"),
    less("node_written_bytes_drained", "writes of the node to the disk until drained", "bytes"),
    less("bytes_flushed_drained", "bytes flushed until drained", "bytes"),
    less("memtable_switches_drained", "flushes until drained", ""),
    less("memtable_waits", "waits for memtable space", ""),
    less("commitlog_commit_waits", "waits for the commit log to be written", ""),
    less("commitlog_segment_waits", "waits for a segment of the commit log", ""),
    less("sstables_per_read", "tables that a read looks at", ""),
    less("gc_count", "collections of garbage during the load", ""),
    less("gc_ms", "time of collections of garbage during the load", "ms"),
    less("pending_compactions", "compactions that wait", ""),
    less("pending_compactions_max", "most compactions that waited", ""),
    less("dropped_messages", "dropped messages", ""),
    less("timeouts", "requests that took too long for the node", ""),
    less("jmx_compacted_bytes", "bytes compacted, of all tables and before compression", "bytes"),
    less("jmx_compactions", "compactions of all tables", ""),
    less("compaction_tasks", "completed tasks of compaction", ""),
    less("compaction_rate_bytes_per_s", "rate of compaction", "bytes per second"),
    less("node_cpu", "processors in use by the node", ""),
    less("node_memory_bytes", "memory of the node", "bytes"),
    less("node_read_bytes_per_s", "reads of the node from the disk", "bytes per second"),
    less("node_written_bytes_per_s", "writes of the node to the disk", "bytes per second"),
    less("disk_latency_ms", "latency of the disk", "ms"),
    less("cpu", "processors in use, of all", "share"),
];

/// The metric of a name.
pub fn find(name: &str) -> Option<&'static Metric> {
    KNOWN.iter().find(|known| known.name == name)
}
