//! Real nodes: Cassandra by crate `cluster`, asked over CQL.
//!
//! - `one.rs`: a node that runs; `config.rs`: the settings of a node for a setting of the study;
//!   `jdk.rs`: the Javas of a plan; `views.rs`: what a node says of itself; `table.rs`: the table of the
//!   load.
//! - `jmx.rs` reads its MBeans, and `tasks.rs` how far compactions are; `as_run.rs` keeps what a run
//!   ran with.

mod as_run;
mod config;
mod jdk;
mod jmx;
mod one;
mod table;
mod tasks;
mod views;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster::{Cluster, ClusterError, ClusterSpec, NodeId, Shape};
use testbed::record::Machine;

use crate::catalogue;
use crate::deployment;
use crate::estimate::Room;
use crate::factor::{Applied, Factor, Setting};
use crate::flushes;
use crate::load::watch::Watched;
use crate::load::{self, Load};
use crate::metric::Source;
use crate::page_cache;
use crate::plan::{Plan, Restart};
use crate::rig::{Baseline, CountedBy, Counters, Facts, Loaded, Rig, RigError, THROTTLE};
use crate::sync;
use crate::value;
use crate::workload::{Data, Workload};

use jdk::Jdk;
use one::One;
pub(crate) use views::Views;
pub use views::{CqlError, InForce, in_force};

/// Between two looks at what a node does.
const PAUSE: Duration = Duration::from_millis(50);

/// How long compactions may take until none is left.
const IDLE_PATIENCE: Duration = Duration::from_secs(1_800);

/// How long files of earlier tables may take until they are deleted.
const DELETED_PATIENCE: Duration = Duration::from_secs(60);

/// Nodes that the lab starts, sets and stops. They end with the value, and with the process.
pub struct Node {
    plan: Plan,
    /// Where the data of clusters are: one for each number of nodes that the plan has.
    folder: PathBuf,
    cluster: Arc<Cluster>,
    running: Option<Running>,
    begun: Instant,
    /// The jar of the agent that shows MBeans, or why they are not read.
    agent: Result<PathBuf, String>,
    /// The digest of Cassandra's jars; `None` if they cannot be read.
    jars: Option<String>,
    /// The Javas among which the plan chooses.
    jdks: Vec<Jdk>,
}

/// Nodes that run.
struct Running {
    /// At least one.
    nodes: Vec<One>,
    /// A connection to all of them, for the load.
    all: Views,
    /// What they were started with.
    started: cluster::Settings,
    /// The table, once it was made.
    table: Option<Arc<table::Table>>,
    /// How long the loads took that were made on its records.
    loaded: Duration,
    /// The share of its files that was in memory after the prefill, if somebody says it.
    in_memory: Option<f64>,
}

impl Running {
    /// The first node, for what all have in common.
    fn first(&self) -> Result<&One, RigError> {
        self.nodes.first().ok_or_else(|| fatal("the cluster has no node"))
    }

    fn table(&self) -> Result<&Arc<table::Table>, RigError> {
        self.table.as_ref().ok_or_else(|| failed("there is no table"))
    }

    fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.pid).collect()
    }

    /// What is watched during a load.
    fn watched(&self) -> Result<Watched, RigError> {
        Ok(Watched {
            data: self.first()?.folder.clone(),
            pids: self.pids(),
            addresses: self.nodes.iter().map(|node| node.cql).collect(),
        })
    }

    /// The counters of all nodes, since an instant.
    async fn counters(&self, begun: Instant) -> Result<Counters, RigError> {
        let made_ms = self.table()?.made_ms;
        let asked = self.nodes.iter().map(|node| node.counters(made_ms));
        let all = futures::future::try_join_all(asked).await?;
        Ok(Counters { at_s: begun.elapsed().as_secs_f64(), ..one::sum(&all) })
    }
}

fn fatal(error: impl Display) -> RigError {
    RigError::Fatal(error.to_string())
}

fn failed(error: impl Display) -> RigError {
    RigError::Run(error.to_string())
}

