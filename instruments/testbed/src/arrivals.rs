//! When users arrive.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::plan::{PlanError, check_duration, invalid};
use crate::replay::{self, Keys, LogFormat, safe_methods};

/// The most users of a run: more would be a mistake.
const USERS_MAX: f64 = 1e10;

/// The shape of a load. Rates are users per second over all workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shape {
    /// So many users for each worker, evenly over a time: twice the workers are twice the rate.
    Even {
        /// Users per worker.
        users_per_worker: u64,
        /// From the first to the last.
        #[serde(with = "humantime_serde")]
        duration: Duration,
    },
    /// Users at a constant rate, in equal distances.
    Constant {
        /// Users per second.
        rate: f64,
        /// For how long.
        #[serde(with = "humantime_serde")]
        duration: Duration,
    },
    /// Users at random instants, as strangers arrive: a Poisson process.
    Poisson {
        /// Users per second, on average.
        rate: f64,
        /// For how long.
        #[serde(with = "humantime_serde")]
        duration: Duration,
    },
    /// A rate that changes evenly.
    Ramp {
        /// Users per second at first.
        from: f64,
        /// Users per second in the end.
        to: f64,
        /// For how long.
        #[serde(with = "humantime_serde")]
        duration: Duration,
    },
    /// One rate after another.
    Steps {
        /// The rates.
        steps: Vec<RateStep>,
    },
    /// The requests of an access log, with their distances. Their scenario has a feed of the kind
    /// `replay`.
    Replay {
        /// The log, beside the plan; it may be compressed (`….gz`).
        file: String,
        /// Its form.
        #[serde(default)]
        format: LogFormat,
        /// The keys of its objects, if it has objects.
        #[serde(default)]
        keys: Keys,
        /// So many times as fast as it was recorded.
        #[serde(default = "as_recorded")]
        speed: f64,
        /// The requests with these methods.
        #[serde(default = "safe_methods")]
        methods: Vec<String>,
        /// For how long.
        #[serde(with = "humantime_serde")]
        duration: Duration,
    },
    /// A closed loop: each user begins again when it is done. It hides the queue of a slow server,
    /// and is here for comparison with tools that know nothing else.
    Closed {
        /// Users per worker.
        users_per_worker: u64,
        /// For how long.
        #[serde(with = "humantime_serde")]
        duration: Duration,
    },
}

/// A rate for a while.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Users per second.
    pub rate: f64,
    /// For how long.
    #[serde(with = "humantime_serde")]
    pub duration: Duration,
}

impl Shape {
    /// For how long users arrive.
    pub fn duration(&self) -> Duration {
        match self {
            Self::Even { duration, .. }
            | Self::Constant { duration, .. }
            | Self::Poisson { duration, .. }
            | Self::Ramp { duration, .. }
            | Self::Replay { duration, .. }
            | Self::Closed { duration, .. } => *duration,
            // Whatever a plan says: it is checked later.
            Self::Steps { steps } => {
                steps.iter().fold(Duration::ZERO, |so_far, step| so_far.saturating_add(step.duration))
            }
        }
    }

