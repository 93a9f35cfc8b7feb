//! What a change was measured beside: all that was in force with it and is no part of it. Beside
//! other values, its gain may be another.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::catalogue;
use crate::factor::{Applied, Setting};
use crate::plan::Plan;

/// A value that was in force in all runs with a setting, and is no part of the setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: String,
    /// Whether the node had it by itself: the plan does not say it.
    pub is_own: bool,
    /// Where it was in force.
    pub applied: Applied,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.applied == Applied::Heap { " MiB" } else { "" };
        let own = if self.is_own { " (the node's own)" } else { "" };
        write!(f, "{} = {}{unit}{own}", self.name, self.value)
    }
}

/// What a setting was measured beside: the other factors, as `in_force` has them, and what the plan
/// says of its node.
pub(crate) fn beside(plan: &Plan, setting: &Setting, in_force: &BTreeMap<String, String>) -> Vec<Beside> {
    let node = &plan.node;
    let others = plan.factors.iter().filter(|factor| setting.get(&factor.name).is_none());
    let of_factors = others.filter_map(|factor| {
        let name = factor.name.clone();
        let is_said = node.yaml.contains_key(&name)
            || node.table.contains_key(&name)
            || node.around().iter().any(|(said, ..)| *said == name);
        let is_own = factor.default.is_none() && !is_said;
        Some(Beside { value: in_force.get(&name)?.clone(), name, is_own, applied: factor.applied() })
    });
    let said = |name: &str, value: String, applied| Beside { name: name.to_owned(), value, is_own: false, applied };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let of_yaml = node.yaml.iter().filter(|(name, _)| plan.factor(name).is_none());
    let of_yaml = of_yaml.map(|(name, value)| said(name, text(value), Applied::Restart));
    let mode = plan.compatibility().map(|mode| said(catalogue::COMPATIBILITY, mode.to_owned(), Applied::Restart));
    let of_table = node.table.iter().filter(|(name, _)| plan.factor(name).is_none());
    let of_table = of_table.map(|(name, value)| said(name, value.clone(), Applied::Table));
    let is_varied = plan.factors.iter().any(|factor| factor.applied() == Applied::Heap);
    let heap = node.heap_mib.filter(|_| !is_varied).map(|mib| said("heap", mib.to_string(), Applied::Heap));
    let options = (!node.jvm_options.is_empty()).then(|| node.jvm_options.join(" "));
    let options = options.map(|options| said("options of Java", options, Applied::Jvm));
    let around = plan.node.around().into_iter().filter(|(name, ..)| plan.factor(name).is_none());
    let around = around.map(|(name, value, applied)| said(name, value, applied));
    of_factors.chain(of_yaml).chain(mode).chain(of_table).chain(heap).chain(options).chain(around).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::factor::Factor;
    use crate::preset::{Scale, find};

    #[test]
    fn a_setting_of_the_thesis_was_measured_beside_the_other_defaults_the_heap_and_the_nodes_keys() {
        let mut plan = find("thesis", Scale::default()).unwrap();
        plan.node.yaml.insert("concurrent_writes".to_owned(), Value::from(128));
        plan.node.yaml.insert("disk_access_mode".to_owned(), Value::from("mmap"));
        // What a factor says is in force, not what the node's keys say.
        plan.node.yaml.insert("concurrent_compactors".to_owned(), Value::from(7));
        plan.node.jvm_options.push("-XX:+UseG1GC".to_owned());
        plan.factors[0].default = None;
        let value = |factor: &Factor| factor.default.clone().unwrap_or_else(|| "247MiB".to_owned());
        let in_force: BTreeMap<_, _> = plan.factors.iter().map(|factor| (factor.name.clone(), value(factor))).collect();
        let setting = Setting::of([("compaction_throughput", Some("32MiB/s"))]);
        let found: Vec<_> = beside(&plan, &setting, &in_force).iter().map(ToString::to_string).collect();
        let expected = [
            "memtable_heap_space = 247MiB (the node's own)",
            "memtable_flush_writers = 8",
            "concurrent_compactors = 1",
            "snapshot_before_compaction = false",
            "partition_size_warn_threshold = 100MiB",
            "concurrent_writes = 128",
            "disk_access_mode = mmap",
            "compaction = {'class': 'SizeTieredCompactionStrategy'}",
            "compression = {'enabled': 'false'}",
            "heap = 1024 MiB",
            "options of Java = -XX:+UseG1GC",
        ];
        assert_eq!(found, expected);
        // What the lab adds for a format of files is said as what the plan says.
        plan.node.yaml.insert("sstable".to_owned(), serde_json::json!({"selected_format": "bti"}));
        let found: Vec<_> = beside(&plan, &setting, &in_force).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|one| one == "storage_compatibility_mode = NONE"), "{found:?}");
    }
}
