//! The highest rate that a setting holds under a bound.

use lab::analysis::analyse;
use lab::hold::{HELD_RATE, Hold};
use lab::plan::{Bound, Plan};
use lab::recommend::recommend;
use lab::report::finding;
use lab::simulated::{Fault, Surface};

use super::{TWO, change, measured, plan, recommended, setting, surface};

/// A node that the defaults keep busy all the time at 2,000 operations per second. With them the p99
/// is 20 ms alone and 42 ms at 1,047; with the first factor at 2 it is 18 ms, and 42 ms at 1,270.
fn busy() -> Surface {
    Surface { capacity_per_s: Some(2_000.0), ..surface() }
}

fn holding() -> Plan {
    let mut plan = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    for workload in &mut plan.workloads {
        workload.rate = 300.0;
        workload.hold = Some(Hold { metric: "p99_ms".to_owned(), max: 42.0, precision: 1.1 });
    }
    plan.objective = HELD_RATE.to_owned();
    plan.beside.clear();
    plan.check().unwrap();
    plan
}

#[tokio::test]
async fn the_setting_that_holds_the_highest_rate_is_recommended() {
    let plan = holding();
    assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan);
    let change = change(recommended(&plan, busy()).await);
    assert_eq!(change.setting, setting(&[("memtable_heap_space", "2")]));
    assert!((change.gain().change - 0.212).abs() < 0.03, "{change:?}");
    let (lines, _) = measured(&plan, busy(), Fault::None).await;
    for line in lines.iter().filter(|line| line.planned.setting.is_default()) {
        let rate = line.metrics[HELD_RATE];
        assert!(line.is_valid() && (rate / 1_047.6 - 1.0).abs() < 0.05, "{line:?}");
        // The other figures are those of the highest rate that was held.
        assert!(line.metrics["p99_ms"] <= 42.0 && line.metrics["rate_per_s"] <= rate, "{line:?}");
    }
    // So no finding is one at the rate with which each run began.
    let of_latency = Plan { objective: "p99_ms".to_owned(), ..plan.clone() };
    for found in recommend(&of_latency, &lines, &analyse(&of_latency, &lines)) {
        let words = finding(&found).join("\n");
        assert!(words.contains("p99 of latency under ") && !words.contains("at 300 operations"), "{words}");
    }
}

#[tokio::test]
async fn a_bound_that_no_rate_keeps_is_held_at_none_and_a_load_that_is_late_is_void() {
    let mut plan = holding();
    for hold in plan.workloads.iter_mut().flat_map(|workload| &mut workload.hold) {
        hold.max = 10.0;
    }
    let (lines, _) = measured(&plan, busy(), Fault::None).await;
    assert!(lines.iter().all(|line| line.is_valid() && line.metrics[HELD_RATE] == 0.0), "{:?}", lines[0]);
    let (lines, _) = measured(&holding(), busy(), Fault::LateLoad).await;
    assert!(lines.iter().all(|line| line.void.iter().any(|why| why.contains("ms late"))), "{:?}", lines[0]);
}

#[test]
fn a_plan_says_what_is_to_be_held() {
    let mut plan = holding();
    plan.workloads[1].hold = None;
    assert!(plan.check().unwrap_err().to_string().contains("the workload reads does not say what is to be held"));
    let mut plan = holding();
    plan.workloads[0].hold.as_mut().unwrap().metric = "rate_per_s".to_owned();
    assert!(plan.check().unwrap_err().to_string().contains("hold: a known metric of which less is better"));
}

#[test]
fn what_is_never_measured_cannot_be_held_and_is_no_bound() {
    let refused = |plan: &Plan| plan.check().unwrap_err().to_string();
    let held = |metric: &str| {
        let mut plan = holding();
        plan.workloads[0].hold.as_mut().unwrap().metric = metric.to_owned();
        plan.check().unwrap();
        plan
    };
    let mut of_mbeans = held("gc_ms");
    of_mbeans.node.jmx = false;
    assert!(refused(&of_mbeans).contains("gc_ms: it is read from MBeans"), "{}", refused(&of_mbeans));
    let mut of_writes = held("write_p99_ms");
    of_writes.workloads[0].mix.write = 0.0;
    let never = "write_p99_ms: the workload writes has no such operations";
    assert!(refused(&of_writes).contains(never), "{}", refused(&of_writes));
    let mut bounded = plan(r#"{ kind = "one-at-a-time" }"#, TWO);
    bounded.beside = vec!["write_p99_ms".to_owned()];
    bounded.bound = Some(Bound { metric: "write_p99_ms".to_owned(), max: 20.0 });
    bounded.check().unwrap();
    bounded.workloads[0].mix.write = 0.0;
    assert!(refused(&bounded).contains(never), "{}", refused(&bounded));
}
