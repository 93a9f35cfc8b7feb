//! The world of a seed: the engine, its consistency levels, the options of the library, the clocks,
//! and the rates of faults.

use std::time::Duration;

use heads::{History, HistoryTrees, Keep, LibraryOptions, ResourcePath, RevisionId, Rule};
use store::{Call, Class, Limits, Strength};

use crate::chance::{Chance, Purpose};

/// Replicas of each data center.
pub(crate) const REPLICAS: usize = 3;

/// The tree in which only those versions are kept that clients ask for, if they do.
pub(crate) const EXPLICIT: &str = "a";

/// After how many milliseconds, at most, a step is decided whose caller got no answer.
pub(crate) const LATE_MS_MAX: u64 = 300;

/// The turns in which a request ends that is not held up any more, about.
const LAST_TURNS: u64 = 100;

/// How many replicas have to respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One in the local data center: a read that may return an old state.
    One,
    /// More than half of those in the local data center.
    Local,
    /// More than half of those in each data center.
    Each,
}

/// The replicas that decide compare-and-writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serial {
    /// All replicas.
    All,
    /// Those of the first data center, the only one that may change heads.
    Home,
}

/// The kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// One copy, and one commit per list of steps, like the embedded engine.
    OneCommit,
    /// Replicas in this many data centers, and each step by itself, like Cassandra.
    Replicated {
        centers: usize,
        serial: Serial,
        /// The level of writes of bytes.
        content_write: Reach,
        /// The level of all other writes.
        write: Reach,
    },
}

/// The rates of faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Steps in a thousand that fail or end with an unknown outcome.
    pub(crate) faults: u64,
    /// Steps in a thousand that are held up for long.
    pub(crate) holds: u64,
    /// Turns in ten thousand at which a server dies.
    pub(crate) deaths: u64,
    /// Turns in ten thousand at which a data center is cut off, or joined again.
    pub(crate) cuts: u64,
    /// Turns in ten thousand at which a replica goes down.
    pub(crate) outages: u64,
    /// Compare-and-writes in a thousand that end with an unknown outcome, besides all other faults.
    /// They are decided, but few replicas know it; or they are decided late.
    pub(crate) unknown_heads: u64,
    /// Confirmations of children in a thousand that are lost.
    pub(crate) lost_confirmations: u64,
}

/// Chooses whose turn is next, and which steps wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Turns in a thousand that go to the operation of the last turn, if it waits for another.
    pub(crate) stays: u64,
    /// Rows in a thousand of a joint read that get a turn of their own.
    pub(crate) rows_apart: u64,
    /// The same for ranges.
    pub(crate) ranges_apart: u64,
    /// Steps in a thousand that sleep, of operations that may take long.
    pub(crate) sleeps: u64,
    /// The least and most turns for which they sleep.
    pub(crate) sleep: (u64, u64),
}

impl Default for Pace {
    fn default() -> Self {
        Self { stays: 0, rows_apart: 250, ranges_apart: 1_000, sleeps: 0, sleep: (1, 1) }
    }
}

/// How a mutation reaches replicas that need not have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// Replicas in a hundred that get it at once, in the writer's data center.
    pub(crate) near: u64,
    /// Replicas in a hundred that get it at once, in the other data center.
    pub(crate) far: u64,
    /// The most turns after which the others have it.
    pub(crate) late_max: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { near: 50, far: 50, late_max: 400 }
    }
}

/// The most frequent operations of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// A little of everything.
    Mixed,
    /// The same few names are created, deleted and listed again and again.
    Crowded,
    /// Volumes are replaced, read, selected and collected.
    Volumes,
    /// One or two volumes are replaced, read and selected while all servers collect. Graces are
    /// short compared with what may take long.
    Collecting,
    /// A few children are created and deleted in a container whose marks are rewritten again and
    /// again.
    Rewriting,
    /// Like `Crowded`, with clocks that are far apart.
    Apart,
    /// Of a hundred operations, `imports` replace a volume. While imports, plans and selections
    /// sleep, all servers collect. Selections pin current revisions, which hides the failures
    /// without some rules.
    Patient { imports: u64, selects: bool },
    /// Names are used again and again while all servers list: names in the root (flat), or names in
    /// containers that are also deleted.
    Nested { is_flat: bool },
}

