//! One run, step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use jiff::Timestamp;

use crate::checks;
use crate::costs;
use crate::factor::Setting;
use crate::line::Line;
use crate::metric;
use crate::plan::{Plan, Restart};
use crate::rig::{Rig, RigError};
use crate::schedule::Planned;

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
    line.was_restarted = rig.apply(&planned.setting, plan.restarts()).await?;
    let baseline = rig.recreate(&planned.setting).await?;
    line.read_back = rig.read_back().await?;
    line.void.extend(checks::nothing_left(baseline));
    line.void.extend(checks::settings_in_force(plan, &planned.setting, &line.read_back, defaults));
    if !line.is_valid() {
        return Ok(()); // A load would cost time and say nothing.
    }
    rig.prefill(planned.seed).await?;
    let before = rig.counters().await?;
    let loaded = rig.load(workload, planned.seed, folder).await?;
    let after = rig.counters().await?;
    let state = rig.drain().await?;
    let drained = rig.counters().await?;
    line.void.extend(checks::load_made(plan, &loaded));
    line.void.extend(checks::counters_possible(&before, &after, &drained, &loaded, &line.read_back));
    line.notes = checks::notes(plan, &loaded);
    line.metrics = loaded.metrics.clone();
    let failed_share = (loaded.due - loaded.done) as f64 / loaded.due.max(1) as f64;
    let of_load = [(metric::FAILED_SHARE, failed_share), (metric::LATENESS_P99_MS, loaded.lateness_p99_ms)];
    line.metrics.extend(of_load.map(|(name, value)| (name.to_owned(), value)));
    line.metrics.extend(state);
    line.metrics.extend(costs::costs(&plan.data, workload, &loaded, [&loaded.begun, &after, &drained]));
    line.void.extend(checks::objective_measured(plan, &line.metrics));
    line.notes.extend(checks::accounts_agree(&line.metrics));
    Ok(())
}
