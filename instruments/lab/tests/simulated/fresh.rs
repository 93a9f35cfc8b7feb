//! What was selected is measured afresh.

use std::collections::BTreeMap;

use lab::analysis::analyse;
use lab::execute::runs_left;
use lab::line::Line;
use lab::plan::{Bound, Plan};
use lab::recommend::{Finding, Gain, recommend};
use lab::run::make;
use lab::schedule::FRESH;
use lab::simulated::{Fault, Simulated, Surface, level};

use super::{THREE, change, plan, surface};

/// All runs of a plan, without a study.
pub async fn in_memory(plan: &Plan, surface: &Surface) -> Vec<Line> {
    let mut node = Simulated::new(plan, surface.clone(), Fault::None);
    let mut lines = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    loop {
        let left = runs_left(plan, &lines);
        if left.is_empty() {
            return lines;
        }
        for planned in left {
            lines.push(make(&mut node, plan, &planned, 1, &BTreeMap::new(), folder.path()).await.unwrap());
        }
    }
}

/// What is found under one workload with each of so many seeds.
async fn findings(seeds: u64, values: &str, surface: Surface) -> Vec<Finding> {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, values);
    plan.workloads.truncate(1);
    let mut all = Vec::new();
    for seed in 1..=seeds {
        plan.seed = seed;
        let lines = in_memory(&plan, &surface).await;
        all.push(recommend(&plan, &lines, &analyse(&plan, &lines)).swap_remove(0).finding);
    }
    all
}

#[tokio::test]
async fn of_pure_noise_no_difference_is_found_with_almost_any_seed() {
    let noise = Surface { base_ms: 20.0, noise: 0.05, ..Surface::default() };
    let all = findings(100, "[2, 4, 8]", noise).await;
    let is_none = |finding: &&Finding| matches!(finding, Finding::NoDifference { .. } | Finding::NotConfirmed { .. });
    assert!(all.iter().filter(is_none).count() >= 95, "{all:?}");
    let better = all.iter().filter(|finding| matches!(finding, Finding::Better(_))).count();
    assert!(better <= 2, "{better} of 100, far below the level of 5 %");
}

#[tokio::test]
async fn the_best_of_equally_good_settings_looks_too_good_and_fresh_runs_show_its_true_gain() {
    let factors = ["memtable_heap_space", "concurrent_compactors", "trickle_fsync"];
    let effects = factors.iter().flat_map(|name| ["2", "4", "8"].map(|value| (level(name, value), -1.0)));
    let surface = Surface { base_ms: 20.0, effects: effects.collect(), noise: 0.03, ..Surface::default() };
    let gains = |finding: &Finding| match finding {
        Finding::Better(change) => Some((change.selected, change.fresh.unwrap())),
        Finding::NotConfirmed { selected, fresh, .. } => Some((*selected, (*fresh)?)),
        _ => None,
    };
    let all: Vec<_> = findings(60, "[2, 4, 8]", surface).await.iter().filter_map(gains).collect();
    assert!(all.len() > 30, "{}", all.len());
    let mean = |of: fn(&(Gain, Gain)) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    // Each of them takes a twentieth off.
    assert!(mean(|(selected, _)| selected.change) < -0.06);
    assert!((mean(|(_, fresh)| fresh.change) + 0.05).abs() < 0.01);
    let holds = |(_, fresh): &&(Gain, Gain)| fresh.interval.is_some_and(|(low, high)| low < -0.05 && -0.05 < high);
    assert!(all.iter().filter(holds).count() * 10 >= all.len() * 8);
}

