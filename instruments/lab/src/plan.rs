//! The plan of a study, as a TOML file says it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalogue;
use crate::deployment::{self, Levels};
use crate::design::Design;
use crate::factor::{Applied, Factor, Setting};
use crate::metric::{self, Metric, Source};
use crate::sync;
use crate::value;
use crate::workload::{Data, Mix, PageCache, Partitions, Workload};

/// What a name is made of.
pub(crate) const NAME_RULE: &str = "a name of at most 64 small letters, digits and hyphens";
const NAME_BYTES_MAX: usize = 64;

/// The most runs of a study: more would be a mistake.
const RUNS_MAX: usize = 100_000;

/// How late a load may be sent, if the plan does not say it.
pub const LATENESS_MAX: Duration = Duration::from_millis(10);

/// How long a node that starts before every run is warmed up, if the workload does not say it; at
/// most as long as its load.
const WARM_UP_COLD: Duration = Duration::from_secs(10);

/// What the greatest heap of the lab's node follows from, besides `node.heap_mib` and the factor
/// `heap`. They would override both, and could not be compared.
const HEAP_OPTIONS: [&str; 8] =
    ["-Xmx", "-Xms", "-XX:MaxHeapSize", "-XX:InitialHeapSize", "-XX:MaxRAM", "-XX:Flags", "-XX:VMOptionsFile", "@"];

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What it is, for people. Nothing follows from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The order of runs, the keys and the records follow from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// How often each setting is measured: the number of blocks.
    #[serde(default = "five")]
    pub repeats: u32,
    /// How often the default and what was selected are measured again, afresh; 0: never.
    #[serde(default = "five")]
    pub confirm: u32,
    /// The default is measured again after so many runs; 0: never.
    #[serde(default = "five")]
    pub control_every: u32,
    /// What the recommendation is to improve: a metric.
    #[serde(default = "p99")]
    pub objective: String,
    /// Further metrics to compare. The front of Pareto has the objective and the first of them.
    #[serde(default)]
    pub beside: Vec<String>,
    /// What a setting must keep to be recommended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Which combinations are measured.
    pub design: Design,
    /// The records.
    #[serde(default)]
    pub data: Data,
    /// The node.
    #[serde(default)]
    pub node: Node,
    /// The server that is measured in place of a node of Cassandra.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<CandidateName>,
    /// The door of Penates through which the loads go; `None`: what is measured is asked itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<DoorName>,
    /// When the node starts again; `None`: before every run, if any factor needs a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// A run whose load was sent later than this (the 99th percentile) does not count: the machine
    /// was busy with something else.
    #[serde(default = "lateness", with = "humantime_serde")]
    pub lateness_max: Duration,
    /// The loads.
    pub workloads: Vec<Workload>,
    /// What is varied.
    pub factors: Vec<Factor>,
}

/// A candidate of the testbed that speaks the Redis protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateName {
    /// One that comes with the program: `penates-records`, `redis` and so on.
    Name(String),
    /// That of a folder with a file `candidate.toml`.
    Folder(PathBuf),
}

/// A door of Penates that speaks HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoorName {
    /// The repository door: a record is a resource, with its bytes as texts of its description.
    Repository,
    /// The data door: a record is a page, and a partition a volume. They are only read.
    Data,
}

/// The most that the mean of a metric may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The metric, of which less is better: the objective, or one beside it.
    pub metric: String,
    /// The most that its mean may be, in its unit.
    pub max: f64,
}

/// What is the same for all runs of the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// The heap in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_mib: Option<u32>,
    /// Further options of the Java machine.
    pub jvm_options: Vec<String>,
    /// Further keys of `cassandra.yaml`.
    pub yaml: std::collections::BTreeMap<String, serde_json::Value>,
    /// Options of the table, by their names, as values of a factor of that name are written. A factor
    /// without a default has that of the table here.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub table: std::collections::BTreeMap<String, String>,
    /// How many nodes there are, 1 to 9. They share the machine.
    pub count: u8,
    /// How many of them keep a record.
    pub copies: u8,
    /// How many of these have to answer: `ONE`, or of writes and of reads `TWO/ONE`.
    pub consistency: String,
    /// Whether the node's MBeans are read too. That takes an agent in its Java machine.
    pub jmx: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            heap_mib: None,
            jvm_options: Vec::new(),
            yaml: std::collections::BTreeMap::new(),
            table: std::collections::BTreeMap::new(),
            count: 1,
            copies: 1,
            consistency: "ONE".to_owned(),
            jmx: true,
        }
    }
}

