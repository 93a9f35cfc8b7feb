//! The tables and figures of the thesis on tuning compaction, by the same names.

use std::fs;

use lab::report::{Report, warnings};
use lab::simulated::{Fault, level};
use lab::study::Study;

use super::{TWO, plan, study_of, surface};

#[tokio::test]
async fn a_page_has_the_tables_and_figures_of_the_thesis() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(r#"{ kind = "one-at-a-time", union = true, workloads = ["writes"] }"#, TWO);
    plan.factors[0].default = Some("1".to_owned());
    plan.node.heap_mib = Some(512);
    let mut surface = surface();
    surface.effects.push((level("trickle_fsync", "2"), -2.0));
    let lines = study_of(folder.path(), &plan, surface, Fault::None).await;
    // A simulated node has no seconds; the first run of each study of a real one has such a file.
    for line in lines.iter().filter(|line| line.planned.block == 1) {
        let run = folder.path().join(format!("runs/{:05}-1", line.planned.number));
        let seconds = "at_s,due,mean_ms,p50_ms,p99_ms,max_ms\n0,10,1.0,1.0,5.5,6.0\n1,10,1.0,1.0,7.5,8.0\n";
        fs::write(run.join("seconds.csv"), seconds).unwrap();
        // Nor flushes.
        if line.planned.workload == "writes" {
            fs::write(run.join("flushes.csv"), "second,sum_of_bytes_per_s,seconds\n0,20.0,2\n1,60.0,2\n").unwrap();
        }
    }
    let study = Study::read(folder.path()).unwrap();
    let page = fs::read_to_string(Report::of(&study).write(folder.path()).unwrap()).unwrap();
    for part in [
        "Defaults by mix (mean ± RMSE)",
        "KPI by value of memtable_heap_space under writes",
        "default (1)",
        "mean latency of operations (ms)",
        "Best values of each parameter alone, by p99_ms",
        "Union of the best values against default under writes: memtable_heap_space = 2, trickle_fsync = 2",
        "More bytes compacted, more compactions and a higher rate of them are costs here, not aims",
        "Measured beside: concurrent_compactors = by itself (the node's own), heap = 512 MiB",
        "Are the best values together worse than the default?</dt><dd>No, better: memtable_heap_space = 2, trickle_fsync = 2 under writes −",
        "Is a mix with more writes slower at an equal rate?</dt><dd>No difference found. 2",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Single values were measured under one mix only.
    assert!(!page.contains("KPI by value of memtable_heap_space under reads"));
    let figures =
        ["repeats-memtable_heap_space-writes", "value-memtable_heap_space-writes", "time-writes", "flushes-writes"];
    for figure in figures {
        let svg = fs::read_to_string(folder.path().join(format!("figures/{figure}.svg"))).unwrap();
        assert!(svg.contains("<svg") && svg.len() > 1_000, "{figure}");
    }
    assert!(!folder.path().join("figures/flushes-reads.svg").exists(), "no run under reads has any");
    // The default of this one is no number, so there is one point only.
    assert!(!folder.path().join("figures/value-trickle_fsync-writes.svg").exists());
}

#[tokio::test]
async fn a_balanced_design_has_a_plot_of_the_interactions_of_each_two_factors() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(r#"{ kind = "factorial" }"#, TWO);
    study_of(folder.path(), &plan, surface(), Fault::None).await;
    let study = Study::read(folder.path()).unwrap();
    Report::of(&study).write(folder.path()).unwrap();
    let svg = fs::read_to_string(folder.path().join("figures/interactions-writes.svg")).unwrap();
    for part in ["memtable_heap_space = 2", "concurrent_compactors = default", "trickle_fsync"] {
        assert!(svg.contains(part), "{part}");
    }
    // Three factors have three pairs, each with two lines of two points.
    assert_eq!(svg.matches("<circle").count(), 3 * 2 * 2, "{svg}");
}

#[tokio::test]
async fn a_plot_of_interactions_has_only_blocks_of_which_all_runs_count() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(r#"{ kind = "factorial" }"#, TWO);
    study_of(folder.path(), &plan, surface(), Fault::None).await;
    // The first run, under one of the two workloads.
    let path = folder.path().join("runs.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().next().unwrap().contains("\"void\":[]"), "{text}");
    fs::write(&path, text.replacen("\"void\":[]", "\"void\":[\"lost\"]", 1)).unwrap();
    let study = Study::read(folder.path()).unwrap();
    Report::of(&study).write(folder.path()).unwrap();
    let figure = |workload: &str| folder.path().join(format!("figures/interactions-{workload}.svg"));
    let figures = ["writes", "reads"].map(|workload| fs::read_to_string(figure(workload)).unwrap());
    let without = "without 1 blocks of which not all runs count";
    assert_eq!(figures.iter().filter(|svg| svg.contains(without)).count(), 1);
    assert!(figures.iter().all(|svg| svg.matches("<circle").count() == 3 * 2 * 2));
}

#[tokio::test]
async fn figures_of_compactions_are_shown_with_the_warning_that_more_is_a_cost() {
    for (beside, is_warned) in [("compacted_bytes_drained", true), ("cpu_ms_per_operation", false)] {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
        plan.beside = vec![beside.to_owned()];
        study_of(folder.path(), &plan, surface(), Fault::None).await;
        let study = Study::read(folder.path()).unwrap();
        let report = Report::of(&study);
        let warnings = warnings(&report);
        let has_it = warnings.iter().any(|text| text.contains("are costs here, not aims"));
        assert_eq!((has_it, warnings.len()), (is_warned, usize::from(is_warned)), "{warnings:?}");
        // What a change was measured beside is there for programs too.
        let json = report.json();
        let beside = &json["recommendations"][0]["finding"]["beside"];
        assert!(beside.as_array().unwrap().iter().any(|one| one["name"] == "trickle_fsync"), "{beside}");
    }
}
