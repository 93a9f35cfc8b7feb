//! A change that is recommended: what to do to a node and its tables, and what leads back.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::Analysis;
use crate::beside::{self, Beside};
use crate::catalogue;
use crate::defaults::defaults;
use crate::deployment::{self, Levels};
use crate::factor::{Applied, Factor, Setting};
use crate::line::Line;
use crate::metric;
use crate::plan::Plan;
use crate::recommend::{Gain, is_better, is_sure};
use crate::report::changed;
use crate::stats::Difference;
use crate::sync;
use crate::value;

/// A change that is recommended. What leads back leads to the default of the lab's node: an
/// operator's node may have had other values.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The setting.
    pub setting: Setting,
    /// Its gain in the runs among which it was selected. That of the best of many is too good.
    pub selected: Gain,
    /// Its gain in fresh runs; `None` if the plan has none.
    pub fresh: Option<Gain>,
    /// What to do to `cassandra.yaml`; and what leads back.
    pub yaml: Vec<(String, String)>,
    /// A statement for the table; and the one that leads back, with words for each option of which
    /// no run has read the default.
    pub alter_table: Option<(String, String)>,
    /// What to do to the options of the Java machine; and what leads back.
    pub jvm: Vec<(String, String)>,
    /// What to do to the cluster, its containers and its clients; and what leads back.
    pub deployment: Vec<(String, String)>,
    /// What to do to the settings of a candidate; and what leads back.
    pub settings: Vec<(String, String)>,
    /// Commands for a running node; and those that lead back.
    pub live: Vec<(String, String)>,
    /// What the setting does for the worse, for sure, to the metrics that the plan compares.
    pub costs: Vec<String>,
    /// What else was in force when it was measured. Beside other values, its gain may be another.
    pub beside: Vec<Beside>,
    /// What it does to promises of the node, which no metric shows.
    pub warnings: Vec<String>,
}

impl Change {
    /// A change to a setting with its gains: when it was selected, and in fresh runs.
    pub(crate) fn of(
        plan: &Plan,
        lines: &[Line],
        analysis: &Analysis,
        setting: Setting,
        (selected, fresh): (Gain, Option<Gain>),
    ) -> Self {
        let costs = costs(analysis, &setting);
        let defaults = defaults(plan, lines);
        // A plan has one of the two factors at most.
        let meant = |all: &BTreeMap<String, String>| all.iter().find_map(|(name, value)| sync::meant(name, value));
        let (asked, before) = (meant(&setting.0), meant(&defaults));
        let loss = asked.and_then(|asked| sync::loss(&asked, before.as_deref()));
        let usual = kept(plan, |name| defaults.get(name).cloned());
        let changed = kept(plan, |name| setting.get(name).map(str::to_owned).or_else(|| defaults.get(name).cloned()));
        let losses = usual.zip(changed).map(|(usual, changed)| deployment::losses(usual, changed));
        let warnings = loss.into_iter().chain(losses.unwrap_or_default()).collect();
        let mut in_force = defaults.clone();
        // What a node has by itself may follow from the setting.
        in_force.extend(crate::defaults::beside(plan, &setting, lines));
        let beside = beside::beside(plan, &setting, &in_force);
        let (yaml, alter_table, jvm, deployment, settings, live) = Default::default();
        let mut change = Self {
            setting,
            selected,
            fresh,
            yaml,
            alter_table,
            jvm,
            deployment,
            settings,
            live,
            costs,
            beside,
            warnings,
        };
        change.write_out(plan, &defaults);
        change
    }

    /// The gain that it has, as far as is known: that of the fresh runs, if they were made.
    pub fn gain(&self) -> Gain {
        self.fresh.unwrap_or(self.selected)
    }

