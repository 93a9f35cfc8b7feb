//! The simulator, to the extent that every test run can afford; `cargo xtask simulate` runs more.

use heads::Rule;
use simulator::{Options, Report, simulate};

/// Seeds that every test run tries.
const SEEDS: u64 = 200;

/// Seeds whose worlds with a change feed every test run tries.
const SEEDS_WITH_FEED: u64 = 60;

/// Seeds whose worlds with records every test run tries.
const SEEDS_WITH_RECORDS: u64 = 200;

/// Seeds whose worlds with changes of several records that arrive together every test run tries.
const SEEDS_WITH_PIPELINES: u64 = 80;

/// Seeds whose worlds with attributes, and with records in mode fast, every test run tries.
const SEEDS_WITH_ATTRIBUTES: u64 = 100;

/// Seeds that are run twice.
const TWICE: u64 = 20;

/// The number of seeds of its world among which one must find a left-out rule.
const SEEDS_FOR_A_RULE: usize = 40;

/// Rules that many seeds find, each with the first seed to try. From there on, seeds of the same
/// world are tried (every sixteenth), because each change of the domain changes the runs of all
/// seeds. `docs/protocols.md` lists the rules that few seeds find.
const OFTEN_FOUND: &[(Rule, u64)] = &[
    (Rule::Fence, 7),
    (Rule::DelIntent, 0),
    (Rule::JobFirst, 3),
    (Rule::JobFinish, 3),
    (Rule::Marks, 3),
    (Rule::ScanAfter, 0),
    (Rule::AckIntent, 2),
    (Rule::EpochReq, 6),
    (Rule::PinScan, 5),
    (Rule::RowClass, 5),
    (Rule::PlanFirst, 20),
    (Rule::LongGrace, 20),
    (Rule::StrongHead, 36),
    (Rule::Floor, 100),
];

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
fn records_change_once_and_answers_are_true_and_in_time_in_two_hundred_worlds() {
    for seed in 0..SEEDS_WITH_RECORDS {
        let report = simulate(Options { seed, records: true, ..Options::default() }).expect("a runtime can be made");
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --records --seed {seed}");
        }
    }
}

fn with_pipelines(seed: u64, careless: bool) -> Report {
    simulate(Options { seed, pipelined: true, careless, ..Options::default() }).expect("a runtime can be made")
}

#[test]
fn changes_of_records_that_arrive_together_happen_once_and_none_is_lost_in_eighty_worlds() {
    for seed in 0..SEEDS_WITH_PIPELINES {
        if let Some(violation) = with_pipelines(seed, false).violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --pipelined --seed {seed}");
        }
    }
}

#[test]
fn changes_of_records_that_give_their_turns_back_too_early_are_found() {
    let is_found = (0..SEEDS_WITH_PIPELINES).any(|seed| with_pipelines(seed, true).violation.is_some());
    assert!(is_found, "it is found by none of {SEEDS_WITH_PIPELINES} seeds");
}

#[test]
fn attributes_expire_one_by_one_and_change_once_in_a_hundred_worlds() {
    for seed in 0..SEEDS_WITH_ATTRIBUTES {
        let report = simulate(Options { seed, attributes: true, ..Options::default() }).expect("a runtime can be made");
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --attributes --seed {seed}");
        }
    }
}

#[test]
fn the_last_write_of_an_attribute_wins_in_mode_fast_in_a_hundred_worlds() {
    for seed in 0..SEEDS_WITH_ATTRIBUTES {
        let report = simulate(Options { seed, fast: true, ..Options::default() }).expect("a runtime can be made");
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --fast --seed {seed}");
        }
    }
}

#[test]
fn consumers_of_the_change_feed_see_each_change_once_and_in_order_in_sixty_worlds() {
    for seed in 0..SEEDS_WITH_FEED {
        let report = simulate(Options { seed, feed: true, ..Options::default() }).expect("a runtime can be made");
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --feed --seed {seed}");
        }
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let usual = Options::default();
    let worlds = [
        usual,
        Options { records: true, ..usual },
        Options { attributes: true, ..usual },
        Options { fast: true, ..usual },
        Options { pipelined: true, ..usual },
    ];
    for world in worlds {
        let mut hashes = Vec::new();
        for seed in 0..TWICE {
            let run = || simulate(Options { seed, ..world }).expect("a runtime can be made");
            let [first, second] = [run(), run()];
            assert_eq!((first.steps, first.hash), (second.steps, second.hash), "seed {seed}");
            hashes.push(first.hash);
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len() as u64, TWICE, "another seed is another run");
    }
}

#[test]
fn a_run_can_be_stopped_at_a_step_to_look_at_it() {
    let report =
        simulate(Options { seed: 1, stop_at: Some(100), ..Options::default() }).expect("a runtime can be made");
    assert_eq!(report.steps, 100);
    assert!(!report.last.is_empty());
}

#[test]
fn a_rule_that_is_left_out_is_found() {
    for (rule, first) in OFTEN_FOUND {
        let mut seeds = (*first..).step_by(16).take(SEEDS_FOR_A_RULE);
        let found = seeds.find(|seed| run(*seed, Some(*rule)).violation.is_some());
        assert!(found.is_some(), "{rule} is found by none of {SEEDS_FOR_A_RULE} seeds from {first} on");
    }
}

/// Seeds whose worlds with transactions, and with groups too, every test run tries.
const SEEDS_WITH_TRANSACTIONS: u64 = 24;

/// Rules of transactions, which many seeds find, each with the first seed to try.
const RULES_OF_TRANSACTIONS: &[(Rule, u64)] = &[
    (Rule::DecideFirst, 0),
    (Rule::ForgetLost, 1),
    (Rule::EndFirst, 2),
    (Rule::Claim, 4),
    (Rule::OpenAfter, 5),
    (Rule::CloseFirst, 12),
    (Rule::OnlyNamed, 21),
];

fn with_transactions(seed: u64, left_out: Option<Rule>) -> Report {
    simulate(Options { seed, left_out, transactions: true, ..Options::default() }).expect("a runtime can be made")
}

/// Rules of archival groups, which many seeds find, each with the first seed to try.
const RULES_OF_GROUPS: &[(Rule, u64)] = &[(Rule::HoldGroup, 0), (Rule::LookGroup, 4)];

fn with_groups(seed: u64, left_out: Option<Rule>) -> Report {
    simulate(Options { seed, left_out, groups: true, ..Options::default() }).expect("a runtime can be made")
}

#[test]
fn a_transaction_happens_as_a_whole_or_not_at_all_and_leaves_nothing_in_some_worlds() {
    for seed in 0..SEEDS_WITH_TRANSACTIONS {
        if let Some(violation) = with_transactions(seed, None).violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --transactions --seed {seed}");
        }
    }
}

#[test]
fn nobody_else_changes_a_group_that_a_transaction_holds_in_some_worlds() {
    for seed in 0..SEEDS_WITH_TRANSACTIONS {
        if let Some(violation) = with_groups(seed, None).violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate --groups --seed {seed}");
        }
    }
}

#[test]
fn a_rule_of_transactions_that_is_left_out_is_found() {
    each_is_found(RULES_OF_TRANSACTIONS, with_transactions);
    each_is_found(RULES_OF_GROUPS, with_groups);
}

fn each_is_found(rules: &[(Rule, u64)], run: impl Fn(u64, Option<Rule>) -> Report) {
    for (rule, first) in rules {
        let found = (*first..*first + 200).find(|seed| run(*seed, Some(*rule)).violation.is_some());
        assert!(found.is_some(), "{rule} is found by none of 200 seeds from {first} on");
    }
}
