//! One run, step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use jiff::Timestamp;

use crate::checks;
use crate::closed::{self, Closed, Steps, THREADS};
use crate::costs;
use crate::factor::Setting;
use crate::hold::{HELD_RATE, Hold, Ladder};
use crate::line::Line;
use crate::metric;
use crate::plan::{Plan, Restart};
use crate::rig::{Counters, Rig, RigError};
use crate::schedule::Planned;
use crate::workload::Workload;

/// What is to be known of a rate above which loads were late.
const MAY_BE_THE_LOAD: &str =
    "a load was not sent in time at a rate that was not held: the highest rate may be that of this machine";

/// Makes a run. `defaults` has what the node had by itself, by factor.
///
/// # Errors
/// Nothing can be measured here. A setting that does not run is no error: its run is void. But if
/// the default does not run then either, it is not the setting: the attempt is not used up.
pub async fn make<R: Rig + ?Sized>(
    rig: &mut R,
    plan: &Plan,
    planned: &Planned,
    attempt: u32,
    defaults: &BTreeMap<String, String>,
    folder: &Path,
) -> Result<Line, RigError> {
    let begun = Instant::now();
    let mut line = Line {
        planned: planned.clone(),
        attempt,
        at: Timestamp::now(),
        took_s: 0.0,
        was_restarted: false,
        read_back: BTreeMap::new(),
        metrics: BTreeMap::new(),
        void: Vec::new(),
        notes: Vec::new(),
    };
    match steps(rig, plan, &mut line, defaults, folder).await {
        Err(RigError::Run(why)) => {
            runs_with_default(rig, &why).await?;
            line.void.push(why);
        }
        other => other?,
    }
    line.took_s = begun.elapsed().as_secs_f64();
    Ok(line)
}

/// Fails if the node does not run with its default.
async fn runs_with_default<R: Rig + ?Sized>(rig: &mut R, why: &str) -> Result<(), RigError> {
    match rig.apply(&Setting::default(), Restart::WhenChanged).await {
        Err(RigError::Run(also)) => {
            Err(RigError::Fatal(format!("{why}; and the node does not run with its default: {also}")))
        }
        other => other.map(drop),
    }
}

async fn steps<R: Rig + ?Sized>(
    rig: &mut R,
    plan: &Plan,
    line: &mut Line,
    defaults: &BTreeMap<String, String>,
    folder: &Path,
) -> Result<(), RigError> {
    let planned = line.planned.clone();
    let workload = plan
        .workload(&planned.workload)
        .ok_or_else(|| RigError::Fatal(format!("the plan has no workload {}", planned.workload)))?;
    let searched = match workload.is_searched() {
        true => Some(search(rig, plan, workload, planned.seed, folder).await?),
        false => None,
    };
    let found = searched.as_ref().map(|steps| Closed::of(steps.found()));
    let workload = &Workload { closed: found.or(workload.closed), ..workload.clone() };
    line.was_restarted = rig.apply(&planned.setting, plan.restarts()).await?;
    let baseline = rig.recreate(&planned.setting).await?;
    line.read_back = rig.read_back().await?;
    line.void.extend(checks::nothing_left(baseline));
    line.void.extend(checks::settings_in_force(plan, &planned.setting, &line.read_back, defaults));
    if !line.is_valid() {
        return Ok(()); // A load would cost time and say nothing.
    }
    rig.prefill(planned.seed).await?;
    let measured = match &workload.hold {
        None => measure(rig, plan, workload, line, folder).await?,
        Some(bound) => hold(rig, plan, workload, bound, line, folder).await?,
    };
    line.void.extend(measured.not_made.into_iter().chain(measured.void));
    (line.notes, line.metrics) = (measured.notes, measured.metrics);
    line.notes.extend(searched.map(|steps| steps.note()));
    line.void.extend(checks::objective_measured(plan, &line.metrics));
    Ok(())
}

/// Looks for the number of threads of a closed loop, with the defaults, so that it follows from no
/// setting that is compared. Each load has a folder of its own.
async fn search<R: Rig + ?Sized>(
    rig: &mut R,
    plan: &Plan,
    workload: &Workload,
    seed: u64,
    folder: &Path,
) -> Result<Steps, RigError> {
    let default = Setting::default();
    rig.apply(&default, plan.restarts()).await?;
    rig.recreate(&default).await?;
    rig.read_back().await?;
    rig.prefill(seed).await?;
    let mut steps = Steps::default();
    while let Some(threads) = steps.wanted() {
        let place = folder.join(format!("search-{threads:04}"));
        create(&place)?;
        let at = closed::step(workload, threads);
        let loaded = rig.load(&at, seed, &place).await?;
        rig.drain().await?;
        if loaded.done == 0 {
            return Err(RigError::Run(format!("the search has no operation that {threads} threads have done")));
        }
        steps.add(threads, loaded.done as f64 / at.duration.as_secs_f64());
    }
    Ok(steps)
}

