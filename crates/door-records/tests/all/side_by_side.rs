//! The same commands to this door and to real servers, side by side, with the same answers.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::commands::{
    KEYS, SETS_BOTH, Words, commands, commands_on_expiring_attributes, commands_that_set_both,
};
use crate::support::frame::Frame;
use crate::support::{Connection, Peer, Subject, keyspace, runtime};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// So many lists of commands are tried.
const CASES: u32 = 64;

/// Likewise on Cassandra, where each change takes milliseconds.
const CASES_ON_CASSANDRA: u32 = 12;

/// The document whose table has what this door deliberately answers otherwise than Redis.
const DOCUMENT: &str = include_str!("../../../../docs/records.md");

/// What a cell of that table holds if there is no example.
const NO_EXAMPLE: &str = "–";

/// What stands there for an empty word, and for an empty answer.
const EMPTY: &str = "\"\"";

/// A row of that table that has an example.
struct Difference {
    /// The commands, in order, of which the last answer counts.
    sent: Vec<Vec<&'static str>>,
    /// How that answer begins.
    ours: &'static str,
    /// How that of Redis begins.
    of_redis: &'static str,
}

/// The rows of that table.
fn rows() -> impl Iterator<Item = [&'static str; 5]> {
    let below = DOCUMENT.split_once("\n## Differences from Redis\n").unwrap().1;
    let lines = below.lines().take_while(|line| !line.starts_with("## "));
    // Below the heading of the table and the line under it.
    lines.filter(|line| line.starts_with('|')).skip(2).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        <[&str; 5]>::try_from(cells).unwrap_or_else(|cells| panic!("this row has other columns: {cells:?}"))
    })
}

/// The documented differences that have an example.
fn differences() -> Vec<Difference> {
    let differences = rows().map(|row| {
        let [_what, _why, sent, ours, of_redis] = row;
        let without = [sent, ours, of_redis].iter().filter(|cell| **cell == NO_EXAMPLE).count();
        assert!(without == 0 || without == 3, "this row has half of an example: {row:?}");
        let [sent, ours, of_redis] = [sent, ours, of_redis].map(|cell| cell.trim_matches('`'));
        let word = |word: &'static str| if word == EMPTY { "" } else { word };
        let sent = sent.split("; ").map(|command| command.split(' ').map(word).collect()).collect();
        (without == 0).then_some(Difference { sent, ours, of_redis })
    });
    differences.flatten().collect()
}

/// A minute in the unit of the answer, for commands whose answers depend on the time between the two
/// questions.
fn minute(command: &str) -> Option<u64> {
    match command {
        "TTL" | "EXPIRETIME" | "HTTL" | "HEXPIRETIME" => Some(60),
        "PTTL" | "PEXPIRETIME" | "HPTTL" | "HPEXPIRETIME" => Some(60_000),
        _ => None,
    }
}

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

/// Whether the answers to a command are the same, as far as they have to be.
fn is_same(sent: &[&str], ours: &Frame, theirs: &Frame) -> bool {
    match minute(sent[0]) {
        Some(minute) => ours.is_near(theirs, minute),
        None if UNORDERED.contains(&sent[0]) => ours.clone().sorted(width(sent)) == theirs.clone().sorted(width(sent)),
        None => ours == theirs,
    }
}

/// Likewise for `EXEC`, after these commands. Its answer has one for each of those in its transaction.
fn is_same_transaction(before: &[Vec<&str>], ours: &Frame, theirs: &Frame) -> bool {
    let begin = before.iter().rposition(|words| words[0] == "MULTI").map_or(before.len(), |place| place + 1);
    match (ours, theirs) {
        (Frame::List(ours), Frame::List(theirs)) if ours.len() == theirs.len() => {
            let mut each = before[begin..].iter().zip(ours.iter().zip(theirs));
            each.len() == ours.len() && each.all(|(sent, (ours, theirs))| is_same(sent, ours, theirs))
        }
        _ => ours == theirs,
    }
}

/// What the command that only this door has does, as a script of Redis: sets the attributes in
/// `ARGV[5]` and behind it, and then the expiry, if both conditions hold.
const SCRIPT_THAT_SETS_BOTH: &str = "
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'hash' then
  return redis.error_reply('-WRONGTYPE it is no hash')
