//! A simulated node: a known surface with noise, interactions and drift. Tests find out with it
//! what the lab finds, and users what a plan could find.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

use crate::estimate::MIB;
use crate::factor::{Applied, Setting};
use crate::plan::{Plan, Restart};
use crate::rig::{
    Baseline, CountedBy, Counters, Facts, Loaded, NODE_CPU_S, NODE_WRITTEN_BYTES, Rig, RigError, THROTTLE,
};
use crate::value;
use crate::workload::Workload;

/// A factor and one of its values.
pub type Level = (String, String);

/// The value of a factor.
pub fn level(factor: &str, value: &str) -> Level {
    (factor.to_owned(), value.to_owned())
}

/// How the simulated node behaves.
#[derive(Clone, Debug, Default)]
pub struct Surface {
    /// The p99 of latency with all defaults, in milliseconds.
    pub base_ms: f64,
    /// What values of factors add, in milliseconds.
    pub effects: Vec<(Level, f64)>,
    /// What two values together add besides.
    pub interactions: Vec<(Level, Level, f64)>,
    /// The standard deviation of runs, as a share.
    pub noise: f64,
    /// By what share every run is slower than the one before.
    pub drift_per_run: f64,
    /// By what share the last quarter of every run is slower than its first.
    pub drift_within: f64,
    /// By what share a run is slower that begins with a cold Java machine.
    pub cold: f64,
    /// Values with which runs scatter by so many times as much.
    pub scatters: Vec<(Level, f64)>,
    /// A value with which every second run loses this share of its operations.
    pub loses: Option<(Level, f64)>,
    /// A value with which two thirds of what is written and compacted are put off until the drain.
    pub puts_off: Option<Level>,
    /// So many operations per second keep the node busy all the time with the defaults, and fewer with
    /// settings that are slower. Operations wait for one another below that; `None`: they never do.
    pub capacity_per_s: Option<f64>,
    /// In a closed loop, by what share each thread makes the others' operations longer where these wait
    /// for one another.
    pub contention: f64,
    /// A factor whose own value follows from another one, which is set at a start: (follows, from).
    pub follows: Option<(String, String)>,
}

impl Surface {
    /// How many times as long operations take at a rate, with a setting that has this p99 alone.
    fn queue(&self, rate: f64, truth_ms: f64) -> f64 {
        let busy = self.capacity_per_s.map_or(0.0, |capacity| rate * truth_ms / self.base_ms / capacity);
        1.0 / (1.0 - busy).max(1e-3)
    }

    /// The rate that so many threads have, and the p99, with a setting that has this p99 alone in this
    /// run. Each thread waits for its answer, so the mean latency is threads by rate; the p99 is four
    /// times that.
    fn closed(&self, threads: u32, alone_ms: f64, truth_ms: f64) -> (f64, f64) {
        let threads = f64::from(threads);
        let alone_s = alone_ms / P99_BY_MEAN / 1e3;
        let busy_s = self.capacity_per_s.map_or(0.0, |capacity| truth_ms / self.base_ms / capacity);
        let rate = threads / (alone_s + threads * (1.0 + self.contention * threads) * busy_s);
        (rate, threads / rate * P99_BY_MEAN * 1e3)
    }
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// A setting is accepted and not in force.
    IgnoresSettings,
    /// A setting stays in force for the runs after it.
    KeepsSettings,
    /// Counters are those since the node started, not of the load.
    CountsEverything,
    /// The node starts again during a load.
    Restarts,
    /// Compactions do not keep to their limit.
    BrokenThrottle,
    /// A snapshot stays.
    LeavesSnapshot,
    /// Files of earlier tables stay.
    LeavesFiles,
    /// The machine is too busy to make the load.
    LateLoad,
    /// One run in three fails.
    FailsSometimes,
    /// The node ends in its fifth run and does not start again.
    Ends,
    /// Two operations of a hundred are not done.
    LosesOperations,
}

/// A simulated node.
#[derive(Debug)]
pub struct Simulated {
    plan: Plan,
    surface: Surface,
    fault: Fault,
    random: ChaCha8Rng,
    in_force: Setting,
    /// Whether no run was made since the node started.
    is_cold: bool,
    runs: u32,
    now_s: f64,
    counters: Counters,
    /// Bytes that are compacted and written in the drain.
    put_off: (f64, f64),
}

/// The limit of compactions that the simulated node has by itself, in MiB per second.
const THROTTLE_MIB_PER_S: f64 = 64.0;

/// How many times as long as the mean latency the p99 is.
const P99_BY_MEAN: f64 = 4.0;

/// Bytes that the simulated node writes for each byte that it is given.
const WRITE_AMPLIFICATION: f64 = 3.0;

impl Simulated {
    /// A node with this surface and this fault.
    pub fn new(plan: &Plan, surface: Surface, fault: Fault) -> Self {
        let random = ChaCha8Rng::seed_from_u64(plan.seed);
        let (in_force, counters) = (Setting::default(), Counters::default());
        Self {
            plan: plan.clone(),
            surface,
            fault,
            random,
            in_force,
            is_cold: true,
            runs: 0,
            now_s: 0.0,
            counters,
            put_off: (0.0, 0.0),
        }
    }