    /// The same shape with another rate: so many times as many users.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let users = |users: &u64| scaled_users(*users, factor);
        match self {
            Self::Even { users_per_worker, duration } => {
                Self::Even { users_per_worker: users(users_per_worker), duration: *duration }
            }
            Self::Constant { rate, duration } => Self::Constant { rate: rate * factor, duration: *duration },
            Self::Poisson { rate, duration } => Self::Poisson { rate: rate * factor, duration: *duration },
            Self::Ramp { from, to, duration } => {
                Self::Ramp { from: from * factor, to: to * factor, duration: *duration }
            }
            Self::Steps { steps } => {
                let scaled = steps.iter().map(|step| RateStep { rate: step.rate * factor, ..*step });
                Self::Steps { steps: scaled.collect() }
            }
            Self::Replay { speed, .. } => {
                let mut replay = self.clone();
                if let Self::Replay { speed: scaled, .. } = &mut replay {
                    *scaled = speed * factor;
                }
                replay
            }
            Self::Closed { users_per_worker, duration } => {
                Self::Closed { users_per_worker: users(users_per_worker), duration: *duration }
            }
        }
    }

    /// The factor that [`scaled`](Self::scaled) makes of one: a worker has whole users.
    pub(crate) fn made_factor(&self, factor: f64) -> f64 {
        match self {
            Self::Even { users_per_worker, .. } | Self::Closed { users_per_worker, .. } => {
                scaled_users(*users_per_worker, factor) as f64 / *users_per_worker as f64
            }
            _ => factor,
        }
    }

    /// Users per second over all workers, on average; `None` in a closed loop and in a replay.
    pub fn mean_rate(&self, workers: u32) -> Option<f64> {
        let seconds = self.duration().as_secs_f64();
        match self {
            Self::Even { users_per_worker, .. } => Some(*users_per_worker as f64 * f64::from(workers) / seconds),
            Self::Closed { .. } | Self::Replay { .. } => None,
            _ => Some(self.pieces(workers).iter().map(Piece::users).sum::<f64>() / seconds),
        }
    }

    /// How many users there are in all in a closed loop; 0 in an open one.
    pub fn closed_users(&self, workers: u32) -> u64 {
        match self {
            Self::Closed { users_per_worker, .. } => users_per_worker * u64::from(workers),
            _ => 0,
        }
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let rate = |name: &str, rate: f64, least: f64| match rate.is_finite() && rate >= least {
            true => Ok(()),
            false => Err(invalid(format!("plan: load.{name}"), format!("users per second: at least {least}"))),
        };
        match self {
            Self::Even { users_per_worker: 0, .. } | Self::Closed { users_per_worker: 0, .. } => {
                return Err(invalid("plan: load.users_per_worker", "at least 1"));
            }
            Self::Constant { rate: value, .. } | Self::Poisson { rate: value, .. } => rate("rate", *value, 1e-3)?,
            Self::Ramp { from, to, .. } => {
                rate("from", *from, 0.0)?;
                rate("to", *to, 0.0)?;
            }
            Self::Steps { steps } => steps.iter().try_for_each(|step| rate("steps.rate", step.rate, 0.0))?,
            Self::Replay { speed, methods, .. } => replay::check(*speed, methods)?,
            Self::Even { .. } | Self::Closed { .. } => {}
        }
        check_duration("plan: load.duration", self.duration(), "60s")?;
        let users = match self {
            Self::Closed { users_per_worker, .. } => *users_per_worker as f64,
            _ => self.mean_rate(1).unwrap_or_default() * self.duration().as_secs_f64(),
        };
        match users > USERS_MAX {
            true => Err(invalid("plan: load", format!("at most {USERS_MAX:e} users"))),
            false => Ok(()),
        }
    }

    fn pieces(&self, workers: u32) -> Vec<Piece> {
        let piece = |from: f64, to: f64, duration: &Duration| Piece { from, to, seconds: duration.as_secs_f64() };
        match self {
            Self::Even { users_per_worker, duration } | Self::Closed { users_per_worker, duration } => {
                let rate = *users_per_worker as f64 * f64::from(workers) / duration.as_secs_f64();
                vec![piece(rate, rate, duration)]
            }
            Self::Constant { rate, duration } | Self::Poisson { rate, duration } => {
                vec![piece(*rate, *rate, duration)]
            }
            Self::Ramp { from, to, duration } => vec![piece(*from, *to, duration)],
            Self::Steps { steps } => steps.iter().map(|step| piece(step.rate, step.rate, &step.duration)).collect(),
            // Its log says when users arrive.
            Self::Replay { .. } => Vec::new(),
        }
    }

    /// The instants at which users of a worker arrive, since the start instant, in order. The users
    /// of `workers` workers interleave. In a closed loop, all users of a worker arrive at once.
    pub fn arrivals(&self, worker: u32, workers: u32, seed: u64) -> Box<dyn Iterator<Item = Duration> + Send> {
        match self {
            Self::Closed { users_per_worker, .. } => {
                let count = usize::try_from(*users_per_worker).unwrap_or(usize::MAX);
                Box::new(std::iter::repeat_n(Duration::ZERO, count))
            }
            Self::Poisson { rate, duration } => {
                Box::new(Poisson::new(*rate / f64::from(workers), *duration, seed, worker))
            }
            _ => {
                let mut instants = Instants::of(self.pieces(workers));
                let numbers = (u64::from(worker)..).step_by(workers as usize);
                Box::new(numbers.map_while(move |number| instants.of_user(number)))
            }
        }
    }
}

/// So many times as many users, in whole ones.
fn scaled_users(users: u64, factor: f64) -> u64 {
    (users as f64 * factor).round() as u64
}

fn as_recorded() -> f64 {
    1.0
}

/// A rate that changes evenly for a while.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: f64,
    to: f64,
    seconds: f64,
}

impl Piece {
    fn users(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds
    }

    /// When so many users have arrived since the beginning of this piece, in seconds: the root of
    /// `from * t + (to - from) / (2 * seconds) * t^2 = users`, in the form that also holds for equal rates.
    fn at(&self, users: f64) -> f64 {
        let growth = (self.to - self.from) / self.seconds;
        let root = (self.from * self.from + 2.0 * growth * users).max(0.0).sqrt();
        if users == 0.0 { 0.0 } else { 2.0 * users / (self.from + root) }
    }
}

