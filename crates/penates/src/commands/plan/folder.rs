//! The sums of a data folder.

use serde::{Deserialize, Serialize};

use super::cluster::{Cluster, Network, NetworkCosts, NodeCosts, cluster, network};

const DAYS_PER_YEAR: f64 = 365.25;
pub(super) const SECONDS_PER_DAY: f64 = 86_400.0;

/// The part of what is on disk that only a data folder has.
pub(super) const EMPTY: &str = "an empty store";

/// The default of `fixity.rate`, in bytes per second.
const FIXITY_RATE: f64 = 8_388_608.0;

/// Bytes that the auditor counts for each object in addition to its own: what it takes to find it.
const FIXITY_OBJECT_BYTES: f64 = 4_096.0;

/// By default `limits.memory` is at most one part in this number of the memory of the machine.
const LIMITS_ONE_OF: f64 = 4.0;

/// What everything costs. Bytes are those of files after compaction, times are of a processor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Costs {
    /// The share of a processor that may be busy, so that answers are in time.
    pub(super) busy_at_most: f64,
    /// The share of the disk that may be full, so that compactions and backups have room.
    pub(super) full_at_most: f64,
    pub(super) disk: DiskCosts,
    pub(super) search: SearchCosts,
    pub(super) memory: MemoryCosts,
    pub(super) processor: ProcessorCosts,
    pub(super) network: NetworkCosts,
    pub(super) cassandra: NodeCosts,
}

/// Bytes on disk.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiskCosts {
    /// What a store has that is empty: its reserve and its journals.
    empty_bytes: f64,
    /// Bytes of a frame, per byte of text.
    frame_ratio: f64,
    /// Of a page, beside its frame: directory and digests.
    page_bytes: f64,
    /// Of a volume, beside its pages: METS, record, head.
    volume_bytes: f64,
    /// Of a resource, beside its description and its content.
    pub(super) resource_bytes: f64,
    /// Of a description, per byte of N-Triples.
    description_ratio: f64,
    /// Of a content, beside its bytes.
    binary_bytes: f64,
    /// Of a record, beside its own bytes.
    record_bytes: f64,
    /// Of the audit: for a volume that a request names, and for a change.
    pub(super) audit_volume_bytes: f64,
    pub(super) audit_change_bytes: f64,
    /// Of a change of a resource, beside its audit and what it wrote: head log and change feed.
    pub(super) change_bytes: f64,
}

/// The search index.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchCosts {
    /// Rows of a resource, and of one with a content. A change writes them again, and removes
    /// the earlier ones.
    rows: f64,
    binary_rows: f64,
    /// Bytes of a row.
    pub(super) row_bytes: f64,
    /// Microseconds for a change of a resource.
    change_us: f64,
}

impl SearchCosts {
    /// Rows of a resource such as is wanted.
    pub(super) fn rows(&self, wanted: Wanted) -> f64 {
        match (wanted.has_search, wanted.binary_bytes > 0.0) {
            (false, _) => 0.0,
            (true, false) => self.rows,
            (true, true) => self.binary_rows,
        }
    }
}

/// Memory.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryCosts {
    /// A server that does nothing.
    idle_bytes: f64,
    /// The default of `limits.memory` where there is enough memory. What is on its way takes a quarter
    /// more, and the engine's cache at most as much again.
    limits_bytes: f64,
    /// The share of what is small and looked up (heads, directories) that the cache of the system
    /// should hold.
    pub(super) hot: f64,
}

/// Processor time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessorCosts {
    /// Milliseconds for a GB of archives.
    bulk_ms_per_gb: f64,
    /// Microseconds for a single page, for reading a resource, and for a change of one.
    page_us: f64,
    read_us: f64,
    change_us: f64,
    /// Seconds for importing a GB of text.
    import_s_per_gb: f64,
}

/// What is wanted. Sizes are in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) volumes: f64,
    pub(super) pages: f64,
    pub(super) page_bytes: f64,
    pub(super) resources: f64,
    pub(super) description_bytes: f64,
    pub(super) binary_bytes: f64,
    pub(super) records: f64,
    pub(super) record_bytes: f64,
    pub(super) bulk_bytes_per_day: f64,
    pub(super) volumes_per_day: f64,
    pub(super) pages_per_second: f64,
    pub(super) reads_per_second: f64,
    pub(super) changes_per_second: f64,
    pub(super) replaced_per_day: f64,
    pub(super) years: f64,
    /// Whether there is a search index.
    pub(super) has_search: bool,
    /// On Cassandra.
    pub(super) copies: f64,
}

