//! What a node has by itself, as runs have read it back.

use std::collections::BTreeMap;

use crate::factor::{Factor, Setting};
use crate::line::Line;
use crate::plan::Plan;

/// The default of each factor: of the plan, or else what the node had by itself.
pub(crate) fn defaults(plan: &Plan, lines: &[Line]) -> BTreeMap<String, String> {
    let valid = || lines.iter().filter(|line| line.is_valid());
    let of = |factor: &Factor| {
        let name = &factor.name;
        // Beside another heap, a node has other values by itself.
        let all_default = valid().find(|line| line.planned.setting.is_default());
        let line = all_default.or_else(|| valid().find(|line| line.planned.setting.get(name).is_none()));
        let read = line.and_then(|line| line.read_back.get(name).cloned());
        Some((name.clone(), factor.default.clone().or(read)?))
    };
    plan.factors.iter().filter_map(of).collect()
}

/// What the node has by itself beside a setting, by factor: read back in the first run that counts
/// and has the same values of what is set at a start. What a node has by itself may follow from
/// these: the space of memtables is a share of the heap.
pub(crate) fn beside(plan: &Plan, setting: &Setting, lines: &[Line]) -> BTreeMap<String, String> {
    let asked = plan.at_start(setting);
    let first = |name: &str| {
        let is_same = |line: &&Line| {
            let other = &line.planned.setting;
            line.is_valid() && other.get(name).is_none() && plan.at_start(other) == asked
        };
        lines.iter().find(is_same)?.read_back.get(name).cloned()
    };
    let unset = plan.factors.iter().filter(|factor| factor.default.is_none());
    unset.filter_map(|factor| Some((factor.name.clone(), first(&factor.name)?))).collect()
}
