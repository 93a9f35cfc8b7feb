//! Directed worlds: aimed at failures that are rare in a general world. Such failures show some
//! left-out rules.

use std::time::Duration;

use heads::{Keep, Rule};

use crate::chance::{Chance, Purpose};
use crate::setup::{Engine, Pace, Reach, Serial, Setup, Spread, Theme, Weather, replicated};

/// Bytes of a step with which an import puts each row in its own step: little more than an import
/// leaves free in each.
const FEW_STEP_BYTES: usize = (128 << 10) + 200;

impl Setup {
    /// The world of a seed. Half of them are directed.
    pub(crate) fn new(seed: u64, left_out: Option<Rule>) -> Self {
        let mut setup = Self::usual(seed, left_out);
        let mut chance = Chance::new(seed, Purpose::Directed);
        match seed % 16 {
            4 => setup.direct_at_patience(&mut chance),
            12 => setup.direct_at_nesting(&mut chance),
            5 | 13 => setup.direct_at_collecting(&mut chance),
            6 | 14 => setup.direct_at_rewriting(&mut chance),
            7 | 15 => setup.direct_at_clocks(&mut chance),
            _ => {}
        }
        setup
    }

    fn direct_at_collecting(&mut self, chance: &mut Chance) {
        self.theme = Theme::Collecting;
        self.engine = an_engine_that_collects(chance);
        self.reads_one = chance.permille(500);
        self.weather = Weather {
            faults: *chance.one_of(&[3, 30]),
            holds: *chance.one_of(&[50, 150]),
            deaths: *chance.one_of(&[3, 30]),
            cuts: 2,
            ..Weather::default()
        };
        self.set_clocks_apart(chance, 200);
        self.set_graces(300, 450, 800, 150);
        self.options.selection_life = ms(*chance.one_of(&[200, 3_000]));
        self.options.history.volumes = Keep::None;
        self.moment_ms = chance.between(1, 3);
        self.at_once = usize::try_from(chance.between(3, 6)).unwrap_or(3);
        self.ops_per_phase = 100;
        self.request_ms_max = 600;
        self.long_step_ms_max = 2_000;
    }

    /// An import, a plan or a selection pauses somewhere for one or more graces. All other
    /// operations run in one go, so that passes of collectors are short compared with the life of a
    /// plan.
    fn direct_at_patience(&mut self, chance: &mut Chance) {
        self.theme = Theme::Patient { imports: *chance.one_of(&[2, 5, 15]), selects: chance.permille(400) };
        self.engine = an_engine_that_collects(chance);
        self.reads_one = chance.permille(500);
        self.weather = Weather {
            faults: *chance.one_of(&[1, 10]),
            holds: *chance.one_of(&[5, 20]),
            deaths: *chance.one_of(&[1, 15]),
            cuts: 1,
            outages: 15,
            ..Weather::default()
        };
        self.set_clocks_apart(chance, 60);
        self.set_graces(600, 150, 800, 200);
        self.options.selection_life = ms(3_000);
        self.options.history.volumes = Keep::None;
        self.pace = Pace {
            stays: *chance.one_of(&[900, 980]),
            rows_apart: 600,
            ranges_apart: 30,
            sleeps: *chance.one_of(&[60, 150]),
            sleep: (400, 2_800),
        };
        self.step_bytes = *chance.one_of(&[FEW_STEP_BYTES, self.step_bytes]);
        self.moment_ms = 1;
        self.at_once = usize::try_from(chance.between(4, 7)).unwrap_or(4);
        self.ops_per_phase = 200;
        self.request_ms_max = 600;
        self.long_step_ms_max = 600;
    }