    /// The p99 with a setting, without noise and drift.
    pub fn truth_ms(surface: &Surface, setting: &Setting) -> f64 {
        let has = |level: &Level| setting.get(&level.0) == Some(level.1.as_str());
        let single = surface.effects.iter().filter(|(level, _)| has(level)).map(|(_, adds)| adds);
        let double = surface.interactions.iter().filter(|(one, other, _)| has(one) && has(other));
        surface.base_ms + single.sum::<f64>() + double.map(|(_, _, adds)| adds).sum::<f64>()
    }

    /// The limit of compactions that is in force, in bytes per second.
    fn limit(&self) -> f64 {
        let value = self.plan.factor(THROTTLE).and_then(|factor| self.in_force.value(factor));
        let limit = value.and_then(value::bytes).filter(|limit| *limit > 0.0);
        limit.unwrap_or(THROTTLE_MIB_PER_S * MIB)
    }

    fn use_more(&mut self, name: &str, more: f64) {
        *self.counters.used.entry(name.to_owned()).or_default() += more;
    }

    fn noise(&mut self) -> f64 {
        let in_force = |level: &Level| self.in_force.get(&level.0) == Some(level.1.as_str());
        let times: f64 =
            self.surface.scatters.iter().filter(|(level, _)| in_force(level)).map(|(_, times)| times).product();
        let normal = Normal::new(0.0, self.surface.noise * times).ok();
        1.0 + normal.map_or(0.0, |normal| normal.sample(&mut self.random))
    }
}

#[async_trait]
impl Rig for Simulated {
    async fn facts(&mut self) -> Result<Facts, RigError> {
        let facts = [("machine", "simulated"), ("cassandra", "simulated"), ("simulated", "true")];
        Ok(Facts { facts: facts.map(|(fact, value)| (fact.to_owned(), value.to_owned())).into() })
    }

    async fn apply(&mut self, setting: &Setting, restart: Restart) -> Result<bool, RigError> {
        self.runs += 1;
        if self.fault == Fault::FailsSometimes && self.runs.is_multiple_of(3) {
            return Err(RigError::Run("the node did not start".to_owned()));
        }
        if self.fault == Fault::Ends && self.runs > 4 {
            return Err(RigError::Run("no space is left".to_owned()));
        }
        let needs_restart = |setting: &Setting| -> BTreeMap<String, String> {
            let is_so = |name: &String| self.plan.factor(name).is_some_and(|factor| factor.applied().needs_restart());
            setting.0.clone().into_iter().filter(|(name, _)| is_so(name)).collect()
        };
        let is_asked = restart == Restart::EveryRun && !self.is_cold;
        let is_restarted = is_asked || needs_restart(setting) != needs_restart(&self.in_force);
        self.is_cold |= is_restarted;
        match self.fault {
            Fault::IgnoresSettings => {}
            Fault::KeepsSettings => self.in_force.0.extend(setting.0.clone()),
            _ => self.in_force = setting.clone(),
        }
        Ok(is_restarted)
    }

    async fn recreate(&mut self, _: &Setting) -> Result<Baseline, RigError> {
        let is_later = self.runs > 2;
        let snapshots = u64::from(is_later && self.fault == Fault::LeavesSnapshot);
        let left_bytes = if is_later && self.fault == Fault::LeavesFiles { 5 << 20 } else { 0 };
        Ok(Baseline { snapshots, left_bytes })
    }

    async fn read_back(&mut self) -> Result<BTreeMap<String, String>, RigError> {
        let mut read = BTreeMap::from([(THROTTLE.to_owned(), format!("{THROTTLE_MIB_PER_S}MiB/s"))]);
        for factor in &self.plan.factors {
            let of_table = if factor.applied() == Applied::Table { "{'class': 'Default'}" } else { "by itself" };
            let followed = self.surface.follows.as_ref().filter(|(follows, _)| follows == &factor.name);
            let by_itself = followed.and_then(|(_, from)| self.in_force.get(from)).unwrap_or(of_table);
            let value = self.in_force.value(factor).unwrap_or(by_itself);
            if factor.name != THROTTLE || self.in_force.value(factor).is_some() {
                read.insert(factor.name.clone(), value.to_owned());
            }
        }
        Ok(read)
    }

    async fn prefill(&mut self, _: u64) -> Result<(), RigError> {
        self.now_s += 1.0;
        self.counters.writes += self.plan.data.records as f64;
        self.counters.compacted_bytes += 1e9;
        self.counters.compactions += 3.0;
        // A counter that nobody has seen yet has no difference.
        [NODE_CPU_S, NODE_WRITTEN_BYTES].into_iter().for_each(|name| self.use_more(name, 0.0));
        Ok(())
    }

    async fn counters(&mut self) -> Result<Counters, RigError> {
        Ok(Counters { at_s: self.now_s, ..self.counters.clone() })
    }