/// When users arrive. They are asked for in the order of their numbers, so that each looks only at
/// the piece of the one before, however many pieces there are.
struct Instants {
    pieces: std::vec::IntoIter<Piece>,
    /// The users and the seconds of all pieces before.
    before: f64,
    seconds: f64,
}

impl Instants {
    fn of(pieces: Vec<Piece>) -> Self {
        Self { pieces: pieces.into_iter(), before: 0.0, seconds: 0.0 }
    }

    /// When the user of this number arrives; `None`: nobody arrives any more.
    fn of_user(&mut self, number: u64) -> Option<Duration> {
        while let Some(piece) = self.pieces.as_slice().first() {
            let users = number as f64 - self.before;
            // Rounding must not move the last user of a piece into it or out of it.
            if users < piece.users() - 1e-6 {
                return Some(Duration::from_secs_f64(self.seconds + piece.at(users.max(0.0))));
            }
            self.before += piece.users();
            self.seconds += piece.seconds;
            self.pieces.next();
        }
        None
    }
}

struct Poisson {
    random: ChaCha8Rng,
    rate: f64,
    seconds: f64,
    end: f64,
}

impl Poisson {
    fn new(rate: f64, duration: Duration, seed: u64, worker: u32) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(u64::from(worker));
        Self { random, rate, seconds: 0.0, end: duration.as_secs_f64() }
    }
}

impl Iterator for Poisson {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // The distances of a Poisson process are exponential.
        self.seconds += -(1.0 - self.random.random::<f64>()).ln() / self.rate;
        (self.seconds < self.end).then(|| Duration::from_secs_f64(self.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(shape: &Shape, workers: u32) -> Vec<Vec<f64>> {
        let of = |worker| shape.arrivals(worker, workers, 7).map(|at| at.as_secs_f64()).collect();
        (0..workers).map(of).collect()
    }

    #[test]
    fn users_of_all_workers_arrive_at_equal_distances() {
        let shape = Shape::Even { users_per_worker: 2, duration: Duration::from_secs(4) };
        assert_eq!(seconds(&shape, 2), [[0.0, 2.0], [1.0, 3.0]]);
        assert_eq!(shape.mean_rate(2), Some(1.0));
        let shape = Shape::Constant { rate: 2.0, duration: Duration::from_secs(2) };
        assert_eq!(seconds(&shape, 1), [[0.0, 0.5, 1.0, 1.5]]);
        let shape = Shape::Constant { rate: 20_000.0, duration: Duration::from_secs(3) };
        assert_eq!(seconds(&shape, 3).iter().map(Vec::len).collect::<Vec<_>>(), [20_000; 3]);
    }

    #[test]
    fn a_factor_is_that_of_the_whole_users_that_it_makes() {
        let shape = Shape::Even { users_per_worker: 10, duration: Duration::from_secs(4) };
        assert_eq!([1.4768, 1.5422, 0.04].map(|factor| shape.made_factor(factor)), [1.5, 1.5, 0.0]);
        assert_eq!(shape.scaled(shape.made_factor(1.4768)), shape.scaled(1.5422));
        let shape = Shape::Constant { rate: 10.0, duration: Duration::from_secs(4) };
        assert_eq!(shape.made_factor(1.4768), 1.4768);
    }

    #[test]
    fn a_ramp_has_the_users_of_its_mean_rate_and_half_of_them_late() {
        let shape = Shape::Ramp { from: 0.0, to: 100.0, duration: Duration::from_secs(10) };
        let at = &seconds(&shape, 1)[0];
        assert_eq!(at.len(), 500);
        assert!(at.is_sorted());
        // A quarter of the users arrives in the first half of the time.
        assert_eq!(at.iter().filter(|at| **at < 5.0).count(), 125);
    }

    #[test]
    fn steps_follow_one_another_without_a_gap() {
        let step = |rate, seconds| RateStep { rate, duration: Duration::from_secs(seconds) };
        let shape = Shape::Steps { steps: vec![step(1.0, 2), step(0.0, 3), step(2.0, 1)] };
        assert_eq!(seconds(&shape, 1), [[0.0, 1.0, 5.0, 5.5]]);
        assert_eq!(shape.duration(), Duration::from_secs(6));
    }

    #[test]
    fn poisson_arrivals_depend_on_the_seed_alone_and_have_the_rate() {
        let shape = Shape::Poisson { rate: 1_000.0, duration: Duration::from_secs(10) };
        let (once, again) = (seconds(&shape, 4), seconds(&shape, 4));
        assert_eq!(once, again);
        assert_ne!(once[0], once[1]);
        let count: usize = once.iter().map(Vec::len).sum();
        // Five standard deviations around 10,000.
        assert!((9_500..10_500).contains(&count), "{count}");
    }
}
