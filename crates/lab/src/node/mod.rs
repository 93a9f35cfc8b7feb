//! A real node: Cassandra by crate `cluster`, asked over CQL.
//!
//! - `config.rs`: the settings of a node for a setting of the study; `views.rs`: what a node says
//!   of itself; `table.rs`: the table of the load.
//! - `load.rs` makes the load, with `records.rs`; `tally.rs` counts it; `watch.rs` watches the
//!   machine meanwhile, with `packets.rs`; `process.rs` reads what the node's process has used,
//!   and `jmx.rs` its MBeans; `as_run.rs` keeps what a run ran with.

mod as_run;
mod config;
mod jmx;
mod load;
mod packets;
mod process;
mod records;
mod table;
mod tally;
mod views;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cluster::{Cluster, ClusterError, ClusterSpec, NodeId, Shape};
use testbed::record::Machine;

use crate::catalogue;
use crate::estimate::Room;
use crate::factor::{Applied, Factor, Setting};
use crate::metric::{self, Source};
use crate::plan::{Plan, Restart};
use crate::rig::{Baseline, Counters, Facts, Loaded, Rig, RigError, THROTTLE};
use crate::sync;
use crate::value;
use crate::workload::{Data, Workload};

use jmx::Jmx;
pub use views::CqlError;
pub(crate) use views::Views;

/// The only node.
const NODE: NodeId = NodeId(1);

/// Between two looks at what a node does.
const PAUSE: Duration = Duration::from_millis(50);

/// How long compactions may take until none is left.
const IDLE_PATIENCE: Duration = Duration::from_secs(1_800);

/// How long files of earlier tables may take until they are deleted.
const DELETED_PATIENCE: Duration = Duration::from_secs(60);

/// A node that the lab starts, sets and stops. It ends with the value, and with the process.
pub struct Node {
    plan: Plan,
    cluster: Arc<Cluster>,
    running: Option<Running>,
    begun: Instant,
    /// The jar of the agent that shows MBeans, or why they are not read.
    agent: Result<PathBuf, String>,
    /// The digest of Cassandra's jars; `None` if they cannot be read.
    jars: Option<String>,
}

/// A node that runs.
struct Running {
    views: Views,
    pid: u32,
    folder: PathBuf,
    /// What it was started with.
    started: cluster::Settings,
    /// The values of live factors that it had then.
    by_itself: BTreeMap<String, String>,
    /// Its MBeans, if they are read.
    jmx: Option<Jmx>,
    /// The table, once it was made.
    table: Option<table::Table>,
}

fn fatal(error: impl Display) -> RigError {
    RigError::Fatal(error.to_string())
}

fn failed(error: impl Display) -> RigError {
    RigError::Run(error.to_string())
}

