//! Moves the home of heads. The steps are in `home.rs`.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use scylla::errors::ExecutionError;
use scylla::statement::Consistency;
use store::{StoreError, StoreResult};

use crate::cassandra_store::CassandraStore;
use crate::connect;
use crate::failure::{self, Failure};
use crate::home::{Home, KEY, NO_HOME};
use crate::options::CassandraOptions;
use crate::routing;
use crate::schema::META;

/// How often all data centers are asked until it is clear whether one is lost, and the pause in between.
/// Nodes learn within some 20 seconds that others are down. Until then their reads time out.
const ASKS_MAX: usize = 10;
const ASK_PAUSE: Duration = Duration::from_secs(2);

impl CassandraStore {
    /// Where heads are decided, as the store records it.
    ///
    /// Errors: as of [`CassandraStore::open`].
    pub fn home(options: &CassandraOptions) -> BoxFuture<'_, StoreResult<Home>> {
        async move { connect::store(options).await?.0.home(options.address.keyspace()).await }.boxed()
    }

    /// Records that no data center is the home. Within seconds, every open store learns this or
    /// stops switching heads.
    ///
    /// Errors: as of [`CassandraStore::open`]; also [`StoreError::Unavailable`] if a data center
    /// cannot acknowledge it. It may be repeated.
    pub fn leave_home(options: &CassandraOptions) -> BoxFuture<'_, StoreResult<()>> {
        async move {
            let (connected, keyspace) = (connect::store(options).await?.0, options.address.keyspace());
            connected.several_datacenters(options)?;
            let from = connected.home_at(keyspace, Consistency::EachQuorum).await?;
            match from == Home::Nowhere || connected.move_home(keyspace, &from, &Home::Nowhere).await? {
                true => Ok(()),
                false => Err(changed_meanwhile()),
            }
        }
        .boxed()
    }

    /// Records a new home. The old one must have been left.
    ///
    /// Errors: as of [`CassandraStore::leave_home`]; [`StoreError::Invalid`] if another data center
    /// is the home, or this one has no copies.
    pub fn settle_home<'a>(options: &'a CassandraOptions, datacenter: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        async move {
            let (connected, keyspace) = (connect::store(options).await?.0, options.address.keyspace());
            let datacenters = connected.several_datacenters(options)?;
            if !datacenters.iter().any(|name| name == datacenter) {
                return Err(StoreError::Invalid(format!(
                    "keyspace {keyspace} keeps no copy in the data center `{datacenter}`; it does in: {}",
                    datacenters.join(", ")
                )));
            }
            let to = Home::At(datacenter.to_owned());
            match connected.home_at(keyspace, Consistency::EachQuorum).await? {
                from if from == to => Ok(()),
                Home::Nowhere => match connected.move_home(keyspace, &Home::Nowhere, &to).await? {
                    true => Ok(()),
                    false => Err(changed_meanwhile()),
                },
                from => Err(StoreError::Invalid(format!(
                    "{from}; before it can be moved, it must be left: `penates home --leave`, then repair the keyspace"
                ))),
            }
        }
        .boxed()
    }

    /// Records the local data center as the home because the old one is lost and cannot acknowledge
    /// that.
    ///
    /// Errors: as of [`CassandraStore::open`]; also [`StoreError::Invalid`] if heads have no home,
    /// or if all data centers answer, and [`StoreError::Unavailable`] if some do not answer and no
    /// node says that they are down.
    pub fn take_home(options: &CassandraOptions) -> BoxFuture<'_, StoreResult<()>> {
        async move {
            let (connected, keyspace) = (connect::store(options).await?.0, options.address.keyspace());
            connected.several_datacenters(options)?;
            until_lost(|| connected.ask_home(keyspace, Consistency::EachQuorum)).await?;
            if connected.home_at(keyspace, Consistency::LocalQuorum).await? == Home::Unset {
                return Err(StoreError::Invalid(NO_HOME.to_owned()));
            }
            let to = Home::At(connected.datacenter.clone());
            let put = format!("INSERT INTO {keyspace}.{META} (key, value) VALUES (?, ?)");
            let mut put = connected.statement(&put, Consistency::LocalQuorum);
            // The node chooses the write time, so a second try could hide what was recorded since.
            put.set_is_idempotent(false);
            put.set_retry_policy(Some(routing::sent_once()));
            let answer = connected.session.query_unpaged(put, (KEY, to.value())).await;
            answer.map_err(|error| Failure::from(error).of_read())?;
            // This node's clock may lag behind the clock of the node that wrote the old value.
            match connected.home_at(keyspace, Consistency::LocalQuorum).await? == to {
                true => Ok(()),
                false => Err(changed_meanwhile()),
            }
        }
        .boxed()
    }
}