fn create(folder: &Path) -> Result<(), RigError> {
    let created = std::fs::create_dir_all(folder);
    created.map_err(|error| RigError::Fatal(format!("{}: {error}", folder.display())))
}

/// The file of a run with its counters, of which the figures are differences.
const COUNTERS: &str = "counters.json";

/// Keeps counters by when they were read.
fn keep(counters: [(&str, &Counters); 4], folder: &Path) -> Result<(), RigError> {
    let path = folder.join(COUNTERS);
    let text = serde_json::to_vec_pretty(&BTreeMap::from(counters)).map_err(std::io::Error::from);
    let kept = text.and_then(|text| std::fs::write(&path, text));
    kept.map_err(|error| RigError::Fatal(format!("{}: {error}", path.display())))
}

/// What a load showed.
struct Measured {
    metrics: BTreeMap<String, f64>,
    /// Why it was not the load that was asked for.
    not_made: Vec<String>,
    /// Why its counters cannot be right.
    void: Vec<String>,
    notes: Vec<String>,
}

/// Makes a load, with counters before and after it.
async fn measure<R: Rig + ?Sized>(
    rig: &mut R,
    plan: &Plan,
    workload: &Workload,
    line: &Line,
    folder: &Path,
) -> Result<Measured, RigError> {
    let before = rig.counters().await?;
    let loaded = rig.load(workload, line.planned.seed, folder).await?;
    let after = rig.counters().await?;
    let state = rig.drain().await?;
    let drained = rig.counters().await?;
    keep([("before", &before), ("begun", &loaded.begun), ("after", &after), ("drained", &drained)], folder)?;
    let mut metrics = loaded.metrics.clone();
    let failed_share = (loaded.due - loaded.done) as f64 / loaded.due.max(1) as f64;
    let of_load = [
        (metric::DUE, loaded.due as f64),
        (metric::FAILED_SHARE, failed_share),
        (metric::LATENESS_P99_MS, loaded.lateness_p99_ms),
    ];
    metrics.extend(of_load.map(|(name, value)| (name.to_owned(), value)));
    metrics.extend(workload.threads().map(|threads| (THREADS.to_owned(), f64::from(threads))));
    metrics.extend(state);
    metrics.extend(costs::costs(&plan.data, workload, &loaded, [&loaded.begun, &after, &drained]));
    let mut notes = checks::notes(plan, &loaded);
    notes.extend(checks::accounts_agree(&metrics));
    Ok(Measured {
        not_made: checks::load_made(plan, &loaded),
        void: checks::counters_possible(&before, &after, &drained, &loaded, &line.read_back),
        notes,
        metrics,
    })
}

/// Looks for the highest rate at which a bound is kept. The figures are those of the highest rate at
/// which it was, or else those of the last load. Each load has a folder of its own.
async fn hold<R: Rig + ?Sized>(
    rig: &mut R,
    plan: &Plan,
    workload: &Workload,
    bound: &Hold,
    line: &Line,
    folder: &Path,
) -> Result<Measured, RigError> {
    let mut ladder = Ladder::new(bound);
    let mut made: Vec<(f64, Measured)> = Vec::new();
    while let Some(factor) = ladder.wanted() {
        let at = Workload { rate: workload.rate * factor, ..workload.clone() };
        if at.check().is_err() {
            ladder.add(factor, None);
            continue;
        }
        let place = folder.join(format!("load-{:02}", made.len() + 1));
        create(&place)?;
        let measured = measure(rig, plan, &at, line, &place).await?;
        if !measured.void.is_empty() {
            return Ok(measured);
        }
        // Nobody knows what the node would have done with a load that was not sent in time.
        ladder.add(factor, measured.not_made.is_empty().then_some(&measured.metrics));
        made.push((factor, measured));
    }
    let found = ladder.found();
    let of_held = found.and_then(|(held, _)| made.iter().position(|(factor, _)| *factor == held));
    let is_late = made.iter().any(|(_, measured)| !measured.not_made.is_empty());
    let at = of_held.unwrap_or(made.len().saturating_sub(1));
    if at >= made.len() {
        return Err(RigError::Run("no load can be made at any rate".to_owned()));
    }
    let (_, mut measured) = made.swap_remove(at);
    if is_late && found.is_some() {
        measured.notes.push(MAY_BE_THE_LOAD.to_owned());
    }
    let rate = workload.rate * found.map_or(0.0, |(_, estimate)| estimate);
    measured.metrics.insert(HELD_RATE.to_owned(), rate);
    Ok(measured)
}
