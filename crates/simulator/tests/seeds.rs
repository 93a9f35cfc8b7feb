//! What the simulator is for, in the measure that every run of the tests can bear: `cargo xtask simulate` runs more.

use objects::Rule;
use simulator::{Options, Report, simulate};

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 200;

/// Seeds that are run twice.
const TWICE: u64 = 20;

/// Seeds by which a rule that is left out has to be found.
const SEEDS_FOR_A_RULE: u64 = 40;

/// Rules that many seeds find. `docs/protocols.md` lists those that few find, and those that none found.
const OFTEN_FOUND: &[Rule] =
    &[Rule::Fence, Rule::DelIntent, Rule::JobFirst, Rule::JobFinish, Rule::Marks, Rule::ScanAfter, Rule::AckIntent];

fn run(seed: u64, left_out: Option<Rule>) -> Report {
    simulate(Options { seed, left_out, ..Options::default() }).expect("a runtime can be made")
}

#[test]
fn every_promise_holds_in_two_hundred_worlds() {
    for seed in 0..SEEDS {
        if let Some(violation) = run(seed, None).violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --seed {seed}");
        }
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let mut hashes = Vec::new();
    for seed in 0..TWICE {
        let [first, second] = [run(seed, None), run(seed, None)];
        assert_eq!((first.steps, first.hash), (second.steps, second.hash), "seed {seed}");
        hashes.push(first.hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len() as u64, TWICE, "another seed is another run");
}

#[test]
fn a_run_can_be_stopped_at_a_step_to_look_at_it() {
    let report = simulate(Options { seed: 1, stop_at: Some(100), left_out: None }).expect("a runtime can be made");
    assert_eq!(report.steps, 100);
    assert!(!report.last.is_empty());
}

#[test]
fn a_rule_that_is_left_out_is_found() {
    for rule in OFTEN_FOUND {
        let found = (0..SEEDS_FOR_A_RULE).find(|seed| run(*seed, Some(*rule)).violation.is_some());
        assert!(found.is_some(), "{rule} is found by none of {SEEDS_FOR_A_RULE} seeds");
    }
}
