//! Deletes what nobody can read any more: expired rows, and leftovers of interrupted uploads.

use std::time::Duration;

use bytes::Bytes;
use store::lifecycle::{self, ToSweep};
use store::{ContentId, ContentState, Deadline, Expect, Lane, Outcome, Store, StoreError, StoreResult, Table};

use crate::database::blocking;
use crate::engine::EmbeddedStore;
use crate::header::header_in;
use crate::plan::{Change, Plan};
use crate::space::Space;
use crate::{expiry, read};

/// Expired rows that are removed in one commit.
const ROWS_PER_COMMIT: usize = 1_000;

/// How long counting for the forecast may take in one sweep. It also holds up a shutdown so long.
const COUNTING: Duration = Duration::from_secs(5);

/// Contents that one read checks.
const CONTENTS_PER_PAGE: usize = 1_000;

impl EmbeddedStore {
    /// Deletes expired rows (and counts them as the list of expiries does), condemned contents, and
    /// leftovers of interrupted uploads. Of the contents and their files it checks the next ones in
    /// turn.
    pub(crate) async fn reclaim(&self, deadline: Deadline) -> StoreResult<u64> {
        // One lane is swept even if another fails.
        let lanes = Lane::ALL.into_iter().filter(|lane| lane.is_in(self.level()));
        let mut swept = Vec::new();
        for lane in lanes {
            swept.push(self.sweep_rows(deadline, lane).await);
        }
        let contents = self.sweep_contents(deadline).await?;
        let files = self.sweep_files(deadline).await?;
        if Lane::Records.is_in(self.level()) {
            self.count_expiring(Deadline::within(COUNTING)).await?;
        }
        let rows: u64 = swept.into_iter().sum::<StoreResult<u64>>()?;
        Ok(rows + contents + files)
    }

    /// Removes the rows of a lane that have expired, the oldest first.
    async fn sweep_rows(&self, deadline: Deadline, lane: Lane) -> StoreResult<u64> {
        let (mut swept, mut lag) = (0, Duration::ZERO);
        let mut after: Option<Bytes> = None;
        loop {
            let now = self.now();
            let from = after.take();
            let entries = self
                .read(deadline, lane, move |view| {
                    let due = view.range(Space::Expiries, expiry::due(now, from.as_deref()))?.take(ROWS_PER_COMMIT);
                    due.map(|entry| entry.map(|(key, _)| key)).collect::<StoreResult<Vec<Bytes>>>()
                })
                .await?;
            let (Some(first), Some(last)) = (entries.first(), entries.last()) else { break };
            let first = expiry::time(first);
            after = Some(last.clone());
            let count = entries.len() as u64;
            match self.submit(deadline, Plan::of(lane, vec![Change::Reclaim { entries }])).await? {
                Outcome::Unknown { reason } => return Err(StoreError::Unavailable(reason)),
                Outcome::Applied | Outcome::Refused { .. } => swept += count,
            }
            lag = lag.max(first.map_or(Duration::ZERO, |first| self.now().since(first)));
        }
        if lane == Lane::Records {
            *self.reclaim_lag.lock() = Some(lag);
        }
        Ok(swept)
    }

    /// Counts the records that expire in the coming hours.
    async fn count_expiring(&self, deadline: Deadline) -> StoreResult<()> {
        let (database, now) = (self.database()?, self.now());
        let count = move || database.tables.of(Lane::Records)?.count_expiring(now, deadline);
        match blocking(deadline, count).await {
            // The next sweep continues.
            Err(StoreError::DeadlinePassed) => Ok(()),
            counted => counted,
        }
    }

