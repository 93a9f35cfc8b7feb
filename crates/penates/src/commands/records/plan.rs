//! `penates records plan`: computes machines from what operations and records cost, as measured.
//! Whether they answer in time is judged by the measured mix of reads and writes that is nearest.

use std::path::PathBuf;

use anyhow::Context;
use bytesize::ByteSize;
use clap::Args;
use humantime::Duration;
use serde::{Deserialize, Serialize};

use crate::cli::{Count, OutputArgs};
use crate::exit::CliError;
use crate::output::{Output, human_bytes};

/// The measured costs, on the machine that the file names.
const MEASURED: &str = include_str!("costs.toml");

/// Arguments of `penates records plan`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates records plan --records 1e9 --bytes 400 --reads 5000 --writes 5000
  penates records plan --records 1e9 --reads 5000 --writes 5000 --copies 2 --datacenters 2 --deadline 10ms
  penates records plan --records 1e7 --reads 9000 --writes 1000 --cores 4 --memory 16GiB --disk 500GB --json")]
pub struct PlanArgs {
    /// How many records are kept.
    #[arg(long, value_name = "N")]
    records: Count,
    /// Bytes of a record: its id, and names and values of its attributes.
    #[arg(long, value_name = "SIZE", default_value = "400")]
    bytes: ByteSize,
    /// Reads per second in each data center.
    #[arg(long, value_name = "N")]
    reads: Count,
    /// Writes per second in each data center.
    #[arg(long, value_name = "N")]
    writes: Count,
    /// The time in which 99 of 100 operations must be answered.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    deadline: Duration,
    /// The share of the records that are asked for often, in percent. They are kept in memory.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(..=100))]
    hot: u8,
    /// Copies in each data center, on Cassandra.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    copies: u32,
    /// Copies that a read asks, on Cassandra [default: a majority, as with LOCAL_QUORUM, which is
    /// the default of cassandra.record_read]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9))]
    read_copies: Option<u32>,
    /// Data centers, on Cassandra.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    datacenters: u32,
    /// Processor cores of a machine.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: u32,
    /// Memory of a machine.
    #[arg(long, value_name = "SIZE", default_value = "64GiB")]
    memory: ByteSize,
    /// Disk of a machine.
    #[arg(long, value_name = "SIZE", default_value = "2TB")]
    disk: ByteSize,
    /// Compute with the costs in this file (TOML) instead of those that were measured.
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Print the costs in use, as a file for `--costs`, and nothing else.
    #[arg(long)]
    show_costs: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// What everything costs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Costs {
    /// Bytes of a record with which all of this was measured.
    record_bytes: f64,
    /// The share of a processor that may be busy, so that answers are in time.
    busy_at_most: f64,
    /// The share of a disk that may be full, so that compactions have room.
    full_at_most: f64,
    folder: Engine,
    atomic: Engine,
    fast: Engine,
}

/// The costs of an engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Engine {
    /// Processor time of the server, in microseconds.
    server_read_us: f64,
    server_write_us: f64,
    /// Processor time of one copy's node, in microseconds; 0 without nodes.
    node_read_us: f64,
    node_write_us: f64,
    /// Bytes on disk of one copy of a record.
    disk_bytes: f64,
    /// Memory that a machine needs besides the data.
    memory_gib: f64,
    /// What was measured of the slowest of 99 in 100 operations; empty: nothing.
    #[serde(default)]
    p99: Vec<Mix>,
}

/// A measured mix of reads and writes, and the slowest of 99 in 100 of each, in milliseconds.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Mix {
    /// Operations per second.
    rate_per_second: f64,
    writes_percent: f64,
    /// How the records were drawn, such as `uniform`.
    drawn: String,
    read_ms: f64,
    write_ms: f64,
}

impl Mix {
    /// The slower one of the reads and the writes, of those that are wanted.
    fn slowest_ms(&self, wanted: Wanted) -> f64 {
        let of = |rate: f64, ms: f64| if rate > 0.0 { ms } else { 0.0 };
        of(wanted.reads, self.read_ms).max(of(wanted.writes, self.write_ms))
    }

    /// What it is a mix of.
    fn name(&self) -> String {
        format!("{}/{} reads and writes, {}", 100.0 - self.writes_percent, self.writes_percent, self.drawn)
    }
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    records: f64,
    record_bytes: f64,
    reads: f64,
    writes: f64,
    hot: f64,
    copies: f64,
    /// The copies that a read asks.
    read_copies: f64,
    datacenters: f64,
}

