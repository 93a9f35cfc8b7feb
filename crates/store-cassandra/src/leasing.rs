//! How an open store holds its lease. The protocol is in `lease.rs`.

use std::time::Duration;

use store::{Class, Deadline, StoreError, StoreResult, Strength, UnixMillis};
use tokio::time::Instant;

use crate::cassandra_store::closed;
use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::lease::{INTENT_KEY, lease_value};
use crate::requests::Parameter;
use crate::schema::{self, FORMAT_KEY};

/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(300);

/// The time limit of each request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Cassandra deletes the row of a lease this much later than the lease ends.
const TTL_MARGIN: Duration = Duration::from_secs(3600);

impl Engine {
    /// Makes sure that the lease holds. A call that waits for its turn, or for nodes, ends with
    /// [`StoreError::DeadlinePassed`] at its deadline.
    pub(crate) async fn hold_lease(&self, deadline: Deadline) -> StoreResult<()> {
        self.lease.hold(deadline, || self.now(), self.renew()).await
    }

    /// Compares the clocks, and renews the lease.
    pub(crate) async fn renew(&self) -> StoreResult<()> {
        // At once: nodes that are slow to tell their time hold up no lease.
        let ((), renewed) = tokio::join!(self.compare_clocks(), self.renew_lease());
        renewed
    }

    /// Writes the lease, and then checks that this program knows the store's level. Fails once the
    /// store is closed.
    pub(crate) async fn renew_lease(&self) -> StoreResult<()> {
        // Taken before the request, so that the lease ends here no later than others see.
        let (began, until) = (Instant::now(), self.now().plus(LEASE));
        let at = self.lease.renewed_at(&self.write_times).ok_or_else(closed)?;
        self.put_lease(at, &lease_value(self.lease.newest, until, &self.lease.name), LEASE + TTL_MARGIN).await?;
        let intent = self.meta(INTENT_KEY).await?.and_then(|value| schema::level_of(&value));
        let format = self.meta(FORMAT_KEY).await?.unwrap_or_default();
        let level = schema::level_of(&format).filter(|level| *level <= self.lease.newest);
        // While the earlier lease holds, it keeps the level from being raised further.
        let is_known = intent.is_none_or(|intent| intent <= self.lease.newest) || self.lease.holds(self.now());
        let Some(level) = level.filter(|_| is_known) else {
            self.leave().await;
            *self.lease.until.lock() = None;
            return Err(StoreError::Format {
                location: self.address.to_string(),
                found: intent.map_or(format, schema::format_of),
                expected: schema::formats(self.lease.newest),
            });
        };
        *self.level.lock() = level;
        *self.lease.until.lock() = Some((began + LEASE, until));
        Ok(())
    }

    /// Withdraws the lease, so that it hinders no upgrade. If that fails, the lease ends by itself.
    pub(crate) async fn leave(&self) {
        let ended = lease_value(self.lease.newest, UnixMillis(0), &self.lease.name);
        if let Err(error) = self.put_lease(self.write_times.next(), &ended, TTL_MARGIN).await {
            tracing::debug!(%error, "the lease of this server could not be withdrawn");
        }
    }

    async fn put_lease(&self, at: i64, value: &str, ttl: Duration) -> StoreResult<()> {
        let ttl = i32::try_from(ttl.as_secs()).unwrap_or(i32::MAX);
        let row = vec![Parameter::Text(self.lease.key.clone()), Parameter::Text(value.to_owned()), Parameter::Int(ttl)];
        let bound = vec![(&self.statements.meta.put_for, row)];
        let level = self.levels.write(Class::Description).consistency();
        self.requests.write(Deadline::within(PATIENCE), level, Some(at), bound).await.map_err(Failure::of_read)
    }

    async fn meta(&self, key: &str) -> StoreResult<Option<String>> {
        let level = self.levels.read(Class::Description, Strength::Usual).consistency();
        let rows = self.requests.rows(Deadline::within(PATIENCE), level, &self.statements.meta.get, (key,)).await?;
        Ok(readable(rows.maybe_first_row::<(String,)>())?.map(|(value,)| value))
    }
}