end
local of_record, of_attributes, expiry, time = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if of_record == 'NX' and kind == 'hash' or of_record == 'XX' and kind == 'none' then
  return false
end
for place = 5, #ARGV, 2 do
  local is_there = redis.call('HEXISTS', KEYS[1], ARGV[place]) == 1
  if of_attributes == 'FNX' and is_there or of_attributes == 'FXX' and not is_there then
    return false
  end
end
local new = redis.call('HSET', KEYS[1], unpack(ARGV, 5))
local commands = { EX = 'EXPIRE', PX = 'PEXPIRE', EXAT = 'EXPIREAT', PXAT = 'PEXPIREAT' }
if expiry == 'PERSIST' then
  redis.call('PERSIST', KEYS[1])
elseif commands[expiry] then
  redis.call(commands[expiry], KEYS[1], time)
end
return new";

/// What a real server is sent in place of a command: the same, or the script of the one that only
/// this door has.
fn for_peer<'a>(sent: &[&'a str]) -> Vec<&'a str> {
    let [SETS_BOTH, key, words @ ..] = sent else { return sent.to_vec() };
    let fields = words.iter().position(|word| *word == "FIELDS").unwrap();
    let (options, set) = (&words[..fields], &words[fields + 2..]);
    let one_of = |names: &[&str]| options.iter().position(|word| names.contains(word));
    let word = |place: Option<usize>| place.and_then(|place| options.get(place)).copied().unwrap_or("");
    let expiry = one_of(&["EX", "PX", "EXAT", "PXAT", "PERSIST", "KEEPTTL"]);
    let (of_record, of_attributes) = (word(one_of(&["NX", "XX"])), word(one_of(&["FNX", "FXX"])));
    let time = word(expiry.map(|place| place + 1));
    [&["EVAL", SCRIPT_THAT_SETS_BOTH, "1", *key, of_record, of_attributes, word(expiry), time], set].concat()
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
            let all = lists.concat();
            let all: Vec<Vec<&str>> = all.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
            let mut answers = Vec::new();
            for sent in all.chunks(at_once) {
                let translated: Vec<Vec<&str>> = sent.iter().map(|sent| for_peer(sent)).collect();
                let sent: Vec<&[&str]> = sent.iter().map(Vec::as_slice).collect();
                let translated: Vec<&[&str]> = translated.iter().map(Vec::as_slice).collect();
                answers.extend(ours.ask_all(&sent).await.into_iter().zip(theirs.ask_all(&translated).await));
            }
            for (place, (sent, (ours, theirs))) in all.iter().zip(answers).enumerate() {
                let (ours, theirs) = (same(ours), same(theirs));
                let is_same = match sent[0] {
                    "EXEC" => is_same_transaction(&all[..place], &ours, &theirs),
                    _ => is_same(sent, &ours, &theirs),
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
fn a_time_that_is_wrong_by_two_minutes_is_another_answer() {
    for (name, minute) in [("TTL", 60), ("EXPIRETIME", 60), ("HPTTL", 60_000), ("PEXPIRETIME", 60_000)] {
        let (time, later) = (Frame::Integer(100 * minute), Frame::Integer(102 * minute));
        let soon = Frame::Integer(100 * minute + minute / 2);
        assert!(is_same(&[name, "a"], &time, &soon) && !is_same(&[name, "a"], &time, &later), "{name}");
        let before = [vec!["MULTI"], vec![name, "a"], vec!["GET", "a"]];
        let answers = |time: &Frame| Frame::List(vec![time.clone(), time.clone()]);
        assert!(!is_same_transaction(&before, &answers(&time), &answers(&soon)), "GET is about no time");
        let answers = |time: &Frame| Frame::List(vec![time.clone(), Frame::Null]);
        assert!(is_same_transaction(&before, &answers(&time), &answers(&soon)), "{name}");
        assert!(!is_same_transaction(&before, &answers(&time), &answers(&later)), "{name}");
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

/// No server has a command that sets both, so a script does so there.
#[test]
fn random_commands_that_set_attributes_and_the_expiry_of_their_record_have_the_answers_of_a_script() {
    let Some(peer) = Peer::redis() else { return };
    let subject = runtime().block_on(Subject::start());
    compare((&subject, CASES), &peer, commands_that_set_both(), Frame::by_kind);
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
    let differences = differences();
    assert!(differences.len() > 10, "the document has lost its examples: {} are left", differences.len());
    runtime().block_on(async {
        let subject = Subject::start().await;
        for Difference { sent, ours, of_redis } in &differences {
            // Some commands change what a connection does afterwards.
            for (mut connection, name, begins) in
                [(subject.connect(), "Penates", ours), (peer.connect().await, "Redis", of_redis)]
            {
                let mut answer = String::new();
                for words in sent {
                    answer = connection.ask(words).await.text();
                }
                let is_documented = if *begins == EMPTY { answer.is_empty() } else { answer.starts_with(*begins) };
                assert!(is_documented, "{sent:?}: {name} answers {answer}");
            }
        }
    });
}

/// A command of a real server, and what it says of it.
struct Known {
    /// Its name, as people write it; of a subcommand behind that of its command.
    name: String,
    /// Its categories, such as `@list`.
    categories: Vec<String>,
    subcommands: Vec<Known>,
}

/// The commands in an answer to `COMMAND`, or in a part of it.
fn known(answer: &Frame) -> Vec<Known> {
    let Frame::List(commands) = answer else { panic!("{answer:?}") };
    let each = commands.iter().map(|command| {
        let Frame::List(parts) = command else { panic!("{command:?}") };
        let [name, _words, _flags, _first, _last, _step, categories, _tips, _keys, subcommands] = &parts[..] else {
            panic!("{command:?}")
        };
        Known {
            name: name.text().to_uppercase().replace('|', " "),
            categories: texts(categories),
            subcommands: known(subcommands),
        }
    });
    each.collect()
}

/// Whether the door knows a command: it may want other words.
async fn is_offered(subject: &Subject, name: &str) -> bool {
    let words: Vec<&str> = name.split(' ').collect();
    // Some commands change what a connection does afterwards.
    let answer = subject.connect().ask(&words).await.text();
    !answer.starts_with("ERR unknown command ") && !answer.starts_with("ERR unknown subcommand ")
}

#[test]
fn each_command_of_redis_and_valkey_is_offered_or_documented_as_not_offered() {
    // Other rows are about commands that are offered.
    let rows = rows().filter(|[what, ..]| what.contains("not offered"));
    let named: BTreeSet<&str> = rows.flat_map(|[what, ..]| what.split('`').skip(1).step_by(2)).collect();
    runtime().block_on(async {
        let subject = Subject::start().await;
        for peer in [Peer::redis(), Peer::valkey()].into_iter().flatten() {
            let commands = known(&peer.connect().await.ask(&["COMMAND"]).await);
            assert!(commands.len() > 200, "the real server has {} commands", commands.len());
            let mut missing = Vec::new();
            for Known { name, categories, subcommands } in commands {
                if named.contains(&*name) || categories.iter().any(|category| named.contains(&**category)) {
                    continue;
                }
                // An offered command lacks no subcommand that is not named.
                let parts = subcommands.into_iter().map(|part| part.name).filter(|part| !named.contains(&**part));
                for name in [name].into_iter().chain(parts) {
                    if !is_offered(&subject, &name).await {
                        missing.push(name);
                    }
                }
            }
            assert!(missing.is_empty(), "neither offered nor in the table of differences: {missing:?}");
        }
    });
}

/// Sends commands to both, each after the answer to the one before it. `same` is what must be the
/// same of an answer.
async fn ask_both(subject: &Subject, peer: &Peer, commands: &[String], same: fn(Frame) -> Frame) {
    let (mut ours, mut theirs) = (subject.connect(), peer.connect().await);
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let (ours, theirs) = (same(ours.ask(&words).await), same(theirs.ask(&words).await));
        assert_eq!(ours, theirs, "{command}");
    }
}

/// Random commands cannot show that, because their times depend on when they come.
#[test]
fn times_of_expiries_are_rounded_to_seconds_as_redis_and_valkey_round_them() {
    let (mut of_records, mut of_attributes) = (Vec::new(), Vec::new());
    for ms in [0, 1, 499, 500, 501, 600, 999].map(|ms| 9_000_000_000_000_u64 + ms) {
        of_records.push(format!("SET k v PXAT {ms}"));
        of_records.extend(["EXPIRETIME k", "PEXPIRETIME k"].map(str::to_owned));
        of_attributes.push(format!("HSETEX h PXAT {ms} FIELDS 1 f v"));
        of_attributes.extend(["HEXPIRETIME h FIELDS 1 f", "HPEXPIRETIME h FIELDS 1 f"].map(str::to_owned));
    }
    runtime().block_on(async {
        let subject = Subject::start().await;
        if let Some(redis) = Peer::redis() {
            ask_both(&subject, &redis, &of_records, |answer| answer).await;
        }
        if let Some(valkey) = Peer::valkey() {
            ask_both(&subject, &valkey, &[of_records, of_attributes].concat(), |answer| answer).await;
        }
    });
}

#[test]
fn attributes_that_expire_at_once_are_gone_as_in_valkey() {
    let Some(peer) = Peer::valkey() else { return };
    let commands = [
        "HSETEX new EX 0 FIELDS 1 f v",
        "EXISTS new",
        "HSETEX new XX EX -1 FIELDS 1 f v",
        "HSETEX new FXX EX -1 FIELDS 1 f v",
        "HSETEX h FIELDS 3 f 1 g 2 h 3",
        "HGETEX h EXAT 1 FIELDS 2 f f",
        "HSETEX h EXAT 1 FIELDS 2 g 4 g 5",
        "HGETALL h",
        "HGETEX h PX 0 FIELDS 1 h",
        "EXISTS h",
        "SET text v",
        "HSETEX text EX 0 FIELDS 1 f v",
        "HSETEX text EX -1 FIELDS 1 f v",
        "HGETEX text EX 0 FIELDS 1 f",
        "HGETEX text EX x FIELDS 1 f",
        "GET text",
    ];
    runtime().block_on(async {
        let subject = Subject::start().await;
        ask_both(&subject, &peer, &commands.map(str::to_owned), Frame::by_kind).await;
    });
}

/// Patterns with sets that end oddly, and names that such sets may have.
#[test]
fn patterns_match_as_in_redis() {
    let Some(peer) = Peer::redis() else { return };
    let mut commands = vec!["HSET h - 1 ] 2 ^ 3 a 4 b 5 [ 6 \\ 7 x] 8 ab 9 aXb 10".to_owned()];
    let stars = "* ** ? a* *b a*b a**b *?b *[a-b]".split(' ');
    let sets = "[a-] [a-]b] [^a-] [-a] [] [^] [ [^ [a [^a [b-a] [\\]] [a\\-] [\\ [x]] x] \\a \\".split(' ');
    commands.extend(stars.chain(sets).map(|pattern| format!("HSCAN h 0 MATCH {pattern}")));
    runtime().block_on(async { ask_both(&Subject::start().await, &peer, &commands, |answer| answer).await });
}

/// Draws of attributes: the words after `HRANDFIELD`, and whether the answer is another one each time.
/// `drawn` has three attributes, `one` has one, `text` is a text, and `none` is absent.
const DRAWS: &[(&str, bool)] = &[
    ("none", false),
    ("none 3", false),
    ("none -3 WITHVALUES", false),
    ("text", false),
    ("text 1", false),
    ("one", false),
    ("one -3", false),
    ("one -3 WITHVALUES", false),
    ("drawn", true),
    ("drawn 0", false),
    ("drawn 0 WITHVALUES", false),
    ("drawn 2", true),
    ("drawn 2 withvalues", true),
    ("drawn 3", false),
    ("drawn 9", false),
    ("drawn 9 WITHVALUES", false),
    ("drawn -1", true),
    ("drawn -9", true),
    ("drawn -9 WITHVALUES", true),
    ("drawn WITHVALUES", false),
    ("drawn x", false),
    ("drawn 1 WHAT", false),
    ("drawn 1 WITHVALUES x", false),
    ("drawn 1 WITHVALUES WITHVALUES", false),
];

/// The length of an answer, and of each list in it.
fn lengths(answer: &Frame) -> Vec<usize> {
    let Frame::List(frames) = answer else { return Vec::new() };
    let within = frames.iter().map(|frame| if let Frame::List(pair) = frame { pair.len() } else { 1 });
    [frames.len()].into_iter().chain(within).collect()
}

/// The texts of an answer, also of the lists in it.
fn texts(answer: &Frame) -> Vec<String> {
    match answer {
        Frame::List(frames) => frames.iter().flat_map(texts).collect(),
        other => vec![other.text()],
    }
}

/// Draws from both. `same` is what must be the same of an answer that is always the same.
async fn draw_from(subject: &Subject, peer: &Peer, same: fn(Frame) -> Frame) {
    for version in ["2", "3"] {
        let (mut ours, mut theirs) = (subject.connect(), peer.connect().await);
        for connection in [&mut ours, &mut theirs] {
            connection.hello(version).await;
            connection.ask(&["HSET", "drawn", "f", "1", "g", "2", "h", "3"]).await;
            connection.ask(&["HSET", "one", "f", "1"]).await;
            connection.ask(&["SET", "text", "1"]).await;
        }
        for (sent, is_another) in DRAWS {
            let words: Vec<&str> = ["HRANDFIELD"].into_iter().chain(sent.split(' ')).collect();
            let (ours, theirs) = (same(ours.ask(&words).await), same(theirs.ask(&words).await));
            assert_eq!(lengths(&ours), lengths(&theirs), "{sent}: {ours:?}, and by the real server {theirs:?}");
            let has_values = words.len() == 4;
            if !is_another {
                let width = if has_values { 2 } else { 1 };
                assert_eq!(ours.sorted(width), theirs.sorted(width), "{sent}");
                continue;
            }
            for answer in [ours, theirs] {
                let drawn = texts(&answer);
                let mut drawn: Vec<&[String]> = drawn.chunks(if has_values { 2 } else { 1 }).collect();
                let known = [["f", "1"], ["g", "2"], ["h", "3"]];
                let is_known = |drawn: &[String]| known.iter().any(|pair| *drawn == pair[..drawn.len()]);
                assert!(drawn.iter().all(|drawn| is_known(drawn)), "{sent}: {answer:?}");
                let count = drawn.len();
                drawn.sort();
                drawn.dedup();
                // Only a negative count draws an attribute twice.
                assert!(drawn.len() == count || sent.contains('-'), "{sent}: {answer:?}");
            }
        }
    }
}

#[test]
fn attributes_are_drawn_as_redis_and_valkey_draw_them() {
    runtime().block_on(async {
        let subject = Subject::start().await;
        if let Some(redis) = Peer::redis() {
            draw_from(&subject, &redis, |answer| answer).await;
        }
        if let Some(valkey) = Peer::valkey() {
            draw_from(&subject, &valkey, Frame::by_kind).await;
        }
    });
}

/// All keys of a walk with `SCAN`.
async fn walk(connection: &mut Connection, options: &[&str]) -> BTreeSet<String> {
    let (mut keys, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let answer = connection.ask(&[&["SCAN", cursor.as_str()][..], options].concat()).await;
        let Frame::List(page) = &answer else { panic!("{options:?}: {answer:?}") };
        let [next, listed] = &page[..] else { panic!("{options:?}: {answer:?}") };
        keys.extend(texts(listed));
        cursor = next.text();
        if cursor == "0" {
            return keys;
        }
    }
}

#[test]
fn a_walk_to_its_end_and_the_number_of_records_are_those_of_redis() {
    let Some(peer) = Peer::redis() else { return };
    runtime().block_on(async {
        let subject = Subject::start().await;
        let (mut ours, mut theirs) = (subject.connect(), peer.connect().await);
        let pairs: Vec<String> = (0..60).flat_map(|number| [format!("text:{number}"), "1".to_owned()]).collect();
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        for connection in [&mut ours, &mut theirs] {
            connection.ask(&[&["MSET"], &pairs[..]].concat()).await;
            for number in 0..30 {
                connection.ask(&["HSET", &format!("hash:{number}"), "f", "1"]).await;
            }
            assert_eq!(connection.ask(&["DEL", "text:7", "hash:7", "none"]).await, Frame::Integer(2));
        }
        assert_eq!(ours.ask(&["DBSIZE"]).await, Frame::Integer(88));
        assert_eq!(theirs.ask(&["DBSIZE"]).await, Frame::Integer(88));
        for (options, count) in [
            (&[] as &[&str], 88),
            (&["COUNT", "1"], 88),
            (&["COUNT", "100000"], 88),
            (&["TYPE", "hash"], 29),
            (&["TYPE", "list"], 0),
            (&["MATCH", "text:1*", "COUNT", "7"], 11),
            (&["MATCH", "[a-h]*:?", "TYPE", "string"], 0),
            (&["MATCH", "[a-h]*:?", "TYPE", "HASH"], 9),
        ] {
            let (ours, theirs) = (walk(&mut ours, options).await, walk(&mut theirs, options).await);
            assert_eq!(ours, theirs, "{options:?}");
            assert_eq!(ours.len(), count, "{options:?}");
        }
    });
}

/// The fields in an answer to `HELLO`: a list in version 2 of the protocol, a map in version 3.
fn fields_of_hello(answer: Frame) -> Vec<(Frame, Frame)> {
    match answer {
        Frame::List(frames) => frames.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
        Frame::Map(pairs) => pairs,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_information_about_the_server_has_the_fields_of_redis() {
    let Some(peer) = Peer::redis() else { return };
    let fields = |text: &str| -> BTreeMap<String, String> {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let known = ["# Server", "# Persistence", "# Replication"];
    runtime().block_on(async {
        let subject = Subject::start().await;
        let (mut ours, mut theirs) = (subject.connect(), peer.connect().await);
        for asked in [
            "INFO",
            "INFO server",
            "INFO Replication SERVER server",
            "INFO persistence nosuch",
            "INFO memory",
            "INFO nosuch",
            "INFO default",
            "INFO memory default",
            "INFO all",
            "INFO EVERYTHING",
        ] {
            let words: Vec<&str> = asked.split(' ').collect();
            let (ours, theirs) = (ours.ask(&words).await.text(), theirs.ask(&words).await.text());
            let sections = |text: &str| -> Vec<String> {
                text.lines().filter(|line| line.starts_with("# ")).map(str::to_owned).collect()
            };
            let of_redis: Vec<String> =
                sections(&theirs).into_iter().filter(|section| known.contains(&section.as_str())).collect();
            assert_eq!(sections(&ours), of_redis, "{asked}");
            // A line without text is between two sections.
            let blank = ours.lines().filter(|line| line.is_empty()).count();
            assert_eq!(blank, of_redis.len().saturating_sub(1), "{asked}: {ours}");
        }
        let ours = fields(&ours.ask(&["INFO"]).await.text());
        let theirs = fields(&theirs.ask(&["INFO"]).await.text());
        // Valkey has the name of the server, which Redis 7.0 does not know.
        let foreign: Vec<&String> = ours.keys().filter(|name| !theirs.contains_key(*name)).collect();
        assert_eq!(foreign, ["server_name"]);
        for name in ["redis_mode", "loading", "role"] {
            assert!(ours.contains_key(name) && ours.get(name) == theirs.get(name), "{name}: {ours:?}");
        }
        let (mut ours, mut theirs) = (subject.connect(), peer.connect().await);
        for version in ["2", "3"] {
            for connection in [&mut ours, &mut theirs] {
                connection.hello(version).await;
            }
            for asked in [&["HELLO"][..], &["HELLO", version], &["HELLO", version, "SETNAME", "a"]] {
                let ours = fields_of_hello(ours.ask(asked).await);
                let theirs = fields_of_hello(theirs.ask(asked).await);
                assert_eq!(ours.len(), theirs.len(), "{asked:?}");
                for ((name, value), (name_of_redis, value_of_redis)) in ours.iter().zip(&theirs) {
                    assert_eq!(name, name_of_redis, "{asked:?}");
                    // The version is documented, and each server counts its connections itself.
                    let differs = ["version", "id"].contains(&name.text().as_str());
                    assert!(differs || value == value_of_redis, "{asked:?}: {name:?}: {value:?}, {value_of_redis:?}");
                }
            }
        }
    });
}
