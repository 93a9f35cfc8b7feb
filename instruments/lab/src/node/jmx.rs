//! What a node counts in its MBeans, by the agent that the testbed reads too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::beside::jolokia::{
    Agent, Attribute, COMPACTED_BYTES, COMPACTIONS, DROPPED_MESSAGES, GC_COUNT, GC_MS, PENDING_COMPACTIONS,
    READ_TIMEOUTS, WRITE_TIMEOUTS,
};
use testbed::monitor::{FetchError, MonitorError};
use tokio::time::{MissedTickBehavior, interval_at};

use super::one::One;
use super::{as_run, table};
use crate::flushes::Series;

/// The port on which the agent answers, on the node's own address.
pub(super) const PORT: u16 = 8_778;

/// From sample to sample; shorter loads have at least so many.
const INTERVAL: Duration = Duration::from_secs(1);
const SAMPLES_MIN: u32 = 4;

/// How long a flush may take; and an answer while no load is made.
const FLUSH_PATIENCE: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether an attribute only grows, so that its difference counts, or is a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    State,
}

/// How many tables a read has looked into: a mean by itself, in which a read weighs half after a minute,
/// because histograms of Cassandra decay.
const TABLES_PER_READ: &str = "sstables_per_read";

/// How many flushes of the table were begun.
const FLUSHES: &str = "memtable_switches";

