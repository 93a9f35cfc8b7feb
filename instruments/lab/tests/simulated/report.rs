//! The tables and figures of the thesis on tuning compaction, by the same names.

use std::fs;
use std::path::Path;

use lab::factor::Factor;
use lab::line::Line;
use lab::report::{Report, sections, warnings};
use lab::simulated::{Fault, Surface, level};
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
    plan.factors.push(Factor {
        name: "compaction_throughput".to_owned(),
        default: Some("16MiB/s".to_owned()),
        values: vec!["32MiB/s".to_owned()],
        repeats: None,
        applied: None,
    });
    surface.effects.push((level("compaction_throughput", "32MiB/s"), 2.0));
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
        "beside: concurrent_compactors = by itself (the node's own), compaction_throughput = 16MiB/s, heap = 512 MiB",
        "Are the best values together worse than the default?</dt><dd>No, better: memtable_heap_space = 2, trickle_fsync = 2 under writes −",
        "Do more writes make more compactions?</dt><dd>No difference found. ",
        "Does the limit of compactions make a difference?</dt><dd>Yes: compaction_throughput = 32MiB/s under writes +",
        "Is a mix with fewer writes slower at an equal rate?</dt><dd>",
        "the machine that was measured: simulated",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Programs have them too.
    let json = fs::read(folder.path().join("report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["questions"].as_array().unwrap().len(), 4, "{}", json["questions"]);
    assert!(json["kpi"].as_array().unwrap().iter().any(|grid| grid["title"] == "Defaults by mix (mean ± RMSE)"));
    // Single values were measured under one mix only.
    assert!(!page.contains("KPI by value of memtable_heap_space under reads"));
    let figures =
        ["repeats-memtable_heap_space-writes", "value-memtable_heap_space-writes", "time-writes", "flushes-writes"];
    for figure in figures {
        let svg = fs::read_to_string(folder.path().join(format!("figures/{figure}.svg"))).unwrap();
        assert!(svg.contains("<svg") && svg.len() > 1_000, "{figure}");
    }
    // A mean of each value has the RMSE up and down, in the colours of the default and of others.
    let svg = fs::read_to_string(folder.path().join("figures/value-memtable_heap_space-writes.svg")).unwrap();
    for colour in ["#D55E00", "#0072B2"] {
        assert!(svg.contains(&format!("stroke=\"{colour}\" stroke-width=\"2\"")), "{colour}: {svg}");
    }
    // A front of Pareto has each setting once.
    let svg = fs::read_to_string(folder.path().join("figures/pareto-writes.svg")).unwrap();
    let settings: std::collections::BTreeSet<_> =
        lines.iter().filter(|line| line.planned.workload == "writes").map(|line| &line.planned.setting).collect();
    assert_eq!(svg.matches("r=\"4\"").count(), settings.len(), "{svg}");
    assert!(!folder.path().join("figures/flushes-reads.svg").exists(), "no run under reads has any");
    // The default of this one is no number, so there is one point only.
    assert!(!folder.path().join("figures/value-trickle_fsync-writes.svg").exists());
}

/// The page of a study of two limits of compactions, which make no difference.
async fn page_of_limits(folder: &Path, [default, value]: [&str; 2]) -> String {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    (plan.repeats, plan.confirm) = (2, 0);
    plan.factors.truncate(1);
    plan.factors[0].name = "compaction_throughput".to_owned();
    plan.factors[0].default = Some(default.to_owned());
    plan.factors[0].values = vec![value.to_owned()];
    plan.check().unwrap();
    study_of(folder, &plan, Surface { noise: 0.0, ..surface() }, Fault::None).await;
    let study = Study::read(folder).unwrap();
    fs::read_to_string(Report::of(&study).write(folder).unwrap()).unwrap()
}

#[tokio::test]
async fn that_a_limit_which_no_run_can_reach_makes_no_difference_is_shown_as_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let question = "Does the limit of compactions make a difference?</dt><dd>";
    let never = page_of_limits(&folder.path().join("never"), ["16MiB/s", "32MiB/s"]).await;
    let said = format!("{question}This plan cannot show one, and none was found by 2 values and mixes: compaction");
    assert!(never.contains(&said) && never.contains("Note: compaction_throughput: a run under writes"), "{never}");
    let often = page_of_limits(&folder.path().join("often"), ["1MiB/s", "2MiB/s"]).await;
    assert!(often.contains(&format!("{question}No difference found, by 2 values and mixes.</dd>")), "{often}");
    assert!(!often.contains("Note: compaction_throughput"));
}