impl Wanted {
    /// How many of 100 operations are writes.
    fn writes_percent(&self) -> f64 {
        let all = self.reads + self.writes;
        if all > 0.0 { 100.0 * self.writes / all } else { 0.0 }
    }
}

/// A machine.
#[derive(Clone, Copy, Debug)]
struct Machine {
    cores: f64,
    memory_bytes: f64,
    disk_bytes: f64,
}

/// What a data center needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Need {
    engine: &'static str,
    /// Machines that serve, and machines of Cassandra.
    servers: u64,
    nodes: u64,
    /// Of all of them together.
    cores: f64,
    memory_bytes: f64,
    disk_bytes: f64,
    network: Network,
    /// The measurement by which the deadline was judged, if there is one.
    p99: Option<Mix>,
    /// Why there are so many.
    limit: &'static str,
    /// Whether the deadline can be met, and all machines can be had.
    is_possible: bool,
    note: String,
}

/// What goes over the network of a data center. Without nodes, what they send and get is 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Network {
    from_clients_bytes_per_second: f64,
    to_clients_bytes_per_second: f64,
    to_nodes_bytes_per_second: f64,
    from_nodes_bytes_per_second: f64,
    /// To the other copies in the data center.
    between_nodes_bytes_per_second: f64,
    /// To all others together. As much comes from them.
    to_datacenters_bytes_per_second: f64,
}

/// How a mode on Cassandra changes.
#[derive(Clone, Copy, Debug)]
struct Mode {
    name: &'static str,
    /// How often a change has the record sent to nodes, from them, and to each further copy.
    to_nodes: f64,
    from_nodes: f64,
    to_copies: f64,
}

/// Bytes of a command and of an answer besides the record: words of the protocol and heads of
/// packets. It is assumed.
const MESSAGE_BYTES: f64 = 100.0;

/// Runs it.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let text = match &args.costs {
        None => MEASURED.to_owned(),
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
    };
    let mut output = Output::stdout();
    if args.show_costs {
        output.bytes(text.as_bytes())?;
        return output.finish();
    }
    let costs: Costs = toml::from_str(&text).map_err(|error| CliError::Usage(format!("the costs: {error}")))?;
    let read_copies = args.read_copies.unwrap_or_else(|| quorum(args.copies));
    if read_copies > args.copies {
        let refused = format!("--read-copies {read_copies}: there are {} copies", args.copies);
        return Err(CliError::Usage(refused).into());
    }
    let wanted = Wanted {
        records: args.records.0,
        record_bytes: args.bytes.as_u64() as f64,
        reads: args.reads.0,
        writes: args.writes.0,
        hot: f64::from(args.hot) / 100.0,
        copies: f64::from(args.copies),
        read_copies: f64::from(read_copies),
        datacenters: f64::from(args.datacenters),
    };
    let machine = Machine {
        cores: f64::from(args.cores),
        memory_bytes: args.memory.as_u64() as f64,
        disk_bytes: args.disk.as_u64() as f64,
    };
    let needs = needs(&costs, wanted, machine, args.deadline.as_secs_f64() * 1e3);
    if args.output.json {
        needs.iter().try_for_each(|need| output.json(need))?;
        return output.finish();
    }
    let columns = ["store", "servers", "nodes", "cores", "memory", "disk", "limited by", "note"];
    let row = |need: &Need| {
        vec![
            need.engine.to_owned(),
            need.servers.to_string(),
            need.nodes.to_string(),
            format!("{:.1}", need.cores),
            human_bytes(need.memory_bytes as u64),
            human_bytes(need.disk_bytes as u64),
            need.limit.to_owned(),
            need.note.clone(),
        ]
    };
    output.table(&columns, &needs.iter().map(row).collect::<Vec<_>>())?;
    output.line("")?;
    let columns =
        ["network", "from clients", "to clients", "to nodes", "from nodes", "between nodes", "to data centers"];
    output.table(&columns, &needs.iter().map(over_network).collect::<Vec<_>>())?;
    output.line("")?;
    let columns = ["p99", "reads", "writes", "measured with", "operations"];
    output.table(&columns, &needs.iter().map(in_time).collect::<Vec<_>>())?;
    output.line(format!(
        "On Cassandra a read asks {read_copies} of {} copies (cassandra.record_read, --read-copies).",
        args.copies
    ))?;
    output.line(format!(
        "Machines and what they need, in each data center. Processors are busy for {:.0} %, disks are full to {:.0} %, \
         and {} % of the records are in memory.",
        costs.busy_at_most * 100.0,
        costs.full_at_most * 100.0,
        args.hot
    ))?;
    output
        .line("The costs are those of one machine (--show-costs). Measure yours before you buy: instruments/benches/README.md.")?;
    output.finish()
}

