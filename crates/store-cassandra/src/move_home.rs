//! Moves the home of heads. The steps are in `home.rs`.

use futures::FutureExt;
use futures::future::BoxFuture;
use scylla::statement::Consistency;
use store::{StoreError, StoreResult};

use crate::cassandra_store::CassandraStore;
use crate::connect;
use crate::failure::Failure;
use crate::home::{Home, KEY, NO_HOME};
use crate::options::CassandraOptions;
use crate::routing;
use crate::schema::META;

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
    /// or if all data centers answer.
    pub fn take_home(options: &CassandraOptions) -> BoxFuture<'_, StoreResult<()>> {
        async move {
            let (connected, keyspace) = (connect::store(options).await?.0, options.address.keyspace());
            connected.several_datacenters(options)?;
            if let Ok(home) = connected.home_at(keyspace, Consistency::EachQuorum).await {
                return Err(StoreError::Invalid(format!(
                    "no data center is lost, all of them answer, and {home}; move it by `penates home --leave`"
                )));
            }
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

fn changed_meanwhile() -> StoreError {
    StoreError::Unavailable("where the heads' home is has been changed meanwhile; look with `penates home`".to_owned())
}
