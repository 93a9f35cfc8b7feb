//! A closed loop, for likeness only: a search finds its threads, its figures are those of the threads,
//! and nothing is recommended.

use std::collections::BTreeSet;
use std::fs;

use lab::closed::{Closed, THREADS, WARNING};
use lab::hold::Hold;
use lab::plan::Plan;
use lab::recommend::Finding;
use lab::report::{Report, finding, warnings};
use lab::schedule::FRESH;
use lab::simulated::{Fault, Surface};
use lab::study::Study;

use super::{TWO, measured, plan, study_of, surface};

fn closed() -> Plan {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    plan.workloads.iter_mut().for_each(|workload| workload.closed = Some(Closed::SEARCH));
    plan.check().unwrap();
    plan
}

/// A node whose throughput is highest at a hundred threads.
fn contended() -> Surface {
    Surface { capacity_per_s: Some(2_000.0), contention: 0.001, ..surface() }
}

#[tokio::test]
async fn a_search_finds_the_threads_once_for_each_workload_and_the_figures_follow_from_them() {
    let plan = closed();
    assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan);
    let (lines, _) = measured(&plan, contended(), Fault::None).await;
    for name in ["writes", "reads"] {
        let lines: Vec<_> = lines.iter().filter(|line| line.planned.workload == name).collect();
        assert!(lines.iter().all(|line| line.is_valid()), "{:?}", lines[0]);
        let threads: BTreeSet<_> = lines.iter().map(|line| line.metrics[THREADS] as u32).collect();
        // Of the steps of the search, 81 and 121 threads are nearest to a hundred.
        assert!(threads.len() == 1 && threads.iter().all(|threads| [81, 121].contains(threads)), "{threads:?}");
        let searches = lines.iter().flat_map(|line| &line.notes).filter(|note| note.contains("a search"));
        let searches: Vec<_> = searches.collect();
        assert!(searches.len() == 1 && searches[0].contains("181: ") && !searches[0].contains("406: "), "{searches:?}");
        // However fast the setting is, threads are rate times time.
        for line in lines {
            let product = line.metrics["rate_per_s"] * line.metrics["mean_ms"] / 1e3;
            assert!((product / line.metrics[THREADS] - 1.0).abs() < 1e-6, "{line:?}");
        }
    }
    assert!(lines.iter().all(|line| line.planned.stage != FRESH), "nothing is selected");
}

#[tokio::test]
async fn where_throughput_only_levels_off_the_search_ends_with_the_most_threads() {
    let mut plan = closed();
    plan.repeats = 1;
    let level = Surface { capacity_per_s: Some(2_000.0), noise: 0.0, ..surface() };
    let (lines, _) = measured(&plan, level, Fault::None).await;
    assert!(lines.iter().all(|line| line.metrics[THREADS] == 913.0), "{:?}", lines[0]);
}

#[tokio::test]
async fn every_figure_of_a_closed_loop_has_the_warning_and_nothing_is_recommended() {
    let folder = tempfile::tempdir().unwrap();
    study_of(folder.path(), &closed(), contended(), Fault::None).await;
    let study = Study::read(folder.path()).unwrap();
    let report = Report::of(&study);
    assert_eq!(warnings(&report), [WARNING]);
    for recommendation in &report.recommendations {
        assert!(matches!(recommendation.finding, Finding::ClosedLoop), "{recommendation:?}");
        let words = finding(recommendation).join(" ");
        assert!(words.contains(&format!("nothing is recommended. {WARNING}")), "{words}");
    }
    let page = fs::read_to_string(report.write(folder.path()).unwrap()).unwrap();
    assert!(page.contains("Defaults by mix (mean ± RMSE) (closed loop: mostly the number of threads)"));
    assert!(!page.contains("at an equal rate?"), "there is no such rate");
    let files = fs::read_dir(folder.path().join("figures")).unwrap();
    let figures: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert!(!figures.is_empty());
    for figure in figures {
        assert!(fs::read_to_string(&figure).unwrap().contains(WARNING), "{}", figure.display());
    }
}

#[test]
fn a_plan_has_closed_loops_only_or_none_and_they_have_no_rate_to_hold() {
    let refusal = |change: fn(&mut Plan)| {
        let mut plan = closed();
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    };
    assert!(refusal(|plan| plan.workloads[1].closed = None).contains("all are closed loops, or none is"));
    assert!(refusal(|plan| plan.workloads[0].closed = Some(Closed::of(0))).contains("1 to 1,000 threads"));
    let held = refusal(|plan| {
        plan.workloads[0].hold = Some(Hold { metric: "p99_ms".to_owned(), max: 20.0, precision: 1.1 });
    });
    assert!(held.contains("either `closed` or `hold`"), "{held}");
}