/// A machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) cores: f64,
    pub(super) memory_bytes: f64,
    pub(super) disk_bytes: f64,
}

/// A part of what is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Disk {
    pub(super) what: &'static str,
    pub(super) bytes: f64,
    /// Whether the fixity auditor reads it.
    #[serde(skip)]
    is_checked: bool,
}

/// What is needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Need {
    /// What is on disk, in parts.
    pub(super) disk: Vec<Disk>,
    /// The size of the disk.
    pub(super) disk_bytes: f64,
    pub(super) memory_bytes: f64,
    pub(super) cores: f64,
    /// How long the first import of all volumes takes.
    pub(super) import_hours: f64,
    /// How long a pass of the fixity auditor takes.
    pub(super) fixity_days: f64,
    /// What goes over the network between clients and servers.
    pub(super) network: Network,
    /// What the machine has too little of.
    pub(super) too_little: Vec<&'static str>,
    /// What the same needs on Cassandra, of such machines.
    pub(super) cassandra: Cluster,
}

/// What a data folder needs, and what the same needs on Cassandra.
pub(super) fn need(costs: &Costs, wanted: Wanted, machine: Machine) -> Need {
    let disk = on_disk(costs, wanted);
    let bytes: f64 = disk.iter().map(|part| part.bytes).sum();
    let disk_bytes = bytes / costs.full_at_most;
    let cores = busy(costs, wanted) / costs.busy_at_most;
    let looked_up = small(&costs.disk, wanted);
    let memory = &costs.memory;
    let limits_bytes = memory.limits_bytes.min(machine.memory_bytes / LIMITS_ONE_OF);
    let memory_bytes = memory.idle_bytes + limits_bytes * 2.25 + looked_up * memory.hot;
    let text_gb = wanted.volumes * wanted.pages * wanted.page_bytes / 1e9;
    let import_hours = text_gb * costs.processor.import_s_per_gb / machine.cores / 3_600.0;
    let checked: f64 = disk.iter().filter(|part| part.is_checked).map(|part| part.bytes).sum();
    let checked = checked + (wanted.volumes + wanted.resources) * FIXITY_OBJECT_BYTES;
    let shares = [
        ("disk", disk_bytes > machine.disk_bytes),
        ("memory", memory_bytes > machine.memory_bytes),
        ("processor cores", cores > machine.cores),
    ];
    Need {
        cassandra: cluster(costs, wanted, machine, &disk, cores),
        network: network(costs, wanted),
        disk,
        disk_bytes,
        memory_bytes,
        cores,
        import_hours,
        fixity_days: checked / FIXITY_RATE / SECONDS_PER_DAY,
        too_little: shares.into_iter().filter_map(|(what, is_short)| is_short.then_some(what)).collect(),
    }
}

/// Bytes of a volume with all that belongs to it.
pub(super) fn volume_bytes(costs: &DiskCosts, wanted: Wanted) -> f64 {
    costs.volume_bytes + wanted.pages * (wanted.page_bytes * costs.frame_ratio + costs.page_bytes)
}

/// Bytes of what is small and looked up all the time.
pub(super) fn small(costs: &DiskCosts, wanted: Wanted) -> f64 {
    wanted.volumes * wanted.pages * costs.page_bytes + wanted.resources * costs.resource_bytes
}

/// Bytes of a resource that a request reads or writes: its content, or its description.
pub(super) fn written(wanted: Wanted) -> f64 {
    if wanted.binary_bytes > 0.0 { wanted.binary_bytes } else { wanted.description_bytes }
}

