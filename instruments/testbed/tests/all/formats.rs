//! Runs that earlier programs have kept are read by later ones. `fixtures/format-1` is the first form.
use std::fs;
use std::path::{Path, PathBuf};

use testbed::archive::ArchivedRun;
use testbed::results::Verdict;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/format-1/2026-01-15T093000Z-ingest")
}

#[test]
fn a_run_of_the_first_form_is_whole_and_all_of_it_is_read() {
    let run = ArchivedRun::at(&fixture());
    run.verify().unwrap();
    let (record, outcome) = (run.record().unwrap(), run.outcome().unwrap());
    assert_eq!((record.format, record.id.as_str()), (1, "2026-01-15T093000Z-ingest"));
    assert_eq!((record.workers.len(), record.candidate.program.name.as_str()), (2, "penates"));
    // It was written before these were recorded.
    let worker = &record.workers[0];
    assert_eq!((&worker.command, worker.memory_peak_bytes, &worker.program.tag), (&None, None, &None));
    assert_eq!(outcome.judgement.verdict, Verdict::Held);
    let (all, seconds) = (&outcome.summary.all, run.seconds().unwrap());
    assert_eq!((all.due, all.done, all.conflicts), (60, 60, 0));
    assert_eq!(seconds.iter().filter(|second| second.at_s >= 0).map(|second| second.due).sum::<u64>(), all.due);
    let latencies = run.latencies().unwrap();
    assert_eq!(latencies.units.iter().map(|(_, histogram)| histogram.len()).sum::<u64>(), 100, "with the warm-up");
    assert!(run.text("plan.toml").unwrap().contains("seed = 7"));
}

#[test]
fn a_record_of_a_later_form_is_refused_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let record = fs::read_to_string(fixture().join("data/record.json")).unwrap();
    fs::write(folder.path().join("data/record.json"), record.replace("\"format\": 1", "\"format\": 2")).unwrap();
    let error = ArchivedRun::at(folder.path()).record().unwrap_err();
    assert_eq!(error.to_string(), "record.json: it has the format 2, and this program knows 1");
}