    /// Names are used again and again, in containers that are also created and deleted. What is
    /// decided, confirmed or repaired elsewhere arrives late.
    fn direct_at_nesting(&mut self, chance: &mut Chance) {
        let is_flat = chance.permille(400);
        self.theme = Theme::Nested { is_flat };
        let homes = replicated(2, Serial::Home, Reach::Local, Reach::Local);
        self.engine = match chance.below(if is_flat { 2 } else { 4 }) {
            0 | 1 => homes,
            2 => replicated(1, Serial::All, Reach::Local, Reach::Local),
            _ => replicated(2, Serial::All, Reach::Local, Reach::Local),
        };
        self.weather = Weather {
            faults: *chance.one_of(&[5, 40]),
            holds: *chance.one_of(&[10, 60]),
            deaths: *chance.one_of(&[5, 40]),
            cuts: *chance.one_of(&[1, 20]),
            outages: 2,
            unknown_heads: *chance.one_of(if is_flat { &[50, 300] } else { &[20, 150] }),
            lost_confirmations: *chance.one_of(&[100, 700]),
        };
        self.options.sweep_after = Duration::ZERO;
        self.pace = Pace {
            stays: *chance.one_of(&[0, 700]),
            ranges_apart: 100,
            sleeps: *chance.one_of(&[50, 150]),
            sleep: (20, 300),
            ..Pace::default()
        };
        self.spread = Spread { near: 50, far: *chance.one_of(&[10, 50]), late_max: *chance.one_of(&[300, 1_200]) };
        self.moment_ms = 1;
        self.at_once = usize::try_from(chance.between(3, 7)).unwrap_or(3);
        self.ops_per_phase = 70;
    }

    fn direct_at_rewriting(&mut self, chance: &mut Chance) {
        self.theme = Theme::Rewriting;
        self.weather.holds = *chance.one_of(&[50, 150]);
        self.weather.deaths = *chance.one_of(&[5, 60]);
        self.options.shards = 1;
        self.options.resource_shards = 1;
        self.options.rewrite_dead_rows_min = 1;
        self.options.sample_one_of = 1;
        self.options.shard_bytes_max = *chance.one_of(&[100, 200]);
        self.ops_per_phase = 80;
    }

    fn direct_at_clocks(&mut self, chance: &mut Chance) {
        self.theme = Theme::Apart;
        self.set_clocks_apart(chance, 20_000);
        let second = Duration::from_secs(1);
        // Clocks differ by up to 40 s. So 45 s by one clock may be 5 s, and a request takes 4 s.
        self.options.clock_skew_max = 41 * second;
        self.options.grace = self.options.plan_life + 43 * second;
        self.options.sweep_after = Duration::ZERO;
    }

    fn set_clocks_apart(&mut self, chance: &mut Chance, max_ms: u64) {
        for clock in &mut self.clocks {
            clock.offset_ms =
                i64::try_from(chance.below(2 * max_ms + 1)).unwrap_or(0) - i64::try_from(max_ms).unwrap_or(0);
        }
    }

    /// Sets, in milliseconds, the life of a plan, the clock skew, the grace, and a grace that is
    /// too short. Imports sleep for several graces, and then still try again. So writers try for
    /// long, and records of work are dropped only at the end.
    fn set_graces(&mut self, plan_life: u64, clock_skew_max: u64, grace: u64, too_short: u64) {
        let is_long = self.left_out != Some(Rule::LongGrace);
        self.options.plan_life = ms(plan_life);
        self.options.clock_skew_max = ms(clock_skew_max);
        self.options.grace = ms(if is_long { grace } else { too_short });
        // The defaults: much longer than any step here is held up (2.8 s).
        self.options.switch_within = Duration::from_secs(60);
        self.options.call_timeout = Duration::from_secs(10);
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Writes of bytes may arrive everywhere at once, while all others arrive later.
fn an_engine_that_collects(chance: &mut Chance) -> Engine {
    let (content_write, write) = *chance.one_of(&[(Reach::Local, Reach::Local), (Reach::Each, Reach::Local)]);
    match chance.below(5) {
        0 => Engine::OneCommit,
        1 | 2 => replicated(1, Serial::All, Reach::Local, Reach::Local),
        _ => replicated(2, Serial::All, content_write, write),
    }
}
