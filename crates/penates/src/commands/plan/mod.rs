//! `penates plan`: what a data folder needs in disk, memory, processors and network, and what the
//! same needs on Cassandra, from measured costs.

mod cluster;
mod folder;

use std::path::PathBuf;

use anyhow::Context;
use bytesize::ByteSize;
use clap::Args;

use crate::cli::{Count, OutputArgs};
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use cluster::Cluster;
use folder::{Costs, Disk, Machine, Need, Wanted};

/// The measured costs.
const MEASURED: &str = include_str!("costs.toml");

/// Arguments of `penates plan`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates plan --volumes 100000
  penates plan --volumes 1e6 --pages 340 --page-bytes 2350 --bulk-per-day 2TB --pages-per-second 50
  penates plan --resources 5e6 --binary-bytes 200KB --changes-per-second 20 --years 3 --json
  penates plan --volumes 1e6 --cores 16 --memory 64GiB --disk 4TB")]
pub struct PlanArgs {
    /// Volumes.
    #[arg(long, value_name = "N", default_value = "0")]
    volumes: Count,
    /// Pages of a volume.
    #[arg(long, value_name = "N", default_value = "300")]
    pages: Count,
    /// Bytes of the text of a page.
    #[arg(long, value_name = "SIZE", default_value = "2350")]
    page_bytes: ByteSize,
    /// Resources of the repository.
    #[arg(long, value_name = "N", default_value = "0")]
    resources: Count,
    /// Bytes of the description of a resource.
    #[arg(long, value_name = "SIZE", default_value = "1KB")]
    description_bytes: ByteSize,
    /// Bytes of the content of a resource; 0: it has a description only.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    binary_bytes: ByteSize,
    /// Records. `penates records plan` says more of them.
    #[arg(long, value_name = "N", default_value = "0")]
    records: Count,
    /// Bytes of a record.
    #[arg(long, value_name = "SIZE", default_value = "400")]
    record_bytes: ByteSize,
    /// Bytes of archives that are downloaded in a day.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    bulk_per_day: ByteSize,
    /// Volumes that are named in requests for archives in a day.
    #[arg(long, value_name = "N", default_value = "0")]
    volumes_per_day: Count,
    /// Single pages that are read per second.
    #[arg(long, value_name = "N", default_value = "0")]
    pages_per_second: Count,
    /// Resources that are read per second.
    #[arg(long, value_name = "N", default_value = "0")]
    reads_per_second: Count,
    /// Changes of resources per second.
    #[arg(long, value_name = "N", default_value = "0")]
    changes_per_second: Count,
    /// Volumes that are replaced in a day.
    #[arg(long, value_name = "N", default_value = "0")]
    replaced_per_day: Count,
    /// How many years of the audit and of earlier versions of resources are kept.
    #[arg(long, value_name = "N", default_value = "1")]
    years: Count,
    /// Plan without a search index (search.index = false).
    #[arg(long)]
    no_search: bool,
    /// Copies, on Cassandra.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    copies: u32,
    /// Processor cores of the machine.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: u32,
    /// Memory of the machine.
    #[arg(long, value_name = "SIZE", default_value = "64GiB")]
    memory: ByteSize,
    /// Disk of the machine.
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

impl PlanArgs {
    fn wanted(&self) -> Wanted {
        let bytes = |size: ByteSize| size.as_u64() as f64;
        Wanted {
            volumes: self.volumes.0,
            pages: self.pages.0,
            page_bytes: bytes(self.page_bytes),
            resources: self.resources.0,
            description_bytes: bytes(self.description_bytes),
            binary_bytes: bytes(self.binary_bytes),
            records: self.records.0,
            record_bytes: bytes(self.record_bytes),
            bulk_bytes_per_day: bytes(self.bulk_per_day),
            volumes_per_day: self.volumes_per_day.0,
            pages_per_second: self.pages_per_second.0,
            reads_per_second: self.reads_per_second.0,
            changes_per_second: self.changes_per_second.0,
            replaced_per_day: self.replaced_per_day.0,
            years: self.years.0,
            has_search: !self.no_search,
            copies: f64::from(self.copies),
        }
    }
}

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
    let machine = Machine {
        cores: f64::from(args.cores),
        memory_bytes: args.memory.as_u64() as f64,
        disk_bytes: args.disk.as_u64() as f64,
    };
    let need = folder::need(&costs, args.wanted(), machine);
    if args.output.json {
        output.json(&need)?;
        return output.finish();
    }
    show(&need, &costs, &mut output)?;
    output.finish()
}

fn show(need: &Need, costs: &Costs, output: &mut Output) -> anyhow::Result<()> {
    let row = |disk: &Disk| vec![disk.what.to_owned(), human_bytes(disk.bytes as u64)];
    output.table(&["on disk", "bytes"], &need.disk.iter().map(row).collect::<Vec<_>>())?;
    output.line("")?;
    let size = |bytes: f64| human_bytes(bytes as u64);
    let rate = |bytes: f64| format!("{}/s", size(bytes));
    let rows = [
        ("disk", size(need.disk_bytes), format!("full to {:.0} %", costs.full_at_most * 100.0)),
        ("memory", size(need.memory_bytes), "with the defaults of limits.memory and store.cache".to_owned()),
        ("cores", format!("{:.1}", need.cores), format!("busy for {:.0} %", costs.busy_at_most * 100.0)),
        ("first import", format!("{:.1} hours", need.import_hours), "on all cores".to_owned()),
        ("network in", rate(need.network.in_bytes_per_second), "from clients, on average".to_owned()),
        ("network out", rate(need.network.out_bytes_per_second), "to clients, on average".to_owned()),
        ("fixity", format!("{:.1} days", need.fixity_days), "for a pass at the default fixity.rate".to_owned()),
    ];
    let rows = rows.map(|(what, much, note)| vec![what.to_owned(), much, note]);
    output.table(&["need", "much", "note"], &rows)?;
    for short in &need.too_little {
        output.line(format!("The machine has too little: {short}."))?;
    }
    output.line("")?;
    let Cluster { servers, nodes, limit, node_cores, disk_bytes, network } = need.cassandra;
    let nodes = match nodes {
        Some(nodes) => (nodes.to_string(), format!("limited by {limit}")),
        None => ("-".to_owned(), format!("a machine has too little: {limit}")),
    };
    let rows = [
        ("servers", servers.to_string(), "two at least".to_owned()),
        ("nodes", nodes.0, nodes.1),
        (
            "cores of nodes",
            format!("{node_cores:.1}"),
            format!("an estimate; busy for {:.0} %", costs.busy_at_most * 100.0),
        ),
        ("disk of nodes", size(disk_bytes), format!("all copies, full to {:.0} %", costs.full_at_most * 100.0)),
        ("network in", rate(network.in_bytes_per_second), "from servers to nodes".to_owned()),
        ("network out", rate(network.out_bytes_per_second), "from nodes to servers".to_owned()),
        ("between nodes", rate(network.between_bytes_per_second), "the other copies".to_owned()),
    ];
    let rows = rows.map(|(what, much, note)| vec![what.to_owned(), much, note]);
    output.table(&["on Cassandra", "much", "note"], &rows)?;
    output.line("The costs are those of one machine, and some are assumed: --show-costs says which.")?;
    output.line("On Cassandra, reads and changes of resources are computed from those of records.")?;
    output.line("Measure yours before you buy.")
}