impl Node {
    /// Nodes with their data in a folder. They do not run yet. The first time on a machine Cassandra
    /// is fetched, which takes half a minute or more. The call blocks.
    ///
    /// # Errors
    /// What is missing on the machine, or a Java of the plan that runs no node.
    pub fn open(plan: &Plan, folder: &Path) -> Result<Self, ClusterError> {
        let jdks = jdk::of_plan(plan)?;
        let settings = config::settings(plan, &Setting::default());
        let cluster = Arc::new(open(folder, config::nodes(plan, &Setting::default()), settings)?);
        let agent = match plan.node.jmx {
            true => cluster::jolokia_agent()
                .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned()),
            false => Err("the plan says node.jmx = false".to_owned()),
        };
        let jars = as_run::digest(cluster.jars()).ok();
        let (plan, folder) = (plan.clone(), folder.to_owned());
        Ok(Self { plan, folder, cluster, running: None, begun: Instant::now(), agent, jars, jdks })
    }

    /// Runs blocking work of the cluster on a thread of its own.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cluster) -> Result<T, ClusterError> + Send + 'static,
    ) -> Result<T, ClusterError> {
        let cluster = self.cluster.clone();
        let done = tokio::task::spawn_blocking(move || work(&cluster)).await;
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    async fn nodetool(&self, node: NodeId, words: &[&str]) -> Result<(), RigError> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let run = self.blocking(move |cluster| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            cluster.nodetool(node, &words)
        });
        run.await.map(drop).map_err(failed)
    }

    /// Has other records from the next run on.
    pub fn set_data(&mut self, data: Data) {
        self.plan.data = data;
    }

    /// Fails if the disk has no room for a run: its records and what its load writes.
    fn has_room(&self) -> Result<(), RigError> {
        let free = rustix::fs::statvfs(self.cluster.folder()).map_err(fatal)?;
        Room::of(&self.plan).fits(free.f_bavail as f64 * free.f_frsize as f64).map_err(fatal)
    }

    /// Fails if this machine lets nobody make the containers of the plan.
    fn can_have_containers(&self) -> Result<(), RigError> {
        let factor = self.plan.factor(deployment::CONTAINER).into_iter();
        let values = factor.flat_map(|factor| factor.values.iter().chain(&factor.default));
        for limits in values.filter_map(|value| deployment::limits(value)) {
            let tried = cluster::ControlGroup::new(&format!("penates-try-{}", std::process::id()), limits);
            tried.map_err(|error| fatal(format!("no container can be made here: {error}")))?;
        }
        Ok(())
    }

    fn running(&self) -> Result<&Running, RigError> {
        self.running.as_ref().ok_or_else(|| failed("the node does not run"))
    }

    /// Starts so many nodes. All that ran are killed: their tables are made again in any case, so they
    /// need not write their memtables.
    async fn start(&mut self, nodes: u8, settings: cluster::Settings) -> Result<(), RigError> {
        self.running = None;
        self.blocking(Cluster::kill_all).await.map_err(fatal)?;
        if self.cluster.nodes().count() != usize::from(nodes) {
            let (folder, settings) = (self.folder.clone(), settings.clone());
            let opening = tokio::task::spawn_blocking(move || open(&folder, nodes, settings));
            let opened = opening.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            self.cluster = Arc::new(opened.map_err(fatal)?);
        }
        let mut asked = settings.clone();
        asked.jvm_options.extend(self.agent.iter().map(|jar| cluster::jolokia_option(jar, jmx::PORT)));
        let started = self.blocking(move |cluster| {
            cluster.set_settings(asked);
            cluster.start_all()
        });
        started.await.map_err(|error| failed(in_short(&error.to_string())))?;
        let mut running = Vec::new();
        for status in self.cluster.status() {
            running.push(One::of(&status, self.agent.is_ok()).await?);
        }
        let all: Vec<_> = running.iter().map(|node| node.cql).collect();
        let all = Views::connect(&all).await.map_err(failed)?;
        let (nodes, started) = (running, settings);
        self.running = Some(Running { nodes, all, started, table: None, loaded: Duration::ZERO, in_memory: None });
        Ok(())
    }

    /// Whether the processes that were started still run.
    fn are_alive(&self) -> bool {
        let pids = self.cluster.status().into_iter().map(|status| status.pid);
        let of = |running: &Running| running.nodes.iter().map(|node| Some(node.pid)).eq(pids);
        self.running.as_ref().is_some_and(of)
    }

    /// Fails if a running node does not take a value.
    fn can_be_set(&self, setting: &Setting) -> Result<(), RigError> {
        let live = self.plan.factors.iter().filter(|factor| factor.applied() == Applied::Live);
        for factor in live {
            let Some(asked) = setting.value(factor) else { continue };
            if catalogue::for_nodetool(&factor.name, asked).is_none() {
                return Err(failed(format!("{} cannot be set to {asked} at run time", factor.name)));
            }
        }
        Ok(())
    }

    /// Gives the running nodes the values of live factors.
    async fn set_live(&self, setting: &Setting) -> Result<(), RigError> {
        for node in &self.running()?.nodes {
            self.set_live_on(node, setting).await?;
        }
        Ok(())
    }

    async fn set_live_on(&self, node: &One, setting: &Setting) -> Result<(), RigError> {
        let now = node.views.settings().await.map_err(failed)?;
        for factor in self.plan.factors.iter().filter(|factor| factor.applied() == Applied::Live) {
            let name = factor.name.as_str();
            let asked = setting.value(factor).or_else(|| node.by_itself.get(name).map(String::as_str));
            let Some(asked) = asked else { return Err(failed(format!("the node has no setting {name}"))) };
            if now.get(name).is_some_and(|now| value::is_in_force(Applied::Live, asked, now)) {
                continue;
            }
            let words = catalogue::find(name).and_then(|known| known.nodetool);
            let given = catalogue::for_nodetool(name, asked);
            let (Some(words), Some(given)) = (words, given) else {
                return Err(failed(format!("{name} cannot be set to {asked} at run time")));
            };
            self.nodetool(node.id, &[words, &[given.as_str()]].concat()).await?;
        }
        Ok(())
    }

    /// The value of a factor that is in force on a node.
    async fn value(
        &self,
        node: &One,
        factor: &Factor,
        settings: &BTreeMap<String, String>,
    ) -> Result<Option<String>, RigError> {
        let running = self.running()?;
        Ok(match factor.applied() {
            _ if factor.name == sync::NAME => sync::of_settings(settings),
            Applied::Restart | Applied::Live => settings.get(&factor.name).cloned(),
            Applied::Table => node.views.table_option(&factor.name).await.map_err(failed)?,
            Applied::Heap => config::heap_of(&command_line(node.pid)),
            Applied::Jvm if factor.name == catalogue::JDK => {
                program(node.pid).map(|program| jdk::named(&self.jdks, &program))
            }
            Applied::Jvm if factor.is_young() => Some(config::young_of(&command_line(node.pid))),
            Applied::Jvm => Some(config::options_of(factor, &command_line(node.pid))),
            Applied::Cluster if factor.name == deployment::NODES => {
                Some(node.views.nodes().await.map_err(failed)?.to_string())
            }
            Applied::Cluster => {
                let (memory_bytes, cpus) = testbed::machine::limits_of_process(node.pid);
                Some(deployment::of_process(memory_bytes, cpus))
            }
            Applied::Keyspace if factor.name == deployment::COPIES => {
                node.views.copies().await.map_err(failed)?.map(|copies| copies.to_string())
            }
            Applied::Keyspace => running.table()?.levels().map(|levels| levels.to_string()),
            // A plan of nodes has none.
            Applied::Setting => None,
        })
    }

    /// Flushes the load's table on all nodes.
    async fn flush(&self) -> Result<(), RigError> {
        let running = self.running()?;
        futures::future::try_join_all(running.nodes.iter().map(|node| self.flush_on(node))).await.map(drop)
    }

    async fn flush_on(&self, node: &One) -> Result<(), RigError> {
        match &node.jmx {
            Some(jmx) => jmx.flush().await.map_err(|error| failed(format!("flushing: {error}"))),
            None => self.nodetool(node.id, &["flush", table::KEYSPACE, table::NAME]).await,
        }
    }

    /// Waits until no flush and no compaction runs or waits.
    async fn wait_until_idle(&self) -> Result<(), RigError> {
        let nodes = &self.running()?.nodes;
        let deadline = Instant::now() + IDLE_PATIENCE;
        let mut idle_looks = 0;
        // A compaction that has ended may be followed by another one that it made possible.
        while idle_looks < 2 {
            let asked = nodes.iter().map(|node| node.views.is_idle());
            let are_idle = futures::future::try_join_all(asked).await.map_err(failed)?;
            idle_looks = if are_idle.iter().all(|is_idle| *is_idle) { idle_looks + 1 } else { 0 };
            if Instant::now() > deadline {
                return Err(failed(format!("compactions did not end within {IDLE_PATIENCE:?}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

/// Why a node did not start, without the many lines of its log: the first line, and the last cause.
fn in_short(log: &str) -> String {
    let first = log.lines().next().unwrap_or_default();
    let cause = log.lines().rev().find_map(|line| line.trim().strip_prefix("Caused by: "));
    cause.map_or_else(|| log.to_owned(), |cause| format!("{first} {cause}"))
}

/// Opens the cluster of so many nodes. That of one node has the folder itself, and others have one
/// beside it.
fn open(folder: &Path, nodes: u8, settings: cluster::Settings) -> Result<Cluster, ClusterError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let own = if nodes == 1 { folder.to_owned() } else { folder.with_file_name(format!("{name}-{nodes}")) };
    Cluster::open(own, &ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(nodes)) })
}

/// The words of a process's command line; none if it has ended.
fn command_line(pid: u32) -> Vec<String> {
    process(pid).and_then(|process| process.cmdline()).unwrap_or_default()
}

/// The program of a process, with links resolved; `None` if it has ended.
fn program(pid: u32) -> Option<PathBuf> {
    process(pid).and_then(|process| process.exe()).ok()
}

fn process(pid: u32) -> procfs::ProcResult<procfs::process::Process> {
    procfs::process::Process::new(i32::try_from(pid).unwrap_or_default())
}

#[async_trait]
impl Rig for Node {
    async fn facts(&mut self) -> Result<Facts, RigError> {
        let needed = self.plan.needed().into_iter().map(|(metric, _)| metric);
        let of_mbeans = needed.map(|metric| (metric.name, metric.source())).find(|(_, by)| *by == Source::MBeans);
        if let (Err(why), Some((name, _))) = (&self.agent, of_mbeans) {
            return Err(fatal(format!("{name} is read from MBeans, and their agent cannot be had: {why}")));
        }
        self.has_room()?;
        self.can_have_containers()?;
        self.plan.data.page_cache.can_be_read_back().map_err(fatal)?;
        if self.running.is_none() {
            let usual = Setting::default();
            let settings = config::settings(&self.plan, &usual);
            self.start(config::nodes(&self.plan, &usual), settings).await.map_err(fatal)?;
        }
        let first = self.running()?.first()?;
        let machine = Machine::find(Some(&first.folder));
        let mut facts = first.views.versions().await.map_err(fatal)?;
        facts.insert("machine".to_owned(), machine.name);
        facts.insert("simulated".to_owned(), "false".to_owned());
        let agent = match &self.agent {
            Ok(_) => format!("Jolokia {}", cluster::JOLOKIA_VERSION),
            Err(why) => format!("not measured: {why}"),
        };
        facts.insert("figures of JMX".to_owned(), agent);
        facts.insert("processors".to_owned(), machine.processors.to_string());
        let known = [
            ("processor", machine.processor),
            ("memory_bytes", machine.memory_bytes.map(|bytes| bytes.to_string())),
            ("disk", machine.disk),
            ("kernel", machine.kernel),
            ("heap_mib", config::heap_of(&command_line(first.pid))),
            ("jars", self.jars.clone()),
        ];
        facts.extend(known.into_iter().filter_map(|(fact, value)| Some((fact.to_owned(), value?))));
        facts.extend(jdk::facts(&self.jdks));
        Ok(Facts { facts })
    }

    async fn apply(&mut self, setting: &Setting, restart: Restart) -> Result<bool, RigError> {
        self.can_be_set(setting)?;
        let (nodes, settings) = (config::nodes(&self.plan, setting), config::settings(&self.plan, setting));
        let is_usable = self.running.as_ref().is_some_and(|running| {
            let is_fresh = restart == Restart::WhenChanged || running.table.is_none();
            running.started == settings && running.nodes.len() == usize::from(nodes) && is_fresh
        });
        // A node that has ended or does not answer is started again, whatever it was started with.
        if is_usable && self.are_alive() && self.set_live(setting).await.is_ok() {
            return Ok(false);
        }
        let started = self.start(nodes, settings).await;
        // Without the default there is nothing to compare with.
        started.map_err(|error| if setting.is_default() { fatal(error) } else { error })?;
        let set = self.set_live(setting).await;
        if set.is_err() {
            self.running = None;
        }
        set.map(|()| true)
    }

    async fn recreate(&mut self, setting: &Setting) -> Result<Baseline, RigError> {
        let options = config::table_options(&self.plan, setting);
        let kept = (config::copies(&self.plan, setting), config::levels(&self.plan, setting));
        let table = table::Table::create(&self.running()?.all, &self.plan.data, kept, &options).await;
        let table = table.map_err(failed)?;
        if let Some(running) = &mut self.running {
            running.table = Some(Arc::new(table));
            running.loaded = Duration::ZERO;
        }
        for node in &self.running()?.nodes {
            if node.views.snapshots().await.map_err(failed)? > 0 {
                self.nodetool(node.id, &["clearsnapshot", "--all"]).await?;
            }
        }
        let deadline = Instant::now() + DELETED_PATIENCE;
        loop {
            let running = self.running()?;
            let mut baseline = Baseline::default();
            for node in &running.nodes {
                baseline.snapshots += node.views.snapshots().await.map_err(failed)?;
                baseline.left_bytes += running.table()?.left_bytes(&node.folder);
            }
            if baseline == Baseline::default() || Instant::now() > deadline {
                return Ok(baseline);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read_back(&mut self) -> Result<BTreeMap<String, String>, RigError> {
        let mut read = BTreeMap::new();
        for node in &self.running()?.nodes {
            let settings = node.views.settings().await.map_err(failed)?;
            let mut own = BTreeMap::new();
            for factor in &self.plan.factors {
                if let Some(value) = self.value(node, factor, &settings).await? {
                    own.insert(factor.name.clone(), value);
                }
            }
            own.extend(settings.get(THROTTLE).map(|limit| (THROTTLE.to_owned(), limit.clone())));
            // What nodes do not agree on is the value of none, and no value that was asked for.
            own.into_iter().for_each(|(name, value)| {
                read.entry(name)
                    .and_modify(|all: &mut String| {
                        if *all != value {
                            *all = format!("{all}, and {value} on node {}", node.id);
                        }
                    })
                    .or_insert(value);
            });
        }
        Ok(read)
    }

    async fn prefill(&mut self, seed: u64) -> Result<(), RigError> {
        // Others may have filled the disk since the study began.
        self.has_room()?;
        let running = self.running()?;
        load::prefill(running.table()?.as_ref(), &self.plan.data, seed).await?;
        self.flush().await?;
        self.wait_until_idle().await?;
        let table = running.table()?;
        let files = running.nodes.iter().flat_map(|node| table.files(&node.folder));
        let share = self.plan.data.page_cache.reach(files, &running.pids()).map_err(failed)?;
        if let Some(running) = &mut self.running {
            running.in_memory = share;
        }
        Ok(())
    }

    async fn counters(&mut self) -> Result<Counters, RigError> {
        self.running()?.counters(self.begun).await
    }

    async fn load(&mut self, workload: &Workload, seed: u64, folder: &Path) -> Result<Loaded, RigError> {
        let after = self.running()?.loaded;
        if let Some(running) = &mut self.running {
            running.loaded += workload.time();
        }
        let running = self.running()?;
        let table = running.first()?.views.described().await.map_err(failed)?;
        for node in &running.nodes {
            let java = node.views.java().await.map_err(failed)?;
            as_run::keep(folder, node.id, &node.folder, &command_line(node.pid), &java).map_err(fatal)?;
        }
        as_run::keep_table(folder, &table).map_err(fatal)?;
        let load = Load { data: &self.plan.data, workload, seed, after };
        let watched = running.watched()?;
        let watch = async |start, duration| {
            let of_jmx = jmx::sample(&running.nodes, start, duration, folder);
            let tasks = tasks::sample(&running.nodes, start, duration, folder);
            let (samples, of_jmx, tasks) = tokio::join!(watched.run(start, duration, folder), of_jmx, tasks);
            let (mut samples, of_jmx) = (samples?, of_jmx.map_err(csv::Error::from)?);
            samples.extend(tasks?);
            samples.extend(flushes::keep(folder, &of_jmx.flushed)?);
            samples.extend(of_jmx.metrics);
            samples.extend(running.in_memory.map(|share| (page_cache::SHARE.to_owned(), share)));
            Ok(samples)
        };
        let at_window = running.counters(self.begun);
        let (loaded, begun) = load.make(running.table()?, watch, folder, at_window).await?;
        let copies = running.first()?.views.copies().await.map_err(failed)?.unwrap_or(1);
        let (writes, reads) = running.table()?.levels().unwrap_or_default().answers(copies);
        let counted_by = CountedBy { writes: (writes, copies), reads: (reads, copies) };
        Ok(Loaded { begun: begun?, counted_by: Some(counted_by), ..loaded })
    }

    async fn drain(&mut self) -> Result<BTreeMap<String, f64>, RigError> {
        self.flush().await?;
        self.wait_until_idle().await?;
        let running = self.running()?;
        let (table, data) = (running.table()?, &self.plan.data);
        let copies = running.first()?.views.copies().await.map_err(failed)?.unwrap_or(1);
        let disk_bytes = running.nodes.iter().map(|node| table.bytes(&node.folder)).sum::<u64>() as f64;
        let mut state = BTreeMap::from([("disk_bytes".to_owned(), disk_bytes)]);
        if data.is_counted() {
            let payload = data.records as f64 * f64::from(data.record_bytes) * f64::from(copies);
            state.insert("space_amplification".to_owned(), disk_bytes / payload);
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_last_cause_is_kept() {
        let log =
            "it ended; its log ends:\n\tat a.b\nCaused by: one\n\tat c.d\nCaused by: Invalid duration: x\n... 27 more";
        assert_eq!(in_short(log), "it ended; its log ends: Invalid duration: x");
        assert_eq!(in_short("no memory\nis left"), "no memory\nis left");
    }
}
