//! Records in two data centers, both loaded: latencies in each, and how long a write takes to the
//! other. Operations have the deadline of those on one Cassandra node.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use cluster::{Cluster, ClusterSpec, CommitlogSync, Settings, Shape};
use hdrhistogram::Histogram;
use redis::Connection;
use serde::Serialize;
use tempfile::TempDir;
use testbed::results::Times;
use testbed::tally::times;

use super::bench::Bench;
use super::fill::{fill, last_written};
use super::mixes::{DEADLINE, GIVES_UP, Mix, SYNC, holds_on_cassandra, report_on_cassandra, steps};
use super::record::{self, Draw};
use super::subject::{connect, serve};
use crate::rig::figures::Figures;
use crate::rig::open_loop::Arrivals;
use crate::rig::penates::Penates;
use crate::rig::process::Process;

/// Reads and writes in equal parts.
const READS: u64 = 50;

/// The pause between two writes whose way is measured.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// The pause between two looks whether a write has arrived.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// After this time a write counts as lost.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// After this time records that filled one data center have to be in the other one. A node that was
/// too busy for a write gets it again later, from another node.
const FILLED_WITHIN: Duration = Duration::from_secs(180);

/// How long a server may take for each of the writes and looks of that way, in milliseconds.
const LOOK_WITHIN_MS: u64 = 30_000;

/// The nodes of each data center, and how its server asks them.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// How many nodes there are. Each has a copy of everything.
    pub nodes: u8,
    /// The consistency level of reads.
    pub read: String,
    /// The consistency level of writes.
    pub write: String,
}

impl Profile {
    /// The settings of the server of a data center, and more.
    fn settings(&self, center: usize, more: &[&str]) -> Vec<String> {
        let settings = [
            "records.mode=fast".to_owned(),
            format!("cassandra.record_read={}", self.read),
            format!("cassandra.record_write={}", self.write),
            format!("cassandra.datacenter=dc{center}"),
        ];
        settings.into_iter().chain(more.iter().map(|setting| (*setting).to_owned())).collect()
    }
}

/// What is measured at one rate.
struct Loaded {
    /// In each data center.
    arrivals: [Arrivals<2>; 2],
    /// How long writes take from the first to the second.
    lag: Times,
}

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let folder = tempfile::Builder::new().prefix("centers-").tempdir_in(bench.folder())?;
    let mut centers = Centers::start(bench.penates(), bench.settings.centers.clone(), folder)?;
    let records = bench.settings.records;
    fill(centers.servers[0].address, records, None)?;
    wait_for_records(centers.servers[1].address, records)?;
    // Filling has more time than that.
    centers.restart(bench.penates(), &[DEADLINE])?;
    // The compilers of young nodes take time from operations. The first load is not measured.
    centers.load(bench, bench.settings.rate)?;
    for _ in 0..bench.settings.repetitions {
        figures.report(SYNC, "ms", bench.sync_p99_ms()?);
        let loaded = centers.load(bench, bench.settings.rate)?;
        for (center, arrivals) in loaded.arrivals.iter().enumerate() {
            report_on_cassandra(&mut figures, arrivals, |figure| format!("data center {}: {figure}", center + 1));
        }
        for (name, ms) in [("median", loaded.lag.p50_ms), ("p99", loaded.lag.p99_ms)] {
            figures.report(format!("a write arrives in the other data center, {name}"), "ms", ms);
        }
        if bench.settings.highest {
            find_highest(bench, &centers, &mut figures)?;
        }
    }
    Ok(figures)
}

/// Finds the highest rate in both data centers together at which each of them meets all targets.
fn find_highest(bench: &Bench, centers: &Centers, figures: &mut Figures) -> Result<()> {
    let mut lags_ms = Vec::new();
    let measure = |rate| {
        let loaded = centers.load(bench, rate)?;
        lags_ms.push((rate, loaded.lag.p99_ms));
        anyhow::Ok(loaded)
    };
    let holds = |loaded: &Loaded| loaded.arrivals.iter().all(holds_on_cassandra);
    let held = steps(bench.settings.rate).climb(measure, holds)?;
    figures.report("highest rate that meets all targets, both data centers", "operations/s", held.rate);
    figures.report("rate that does not, both data centers", "operations/s", held.not);
    if let Some((_, lag_ms)) = lags_ms.iter().find(|(rate, _)| *rate == held.rate) {
        figures.report("a write arrives in the other data center at the highest rate, p99", "ms", *lag_ms);
    }
    for (center, arrivals) in held.beyond.arrivals.iter().enumerate() {
        // A rate that meets them does so in spite of a late generator.
        let what = |figure: &str| format!("data center {}: rate that does not: {figure}", center + 1);
        arrivals.report_lateness(figures, what);
    }
    Ok(())
}

/// Waits until a data center has what was written last in the other one.
fn wait_for_records(address: SocketAddr, records: u64) -> Result<()> {
    let (mut reader, begun) = (connect(address)?, Instant::now());
    for number in last_written(records) {
        while !redis::cmd("EXISTS").arg(record::id(number)).query::<bool>(&mut reader)? {
            ensure!(begun.elapsed() < FILLED_WITHIN, "record {number} has not arrived in {FILLED_WITHIN:?}");
            std::thread::sleep(PROBE_EVERY);
        }
    }
    Ok(())
}

