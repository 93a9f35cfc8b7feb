//! The records door: any commands get one well-formed answer each, whatever bytes follow them.
#![no_main]

use std::sync::{Arc, LazyLock};

use budget::{Memory, Party};
use bytes::BytesMut;
use door_records::{Access, Door, Ends, Exceeded, Refused, RequestLimits, Rights, Settings, WrongPassword};
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use records::Records;
use redis_protocol::resp2::decode::decode_bytes_mut as decode_version_2;
use redis_protocol::resp2::types::{BytesFrame, Resp2Frame};
use redis_protocol::resp3::decode::complete::decode_bytes_mut as decode_version_3;
use store::{Clock, SystemClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Commands about no single record, or about what comes next.
const OTHER_COMMANDS: [&str; 9] =
    ["multi", "exec", "discard", "watch", "unwatch", "scan", "dbsize", "client", "config"];

/// Words that commands look for, which random bytes rarely make.
const WORDS: [&str; 28] = [
    "FIELDS",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "PERSIST",
    "NX",
    "XX",
    "GT",
    "LT",
    "FNX",
    "FXX",
    "GET",
    "MATCH",
    "COUNT",
    "NOVALUES",
    "WITHVALUES",
    "TYPE",
    "0",
    "1",
    "2",
    "-1",
    "1000000",
    "9223372036854775807",
    "1.5",
    "a",
    "*",
];

/// Few records, so that commands meet on them.
const IDS: [&str; 3] = ["one", "two", "three"];

/// A command: which one, the record, and its words: one of [`WORDS`], or any bytes.
type Command<'a> = (u8, u8, Vec<(u8, &'a [u8])>);

/// `HSET one a 1`, twice.
const ACCEPTED: &[u8] = include_bytes!("../seeds/records_commands/accepted");

struct Open;

impl Access for Open {
    fn rights(&self, _: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        Ok(Rights { read: true, write: true, operate: true })
    }

    fn user(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn count(&self, _: &Party) -> Result<(), Exceeded> {
        Ok(())
    }

    fn sent(&self, _: &Party, _: u64) {}

    fn refused(&self, _: &Refused<'_>) {}
}

struct Subject {
    runtime: Runtime,
    door: Arc<Door>,
    names: Vec<String>,
    _folder: TempDir,
}

static SUBJECT: LazyLock<Subject> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    // Not on a disk: each change is synced.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let _entered = runtime.enter();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).expect("a store");
    let settings = Settings {
        deadline: LIMIT,
        deadline_max: LIMIT,
        silence_max: LIMIT,
        stall_max: LIMIT,
        request: RequestLimits::default(),
    };
    let records = Arc::new(Records::new(store, clock));
    let door = Door::new(records, Box::new(Open), Memory::new(64 << 20), settings);
    let answer = runtime.block_on(answer(&door, b"*1\r\n$7\r\ncommand\r\n"));
    let Some((BytesFrame::Array(commands), _)) = first_of_version_2(answer) else { panic!("no list of commands") };
    let names = commands.into_iter().filter_map(|command| match command {
        BytesFrame::Array(facts) => facts.first().and_then(|name| name.as_str().map(str::to_owned)),
        _ => None,
    });
    let names: Vec<String> = names.chain(OTHER_COMMANDS.map(str::to_owned)).collect();
    assert!(names.len() > OTHER_COMMANDS.len(), "the door names no command");
    drop(_entered);
    Subject { runtime, door, names, _folder: folder }
});

/// All that the door answers to these bytes.
async fn answer(door: &Arc<Door>, request: &[u8]) -> Vec<u8> {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = tokio::spawn(door.clone().serve(theirs, Party::Local, Ends::default(), CancellationToken::new()));
    let (mut reader, mut writer) = tokio::io::split(ours);
    let mut answer = Vec::new();
    let send = async {
        // The door may end the connection before it has read everything.
        _ = writer.write_all(request).await;
        _ = writer.shutdown().await;
    };
    let (_, read) = tokio::join!(send, reader.read_to_end(&mut answer));
    read.expect("answers are read");
    server.await.expect("the door does not panic");
    answer
}

fn first_of_version_2(answer: Vec<u8>) -> Option<(BytesFrame, usize)> {
    let decoded = decode_version_2(&mut BytesMut::from(answer.as_slice())).expect("an answer of version 2");
    decoded.map(|(frame, bytes, _)| (frame, bytes))
}

fn put(request: &mut Vec<u8>, words: &[&[u8]]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

/// How many whole answers there are. Nothing else may follow them.
fn count(answers: &[u8], is_version_3: bool) -> usize {
    let mut rest = BytesMut::from(answers);
    let mut count = 0;
    while !rest.is_empty() {
        let is_whole = if is_version_3 {
            decode_version_3(&mut rest).expect("an answer of version 3").is_some()
        } else {
            decode_version_2(&mut rest).expect("an answer of version 2").is_some()
        };
        assert!(is_whole, "an answer is cut");
        count += 1;
    }
    count
}

/// Returns the answers.
fn check((is_version_3, commands, garbage): (bool, Vec<Command<'_>>, &[u8])) -> Vec<u8> {
    let subject = &*SUBJECT;
    let mut request = Vec::new();
    if is_version_3 {
        put(&mut request, &[b"hello", b"3"]);
    }
    for (name, id, words) in &commands {
        let name = &subject.names[usize::from(*name) % subject.names.len()];
        let mut all = vec![name.as_bytes(), IDS[usize::from(*id) % IDS.len()].as_bytes()];
        all.extend(words.iter().map(|(known, any)| match WORDS.get(usize::from(*known)) {
            Some(word) => word.as_bytes(),
            None => any,
        }));
        put(&mut request, &all);
    }
    request.extend_from_slice(garbage);
    let answers = subject.runtime.block_on(answer(&subject.door, &request));
    let commands = commands.len() + usize::from(is_version_3);
    // What follows may be commands too, some of which change how answers are written.
    if garbage.is_empty() {
        assert_eq!(count(&answers, is_version_3), commands, "each command has one answer");
    } else {
        assert!(!answers.is_empty() || commands == 0, "commands have no answer");
    }
    answers
}

fn check_seed() {
    let input = <(bool, Vec<Command<'_>>, &[u8])>::arbitrary_take_rest(Unstructured::new(ACCEPTED));
    let answers = check(input.expect("the seed is an input"));
    assert_eq!(answers, b":1\r\n:0\r\n", "{}", answers.escape_ascii());
}

fuzz_target!(init: check_seed(), |input: (bool, Vec<Command<'_>>, &[u8])| { check(input); });