/// The row of a store in the table of the network.
fn over_network(need: &Need) -> Vec<String> {
    let network = &need.network;
    let rates = [
        network.from_clients_bytes_per_second,
        network.to_clients_bytes_per_second,
        network.to_nodes_bytes_per_second,
        network.from_nodes_bytes_per_second,
        network.between_nodes_bytes_per_second,
        network.to_datacenters_bytes_per_second,
    ];
    let rates = rates.into_iter().map(|rate| format!("{}/s", human_bytes(rate as u64)));
    std::iter::once(need.engine.to_owned()).chain(rates).collect()
}

/// The row of a store in the table of what was measured.
fn in_time(need: &Need) -> Vec<String> {
    let measured = need.p99.as_ref().map(|mix| {
        let operations = format!("{}/s", mix.rate_per_second);
        [format!("{} ms", mix.read_ms), format!("{} ms", mix.write_ms), mix.name(), operations]
    });
    let measured = measured.unwrap_or_else(|| ["-"; 4].map(str::to_owned));
    std::iter::once(need.engine.to_owned()).chain(measured).collect()
}

/// What each kind of store needs.
fn needs(costs: &Costs, wanted: Wanted, machine: Machine, deadline_ms: f64) -> Vec<Need> {
    let mut needs = vec![in_folder(costs, wanted, machine)];
    // A change reads the record, sends it as it was and as it shall be, and proposes and commits it.
    let atomic = Mode { name: "Cassandra, atomic", to_nodes: 2.0, from_nodes: 1.0, to_copies: 2.0 };
    let fast = Mode { name: "Cassandra, fast", to_nodes: 1.0, from_nodes: 0.0, to_copies: 1.0 };
    needs.extend(
        [(atomic, &costs.atomic), (fast, &costs.fast)]
            .map(|(mode, engine)| on_cassandra(costs, mode, engine, wanted, machine)),
    );
    for (need, engine) in needs.iter_mut().zip([&costs.folder, &costs.atomic, &costs.fast]) {
        need.p99 = nearest(&engine.p99, wanted).cloned();
        match &need.p99 {
            Some(mix) if mix.slowest_ms(wanted) > deadline_ms => {
                need.is_possible = false;
                need.note = format!(
                    "too late: p99 was {} ms for reads and {} ms for writes with {}",
                    mix.read_ms,
                    mix.write_ms,
                    mix.name()
                );
            }
            None if need.note.is_empty() => need.note = "p99 was not measured".to_owned(),
            _ => {}
        }
    }
    needs
}

/// The measurement that is nearest to what is wanted by its share of writes. Of those that are
/// equally near it is the slowest.
fn nearest(mixes: &[Mix], wanted: Wanted) -> Option<&Mix> {
    let distance = |mix: &Mix| (mix.writes_percent - wanted.writes_percent()).abs();
    mixes.iter().min_by(|one, other| {
        let by_distance = distance(one).total_cmp(&distance(other));
        by_distance.then_with(|| other.slowest_ms(wanted).total_cmp(&one.slowest_ms(wanted)))
    })
}

/// A majority of the copies.
fn quorum(copies: u32) -> u32 {
    copies / 2 + 1
}

/// One server over a data folder.
fn in_folder(costs: &Costs, wanted: Wanted, machine: Machine) -> Need {
    let engine = &costs.folder;
    let disk = wanted.records * engine.disk_bytes * wanted.record_bytes / costs.record_bytes;
    let busy = (wanted.reads * engine.server_read_us + wanted.writes * engine.server_write_us) / 1e6;
    let cores = busy / costs.busy_at_most;
    let memory_bytes = engine.memory_gib * GIB + disk * wanted.hot;
    let disk_bytes = disk / costs.full_at_most;
    let shares = [
        (cores / machine.cores, "processor"),
        (disk_bytes / machine.disk_bytes, "disk"),
        (memory_bytes / machine.memory_bytes, "memory"),
    ];
    let (share, limit) = greatest(&shares);
    let is_possible = share <= 1.0;
    let note = match (is_possible, wanted.datacenters > 1.0) {
        (false, _) => "too much for one machine".to_owned(),
        (true, true) => "each data center is on its own; a standby follows".to_owned(),
        (true, false) => "a standby follows with `penates copy --follow`".to_owned(),
    };
    Need {
        engine: "data folder",
        servers: 1,
        nodes: 0,
        cores,
        memory_bytes,
        disk_bytes,
        network: network(wanted, None),
        p99: None,
        limit,
        is_possible,
        note,
    }
}

