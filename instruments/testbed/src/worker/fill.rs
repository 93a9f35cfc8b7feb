//! The fill: units that are made before the load, as fast as so many users at once can make them.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, yield_now};

use super::user::{Shared, User};

/// The part of a fill that one worker makes.
pub struct Filling {
    /// What its users share. The fill is its only scenario.
    pub shared: Rc<Shared>,
    /// Users at once.
    pub concurrency: u32,
    /// The number of the first user, and the distance between two.
    pub first: u64,
    pub step: u64,
    /// All users have numbers below this.
    pub units: u64,
    /// No user begins after this instant.
    pub end: Instant,
    /// No user begins when this is true.
    pub is_stopped: Rc<Cell<bool>>,
}

impl Filling {
    /// Makes all units. It ends early if one fails: the rest would be of no use.
    pub async fn run(self) -> io::Result<()> {
        let next = Rc::new(Cell::new(self.first));
        let this = Rc::new(self);
        let mut users = JoinSet::new();
        for _ in 0..this.concurrency {
            users.spawn_local(this.clone().some(next.clone()));
        }
        while let Some(ended) = users.join_next().await {
            ended.map_err(io::Error::other)?;
        }
        Ok(())
    }

    async fn some(self: Rc<Self>, next: Rc<Cell<u64>>) {
        loop {
            let (number, begun) = (next.get(), Instant::now());
            let so_far = self.shared.log.progress();
            if number >= self.units || begun >= self.end || self.is_stopped.get() || so_far.failed + so_far.refused > 0
            {
                return;
            }
            next.set(number.saturating_add(self.step));
            self.shared.log.count(|progress| progress.due += 1);
            User::new(self.shared.clone(), number, 0, None).run(0, begun).await;
            // A user that is done at once does not keep all others away.
            if begun.elapsed() < Duration::from_millis(1) {
                yield_now().await;
            }
        }
    }
}
