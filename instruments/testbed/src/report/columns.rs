//! Names of a monitor's columns: which share a chart, and their units.

use crate::page::number::Unit;

/// Columns that share a chart.
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    pub(super) top: Option<f64>,
    /// Names of columns with their labels.
    columns: &'static [(&'static str, &'static str)],
}

/// Columns of processes and of nodes of Cassandra, after the name and a point.
pub(super) const PROCESS: [Group; 12] = [
    group("Processors, by process", Unit::Plain, None, &[("cpu", "")]),
    group(
        "Memory, by process",
        Unit::Bytes,
        None,
        &[("memory_bytes", ""), ("memory_used_bytes", "without pages of files"), ("memory_limit_bytes", "limit")],
    ),
    group(
        "Disk, by process",
        Unit::BytesPerSecond,
        None,
        &[("read_bytes_per_s", "read"), ("written_bytes_per_s", "written")],
    ),
    group("Threads", Unit::Plain, None, &[("threads", "")]),
    group("Open files", Unit::Plain, None, &[("open_files", "")]),
    group("Compactions that wait or run", Unit::Plain, None, &[("pending_compactions", "")]),
    group("Read by compactions", Unit::BytesPerSecond, None, &[("compacted_bytes_per_s", "")]),
    group("Flushes begun", Unit::PerSecond, None, &[("memtable_switches_per_s", "")]),
    group("Collections of garbage", Unit::PerSecond, None, &[("gc_per_s", "")]),
    group("Time in collections of garbage", Unit::Share, None, &[("gc_share", "")]),
    group(
        "Dropped messages and time-outs of Cassandra",
        Unit::PerSecond,
        None,
        &[("dropped_messages_per_s", "dropped"), ("timeouts_per_s", "timed out")],
    ),
    group("Live data of Cassandra", Unit::Bytes, None, &[("live_bytes", "")]),
];

/// Columns of a machine.
pub(super) const MACHINE: [Group; 8] = [
    group(
        "Processors of the machine",
        Unit::Share,
        Some(1.0),
        &[
            ("cpu", "all"),
            ("cpu_user", "user"),
            ("cpu_system", "system"),
            ("cpu_iowait", "I/O wait"),
            ("cpu_steal", "steal"),
        ],
    ),
    group(
        "Memory of the machine",
        Unit::Bytes,
        None,
        &[("memory_used_bytes", "used"), ("memory_cached_bytes", "cached")],
    ),
    group(
        "Disk throughput",
        Unit::BytesPerSecond,
        None,
        &[("disk_read_bytes_per_s", "read"), ("disk_written_bytes_per_s", "written")],
    ),
    group("Disk operations", Unit::PerSecond, None, &[("disk_reads_per_s", "reads"), ("disk_writes_per_s", "writes")]),
    group("Disk busy and full", Unit::Share, Some(1.0), &[("disk_busy", "time busy"), ("disk_used", "space used")]),
    group("Disk latency", Unit::Milliseconds, None, &[("disk_latency_ms", "mean latency")]),
    group(
        "Network",
        Unit::BytesPerSecond,
        None,
        &[("network_received_bytes_per_s", "received"), ("network_sent_bytes_per_s", "sent")],
    ),
    group(
        "Pressure: share of time stalled",
        Unit::Share,
        None,
        &[("pressure_cpu", "processors"), ("pressure_memory", "memory"), ("pressure_io", "I/O")],
    ),
];

impl Group {
    /// The label of a process's column in this chart; `None` if the column does not belong there.
    pub(super) fn process_label(&self, column: &str) -> Option<String> {
        let (process, name) = column.rsplit_once('.')?;
        if is_metric(column) {
            return None;
        }
        let label = self.machine_label(name)?;
        Some(format!("{process} {label}").trim().to_owned())
    }

    /// The label of a machine's column in this chart; `None` if the column does not belong there.
    pub(super) fn machine_label(&self, column: &str) -> Option<String> {
        self.columns.iter().find(|(name, _)| *name == column).map(|(_, label)| (*label).to_owned())
    }

    /// Where a column's line is among those of this chart.
    pub(super) fn position(&self, column: &str) -> Option<usize> {
        let name = column.rsplit_once('.').map_or(column, |(_, name)| name);
        self.columns.iter().position(|(known, _)| *known == name)
    }
}

/// Whether a column is of the candidate's own metrics.
fn is_metric(column: &str) -> bool {
    column.starts_with("metrics.")
}

/// A unit, from the end of a column's name before its labels.
pub(super) fn unit(column: &str) -> Unit {
    const ENDS: [(&str, Unit); 4] = [
        ("_bytes_per_s", Unit::BytesPerSecond),
        ("_per_s", Unit::PerSecond),
        ("_bytes", Unit::Bytes),
        ("_ms", Unit::Milliseconds),
    ];
    let name = column.split('{').next().unwrap_or_default();
    ENDS.iter().find(|(end, _)| name.ends_with(end)).map_or(Unit::Plain, |(_, unit)| *unit)
}

const fn group(
    title: &'static str,
    unit: Unit,
    top: Option<f64>,
    columns: &'static [(&'static str, &'static str)],
) -> Group {
    Group { title, unit, top, columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_is_its_unit() {
        assert_eq!(unit("metrics.gc_pause_ms"), Unit::Milliseconds);
        assert_eq!(unit("metrics.cache_bytes{level=\"1_ms\"}"), Unit::Bytes);
        assert_eq!(unit("metrics.flushed_bytes_per_s"), Unit::BytesPerSecond);
        assert_eq!(unit("metrics.segments"), Unit::Plain);
    }

    #[test]
    fn a_metric_that_is_named_like_a_process_is_a_metric() {
        assert_eq!(PROCESS[0].process_label("server.cpu").as_deref(), Some("server"));
        assert_eq!(PROCESS[0].process_label("metrics.cpu"), None);
        assert_eq!(PROCESS[0].process_label("metrics.server.cpu"), None);
        assert_eq!(PROCESS[1].process_label("container.memory_limit_bytes").as_deref(), Some("container limit"));
    }
}