/// How long writes in one data center take until a read in the other one sees them, in microseconds.
fn lag(from: SocketAddr, to: SocketAddr, duration: Duration) -> Result<Histogram<u64>> {
    let (mut writer, mut reader) = (connect(from)?, connect(to)?);
    for connection in [&mut writer, &mut reader] {
        redis::cmd("PENATES.DEADLINE").arg(LOOK_WITHIN_MS).query::<()>(connection)?;
    }
    let mut lag_us = Histogram::new(3)?;
    let begun = Instant::now();
    for number in 0_u64.. {
        if begun.elapsed() >= duration {
            break;
        }
        redis::cmd("HSET").arg("probe").arg("number").arg(number).query::<()>(&mut writer)?;
        let written = Instant::now();
        while seen(&mut reader)? != Some(number) {
            ensure!(written.elapsed() < ARRIVES_WITHIN, "a write has not arrived in {ARRIVES_WITHIN:?}");
            std::thread::sleep(LOOK_EVERY);
        }
        lag_us.record(u64::try_from(written.elapsed().as_micros())?)?;
        std::thread::sleep(PROBE_EVERY);
    }
    Ok(lag_us)
}

fn seen(reader: &mut Connection) -> Result<Option<u64>> {
    Ok(redis::cmd("HGET").arg("probe").arg("number").query(reader)?)
}

/// A server of a data center.
struct Server {
    address: SocketAddr,
    _process: Process,
}

/// Two data centers of some nodes and one server each, in mode `fast`.
struct Centers {
    // Servers end before their nodes, and both before their folder is deleted.
    servers: Vec<Server>,
    /// The addresses of their stores.
    stores: Vec<String>,
    profile: Profile,
    _nodes: Cluster,
    folder: TempDir,
}

impl Centers {
    fn start(penates: &Penates, profile: Profile, folder: TempDir) -> Result<Self> {
        let settings = Settings { commitlog_sync: CommitlogSync::Batch, ..Settings::default() };
        let shape = Shape { datacenters: 2, nodes_per_datacenter: profile.nodes };
        let nodes = Cluster::open(folder.path().join("nodes"), &ClusterSpec { settings, ..ClusterSpec::new(shape) })?;
        nodes.start_all()?;
        // The nodes of a data center follow one another.
        let stores: Vec<String> = nodes.contact_points().chunks(usize::from(profile.nodes)).map(store_at).collect();
        let of_first = ["--set", "cassandra.datacenter=dc1"];
        let copies = format!("dc1={0},dc2={0}", profile.nodes);
        let init = ["init", "--replication", &copies, "--store", &stores[0]];
        penates.run([&init[..], &of_first].concat())?;
        let mut centers = Self { servers: Vec::new(), stores, profile, _nodes: nodes, folder };
        centers.restart(penates, &[])?;
        Ok(centers)
    }

    /// Starts the servers, with more settings, after those that run have ended. The nodes run on.
    fn restart(&mut self, penates: &Penates, more: &[&str]) -> Result<()> {
        self.servers.clear();
        for (center, store) in self.stores.iter().enumerate() {
            let settings = self.profile.settings(center + 1, more);
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let log = self.folder.path().join(format!("log{}", center + 1));
            let (process, address, _) = serve(&settings, penates, store.as_ref(), &log)?;
            self.servers.push(Server { address, _process: process });
        }
        Ok(())
    }

    /// Loads both at once, each with half of a rate.
    fn load(&self, bench: &Bench, rate: f64) -> Result<Loaded> {
        let (rate, duration) = (rate / 2.0, bench.duration());
        let mix = Mix { reads: READS, draw: Draw::Uniform, records: bench.settings.records };
        let [first, second] = [0, 1].map(|center| self.servers[center].address);
        std::thread::scope(|scope| {
            let load = |address| scope.spawn(move || mix.run_within(address, rate, duration, GIVES_UP));
            let (loads, lag) = ([first, second].map(load), scope.spawn(move || lag(first, second, duration)));
            let panicked = || anyhow!("a client panicked");
            let [of_first, of_second] = loads.map(|load| load.join().map_err(|_| panicked())?);
            let arrivals = [of_first?, of_second?];
            Ok(Loaded { arrivals, lag: times(&lag.join().map_err(|_| panicked())??) })
        })
    }
}

/// The address of a store for a server that asks these nodes.
fn store_at(nodes: &[SocketAddr]) -> String {
    let hosts: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    format!("cassandra://{}/records", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_asks_the_nodes_of_its_data_center_at_the_levels_of_the_profile() {
        let nodes = [3_u8, 4].map(|number| SocketAddr::from(([127, 0, 1, number], 9_042)));
        assert_eq!(store_at(&nodes), "cassandra://127.0.1.3:9042,127.0.1.4:9042/records");
        let profile = Profile { nodes: 2, read: "ONE".to_owned(), write: "TWO".to_owned() };
        let expected = [
            "records.mode=fast",
            "cassandra.record_read=ONE",
            "cassandra.record_write=TWO",
            "cassandra.datacenter=dc2",
            "records.deadline=10ms",
        ];
        assert_eq!(profile.settings(2, &[DEADLINE]), expected);
    }
}
