//! What is counted of commands on records.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use metrics::{Counter, Histogram, counter, histogram};

use crate::METRICS;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It was refused for another reason than those below.
    Refused,
    /// Its client had done all that it may do for now.
    Limited,
    /// There was no answer by its deadline.
    Deadline,
    /// The server had too much to do.
    Overloaded,
    /// Whether its change was made is not known.
    Unknown,
    /// A record that it needs is damaged.
    Damaged,
}

impl Outcome {
    /// In the order of their numbers.
    const ALL: [Self; 7] =
        [Self::Answered, Self::Refused, Self::Limited, Self::Deadline, Self::Overloaded, Self::Unknown, Self::Damaged];

    /// What metrics call it.
    fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Limited => "limited",
            Self::Deadline => "deadline",
            Self::Overloaded => "overloaded",
            Self::Unknown => "unknown",
            Self::Damaged => "damaged",
        }
    }
}

/// The metrics of a door. Each is looked up once, because that takes longer than to count.
#[derive(Default)]
pub(crate) struct Meters {
    reads: OfKind,
    writes: OfKind,
    /// Commands that met damage.
    damage: AtomicU64,
}

/// Those of commands of one kind.
#[derive(Default)]
struct OfKind {
    commands: [OnceLock<Counter>; Outcome::ALL.len()],
    duration: OnceLock<Histogram>,
}

impl Meters {
    /// Counts commands of one kind that began at one time and have ended now.
    pub(crate) fn count(&self, writes: bool, began: Instant, outcomes: impl IntoIterator<Item = Outcome>) {
        let (kind, of_kind) = if writes { ("write", &self.writes) } else { ("read", &self.reads) };
        let mut counts = [0_usize; Outcome::ALL.len()];
        outcomes.into_iter().for_each(|outcome| counts[outcome as usize] += 1);
        self.damage.fetch_add(counts[Outcome::Damaged as usize] as u64, Ordering::Relaxed);
        for (outcome, count) in Outcome::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
            let commands = || counter!(METRICS.commands, "kind" => kind, "outcome" => outcome.name());
            of_kind.commands[outcome as usize].get_or_init(commands).increment(count as u64);
        }
        let duration = of_kind.duration.get_or_init(|| histogram!(METRICS.duration, "kind" => kind));
        duration.record_many(began.elapsed().as_secs_f64(), counts.iter().sum());
    }

    /// How many commands met damage.
    pub(crate) fn damage_found(&self) -> u64 {
        self.damage.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use metrics::{Gauge, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;

    /// Counts how often metrics are looked up.
    #[derive(Default)]
    struct LookedUp(AtomicUsize);

    impl Recorder for LookedUp {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            self.0.fetch_add(1, Ordering::Relaxed);
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            self.0.fetch_add(1, Ordering::Relaxed);
            Histogram::noop()
        }
    }

    #[test]
    fn a_metric_is_looked_up_once_however_many_commands_are_counted() {
        let (looked_up, meters) = (LookedUp::default(), Meters::default());
        metrics::with_local_recorder(&looked_up, || {
            for _ in 0..3 {
                meters.count(false, Instant::now(), [Outcome::Answered; 5]);
                meters.count(true, Instant::now(), [Outcome::Answered, Outcome::Unknown]);
            }
        });
        // Reads that were answered, writes that were, those of which it is not known, and the
        // durations of both.
        assert_eq!(looked_up.0.into_inner(), 5);
    }

    #[test]
    fn outcomes_are_in_the_order_of_their_numbers() {
        for (number, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, number, "{outcome:?}");
        }
    }
}
