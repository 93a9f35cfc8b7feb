//! Sets on a running node what it takes without a restart.

use std::net::SocketAddr;

use thiserror::Error;

use crate::catalogue;
use crate::factor::{Applied, Factor, Setting};
use crate::node::{CqlError, Views};
use crate::plan::Plan;
use crate::value;

/// A setting that was applied, or why it was not.
#[derive(Clone, Debug, PartialEq)]
pub struct Applying {
    /// The factor.
    pub factor: String,
    /// What the node had before.
    pub before: Option<String>,
    /// What it has now.
    pub after: Option<String>,
    /// What it should have.
    pub asked: String,
    /// What became of it.
    pub state: State,
}

/// What became of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is in force.
    InForce,
    /// It was set and is not in force.
    Refused,
    /// The node has to start again with it.
    NeedsRestart,
}

/// Why nothing can be applied.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The node cannot be asked, or refuses.
    #[error(transparent)]
    Cql(#[from] CqlError),
    /// It cannot be set by JMX.
    #[error(transparent)]
    Cluster(#[from] cluster::ClusterError),
    /// A table is not `keyspace.table`.
    #[error("a table is KEYSPACE.TABLE, not {0:?}")]
    Table(String),
    /// An option of a table, without a table.
    #[error("{0} is an option of a table: name the table")]
    NoTable(String),
    /// A value that no command takes.
    #[error("{0} cannot be set to {1} at run time")]
    Value(String, String),
}

/// A running node.
pub struct Target {
    /// Where it answers CQL.
    pub cql: SocketAddr,
    /// Where it answers JMX, without a password.
    pub jmx: SocketAddr,
    /// The table, as `keyspace.table`.
    pub table: Option<String>,
}

/// A name that needs no quotes in CQL.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Target {
    /// Sets what can be set, and reads it back.
    ///
    /// # Errors
    /// The node cannot be asked, or a value makes no sense. What was set before stays.
    pub async fn apply(&self, plan: &Plan, setting: &Setting) -> Result<Vec<Applying>, ApplyError> {
        let views = Views::connect(self.cql).await?;
        let mut all = Vec::new();
        for (name, asked) in &setting.0 {
            let Some(factor) = plan.factor(name) else { continue };
            all.push(self.apply_one(&views, factor, asked).await?);
        }
        Ok(all)
    }

    async fn apply_one(&self, views: &Views, factor: &Factor, asked: &str) -> Result<Applying, ApplyError> {
        let before = self.value(views, factor).await?;
        let mut after = before.clone();
        let state = match factor.applied() {
            Applied::Restart | Applied::Heap | Applied::Jvm => State::NeedsRestart,
            Applied::Live | Applied::Table => {
                self.set(views, factor, asked).await?;
                after = self.value(views, factor).await?;
                let is_there = |now: &String| value::is_in_force(factor.applied(), asked, now);
                if after.as_ref().is_some_and(is_there) { State::InForce } else { State::Refused }
            }
        };
        Ok(Applying { factor: factor.name.clone(), before, after, asked: asked.to_owned(), state })
    }

    async fn value(&self, views: &Views, factor: &Factor) -> Result<Option<String>, ApplyError> {
        Ok(match factor.applied() {
            Applied::Table => {
                let (keyspace, table) = self.table(&factor.name)?;
                views.option_of(keyspace, table, &factor.name).await?
            }
            Applied::Restart | Applied::Live => views.settings().await?.remove(&factor.name),
            Applied::Heap | Applied::Jvm => None,
        })
    }

    async fn set(&self, views: &Views, factor: &Factor, asked: &str) -> Result<(), ApplyError> {
        let name = &factor.name;
        if factor.applied() == Applied::Table {
            let (keyspace, table) = self.table(name)?;
            return Ok(views.run(&format!("ALTER TABLE {keyspace}.{table} WITH {name} = {asked}")).await?);
        }
        let words = catalogue::find(name).and_then(|known| known.nodetool);
        let (Some(words), Some(given)) = (words, catalogue::for_nodetool(name, asked)) else {
            return Err(ApplyError::Value(name.clone(), asked.to_owned()));
        };
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).chain([given]).collect();
        let jmx = self.jmx;
        let set = tokio::task::spawn_blocking(move || {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            cluster::nodetool(jmx, &words)
        });
        set.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        Ok(())
    }

    fn table(&self, option: &str) -> Result<(&str, &str), ApplyError> {
        let table = self.table.as_deref().ok_or_else(|| ApplyError::NoTable(option.to_owned()))?;
        match table.split_once('.') {
            Some((keyspace, name)) if is_name(keyspace) && is_name(name) => Ok((keyspace, name)),
            _ => Err(ApplyError::Table(table.to_owned())),
        }
    }
}