#[tokio::test]
async fn a_run_of_a_study_is_in_the_portal() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    (plan.repeats, plan.control_every, plan.confirm) = (1, 0, 0);
    plan.factors.truncate(1);
    let place = folder.path().join("study");
    let lines = study_of(&place, &plan, surface(), Fault::LosesOperations).await;
    // The first of them has figures over time, as that of a real node.
    let seconds = "at_s,due,sent,done,refused,failed,timed_out,too_late,users,received_bytes,mean_ms,p50_ms,p90_ms,\
                   p99_ms,max_ms\n0,10,10,9,0,1,0,0,0,0,1.0,1.0,2.0,5.5,6.0\n";
    let run = place.join(format!("runs/{:05}-1", lines[0].planned.number));
    fs::write(run.join("seconds.csv"), seconds).unwrap();
    fs::write(run.join("monitor.csv"), "at_s,cpu\n0.5,0.25\n").unwrap();
    let (archive, portal) = (folder.path().join("archive"), folder.path().join("portal"));
    lab::archive::archive(&Study::read(&place).unwrap(), &archive).unwrap();
    let published = testbed::portal::publish(&archive, &portal).unwrap();
    assert!(published.refused.is_empty(), "{:?}", published.refused);
    assert_eq!(published.runs, lines.len());
    let rows: serde_json::Value = serde_json::from_slice(&fs::read(portal.join("runs.json")).unwrap()).unwrap();
    for row in rows.as_array().unwrap() {
        assert_eq!([&row["candidate"], &row["plan"], &row["verdict"]], ["cassandra", "simulated", "failed"], "{row}");
        assert_eq!((row["due"].as_u64(), row["done"].as_u64()), (Some(10_000), Some(9_800)), "{row}");
        assert!(row["facts"]["setting"] == "default" || row["facts"]["setting"] == "memtable_heap_space = 2", "{row}");
        assert!(["writes", "reads"].iter().any(|workload| row["scenarios"].get(workload).is_some()), "{row}");
        assert_eq!(row["traceable"], false, "a simulated node says nothing of a real one: {row}");
    }
    let id = lab::archive::id(&Study::read(&place).unwrap(), &lines[0]);
    let page = fs::read_to_string(portal.join(format!("runs/{id}/report.html"))).unwrap();
    assert!(page.contains("200 of 10000 operations were not done") && page.contains("Monitor candidate"), "{page}");
}

#[tokio::test]
async fn studies_of_one_plan_that_begin_in_the_same_second_have_all_their_runs_in_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    (plan.repeats, plan.control_every, plan.confirm) = (1, 0, 0);
    plan.factors.truncate(1);
    let archive = folder.path().join("archive");
    let mut runs = 0;
    for number in 0..2 {
        let place = folder.path().join(format!("study-{number}"));
        let lines = study_of(&place, &plan, surface(), Fault::None).await;
        // Its runs begin as soon as those of the other one.
        let all = (0..).zip(lines).map(|(run, line)| {
            let at = jiff::Timestamp::from_microsecond(1_750_000_000_000_000 + 1_000 * run + number).unwrap();
            serde_json::to_string(&Line { at, ..line }).unwrap() + "\n"
        });
        let all: Vec<_> = all.collect();
        fs::write(place.join("runs.jsonl"), all.concat()).unwrap();
        let study = Study::read(&place).unwrap();
        let archived = lab::archive::archive(&study, &archive).unwrap();
        assert_eq!((archived.added, archived.there), (all.len(), 0));
        let again = lab::archive::archive(&study, &archive).unwrap();
        assert_eq!((again.added, again.there), (0, all.len()));
        for line in study.lines() {
            let usual = lab::archive::id(&study, line);
            assert!(usual.starts_with("20250615T150640Z-"), "archives have whole seconds: {usual}");
            let id = if number == 0 { usual } else { format!("{usual}-2") };
            let run = fs::read(archive.join(id).join("data/run.json")).unwrap();
            assert_eq!(serde_json::from_slice::<Line>(&run).unwrap(), *line);
        }
        runs += all.len();
    }
    assert_eq!(fs::read_dir(&archive).unwrap().count(), runs);
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
    // The repeat that is left out is marked on the page, on the terminal and in the table of all runs.
    let report = Report::of(&study);
    let left_out = sections(&report).into_iter().find(|section| section.title == "Runs that do not count").unwrap();
    let marked: Vec<_> = left_out.rows.iter().map(|row| (row[0].as_str(), row[4].as_str())).collect();
    assert_eq!(marked, [("1", "lost")]);
    let runs = fs::read_to_string(folder.path().join("runs.csv")).unwrap();
    assert_eq!(runs.lines().filter(|line| line.contains(",lost,")).count(), 1, "{runs}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("Runs that do not count") && page.contains(" runs count, 1 do not"), "{page}");
    let void = &study.lines()[0].planned;
    let of_it = report.analysis.tables.iter().find(|table| table.workload == void.workload).unwrap();
    let row = of_it.rows.iter().find(|row| row.setting == void.setting).unwrap();
    let is_it = |line: &&Line| (&line.planned.workload, &line.planned.setting) == (&void.workload, &void.setting);
    let counting = study.lines().iter().filter(|line| line.is_valid() && line.planned.stage == 1).filter(is_it);
    assert_eq!(row.summary.values.len(), counting.count(), "it is in no mean");
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
