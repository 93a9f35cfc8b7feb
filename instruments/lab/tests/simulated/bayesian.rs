//! Bayesian designs on a simulated node.

use lab::execute::{rounds, time};
use lab::report::Report;
use lab::search::proposals;

use super::*;

const FACTORS: [&str; 4] =
    ["memtable_heap_space", "concurrent_compactors", "memtable_flush_writers", "native_transport_max_threads"];

/// Four factors of five levels: a grid has 625 combinations.
fn plan(budget: &str, also: &str) -> Plan {
    let factor = |name: &&str| format!("[[factors]]\nname = \"{name}\"\ndefault = 1\nvalues = [2, 3, 4, 5]\n");
    let text = format!(
        r#"
        name = "bayesian"
        repeats = 3
        objective = "p99_ms"
        {also}
        design = {{ kind = "bayesian", points = 10, budget = "{budget}" }}
        workloads = [{{ name = "writes", mix = {{ write = 90, read = 10 }}, rate = 100, duration = "10s" }}]
        {}
        "#,
        FACTORS.iter().map(factor).collect::<String>()
    );
    Plan::parse(&text).unwrap()
}

/// The first two factors have a valley at 4, deeper where both are there. The others do nothing.
fn valley() -> Surface {
    let [first, second, ..] = FACTORS;
    let depth = |value: u32| -2.0 * (3.0 - f64::from(value.abs_diff(4)));
    let effects = [first, second].into_iter().flat_map(|name| (2..=5).map(move |value| (name, value)));
    Surface {
        base_ms: 30.0,
        effects: effects.map(|(name, value)| (level(name, &value.to_string()), depth(value))).collect(),
        interactions: vec![(level(first, "4"), level(second, "4"), -3.0)],
        noise: 0.01,
        ..Surface::default()
    }
}

fn of_design(lines: &[Line]) -> usize {
    lines.iter().filter(|line| line.planned.stage != FRESH).count()
}

#[tokio::test]
async fn a_bayesian_design_finds_the_best_of_a_grid_in_a_tenth_of_its_runs() {
    let plan = plan("30m", "");
    let (lines, analysis) = measured(&plan, valley(), Fault::None).await;
    let found = change(recommend(&plan, &lines, &analysis).swap_remove(0).finding);
    let [first, second, ..] = FACTORS;
    assert_eq!((found.setting.get(first), found.setting.get(second)), (Some("4"), Some("4")), "{found:?}");
    let grid = 5_usize.pow(4) * plan.repeats as usize;
    assert!(of_design(&lines) * 10 <= grid, "{} of {grid}", of_design(&lines));
}

#[tokio::test]
async fn a_bayesian_design_keeps_to_its_budget() {
    let plan = plan("30m", "");
    let (lines, _) = measured(&plan, valley(), Fault::None).await;
    let runs = of_design(&lines);
    // Each run takes twenty seconds with its warm-up.
    assert!(runs <= 90 && runs > 60, "{runs}");
    let all = rounds(&plan, &lines);
    assert!(!all.is_empty() && all.iter().all(|(_, proposal)| proposal.keeps_bound.is_none()), "{all:?}");
    let measured: std::collections::BTreeSet<_> = lines.iter().map(|line| &line.planned.setting).collect();
    assert!(all.iter().all(|(_, proposal)| measured.contains(&proposal.setting)), "{all:?}");
}

#[tokio::test]
async fn a_run_of_which_no_load_was_made_takes_no_more_of_the_budget_than_its_own_time() {
    let within = |seconds: u64| plan(&format!("{seconds}s"), "confirm = 0");
    // The time is too short for a round.
    let short = within(60);
    let mut lines = super::fresh::in_memory(&short, &valley()).await;
    let first = lines.len();
    let round = known_runs(&within(3_600), &lines).len() - first;
    assert!(round > 0, "the time is enough for one");
    // Each run takes twenty seconds with its warm-up, and a node that does not start takes one.
    let enough = within(20 * (first + round) as u64 + 5);
    let mut void = lines[0].clone();
    void.void.push("the node did not start".to_owned());
    void.metrics.clear();
    void.took_s = 1.0;
    lines.extend([void.clone(), void.clone(), void.clone()]);
    assert_eq!(known_runs(&enough, &lines).len(), first + round);
    // Nor does it say how long others take: these wait for their loads.
    let left = known_runs(&short, &[]);
    let loads = Duration::from_secs(20 * left.len() as u64);
    assert!(time(&short, left.iter(), &[void]) > loads);
}

