//! Factors: the settings that a study varies, and how a value gets into force.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::catalogue;
use crate::deployment::{self, Levels};
use crate::plan::PlanError;
use crate::rig::THROTTLE;
use crate::sync;
use crate::value;

/// How a value gets into force, and where it is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Applied {
    /// A key of `cassandra.yaml`, which the node reads when it starts. It is read back from
    /// `system_views.settings`.
    Restart,
    /// The same, but a running node takes it too. The [`catalogue`](crate::catalogue) knows how.
    Live,
    /// An option of the table (`compaction`, `compression`, `caching`, `memtable`). It is read back from
    /// `system_schema.tables`.
    Table,
    /// The node's heap in MiB. It is read back from the node's command line.
    Heap,
    /// How many nodes there are, or in what container each runs. The first is that of the nodes that
    /// were started, and the second is read back from the control group of the process.
    Cluster,
    /// How many copies of a record there are, or how many of them have to answer. The first is read
    /// back from `system_schema.keyspaces`, and the second from the statements of the load.
    Keyspace,
    /// A setting of a candidate of the testbed, which starts with it. It is read back from the process
    /// that runs.
    Setting,
    /// Options of the Java machine, separated by spaces; or the size of a part of its heap
    /// ([`YOUNG`](crate::catalogue::YOUNG)); or which Java it is ([`JDK`](crate::catalogue::JDK)). The
    /// first two are read back from the node's command line, and the last from the program that runs.
    Jvm,
}

impl Applied {
    /// Whether the node has to start again for another value.
    pub fn needs_restart(self) -> bool {
        matches!(self, Self::Restart | Self::Heap | Self::Jvm | Self::Cluster | Self::Setting)
    }
}

/// The most values of a factor: more would be a mistake.
const VALUES_MAX: usize = 1_000;

/// A setting that a study varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// The name of the setting, as Cassandra has it.
    pub name: String,
    /// The value to which others are compared. `None`: what the node has by itself.
    #[serde(default, deserialize_with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The other values, in order.
    #[serde(deserialize_with = "texts")]
    pub values: Vec<String>,
    /// In how many blocks its values are measured, from 1 to the repeats of the plan; `None`: in all. A
    /// value that is measured once shows what it can break, and says nothing sure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// How a value gets into force. Settings of the catalogue need not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
}

impl Factor {
    /// How its values get into force.
    pub fn applied(&self) -> Applied {
        self.applied.unwrap_or_else(|| catalogue::find(&self.name).map_or(Applied::Restart, |known| known.applied))
    }

    /// Whether it says how much of the heap is for young objects. A candidate may have a setting of that
    /// name.
    pub(crate) fn is_young(&self) -> bool {
        self.name == catalogue::YOUNG && self.applied() == Applied::Jvm
    }

    /// All levels in order: the default (`None`), then the other values.
    pub fn levels(&self) -> Vec<Option<&str>> {
        std::iter::once(None).chain(self.values.iter().map(|value| Some(value.as_str()))).collect()
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError::Invalid { at: format!("factors: {}", self.name), what });
        if !(1..=VALUES_MAX).contains(&self.values.len()) {
            return wrong(format!("1 to {VALUES_MAX} values besides the default"));
        }
        if self.applied.is_none() && catalogue::find(&self.name).is_none() {
            let known: Vec<_> = catalogue::KNOWN.iter().map(|known| known.name).collect();
            return wrong(format!("say how it is applied; known settings are {}", known.join(", ")));
        }
        if self.applied() == Applied::Live && catalogue::find(&self.name).and_then(|known| known.nodetool).is_none() {
            return wrong("a running node does not take it: applied = \"restart\"".to_owned());
        }
        let mut all = self.values.iter().chain(&self.default);
        let is_size = self.applied() == Applied::Heap || self.is_young();
        if is_size && all.any(|value| !value.parse::<u32>().is_ok_and(|mib| mib > 0)) {
            return wrong("sizes of the heap are whole numbers of MiB".to_owned());
        }
        let mut all = self.values.iter().chain(&self.default);
        if self.applied() == Applied::Live
            && let Some(value) = all.find(|value| catalogue::for_nodetool(&self.name, value).is_none())
        {
            let expected = match self.name.as_str() {
                THROTTLE => "a whole number of MiB/s".to_owned(),
                name => format!("a whole number, at least {}", catalogue::least(name)),
            };
            return wrong(format!("a node does not take {value}: {expected}"));
        }
        self.check_deployment()?;
        self.check_jdk()?;
        if self.name == sync::NAME && self.values.iter().chain(&self.default).any(|value| sync::mode(value).is_none()) {
            return wrong("periodic:TIME, batch or group:TIME, such as group:5ms".to_owned());
        }
        if self.applied() == Applied::Table {
            let is_known = catalogue::find(&self.name).is_some_and(|known| known.applied == Applied::Table);
            let mut all = self.values.iter().chain(&self.default);
            if !is_known || all.any(|value| value::option(&self.name, value).is_none()) {
                return wrong(catalogue::TABLE_RULE.to_owned());
            }
        }
        for (position, value) in self.values.iter().enumerate() {
            if self.default.as_ref() == Some(value) || self.values[..position].contains(value) {
                return wrong(format!("{value} is there twice"));
            }
        }
        Ok(())
    }
}

