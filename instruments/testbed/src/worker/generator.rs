//! Sends users on their way at the instants at which they are due.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};

use super::alarm::Alarm;
use super::stall::LoadMeter;
use super::user::{Shared, User};
use crate::arrivals::Shape;
use crate::event::{Event, Outcome};
use crate::plan::Plan;
use crate::replay::Entry;

/// So many users that are overdue are sent on their way before others go on.
const BURST: u32 = 32;

/// A user that is active. It is one no more when the value is dropped, whatever happens to it.
struct Active {
    shared: Rc<Shared>,
    all_done: Rc<Notify>,
}

impl Active {
    fn new(shared: Rc<Shared>, all_done: Rc<Notify>) -> Self {
        shared.log.count(|progress| progress.users += 1);
        Self { shared, all_done }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.shared.log.count(|progress| progress.users -= 1);
        self.all_done.notify_one();
    }
}

/// The part of a load that one worker makes.
pub struct Generator {
    /// The plan.
    pub plan: Plan,
    /// The number of this worker.
    pub worker: u32,
    /// What its users share.
    pub shared: Rc<Shared>,
    /// The users.
    pub arrivals: Arrivals,
    /// The share of a processor that this thread uses until the last user has arrived, once it has.
    pub load_share: Rc<Cell<f64>>,
}

/// The instants at which users arrive, since the beginning of the load, with the requests of an access
/// log that they send.
pub type Arrivals = Box<dyn Iterator<Item = io::Result<(Duration, Option<Entry>)>>>;

impl Generator {
    /// Sends all users on their way. Returns when the last one is done.
    pub async fn run(self) -> io::Result<()> {
        let Self { plan, worker, shared, arrivals, load_share } = self;
        let is_closed = matches!(plan.load, Shape::Closed { .. });
        let begin = shared.start - plan.warm_up;
        let end = begin + plan.load.duration();
        let (alarm, all_done, meter) = (Alarm::new()?, Rc::new(Notify::new()), LoadMeter::new(begin));
        let mut overdue = 0;
        for (index, arrival) in (0_u64..).zip(arrivals) {
            let (after, entry) = arrival?;
            let due = begin + after;
            if Instant::now() < due {
                overdue = 0;
                alarm.wait_until(due).await?;
            } else if overdue == BURST {
                overdue = 0;
                yield_now().await;
            } else {
                overdue += 1;
            }
            let number = index * u64::from(plan.workers) + u64::from(worker);
            let scenario = scenario_of(&plan, number);
            shared.log.count(|progress| progress.due += 1);
            if shared.log.progress().users >= plan.connections.users_max as u64 {
                drop_user(&shared, number, scenario, due);
                continue;
            }
            let active = Active::new(shared.clone(), all_done.clone());
            let shared = shared.clone();
            spawn_local(async move {
                let _active = active;
                let mut user = User::new(shared, number, scenario, entry);
                if is_closed {
                    user.run_until(due, end).await;
                } else {
                    user.run(0, due).await;
                }
            });
        }
        if is_closed {
            // Its users arrive again and again until then.
            alarm.wait_until(end).await?;
        }
        load_share.set(meter.share());
        while shared.log.progress().users > 0 {
            all_done.notified().await;
        }
        Ok(())
    }
}

/// The scenario of a user, by the shares of the plan.
fn scenario_of(plan: &Plan, number: u64) -> usize {
    let shares = &plan.scenarios;
    if shares.len() == 1 {
        return 0;
    }
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed ^ u64::MAX);
    random.set_stream(number);
    let mut at = random.random::<f64>() * shares.iter().map(|of| of.share).sum::<f64>();
    let found = shares.iter().position(|of| {
        at -= of.share;
        at < 0.0
    });
    found.unwrap_or(shares.len() - 1)
}

fn drop_user(shared: &Shared, number: u64, scenario: usize, due: Instant) {
    let now_us = shared.micros(Instant::now());
    shared.log.add(Event {
        user: number,
        scenario,
        step: 0,
        due_us: shared.micros(due),
        begun_us: now_us,
        sent_us: None,
        first_byte_us: None,
        done_us: now_us,
        outcome: Outcome::Dropped,
        status: None,
        sent_bytes: 0,
        received_bytes: 0,
    });
}

impl User {
    /// Begins again and again until an instant.
    async fn run_until(&mut self, due: Instant, end: Instant) {
        let (mut due, mut round) = (due, 0);
        while due < end {
            let begun = Instant::now();
            self.run(round, due).await;
            // A user that fails at once does not begin again at once: it would keep all others away.
            if begun.elapsed() < Duration::from_millis(1) {
                yield_now().await;
            }
            (due, round) = (Instant::now(), round + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn users_are_drawn_by_the_shares_of_the_plan() {
        let counted = |scenarios: &str| {
            let load = "load = { shape = \"constant\", rate = 1, duration = \"1s\" }";
            let plan = Plan::parse(&format!("name = \"x\"\nscenarios = [{scenarios}]\n{load}\n")).unwrap();
            let mut counts = vec![0; plan.scenarios.len()];
            (0..10_000).for_each(|number| counts[scenario_of(&plan, number)] += 1);
            counts
        };
        let two = |one: u32, other: u32| {
            let of = |name: &str, share: u32| format!("{{ scenario = \"{name}\", share = {share} }}");
            counted(&format!("{}, {}", of("read", one), of("update", other)))[0]
        };
        // 30 is the standard deviation of the first, and 50 that of the second.
        assert!((8_900..=9_100).contains(&two(90, 10)), "{}", two(90, 10));
        assert!((4_850..=5_150).contains(&two(50, 50)), "{}", two(50, 50));
        assert_eq!(counted("{ scenario = \"read\", share = 3 }"), [10_000]);
    }
}
