//! Whole studies on a simulated node, whose surface is known.

#![allow(clippy::unwrap_used)]

mod bayesian;
mod certainty;
mod closed;
mod fresh;
mod hold;
mod report;

use std::path::Path;
use std::time::Duration;

use lab::analysis::{Analysis, analyse};
use lab::change::Change;
use lab::design::Design;
use lab::execute::{ATTEMPTS_MAX, ExecuteError, execute, known_runs, runs_left};
use lab::factor::Setting;
use lab::line::Line;
use lab::metric::FAILED_SHARE;
use lab::plan::{Bound, Plan, Restart};
use lab::recommend::{Finding, recommend};
use lab::schedule::{FRESH, later_stages, restarts};
use lab::simulated::{Fault, Simulated, Surface, level};
use lab::study::{OpenStudy, Study, StudyError};
use lab::union::unions;
use lab::workload::Partitions;

/// Three factors under two workloads. Each run has 10,000 operations.
fn plan(design: &str, values: &str) -> Plan {
    let text = format!(
        r#"
        name = "simulated"
        repeats = 4
        control_every = 4
        objective = "p99_ms"
        beside = ["cpu_ms_per_operation"]
        design = {design}
        workloads = [
            {{ name = "writes", mix = {{ write = 90, read = 10 }}, rate = 1000, duration = "10s" }},
            {{ name = "reads", mix = {{ write = 10, read = 90 }}, rate = 1000, duration = "10s" }},
        ]
        [[factors]]
        name = "memtable_heap_space"
        values = {values}
        [[factors]]
        name = "concurrent_compactors"
        values = {values}
        [[factors]]
        name = "trickle_fsync"
        values = {values}
        "#
    );
    Plan::parse(&text).unwrap()
}

const TWO: &str = "[2]";
const THREE: &str = "[2, 4]";

/// The first factor gains 2 ms by its value 2, and 3 by its value 4. The second costs 1 ms alone
/// and gains 3 beside the first at 2. The third does nothing.
fn surface() -> Surface {
    let (heap, compactors) = ("memtable_heap_space", "concurrent_compactors");
    Surface {
        base_ms: 20.0,
        effects: vec![(level(heap, "2"), -2.0), (level(heap, "4"), -3.0), (level(compactors, "2"), 1.0)],
        interactions: vec![(level(heap, "2"), level(compactors, "2"), -4.0)],
        noise: 0.01,
        ..Surface::default()
    }
}

async fn study_of(folder: &Path, plan: &Plan, surface: Surface, fault: Fault) -> Vec<Line> {
    let mut study = OpenStudy::create(folder, plan).unwrap();
    execute(&mut study, &mut Simulated::new(plan, surface, fault), |_| ()).await.unwrap();
    study.study().lines().to_vec()
}

async fn measured(plan: &Plan, surface: Surface, fault: Fault) -> (Vec<Line>, Analysis) {
    let folder = tempfile::tempdir().unwrap();
    let lines = study_of(folder.path(), plan, surface, fault).await;
    let analysis = analyse(plan, &lines);
    (lines, analysis)
}

/// The recommendation for the workload `writes`.
async fn recommended(plan: &Plan, surface: Surface) -> Finding {
    let (lines, analysis) = measured(plan, surface, Fault::None).await;
    recommend(plan, &lines, &analysis).swap_remove(0).finding
}

fn change(finding: Finding) -> Box<Change> {
    match finding {
        Finding::Better(change) => change,
        other => panic!("{other:?}"),
    }
}

fn setting(values: &[(&str, &str)]) -> Setting {
    Setting::of(values.iter().map(|(name, value)| (*name, Some(*value))))
}