impl Factor {
    /// Values of what lies around the nodes are checked before anything is started.
    fn check_deployment(&self) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError::Invalid { at: format!("factors: {}", self.name), what });
        let known = catalogue::find(&self.name).map(|known| known.applied);
        let around = [Applied::Cluster, Applied::Keyspace];
        let is_around = known.is_some_and(|applied| around.contains(&applied));
        if !is_around && !around.contains(&self.applied()) {
            return Ok(());
        }
        if known != Some(self.applied()) {
            return wrong("only nodes, copies, consistency and container are applied in this way".to_owned());
        }
        let mut all = self.values.iter().chain(&self.default);
        let (is_good, expected): (fn(&str) -> bool, _) = match self.name.as_str() {
            deployment::CONSISTENCY => {
                (|value| Levels::parse(value).is_some(), "ONE, QUORUM and so on, or of writes and reads: TWO/ONE")
            }
            deployment::CONTAINER => (
                |value| deployment::limits(value).is_some(),
                "memory=SIZE (256MiB or more), cpus=NUMBER, or both: memory=2GiB cpus=1.5",
            ),
            _ => (|value| deployment::count(value).is_some(), "numbers from 1 to 9"),
        };
        match all.find(|value| !is_good(value)) {
            Some(value) => wrong(format!("{value} is no value of it: {expected}")),
            None => Ok(()),
        }
    }

    /// Homes of Java are checked by their form only: a plan is read on machines without them too. A
    /// candidate may have a setting of this name.
    fn check_jdk(&self) -> Result<(), PlanError> {
        if self.name != catalogue::JDK || self.applied() == Applied::Setting {
            return Ok(());
        }
        let mut all = self.values.iter().chain(&self.default);
        if self.applied() == Applied::Jvm && all.all(|value| is_java_home(value)) {
            return Ok(());
        }
        let what = "homes of Java without spaces, applied = \"jvm\": paths, such as /opt/jdk-17, or names of folders \
            in /usr/lib/jvm";
        Err(PlanError::Invalid { at: format!("factors: {}", self.name), what: what.to_owned() })
    }
}

/// Whether a value can be the home of a Java: a path from the root, or the name of a folder.
fn is_java_home(value: &str) -> bool {
    let is_name = !value.is_empty() && !value.starts_with(['.', '-', '@']) && !value.contains('/');
    (is_name || value.starts_with('/')) && !value.contains(char::is_whitespace)
}

/// A combination of values: those that are not the default, by the names of factors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Setting(pub BTreeMap<String, String>);

impl Setting {
    /// All factors at one value each; `None` is the default.
    pub fn of<'a>(values: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let chosen = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Self(chosen.collect())
    }

    /// Whether all factors have their default.
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a factor; `None`: its default.
    pub fn get(&self, factor: &str) -> Option<&str> {
        self.0.get(factor).map(String::as_str)
    }

    /// The value that a factor is to have; `None`: what the node has by itself.
    pub fn value<'a>(&'a self, factor: &'a Factor) -> Option<&'a str> {
        self.get(&factor.name).or(factor.default.as_deref())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return f.write_str("default");
        }
        for (position, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name} = {value}", if position > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Values may be written as numbers, booleans or texts.
fn text(value: toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(is_true) => Ok(is_true.to_string()),
        other => Err(format!("a number, true, false or a text, not {other}")),
    }
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values = Vec::<toml::Value>::deserialize(deserializer)?;
    values.into_iter().map(text).collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}

fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = Option::<toml::Value>::deserialize(deserializer)?;
    value.map(text).transpose().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jdk(values: &[&str], applied: Option<Applied>) -> Factor {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Factor { name: catalogue::JDK.to_owned(), default: None, values, repeats: None, applied }
    }

    #[test]
    fn a_value_with_which_a_node_would_not_start_is_refused_although_a_running_node_takes_it() {
        let check = |name: &str, value: &str| {
            let values = vec![value.to_owned()];
            let factor = Factor { name: name.to_owned(), default: None, values, repeats: None, applied: None };
            factor.check().map_err(|error| error.to_string())
        };
        let refused = check("concurrent_reads", "1");
        assert!(refused.as_ref().is_err_and(|error| error.contains("at least 2")), "{refused:?}");
        assert!(check("concurrent_compactors", "0").is_err() && check("compaction_throughput", "1.5MiB/s").is_err());
        assert!(check("concurrent_reads", "2").is_ok() && check("compaction_throughput", "0").is_ok());
    }

    #[test]
    fn a_java_is_named_by_its_home_or_its_folder_and_needs_a_restart() {
        let factor = jdk(&["/opt/jdk-17", "java-17-openjdk-amd64"], None);
        assert!(factor.check().is_ok() && factor.applied().needs_restart());
        for wrong in ["", "opt/jdk-17", "../jdk", "/opt/my jdk", "-Xmx1g", "@options"] {
            let refused = jdk(&[wrong], None).check().map_err(|error| error.to_string());
            assert!(refused.as_ref().is_err_and(|error| error.contains("folders in /usr/lib/jvm")), "{refused:?}");
        }
        // It is no key of a file, which would be written into it. A candidate may call its own so.
        assert!(jdk(&["/opt/jdk-17"], Some(Applied::Restart)).check().is_err());
        assert!(jdk(&["17"], Some(Applied::Setting)).check().is_ok());
    }
}
