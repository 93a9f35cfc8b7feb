//! The same commands to this door and to real servers, side by side, with the same answers.

use crate::support::commands::{KEYS, Words, commands, commands_on_expiring_attributes};
use crate::support::frame::Frame;
use crate::support::{Peer, Subject, keyspace, runtime};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// So many lists of commands are tried.
const CASES: u32 = 64;

/// Likewise on Cassandra, where each change takes milliseconds.
const CASES_ON_CASSANDRA: u32 = 12;

/// What this door deliberately answers otherwise than Redis: what was sent, how its answer begins,
/// and how that of Redis does. `docs/records.md` says why.
const DIFFERENCES: &[(&[&str], &str, &str)] = &[
    (&["SELECT", "1"], "ERR DB index is out of range", "OK"),
    (&["KEYS", "*"], "ERR unknown command 'KEYS'", ""),
    (&["FLUSHALL"], "ERR unknown command 'FLUSHALL'", "OK"),
    (&["RPUSH", "list", "x"], "ERR unknown command 'RPUSH'", "1"),
    (&["CONFIG", "SET", "save", ""], "ERR unknown subcommand 'SET'", "OK"),
    (&["HSET", "h", "f", "9007199254740993.5"], "1", "1"),
    (&["HINCRBYFLOAT", "h", "f", "0.1"], "9007199254740993.6", "9007199254740993.599609375"),
    (&["HINCRBYFLOAT", "h", "f", "inf"], "ERR value is not a valid float", "ERR value is NaN or Infinity"),
];

/// Commands whose answers depend on the time between the two questions.
const ABOUT_TIME: [&str; 8] =
    ["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME"];

/// Commands whose lists have no order in Valkey, once an attribute may expire.
const UNORDERED: [&str; 4] = ["HGETALL", "HKEYS", "HVALS", "HSCAN"];

/// So many frames in the answer to `sent` belong together: a name and its value.
fn width(sent: &[&str]) -> usize {
    let has_values = match sent[0] {
        "HGETALL" => true,
        "HSCAN" => !sent.iter().any(|word| word.eq_ignore_ascii_case("NOVALUES")),
        _ => false,
    };
    if has_values { 2 } else { 1 }
}

/// Sends random commands to both. `same` is what must be the same of an answer.
fn compare(
    (subject, cases): (&Subject, u32),
    peer: &Peer,
    commands: impl Strategy<Value = Vec<Words>>,
    same: impl Fn(Frame) -> Frame,
) {
    let (lists, version) = (prop::collection::vec(commands, 1..50), prop::sample::select(vec!["2", "3"]));
    // So many commands are sent at once.
    let at_once = prop::sample::select(vec![1, 5, 100]);
    let mut runner = TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..Default::default() });
    let compared = runner.run(&(lists, version, at_once), |(lists, version, at_once)| {
        runtime().block_on(async {
            let (mut ours, mut theirs) = (subject.connect(), peer.connect().await);
            for connection in [&mut ours, &mut theirs] {
                connection.hello(version).await;
                connection.ask(&[&["DEL"], &KEYS[..]].concat()).await;
            }
            let mut names = Vec::new();
            let all = lists.concat();
            let all: Vec<Vec<&str>> = all.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
            let mut answers = Vec::new();
            for sent in all.chunks(at_once) {
                let sent: Vec<&[&str]> = sent.iter().map(Vec::as_slice).collect();
                answers.extend(ours.ask_all(&sent).await.into_iter().zip(theirs.ask_all(&sent).await));
            }
            for (sent, (ours, theirs)) in all.iter().zip(answers) {
                let (ours, theirs) = (same(ours), same(theirs));
                names.push(sent[0].to_owned());
                // The answers to `EXEC` are those to the commands before it.
                let is_about = |known: &[&str]| match sent[0] {
                    "EXEC" => names.iter().rev().take(6).any(|name| known.contains(&name.as_str())),
                    name => known.contains(&name),
                };
                let is_same = match is_about(&ABOUT_TIME) {
                    true => ours.is_near(&theirs),
                    false if is_about(&UNORDERED) => {
                        ours.clone().sorted(width(sent)) == theirs.clone().sorted(width(sent))
                    }
                    false => ours == theirs,
                };
                prop_assert!(is_same, "{:?} is answered\n{:?}, and by the real server\n{:?}", sent, ours, theirs);
            }
            Ok(())
        })
    });
    if let Err(difference) = compared {
        panic!("{difference}");
    }
}

#[test]
fn random_commands_have_the_answers_of_redis() {
    let Some(peer) = Peer::redis() else { return };
    let subject = runtime().block_on(Subject::start());
    compare((&subject, CASES), &peer, commands(), |answer| answer);
}

/// Valkey words its refusals otherwise.
#[test]
fn random_commands_on_attributes_that_expire_have_the_answers_of_valkey() {
    let Some(peer) = Peer::valkey() else { return };
    let subject = runtime().block_on(Subject::start());
    compare((&subject, CASES), &peer, commands_on_expiring_attributes(), Frame::by_kind);
}

#[test]
fn random_commands_on_cassandra_have_the_same_answers() {
    let Some(options) = runtime().block_on(keyspace()) else { return };
    let subject = runtime().block_on(Subject::on_cassandra(options));
    if let Some(redis) = Peer::redis() {
        compare((&subject, CASES_ON_CASSANDRA), &redis, commands(), |answer| answer);
    }
    if let Some(valkey) = Peer::valkey() {
        compare((&subject, CASES_ON_CASSANDRA), &valkey, commands_on_expiring_attributes(), Frame::by_kind);
    }
}

#[test]
fn the_differences_from_redis_are_the_documented_ones() {
    let Some(peer) = Peer::redis() else { return };
    runtime().block_on(async {
        let subject = Subject::start().await;
        let (mut ours, mut theirs) = (subject.connect(), peer.connect().await);
        for (sent, answer, of_redis) in DIFFERENCES {
            let (ours, theirs) = (ours.ask(sent).await.text(), theirs.ask(sent).await.text());
            assert!(ours.starts_with(answer), "{sent:?}: {ours}");
            assert!(theirs.starts_with(of_redis), "{sent:?}: Redis answers {theirs}");
        }
    });
}