#[tokio::test]
async fn one_at_a_time_finds_the_best_single_value_and_its_gain() {
    let change = change(recommended(&plan(r#"{ kind = "one-at-a-time" }"#, THREE), surface()).await);
    assert_eq!(change.setting, setting(&[("memtable_heap_space", "4")]));
    // 3 of 20 ms.
    let (low, high) = change.gain().interval.unwrap();
    assert!(low < -0.14 && high > -0.16 && (change.gain().change + 0.15).abs() < 0.02, "{change:?}");
    assert!(change.yaml[0].0.starts_with("set memtable_heap_space: 4 (was by itself)"), "{change:?}");
}

#[tokio::test]
async fn the_union_has_the_best_values_of_all_factors_and_follows_from_the_results() {
    let plan = plan(r#"{ kind = "one-at-a-time", union = true, workloads = ["writes"] }"#, TWO);
    let mut surface = surface();
    surface.effects.push((level("trickle_fsync", "2"), -2.0));
    let (lines, analysis) = measured(&plan, surface, Fault::None).await;
    let union = setting(&[("memtable_heap_space", "2"), ("trickle_fsync", "2")]);
    assert_eq!(unions(&plan, &lines), [(union.clone(), "writes".to_owned())]);
    let second: Vec<_> = lines.iter().filter(|line| line.planned.stage == 2).collect();
    let of_union = second.iter().filter(|line| line.planned.setting == union).count();
    assert_eq!(of_union, 4, "once in each block, beside the default");
    let finding = recommend(&plan, &lines, &analysis).swap_remove(0).finding;
    assert_eq!(change(finding).setting, union);
    // Single changes are measured under one workload only, the default under all.
    let of_reads = lines.iter().filter(|line| line.planned.workload == "reads");
    assert!(of_reads.clone().count() == 4 && of_reads.into_iter().all(|line| line.planned.setting.is_default()));
}

#[tokio::test]
async fn a_value_that_is_tested_once_is_in_one_block_and_in_no_union_and_is_not_recommended() {
    let mut plan = plan(r#"{ kind = "one-at-a-time", union = true, workloads = ["writes"] }"#, TWO);
    plan.factors[2].repeats = Some(1);
    plan.check().unwrap();
    assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap().factors, plan.factors);
    let mut surface = surface();
    surface.effects.push((level("trickle_fsync", "2"), -5.0));
    let (lines, analysis) = measured(&plan, surface, Fault::None).await;
    let once: Vec<_> = lines.iter().filter(|line| line.planned.setting.get("trickle_fsync").is_some()).collect();
    assert_eq!(once.iter().map(|line| line.planned.block).collect::<Vec<_>>(), [1]);
    let row = analysis.tables[0].rows.iter().find(|row| row.setting.get("trickle_fsync").is_some()).unwrap();
    assert_eq!((row.summary.values.len(), row.difference.as_ref().unwrap().p), (1, None), "it is shown");
    let finding = recommend(&plan, &lines, &analysis).swap_remove(0).finding;
    assert_eq!(change(finding).setting, setting(&[("memtable_heap_space", "2")]));
    plan.factors[2].repeats = Some(5);
    assert!(plan.check().unwrap_err().to_string().contains("repeats of trickle_fsync: 1 to 4"));
}

#[tokio::test]
async fn the_runs_that_may_follow_are_counted_with_the_controls_among_them() {
    let plan = plan(r#"{ kind = "one-at-a-time", union = true, workloads = ["writes"] }"#, TWO);
    let mut surface = surface();
    surface.effects.push((level("trickle_fsync", "2"), -2.0));
    let (lines, _) = measured(&plan, surface, Fault::None).await;
    let later: Vec<_> = lines.iter().map(|line| &line.planned).filter(|planned| planned.stage > 1).collect();
    assert!(later.iter().any(|planned| planned.is_control), "{later:?}");
    // Four blocks of two, a control among them, and five fresh pairs.
    assert_eq!((later.len(), later_stages(&plan).len()), (4 * 2 + 1 + 5 * 2, 4 * 2 + 1 + 5 * 2));
    let one = Plan { factors: plan.factors[..1].to_vec(), confirm: 0, ..plan };
    assert!(later_stages(&one).is_empty(), "one factor has no union");
}

#[tokio::test]
async fn a_grid_finds_the_optimum_that_no_single_change_shows() {
    let change = change(recommended(&plan(r#"{ kind = "grid" }"#, THREE), surface()).await);
    let best = [("memtable_heap_space", "2"), ("concurrent_compactors", "2")];
    assert!(best.iter().all(|(name, value)| change.setting.get(name) == Some(value)), "{change:?}");
}

#[tokio::test]
async fn factorial_designs_find_the_effects_and_the_interaction() {
    for design in [r#"{ kind = "factorial" }"#, r#"{ kind = "fractional", resolution = 5 }"#] {
        let plan = plan(design, TWO);
        let (_, analysis) = measured(&plan, surface(), Fault::None).await;
        let table = &analysis.tables[0];
        let of = |names: &[&str]| table.contrasts.iter().find(|contrast| contrast.factors == names).unwrap();
        let (heap, compactors) = ("memtable_heap_space", "concurrent_compactors");
        // On average over the other: −2 − 4 / 2, and 1 − 4 / 2.
        assert!((of(&[heap]).effect + 4.0).abs() < 0.3, "{design}: {:?}", of(&[heap]));
        assert!((of(&[compactors]).effect + 1.0).abs() < 0.3, "{design}: {:?}", of(&[compactors]));
        let interaction = of(&[heap, compactors]);
        assert!((interaction.effect + 2.0).abs() < 0.3 && interaction.p.unwrap() < 1e-4, "{interaction:?}");
        assert!(of(&["trickle_fsync"]).effect.abs() < 0.3, "{:?}", of(&["trickle_fsync"]));
    }
}

#[tokio::test]
async fn a_fraction_measures_fewer_settings_and_names_what_it_cannot_tell_apart() {
    let plan = plan(r#"{ kind = "fractional", resolution = 3 }"#, TWO);
    assert_eq!(plan.design.settings(&plan.factors, 1).len(), 4);
    let (_, analysis) = measured(&plan, Surface { interactions: Vec::new(), ..surface() }, Fault::None).await;
    let heap = &analysis.tables[0].contrasts[0];
    assert!((heap.effect + 2.0).abs() < 0.3, "{heap:?}");
    let expected = "memtable_heap_space × concurrent_compactors cannot be distinguished from − trickle_fsync";
    assert!(analysis.aliases.iter().any(|alias| alias == expected), "{:?}", analysis.aliases);
}

#[tokio::test]
async fn an_effect_of_a_fraction_is_named_with_what_it_cannot_be_told_from() {
    let plan = plan(r#"{ kind = "fractional", resolution = 3 }"#, TWO);
    // Each of its settings has one of these at least, and is worse.
    let costs = ["memtable_heap_space", "trickle_fsync"].map(|name| (level(name, "2"), 2.0)).to_vec();
    let finding = recommended(&plan, Surface { effects: costs, interactions: Vec::new(), ..surface() }).await;
    let Finding::NoDifference { effects, .. } = &finding else { panic!("{finding:?}") };
    let expected = "memtable_heap_space, or − concurrent_compactors × trickle_fsync";
    assert!(effects.iter().any(|effect| effect == expected), "{effects:?}");
}

#[tokio::test]
async fn a_latin_hypercube_finds_a_setting_near_the_optimum() {
    let plan = plan(r#"{ kind = "latin-hypercube", points = 9 }"#, THREE);
    let change = change(recommended(&plan, surface()).await);
    // All combinations have 15 to 21 ms, and the best of nine points is in their lower third.
    assert!(Simulated::truth_ms(&surface(), &change.setting) <= 17.0, "{change:?}");
    assert!(matches!(plan.design, Design::LatinHypercube { points: 9 }));
}

#[tokio::test]
async fn a_latin_hypercube_of_many_points_finds_the_optimum_that_only_an_interaction_makes() {
    let plan = plan(r#"{ kind = "latin-hypercube", points = 36 }"#, THREE);
    let change = change(recommended(&plan, surface()).await);
    // Alone, the second of them costs.
    let best = [("memtable_heap_space", "2"), ("concurrent_compactors", "2")];
    assert!(best.iter().all(|(name, value)| change.setting.get(name) == Some(value)), "{change:?}");
    assert_eq!(Simulated::truth_ms(&surface(), &change.setting), 15.0);
}

#[tokio::test]
async fn where_nothing_matters_no_difference_is_found() {
    let flat = Surface { base_ms: 20.0, noise: 0.05, ..Surface::default() };
    let finding = recommended(&plan(r#"{ kind = "one-at-a-time" }"#, THREE), flat).await;
    let Finding::NoDifference { visible: Some(visible), .. } = finding else { panic!("{finding:?}") };
    assert!((0.01..0.5).contains(&visible.change), "{visible:?}");
}

#[tokio::test]
async fn a_cold_java_machine_is_no_cost_of_settings_that_need_a_restart() {
    let heap = setting(&[("memtable_heap_space", "2")]);
    let cold = Surface { base_ms: 20.0, noise: 0.01, cold: 0.2, ..Surface::default() };
    let of_heap = async |restart| {
        let plan = Plan { restart, ..plan(r#"{ kind = "one-at-a-time" }"#, TWO) };
        let (lines, analysis) = measured(&plan, cold.clone(), Fault::None).await;
        let row = analysis.tables[0].rows.iter().find(|row| row.setting == heap).cloned().unwrap();
        (lines, row.difference.unwrap())
    };
    let (lines, found) = of_heap(None).await;
    assert!(lines.iter().skip(1).all(|line| line.was_restarted), "some settings need a restart, so all runs have one");
    assert!(found.p_corrected.unwrap() > 0.05 && found.change.abs() < 0.02, "{found:?}");
    // Where only some runs have one, a setting that does nothing looks worse.
    let (lines, found) = of_heap(Some(Restart::WhenChanged)).await;
    assert!(lines.iter().any(|line| !line.was_restarted) && found.change > 0.03, "{found:?}");
}

#[tokio::test]
async fn a_setting_that_puts_work_off_is_cheaper_during_the_load_and_not_until_drained() {
    let heap = setting(&[("memtable_heap_space", "2")]);
    let puts_off = Some(level("memtable_heap_space", "2"));
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let costs = ["write_amplification", "write_amplification_drained", "compacted_bytes", "compacted_bytes_drained"];
    plan.beside = costs.map(str::to_owned).to_vec();
    let (_, analysis) = measured(&plan, Surface { puts_off, ..surface() }, Fault::None).await;
    let relative = |metric: &str| {
        let table = analysis.tables.iter().find(|table| table.metric == metric && table.workload == "writes").unwrap();
        table.rows.iter().find(|row| row.setting == heap).unwrap().difference.as_ref().unwrap().change
    };
    for (during, drained) in [(costs[0], costs[1]), (costs[2], costs[3])] {
        assert!(relative(during) < -0.6 && relative(drained).abs() < 1e-9, "{during}");
    }
}

#[tokio::test]
async fn a_warm_up_is_no_part_of_costs_as_it_is_none_of_latencies() {
    let of_warm_up = async |seconds| {
        let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
        plan.workloads.iter_mut().for_each(|workload| workload.warm_up = Some(Duration::from_secs(seconds)));
        let lines = fresh::in_memory(&plan, &Surface { noise: 0.0, ..surface() }).await;
        let line = lines.into_iter().find(|line| line.planned.setting.is_default()).unwrap();
        let costs = ["node_written_bytes", "node_written_bytes_drained", "node_cpu_s", "cpu_ms_per_operation"];
        (line.planned.workload.clone(), costs.map(|cost| line.metrics[cost]))
    };
    let ((one, without), (other, with)) = (of_warm_up(0).await, of_warm_up(30).await);
    assert_eq!(one, other, "the order follows from the seed");
    for (without, with) in without.into_iter().zip(with) {
        assert!(without > 0.0 && (with / without - 1.0).abs() < 1e-6, "{without} {with}");
    }
}

#[tokio::test]
async fn a_run_that_becomes_slower_within_itself_has_a_note_that_it_was_not_steady() {
    let notes = async |drift_within| {
        let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
        (plan.repeats, plan.confirm) = (1, 0);
        let (lines, analysis) = measured(&plan, Surface { drift_within, ..surface() }, Fault::None).await;
        assert!(lines.iter().all(Line::is_valid), "it counts all the same");
        (lines.len(), analysis.notes)
    };
    for drift_within in [1.0, -0.5] {
        let (runs, notes) = notes(drift_within).await;
        assert_eq!(notes.len(), runs, "{notes:?}");
        assert!(notes.iter().all(|(_, note)| note.contains("not steady: the median went from")), "{notes:?}");
    }
    for drift_within in [0.0, 0.3] {
        assert!(notes(drift_within).await.1.is_empty());
    }
}

#[test]
fn a_node_starts_before_every_run_only_if_some_setting_needs_it() {
    let with = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let runs = known_runs(&with, &[]);
    assert_eq!((with.restarts(), restarts(&with, &runs)), (Restart::EveryRun, runs.len()));
    let mut without = with.clone();
    without.factors.retain(|factor| !factor.applied().needs_restart());
    assert_eq!((without.restarts(), restarts(&without, &runs)), (Restart::WhenChanged, 1));
    let chosen = Plan { restart: Some(Restart::EveryRun), ..without };
    assert_eq!(restarts(&chosen, &runs), runs.len());
    assert_eq!(Plan::parse(&chosen.to_toml().unwrap()).unwrap(), chosen);
}

#[tokio::test]
async fn a_setting_that_is_better_in_one_thing_and_worse_in_another_says_so() {
    let change = change(recommended(&plan(r#"{ kind = "one-at-a-time" }"#, TWO), surface()).await);
    assert!(change.costs.iter().any(|cost| cost.starts_with("processor time")), "{:?}", change.costs);
}

#[tokio::test]
async fn runs_are_in_random_order_within_blocks_with_the_default_again_and_again() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let runs = known_runs(&plan, &[]);
    assert_eq!(runs, known_runs(&plan, &[]), "the order follows from the seed");
    assert!(runs.is_sorted_by_key(|run| run.block));
    let orders: Vec<Vec<_>> = (1..=4)
        .map(|block| runs.iter().filter(|run| run.block == block && !run.is_control).map(|run| &run.setting).collect())
        .collect();
    assert!(orders.iter().all(|order| order.len() == 8) && orders[0] != orders[1], "{orders:?}");
    let controls: Vec<_> = runs.iter().filter(|run| run.is_control).collect();
    assert_eq!(controls.len(), (4 * 8 - 1) / 4);
    assert!(controls.iter().all(|run| run.setting.is_default()));
}

/// The reasons for which runs with a fault are void; and how many were not.
async fn void(fault: Fault) -> (Vec<String>, usize) {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    plan.repeats = 1;
    let (lines, analysis) = measured(&plan, surface(), fault).await;
    let reasons = analysis.void.into_iter().flat_map(|void| void.why).collect();
    (reasons, lines.iter().filter(|line| line.is_valid()).count())
}

#[tokio::test]
async fn effects_are_of_whole_blocks_and_a_setting_without_a_run_is_shown() {
    let plan = plan(r#"{ kind = "factorial" }"#, TWO);
    let (mut lines, whole) = measured(&plan, surface(), Fault::None).await;
    let contrasts = |analysis: &Analysis| (analysis.tables[0].contrasts.len(), analysis.tables[0].left_out);
    assert_eq!(contrasts(&whole), (6, 0));
    let lost = setting(&[("trickle_fsync", "2")]);
    let is_lost = |line: &&mut Line| line.planned.setting == lost && line.planned.workload == "writes";
    lines.iter_mut().find(is_lost).unwrap().void.push("lost".to_owned());
    let analysis = analyse(&plan, &lines);
    assert_eq!((contrasts(&analysis), analysis.missing.len()), ((6, 1), 0));
    lines.iter_mut().filter(is_lost).for_each(|line| line.void.push("lost".to_owned()));
    let analysis = analyse(&plan, &lines);
    assert_eq!((contrasts(&analysis), analysis.missing), ((0, 4), vec![(lost, "writes".to_owned())]));
}

#[tokio::test]
async fn factors_of_more_than_two_levels_have_no_contrasts() {
    let (_, analysis) = measured(&plan(r#"{ kind = "grid" }"#, THREE), surface(), Fault::None).await;
    assert!(analysis.tables.iter().all(|table| table.contrasts.is_empty()));
}

#[tokio::test]
async fn a_setting_that_is_not_in_force_voids_its_runs_and_no_others() {
    let (reasons, valid) = void(Fault::IgnoresSettings).await;
    assert!(reasons.iter().all(|reason| reason.contains("not 2")) && !reasons.is_empty(), "{reasons:?}");
    let defaults = 2 + 1;
    assert_eq!(valid, defaults);
}

#[tokio::test]
async fn a_setting_that_stays_voids_the_runs_after_it() {
    let (reasons, _) = void(Fault::KeepsSettings).await;
    assert!(reasons.iter().any(|reason| reason.contains("is 2, not by itself")), "{reasons:?}");
}

#[tokio::test]
async fn what_a_node_has_by_itself_may_follow_from_another_setting() {
    let follows = Some(("trickle_fsync".to_owned(), "memtable_heap_space".to_owned()));
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, THREE);
    let (_, analysis) = measured(&plan, Surface { follows, ..surface() }, Fault::None).await;
    assert!(analysis.void.is_empty(), "{:?}", analysis.void);
}

#[tokio::test]
async fn counters_of_something_else_are_caught() {
    let (reasons, valid) = void(Fault::CountsEverything).await;
    assert!(reasons.iter().all(|reason| reason.contains("the node counted")) && valid == 0, "{reasons:?}");
    let (reasons, valid) = void(Fault::Restarts).await;
    assert!(reasons.iter().all(|reason| reason.contains("went back")) && valid == 0, "{reasons:?}");
}

#[tokio::test]
async fn a_broken_throttle_is_caught() {
    let (reasons, valid) = void(Fault::BrokenThrottle).await;
    assert!(reasons.iter().all(|reason| reason.contains("above the limit")) && valid == 0, "{reasons:?}");
}

#[tokio::test]
async fn what_earlier_runs_have_left_is_caught() {
    let (reasons, valid) = void(Fault::LeavesSnapshot).await;
    assert!(reasons.iter().all(|reason| reason.contains("snapshots are left")) && valid == 2, "{reasons:?}");
    let (reasons, valid) = void(Fault::LeavesFiles).await;
    assert!(reasons.iter().all(|reason| reason.contains("earlier tables are left")) && valid == 2, "{reasons:?}");
}

#[tokio::test]
async fn a_machine_that_is_too_busy_for_the_load_is_caught() {
    let (reasons, valid) = void(Fault::LateLoad).await;
    assert!(reasons.iter().all(|reason| reason.contains("late (p99)")) && valid == 0, "{reasons:?}");
}

#[tokio::test]
async fn operations_that_were_not_done_count_and_a_setting_that_loses_more_is_not_recommended() {
    let (reasons, valid) = void(Fault::LosesOperations).await;
    assert!(reasons.is_empty() && valid > 0, "{reasons:?}");
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, THREE);
    let best = level("memtable_heap_space", "4");
    // In half of its runs the best setting loses two operations of a hundred.
    let loses = Surface { loses: Some((best.clone(), 0.02)), ..surface() };
    let (lines, analysis) = measured(&plan, loses, Fault::None).await;
    assert!(lines.iter().all(Line::is_valid));
    for found in recommend(&plan, &lines, &analysis) {
        if let Finding::Better(change) = &found.finding {
            assert_ne!(change.setting.get(&best.0), Some(best.1.as_str()));
        }
        assert!(found.caveats.iter().any(|caveat| caveat.contains("loses")), "{:?}", found.caveats);
    }
}

#[tokio::test]
async fn a_setting_that_is_better_for_sure_and_not_allowed_is_named_with_the_reason() {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    plan.factors.truncate(1);
    let lines = fresh::in_memory(&plan, &surface()).await;
    // With 20 ms an operation takes 0.1 ms of the processors, and with 18 ms 0.111 ms.
    let bound = Some(Bound { metric: "cpu_ms_per_operation".to_owned(), max: 0.105 });
    let bounded = Plan { bound, ..plan.clone() };
    bounded.check().unwrap();
    let heap = setting(&[("memtable_heap_space", "2")]);
    let mut losing = lines.clone();
    for line in losing.iter_mut().filter(|line| line.planned.setting == heap) {
        line.metrics.insert(FAILED_SHARE.to_owned(), 0.01);
    }
    for (plan, lines, reason) in [
        (&bounded, &lines, "during the load is 0.11"),
        (&bounded, &lines, "and may be at most 0.105: it is not selected."),
        (&plan, &losing, "loses 1.00 % of the operations, the default 0.00 %: it is not selected."),
    ] {
        let found = recommend(plan, lines, &analyse(plan, lines)).swap_remove(0);
        let Finding::NotAllowed { better } = &found.finding else { panic!("{found:?}") };
        assert!(better.len() == 1 && better[0].0 == heap && better[0].1.change < -0.08, "{better:?}");
        let words = lab::report::finding(&found).join("\n");
        assert!(words.contains("Better for sure, and not allowed: memtable_heap_space = 2 by −"), "{words}");
        assert!(words.contains(reason) && !words.contains("no difference found"), "{reason}: {words}");
    }
}

#[tokio::test]
async fn how_late_a_load_may_be_sent_is_said_by_the_plan() {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    (plan.repeats, plan.lateness_max) = (1, Duration::from_millis(300));
    let (lines, _) = measured(&plan, surface(), Fault::LateLoad).await;
    assert!(lines.iter().all(Line::is_valid));
}

#[tokio::test]
async fn drift_is_caught_and_then_nothing_is_recommended() {
    let drifting = Surface { drift_per_run: 0.01, ..surface() };
    let finding = recommended(&plan(r#"{ kind = "one-at-a-time" }"#, THREE), drifting).await;
    assert!(matches!(&finding, Finding::Drift(drift) if drift.change > 0.2), "{finding:?}");
}

#[tokio::test]
async fn a_run_that_fails_is_made_again_at_most_so_often() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let (lines, _) = measured(&plan, surface(), Fault::FailsSometimes).await;
    assert!(lines.iter().any(|line| line.attempt == 2 && line.is_valid()));
    let runs = known_runs(&plan, &lines).len();
    assert_eq!(lines.iter().filter(|line| line.is_valid()).count(), runs);
    let (lines, _) = measured(&plan, surface(), Fault::LateLoad).await;
    assert_eq!(lines.len(), known_runs(&plan, &[]).len() * ATTEMPTS_MAX as usize, "nothing is selected");
}

#[tokio::test]
async fn a_study_goes_on_where_it_ended_and_loses_no_run() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let folder = tempfile::tempdir().unwrap();
    let whole = study_of(folder.path(), &plan, surface(), Fault::None).await;
    // All but ten lines, and the beginning of the next one.
    let path = folder.path().join("runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let ten: String = text.lines().take(10).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, format!("{ten}{}", &text.lines().nth(10).unwrap()[..50])).unwrap();
    let planned = |lines: &[Line]| lines.iter().map(|line| line.planned.clone()).collect::<Vec<_>>();
    assert_eq!(planned(Study::read(folder.path()).unwrap().lines()), planned(&whole[..10]));
    let mut study = OpenStudy::open(folder.path()).unwrap();
    let fresh = |lines: &[Line]| lines.iter().filter(|line| line.planned.stage == FRESH).count();
    assert_eq!(runs_left(&plan, study.study().lines()).len(), whole.len() - fresh(&whole) - 10);
    let mut shown = Vec::new();
    let mut node = Simulated::new(&plan, surface(), Fault::None);
    execute(&mut study, &mut node, |progress| shown.push((progress.done, progress.left.as_secs()))).await.unwrap();
    drop(study);
    let resumed = Study::read(folder.path()).unwrap();
    assert_eq!(planned(resumed.lines()), planned(&whole));
    // Times are those of this machine, but each further run takes its load's ten seconds away. What
    // is measured afresh is known only once all others are done.
    assert_eq!((shown[0].0, shown.last().unwrap()), (10, &(whole.len(), 0)));
    let known = shown.iter().take_while(|(done, _)| done + fresh(&whole) < whole.len());
    assert!(known.is_sorted_by_key(|(_, left_s)| std::cmp::Reverse(*left_s)), "{shown:?}");
    assert!(runs_left(&plan, resumed.lines()).is_empty());
}

#[tokio::test]
async fn a_folder_has_one_study_and_one_process_that_adds_to_it() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let folder = tempfile::tempdir().unwrap();
    let open = OpenStudy::create(folder.path(), &plan).unwrap();
    assert!(matches!(OpenStudy::open(folder.path()), Err(StudyError::Held(_))));
    drop(open);
    assert!(matches!(OpenStudy::create(folder.path(), &plan), Err(StudyError::Exists(_))));
    assert!(matches!(OpenStudy::open(&folder.path().join("absent")), Err(StudyError::Absent(_))));
    assert_eq!(Study::read(folder.path()).unwrap().plan(), &plan, "the plan is kept as it is");
}

#[tokio::test]
async fn a_study_does_not_go_on_on_another_machine() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let folder = tempfile::tempdir().unwrap();
    let mut study = OpenStudy::create(folder.path(), &plan).unwrap();
    let facts = |machine: &str| lab::rig::Facts { facts: [("machine".to_owned(), machine.to_owned())].into() };
    assert!(study.set_facts(&facts("one")).unwrap().is_empty());
    let mut node = Simulated::new(&plan, surface(), Fault::None);
    let error = execute(&mut study, &mut node, |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("machine was one, is simulated"), "{error}");
    assert!(study.study().lines().is_empty());
}

#[tokio::test]
async fn a_study_does_not_go_on_with_another_plan() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let folder = tempfile::tempdir().unwrap();
    let whole = study_of(folder.path(), &plan, surface(), Fault::None).await;
    let resumed = async || {
        let mut study = OpenStudy::open(folder.path()).unwrap();
        let plan = study.study().plan().clone();
        execute(&mut study, &mut Simulated::new(&plan, surface(), Fault::None), |_| ()).await.unwrap_err()
    };
    let path = folder.path().join("plan.toml");
    let changed = std::fs::read_to_string(&path).unwrap().replace("rate = 1000.0", "rate = 900.0");
    std::fs::write(&path, changed).unwrap();
    let error = resumed().await;
    assert!(error.to_string().contains("plan.toml was sha256:"), "{error}");
    // Runs of another order are no runs of this plan.
    std::fs::write(&path, plan.to_toml().unwrap()).unwrap();
    let runs = folder.path().join("runs.jsonl");
    let text = std::fs::read_to_string(&runs).unwrap();
    std::fs::write(&runs, text.replacen("\"block\":1", "\"block\":2", 1)).unwrap();
    assert!(matches!(resumed().await, ExecuteError::OtherPlan(1)));
    assert_eq!(Study::read(folder.path()).unwrap().lines().len(), whole.len());
}

#[tokio::test]
async fn a_study_of_another_build_or_without_its_facts_does_not_go_on() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let folder = tempfile::tempdir().unwrap();
    study_of(folder.path(), &plan, surface(), Fault::None).await;
    let path = folder.path().join("facts.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let resumed = async || {
        let mut study = OpenStudy::open(folder.path())?;
        let mut node = Simulated::new(&plan, surface(), Fault::None);
        Ok::<_, StudyError>(execute(&mut study, &mut node, |_| ()).await.map_err(|error| error.to_string()))
    };
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    for fact in ["build", "restart", "confirm", "jmx", "simulated"] {
        let mut without = facts.clone();
        assert!(without["facts"].as_object_mut().unwrap().remove(fact).is_some(), "{fact}");
        std::fs::write(&path, without.to_string()).unwrap();
        let error = resumed().await.unwrap().unwrap_err();
        let expected = if fact == "build" { "was begun by an older build" } else { &format!("{fact} was unknown") };
        assert!(error.contains(expected), "{error}");
    }
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(resumed().await, Err(StudyError::Facts { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(resumed().await.unwrap().unwrap_err().contains("has runs and no facts.json"));
    std::fs::write(&path, text).unwrap();
    resumed().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_node_that_ends_stops_the_study_and_uses_up_no_run() {
    let plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let folder = tempfile::tempdir().unwrap();
    let mut study = OpenStudy::create(folder.path(), &plan).unwrap();
    let ends = &mut Simulated::new(&plan, surface(), Fault::Ends);
    let error = execute(&mut study, ends, |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("does not run with its default"), "{error}");
    assert!(study.study().lines().len() == 4 && study.study().lines().iter().all(Line::is_valid));
    execute(&mut study, &mut Simulated::new(&plan, surface(), Fault::None), |_| ()).await.unwrap();
    assert!(study.study().lines().iter().all(|line| line.is_valid() && line.attempt == 1));
}

#[test]
fn a_plan_that_makes_no_sense_is_refused_and_says_where() {
    let good = plan(r#"{ kind = "one-at-a-time" }"#, TWO).to_toml().unwrap();
    for (from, to, expected) in [
        ("rate = 1000.0", "rate = 0.0", "a rate from"),
        ("p99_ms", "p98_ms", "known metrics are"),
        ("name = \"trickle_fsync\"", "name = \"no_such_setting\"", "say how it is applied"),
        ("name = \"reads\"", "name = \"writes\"", "a name is there once"),
        ("name = \"reads\"", "name = \"10/90\"", "small letters, digits and hyphens"),
        ("duration = \"10s\"", "duration = \"2days\"", "at most a day"),
        ("kind = \"one-at-a-time\"", "kind = \"fractional\"\nresolution = 9", "resolution from 3 to 6"),
        ("kind = \"one-at-a-time\"", "kind = \"bayesian\"\npoints = 1\nbudget = \"1h\"", "2 to 4096 points"),
        ("kind = \"one-at-a-time\"", "kind = \"bayesian\"\npoints = 9", "missing field `budget`"),
        ("values = [\"2\"]", "values = [\"2\", \"2\"]", "is there twice"),
        (
            "values = [\"2\"]\n\n[[factors]]\nname = \"trickle",
            "values = [\"many\"]\n\n[[factors]]\nname = \"trickle",
            "does not take many",
        ),
        ("jvm_options = []", "jvm_options = [\"-Xmx4g\"]", "the heap is set by"),
        ("count = 1", "count = 10", "1 to 9 nodes"),
        (
            "[[factors]]",
            "[[factors]]\nname = \"container\"\nvalues = [\"memory=1GiB\"]\n\n[[factors]]",
            "256 MiB more than the largest heap",
        ),
        ("copies = 1", "copies = 2", "2 copies need as many"),
        ("consistency = \"ONE\"", "consistency = \"FOUR\"", "of writes and reads: TWO/ONE"),
        ("consistency = \"ONE\"", "consistency = \"TWO\"", "2 copies have to answer, and there are 1"),
    ] {
        assert!(good.contains(from), "{from}: {good}");
        let text = good.replace("union = false\n", "").replacen(from, to, 1);
        let error = Plan::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn a_plan_of_too_many_runs_is_refused() {
    let many = (1..=60).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let text = plan(r#"{ kind = "one-at-a-time" }"#, TWO).to_toml().unwrap().replace("repeats = 4", "repeats = 1000");
    let error = Plan::parse(&text.replace("[\"2\"]", &format!("[{many}]"))).unwrap_err().to_string();
    assert!(error.contains("at most 100000 runs"), "{error}");
}

#[test]
fn an_objective_that_is_never_measured_and_a_load_without_end_are_refused() {
    let good = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    let refused = |plan: &Plan| plan.check().unwrap_err().to_string();
    let of_mbeans = Plan { objective: "gc_ms".to_owned(), ..good.clone() };
    of_mbeans.check().unwrap();
    let mut without = of_mbeans;
    without.node.jmx = false;
    assert!(refused(&without).contains("node.jmx has to be true"));
    let mut no_writes = Plan { objective: "write_p99_ms".to_owned(), ..good.clone() };
    no_writes.workloads[1].mix.write = 0.0;
    assert!(refused(&no_writes).contains("the workload reads has no such operations"));
    let mut endless = good.clone();
    (endless.workloads[0].rate, endless.workloads[0].duration) = (1e6, Duration::from_secs(3_600));
    assert!(refused(&endless).contains("at most 1,000,000,000 operations"));
    let mut many_series = good.clone();
    many_series.data.partitions = Partitions::TimeSeries { series: many_series.data.records + 1, read: 1 };
    assert!(refused(&many_series).contains("at most as many as records"));
    let mut short = good.clone();
    short.data.ttl = Some(Duration::from_millis(1_500));
    assert!(refused(&short).contains("a ttl of whole seconds"));
    let mut huge = good;
    huge.data.records = u64::MAX;
    assert!(refused(&huge).contains("10000000000 records"));
}

#[test]
fn a_plan_with_very_many_values_is_refused_at_once() {
    let many = (1..=200_000).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let text = plan(r#"{ kind = "one-at-a-time" }"#, TWO).to_toml().unwrap().replace("[\"2\"]", &format!("[{many}]"));
    assert!(Plan::parse(&text).unwrap_err().to_string().contains("1 to 1000 values"));
}

#[test]
fn the_default_is_measured_again_under_each_workload_in_turn() {
    let runs = known_runs(&plan(r#"{ kind = "one-at-a-time" }"#, TWO), &[]);
    let controls: Vec<_> = runs.iter().filter(|run| run.is_control).map(|run| run.workload.as_str()).collect();
    assert_eq!(&controls[..4], ["writes", "reads", "writes", "reads"]);
}

#[tokio::test]
async fn a_drift_that_three_runs_of_each_workload_show_together_stops_every_recommendation() {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, THREE);
    (plan.repeats, plan.control_every) = (3, 0);
    let (mut lines, _) = measured(&plan, surface(), Fault::None).await;
    for line in &mut lines {
        let value = line.metrics["p99_ms"] * 1.02_f64.powi(line.planned.number as i32);
        line.metrics.insert("p99_ms".to_owned(), value);
    }
    let analysis = analyse(&plan, &lines);
    for found in recommend(&plan, &lines, &analysis) {
        assert!(matches!(found.finding, Finding::Drift(_)), "{found:?}");
    }
}