    async fn load(&mut self, workload: &Workload, _: u64, _: &Path) -> Result<Loaded, RigError> {
        let time_s = workload.time().as_secs_f64();
        let drift = 1.0 + self.surface.drift_per_run * f64::from(self.runs);
        let cold = if std::mem::take(&mut self.is_cold) { 1.0 + self.surface.cold } else { 1.0 };
        let truth_ms = Self::truth_ms(&self.surface, &self.in_force);
        let alone_ms = truth_ms * drift * cold * self.noise();
        let (rate, p99_ms) = match workload.threads() {
            Some(threads) => self.surface.closed(threads, alone_ms, truth_ms),
            None => (workload.rate, alone_ms * self.surface.queue(workload.rate, truth_ms)),
        };
        let count = (rate * time_s).round();
        let reads = (count * workload.mix.read_share()).round();
        // The share of the load that is its warm-up.
        let warm = workload.warm_up().as_secs_f64() / time_s;
        let counts = match self.fault {
            Fault::CountsEverything => 10.0,
            _ => 1.0,
        };
        let per_s = match self.fault {
            Fault::BrokenThrottle => 2.0 * THROTTLE_MIB_PER_S * MIB,
            _ => (0.2 * THROTTLE_MIB_PER_S * MIB).min(0.8 * self.limit()),
        };
        let compacted = per_s * (time_s + 1.0);
        let written = WRITE_AMPLIFICATION * (count - reads) * f64::from(self.plan.data.record_bytes);
        let puts_off =
            self.surface.puts_off.as_ref().is_some_and(|(name, value)| self.in_force.get(name) == Some(value));
        let later = if puts_off { 2.0 / 3.0 } else { 0.0 };
        let mut begun = Counters::default();
        // What is put off in the warm-up is done before it ends.
        for (share, later) in [(warm, 0.0), (1.0 - warm, later)] {
            begun = Counters { at_s: self.now_s, ..self.counters.clone() };
            self.now_s += time_s * share;
            self.counters.writes += (count - reads) * counts * share;
            self.counters.reads += reads * share;
            self.put_off = (compacted * share * later, written * share * later);
            self.counters.compacted_bytes += compacted * share * (1.0 - later);
            // What is fast here costs processor time.
            self.use_more(NODE_CPU_S, count * share * 2.0 / p99_ms / 1e3);
            self.use_more(NODE_WRITTEN_BYTES, written * share * (1.0 - later));
        }
        self.counters.compactions += 1.0;
        if self.fault == Fault::Restarts {
            self.counters = Counters::default();
        }
        let due = (rate * workload.duration.as_secs_f64()).round() as u64;
        let sent = |count: f64| (count as u64, count as u64);
        let lateness_p99_ms = if self.fault == Fault::LateLoad { 250.0 } else { 0.5 };
        let loses = self.surface.loses.clone().filter(|((name, value), _)| self.in_force.get(name) == Some(value));
        let lost_share = match loses {
            _ if self.fault == Fault::LosesOperations => 0.02,
            Some((_, share)) if self.runs.is_multiple_of(2) => share,
            _ => 0.0,
        };
        let within = self.surface.drift_within;
        let metrics = [
            (self.plan.objective.as_str(), p99_ms),
            ("p99_ms", p99_ms),
            ("mean_ms", p99_ms / P99_BY_MEAN),
            ("rate_per_s", rate),
        ];
        Ok(Loaded {
            due,
            done: due - (due as f64 * lost_share) as u64,
            lateness_p99_ms,
            writes: sent(count - reads),
            reads: sent(reads),
            measured: (((count - reads) * (1.0 - warm)).round() as u64, (reads * (1.0 - warm)).round() as u64),
            counted_by: Some(CountedBy::default()),
            begun,
            quarters_ms: [0.0, 1.0, 2.0, 3.0].map(|quarter| Some(p99_ms / 5.0 * (1.0 + within * quarter / 3.0))),
            metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
        })
    }

    async fn drain(&mut self) -> Result<BTreeMap<String, f64>, RigError> {
        self.now_s += 0.5;
        let (compacted, written) = std::mem::take(&mut self.put_off);
        self.counters.compacted_bytes += compacted;
        self.use_more(NODE_WRITTEN_BYTES, written);
        Ok(BTreeMap::from([("disk_bytes".to_owned(), 1e7)]))
    }
}

/// A surface for trying out a plan: the last value of the first factor takes a fifth off, that of
/// the second adds a tenth, and both together take another tenth off. Nothing else matters.
pub fn surface_for(plan: &Plan) -> Surface {
    let last = |at: usize| {
        let factor = plan.factors.get(at)?;
        Some(level(&factor.name, factor.values.last()?))
    };
    let (first, second) = (last(0), last(1));
    let effects =
        first.iter().map(|level| (level.clone(), -2.0)).chain(second.iter().map(|level| (level.clone(), 1.0)));
    let interactions = first.iter().zip(&second).map(|(one, other)| (one.clone(), other.clone(), -1.0));
    Surface {
        base_ms: 10.0,
        effects: effects.collect(),
        interactions: interactions.collect(),
        noise: 0.02,
        ..Surface::default()
    }
}
