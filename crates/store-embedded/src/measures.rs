//! What the engine measures of itself: its disk, its lanes, and the database of each.

use store::Measure;
use store::Measured::{Counter, Gauge};

use crate::room::Room;
use crate::row_cache::RowActivity;
use crate::tables::Activity;
use crate::writer::Writer;

/// The disk. Its free bytes are part of the store's health.
pub(crate) fn of_room(room: &Room) -> Option<Measure> {
    let total = room.total_bytes()? as f64;
    Some(Measure::new("penates_store_disk_size_bytes", "Size of the store's disk", Gauge(total)))
}

/// The queue of a lane.
pub(crate) fn of_writer(writer: &Writer) -> Vec<Measure> {
    let load = writer.load();
    vec![
        Measure::new(
            "penates_store_writes_waiting",
            "Writes that wait for the committer of the lane",
            Gauge(load.waiting as f64),
        ),
        Measure::new(
            "penates_store_oldest_write_seconds",
            "How long the oldest of them has waited",
            Gauge(load.oldest.as_secs_f64()),
        ),
        Measure::new(
            "penates_store_writes_admitted_bytes",
            "Bytes of writes that wait or are being committed",
            Gauge(writer.admitted_bytes() as f64),
        ),
        Measure::new(
            "penates_store_writes_refused_total",
            "Writes that were refused because others had waited too long",
            Counter(load.refused),
        ),
    ]
}

/// The database of a lane.
pub(crate) fn of_tables(activity: &Activity) -> Vec<Measure> {
    let gauge = |family, help, value: u64| Measure::new(family, help, Gauge(value as f64));
    let counter = |family, help, value| Measure::new(family, help, Counter(value));
    let blocks = |source, value| {
        counter("penates_embedded_block_reads_total", "Blocks that reads needed, by where they were found", value)
            .of("source", source)
    };
    let of_rows = activity.rows.iter().flat_map(of_row_cache);
    let of_database = vec![
        gauge(
            "penates_embedded_tables_bytes",
            "Bytes of the database's files, without its journals",
            activity.table_bytes,
        ),
        gauge("penates_embedded_journals", "Files of the database's journal", activity.journals),
        gauge(
            "penates_embedded_memtables_unflushed",
            "Memtables that wait to be written to files",
            activity.unflushed_memtables,
        ),
        gauge("penates_embedded_cache_bytes", "Bytes in the cache of blocks", activity.cache_bytes),
        gauge("penates_embedded_cache_limit_bytes", "The most bytes of that cache", activity.cache_bytes_max),
        gauge("penates_embedded_compactions_active", "Compactions at work", activity.compactions_at_work),
        counter("penates_embedded_compactions_total", "Compactions that ended", activity.compactions),
        counter(
            "penates_embedded_compaction_seconds_total",
            "Whole seconds of compacting",
            activity.compacting.as_secs(),
        ),
        blocks("cache", activity.blocks_from_cache),
        blocks("file", activity.blocks_from_files),
    ];
    of_database.into_iter().chain(of_rows).collect()
}

/// The cache of whole rows.
fn of_row_cache(activity: &RowActivity) -> Vec<Measure> {
    let gauge = |family, help, value: u64| Measure::new(family, help, Gauge(value as f64));
    let reads = |source, value| {
        let help = "Rows that were read by their keys, by where they were looked up";
        Measure::new("penates_embedded_row_reads_total", help, Counter(value)).of("source", source)
    };
    vec![
        reads("cache", activity.hits),
        reads("database", activity.misses),
        gauge("penates_embedded_row_cache_bytes", "Bytes in the cache of whole rows", activity.bytes),
        gauge("penates_embedded_row_cache_limit_bytes", "The most bytes of that cache", activity.bytes_max),
    ]
}