/// Asks all data centers until a node says that replicas of one are down. Refuses if none says so.
async fn until_lost<A>(ask: impl Fn() -> A) -> StoreResult<()>
where
    A: Future<Output = StoreResult<Result<Home, ExecutionError>>>,
{
    let mut asked = 1;
    loop {
        match is_lost(ask().await?) {
            Ok(()) => return Ok(()),
            Err(why) if why.is_passing() && asked < ASKS_MAX => {
                tracing::info!(asked, %why, "all data centers are asked again");
            }
            Err(why) => return Err(why),
        }
        asked += 1;
        tokio::time::sleep(ASK_PAUSE).await;
    }
}

/// Whether an answer of all data centers, or its absence, says that one of them is lost. If not, the
/// error is why.
fn is_lost(answer: Result<Home, ExecutionError>) -> StoreResult<()> {
    match answer {
        Ok(home) => Err(StoreError::Invalid(format!(
            "no data center is lost, all of them answer, and {home}; move it by `penates home --leave`"
        ))),
        Err(error) if failure::too_few_are_up(&error) => Ok(()),
        Err(error) => match Failure::from(error).of_read() {
            error if error.is_passing() => Err(StoreError::Unavailable(format!(
                "it is not clear that a data center is lost: {error}. Nodes that are overloaded answer so too. Try \
                 again later; if the old home is lost, stop all its nodes"
            ))),
            error => Err(error),
        },
    }
}

fn changed_meanwhile() -> StoreError {
    StoreError::Unavailable("where the heads' home is has been changed meanwhile; look with `penates home`".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use scylla::errors::{DbError, RequestAttemptError};

    use super::*;

    fn said(error: DbError) -> ExecutionError {
        RequestAttemptError::DbError(error, String::new()).into()
    }

    #[test]
    fn a_data_center_is_lost_if_its_replicas_are_down_and_not_if_they_are_overloaded_or_late() {
        let consistency = Consistency::EachQuorum;
        let down = said(DbError::Unavailable { consistency, required: 2, alive: 0 });
        assert!(is_lost(Err(down)).is_ok());
        let late = DbError::ReadTimeout { consistency, received: 1, required: 2, data_present: true };
        let failed = DbError::ReadFailure { consistency, received: 1, required: 2, numfailures: 1, data_present: true };
        let answers = [DbError::Overloaded, late, failed, DbError::IsBootstrapping].map(said);
        let none = [ExecutionError::RequestTimeout(Duration::ZERO), ExecutionError::EmptyPlan];
        for living in answers.into_iter().chain(none) {
            let why = is_lost(Err(living));
            assert!(matches!(&why, Err(StoreError::Unavailable(why)) if why.contains("not clear")), "{why:?}");
        }
        let all_answer = is_lost(Ok(Home::At("dc1".to_owned())));
        assert!(matches!(&all_answer, Err(StoreError::Invalid(why)) if why.contains("no data center is lost")));
        let refused = is_lost(Err(said(DbError::Unauthorized)));
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    }

    /// What the answers decide, the last of which is repeated, and how many were asked for. Each is
    /// an error; `None`: all answer.
    async fn decided(answers: &[fn() -> Option<DbError>]) -> (StoreResult<()>, usize) {
        let asked = Cell::new(0);
        let ask = || {
            let answer = answers[asked.get().min(answers.len() - 1)];
            asked.set(asked.get() + 1);
            ready(Ok(answer().map(said).map_or(Ok(Home::At("dc1".to_owned())), Err)))
        };
        (until_lost(ask).await, asked.get())
    }

    #[tokio::test(start_paused = true)]
    async fn data_centers_that_are_overloaded_or_late_are_asked_again_a_few_times() {
        let overloaded = || Some(DbError::Overloaded);
        let down = || Some(DbError::Unavailable { consistency: Consistency::EachQuorum, required: 2, alive: 0 });
        let answers = || None;
        assert!(matches!(decided(&[overloaded, overloaded, down]).await, (Ok(()), 3)));
        let (decided_by_last, asked) = decided(&[overloaded, answers]).await;
        assert!(matches!((&decided_by_last, asked), (Err(StoreError::Invalid(_)), 2)), "{decided_by_last:?}");
        let (never, asked) = decided(&[overloaded]).await;
        assert!(matches!(&never, Err(StoreError::Unavailable(why)) if why.contains("not clear")), "{never:?}");
        assert_eq!(asked, ASKS_MAX);
    }
}
