//! How often a study is wrong, and how often it finds what is there, where settings scatter
//! unequally.

use lab::analysis::analyse;
use lab::factor::Setting;
use lab::plan::Plan;
use lab::recommend::{Finding, recommend};
use lab::simulated::{Surface, level};
use lab::stats::{Test, visible};

use super::fresh::in_memory;

/// The standard deviation of a run.
const NOISE: f64 = 0.02;

/// One factor with fourteen values besides the default, in five blocks, and five fresh runs.
fn plan(confirm: u32) -> Plan {
    let values: Vec<_> = (1..=14).map(|value| value.to_string()).collect();
    Plan::parse(&format!(
        r#"
        name = "certainty"
        repeats = 5
        confirm = {confirm}
        design = {{ kind = "one-at-a-time" }}
        workloads = [{{ name = "w", mix = {{ write = 1 }}, rate = 1000, duration = "10s" }}]
        [[factors]]
        name = "concurrent_compactors"
        default = 99
        values = [{}]
        "#,
        values.join(", ")
    ))
    .unwrap()
}

/// How often of so many studies a setting was recommended, and how often the first value was. The
/// last value does nothing, and scatters ten times as much as the others.
async fn found(studies: u64, confirm: u32, gain: f64) -> (usize, usize) {
    let mut plan = plan(confirm);
    let name = "concurrent_compactors";
    let base_ms = 20.0;
    let surface = Surface {
        base_ms,
        effects: vec![(level(name, "1"), -gain * base_ms)],
        noise: NOISE,
        scatters: vec![(level(name, "14"), 10.0)],
        ..Surface::default()
    };
    let first = Setting::of([(name, Some("1"))]);
    let (mut any, mut right) = (0, 0);
    for seed in 1..=studies {
        plan.seed = seed;
        let lines = in_memory(&plan, &surface).await;
        if let Finding::Better(change) = recommend(&plan, &lines, &analyse(&plan, &lines)).swap_remove(0).finding {
            (any, right) = (any + 1, right + usize::from(change.setting == first));
        }
    }
    (any, right)
}

#[tokio::test]
async fn a_setting_that_scatters_more_is_not_called_better_more_often_than_the_level() {
    for confirm in [5, 0] {
        let (any, _) = found(100, confirm, 0.0).await;
        assert!(any <= 5, "{any} of 100 with {confirm} fresh runs");
    }
}

#[tokio::test]
async fn a_true_difference_is_found_as_often_as_the_report_says_although_another_setting_scatters() {
    // A difference of two runs has the scatter of both.
    let tests = [Test { blocks: 5, level: 0.05 }; 2];
    let gain = 1.0 - (-visible(&tests).unwrap() * NOISE * 2.0_f64.sqrt()).exp();
    let (any, right) = found(100, 5, gain).await;
    assert!((70..=90).contains(&right) && any - right <= 5, "{right} and {} others of 100", any - right);
}