impl Node {
    /// What it says of the cluster that differs from the defaults: the names of the factors, their
    /// values, and how they are applied.
    pub(crate) fn around(&self) -> Vec<(&'static str, String, Applied)> {
        let usual = Self::default();
        let all = [
            (self.count != usual.count, deployment::NODES, self.count.to_string(), Applied::Cluster),
            (self.copies != usual.copies, deployment::COPIES, self.copies.to_string(), Applied::Keyspace),
            (
                self.consistency != usual.consistency,
                deployment::CONSISTENCY,
                self.consistency.clone(),
                Applied::Keyspace,
            ),
        ];
        let differing = all.into_iter().filter(|(differs, ..)| *differs);
        differing.map(|(_, name, value, applied)| (name, value, applied)).collect()
    }

    /// The format of files that its keys of `cassandra.yaml` name; `None`: that of Cassandra.
    fn format(&self) -> Option<&str> {
        self.yaml.get("sstable")?.get("selected_format")?.as_str()
    }

    /// How a memtable is configured below `memtable: configurations`, as a line of YAML has it: as the
    /// plan says, or as the lab does. `None` if neither does.
    pub(crate) fn memtable(&self, name: &str) -> Option<String> {
        if let Some(own) = self.yaml.get(catalogue::MEMTABLE) {
            return own.get("configurations")?.get(name).map(ToString::to_string);
        }
        let (_, class) = catalogue::MEMTABLES.iter().find(|(known, _)| *known == name)?;
        Some(format!("{{class_name: {class}}}"))
    }
}

/// When the node starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Before every run, so that no run profits from the Java machine that others have warmed up.
    EveryRun,
    /// Only before runs whose setting needs it.
    WhenChanged,
}

/// Why a plan cannot be used.
#[derive(Debug, Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// It is no plan.
    #[error("{0}")]
    Toml(#[from] Box<toml::de::Error>),
    /// It has a value that TOML cannot say, such as a path that is not UTF-8.
    #[error("the plan cannot be written: {0}")]
    Write(#[from] toml::ser::Error),
    /// A value makes no sense.
    #[error("plan: {at}: {what}")]
    Invalid {
        /// Where.
        at: String,
        /// What would make sense.
        what: String,
    },
}

fn one() -> u64 {
    1
}

fn five() -> u32 {
    5
}

fn lateness() -> Duration {
    LATENESS_MAX
}

/// How long a load is made before a measured time of this length, if the node starts before every
/// run and the workload does not say it.
pub(crate) fn cold_warm_up(duration: Duration) -> Duration {
    WARM_UP_COLD.min(duration)
}

/// Whether a name is of small letters, digits and hyphens: it is a part of names of files.
pub(crate) fn is_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_good)
}

fn p99() -> String {
    "p99_ms".to_owned()
}