/// Servers over nodes of Cassandra. Each data center applies the writes of all.
fn on_cassandra(costs: &Costs, mode: Mode, engine: &Engine, wanted: Wanted, machine: Machine) -> Need {
    let busy = (wanted.reads * engine.server_read_us + wanted.writes * engine.server_write_us) / 1e6;
    let server_cores = busy / costs.busy_at_most;
    // Two at least, so that one may fail.
    let servers = (server_cores / machine.cores).ceil().max(2.0);
    let of_reads = wanted.reads * wanted.read_copies * engine.node_read_us;
    let of_writes = wanted.writes * wanted.datacenters * wanted.copies * engine.node_write_us;
    let node_cores = (of_reads + of_writes) / 1e6 / costs.busy_at_most;
    let data = wanted.records * wanted.copies * engine.disk_bytes * wanted.record_bytes / costs.record_bytes;
    let disk_bytes = data / costs.full_at_most;
    let for_data = (machine.memory_bytes - engine.memory_gib * GIB).max(0.0);
    let shares = [
        (wanted.copies, "copies"),
        ((node_cores / machine.cores).ceil(), "processor"),
        ((disk_bytes / machine.disk_bytes).ceil(), "disk"),
        ((data * wanted.hot / for_data).ceil(), "memory"),
    ];
    let (nodes, limit) = greatest(&shares);
    let is_possible = nodes.is_finite();
    let nodes = if is_possible { nodes } else { 0.0 };
    let memory_bytes = nodes * engine.memory_gib * GIB + data * wanted.hot;
    let note = if is_possible { String::new() } else { "a machine needs more memory".to_owned() };
    let cores = server_cores + node_cores;
    Need {
        engine: mode.name,
        servers: servers as u64,
        nodes: nodes as u64,
        cores,
        memory_bytes,
        disk_bytes,
        network: network(wanted, Some(mode)),
        p99: None,
        limit,
        is_possible,
        note,
    }
}