    fn write_out(&mut self, plan: &Plan, defaults: &BTreeMap<String, String>) {
        let (mut to, mut back, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in self.setting.0.clone() {
            let Some(factor) = plan.factor(&name) else { continue };
            let before = defaults.get(&name);
            match factor.applied() {
                Applied::Restart | Applied::Live => {
                    self.yaml.push(yaml(factor, &value, before));
                    if let Some(mode) = plan.compatibility().filter(|_| name == catalogue::FORMAT) {
                        self.yaml.extend(catalogue::needs_compatibility(&value).then(|| compatible(mode)));
                    }
                    let command = |value: &str| live(&name, value);
                    if factor.applied() == Applied::Live
                        && let Some(pair) = command(&value).zip(before.and_then(|before| command(before)))
                    {
                        self.live.push(pair);
                    }
                }
                Applied::Table => {
                    // A plan may have a map of JSON, which is none of CQL.
                    let in_cql = |value: &str| value::option(&name, value).unwrap_or_else(|| value.to_owned());
                    let option = |value: &str| format!("{name} = {}", in_cql(value));
                    to.push(option(&value));
                    match before {
                        Some(before) => back.push(option(before)),
                        None => unread.push(name.clone()),
                    }
                    let configuration = plan.node.memtable(&value).filter(|_| name == catalogue::MEMTABLE);
                    self.yaml.extend(configuration.map(|configuration| memtable(&value, &configuration)));
                }
                Applied::Heap => {
                    let set = |mib: &str| format!("set -Xms{mib}m -Xmx{mib}m");
                    let back = before.map_or_else(|| "set -Xms and -Xmx as they were".to_owned(), |mib| set(mib));
                    self.jvm.push((set(&value), back));
                }
                Applied::Cluster | Applied::Keyspace => {
                    let step = |value: &str| around(&name, value);
                    let back = before.map_or_else(|| format!("have {name} as it was"), |before| step(before));
                    self.deployment.push((step(&value), back));
                }
                Applied::Setting => {
                    let set = |value: &str| format!("set {name} to {value}");
                    let back = before.map_or_else(|| format!("set {name} as it was"), |before| set(before));
                    self.settings.push((set(&value), back));
                }
                Applied::Jvm if name == catalogue::JDK => {
                    let run = |home: &str| format!("run the node on the Java of {home}");
                    let back = before.map_or_else(|| "run it on the Java that it had".to_owned(), |home| run(home));
                    self.jvm.push((run(&value), back));
                }
                Applied::Jvm if factor.is_young() => {
                    let set = |mib: &str| format!("set -Xmn{mib}m");
                    let back = before.filter(|before| *before != "none").map(|before| set(before));
                    self.jvm.push((set(&value), back.unwrap_or_else(|| "delete -Xmn".to_owned())));
                }
                Applied::Jvm => {
                    let before = factor.default.as_deref().unwrap_or_default();
                    self.jvm.push((swapped(before, &value), swapped(&value, before)));
                }
            }
        }
        if !to.is_empty() {
            self.alter_table = Some((alter(&to), altered_back(&back, &unread)));
        }
    }
}

/// What gets worse for sure: in the fresh runs, or else in those of the design.
fn costs(analysis: &Analysis, setting: &Setting) -> Vec<String> {
    let worse = analysis.tables.iter().filter_map(|table| {
        let metric = metric::find(&table.metric)?;
        let is_worse = |difference: &&Difference| {
            is_sure(difference.p_corrected) && difference.change != 0.0 && !is_better(difference.change, metric)
        };
        let is_it = |fresh: &&crate::analysis::Fresh| {
            (&fresh.metric, &fresh.workload, &fresh.setting) == (&table.metric, &table.workload, setting)
        };
        let fresh = analysis.fresh.iter().find(is_it).map(|fresh| &fresh.difference).filter(is_worse);
        let row = || table.rows.iter().find(|row| &row.setting == setting)?.difference.as_ref().filter(is_worse);
        let found = fresh.or_else(row)?;
        Some(format!("{} under {}: {}", metric.title, table.workload, changed(found.scale, found.change)))
    });
    worse.collect()
}

/// What to do to a key of `cassandra.yaml`, and what leads back. A node that has a value by itself
/// has no line with it.
fn yaml(factor: &Factor, value: &str, before: Option<&String>) -> (String, String) {
    let name = &factor.name;
    let mode = |value: &str| sync::meant(name, value).and_then(|mode| sync::in_words(&mode));
    if let Some(to) = mode(value) {
        let back = before.and_then(|before| mode(before));
        return (to, back.unwrap_or_else(|| format!("set {} and its time as they were", sync::NAME)));
    }
    let set = |value: &str| format!("set {name}: {}", catalogue::for_yaml(name, value));
    let was = before.map_or_else(String::new, |before| format!(" (was {before})"));
    let old = catalogue::old_name(name).map_or_else(String::new, |old| format!("; delete {old}, if it is there"));
    let back = match &factor.default {
        Some(default) => set(default),
        None => format!("set {name} as it was, or delete it{}", was.replace("was", "by itself it is")),
    };
    (format!("{}{was}{old}", set(value)), back)
}

/// The statement that gives a table these options.
fn alter(options: &[String]) -> String {
    format!("ALTER TABLE keyspace.table WITH {};", options.join(" AND "))
}

/// What leads a table back: a statement with these options, and words for those of which no run has
/// read the default. Without any option there is no statement.
fn altered_back(options: &[String], unread: &[String]) -> String {
    let statement = (!options.is_empty()).then(|| alter(options));
    let why = "no run has read its default, so note what the table has before you change it";
    let missing = unread.iter().map(|name| format!("no statement can be given for {name}: {why}."));
    statement.into_iter().chain(missing).collect::<Vec<_>>().join(" ")
}

/// What to do to `cassandra.yaml` so that tables can name a memtable, and what leads back.
fn memtable(name: &str, configuration: &str) -> (String, String) {
    (format!("have {name}: {configuration} below memtable: configurations"), "it may stay".to_owned())
}

/// What to do to `cassandra.yaml` so that a node starts with a format of files that Cassandra 4 has
/// not, and what leads back.
fn compatible(mode: &str) -> (String, String) {
    let name = catalogue::COMPATIBILITY;
    let what = format!("set {name}: {mode}, without which a node does not start with that format; Cassandra 4 cannot");
    (format!("{what} read what it writes then"), format!("{name} may stay: files of that format need it"))
}

/// The collectors of Java, as its options name them.
const COLLECTORS: [&str; 7] = ["SerialGC", "ParallelGC", "G1GC", "ZGC", "ShenandoahGC", "ConcMarkSweepGC", "EpsilonGC"];

/// What to do to options of Java so that some replace others. An operator's node may have a collector
/// that the plan does not say, and Java does not start with two.
fn swapped(from: &str, to: &str) -> String {
    let steps = [("delete", from), ("add", to)].into_iter().filter(|(_, options)| !options.is_empty());
    let steps: Vec<_> = steps.map(|(step, options)| format!("{step} {options}")).collect();
    let is_collector =
        |option: &str| option.strip_prefix("-XX:+Use").is_some_and(|collector| COLLECTORS.contains(&collector));
    let others = match to.split_whitespace().any(is_collector) {
        true => "; delete any other -XX:+Use…GC that is there: Java does not start with two collectors",
        false => "",
    };
    format!("{}{others}", steps.join(", and then "))
}

/// The number of copies and the levels of clients: the values of factors, or those of the plan.
fn kept(plan: &Plan, value: impl Fn(&str) -> Option<String>) -> Option<(u8, Levels)> {
    let of_factor = |name: &str| plan.factor(name).and_then(|_| value(name));
    let copies = match of_factor(deployment::COPIES) {
        Some(copies) => deployment::count(&copies)?,
        None => plan.node.copies,
    };
    let levels = of_factor(deployment::CONSISTENCY).unwrap_or_else(|| plan.node.consistency.clone());
    Some((copies, Levels::parse(&levels)?))
}

/// What to do to what lies around the nodes.
fn around(name: &str, value: &str) -> String {
    match name {
        deployment::NODES => format!("have {value} node(s)"),
        deployment::COPIES => format!(
            "ALTER KEYSPACE: replication_factor {value}; then nodetool repair --full if these are more, or cleanup"
        ),
        deployment::CONSISTENCY => format!("let clients write and read at {value}"),
        _ if value == "none" => "run each node as a bare process".to_owned(),
        _ => format!("run each node in a container with {value}"),
    }
}

/// The command that sets a value on a running node.
fn live(name: &str, value: &str) -> Option<String> {
    let words = catalogue::find(name)?.nodetool?.join(" ");
    Some(format!("nodetool {words} {}", catalogue::for_nodetool(name, value)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stats::Scale;

    /// The change to the first values of these factors, each with its default and its value.
    fn changed_to(factors: &[(&str, Option<&str>, &str)]) -> Change {
        let factor = |(name, default, value): &(&str, Option<&str>, &str)| Factor {
            name: (*name).to_owned(),
            default: default.map(str::to_owned),
            values: vec![(*value).to_owned()],
            repeats: None,
            applied: None,
        };
        let mut plan = crate::preset::find("thesis", crate::preset::Scale::default()).unwrap();
        plan.factors = factors.iter().map(factor).collect();
        let setting = Setting::of(factors.iter().map(|(name, _, value)| (*name, Some(*value))));
        let gain = Gain { scale: Scale::Unit, change: -1.0, interval: None, p: None, comparisons: 1, blocks: 5 };
        let analysis = crate::analysis::analyse(&plan, &[]);
        Change::of(&plan, &[], &analysis, setting, (gain, None))
    }

    #[test]
    fn a_rate_is_recommended_as_the_file_of_a_node_takes_it() {
        let change = changed_to(&[("compaction_throughput", Some("1GiB/s"), "0")]);
        let [(to, back)] = &change.yaml[..] else { panic!("one key: {change:?}") };
        assert!(to.starts_with("set compaction_throughput: 0MiB/s (was 1GiB/s)"), "{to}");
        assert_eq!(back, "set compaction_throughput: 1024MiB/s");
        assert_eq!(change.live[0].0, "nodetool setcompactionthroughput 0");
    }

    #[test]
    fn a_period_is_recommended_with_its_mode_and_without_the_keys_of_others() {
        let change = changed_to(&[("commitlog_sync_period", Some("10s"), "1s")]);
        let [(to, back)] = &change.yaml[..] else { panic!("one step: {change:?}") };
        assert!(to.starts_with("set commitlog_sync: periodic, commitlog_sync_period: 1000ms; delete "), "{to}");
        assert!(to.contains("commitlog_sync_group_window"), "{to}");
        assert!(back.starts_with("set commitlog_sync: periodic, commitlog_sync_period: 10000ms"), "{back}");
        assert!(change.warnings.is_empty(), "{:?}", change.warnings);
    }

    #[test]
    fn options_of_java_replace_those_of_the_default_and_any_other_collector() {
        let (serial, g1) = ("-XX:+UseSerialGC", "-XX:+UseG1GC -XX:MaxGCPauseMillis=200");
        let change = changed_to(&[("collector", Some(serial), g1)]);
        let [(to, back)] = &change.jvm[..] else { panic!("one step: {change:?}") };
        assert!(to.starts_with(&format!("delete {serial}, and then add {g1}; delete any other")), "{to}");
        assert!(back.starts_with(&format!("delete {g1}, and then add {serial}")), "{back}");
        let change = changed_to(&[("collector", None, "-XX:+AlwaysPreTouch")]);
        assert_eq!(change.jvm, [("add -XX:+AlwaysPreTouch".to_owned(), "delete -XX:+AlwaysPreTouch".to_owned())]);
    }

    #[test]
    fn options_of_a_table_are_cql_and_a_memtable_says_its_configuration() {
        let json = r#"{"class": "LZ4Compressor", "chunk_length_in_kb": 16}"#;
        let change = changed_to(&[("compression", None, json), ("memtable", None, "trie")]);
        let (to, _) = change.alter_table.unwrap();
        let expected = "compression = {'chunk_length_in_kb': '16', 'class': 'LZ4Compressor'} AND memtable = 'trie';";
        assert!(to.ends_with(expected), "{to}");
        assert_eq!(change.yaml[0].0, "have trie: {class_name: TrieMemtable} below memtable: configurations");
    }

    #[test]
    fn a_format_that_cassandra_4_has_not_comes_with_the_mode_without_which_a_node_does_not_start() {
        let change = changed_to(&[("sstable.selected_format", None, "bti")]);
        let [(format, _), (mode, _)] = &change.yaml[..] else { panic!("two keys: {change:?}") };
        assert!(format.starts_with("set sstable.selected_format: bti"), "{format}");
        assert!(mode.starts_with("set storage_compatibility_mode: NONE, without which"), "{mode}");
        assert!(change.beside.iter().any(|beside| beside.to_string() == "storage_compatibility_mode = NONE"));
        assert_eq!(changed_to(&[("sstable.selected_format", Some("bti"), "big")]).yaml.len(), 1);
    }

    #[test]
    fn what_leads_a_table_back_has_the_defaults_that_are_known_and_words_for_the_others() {
        let (tiered, leveled) = ("{'class': 'SizeTieredCompactionStrategy'}", "{'class': 'LeveledCompactionStrategy'}");
        let back = |compaction| {
            let plain = ("compression", None, "{'enabled': 'false'}");
            changed_to(&[("compaction", compaction, leveled), plain]).alter_table.unwrap().1
        };
        let words = "no statement can be given for compression: no run has read its default, so note what the table \
                     has before you change it.";
        assert_eq!(back(Some(tiered)), format!("ALTER TABLE keyspace.table WITH compaction = {tiered}; {words}"));
        assert_eq!(back(None), format!("{} {words}", words.replace("compression", "compaction")));
    }
}
