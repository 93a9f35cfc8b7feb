//! What an open store does by itself until it is closed: it compares the clocks (`clocks.rs`) and
//! renews its lease, looks which data centers have copies, reads where the heads' home is
//! (`home.rs`), and measures how far this data center is behind the others (`lag.rs`).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use scylla::statement::Consistency;
use store::{Deadline, UnixMillis};
use tokio::time::{Instant, MissedTickBehavior};

use crate::connect;
use crate::engine::Engine;
use crate::home::{self, Home};
use crate::lag;
use crate::requests::Parameter;

/// How often the lease is renewed: a third of its time.
const RENEWAL: Duration = Duration::from_secs(100);

/// How often the store looks where copies are, and reads the row with the home.
const LOOK: Duration = Duration::from_secs(2);

/// How often a time is written, and the others are read.
const BEAT: Duration = Duration::from_secs(1);

/// The time limit of each request, including retries. The next ones follow soon.
const PATIENCE: Duration = Duration::from_secs(3);

/// A quorum of nearby replicas, so that a replica that was down does not report old times.
const TIMES_LEVEL: Consistency = Consistency::LocalQuorum;

/// Begins all of it.
pub(crate) fn begin(engine: &Arc<Engine>) {
    repeat(engine, RENEWAL, |engine| engine.keep_lease().boxed());
    repeat(engine, LOOK, |engine| engine.look_around().boxed());
    if !engine.lag.others.is_empty() {
        repeat(engine, BEAT, |engine| engine.measure_lag().boxed());
    }
}

/// Does something every `period` until the store is closed and the last call has ended.
fn repeat(engine: &Arc<Engine>, period: Duration, act: fn(&Engine) -> BoxFuture<'_, ()>) {
    let engine = Arc::downgrade(engine);
    tokio::spawn(async move {
        let mut times = tokio::time::interval_at(Instant::now() + period, period);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            let Some(engine) = engine.upgrade() else { return };
            act(&engine).await;
        }
    });
}

impl Engine {
    /// Renews the lease, and learns whether the level has risen, and whether the clock is right.
    async fn keep_lease(&self) {
        // A store that is closed while calls are under way renews its lease no more.
        if let Err(error) = self.renew().await
            && !self.lease.is_ended()
        {
            tracing::warn!(%error, "the lease of this server could not be renewed");
        }
    }

    fn look_for_copies(&self) {
        let state = self.requests.session().get_cluster_state();
        if let Some(others) = connect::others_now(&state, self.address.keyspace(), &self.lag.datacenter) {
            self.home.learn_copies(&self.lag.others, &others);
        }
    }

    async fn look_around(&self) {
        self.look_for_copies();
        if self.home.may_move() {
            self.look_for_home().await;
        }
    }

    async fn look_for_home(&self) {
        for level in home::LEVELS {
            let (asked_at, statement) = (Instant::now(), &self.statements.meta.get);
            let rows = self.requests.rows(Deadline::within(PATIENCE), level, statement, (home::KEY,)).await;
            match rows.map(|rows| rows.maybe_first_row::<(String,)>()) {
                Ok(Ok(row)) => return self.home.learn(Home::of_value(row.map(|(value,)| value)), asked_at),
                Ok(Err(error)) => tracing::warn!(%error, "where the heads' home is cannot be read"),
                Err(error) => tracing::debug!(%error, ?level, "where the heads' home is cannot be read"),
            }
        }
    }

    async fn measure_lag(&self) {
        let read = futures::future::join_all(self.lag.others.iter().map(|other| self.read_time(other)));
        futures::join!(self.write_time(), read);
    }

    async fn write_time(&self) {
        let now = self.now();
        let at = i64::try_from(now.0.saturating_mul(1_000)).ok();
        let row = [lag::key(&self.lag.datacenter), now.0.to_string()].map(Parameter::Text).to_vec();
        let bound = vec![(&self.statements.meta.put, row)];
        if let Err(failure) = self.requests.write(Deadline::within(PATIENCE), TIMES_LEVEL, at, bound).await {
            tracing::debug!("the time of this data center could not be written: {}", failure.reason());
        }
    }

    async fn read_time(&self, datacenter: &str) {
        let (deadline, statement) = (Deadline::within(PATIENCE), &self.statements.meta.get);
        // If the row cannot be read, the last time that was seen grows old, and that shows as lag.
        // Of a data center whose row was never seen, no lag is known.
        let key = (lag::key(datacenter),);
        let Ok(rows) = self.requests.rows(deadline, TIMES_LEVEL, statement, key).await else { return };
        let Ok(Some((time,))) = rows.maybe_first_row::<(String,)>() else { return };
        if let Ok(time) = time.parse() {
            self.lag.saw(datacenter, UnixMillis(time));
        }
    }
}