#[tokio::test]
async fn what_is_selected_is_measured_afresh_beside_the_default_in_random_order() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, THREE);
    let lines = in_memory(&plan, &surface()).await;
    let fresh: Vec<_> = lines.iter().filter(|line| line.planned.stage == FRESH).collect();
    // The default and the best setting under each of two workloads, in each of five blocks.
    assert_eq!(fresh.len(), 2 * 2 * 5);
    assert_eq!(fresh.iter().filter(|line| line.planned.setting.is_default()).count(), 10);
    let order = |block| fresh.iter().filter(move |line| line.planned.block == block).map(|line| &line.planned.setting);
    assert!((2..=5).any(|block| !order(block).eq(order(1))));
    let seeds: Vec<_> = lines.iter().filter(|line| line.planned.stage == 1).map(|line| line.planned.seed).collect();
    assert!(fresh.iter().all(|line| !seeds.contains(&line.planned.seed)), "they have keys of their own");
    let (tables, change) = {
        let analysis = analyse(&plan, &lines);
        let finding = recommend(&plan, &lines, &analysis).swap_remove(0).finding;
        (analysis.tables, change(finding))
    };
    assert_eq!((change.fresh.unwrap().blocks, change.fresh.unwrap().comparisons), (5, 2));
    let mut others = tables[0].rows.iter().filter(|row| !row.setting.is_default());
    assert!(others.all(|row| row.summary.values.len() == 4), "they are in no other table");
    // A study that ended among them goes on with the same ones.
    let left: Vec<_> = lines[lines.len() - 7..].iter().map(|line| line.planned.clone()).collect();
    assert_eq!(runs_left(&plan, &lines[..lines.len() - 7]), left);
    // Until they are made, nothing is recommended.
    let early = &lines[..lines.len() - 20];
    let finding = recommend(&plan, early, &analyse(&plan, early)).swap_remove(0).finding;
    assert!(matches!(finding, Finding::NotConfirmed { fresh: None, made: 0, .. }), "{finding:?}");
    // Nor while one is left, although it is better for sure in those that were made.
    let some = &lines[..lines.len() - 1];
    let all = recommend(&plan, some, &analyse(&plan, some));
    let found = all.iter().find(|found| found.workload == lines[lines.len() - 1].planned.workload).unwrap();
    let Finding::NotConfirmed { fresh: Some(fresh), left: 1, .. } = &found.finding else { panic!("{found:?}") };
    assert!(fresh.blocks == 4 && fresh.p.unwrap() < 0.01, "{fresh:?}");
    let words = lab::report::finding(found).join("\n");
    assert!(words.contains("known for sure yet") && words.contains("1 fresh runs are still to be made"), "{words}");
    // Nor if none of them counts.
    let mut void = lines.clone();
    void.iter_mut().filter(|line| line.planned.stage == FRESH).for_each(|line| line.void.push("lost".to_owned()));
    let found = recommend(&plan, &void, &analyse(&plan, &void)).swap_remove(0);
    assert!(matches!(found.finding, Finding::NotConfirmed { fresh: None, made: 5, .. }), "{found:?}");
    assert!(found.caveats.iter().any(|caveat| caveat.contains("5 do not count")), "{:?}", found.caveats);
}

#[tokio::test]
async fn what_fresh_runs_do_not_confirm_is_not_recommended() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, THREE);
    let mut lines = in_memory(&plan, &surface()).await;
    for line in lines.iter_mut().filter(|line| line.planned.stage == FRESH) {
        line.metrics.insert("p99_ms".to_owned(), 20.0 + f64::from(line.planned.number % 3));
    }
    let found = recommend(&plan, &lines, &analyse(&plan, &lines)).swap_remove(0);
    assert!(
        matches!(&found.finding, Finding::NotConfirmed { fresh: Some(fresh), .. } if fresh.blocks == 5),
        "{found:?}"
    );
    let words = lab::report::finding(&found).join("\n");
    assert!(words.contains("no difference found") && words.contains("measured afresh 5 times"), "{words}");
}

#[tokio::test]
async fn a_bound_that_no_fresh_run_has_measured_is_said_to_be_so() {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, THREE);
    plan.bound = Some(Bound { metric: "cpu_ms_per_operation".to_owned(), max: 1.0 });
    plan.check().unwrap();
    let mut lines = in_memory(&plan, &surface()).await;
    for line in lines.iter_mut().filter(|line| line.planned.stage == FRESH) {
        line.metrics.remove("cpu_ms_per_operation").unwrap();
    }
    let found = recommend(&plan, &lines, &analyse(&plan, &lines)).swap_remove(0);
    assert!(matches!(found.finding, Finding::OverBound { mean: None, .. }), "{found:?}");
    let words = lab::report::finding(&found).join("\n");
    assert!(words.contains("during the load was not measured then, and may be at most 1."), "{words}");
}