/// A server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSetup {
    pub(crate) offset_ms: i64,
    pub(crate) drift_ppm: i64,
}

/// The world of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) engine: Engine,
    pub(crate) weather: Weather,
    pub(crate) options: LibraryOptions,
    pub(crate) theme: Theme,
    /// Milliseconds that a turn takes.
    pub(crate) moment_ms: u64,
    /// The rule that the servers leave out.
    pub(crate) left_out: Option<Rule>,
    /// One clock per server.
    pub(crate) clocks: Vec<ClockSetup>,
    /// The most operations at the same time.
    pub(crate) at_once: usize,
    /// Phases of work, each followed by a long time without requests.
    pub(crate) phases: u64,
    /// Operations per phase.
    pub(crate) ops_per_phase: u64,
    /// The longest time without requests after a phase, in milliseconds.
    pub(crate) pause_ms_max: u64,
    /// How long a request is held up in all, in milliseconds: less than a grace. Until it has ended
    /// and all of it is decided, it takes no longer than the protocols assume.
    pub(crate) request_ms_max: u64,
    /// How long a step of an import is held up, in milliseconds. If graces are short, this also
    /// applies to steps of selections and plans. They may take longer than a grace, because heads,
    /// pins and the life of a plan protect them.
    pub(crate) long_step_ms_max: u64,
    /// Whether a usual read asks only one replica.
    pub(crate) reads_one: bool,
    pub(crate) pace: Pace,
    pub(crate) spread: Spread,
    /// Whether clients keep records, and do nothing else.
    pub(crate) keeps_records: bool,
    /// Whether these records have attributes, which expire by themselves.
    pub(crate) has_attributes: bool,
    /// Whether records are in mode fast. Then they all have attributes.
    pub(crate) is_fast: bool,
    /// Whether clients change several records without waiting in between.
    pub(crate) pipelines: bool,
    /// Whether clients make transactions.
    pub(crate) has_transactions: bool,
    /// Whether there are archival groups.
    pub(crate) has_groups: bool,
    /// Whether clients ask for versions, send some, and restore and remove some.
    pub(crate) has_versions: bool,
    /// Bytes of a step. With a small number, an import puts its rows in several steps.
    pub(crate) step_bytes: usize,
}