impl Plan {
    /// Reads a plan from a file.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let text = std::fs::read_to_string(path).map_err(|error| PlanError::Read { path: path.to_owned(), error })?;
        Self::parse(&text)
    }

    /// Reads a plan from text.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut plan: Self = toml::from_str(text).map_err(Box::new)?;
        if plan.candidate.is_some() {
            // There is no other way.
            plan.factors.iter_mut().for_each(|factor| _ = factor.applied.get_or_insert(Applied::Setting));
        }
        plan.warm_up();
        plan.check()?;
        Ok(plan)
    }

    /// Gives each workload that says no warm-up its own: a Java machine that starts before every run is
    /// slow at first.
    fn warm_up(&mut self) {
        let is_cold = self.restarts() == Restart::EveryRun;
        for workload in &mut self.workloads {
            let usual = if is_cold { cold_warm_up(workload.duration) } else { Duration::ZERO };
            workload.warm_up.get_or_insert(usual);
        }
    }

    /// The plan as TOML.
    ///
    /// # Errors
    /// TOML cannot say one of its values.
    pub fn to_toml(&self) -> Result<String, PlanError> {
        Ok(toml::to_string(self)?)
    }

    /// Checks that it makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |at: &str, what: String| Err(PlanError::Invalid { at: at.to_owned(), what });
        if !is_name(&self.name) {
            return wrong("name", NAME_RULE.to_owned());
        }
        if !(1..=1_000).contains(&self.repeats) {
            return wrong("repeats", "1 to 1,000".to_owned());
        }
        if self.confirm == 1 || self.confirm > 1_000 {
            return wrong("confirm", "2 to 1,000 fresh runs of each, or 0".to_owned());
        }
        for metric in std::iter::once(&self.objective).chain(&self.beside) {
            if metric::find(metric).is_none() {
                let known: Vec<_> = metric::KNOWN.iter().map(|known| known.name).collect();
                return wrong(metric, format!("known metrics are {}", known.join(", ")));
            }
        }
        if self.workloads.is_empty() || self.factors.is_empty() {
            return wrong("workloads, factors", "at least one of each".to_owned());
        }
        self.workloads.iter().try_for_each(Workload::check)?;
        if self.is_closed() && self.workloads.iter().any(|workload| workload.closed.is_none()) {
            return wrong("workloads", "all are closed loops, or none is: they cannot be compared".to_owned());
        }
        self.factors.iter().try_for_each(Factor::check)?;
        self.data.check()?;
        let names = self.workloads.iter().map(|workload| &workload.name);
        let twice = |names: Vec<&String>| {
            names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)).map(|(_, name)| (*name).clone())
        };
        let factors = self.factors.iter().map(|factor| &factor.name);
        if let Some(name) = twice(names.collect()).or_else(|| twice(factors.collect())) {
            return wrong(&name, "a name is there once".to_owned());
        }
        if self.factor(sync::NAME).is_some() && self.factor(sync::PERIOD).is_some() {
            return wrong(sync::PERIOD, format!("{} has it in its values: periodic:1s", sync::NAME));
        }
        self.design.check(self)?;
        let settings = self.design.settings(&self.factors, self.seed).len();
        let each = settings * self.repeats as usize + 2 * self.confirm as usize;
        if each * self.workloads.len() > RUNS_MAX {
            return wrong("repeats", format!("at most {RUNS_MAX} runs: settings times workloads times repeats"));
        }
        match &self.candidate {
            Some(_) => self.check_candidate()?,
            None => {
                if let Some(factor) = self.factors.iter().find(|factor| factor.applied() == Applied::Setting) {
                    return wrong(&factor.name, "name the candidate of which it is a setting".to_owned());
                }
                self.check_heap()?;
                self.check_table()?;
                self.check_cluster()?;
            }
        }
        self.check_door()?;
        self.check_bound()?;
        self.check_measured()
    }

    /// The metric of the bound has to be compared, so that its means are known.
    fn check_bound(&self) -> Result<(), PlanError> {
        let Some(bound) = &self.bound else { return Ok(()) };
        let is_compared = bound.metric == self.objective || self.beside.contains(&bound.metric);
        let is_less_better = metric::find(&bound.metric).is_some_and(|metric| metric.is_less_better);
        if is_compared && is_less_better && bound.max.is_finite() {
            return Ok(());
        }
        let what = "a metric of which less is better, which is the objective or in `beside`, and the most it may be";
        Err(PlanError::Invalid { at: "bound".to_owned(), what: what.to_owned() })
    }

    /// A candidate has its own settings, and nothing of Cassandra.
    fn check_candidate(&self) -> Result<(), PlanError> {
        let wrong = |at: &str, what: String| Err(PlanError::Invalid { at: at.to_owned(), what });
        if self.node != Node::default() {
            return wrong("node", "it is of Cassandra, and the plan has a candidate".to_owned());
        }
        if let Some(factor) = self.factors.iter().find(|factor| factor.applied() != Applied::Setting) {
            return wrong(&factor.name, "settings of a candidate are applied = \"setting\"".to_owned());
        }
        let are_placed = match self.data.partitions {
            Partitions::Single => true,
            Partitions::Wide { .. } => self.door == Some(DoorName::Data),
            Partitions::TimeSeries { .. } => false,
        };
        if !are_placed || self.data.ttl.is_some() {
            let what = "records of a candidate are each alone, or pages of the data door, and do not expire";
            return wrong("data", what.to_owned());
        }
        if self.restart == Some(Restart::WhenChanged) {
            return wrong("restart", "a candidate starts before every run, on an empty folder".to_owned());
        }
        let held = self.workloads.iter().filter_map(|workload| workload.hold.as_ref()).map(|hold| &hold.metric);
        let mut asked = std::iter::once(&self.objective).chain(&self.beside).chain(held);
        match asked.find(|name| metric::find(name).is_some_and(|metric| metric.is_of_cassandra())) {
            Some(name) => wrong(name, "only Cassandra has this metric".to_owned()),
            None => Ok(()),
        }
    }

    /// The server of a door has to be named, and gets only what the door takes.
    fn check_door(&self) -> Result<(), PlanError> {
        let Some(door) = self.door else { return Ok(()) };
        let wrong = |at: String, what: &str| Err(PlanError::Invalid { at, what: what.to_owned() });
        if self.candidate.is_none() {
            let what = "name the candidate that has it, such as penates-records: the lab asks its nodes over CQL";
            return wrong("door".to_owned(), what);
        }
        let has_others = |mix: &Mix| match door {
            DoorName::Repository => mix.delete > 0.0,
            DoorName::Data => mix.write + mix.delete > 0.0,
        };
        if door == DoorName::Data && self.data.compressible {
            let what = "pages of the data door are texts of synthetic volumes, which compress as they do: leave it out";
            return wrong("data.compressible".to_owned(), what);
        }
        let Some(workload) = self.workloads.iter().find(|workload| has_others(&workload.mix)) else { return Ok(()) };
        let taken = match door {
            DoorName::Repository => "the repository door gets writes and reads, and no deletions",
            DoorName::Data => "the data door gets reads alone: mix = { read = 1 }",
        };
        wrong(format!("workloads: {}", workload.name), taken)
    }

    /// Options of Java must not set the heap by themselves, and young objects have a part of it.
    fn check_heap(&self) -> Result<(), PlanError> {
        let young = self.factors.iter().find(|factor| factor.is_young()).into_iter();
        let young = young.flat_map(|factor| factor.values.iter().chain(&factor.default));
        let most = young.filter_map(|value| value.parse::<u64>().ok()).max();
        if let Some((most, least)) = most.zip(self.heaps_mib().into_iter().min())
            && most >= least
        {
            let what = format!("{most} MiB: less than the least heap, {least} MiB");
            return Err(PlanError::Invalid { at: catalogue::YOUNG.to_owned(), what });
        }
        let of_jvm = self.factors.iter().filter(|factor| factor.applied() == Applied::Jvm);
        let values = of_jvm.flat_map(|factor| factor.values.iter().chain(&factor.default));
        let words = values.flat_map(|value| value.split_whitespace());
        let mut all = self.node.jvm_options.iter().map(String::as_str).chain(words);
        match all.find(|option| HEAP_OPTIONS.iter().any(|of_heap| option.starts_with(of_heap))) {
            Some(option) => Err(PlanError::Invalid {
                at: option.to_owned(),
                what: "the heap is set by node.heap_mib or by the factor heap only".to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Options of the table are those that a factor may be, with values that it may have.
    fn check_table(&self) -> Result<(), PlanError> {
        let is_good = |name: &str, value: &str| {
            let is_known = catalogue::find(name).is_some_and(|known| known.applied == Applied::Table);
            is_known && value::option(name, value).is_some()
        };
        match self.node.table.iter().find(|(name, value)| !is_good(name, value)) {
            Some((name, _)) => {
                Err(PlanError::Invalid { at: format!("node.table: {name}"), what: catalogue::TABLE_RULE.to_owned() })
            }
            None => Ok(()),
        }
    }

    /// All numbers that a factor of this name may have, or that all runs have.
    fn counts(&self, name: &str, usual: u8) -> Vec<u8> {
        let Some(factor) = self.factor(name) else { return vec![usual] };
        let own = if factor.default.is_none() { Some(usual) } else { None };
        factor.values.iter().chain(&factor.default).filter_map(|value| deployment::count(value)).chain(own).collect()
    }

    /// The most copies of a record that a run has.
    pub(crate) fn copies_max(&self) -> u8 {
        self.counts(deployment::COPIES, self.node.copies).into_iter().fold(1, u8::max)
    }

    /// The numbers of nodes that runs have, each once.
    pub(crate) fn node_counts(&self) -> std::collections::BTreeSet<u8> {
        self.counts(deployment::NODES, self.node.count).into_iter().collect()
    }

    /// Each record has room on the nodes, and as many copies as have to answer.
    fn check_cluster(&self) -> Result<(), PlanError> {
        let wrong = |at: &str, what: String| Err(PlanError::Invalid { at: at.to_owned(), what });
        let node = &self.node;
        let Some(usual) = Levels::parse(&node.consistency) else {
            return wrong("node.consistency", "ONE, QUORUM and so on, or of writes and reads: TWO/ONE".to_owned());
        };
        let nodes = self.counts(deployment::NODES, node.count);
        let copies = self.counts(deployment::COPIES, node.copies);
        let (Some(least_nodes), Some(most_copies)) = (nodes.iter().min().copied(), copies.iter().max().copied()) else {
            return wrong("node", "1 to 9 nodes, and as many copies at most".to_owned());
        };
        if !(1..=deployment::NODES_MAX).contains(&node.count) || node.copies == 0 || most_copies > least_nodes {
            let nodes_max = deployment::NODES_MAX;
            return wrong(
                "node",
                format!("1 to {nodes_max} nodes, and each has one copy at most: {most_copies} copies need as many"),
            );
        }
        let of_factor = self
            .factor(deployment::CONSISTENCY)
            .into_iter()
            .flat_map(|factor| factor.values.iter().chain(&factor.default));
        let levels = of_factor.filter_map(|value| Levels::parse(value)).chain([usual]);
        let least_copies = copies.iter().min().copied().unwrap_or(1);
        let answers =
            levels.map(|levels| levels.answers(least_copies)).fold(0, |most, (write, read)| most.max(write).max(read));
        if answers > least_copies {
            return wrong("consistency", format!("{answers} copies have to answer, and there are {least_copies}"));
        }
        let heap_mib = self.heap_mib_max();
        if self.factor(deployment::NODES).is_some() && heap_mib.is_none() {
            let what = "say node.heap_mib too: by themselves, several nodes of a machine have smaller heaps than one";
            return wrong(deployment::NODES, what.to_owned());
        }
        let containers = self.factor(deployment::CONTAINER).into_iter();
        let containers = containers.flat_map(|factor| factor.values.iter().chain(&factor.default));
        let memory = containers.filter_map(|value| deployment::limits(value)?.memory_bytes).min();
        let Some(memory) = memory else { return Ok(()) };
        if heap_mib.is_none_or(|mib| memory < (mib + deployment::BESIDE_HEAP_MIB) << 20) {
            let beside = deployment::BESIDE_HEAP_MIB;
            let what = format!("say node.heap_mib, and give a container {beside} MiB more than the largest heap");
            return wrong(deployment::CONTAINER, what);
        }
        if self.data.page_cache == PageCache::Warm {
            let what = "warm files count for the lab and not for the node, so they would be beyond its container";
            return wrong("data.page_cache", what.to_owned());
        }
        Ok(())
    }

    /// The heaps that runs have and that the plan says.
    fn heaps_mib(&self) -> Vec<u64> {
        let factor = self.factors.iter().find(|factor| factor.applied() == Applied::Heap);
        let usual = match factor.and_then(|factor| factor.default.as_ref()) {
            Some(default) => default.parse().ok(),
            None => self.node.heap_mib.map(u64::from),
        };
        let values = factor.into_iter().flat_map(|factor| &factor.values).filter_map(|value| value.parse().ok());
        values.chain(usual).collect()
    }

    /// The largest heap that runs have; `None`: the node decides in some of them.
    fn heap_mib_max(&self) -> Option<u64> {
        let factor = self.factors.iter().find(|factor| factor.applied() == Applied::Heap);
        let is_said = factor.is_some_and(|factor| factor.default.is_some()) || self.node.heap_mib.is_some();
        self.heaps_mib().into_iter().max().filter(|_| is_said)
    }

    /// What has to be measured, and under which workload: the objective and the metric of the bound
    /// where settings are compared, and what a workload is to hold.
    pub(crate) fn needed(&self) -> Vec<(&'static Metric, &Workload)> {
        let names = std::iter::once(&self.objective).chain(self.bound.as_ref().map(|bound| &bound.metric));
        let mut needed = Vec::new();
        for metric in names.filter_map(|name| metric::find(name)) {
            needed.extend(self.compared_workloads().into_iter().map(|workload| (metric, workload)));
        }
        for workload in &self.workloads {
            let held = workload.hold.as_ref().and_then(|hold| metric::find(&hold.metric));
            needed.extend(held.map(|metric| (metric, workload)));
        }
        needed
    }

    /// What is needed has to be measured.
    fn check_measured(&self) -> Result<(), PlanError> {
        for (metric, workload) in self.needed() {
            let wrong = |what: String| Err(PlanError::Invalid { at: metric.name.to_owned(), what });
            if metric.source() == Source::MBeans && !self.node.jmx {
                return wrong("it is read from MBeans, so node.jmx has to be true".to_owned());
            }
            let (mix, name) = (&workload.mix, &workload.name);
            let is_measured = match metric.source() {
                Source::Reads | Source::ReadBytes => mix.read > 0.0,
                Source::Writes | Source::WrittenBytes => mix.write > 0.0,
                Source::Held if workload.hold.is_none() => {
                    return wrong(format!("the workload {name} does not say what is to be held (`hold`)"));
                }
                _ => true,
            };
            if !is_measured {
                return wrong(format!("the workload {name} has no such operations, so it is never measured"));
            }
        }
        Ok(())
    }

    /// When the node starts again. If some settings need a restart and others do not, only the runs
    /// of some would begin with a cold Java machine: so all do.
    pub fn restarts(&self) -> Restart {
        let is_needed = self.factors.iter().any(|factor| factor.applied().needs_restart());
        self.restart.unwrap_or(if is_needed { Restart::EveryRun } else { Restart::WhenChanged })
    }

    /// The values of a setting that are set at a start of the node, by factor: nodes with the same ones
    /// need no restart.
    pub fn at_start(&self, setting: &Setting) -> Vec<Option<String>> {
        let factors = self.factors.iter().filter(|factor| factor.applied().needs_restart());
        factors.map(|factor| setting.get(&factor.name).map(str::to_owned)).collect()
    }

    /// The workloads under which settings are compared. The default is measured under all.
    pub fn compared_workloads(&self) -> Vec<&Workload> {
        let only = match &self.design {
            Design::OneAtATime { workloads, .. } => workloads.as_ref(),
            _ => None,
        };
        self.workloads.iter().filter(|workload| only.is_none_or(|only| only.contains(&workload.name))).collect()
    }

    /// Whether its loads are closed loops, so that its figures are mostly numbers of threads.
    pub fn is_closed(&self) -> bool {
        self.workloads.iter().any(|workload| workload.closed.is_some())
    }

    /// The workload of a name.
    pub fn workload(&self, name: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    /// In how many blocks a setting is measured.
    pub(crate) fn repeats_of(&self, setting: &Setting) -> u32 {
        let of_factors = setting.0.keys().filter_map(|name| self.factor(name)?.repeats);
        of_factors.min().unwrap_or(self.repeats)
    }

    /// What the lab adds to the storage compatibility of all nodes, as `cassandra.yaml` has it. By
    /// itself a node writes what Cassandra 4 reads, and does not start with a format that 4 has not.
    /// `None` if no run has such a format, or if the plan says the mode.
    pub(crate) fn compatibility(&self) -> Option<&'static str> {
        let of_factor = self.factor(catalogue::FORMAT).filter(|factor| factor.applied() == Applied::Restart);
        let of_factor = of_factor.into_iter();
        let values = of_factor.flat_map(|factor| factor.values.iter().chain(&factor.default)).map(String::as_str);
        let is_needed = values.chain(self.node.format()).any(catalogue::needs_compatibility);
        (is_needed && !self.node.yaml.contains_key(catalogue::COMPATIBILITY)).then_some(catalogue::COMPATIBLE_WITH_NONE)
    }

    /// The factor of a name.
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.name == name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    const PLAN: &str = r#"
        name = "x"
        candidate = { name = "penates-records" }
        door = "repository"
        design = { kind = "one-at-a-time" }
        workloads = [{ name = "w", mix = { write = 1, read = 1 }, rate = 10, duration = "1s" }]
        [[factors]]
        name = "store.cache"
        values = ["24MiB"]
    "#;

    #[test]
    fn every_plan_of_the_guide_is_one_that_the_lab_takes() {
        let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/lab.md")).unwrap();
        let plans: Vec<&str> = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(plans.len() >= 3, "{plans:?}");
        for plan in plans {
            Plan::parse(plan).unwrap_or_else(|error| panic!("{error}: {plan}"));
        }
    }

    #[test]
    fn a_plan_that_cannot_be_written_begins_no_study() {
        let mut plan = Plan::parse(PLAN).unwrap();
        plan.candidate = Some(CandidateName::Folder(PathBuf::from(OsStr::from_bytes(b"\xff"))));
        let folder = tempfile::tempdir().unwrap();
        let error = crate::study::OpenStudy::create(folder.path(), &plan).unwrap_err().to_string();
        assert!(error.contains("the plan cannot be written: "), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn options_of_the_table_are_those_that_a_factor_may_be() {
        let plan = |table: &str| {
            let node = format!("node = {{ table = {{ {table} }} }}\n design");
            let of_candidate = "candidate = { name = \"penates-records\" }\n        door = \"repository\"";
            let of_node = PLAN.replace(of_candidate, "").replace("store.cache\"", "x\"\n applied = \"restart\"");
            Plan::parse(&of_node.replacen("design", &node, 1))
        };
        let said = plan("compression = \"{'enabled': 'false'}\", memtable = \"trie\"").unwrap();
        assert_eq!(said.node.table["memtable"], "trie");
        assert_eq!(Plan::parse(&said.to_toml().unwrap()).unwrap(), said);
        for wrong in ["comment = \"x\"", "compression = \"none' OR 'x\"", "heap = \"512\""] {
            let error = plan(wrong).unwrap_err().to_string();
            assert!(error.contains("node.table: ") && error.contains("flat map"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_plan_names_a_door_and_is_refused_where_the_door_does_not_take_its_load() {
        let plan = Plan::parse(PLAN).unwrap();
        assert_eq!(plan.door, Some(DoorName::Repository));
        assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan);
        let pages = "door = \"data\"\n data = { partitions = { kind = \"wide\", rows = 10 } }";
        let of_data = PLAN.replace("door = \"repository\"", pages).replace("write = 1, ", "");
        assert_eq!(Plan::parse(&of_data).unwrap().door, Some(DoorName::Data));

        let candidate = "candidate = { name = \"penates-records\" }";
        let of_node = PLAN.replace(candidate, "").replace("store.cache\"", "x\"\n applied = \"restart\"");
        for (wrong, why) in [
            (of_node, "name the candidate that has it"),
            (PLAN.replace("read = 1", "delete = 1"), "no deletions"),
            (of_data.replace("read = 1", "read = 1, write = 1"), "workloads: w: the data door gets reads alone"),
            (of_data.replace("\"data\"", "\"repository\""), "each alone"),
            (of_data.replace("rows = 10 }", "rows = 10 }, compressible = true"), "data.compressible: pages"),
            (PLAN.replace("\"repository\"", "\"front\""), "unknown variant"),
            (PLAN.replace("rate =", "hold = { metric = \"gc_ms\", max = 1.0 }, rate ="), "only Cassandra has this"),
        ] {
            let error = Plan::parse(&wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
