//! What a run measures: names, units, and which direction is better.

use crate::hold::HELD_RATE;

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

/// The share of operations that were not done, 0 to 1. Every run has it.
pub const FAILED_SHARE: &str = "failed_share";

/// Operations that were due in the measured time. Every run has it.
pub const DUE: &str = "due";

/// How late the load itself was sent: the 99th percentile in milliseconds. Every run has it.
pub const LATENESS_P99_MS: &str = "lateness_p99_ms";

/// What a metric is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Latencies of all operations, of reads or of writes: how late the load is sent is a part of them.
    Operations,
    /// See [`Source::Operations`].
    Reads,
    /// See [`Source::Operations`].
    Writes,
    /// Bytes to the disk by bytes written, so there have to be writes.
    WrittenBytes,
    /// Bytes from the disk by bytes read, so there have to be reads.
    ReadBytes,
    /// Loads at several rates, so the workload has to say what is to be held.
    Held,
    /// MBeans of the node.
    MBeans,
    /// Anything else, which every run has.
    Other,
}

/// The metrics that are read from MBeans, without what goes on until the node is drained.
const OF_MBEANS: [&str; 20] = [
    "bytes_flushed",
    "memtable_switches",
    "memtable_waits",
    "commitlog_commit_waits",
    "commitlog_segment_waits",
    "sstables",
    "sstables_per_read",
    "memtable_bytes",
    "gc_count",
    "gc_ms",
    "pending_flushes",
    "pending_compactions",
    "pending_compactions_max",
    "dropped_messages",
    "timeouts",
    "jmx_compacted_bytes",
    "jmx_compactions",
    "compaction_tasks",
    "reads_before_flushes_bytes_per_s",
    "reads_after_flushes_bytes_per_s",
];

impl Metric {
    /// What it is measured by.
    pub fn source(&self) -> Source {
        let name = self.name.strip_suffix(crate::costs::DRAINED).unwrap_or(self.name);
        match name {
            "mean_ms" | "p50_ms" | "p90_ms" | "p99_ms" | "p999_ms" => Source::Operations,
            "read_mean_ms" | "read_p99_ms" => Source::Reads,
            "write_mean_ms" | "write_p99_ms" => Source::Writes,
            "write_amplification" => Source::WrittenBytes,
            "read_amplification" => Source::ReadBytes,
            HELD_RATE => Source::Held,
            "compaction_rate_bytes_per_s" => Source::MBeans,
            name if OF_MBEANS.contains(&name) => Source::MBeans,
            _ => Source::Other,
        }
    }

    /// Whether only Cassandra says it: its MBeans, and its account of compactions.
    pub fn is_of_cassandra(&self) -> bool {
        let name = self.name.strip_suffix(crate::costs::DRAINED).unwrap_or(self.name);
        self.source() == Source::MBeans || ["compacted_bytes", "compactions"].contains(&name)
    }

    /// Whether it is a latency of operations, so that the load itself is a part of it.
    pub fn is_latency(&self) -> bool {
        matches!(self.source(), Source::Operations | Source::Reads | Source::Writes)
    }
}

/// Metrics that can be objectives. The files of a run have more.
pub const KNOWN: [Metric; 56] = [
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
    less(FAILED_SHARE, "operations that were not done", "share"),
    more("rate_per_s", "operations done", "per second"),
    more(HELD_RATE, "highest rate under the bound", "per second"),
    less("compacted_bytes", "bytes compacted during the load", "bytes"),
    less("compacted_bytes_drained", "bytes compacted until drained", "bytes"),
    less("compactions", "compactions during the load", ""),
    less("compactions_drained", "compactions until drained", ""),
    less("drain_s", "time until flushes and compactions have ended", "s"),
    less("disk_bytes", "size on disk in the end", "bytes"),
    less("space_amplification", "size on disk by size of records", ""),
    less("write_amplification", "bytes to disk by bytes written, during the load", ""),
    less("write_amplification_drained", "bytes to disk by bytes written, until drained", ""),
    less("read_amplification", "bytes from disk by bytes of the records read, during the load", ""),
    less("read_amplification_drained", "bytes from disk by bytes of the records read, until drained", ""),
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
    less("packet_round_trip_ms", "round trip of packets to the node", "ms"),
    less("node_cpu", "processors in use by the node", ""),
    less("node_memory_bytes", "memory of the node", "bytes"),
    less("node_read_bytes_per_s", "reads of the node from the disk", "bytes per second"),
    less("node_written_bytes_per_s", "writes of the node to the disk", "bytes per second"),
    less("reads_before_flushes_bytes_per_s", "reads of the disk in the seconds before flushes", "bytes per second"),
    less("reads_after_flushes_bytes_per_s", "reads of the disk in the seconds after flushes", "bytes per second"),
    less("disk_latency_ms", "latency of the disk", "ms"),
    less("disk_bytes_per_s", "throughput of the disk, reads and writes", "bytes per second"),
    less("cpu", "processors in use, of all", "share"),
];

/// The metric of a name.
pub fn find(name: &str) -> Option<&'static Metric> {
    KNOWN.iter().find(|known| known.name == name)
}
