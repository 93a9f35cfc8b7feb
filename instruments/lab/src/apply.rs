//! Sets on a running node what it takes without a restart.

use std::net::SocketAddr;

use thiserror::Error;

use crate::catalogue;
use crate::factor::{Applied as How, Factor, Setting};
use crate::node::{CqlError, Views};
use crate::plan::Plan;
use crate::sync;
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
    /// It is a matter of the cluster, its containers or its clients, and not of one node.
    OfCluster,
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
    /// What leads back cannot be kept, so nothing was set.
    #[error("what leads back cannot be kept: {0}")]
    Undo(std::io::Error),
    /// A table is not `keyspace.table`.
    #[error("a table is KEYSPACE.TABLE, not {0:?}")]
    Table(String),
    /// There is no such table.
    #[error("there is no table {0}; names are as they are stored, with their capitals")]
    Absent(String),
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

/// What was applied, and why the rest was not.
#[derive(Debug)]
pub struct Applied {
    /// What was applied, in order.
    pub done: Vec<Applying>,
    /// Why the others were not.
    pub error: Option<ApplyError>,
}

/// What is to be done for a factor, once it is known that it makes sense.
enum Step {
    /// The words of a command of `nodetool`.
    Nodetool(Vec<String>),
    /// A statement for the table.
    Alter(String),
    /// Nothing: the node has to start again.
    None,
}

/// A name of CQL, as it is stored. In quotes, so capitals stay.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Target {
    /// Sets what can be set, and reads it back. All values are checked before the first is set, and
    /// `keep` gets a script for the shell that leads back to what the node has now.
    ///
    /// # Errors
    /// The node cannot be asked, or a value makes no sense: nothing was set. If a later step fails,
    /// what was set before is returned with the error.
    pub async fn apply(
        &self,
        plan: &Plan,
        setting: &Setting,
        keep: impl FnOnce(&str) -> std::io::Result<()> + Send,
    ) -> Result<Applied, ApplyError> {
        let factors = setting.0.iter().filter_map(|(name, asked)| Some((plan.factor(name)?, asked.as_str())));
        let step = |(factor, asked)| Ok((factor, asked, self.step(factor, asked)?));
        let steps = factors.map(step).collect::<Result<Vec<_>, ApplyError>>()?;
        let views = Views::connect(&[self.cql]).await?;
        let mut befores = Vec::new();
        for (factor, ..) in &steps {
            befores.push(self.value(&views, factor).await?);
        }
        let both = steps.iter().zip(&befores);
        let back = both.filter_map(|((factor, ..), before)| self.back(factor, before.as_deref()?));
        keep(&back.fold("#!/bin/sh\n".to_owned(), |script, line| script + &line + "\n")).map_err(ApplyError::Undo)?;
        let mut applied = Applied { done: Vec::new(), error: None };
        for ((factor, asked, step), before) in steps.into_iter().zip(befores) {
            match self.apply_one(&views, factor, asked, step, before).await {
                Ok(one) => applied.done.push(one),
                Err(error) => {
                    applied.error = Some(error);
                    break;
                }
            }
        }
        Ok(applied)
    }

    /// A line for the shell that leads back to a value; a comment where the node has to start again.
    fn back(&self, factor: &Factor, before: &str) -> Option<String> {
        Some(match self.step(factor, before) {
            Ok(Step::Nodetool(words)) => {
                format!("nodetool -h {} -p {} {}", self.jmx.ip(), self.jmx.port(), words.join(" "))
            }
            Ok(Step::Alter(statement)) => {
                // Of a name and of options only quotes mean something to a shell.
                let quoted = statement.replace('\'', "'\\''");
                format!("cqlsh {} {} -e '{quoted}'", self.cql.ip(), self.cql.port())
            }
            Ok(Step::None) => format!("# {} was {before}", factor.name),
            Err(error) => format!("# {} was {before}: {error}", factor.name),
        })
        .filter(|line| !line.contains('\n'))
    }

    fn step(&self, factor: &Factor, asked: &str) -> Result<Step, ApplyError> {
        let name = &factor.name;
        let wrong = || ApplyError::Value(name.clone(), asked.to_owned());
        let known = catalogue::find(name);
        match factor.applied() {
            How::Restart | How::Heap | How::Jvm | How::Cluster | How::Keyspace | How::Setting => Ok(Step::None),
            How::Table => {
                let (keyspace, table) = self.table(name)?;
                let is_option = known.is_some_and(|known| known.applied == How::Table);
                let option = value::option(name, asked).filter(|_| is_option).ok_or_else(wrong)?;
                Ok(Step::Alter(format!("ALTER TABLE \"{keyspace}\".\"{table}\" WITH {name} = {option}")))
            }
            How::Live => {
                let words = known.and_then(|known| known.nodetool).ok_or_else(wrong)?;
                let given = catalogue::for_nodetool(name, asked).ok_or_else(wrong)?;
                Ok(Step::Nodetool(words.iter().map(|word| (*word).to_owned()).chain([given]).collect()))
            }
        }
    }

    async fn apply_one(
        &self,
        views: &Views,
        factor: &Factor,
        asked: &str,
        step: Step,
        before: Option<String>,
    ) -> Result<Applying, ApplyError> {
        let mut after = before.clone();
        let mut state = match factor.applied() {
            How::Cluster | How::Keyspace => State::OfCluster,
            _ => State::NeedsRestart,
        };
        let is_there = |now: &String| value::is_in_force(factor.applied(), asked, now);
        if before.as_ref().is_some_and(is_there) {
            // A value that needs a restart may be there since the last one.
            state = State::InForce;
        } else if !matches!(step, Step::None) {
            self.take(views, step).await?;
            after = self.value(views, factor).await?;
            state = if after.as_ref().is_some_and(is_there) { State::InForce } else { State::Refused };
        }
        Ok(Applying { factor: factor.name.clone(), before, after, asked: asked.to_owned(), state })
    }

    async fn value(&self, views: &Views, factor: &Factor) -> Result<Option<String>, ApplyError> {
        Ok(match factor.applied() {
            How::Table => {
                let (keyspace, table) = self.table(&factor.name)?;
                let options = views.option_of(keyspace, table, &factor.name).await?;
                Some(options.ok_or_else(|| ApplyError::Absent(format!("{keyspace}.{table}")))?)
            }
            _ if factor.name == sync::NAME => sync::of_settings(&views.settings().await?),
            How::Restart | How::Live => views.settings().await?.remove(&factor.name),
            How::Heap | How::Jvm | How::Cluster | How::Keyspace | How::Setting => None,
        })
    }

    async fn take(&self, views: &Views, step: Step) -> Result<(), ApplyError> {
        let words = match step {
            Step::None => return Ok(()),
            Step::Alter(statement) => return Ok(views.run(&statement).await?),
            Step::Nodetool(words) => words,
        };
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