impl Setup {
    /// The world of a seed, without directing it.
    pub(crate) fn usual(seed: u64, left_out: Option<Rule>) -> Self {
        let mut chance = Chance::new(seed, Purpose::Setup);
        let engine = match chance.below(8) {
            0 => Engine::OneCommit,
            1 | 2 => replicated(1, Serial::All, Reach::Local, Reach::Local),
            3 | 4 => replicated(2, Serial::All, Reach::Local, Reach::Local),
            5 => replicated(2, Serial::All, Reach::Each, Reach::Each),
            6 => replicated(2, Serial::All, Reach::Each, Reach::Each),
            _ => replicated(2, Serial::Home, Reach::Local, Reach::Local),
        };
        let weather = *chance.one_of(&[
            Weather { faults: 3, holds: 30, deaths: 5, cuts: 2, ..Weather::default() },
            Weather { faults: 25, holds: 50, deaths: 20, cuts: 10, ..Weather::default() },
            Weather { faults: 80, holds: 80, deaths: 40, cuts: 20, ..Weather::default() },
        ]);
        let servers = chance.between(2, 3);
        let clocks = (0..servers).map(|_| ClockSetup {
            offset_ms: i64::try_from(chance.below(1_801)).unwrap_or(0) - 900,
            drift_ppm: i64::try_from(chance.below(401)).unwrap_or(0) - 200,
        });
        let clocks = clocks.collect();
        let history = History {
            resources: *chance.one_of(&[Keep::All, Keep::None, Keep::Newest(1)]),
            volumes: *chance.one_of(&[Keep::None, Keep::None, Keep::Newest(1)]),
        };
        let second = Duration::from_secs(1);
        let is_long = left_out != Some(Rule::LongGrace);
        let options = LibraryOptions {
            grace: if is_long { 4 * second } else { second },
            history,
            plan_life: 3 * second / 2,
            clock_skew_max: 2 * second,
            selection_life: 3 * second,
            selection_life_max: 10 * second,
            sweep_after: Duration::from_millis(*chance.one_of(&[0, 50, 300])),
            // With 14 calls (2.1 s) this is 4 s. A request takes 3.9 s: `request_ms_max`, then
            // `LAST_TURNS` and `LATE_MS_MAX`. With the difference of clocks, what it left may be
            // dropped after 6 s, which is less than the longest pause.
            switch_within: Duration::from_millis(1_900),
            // A bucket of a queue stays open for 156 calls (23 s) and longer after its end. So a
            // step of an import arrives in time, even if it is held up three times (18 s).
            call_timeout: Duration::from_millis(150),
            shards: 2,
            resource_shards: u16::try_from(chance.between(1, 2)).unwrap_or(1),
            shard_bytes_max: *chance.one_of(&[300, 1_000, 1 << 20]),
            sample_one_of: u32::try_from(chance.between(1, 2)).unwrap_or(1),
            small_content_bytes: 24,
            rewrite_dead_rows_min: chance.between(1, 6),
            audit_max_lag: 1_000 * second,
            processors: 2,
            counting_threads: 1,
            // The feed has a world of its own, so that the seeds of the others keep their choices.
            feed_keep: Duration::ZERO,
            ..LibraryOptions::default()
        };
        let theme = *chance.one_of(&[Theme::Mixed, Theme::Mixed, Theme::Crowded, Theme::Crowded, Theme::Volumes]);
        // Operations on volumes may take long: a grace passes meanwhile.
        let moment_ms = if theme == Theme::Volumes { *chance.one_of(&[1, 5, 12]) } else { 1 };
        let at_once = usize::try_from(chance.between(2, if theme == Theme::Volumes { 4 } else { 7 })).unwrap_or(2);
        Self {
            engine,
            weather,
            options,
            theme,
            moment_ms,
            left_out,
            clocks,
            at_once,
            phases: chance.between(2, 4),
            ops_per_phase: 60,
            pause_ms_max: 9_000,
            // 3.6 s until it has ended.
            request_ms_max: 3_600 - LAST_TURNS * moment_ms,
            long_step_ms_max: 6_000,
            reads_one: false,
            pace: Pace::default(),
            spread: Spread::default(),
            keeps_records: false,
            has_attributes: false,
            is_fast: false,
            pipelines: false,
            has_transactions: false,
            has_groups: false,
            has_versions: false,
            step_bytes: Limits::default().step_bytes,
        }
    }

    /// Announces changes in the feed. Pauses are as long as the horizon, so that consumers see some
    /// changes while others are made.
    pub(crate) fn announce_changes(&mut self) {
        self.options.feed_keep = Duration::from_secs(365 * 24 * 3_600);
        self.options.switch_within = Duration::from_secs(3);
        // With the difference of clocks, the horizon is 15 s back. A list of steps that is one
        // commit is not checked for its time, and that of an import is held up for 6 s.
        self.options.call_timeout = Duration::from_secs(10);
        self.pause_ms_max = 30_000;
    }

    /// Lets clients make transactions.
    pub(crate) fn make_transactions(&mut self) {
        self.has_transactions = true;
        // With the difference of clocks (2 s) they end after 5 s, which is within a pause.
        self.options.transaction_timeout = Duration::from_secs(3);
    }

