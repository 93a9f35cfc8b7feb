//! The order of runs: random within blocks, with the default again every so many runs.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::design::Design;
use crate::factor::{Factor, Setting};
use crate::plan::{Plan, Restart};

/// The stage of fresh runs.
pub const FRESH: u8 = 3;

static DEFAULT: Setting = Setting(std::collections::BTreeMap::new());

/// A run that is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Its number in the study, from 1.
    pub number: u32,
    /// 1: what the design says. 2: what follows from its results. 3: the best of these, afresh.
    pub stage: u8,
    /// Its block, from 1 in each stage. Each block has each setting once under each of its workloads.
    pub block: u32,
    /// The name of its workload.
    pub workload: String,
    /// Its setting.
    pub setting: Setting,
    /// Whether it is the default again, which shows drift.
    pub is_control: bool,
    /// The seed of its keys and records. All runs of a block and workload have the same.
    pub seed: u64,
}

/// The runs that the design says.
pub fn first_stage(plan: &Plan) -> Vec<Planned> {
    let settings = plan.design.settings(&plan.factors, plan.seed);
    let only = match &plan.design {
        Design::OneAtATime { workloads, .. } => workloads.clone(),
        _ => None,
    };
    let pairs = settings.iter().flat_map(|setting| {
        let is_chosen = |name: &String| setting.is_default() || only.as_ref().is_none_or(|only| only.contains(name));
        let names = plan.workloads.iter().map(|workload| workload.name.clone());
        names.filter(is_chosen).map(|name| (setting.clone(), name)).collect::<Vec<_>>()
    });
    ordered(plan, &pairs.collect::<Vec<_>>(), Group { stage: 1, round: 0 }, 1)
}

/// The runs of the union of best values, beside the default.
pub fn second_stage(plan: &Plan, unions: &[(Setting, String)], number: u32) -> Vec<Planned> {
    beside_default(plan, unions, 0, number)
}

/// The runs of a round of a Bayesian design, from 1: its settings beside the default. Their keys and
/// records are those of the first stage.
pub fn round(plan: &Plan, proposed: &[(Setting, String)], round: u32, number: u32) -> Vec<Planned> {
    beside_default(plan, proposed, round, number)
}

fn beside_default(plan: &Plan, chosen: &[(Setting, String)], round: u32, number: u32) -> Vec<Planned> {
    let mut workloads: Vec<_> = chosen.iter().map(|(_, workload)| workload).collect();
    workloads.dedup();
    let defaults = workloads.into_iter().map(|workload| (Setting::default(), workload.clone()));
    let pairs: Vec<_> = chosen.iter().cloned().chain(defaults).collect();
    ordered(plan, &pairs, Group { stage: 2, round }, number)
}

/// Fresh runs of what was selected, each right beside the default, so that nothing comes between
/// them. They have keys and records of their own.
pub fn fresh_stage(plan: &Plan, selected: &[(Setting, String)], number: u32) -> Vec<Planned> {
    let mut random = random(plan, Group { stage: FRESH, round: 0 });
    let mut all = Vec::new();
    for block in 1..=plan.confirm {
        let mut order: Vec<_> = selected.iter().collect();
        order.shuffle(&mut random);
        for (setting, workload) in order {
            let mut pair = [setting, &DEFAULT];
            pair.shuffle(&mut random);
            for setting in pair {
                all.push(planned(plan, all.len() as u32 + number, FRESH, block, workload, setting.clone(), false));
            }
        }
    }
    all
}

/// The runs that may follow from the results of the first stage, at most: the union and the fresh
/// runs under each workload under which settings are compared. Their settings only stand for those
/// that are found.
pub fn later_stages(plan: &Plan) -> Vec<Planned> {
    let last = |factor: &Factor| Some((factor.name.clone(), factor.values.last()?.clone()));
    let setting = Setting(plan.factors.iter().filter_map(last).collect());
    let compared = plan.compared_workloads().into_iter();
    let found: Vec<_> = compared.map(|workload| (setting.clone(), workload.name.clone())).collect();
    // The best value of one factor alone is no union.
    let has_union = plan.design.has_union() && plan.factors.len() > 1;
    let mut all = if has_union { second_stage(plan, &found, 1) } else { Vec::new() };
    all.extend(fresh_stage(plan, &found, all.len() as u32 + 1));
    all
}

/// Runs that are ordered together.
#[derive(Clone, Copy)]
struct Group {
    stage: u8,
    /// The round of a Bayesian design, from 1; 0 of other runs.
    round: u32,
}

fn random(plan: &Plan, group: Group) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    random.set_stream(u64::from(group.stage) + (u64::from(group.round) << 8));
    random
}

/// These pairs of setting and workload once in each block that they are to be in, in random order.
fn ordered(plan: &Plan, pairs: &[(Setting, String)], group: Group, first: u32) -> Vec<Planned> {
    let mut random = random(plan, group);
    let before = group.round.saturating_sub(1) * plan.repeats;
    let mut all = Vec::new();
    let mut since_control = 0;
    let mut controls = control_workloads(plan).into_iter().cycle();
    for block in before + 1..=before + plan.repeats {
        let mut order = pairs.to_vec();
        order.shuffle(&mut random);
        order.retain(|(setting, _)| block - before <= plan.repeats_of(setting));
        for (setting, workload) in order {
            if plan.control_every > 0 && since_control == plan.control_every {
                since_control = 0;
                if let Some(workload) = controls.next() {
                    let number = all.len() as u32 + first;
                    all.push(planned(plan, number, group.stage, block, workload, Setting::default(), true));
                }
            }
            since_control += 1;
            all.push(planned(plan, all.len() as u32 + first, group.stage, block, &workload, setting, false));
        }
    }
    all
}

/// Controls are under each workload in turn, of those under which settings are compared.
fn control_workloads(plan: &Plan) -> Vec<&str> {
    let compared = plan.compared_workloads();
    compared.into_iter().map(|workload| workload.name.as_str()).collect()
}

fn planned(
    plan: &Plan,
    number: u32,
    stage: u8,
    block: u32,
    workload: &str,
    setting: Setting,
    is_control: bool,
) -> Planned {
    let place = plan.workloads.iter().position(|other| other.name == workload).unwrap_or_default() as u64;
    let repeats = u64::from(plan.repeats);
    let block_of_all = if stage == FRESH { u64::from(block) + repeats } else { (u64::from(block) - 1) % repeats + 1 };
    let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(block_of_all * 1_009).wrapping_add(place);
    Planned { number, stage, block, workload: workload.to_owned(), setting, is_control, seed }
}

/// How many of the runs need the node to start again before them, the first included.
pub fn restarts(plan: &Plan, runs: &[Planned]) -> usize {
    if plan.restarts() == Restart::EveryRun {
        return runs.len();
    }
    let all: Vec<_> = runs.iter().map(|run| plan.at_start(&run.setting)).collect();
    all.windows(2).filter(|pair| pair[0] != pair[1]).count() + usize::from(!all.is_empty())
}