fn on_disk(costs: &Costs, wanted: Wanted) -> Vec<Disk> {
    let Costs { disk: costs, search, .. } = costs;
    let days = wanted.years * DAYS_PER_YEAR;
    let changes = wanted.changes_per_second * SECONDS_PER_DAY * days;
    let pages_read = wanted.pages_per_second * SECONDS_PER_DAY * days;
    let description = wanted.description_bytes * costs.description_ratio;
    let of_content = if wanted.binary_bytes > 0.0 { wanted.binary_bytes + costs.binary_bytes } else { 0.0 };
    let written = if wanted.binary_bytes > 0.0 { of_content } else { description };
    let audited_volumes = wanted.volumes_per_day * days + pages_read + wanted.replaced_per_day * days;
    // Whether the auditor reads it is last.
    let parts = [
        (EMPTY, costs.empty_bytes, false),
        ("text of pages", wanted.volumes * wanted.pages * wanted.page_bytes * costs.frame_ratio, true),
        ("directories and digests of pages", wanted.volumes * wanted.pages * costs.page_bytes, true),
        ("METS, records and heads of volumes", wanted.volumes * costs.volume_bytes, true),
        // Superseded generations stay for a day.
        ("volumes that were replaced", wanted.replaced_per_day * volume_bytes(costs, wanted), false),
        ("descriptions of resources", wanted.resources * (costs.resource_bytes + description), true),
        ("contents of resources", wanted.resources * of_content, true),
        ("search index", wanted.resources * search.rows(wanted) * search.row_bytes, false),
        ("earlier versions of resources", changes * (costs.change_bytes + written), true),
        ("records", wanted.records * (wanted.record_bytes + costs.record_bytes), true),
        ("audit", audited_volumes * costs.audit_volume_bytes + changes * costs.audit_change_bytes, false),
    ];
    let there_is = parts.into_iter().filter(|(_, bytes, _)| *bytes > 0.0);
    there_is.map(|(what, bytes, is_checked)| Disk { what, bytes, is_checked }).collect()
}