/// A figure: its name, its MBean and attribute. `TABLE` is the load's table. An MBean without a domain is
/// one of Cassandra's metrics.
type Figure = (&'static str, &'static str, &'static str, Kind);

/// All figures. Those of compactions include tables of the system.
const FIGURES: [Figure; 22] = [
    ("bytes_flushed", "TABLE,name=BytesFlushed", "Count", Kind::Counter),
    ("compaction_bytes_written", "TABLE,name=CompactionBytesWritten", "Count", Kind::Counter),
    (FLUSHES, "TABLE,name=MemtableSwitchCount", "Count", Kind::Counter),
    ("memtable_waits", "type=MemtablePool,name=BlockedOnAllocation", "Count", Kind::Counter),
    ("commitlog_commit_waits", "type=CommitLog,name=WaitingOnCommit", "Count", Kind::Counter),
    ("commitlog_segment_waits", "type=CommitLog,name=WaitingOnSegmentAllocation", "Count", Kind::Counter),
    of_node("jmx_compacted_bytes", COMPACTED_BYTES, Kind::Counter),
    of_node("jmx_compactions", COMPACTIONS, Kind::Counter),
    ("compaction_tasks", "type=Compaction,name=CompletedTasks", "Value", Kind::Counter),
    of_node("dropped_messages", DROPPED_MESSAGES, Kind::Counter),
    // Their sum is `timeouts`. Other scopes count the same requests again, by their consistency.
    of_node("timeouts_of_reads", READ_TIMEOUTS, Kind::Counter),
    of_node("timeouts_of_writes", WRITE_TIMEOUTS, Kind::Counter),
    of_node("gc_count", GC_COUNT, Kind::Counter),
    of_node("gc_ms", GC_MS, Kind::Counter),
    of_node("pending_compactions", PENDING_COMPACTIONS, Kind::State),
    (
        "active_compactions",
        "type=ThreadPools,path=internal,scope=CompactionExecutor,name=ActiveTasks",
        "Value",
        Kind::State,
    ),
    ("pending_flushes", "type=MemtablePool,name=PendingFlushTasks", "Value", Kind::State),
    ("sstables", "TABLE,name=LiveSSTableCount", "Value", Kind::State),
    ("table_bytes_live", "TABLE,name=LiveDiskSpaceUsed", "Count", Kind::State),
    // With files that are no longer read, and not yet deleted.
    ("table_bytes_total", "TABLE,name=TotalDiskSpaceUsed", "Count", Kind::State),
    (TABLES_PER_READ, "TABLE,name=SSTablesPerReadHistogram", "Mean", Kind::State),
    ("memtable_bytes", "TABLE,name=AllMemtablesLiveDataSize", "Value", Kind::State),
];

/// A figure that the testbed's monitor knows too.
const fn of_node(name: &'static str, (mbean, attribute): Attribute<'static>, kind: Kind) -> Figure {
    (name, mbean, attribute, kind)
}

/// The full name of an MBean.
fn mbean(short: &str) -> String {
    if short.contains(':') {
        return short.to_owned();
    }
    let table = format!("type=Table,keyspace={},scope={}", table::KEYSPACE, table::NAME);
    format!("org.apache.cassandra.metrics:{}", short.replace("TABLE", &table))
}

/// The agent of a node.
pub(super) struct Jmx {
    agent: Agent,
    /// For questions while no load is made: they may wait.
    patient: Agent,
    flusher: Agent,
    mbeans: Vec<String>,
}

/// All figures at one instant; what cannot be read is left out.
type Values = BTreeMap<&'static str, f64>;

/// Figures at instants, in seconds since the start.
type Samples = Vec<(f64, Values)>;

impl Jmx {
    /// The agent that answers at this address.
    pub fn new(at: SocketAddr) -> Result<Self, MonitorError> {
        let url = format!("http://{at}/jolokia");
        let flusher = Agent::new(&url)?.with_patience(FLUSH_PATIENCE);
        let patient = Agent::new(&url)?.with_patience(PATIENCE);
        Ok(Self { agent: Agent::new(&url)?, patient, flusher, mbeans: FIGURES.map(|figure| mbean(figure.1)).to_vec() })
    }

    /// Flushes the load's table. It takes no second, as `nodetool` does.
    pub async fn flush(&self) -> Result<(), FetchError> {
        let operation = "forceKeyspaceFlush(java.lang.String,[Ljava.lang.String;)";
        let arguments = json!([table::KEYSPACE, [table::NAME]]);
        self.flusher.call("org.apache.cassandra.db:type=StorageService", operation, arguments).await
    }

    /// Fails if the agent does not answer.
    pub async fn answers(&self) -> Result<(), FetchError> {
        self.patient.read(&[("java.lang:type=Runtime", "Uptime")]).await.map(drop)
    }

    /// What an agent says now; a node that does not answer in time has no values.
    async fn values(&self, agent: &Agent) -> Values {
        let attributes: Vec<Attribute<'_>> =
            self.mbeans.iter().zip(FIGURES).map(|(mbean, figure)| (mbean.as_str(), figure.2)).collect();
        let values = agent.read(&attributes).await.unwrap_or_default();
        FIGURES.iter().zip(values).filter_map(|(figure, value)| Some((figure.0, value?))).collect()
    }

    /// What only grows.
    pub async fn counters(&self) -> BTreeMap<String, f64> {
        let values = self.values(&self.patient).await;
        let counters = FIGURES.iter().filter(|figure| figure.3 == Kind::Counter);
        let all = counters.filter_map(|figure| Some((figure.0.to_owned(), *values.get(figure.0)?)));
        let timeouts = || Some(values.get("timeouts_of_reads")? + values.get("timeouts_of_writes")?);
        all.chain(timeouts().map(|timeouts| ("timeouts".to_owned(), timeouts))).collect()
    }

    /// Writes all figures from `start` on for so long, once a second, and returns them.
    async fn sample(&self, start: Instant, duration: Duration, file: &Path) -> io::Result<Samples> {
        let every = INTERVAL.min(duration / SAMPLES_MIN).max(Duration::from_millis(10));
        let mut out = csv::Writer::from_writer(File::create(file)?);
        out.write_record(std::iter::once("at_s").chain(FIGURES.map(|figure| figure.0)))?;
        let mut ticks = interval_at(start.into(), every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut all = Vec::new();
        loop {
            ticks.tick().await;
            let at_s = start.elapsed().as_secs_f64();
            if at_s > duration.as_secs_f64() && all.len() > 1 {
                break;
            }
            let values = self.values(&self.agent).await;
            let row = FIGURES.iter().map(|figure| values.get(figure.0).map(f64::to_string).unwrap_or_default());
            out.write_record(std::iter::once(format!("{at_s:.3}")).chain(row))?;
            all.push((at_s, values));
        }
        out.flush()?;
        Ok(all)
    }
}

/// What the MBeans of all nodes said during a load.
pub(super) struct Sampled {
    /// The metrics.
    pub metrics: BTreeMap<String, f64>,
    /// How many flushes were begun, in time.
    pub flushed: Series,
}

/// Writes the figures of all nodes whose MBeans are read, from `start` on for so long, and returns
/// what they say together.
pub(super) async fn sample(nodes: &[One], start: Instant, duration: Duration, folder: &Path) -> io::Result<Sampled> {
    let sampled = nodes.iter().map(|node| sample_one(node, start, duration, folder));
    let all = together(&futures::future::try_join_all(sampled).await?);
    Ok(Sampled { metrics: of_samples(&all), flushed: series(&all, FLUSHES) })
}

/// A figure in time.
fn series(all: &[(f64, Values)], name: &str) -> Series {
    all.iter().filter_map(|(at_s, values)| Some((*at_s, *values.get(name)?))).collect()
}

async fn sample_one(node: &One, start: Instant, duration: Duration, folder: &Path) -> io::Result<Samples> {
    let Some(jmx) = &node.jmx else { return Ok(Samples::new()) };
    jmx.sample(start, duration, &folder.join(as_run::name("jmx", node.id, "csv"))).await
}

/// The figures of several nodes at about the same instants: their sums, and of tables per read the
/// mean. What one of them does not say at an instant has no figure then.
fn together(nodes: &[Samples]) -> Samples {
    let Some((first, others)) = nodes.split_first() else { return Samples::new() };
    let at = |(index, (at_s, values)): (usize, &(f64, Values))| {
        let others: Option<Vec<_>> = others.iter().map(|samples| Some(&samples.get(index)?.1)).collect();
        let others = others?;
        let sums = values.iter().filter_map(|(name, value)| {
            let of_others: Option<Vec<_>> = others.iter().map(|values| values.get(name).copied()).collect();
            let sum = value + of_others?.iter().sum::<f64>();
            Some((*name, if *name == TABLES_PER_READ { sum / nodes.len() as f64 } else { sum }))
        });
        Some((*at_s, sums.collect()))
    };
    first.iter().enumerate().filter_map(at).collect()
}

/// The means of states, the most of what waits, and the rate of compactions.
fn of_samples(all: &[(f64, Values)]) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let of = |name: &str| series(all, name);
    for (name, ..) in FIGURES.iter().filter(|figure| figure.3 == Kind::State) {
        let values = of(name);
        if !values.is_empty() {
            let mean = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
            found.insert((*name).to_owned(), mean);
        }
    }
    let most = of("pending_compactions").into_iter().map(|(_, value)| value).max_by(f64::total_cmp);
    found.extend(most.map(|most| ("pending_compactions_max".to_owned(), most)));
    let compacted = of("jmx_compacted_bytes");
    if let (Some((from_s, first)), Some((to_s, last))) = (compacted.first(), compacted.last())
        && to_s > from_s
    {
        found.insert("compaction_rate_bytes_per_s".to_owned(), (last - first) / (to_s - from_s));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric;

    #[test]
    fn samples_say_how_much_waited_and_how_fast_was_compacted() {
        let sample = |at_s: f64, pending: f64, bytes: f64, tables: f64| {
            let values =
                [("pending_compactions", pending), ("jmx_compacted_bytes", bytes), ("sstables_per_read", tables)];
            (at_s, Values::from(values))
        };
        let all = [sample(1.0, 0.0, 100.0, 1.0), sample(2.0, 6.0, 100.0, 1.5), sample(5.0, 3.0, 500.0, 3.5)];
        let found = of_samples(&all);
        assert_eq!((found["pending_compactions"], found["pending_compactions_max"]), (3.0, 6.0));
        assert_eq!((found["compaction_rate_bytes_per_s"], found["sstables_per_read"]), (100.0, 2.0));
        // A node that did not answer has no figures, and none is made up.
        assert!(of_samples(&[(1.0, Values::new())]).is_empty());
        assert!(!of_samples(&all[..1]).contains_key("compaction_rate_bytes_per_s"));
    }

    #[test]
    fn figures_of_nodes_are_added_and_tables_per_read_are_a_mean() {
        let sample = |pending: f64, tables: f64| {
            (1.0, Values::from([("pending_compactions", pending), (TABLES_PER_READ, tables)]))
        };
        let both = together(&[vec![sample(2.0, 1.0), sample(3.0, 1.0)], vec![sample(5.0, 2.0)]]);
        assert_eq!(both, [sample(7.0, 1.5)], "the second node did not answer again");
        let silent = together(&[vec![sample(2.0, 1.0)], vec![(1.0, Values::new())]]);
        assert_eq!(silent, [(1.0, Values::new())]);
    }

    #[test]
    fn a_metric_that_follows_from_an_mbean_is_known_to_do_so() {
        for (name, ..) in FIGURES {
            let known = [name.to_owned(), format!("{name}_drained")].into_iter().filter_map(|name| metric::find(&name));
            assert!(known.map(metric::Metric::source).all(|source| source == metric::Source::MBeans), "{name}");
        }
    }

    #[test]
    fn names_of_mbeans_are_those_of_the_table_of_the_load() {
        assert_eq!(
            mbean(FIGURES[0].1),
            "org.apache.cassandra.metrics:type=Table,keyspace=lab,scope=standard1,name=BytesFlushed"
        );
        assert_eq!(mbean("java.lang:type=GarbageCollector,name=*"), "java.lang:type=GarbageCollector,name=*");
    }
}