    /// Lets clients ask for versions, send some, and restore and remove some. In one tree no others
    /// are kept. Versions of volumes are kept too.
    pub(crate) fn ask_for_versions(&mut self) {
        self.has_versions = true;
        if self.options.history.volumes == Keep::None {
            self.options.history.volumes = Keep::All;
        }
        if self.options.history.resources == Keep::None {
            self.options.history.resources = Keep::All;
        }
        let tree = ResourcePath::parse(EXPLICIT).unwrap_or_default();
        self.options.history_trees = HistoryTrees::new(vec![(tree, Keep::Explicit)]);
    }

    /// Clients keep records. A data folder belongs to one server.
    pub(crate) fn keep_records(&mut self) {
        self.keeps_records = true;
        if self.engine == Engine::OneCommit {
            self.clocks.truncate(1);
        }
    }

    /// Clients keep records in mode fast, which is for replicas.
    pub(crate) fn keep_fast_records(&mut self) {
        self.is_fast = true;
        if self.engine == Engine::OneCommit {
            self.engine = replicated(1, Serial::All, Reach::Local, Reach::Local);
        }
        self.keep_records();
    }

    /// Clients keep records in a data folder, where changes of several can be made as one.
    pub(crate) fn pipeline_records(&mut self) {
        self.pipelines = true;
        self.engine = Engine::OneCommit;
        self.keep_records();
    }

    /// The world of the store into which that of this world is copied.
    pub(crate) fn of_copy(&self, seed: u64) -> Self {
        let mut chance = Chance::new(seed, Purpose::Copying);
        let engine = match chance.below(4) {
            0 | 1 => Engine::OneCommit,
            2 => replicated(1, Serial::All, Reach::Local, Reach::Local),
            _ => replicated(2, Serial::All, Reach::Each, Reach::Each),
        };
        Self { engine, left_out: None, reads_one: false, ..self.clone() }
    }

    /// Whether changes are announced.
    pub(crate) fn announces(&self) -> bool {
        !self.options.feed_keep.is_zero()
    }

    /// The incarnation that keys the marks of a container's children.
    pub(crate) fn marks_of(&self, incarnation: RevisionId) -> RevisionId {
        if self.left_out == Some(Rule::PInc) { RevisionId::ZERO } else { incarnation }
    }

    /// The number of replicas.
    pub(crate) fn replicas(&self) -> usize {
        match self.engine {
            Engine::OneCommit => 1,
            Engine::Replicated { centers, .. } => centers * REPLICAS,
        }
    }

    /// The data center of a server.
    pub(crate) fn center_of(&self, server: usize) -> usize {
        server % self.centers()
    }

    pub(crate) fn centers(&self) -> usize {
        match self.engine {
            Engine::OneCommit => 1,
            Engine::Replicated { centers, .. } => centers,
        }
    }

    /// Whether heads can be changed from a data center.
    pub(crate) fn is_home(&self, center: usize) -> bool {
        !matches!(self.engine, Engine::Replicated { serial: Serial::Home, .. }) || center == 0
    }

    /// Whether usual reads from a data center see every finished write.
    pub(crate) fn usual_reads_are_strong(&self, center: usize) -> bool {
        match self.engine {
            Engine::Replicated { .. } if self.reads_one => false,
            Engine::OneCommit | Engine::Replicated { centers: 1, .. } => true,
            Engine::Replicated { serial: Serial::Home, .. } => center == 0,
            Engine::Replicated { write, .. } => write == Reach::Each,
        }
    }

    /// Whether usual reads from one data center see every finished write from another one, or from
    /// the same.
    pub(crate) fn sees_writes_of(&self, reader: usize, writer: usize) -> bool {
        match self.engine {
            Engine::OneCommit => true,
            Engine::Replicated { write, .. } => !self.reads_one && (reader == writer || write == Reach::Each),
        }
    }

    /// The reach of a write.
    pub(crate) fn write_reach(&self, class: Class) -> Reach {
        match self.engine {
            Engine::OneCommit => Reach::Local,
            Engine::Replicated { content_write, write, .. } => {
                if class == Class::Content {
                    content_write
                } else {
                    write
                }
            }
        }
    }