/// Processors that are busy.
fn busy(costs: &Costs, wanted: Wanted) -> f64 {
    let indexing_us = if wanted.has_search { costs.search.change_us } else { 0.0 };
    let costs = &costs.processor;
    let bulk_ms = wanted.bulk_bytes_per_day / 1e9 * costs.bulk_ms_per_gb / SECONDS_PER_DAY;
    let us = wanted.pages_per_second * costs.page_us
        + wanted.reads_per_second * costs.read_us
        + wanted.changes_per_second * (costs.change_us + indexing_us);
    let replaced_gb = wanted.replaced_per_day * wanted.pages * wanted.page_bytes / 1e9;
    bulk_ms / 1e3 + us / 1e6 + replaced_gb * costs.import_s_per_gb / SECONDS_PER_DAY
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const COSTS: Costs = Costs {
        busy_at_most: 0.5,
        full_at_most: 0.5,
        disk: DiskCosts {
            empty_bytes: 100.0,
            frame_ratio: 0.5,
            page_bytes: 100.0,
            volume_bytes: 1_000.0,
            resource_bytes: 500.0,
            description_ratio: 0.5,
            binary_bytes: 200.0,
            record_bytes: 100.0,
            audit_volume_bytes: 300.0,
            audit_change_bytes: 200.0,
            change_bytes: 400.0,
        },
        search: SearchCosts { rows: 7.0, binary_rows: 12.0, row_bytes: 50.0, change_us: 40.0 },
        memory: MemoryCosts { idle_bytes: 10.0, limits_bytes: 100.0, hot: 0.5 },
        processor: ProcessorCosts {
            bulk_ms_per_gb: 1_000.0,
            page_us: 100.0,
            read_us: 50.0,
            change_us: 200.0,
            import_s_per_gb: 36.0,
        },
        network: NetworkCosts { head_bytes: 500.0 },
        cassandra: NodeCosts {
            data_bytes_at_most: 1e12,
            memory_bytes: 5e8,
            pack_bytes: 60_000.0,
            bulk_ms_per_gb: 1_000.0,
            page_us: 200.0,
            read_us: 100.0,
            change_us: 1_000.0,
            row_us: 100.0,
        },
    };

    const NOTHING: Wanted = Wanted {
        volumes: 0.0,
        pages: 100.0,
        page_bytes: 1_000.0,
        resources: 0.0,
        description_bytes: 1_000.0,
        binary_bytes: 0.0,
        records: 0.0,
        record_bytes: 400.0,
        bulk_bytes_per_day: 0.0,
        volumes_per_day: 0.0,
        pages_per_second: 0.0,
        reads_per_second: 0.0,
        changes_per_second: 0.0,
        replaced_per_day: 0.0,
        years: 1.0,
        has_search: false,
        copies: 3.0,
    };

    const MACHINE: Machine = Machine { cores: 2.0, memory_bytes: 1e9, disk_bytes: 1e12 };

    fn part(need: &Need, what: &str) -> f64 {
        need.disk.iter().find(|part| part.what == what).unwrap().bytes
    }

    #[test]
    fn a_library_needs_what_a_calculation_by_hand_says() {
        let wanted = Wanted { volumes: 1e6, resources: 1e6, binary_bytes: 9_800.0, ..NOTHING };
        let need = need(&COSTS, wanted, MACHINE);
        assert_eq!(part(&need, "text of pages"), 50e9);
        assert_eq!(part(&need, "directories and digests of pages"), 10e9);
        assert_eq!(part(&need, "METS, records and heads of volumes"), 1e9);
        assert_eq!(part(&need, "descriptions of resources"), 1e9);
        assert_eq!(part(&need, "contents of resources"), 10e9);
        assert_eq!(need.disk_bytes, (72e9 + 100.0) / 0.5);
        // Half of what is small: the directories and 500 bytes of each resource.
        assert_eq!(need.memory_bytes, 235.0 + 10.5e9 / 2.0);
        assert_eq!(need.too_little, ["memory"]);
        // 100 GB at 36 s on two cores.
        assert_eq!(need.import_hours, 0.5);
    }

    #[test]
    fn a_small_machine_has_less_for_its_clients() {
        let machine = Machine { memory_bytes: 200.0, ..MACHINE };
        assert_eq!(need(&COSTS, NOTHING, machine).memory_bytes, 10.0 + 50.0 * 2.25);
    }

    #[test]
    fn a_load_needs_processors_and_leaves_audit_and_versions() {
        let wanted = Wanted {
            bulk_bytes_per_day: 86_400e9,
            pages_per_second: 1_000.0,
            changes_per_second: 100.0,
            volumes_per_day: 1e6,
            ..NOTHING
        };
        let need = need(&COSTS, wanted, MACHINE);
        // A GB per second is one processor; pages take a tenth, changes 0.02.
        assert!((need.cores - 1.12 / 0.5).abs() < 1e-9, "{}", need.cores);
        assert_eq!(need.too_little, ["disk", "processor cores"]);
        let changes = 100.0 * SECONDS_PER_DAY * DAYS_PER_YEAR;
        assert_eq!(part(&need, "earlier versions of resources"), changes * 900.0);
        let audited = (1e6 + 1_000.0 * SECONDS_PER_DAY) * DAYS_PER_YEAR * 300.0 + changes * 200.0;
        assert_eq!(part(&need, "audit"), audited);
    }

    #[test]
    fn a_fixity_pass_reads_earlier_versions_and_records_too() {
        let seconds = |wanted| need(&COSTS, wanted, MACHINE).fixity_days * SECONDS_PER_DAY;
        let is_as_long = |seconds: f64, bytes: f64| (seconds * FIXITY_RATE / bytes - 1.0).abs() < 1e-9;
        let wanted = Wanted { volumes: 1e3, resources: 1e6, binary_bytes: 9_800.0, ..NOTHING };
        // Of a volume 61 kB, of a resource 11 kB, and 4 KiB to find each of them.
        let current = seconds(wanted);
        assert!(is_as_long(current, 1e3 * 61e3 + 1e6 * 11e3 + 1_001e3 * 4_096.0), "{current}");
        let changed = Wanted { changes_per_second: 20.0, ..wanted };
        let earlier = part(&need(&COSTS, changed, MACHINE), "earlier versions of resources");
        assert_eq!(earlier, 20.0 * SECONDS_PER_DAY * DAYS_PER_YEAR * 10_400.0);
        let more = seconds(changed) - current;
        assert!(is_as_long(more, earlier), "{more}");
        let with_records = seconds(Wanted { records: 1e9, ..NOTHING });
        assert!(is_as_long(with_records, 1e9 * 500.0), "{with_records}");
        // It reads neither the index nor the audit.
        assert_eq!(seconds(Wanted { has_search: true, volumes_per_day: 1e6, ..wanted }), current);
    }

    #[test]
    fn the_search_index_takes_disk_for_each_resource_and_time_for_each_change() {
        let graphs = Wanted { resources: 1e6, changes_per_second: 100.0, years: 0.0, ..NOTHING };
        let without = need(&COSTS, graphs, MACHINE);
        assert!(without.disk.iter().all(|part| part.what != "search index"));
        let with = need(&COSTS, Wanted { has_search: true, ..graphs }, MACHINE);
        assert_eq!(part(&with, "search index"), 1e6 * 7.0 * 50.0);
        assert!((with.cores - without.cores - 100.0 * 40e-6 / 0.5).abs() < 1e-9, "{}", with.cores);
        let more_on_nodes = with.cassandra.node_cores - without.cassandra.node_cores;
        assert!((more_on_nodes - 100.0 * 7.0 * 100e-6 * 3.0 / 0.5).abs() < 1e-9, "{more_on_nodes}");
        let more_to_nodes = with.cassandra.network.in_bytes_per_second - without.cassandra.network.in_bytes_per_second;
        assert!((more_to_nodes - 100.0 * 7.0 * 50.0).abs() < 1e-6, "{more_to_nodes}");
        let binaries = Wanted { has_search: true, binary_bytes: 9_800.0, ..graphs };
        assert_eq!(part(&need(&COSTS, binaries, MACHINE), "search index"), 1e6 * 12.0 * 50.0);
    }

    #[test]
    fn what_goes_over_the_network_follows_from_rates_and_sizes() {
        let wanted = Wanted {
            bulk_bytes_per_day: 86_400e6,
            pages_per_second: 100.0,
            reads_per_second: 10.0,
            changes_per_second: 1.0,
            binary_bytes: 9_500.0,
            ..NOTHING
        };
        let Need { network, cassandra: Cluster { network: nodes, .. }, .. } = need(&COSTS, wanted, MACHINE);
        // 111 heads, and a change.
        assert_eq!(network.in_bytes_per_second, 111.0 * 500.0 + 9_500.0);
        // 111 heads, pages, contents, and a megabyte of archives.
        assert_eq!(network.out_bytes_per_second, 111.0 * 500.0 + 100e3 + 95e3 + 1e6);
        // Whole packs for pages, and 500 bytes more of each resource.
        assert_eq!(nodes.out_bytes_per_second, 1e6 + 6e6 + 100e3);
        // A change with 600 bytes of its own, and 300 bytes of the audit for each page.
        assert_eq!(nodes.in_bytes_per_second, 10_100.0 + 30e3);
        assert_eq!(nodes.between_bytes_per_second, 2.0 * nodes.in_bytes_per_second);
    }

    #[test]
    fn a_cluster_has_nodes_for_its_copies_its_data_and_its_load() {
        let on_cassandra = |wanted, machine| need(&COSTS, wanted, machine).cassandra;
        let small = on_cassandra(Wanted { volumes: 1e3, ..NOTHING }, MACHINE);
        assert_eq!((small.servers, small.nodes, small.limit), (2, Some(3), "copies"));
        // 2.44 TB, three times, of which a node keeps 500 GB.
        let machine = Machine { memory_bytes: 1e12, ..MACHINE };
        let large = on_cassandra(Wanted { volumes: 40e6, ..NOTHING }, machine);
        assert_eq!((large.nodes, large.limit), (Some(15), "disk"));
        assert_eq!(large.disk_bytes, 40.0 * 61e9 * 3.0 / 0.5);
        // Two of three copies are read, at 200 microseconds, and processors are busy for half of the time.
        let busy = on_cassandra(Wanted { pages_per_second: 1e4, years: 0.0, ..NOTHING }, machine);
        assert_eq!((busy.nodes, busy.limit, busy.node_cores), (Some(4), "processor cores", 8.0));
        let without_memory = Machine { memory_bytes: 1e8, ..MACHINE };
        assert_eq!(on_cassandra(Wanted { volumes: 1e3, ..NOTHING }, without_memory).nodes, None);
    }

    #[test]
    fn the_measured_costs_can_be_read() {
        let costs: Costs = toml::from_str(super::super::MEASURED).unwrap();
        let machine = Machine { memory_bytes: 4e9, ..MACHINE };
        let small = need(&costs, Wanted { volumes: 1e4, ..NOTHING }, machine);
        assert_eq!(small.too_little, ["memory"; 0]);
    }

    proptest! {
        #[test]
        fn more_of_anything_never_needs_less(volumes in 0.0..1e8, resources in 0.0..1e8, rate in 0.0..1e5, more in 1.0..9.0) {
            let load = Wanted { changes_per_second: rate, pages_per_second: rate, ..NOTHING };
            let wanted = Wanted { volumes, resources, has_search: true, ..load };
            let before = need(&COSTS, wanted, MACHINE);
            for wanted in [
                Wanted { volumes: volumes * more, ..wanted },
                Wanted { resources: resources * more, ..wanted },
                Wanted { changes_per_second: rate * more, ..wanted },
                Wanted { pages_per_second: rate * more, ..wanted },
                Wanted { binary_bytes: more * 1e3, ..wanted },
                Wanted { years: more, ..wanted },
            ] {
                let after = need(&COSTS, wanted, MACHINE);
                prop_assert!(after.cores >= before.cores && after.memory_bytes >= before.memory_bytes);
                prop_assert!(after.disk_bytes >= before.disk_bytes, "{wanted:?}");
                prop_assert!(after.fixity_days >= before.fixity_days, "{wanted:?}");
                prop_assert!(after.cassandra.nodes >= before.cassandra.nodes, "{wanted:?}");
                prop_assert!(after.network.out_bytes_per_second >= before.network.out_bytes_per_second);
            }
        }
    }
}