#[tokio::test]
async fn a_bayesian_design_that_is_resumed_chooses_the_same_settings() {
    let plan = plan("30m", "");
    let folder = tempfile::tempdir().unwrap();
    let whole = study_of(folder.path(), &plan, valley(), Fault::None).await;
    let path = folder.path().join("runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    // In the middle of the second round.
    let kept = of_design(&whole) - 5;
    std::fs::write(&path, text.lines().take(kept).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let mut study = OpenStudy::open(folder.path()).unwrap();
    execute(&mut study, &mut Simulated::new(&plan, valley(), Fault::None), |_| ()).await.unwrap();
    let planned = |lines: &[Line]| {
        lines.iter().map(|line| line.planned.clone()).filter(|run| run.stage != FRESH).collect::<Vec<_>>()
    };
    assert_eq!(planned(study.study().lines()), planned(&whole));
}

#[tokio::test]
async fn a_setting_over_the_bound_is_not_recommended() {
    // What is fast costs processor time: the best setting, with 15 ms, costs 0.133 ms for each operation.
    let also = "beside = [\"cpu_ms_per_operation\"]\nbound = { metric = \"cpu_ms_per_operation\", max = 0.12 }";
    let plan = plan("30m", also);
    let (lines, analysis) = measured(&plan, valley(), Fault::None).await;
    let found = change(recommend(&plan, &lines, &analysis).swap_remove(0).finding);
    let truth = Simulated::truth_ms(&valley(), &found.setting);
    // The best of the others has 20 ms.
    assert!((19.9..=22.1).contains(&truth), "{truth}: {found:?}");
    // The last round has settings that were expected to keep it.
    let all = rounds(&plan, &lines);
    let last = all.last().unwrap().0;
    let of_last: Vec<_> = all.iter().filter(|(round, _)| *round == last).collect();
    assert!(of_last.iter().any(|(_, proposal)| proposal.keeps_bound.unwrap() >= 0.5), "{of_last:?}");
}

#[tokio::test]
async fn a_setting_that_does_not_run_is_not_proposed_again() {
    // The time is too short for a round.
    let plan = plan("1m", "confirm = 0");
    let mut lines = super::fresh::in_memory(&plan, &valley()).await;
    let first = proposals(&plan, &lines, 1);
    for proposal in &first {
        let mut line = lines[0].clone();
        (line.planned.stage, line.planned.setting) = (2, proposal.setting.clone());
        line.attempt = ATTEMPTS_MAX;
        line.void.push("the node did not start".to_owned());
        lines.push(line);
    }
    let second = proposals(&plan, &lines, 2);
    assert_eq!((first.len(), second.len()), (4, 4));
    let is_new = |setting: &Setting| first.iter().all(|proposal| &proposal.setting != setting);
    assert!(second.iter().all(|proposal| is_new(&proposal.setting)), "{first:?} {second:?}");
}

#[tokio::test]
async fn a_page_of_a_bayesian_study_has_no_union_of_best_values() {
    let mut plan = plan("25m", "confirm = 0");
    plan.factors.truncate(2);
    let folder = tempfile::tempdir().unwrap();
    let lines = study_of(folder.path(), &plan, valley(), Fault::None).await;
    assert!(lines.iter().any(|line| line.planned.stage == 2), "it has rounds");
    let study = Study::read(folder.path()).unwrap();
    let page = std::fs::read_to_string(Report::of(&study).write(folder.path()).unwrap()).unwrap();
    assert!(!page.contains("Union of the best values") && !page.contains("Are the best values together"));
}
