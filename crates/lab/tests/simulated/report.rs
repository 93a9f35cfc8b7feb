//! The tables and figures of the thesis on tuning compaction, by the same names.

use std::fs;

use lab::report::Report;
use lab::simulated::{Fault, level};
use lab::study::Study;

use super::{TWO, plan, study_of, surface};

#[tokio::test]
async fn a_page_has_the_tables_and_figures_of_the_thesis() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(r#"{ kind = "one-at-a-time", union = true, workloads = ["writes"] }"#, TWO);
    plan.factors[0].default = Some("1".to_owned());
    let mut surface = surface();
    surface.effects.push((level("trickle_fsync", "2"), -2.0));
    let lines = study_of(folder.path(), &plan, surface, Fault::None).await;
    // A simulated node has no seconds; the first run of each study of a real one has such a file.
    for line in lines.iter().filter(|line| line.planned.block == 1) {
        let run = folder.path().join(format!("runs/{:05}-1/seconds.csv", line.planned.number));
        fs::write(run, "at_s,due,mean_ms,p50_ms,p99_ms,max_ms\n0,10,1.0,1.0,5.5,6.0\n1,10,1.0,1.0,7.5,8.0\n").unwrap();
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
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Single values were measured under one mix only.
    assert!(!page.contains("KPI by value of memtable_heap_space under reads"));
    for figure in ["repeats-memtable_heap_space-writes", "value-memtable_heap_space-writes", "time-writes"] {
        let svg = fs::read_to_string(folder.path().join(format!("figures/{figure}.svg"))).unwrap();
        assert!(svg.contains("<svg") && svg.len() > 1_000, "{figure}");
    }
    // The default of this one is no number, so there is one point only.
    assert!(!folder.path().join("figures/value-trickle_fsync-writes.svg").exists());
}
