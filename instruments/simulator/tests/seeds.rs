//! The simulator, to the extent that every test run can afford; `cargo xtask simulate` runs more.

use heads::Rule;
use simulator::{Options, Report, simulate};

/// Seeds that every test run tries.
const SEEDS: u64 = 200;

/// Seeds whose worlds with a change feed every test run tries.
const SEEDS_WITH_FEED: u64 = 48;

/// Seeds whose worlds with records every test run tries.
const SEEDS_WITH_RECORDS: u64 = 160;

/// Seeds whose worlds with changes of several records that arrive together every test run tries.
const SEEDS_WITH_PIPELINES: u64 = 64;

/// Seeds whose worlds with attributes, and with records in mode fast, every test run tries.
const SEEDS_WITH_ATTRIBUTES: u64 = 80;

/// Seeds whose worlds with copies every test run tries.
const SEEDS_WITH_COPIES: u64 = 30;

/// Seeds of each kind of world that are run twice: the first ones, which a test runs in any case.
const TWICE: u64 = 12;

/// The number of seeds of its world among which one must find a left-out rule.
const SEEDS_FOR_A_RULE: usize = 40;

/// Rules that many seeds find, each with the first seed to try. From there on, seeds of the same
/// world are tried (every sixteenth), because each change of the domain changes the runs of all
/// seeds. `docs/protocols.md` marks them among all rules.
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
    simulate_one(Options { seed, left_out, ..Options::default() })
}

fn simulate_one(options: Options) -> Report {
    simulate(options).expect("a runtime can be made")
}

/// Runs seeds of a world: every promise holds. Each of the first ones is the same run
/// a second time, and another run than the others. `world` also gives the options of `cargo xtask
/// simulate` that show a seed again.
fn assert_sound(seeds: impl IntoIterator<Item = u64>, world: impl Fn(u64) -> (Options, &'static str)) {
    let mut hashes = Vec::new();
    for seed in seeds {
        let (options, shown) = world(seed);
        let report = simulate_one(options);
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}\nsee it again: cargo xtask simulate{shown} --seed {seed}");
        }
        if seed < TWICE {
            let again = simulate_one(options);
            assert_eq!((report.steps, report.hash), (again.steps, again.hash), "seed {seed}");
            hashes.push(report.hash);
        }
    }
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count, "another seed is another run");
}

/// Whether clients ask for versions, send some, and restore and remove some: in half of the worlds
/// that are not directed.
fn has_versions(seed: u64) -> bool {
    matches!(seed % 8, 1 | 3)
}

#[test]
fn every_promise_holds_in_many_worlds() {
    let seeds = (0..SEEDS).filter(|seed| !has_versions(*seed));
    assert_sound(seeds, |seed| (Options { seed, ..Options::default() }, ""));
}

#[test]
fn every_promise_holds_in_worlds_whose_clients_ask_for_versions_and_remove_some() {
    let seeds = (0..SEEDS).filter(|seed| has_versions(*seed));
    assert_sound(seeds, |seed| (Options { seed, versions: true, ..Options::default() }, " --versions"));
}

#[test]
fn records_change_once_and_answers_are_true_and_in_time_in_many_worlds() {
    assert_sound(0..SEEDS_WITH_RECORDS, |seed| (Options { seed, records: true, ..Options::default() }, " --records"));
}

fn with_pipelines(seed: u64, careless: bool) -> Options {
    Options { seed, pipelined: true, careless, ..Options::default() }
}

#[test]
fn changes_of_records_that_arrive_together_happen_once_and_none_is_lost_in_many_worlds() {
    assert_sound(0..SEEDS_WITH_PIPELINES, |seed| (with_pipelines(seed, false), " --pipelined"));
}

#[test]
fn changes_of_records_that_give_their_turns_back_too_early_are_found() {
    let is_found = (0..SEEDS_WITH_PIPELINES).any(|seed| simulate_one(with_pipelines(seed, true)).violation.is_some());
    assert!(is_found, "it is found by none of {SEEDS_WITH_PIPELINES} seeds");
}

#[test]
fn attributes_expire_one_by_one_and_change_once_in_many_worlds() {
    assert_sound(0..SEEDS_WITH_ATTRIBUTES, |seed| {
        (Options { seed, attributes: true, ..Options::default() }, " --attributes")
    });
}

#[test]
fn the_last_write_of_an_attribute_wins_in_mode_fast_in_many_worlds() {
    assert_sound(0..SEEDS_WITH_ATTRIBUTES, |seed| (Options { seed, fast: true, ..Options::default() }, " --fast"));
}

/// In a third of the worlds clients ask for versions too, and restore and remove some.
#[test]
fn consumers_of_the_change_feed_see_each_change_once_and_in_order_in_many_worlds() {
    assert_sound(0..SEEDS_WITH_FEED, |seed| {
        let versions = seed.is_multiple_of(3);
        let shown = if versions { " --feed --versions" } else { " --feed" };
        (Options { seed, feed: true, versions, ..Options::default() }, shown)
    });
}

/// Clients ask for versions in a third of the worlds, and keep records in another third.
#[test]
fn a_store_that_is_copied_while_it_changes_lacks_nothing_in_many_worlds() {
    assert_sound(0..SEEDS_WITH_COPIES, |seed| {
        let (versions, records) = (seed % 3 == 1, seed % 3 == 2);
        let shown = match (versions, records) {
            (true, _) => " --copies --versions",
            (_, true) => " --copies --records",
            _ => " --copies",
        };
        (Options { seed, copies: true, versions, records, ..Options::default() }, shown)
    });
}

#[test]
fn a_run_can_be_stopped_at_a_step_to_look_at_it() {
    let report = simulate_one(Options { seed: 1, stop_at: Some(100), ..Options::default() });
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

fn with_transactions(seed: u64, left_out: Option<Rule>) -> Options {
    Options { seed, left_out, transactions: true, ..Options::default() }
}

/// Rules of archival groups, which many seeds find, each with the first seed to try.
const RULES_OF_GROUPS: &[(Rule, u64)] = &[(Rule::HoldGroup, 0), (Rule::LookGroup, 4)];

fn with_groups(seed: u64, left_out: Option<Rule>) -> Options {
    Options { seed, left_out, groups: true, ..Options::default() }
}

#[test]
fn a_transaction_happens_as_a_whole_or_not_at_all_and_leaves_nothing_in_some_worlds() {
    assert_sound(0..SEEDS_WITH_TRANSACTIONS, |seed| (with_transactions(seed, None), " --transactions"));
}

#[test]
fn nobody_else_changes_a_group_that_a_transaction_holds_in_some_worlds() {
    assert_sound(0..SEEDS_WITH_TRANSACTIONS, |seed| (with_groups(seed, None), " --groups"));
}

#[test]
fn a_rule_of_transactions_that_is_left_out_is_found() {
    each_is_found(RULES_OF_TRANSACTIONS, with_transactions);
    each_is_found(RULES_OF_GROUPS, with_groups);
}

fn each_is_found(rules: &[(Rule, u64)], world: impl Fn(u64, Option<Rule>) -> Options) {
    for (rule, first) in rules {
        let found = (*first..*first + 200).find(|seed| simulate_one(world(*seed, Some(*rule))).violation.is_some());
        assert!(found.is_some(), "{rule} is found by none of 200 seeds from {first} on");
    }
}