/// What goes over the network of a data center; `None`: there are no nodes.
fn network(wanted: Wanted, mode: Option<Mode>) -> Network {
    // Messages, of which so many have the record.
    let bytes = |records: f64| records * wanted.record_bytes + records.max(1.0) * MESSAGE_BYTES;
    let Wanted { reads, writes, copies, read_copies, datacenters, .. } = wanted;
    let of_nodes = |bytes: &dyn Fn(Mode) -> f64| mode.map_or(0.0, bytes);
    Network {
        from_clients_bytes_per_second: reads * bytes(0.0) + writes * bytes(1.0),
        to_clients_bytes_per_second: reads * bytes(1.0) + writes * bytes(0.0),
        to_nodes_bytes_per_second: of_nodes(&|mode: Mode| reads * bytes(0.0) + writes * bytes(mode.to_nodes)),
        from_nodes_bytes_per_second: of_nodes(&|mode: Mode| reads * bytes(1.0) + writes * bytes(mode.from_nodes)),
        // Further copies answer a read with a digest. Each data center has the writes of all.
        between_nodes_bytes_per_second: of_nodes(&|mode: Mode| {
            let of_reads = reads * (read_copies - 1.0) * bytes(0.0);
            of_reads + writes * datacenters * (copies - 1.0) * bytes(mode.to_copies)
        }),
        to_datacenters_bytes_per_second: of_nodes(&|mode: Mode| writes * (datacenters - 1.0) * bytes(mode.to_copies)),
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

/// The first of the greatest.
fn greatest(shares: &[(f64, &'static str)]) -> (f64, &'static str) {
    shares.iter().copied().fold((f64::MIN, ""), |most, share| if share.0 > most.0 { share } else { most })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn mix(writes_percent: f64, drawn: &str, read_ms: f64, write_ms: f64) -> Mix {
        Mix { rate_per_second: 1e4, writes_percent, drawn: drawn.to_owned(), read_ms, write_ms }
    }

    fn costs() -> Costs {
        let engine = Engine {
            server_read_us: 10.0,
            server_write_us: 20.0,
            node_read_us: 100.0,
            node_write_us: 200.0,
            disk_bytes: 500.0,
            memory_gib: 4.0,
            p99: vec![mix(50.0, "uniform", 1.0, 5.0)],
        };
        Costs {
            record_bytes: 400.0,
            busy_at_most: 0.5,
            full_at_most: 0.5,
            folder: Engine { node_read_us: 0.0, node_write_us: 0.0, ..engine.clone() },
            atomic: engine.clone(),
            fast: engine,
        }
    }

    const WANTED: Wanted = Wanted {
        records: 1e9,
        record_bytes: 400.0,
        reads: 5e3,
        writes: 5e3,
        hot: 0.2,
        copies: 2.0,
        read_copies: 2.0,
        datacenters: 2.0,
    };

    const MACHINE: Machine = Machine { cores: 8.0, memory_bytes: 64.0 * GIB, disk_bytes: 2e12 };

    #[test]
    fn a_billion_records_need_what_a_calculation_by_hand_says() {
        let [folder, atomic, fast] = needs(&costs(), WANTED, MACHINE, 10.0).try_into().unwrap();
        // 500 GB, of which a fifth is in memory; half of the disk stays free.
        assert_eq!((folder.disk_bytes, folder.limit), (1e12, "memory"));
        assert!(!folder.is_possible && folder.note.contains("one machine"), "{folder:?}");
        // 5,000 reads of two copies, and 5,000 writes of two data centers to two copies each.
        let node_cores = (5e3 * 2.0 * 100.0 + 5e3 * 2.0 * 2.0 * 200.0) / 1e6 / 0.5;
        assert_eq!(fast.cores, node_cores + 0.3);
        // A terabyte of copies: 200 GB in memory, 60 GiB of it on each node.
        assert_eq!((fast.nodes, fast.limit, fast.servers), (4, "memory", 2));
        assert_eq!(atomic.cores, fast.cores);
        let one_copy = needs(&costs(), Wanted { read_copies: 1.0, ..WANTED }, MACHINE, 10.0);
        assert!(one_copy[1].cores < atomic.cores && one_copy[2].cores < fast.cores, "{one_copy:?}");
    }

    #[test]
    fn what_goes_over_the_network_follows_from_rates_sizes_and_copies() {
        let wanted = Wanted { reads: 1e3, writes: 1e2, ..WANTED };
        let [folder, atomic, fast] = needs(&costs(), wanted, MACHINE, 10.0).try_into().unwrap();
        for need in [&folder, &atomic, &fast] {
            // A message has 100 bytes, and 500 with a record.
            assert_eq!(need.network.from_clients_bytes_per_second, 1e3 * 100.0 + 1e2 * 500.0);
            assert_eq!(need.network.to_clients_bytes_per_second, 1e3 * 500.0 + 1e2 * 100.0);
        }
        assert_eq!(folder.network.to_nodes_bytes_per_second, 0.0);
        assert_eq!(folder.network.to_datacenters_bytes_per_second, 0.0);
        assert_eq!(fast.network.to_nodes_bytes_per_second, 1e3 * 100.0 + 1e2 * 500.0);
        assert_eq!(fast.network.from_nodes_bytes_per_second, 1e3 * 500.0 + 1e2 * 100.0);
        // A read asks one further copy, and the writes of two data centers go to one.
        assert_eq!(fast.network.between_nodes_bytes_per_second, 1e3 * 100.0 + 1e2 * 2.0 * 500.0);
        assert_eq!(fast.network.to_datacenters_bytes_per_second, 1e2 * 500.0);
        // A change reads the record first, and sends it twice; a read asks both copies.
        assert_eq!(atomic.network.from_nodes_bytes_per_second, 1.1e3 * 500.0);
        assert_eq!(atomic.network.to_nodes_bytes_per_second, 1e3 * 100.0 + 1e2 * 1e3);
        assert_eq!(atomic.network.between_nodes_bytes_per_second, 1e3 * 100.0 + 1e2 * 2.0 * 1e3);
        let one_copy = needs(&costs(), Wanted { read_copies: 1.0, ..wanted }, MACHINE, 10.0).pop().unwrap();
        assert_eq!(one_copy.network.between_nodes_bytes_per_second, 1e2 * 2.0 * 500.0);
        let alone = Wanted { copies: 1.0, read_copies: 1.0, datacenters: 1.0, ..wanted };
        let alone = needs(&costs(), alone, MACHINE, 10.0).pop().unwrap();
        assert_eq!(alone.network.between_nodes_bytes_per_second, 0.0);
        assert_eq!(alone.network.to_datacenters_bytes_per_second, 0.0);
    }

    #[test]
    fn a_deadline_that_was_missed_in_the_measurement_is_refused() {
        let late = needs(&costs(), WANTED, MACHINE, 4.0);
        assert!(late.iter().all(|need| !need.is_possible && need.note.starts_with("too late")), "{late:?}");
    }

    #[test]
    fn a_deadline_is_judged_by_the_slowest_measurement_of_the_nearest_mix() {
        let p99 = vec![
            mix(10.0, "uniform", 1.0, 2.0),
            mix(10.0, "Zipf", 3.0, 11.0),
            mix(50.0, "Zipf", 18.0, 21.0),
            mix(50.0, "uniform", 5.0, 7.0),
        ];
        let costs = Costs { fast: Engine { p99: p99.clone(), ..costs().fast }, ..costs() };
        let judged = |reads, writes, deadline_ms| {
            let need = needs(&costs, Wanted { reads, writes, ..WANTED }, MACHINE, deadline_ms).pop().unwrap();
            (need.p99.unwrap(), need.is_possible, need.note)
        };
        assert_eq!(judged(5e3, 5e3, 21.0), (p99[2].clone(), true, String::new()));
        let late = "too late: p99 was 18 ms for reads and 21 ms for writes with 50/50 reads and writes, Zipf";
        assert_eq!(judged(5e3, 5e3, 20.0), (p99[2].clone(), false, late.to_owned()));
        assert_eq!(judged(7e3, 2e3, 11.0), (p99[1].clone(), true, String::new()));
        // Between two mixes it is the slower one. Without writes it is the reads that count.
        assert_eq!(judged(7e3, 3e3, 21.0).0, p99[2]);
        assert_eq!(judged(1e3, 0.0, 3.0), (p99[1].clone(), true, String::new()));
    }

    #[test]
    fn a_machine_without_memory_for_data_is_not_enough() {
        let small = Machine { memory_bytes: 2.0 * GIB, ..MACHINE };
        assert!(needs(&costs(), WANTED, small, 10.0).iter().all(|need| !need.is_possible));
    }

    #[test]
    fn the_measured_costs_can_be_read() {
        let costs: Costs = toml::from_str(MEASURED).unwrap();
        let small = Wanted { records: 1e6, reads: 100.0, writes: 100.0, datacenters: 1.0, copies: 3.0, ..WANTED };
        let needs = needs(&costs, small, MACHINE, 1e3);
        assert!(needs.iter().all(|need| need.is_possible), "{needs:?}");
        assert_eq!(needs[2].nodes, 3);
        // Half of the operations are writes, and that mix was measured of each kind of store.
        let judged_by = needs.iter().map(|need| need.p99.as_ref().map(|mix| mix.writes_percent));
        assert_eq!(judged_by.collect::<Vec<_>>(), [Some(50.0); 3]);
    }

    proptest! {
        #[test]
        fn more_of_anything_never_needs_less(records in 0.0..1e10, reads in 0.0..1e6, writes in 0.0..1e6, more in 1.0..9.0) {
            let wanted = Wanted { records, reads, writes, ..WANTED };
            let before = needs(&costs(), wanted, MACHINE, 10.0);
            let bigger = [
                Wanted { records: records * more, ..wanted },
                Wanted { reads: reads * more, ..wanted },
                Wanted { writes: writes * more, ..wanted },
                Wanted { copies: wanted.copies + 1.0, ..wanted },
            ];
            for wanted in bigger {
                for (before, after) in before.iter().zip(needs(&costs(), wanted, MACHINE, 10.0)) {
                    prop_assert!(after.nodes >= before.nodes && after.cores >= before.cores);
                    prop_assert!(after.disk_bytes >= before.disk_bytes && after.memory_bytes >= before.memory_bytes);
                }
            }
        }
    }
}
