//! What a seed makes of the world: the engine, its levels, the options of the library, the clocks, how bad the weather is.

use std::time::Duration;

use objects::{History, Keep, LibraryOptions, RevisionId, Rule};
use store::{Call, Class, Limits, Strength};

use crate::chance::{Chance, Purpose};

/// Replicas of each data center.
pub(crate) const REPLICAS: usize = 3;

/// How many replicas have to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One of the own data center: a read that may find what was long ago.
    One,
    /// More than half of those of the own data center.
    Local,
    /// More than half of those of each data center.
    Each,
}

/// Among whom compare-and-writes are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serial {
    /// Among all replicas.
    All,
    /// Among those of the first data center, the only one that may change heads.
    Home,
}

/// What kind of engine the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// One copy, and each list of steps is one commit: like the embedded engine.
    OneCommit,
    /// Replicas in so many data centers, and each step is by itself: like Cassandra.
    Replicated {
        centers: usize,
        serial: Serial,
        /// The level of writes of bytes.
        content_write: Reach,
        /// The level of all other writes.
        write: Reach,
    },
}

/// How often something goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// Of a thousand steps, so many fail or end unknown.
    pub(crate) faults: u64,
    /// Of a thousand steps, so many are held up for long.
    pub(crate) holds: u64,
    /// Of ten thousand turns, a server dies at so many.
    pub(crate) deaths: u64,
    /// Of ten thousand turns, a center is cut off, or joined again, at so many.
    pub(crate) cuts: u64,
    /// Of ten thousand turns, a replica goes down at so many.
    pub(crate) outages: u64,
    /// Of a thousand compare-and-writes, so many end unknown, besides all other faults: decided, but by few known; or decided late.
    pub(crate) unknown_heads: u64,
    /// Of a thousand confirmations of children, so many are lost.
    pub(crate) lost_confirmations: u64,
}

/// Whose turn it is, and who waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Of a thousand turns, so many go to the operation that had the last one, if it waits for another.
    pub(crate) stays: u64,
    /// Of a thousand rows that are read together, so many are read at a turn of their own.
    pub(crate) rows_apart: u64,
    /// The same for ranges.
    pub(crate) ranges_apart: u64,
    /// Of a thousand steps of operations that may take long, so many sleep.
    pub(crate) sleeps: u64,
    /// Turns for which they sleep.
    pub(crate) sleep: (u64, u64),
}

impl Default for Pace {
    fn default() -> Self {
        Self { stays: 0, rows_apart: 250, ranges_apart: 1_000, sleeps: 0, sleep: (1, 1) }
    }
}

/// How a mutation gets to replicas that need not have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// Of a hundred replicas in the writer's data center, so many get it at once.
    pub(crate) near: u64,
    /// Of a hundred in the other one.
    pub(crate) far: u64,
    /// Turns after which the others have it, at most.
    pub(crate) late_max: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { near: 50, far: 50, late_max: 400 }
    }
}

/// What clients do most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// A little of all.
    Mixed,
    /// The same few names are created, deleted and listed again and again.
    Crowded,
    /// Volumes are replaced, read, selected and collected.
    Volumes,
    /// One volume or two are replaced, read and selected while all servers collect, and graces are short beside what may take long.
    Collecting,
    /// A few children are created and deleted in a container whose marks are rewritten again and again.
    Rewriting,
    /// As crowded, by clocks that are far apart.
    Apart,
    /// Of a hundred operations so many replace a volume; while they, plans and selections sleep, everybody collects. Selections pin what is
    /// current, which hides what goes wrong without some rules.
    Patient { imports: u64, selects: bool },
    /// Names are used again and again while all servers list: those in the root (flat), or those in containers that are deleted too.
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
    /// The rule that servers do not keep to.
    pub(crate) left_out: Option<Rule>,
    /// One for each server.
    pub(crate) clocks: Vec<ClockSetup>,
    /// Operations at the same time.
    pub(crate) at_once: usize,
    /// Stretches of work, each followed by a long time in which nothing is asked for.
    pub(crate) phases: u64,
    /// Operations of each.
    pub(crate) ops_per_phase: u64,
    /// How long a request is held up altogether, milliseconds: less than a grace.
    pub(crate) request_ms_max: u64,
    /// How long a step of an import is held up, milliseconds; where graces are short, also one of a selection or of a plan. They may
    /// take longer than a grace: heads, pins and the life of a plan see to it.
    pub(crate) long_step_ms_max: u64,
    /// Whether a usual read asks one replica.
    pub(crate) reads_one: bool,
    pub(crate) pace: Pace,
    pub(crate) spread: Spread,
    /// Bytes of a step: with few, an import puts its rows in several steps.
    pub(crate) step_bytes: usize,
}

impl Setup {
    /// The world of a seed that is not directed at anything.
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
            call_timeout: 10 * second,
            shards: 2,
            resource_shards: u16::try_from(chance.between(1, 2)).unwrap_or(1),
            shard_bytes_max: *chance.one_of(&[300, 1_000, 1 << 20]),
            sample_one_of: u32::try_from(chance.between(1, 2)).unwrap_or(1),
            small_content_bytes: 24,
            rewrite_dead_rows_min: chance.between(1, 6),
            audit_max_lag: 1_000 * second,
            processors: 2,
            counting_threads: 1,
            ..LibraryOptions::default()
        };
        let theme = *chance.one_of(&[Theme::Mixed, Theme::Mixed, Theme::Crowded, Theme::Crowded, Theme::Volumes]);
        // What is done with volumes may take long: a grace passes while it is at it.
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
            request_ms_max: 3_500,
            long_step_ms_max: 6_000,
            reads_one: false,
            pace: Pace::default(),
            spread: Spread::default(),
            step_bytes: Limits::default().step_bytes,
        }
    }

    /// The incarnation under which marks of a container's children are kept.
    pub(crate) fn marks_of(&self, incarnation: RevisionId) -> RevisionId {
        if self.left_out == Some(Rule::PInc) { RevisionId::ZERO } else { incarnation }
    }

    /// How many replicas there are.
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

    /// Whether every finished write is seen by usual reads from a data center.
    pub(crate) fn usual_reads_are_strong(&self, center: usize) -> bool {
        match self.engine {
            Engine::Replicated { .. } if self.reads_one => false,
            Engine::OneCommit | Engine::Replicated { centers: 1, .. } => true,
            Engine::Replicated { serial: Serial::Home, .. } => center == 0,
            Engine::Replicated { write, .. } => write == Reach::Each,
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

    /// The reach at which a decided compare-and-write must have arrived before it is acknowledged.
    pub(crate) fn commit_reach(&self) -> Reach {
        match self.engine {
            Engine::Replicated { centers: 2, serial: Serial::All, .. } => Reach::Each,
            _ => Reach::Local,
        }
    }

    /// The reach of a strong read: as the levels of the Cassandra engine say.
    pub(crate) fn strong_reach(&self, class: Class) -> Reach {
        let Engine::Replicated { centers, serial, .. } = self.engine else { return Reach::Local };
        let stays = serial == Serial::Home && matches!(class, Class::Description | Class::Record);
        match self.write_reach(class) {
            Reach::Local if centers > 1 && !stays => Reach::Each,
            // Nothing is written at one replica alone.
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

    /// All sets of replicas that may answer a strong read, each as bits. Away from the heads' home nothing is promised, so that only
    /// those at home count there.
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