    /// The reach that a decided compare-and-write needs before it is acknowledged.
    pub(crate) fn commit_reach(&self) -> Reach {
        match self.engine {
            Engine::Replicated { centers: 2, serial: Serial::All, .. } => Reach::Each,
            _ => Reach::Local,
        }
    }

    /// The reach of a strong read, with the levels of the Cassandra engine.
    pub(crate) fn strong_reach(&self, class: Class) -> Reach {
        let Engine::Replicated { centers, serial, .. } = self.engine else { return Reach::Local };
        let stays = serial == Serial::Home && matches!(class, Class::Description | Class::Record);
        match self.write_reach(class) {
            Reach::Local if centers > 1 && !stays => Reach::Each,
            // No write goes to one replica alone.
            Reach::One | Reach::Local | Reach::Each => Reach::Local,
        }
    }

    /// The reach of a read.
    pub(crate) fn read_reach(&self, call: Call) -> Reach {
        match call.strength {
            Strength::Usual if self.reads_one => Reach::One,
            Strength::Usual => Reach::Local,
            Strength::Strong | Strength::Serial => self.strong_reach(call.class),
        }
    }

    /// All sets of replicas that may answer a strong read, each as bits. Away from the heads' home
    /// there is no promise, so there only the replicas at home count.
    pub(crate) fn strong_views(&self, class: Class) -> Vec<u8> {
        let Engine::Replicated { centers, serial, .. } = self.engine else { return vec![1] };
        let pairs = [0b011_u8, 0b101, 0b110];
        let second = pairs.map(|pair| pair << REPLICAS);
        match (centers, self.strong_reach(class)) {
            (1, _) => pairs.to_vec(),
            (_, Reach::Each) => pairs.iter().flat_map(|one| second.map(|other| one | other)).collect(),
            (_, Reach::One | Reach::Local) if serial == Serial::Home => pairs.to_vec(),
            (_, Reach::One | Reach::Local) => pairs.into_iter().chain(second).collect(),
        }
    }
}

pub(crate) fn replicated(centers: usize, serial: Serial, content_write: Reach, write: Reach) -> Engine {
    Engine::Replicated { centers, serial, content_write, write }
}

#[cfg(test)]
mod tests {
    use heads::retries::TRIES_MAX;

    use super::*;

    /// How long others assume that a request is at work, by their own clocks.
    fn change_max(options: &LibraryOptions) -> Duration {
        options.switch_within + options.call_timeout * (TRIES_MAX + 2)
    }

    #[test]
    fn no_request_takes_longer_and_no_clocks_differ_more_than_the_protocols_assume() {
        for seed in 0..160 {
            let setup = Setup::new(seed, None);
            let request_ms = setup.request_ms_max + LAST_TURNS * setup.moment_ms + LATE_MS_MAX;
            assert!(Duration::from_millis(request_ms) <= change_max(&setup.options), "seed {seed}: {request_ms} ms");
            let offsets = setup.clocks.iter().map(|clock| clock.offset_ms);
            let apart_ms = offsets.clone().max().unwrap_or(0) - offsets.min().unwrap_or(0);
            let apart = Duration::from_millis(apart_ms.unsigned_abs());
            assert!(apart < setup.options.clock_skew_max, "seed {seed}: {apart:?}");
        }
    }

    #[test]
    fn what_requests_left_is_dropped_while_others_are_at_work_in_most_worlds() {
        // Worlds in which volumes are collected, and those whose clocks are far apart.
        let is_slow = |seed: &u64| matches!(seed % 16, 4 | 5 | 7 | 13 | 15);
        for seed in (0..160).filter(|seed| !is_slow(seed)) {
            let Setup { options, pause_ms_max, .. } = Setup::new(seed, None);
            let dropped_after = (change_max(&options) + options.clock_skew_max).max(options.grace);
            assert!(dropped_after < Duration::from_millis(pause_ms_max), "seed {seed}: {dropped_after:?}");
        }
    }
}