    /// Checks some contents, the next ones in turn.
    async fn sweep_contents(&self, deadline: Deadline) -> StoreResult<u64> {
        let (mut swept, mut left) = (0, self.options().contents_per_sweep);
        while left > 0 {
            let from = self.sweep_position.lock().content.clone();
            let max = left.min(CONTENTS_PER_PAGE);
            left -= max;
            let (unsealed, next) = match self.unsealed_contents(deadline, from, max).await {
                Err(StoreError::DeadlinePassed) => return Ok(swept),
                page => page?,
            };
            for id in unsealed {
                match self.sweep_content(deadline, id).await {
                    Ok(is_swept) => swept += u64::from(is_swept),
                    Err(StoreError::DeadlinePassed) => return Ok(swept),
                    // It does not prevent others from being swept.
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::warn!(content = %id, %error, "a content cannot be swept");
                    }
                    Err(error) => return Err(error),
                }
                self.sweep_position.lock().content = Some(Bytes::copy_from_slice(&id.0));
            }
            let is_over = next.is_none();
            self.sweep_position.lock().content = next;
            if is_over {
                break;
            }
        }
        Ok(swept)
    }

    /// Contents of a page that are not sealed, and where the next page begins.
    async fn unsealed_contents(
        &self,
        deadline: Deadline,
        from: Option<Bytes>,
        max: usize,
    ) -> StoreResult<(Vec<ContentId>, Option<Bytes>)> {
        let now = self.now();
        let read = self.read(deadline, Table::Contents.lane(), move |view| {
            let page = read::walk(view, Table::Contents, from, max, now, deadline)?;
            let ids = page.partitions.iter().filter_map(|id| id[..].try_into().ok().map(ContentId));
            let is_sealed = |id| {
                let header = header_in(view, id, now);
                matches!(header, Ok(Some((_, header))) if header.state == ContentState::Sealed)
            };
            Ok((ids.filter(|id| !is_sealed(*id)).collect(), page.next))
        });
        read.await
    }

    /// Sweeps one content, and returns whether it was deleted.
    async fn sweep_content(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        match lifecycle::to_sweep(self.header(deadline, id).await?, self.now()) {
            ToSweep::Leave => Ok(false),
            ToSweep::Condemn(stamp, header) => {
                match self.change_header(deadline, id, Expect::Stamp(stamp), &header, Vec::new()).await? {
                    Some(_) => self.delete(deadline, id).await,
                    None => Ok(false),
                }
            }
            ToSweep::Delete => self.delete(deadline, id).await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Bound;
    use std::sync::Arc;

    use store::{Call, Class, Clock, ManualClock, NewRow, Removal, Step, UnixMillis};

    use super::*;
    use crate::options::EmbeddedOptions;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A store with a clock that shows the beginning of an hour.
    struct Subject {
        folder: tempfile::TempDir,
        clock: Arc<ManualClock>,
        store: Arc<EmbeddedStore>,
    }

    impl Subject {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(ManualClock::new(UnixMillis(1_000 * 3_600_000)));
            let store = Self::open(&folder, &clock);
            Self { folder, clock, store }
        }

        fn open(folder: &tempfile::TempDir, clock: &Arc<ManualClock>) -> Arc<EmbeddedStore> {
            EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap()
        }

        async fn run(&self, step: Step) {
            let call = Call::new(Class::Record, Deadline::within(Duration::from_secs(60))).synced_within(HOUR);
            assert!(self.store.run(call, vec![step]).await.unwrap().is_applied());
        }

        /// Puts a record that expires so much later; `None`: never.
        async fn put(&self, id: &'static str, life: Option<Duration>) {
            let expires_at = life.map(|life| self.clock.now().plus(life));
            let rows = vec![NewRow { sort: Bytes::new(), value: "v".into(), expires_at }];
            self.run(Step::Put { table: Table::Records, partition: id.into(), rows }).await;
        }

        async fn remove(&self, id: &'static str) {
            let rows = Removal::Rows(vec![Bytes::new()]);
            self.run(Step::Remove { table: Table::Records, partition: id.into(), rows }).await;
        }

        async fn sweep(&self) -> u64 {
            self.store.sweep(Call::new(Class::Record, Deadline::within(Duration::from_secs(60)))).await.unwrap()
        }

        fn entries(&self, space: Space) -> usize {
            let database = self.store.database().unwrap();
            let view = database.tables.of(Lane::Records).unwrap().view();
            view.range(space, (Bound::Unbounded, Bound::Unbounded)).unwrap().count()
        }

        async fn expiring(&self) -> Vec<u64> {
            self.store.health().await.expiring
        }
    }

    #[tokio::test]
    async fn a_record_has_one_entry_however_often_its_expiry_changes() {
        let subject = Subject::new();
        for life in 1..2_000_u64 {
            subject.put("session", Some(HOUR + Duration::from_millis(life * 7_919 % 100_000))).await;
        }
        assert_eq!(subject.entries(Space::Expiries), 1);
        subject.put("session", None).await;
        assert_eq!(subject.entries(Space::Expiries), 0);
        subject.put("session", Some(HOUR)).await;
        subject.put("session", Some(HOUR)).await;
        subject.put("other", Some(HOUR)).await;
        assert_eq!(subject.entries(Space::Expiries), 2);
        subject.remove("other").await;
        assert_eq!(subject.entries(Space::Expiries), 1);
        subject.clock.advance(HOUR);
        assert_eq!(subject.sweep().await, 1);
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
    }

    #[tokio::test]
    async fn lists_of_one_group_leave_the_entry_of_the_last() {
        let subject = Subject::new();
        let puts = (1..200).map(|life| subject.put("session", Some(HOUR + Duration::from_millis(life))));
        futures::future::join_all(puts).await;
        assert_eq!(subject.entries(Space::Expiries), 1);
        subject.clock.advance(HOUR * 2);
        subject.sweep().await;
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
    }

    #[tokio::test]
    async fn more_than_one_commit_of_expired_rows_are_reclaimed_and_their_lag_is_known() {
        let subject = Subject::new();
        const IDS: usize = 2 * ROWS_PER_COMMIT + 10;
        let ids: Vec<&'static str> = (0..IDS).map(|id| &*id.to_string().leak()).collect();
        futures::future::join_all(ids.iter().map(|id| subject.put(id, Some(HOUR)))).await;
        subject.put("stays", None).await;
        assert_eq!(subject.store.health().await.reclaim_lag, None);
        subject.clock.advance(HOUR + Duration::from_secs(7));
        assert_eq!(subject.sweep().await, IDS as u64);
        assert_eq!(subject.store.health().await.reclaim_lag, Some(Duration::from_secs(7)));
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
        assert_eq!(subject.sweep().await, 0);
        assert_eq!(subject.store.health().await.reclaim_lag, Some(Duration::ZERO));
    }

    #[tokio::test]
    async fn what_expires_in_each_coming_hour_is_counted() {
        let mut subject = Subject::new();
        let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
        subject.put("a", minutes(10)).await;
        subject.put("b", minutes(70)).await;
        subject.put("c", minutes(24 * 60)).await;
        subject.put("d", None).await;
        assert!(subject.expiring().await.is_empty(), "nothing was counted yet");
        subject.sweep().await;
        let counts = |first: &[u64]| [first, &vec![0; 24 - first.len()]].concat();
        assert_eq!(subject.expiring().await, counts(&[1, 1]));
        // What changes is counted at once.
        subject.put("a", minutes(80)).await;
        subject.put("d", minutes(130)).await;
        assert_eq!(subject.expiring().await, counts(&[0, 2, 1]));
        subject.remove("b").await;
        subject.put("d", None).await;
        assert_eq!(subject.expiring().await, counts(&[0, 1, 0]));
        // An hour comes within the horizon.
        subject.clock.advance(HOUR);
        subject.sweep().await;
        let mut expected = counts(&[1]);
        expected[23] = 1;
        assert_eq!(subject.expiring().await, expected);
        subject.store.close().await.unwrap();
        subject.store = Subject::open(&subject.folder, &subject.clock);
        subject.sweep().await;
        assert_eq!(subject.expiring().await, expected);
        subject.clock.advance(HOUR);
        subject.sweep().await;
        assert_eq!(subject.expiring().await[..2], [0, 0]);
    }
}