impl Node {
    /// A node with its data in a folder. It does not run yet. The first time on a machine Cassandra
    /// is fetched, which takes half a minute or more. The call blocks.
    ///
    /// # Errors
    /// What is missing on the machine.
    pub fn open(plan: &Plan, folder: &Path) -> Result<Self, ClusterError> {
        let settings = config::settings(plan, &Setting::default());
        let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) };
        let cluster = Arc::new(Cluster::open(folder, &spec)?);
        let agent = match plan.node.jmx {
            true => cluster::jolokia_agent()
                .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned()),
            false => Err("the plan says node.jmx = false".to_owned()),
        };
        let jars = as_run::digest(cluster.jars()).ok();
        Ok(Self { plan: plan.clone(), cluster, running: None, begun: Instant::now(), agent, jars })
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

    async fn nodetool(&self, words: &[&str]) -> Result<(), RigError> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let run = self.blocking(move |cluster| {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            cluster.nodetool(NODE, &words)
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

    fn running(&self) -> Result<&Running, RigError> {
        self.running.as_ref().ok_or_else(|| failed("the node does not run"))
    }

    fn table(&self) -> Result<&table::Table, RigError> {
        self.running()?.table.as_ref().ok_or_else(|| failed("there is no table"))
    }

    async fn start(&mut self, settings: cluster::Settings) -> Result<(), RigError> {
        self.running = None;
        let mut asked = settings.clone();
        let at = self.cluster.status().first().map(|status| SocketAddr::new(status.cql.ip(), jmx::PORT));
        let at = at.ok_or_else(|| fatal("the cluster has no node"))?;
        asked.jvm_options.extend(self.agent.iter().map(|jar| cluster::jolokia_option(jar, at)));
        let started = self.blocking(move |cluster| {
            // Its tables are made again in any case, so it need not write its memtables.
            cluster.kill_all()?;
            cluster.set_settings(asked);
            cluster.start_all()
        });
        started.await.map_err(|error| failed(in_short(&error.to_string())))?;
        let status = self.cluster.status();
        let status = status.first().ok_or_else(|| fatal("the cluster has no node"))?;
        let pid = status.pid.ok_or_else(|| failed("the node has ended"))?;
        let views = Views::connect(status.cql).await.map_err(failed)?;
        let by_itself = views.settings().await.map_err(failed)?;
        let folder = status.folder.clone();
        let jmx = self.agent.is_ok().then(|| Jmx::new(at)).transpose().map_err(fatal)?;
        if let Some(jmx) = &jmx {
            let unanswered = |error| fatal(format!("the agent of the node's MBeans does not answer at {at}: {error}"));
            jmx.answers().await.map_err(unanswered)?;
        }
        self.running = Some(Running { views, pid, folder, started: settings, by_itself, jmx, table: None });
        Ok(())
    }

    /// Whether the process that was started still runs.
    fn is_alive(&self) -> bool {
        let pid = self.cluster.status().first().and_then(|status| status.pid);
        self.running.as_ref().is_some_and(|running| pid == Some(running.pid))
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

    /// Gives a running node the values of live factors.
    async fn set_live(&self, setting: &Setting) -> Result<(), RigError> {
        let running = self.running()?;
        let now = running.views.settings().await.map_err(failed)?;
        for factor in self.plan.factors.iter().filter(|factor| factor.applied() == Applied::Live) {
            let name = factor.name.as_str();
            let asked = setting.value(factor).or_else(|| running.by_itself.get(name).map(String::as_str));
            let Some(asked) = asked else { return Err(failed(format!("the node has no setting {name}"))) };
            if now.get(name).is_some_and(|now| value::is_in_force(Applied::Live, asked, now)) {
                continue;
            }
            let words = catalogue::find(name).and_then(|known| known.nodetool);
            let given = catalogue::for_nodetool(name, asked);
            let (Some(words), Some(given)) = (words, given) else {
                return Err(failed(format!("{name} cannot be set to {asked} at run time")));
            };
            self.nodetool(&[words, &[given.as_str()]].concat()).await?;
        }
        Ok(())
    }

    /// The value of a factor that is in force.
    async fn value(&self, factor: &Factor, settings: &BTreeMap<String, String>) -> Result<Option<String>, RigError> {
        let running = self.running()?;
        Ok(match factor.applied() {
            _ if factor.name == sync::NAME => sync::of_settings(settings),
            Applied::Restart | Applied::Live => settings.get(&factor.name).cloned(),
            Applied::Table => running.views.table_option(&factor.name).await.map_err(failed)?,
            Applied::Heap => config::heap_of(&command_line(running.pid)),
            Applied::Jvm => Some(config::options_of(factor, &command_line(running.pid))),
        })
    }

    /// Flushes the load's table.
    async fn flush(&self) -> Result<(), RigError> {
        match &self.running()?.jmx {
            Some(jmx) => jmx.flush().await.map_err(|error| failed(format!("flushing: {error}"))),
            None => self.nodetool(&["flush", table::KEYSPACE, table::NAME]).await,
        }
    }

    /// Waits until no flush and no compaction runs or waits.
    async fn wait_until_idle(&self) -> Result<(), RigError> {
        let views = &self.running()?.views;
        let deadline = Instant::now() + IDLE_PATIENCE;
        let mut idle_looks = 0;
        // A compaction that has ended may be followed by another one that it made possible.
        while idle_looks < 2 {
            idle_looks = if views.is_idle().await.map_err(failed)? { idle_looks + 1 } else { 0 };
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

/// The counters of a running node, since an instant. MBeans are asked first: a compaction that ends
/// in between is then one that they count later, and never one that they seem to miss.
async fn counters_of(running: &Running, begun: Instant) -> Result<Counters, RigError> {
    let mut used = process::used(running.pid);
    if let Some(jmx) = &running.jmx {
        used.extend(jmx.counters().await);
    }
    let table = running.table.as_ref().ok_or_else(|| failed("there is no table"))?;
    let counters = running.views.counters(table.made_ms).await.map_err(failed)?;
    Ok(Counters { at_s: begun.elapsed().as_secs_f64(), used, ..counters })
}

/// The words of a process's command line; none if it has ended.
fn command_line(pid: u32) -> Vec<String> {
    let process = procfs::process::Process::new(i32::try_from(pid).unwrap_or_default());
    process.and_then(|process| process.cmdline()).unwrap_or_default()
}

#[async_trait]
impl Rig for Node {
    async fn facts(&mut self) -> Result<Facts, RigError> {
        let objective = &self.plan.objective;
        if let Err(why) = &self.agent
            && metric::find(objective).is_some_and(|metric| metric.source() == Source::MBeans)
        {
            return Err(fatal(format!("{objective} is read from MBeans, and their agent cannot be had: {why}")));
        }
        self.has_room()?;
        if self.running.is_none() {
            let settings = config::settings(&self.plan, &Setting::default());
            self.start(settings).await.map_err(fatal)?;
        }
        let running = self.running()?;
        let machine = Machine::find(Some(&running.folder));
        let mut facts = running.views.versions().await.map_err(fatal)?;
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
            ("heap_mib", config::heap_of(&command_line(running.pid))),
            ("jars", self.jars.clone()),
        ];
        facts.extend(known.into_iter().filter_map(|(fact, value)| Some((fact.to_owned(), value?))));
        Ok(Facts { facts })
    }

    async fn apply(&mut self, setting: &Setting, restart: Restart) -> Result<bool, RigError> {
        self.can_be_set(setting)?;
        let settings = config::settings(&self.plan, setting);
        let is_usable = self.running.as_ref().is_some_and(|running| {
            running.started == settings && (restart == Restart::WhenChanged || running.table.is_none())
        });
        // A node that has ended or does not answer is started again, whatever it was started with.
        if is_usable && self.is_alive() && self.set_live(setting).await.is_ok() {
            return Ok(false);
        }
        let started = self.start(settings).await;
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
        let table = table::Table::create(&self.running()?.views, &self.plan.data, &options).await.map_err(failed)?;
        if let Some(running) = &mut self.running {
            running.table = Some(table);
        }
        if self.running()?.views.snapshots().await.map_err(failed)? > 0 {
            self.nodetool(&["clearsnapshot", "--all"]).await?;
        }
        let deadline = Instant::now() + DELETED_PATIENCE;
        loop {
            let running = self.running()?;
            let baseline = Baseline {
                snapshots: running.views.snapshots().await.map_err(failed)?,
                left_bytes: self.table()?.left_bytes(&running.folder),
            };
            let is_clean = baseline.snapshots == 0 && baseline.left_bytes == 0;
            if is_clean || Instant::now() > deadline {
                return Ok(baseline);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read_back(&mut self) -> Result<BTreeMap<String, String>, RigError> {
        let settings = self.running()?.views.settings().await.map_err(failed)?;
        let mut read = BTreeMap::new();
        for factor in &self.plan.factors {
            if let Some(value) = self.value(factor, &settings).await? {
                read.insert(factor.name.clone(), value);
            }
        }
        read.extend(settings.get(THROTTLE).map(|limit| (THROTTLE.to_owned(), limit.clone())));
        Ok(read)
    }

    async fn prefill(&mut self, seed: u64) -> Result<(), RigError> {
        // Others may have filled the disk since the study began.
        self.has_room()?;
        load::prefill(&self.running()?.views.session, self.table()?, &self.plan.data, seed).await.map_err(failed)?;
        self.flush().await?;
        self.wait_until_idle().await
    }

    async fn counters(&mut self) -> Result<Counters, RigError> {
        counters_of(self.running()?, self.begun).await
    }

    async fn load(&mut self, workload: &Workload, seed: u64, folder: &Path) -> Result<Loaded, RigError> {
        let running = self.running()?;
        let table = running.views.described().await.map_err(failed)?;
        as_run::keep(folder, &running.folder, &command_line(running.pid), &table).map_err(fatal)?;
        let load = load::Load { table: self.table()?, data: &self.plan.data, workload, seed };
        let cql = self.cluster.status().first().map(|status| status.cql);
        let cql = cql.ok_or_else(|| RigError::Fatal("the cluster has no node".to_owned()))?;
        let watched = watch::Watched { pid: running.pid, data: &running.folder, jmx: running.jmx.as_ref(), cql };
        let at_window = counters_of(running, self.begun);
        let made = load.make(&running.views.session, &watched, folder, at_window).await;
        let (loaded, begun) = made.map_err(failed)?;
        Ok(Loaded { begun: begun?, ..loaded })
    }

    async fn drain(&mut self) -> Result<BTreeMap<String, f64>, RigError> {
        self.flush().await?;
        self.wait_until_idle().await?;
        let disk_bytes = self.table()?.bytes(&self.running()?.folder) as f64;
        let data = &self.plan.data;
        let mut state = BTreeMap::from([("disk_bytes".to_owned(), disk_bytes)]);
        if data.is_counted() {
            let payload = data.records as f64 * f64::from(data.record_bytes);
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
