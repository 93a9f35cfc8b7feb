//! What strangers may send: clear errors, and memory within the budget.

use std::time::Duration;

use crate::support::frame::Frame;
use crate::support::stores::Gate;
use crate::support::{Connection, Subject, fill, settings};
use budget::{Memory, Party};
use door_records::{Access, Exceeded, Refused, Rights, WrongPassword};
use records::Mode;
use store::faults::{Fault, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Sends bytes and reads until the connection ends.
async fn all_answers(subject: &Subject, sent: &[u8]) -> String {
    let (mut reading, mut writing) = tokio::io::split(subject.pipe(1 << 20));
    let mut answers = Vec::new();
    let (_, read) = tokio::join!(
        async {
            // The connection may end before all is sent.
            let _ = writing.write_all(sent).await;
            let _ = writing.shutdown().await;
        },
        reading.read_to_end(&mut answers)
    );
    read.unwrap();
    String::from_utf8_lossy(&answers).into_owned()
}

/// Reads what is there once the connection has ended.
async fn rest(mut connection: DuplexStream) -> String {
    let mut answers = Vec::new();
    connection.read_to_end(&mut answers).await.unwrap();
    String::from_utf8_lossy(&answers).into_owned()
}

#[tokio::test]
async fn garbage_is_refused_and_ends_the_connection() {
    let subject = Subject::start().await;
    for (sent, refusal) in [
        (&b"PING\r\n*1\r\n:5\r\nPING\r\n"[..], "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*x\r\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$536870912\r\nabc", "-ERR Protocol error: a request of more than 1048576 bytes\r\n"),
        (b"*1\r\n$99999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"PING \"x\r\nPING\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
        (&[b'a'; 70_000], "-ERR Protocol error: too big inline request\r\n"),
    ] {
        assert_eq!(all_answers(&subject, sent).await, refusal);
    }
}

/// Otherwise a web page could make a browser send commands as the body of a request.
#[tokio::test]
async fn a_request_of_http_runs_no_command() {
    let subject = Subject::start().await;
    let body = b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a b\r\n";
    assert_eq!(all_answers(&subject, body).await, "-ERR this port speaks the Redis protocol, not HTTP\r\n");
    assert_eq!(all_answers(&subject, b"GET a\r\n").await, "$-1\r\n");
}

#[tokio::test]
async fn a_million_pipelined_commands_are_answered_in_little_memory() {
    const COMMANDS: usize = 1_000_000;
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let answers = all_answers(&subject, &b"PING\r\n".repeat(COMMANDS)).await;
    assert_eq!(answers.len(), COMMANDS * "+PONG\r\n".len());
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn ids_and_records_over_their_limits_are_refused_by_name() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    let (id, value) = ("k".repeat(1_025), "v".repeat(70_000));
    let many: Vec<String> = (0..130).map(|number| number.to_string()).collect();
    let many: Vec<&str> = ["MSET"].into_iter().chain(many.iter().map(String::as_str)).collect();
    for (command, refusal) in [
        (&["SET", &id, "v"][..], "ERR the id of a record has 1 to 1024 bytes, not 1025"),
        (&["GET", ""], "ERR the id of a record has 1 to 1024 bytes, not 0"),
        (&["SET", "a", &value], "ERR a record has at most 65536 bytes, not 70"),
        (&["HSET", "a", "f", &value], "ERR a record has at most 65536 bytes, not 70"),
        (&many, "ERR a command changes at most 64 records"),
    ] {
        let answer = connection.ask(command).await.text();
        assert!(answer.starts_with(refusal), "{answer}");
    }
    assert_eq!(connection.ask(&["EXISTS", "a"]).await, Frame::Integer(0));
}

#[tokio::test]
async fn a_command_that_is_refused_refuses_none_of_those_that_were_sent_with_it() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    let (id, value) = ("k".repeat(1_025), "v".repeat(70_000));
    connection.ask(&["HSET", "h", "f", "1"]).await;
    let sent = [
        (&["SET", "a", "1"][..], "OK"),
        (&["SET", &id, "v"], "ERR the id of a record has"),
        (&["SET", "b", &value], "ERR a record has at most 65536 bytes"),
        (&["INCR", "h"], "WRONGTYPE "),
        (&["MSETNX", "a"], "ERR unknown command 'MSETNX'"),
        (&["GET", &id], "ERR the id of a record has"),
        (&["GET", "h"], "WRONGTYPE "),
        (&["GET", "a"], "1"),
        (&["MSET", "c", "3", "d", "4"], "OK"),
        (&["DEL", "nothing", &id], "ERR the id of a record has"),
        (&["INCRBY", "e", "5"], "5"),
        (&["MGET", "a", "c"], "1 3"),
        (&["INCR", "a"], "2"),
        (&["HGET", "h", "f"], "1"),
    ];
    let commands: Vec<&[&str]> = sent.iter().map(|(command, _)| *command).collect();
    for ((command, expected), answer) in sent.iter().zip(connection.ask_all(&commands).await) {
        assert!(answer.text().starts_with(expected), "{command:?}: {}", answer.text());
    }
}

#[tokio::test]
async fn answers_and_requests_without_memory_for_them_are_refused_and_the_memory_returns() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    assert_eq!(connection.ask(&["SET", "a", &"v".repeat(60_000)]).await.text(), "OK");
    assert_eq!(connection.ask(&["GET", "a"]).await.text().len(), 60_000);
    let many = [&["MGET"][..], &["a"; 500]].concat();
    assert!(connection.ask(&many).await.text().starts_with("OVERLOADED "));
    assert_eq!(connection.ask(&["PING"]).await.text(), "PONG");
    // Larger than what one party may have.
    let announced = b"*2\r\n$4\r\nECHO\r\n$1000000\r\n".to_vec();
    let sent = [announced, vec![b'x'; 1_000_000]].concat();
    assert!(all_answers(&subject, &sent).await.starts_with("-OVERLOADED "));
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn a_command_of_very_many_words_takes_memory_for_them_until_it_is_answered() {
    let memory = Memory::new(16 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    let many = [&["EXISTS"][..], &["k"; 2_000]].concat();
    let in_a_line = format!("{}\r\n", many.join(" "));
    let shares = fill(&memory);
    let sent: [&[&[&str]]; 2] = [&[&many], &[&["MULTI"], &many, &["DISCARD"]]];
    for commands in sent {
        let answers = connection.ask_all(commands).await;
        let refused = answers.iter().filter(|answer| answer.text().starts_with("OVERLOADED there is no memory for so"));
        assert_eq!(refused.count(), 1, "{answers:?}");
    }
    let refused = all_answers(&subject, in_a_line.as_bytes()).await;
    assert!(refused.starts_with("-OVERLOADED there is no memory for so many words"), "{refused}");
    // So is the transaction of which it would have been a part.
    let answers = connection.ask_all(&[&["MULTI"], &many, &["EXEC"]]).await;
    assert!(answers[2].text().starts_with("EXECABORT "), "{answers:?}");
    drop(shares);
    assert_eq!(connection.ask(&many).await, Frame::Integer(0));
    assert_eq!(all_answers(&subject, in_a_line.as_bytes()).await, ":0\r\n");
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn a_transaction_holds_memory_for_its_words_and_is_refused_beyond_a_limit() {
    let memory = Memory::new(64 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    assert_eq!(connection.ask(&["MULTI"]).await.text(), "OK");
    // Words without a byte take memory too.
    let empty = [&["HMGET", "a"][..], &[""; 8_000]].concat();
    assert_eq!(connection.ask(&empty).await.text(), "QUEUED");
    assert!(memory.taken_bytes() >= 8_000 * 32, "{}", memory.taken_bytes());
    let refused = connection.ask(&empty).await.text();
    assert!(refused.starts_with("ERR a transaction has at most"), "{refused}");
    assert!(connection.ask(&["EXEC"]).await.text().starts_with("EXECABORT "));
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn a_transaction_without_memory_for_its_answers_changes_nothing() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    let value = "v".repeat(60_000);
    assert_eq!(connection.ask(&["HSET", "a", "large", &value]).await.text(), "1");
    connection.ask(&["MULTI"]).await;
    connection.ask(&["HSET", "a", "new", "1"]).await;
    for _ in 0..100 {
        assert_eq!(connection.ask(&["HGETALL", "a"]).await.text(), "QUEUED");
    }
    let refused = connection.ask(&["EXEC"]).await.text();
    assert!(refused.starts_with("OVERLOADED ") && refused.ends_with("nothing was changed"), "{refused}");
    assert_eq!(connection.ask(&["HGET", "a", "new"]).await.text(), "nothing");
    assert_eq!(memory.taken_bytes(), 0);
    connection.ask(&["MULTI"]).await;
    connection.ask(&["HSET", "a", "new", "1"]).await;
    assert_eq!(connection.ask(&["EXEC"]).await.text(), "1");
    assert_eq!(connection.ask(&["HGET", "a", "new"]).await.text(), "1");
}

#[tokio::test]
async fn a_change_without_memory_for_its_answer_changes_nothing() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    let value = "v".repeat(2_000);
    connection.ask(&["SET", "text", &value]).await;
    connection.ask(&["HSET", "hash", "f", &value]).await;
    let shares = fill(&memory);
    let many_names = [&["HEXPIRE", "hash", "100", "FIELDS", "40"][..], &["f"; 40]].concat();
    let sent: [&[&str]; 7] = [
        &["GETDEL", "text"],
        &["HGETDEL", "hash", "FIELDS", "1", "f"],
        &["GETSET", "text", "new"],
        &["SET", "text", "new", "GET"],
        &["GETEX", "text", "EX", "100"],
        &["HGETEX", "hash", "EX", "100", "FIELDS", "1", "f"],
        &many_names,
    ];
    let is_refused = |answer: &Frame| {
        let text = answer.text();
        text.starts_with("OVERLOADED ") && text.ends_with("; nothing was changed")
    };
    for command in sent {
        let answer = connection.ask(command).await;
        assert!(is_refused(&answer), "{command:?}: {answer:?}");
    }
    // Likewise if they run as one.
    assert!(connection.ask_all(&sent[..2]).await.iter().all(is_refused));
    // What comes before one of them on its record is done.
    let [set, refused] = [&["HSET", "hash", "g", "1"][..], sent[1]];
    let answers = connection.ask_all(&[set, refused]).await;
    assert!(answers[0] == Frame::Integer(1) && is_refused(&answers[1]), "{answers:?}");
    drop(shares);
    assert_eq!(connection.ask(&["GET", "text"]).await.text(), value);
    assert_eq!(connection.ask(&["HGETALL", "hash"]).await.text(), format!("f {value} g 1"));
    assert_eq!(connection.ask(&["TTL", "text"]).await, Frame::Integer(-1));
    assert_eq!(connection.ask(&["HTTL", "hash", "FIELDS", "1", "f"]).await.text(), "-1");
    assert_eq!(connection.ask(&["GETDEL", "text"]).await.text(), value);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn the_answer_of_a_change_keeps_its_memory_while_the_change_is_written() {
    let memory = Memory::new(1 << 20);
    let (subject, gate) = Subject::wrapped(Gate::new, memory.clone(), settings()).await;
    let (mut connection, value) = (subject.connect(), "v".repeat(6_000));
    for id in ["a", "b"] {
        connection.ask(&["SET", id, &value]).await;
    }
    let sent: [&[&[&str]]; 2] = [&[&["GETDEL", "a"]], &[&["MULTI"], &["GETDEL", "b"], &["EXEC"]]];
    for commands in sent {
        let closed = gate.closed().await;
        let all_is_taken = async {
            gate.keeps_waiting().await;
            let shares = fill(&memory);
            drop(closed);
            shares
        };
        let (answers, shares) = tokio::join!(connection.ask_all(commands), all_is_taken);
        assert_eq!(answers.last().unwrap().text(), value, "{commands:?}");
        drop(shares);
    }
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn a_command_of_which_a_part_was_made_is_unknown() {
    for mode in [Mode::Atomic, Mode::Fast] {
        let (subject, faults) = Subject::shared(mode, settings()).await;
        let mut connection = subject.connect();
        for (names, left) in [(["DEL", "a", "b", "c"], 1), (["UNLINK", "a", "b", "c"], 1)] {
            connection.ask(&["MSET", "a", "1", "b", "2", "c", "3"]).await;
            faults.next(Kind::Run, Fault::Overloaded);
            let answer = connection.ask(&names).await.text();
            assert!(answer.starts_with("UNKNOWN whether the change was made is not known"), "{names:?}: {answer}");
            assert!(!answer.contains("nothing was changed"), "{names:?}: {answer}");
            assert_eq!(connection.ask(&["EXISTS", "a", "b", "c"]).await, Frame::Integer(left), "{names:?}");
        }
        // If none was changed, it says so. An id that cannot be refuses all.
        connection.ask(&["MSET", "a", "1", "b", "2", "c", "3"]).await;
        (0..3).for_each(|_| faults.next(Kind::Run, Fault::Overloaded));
        let answer = connection.ask(&["DEL", "a", "b", "c"]).await.text();
        assert!(answer.starts_with("OVERLOADED ") && answer.ends_with("nothing was changed"), "{answer}");
        let long = "k".repeat(1_025);
        let answer = connection.ask(&["DEL", "a", &long]).await.text();
        assert_eq!(answer, "ERR the id of a record has 1 to 1024 bytes, not 1025");
        assert_eq!(connection.ask(&["EXISTS", "a", "b", "c"]).await, Frame::Integer(3));
    }
}

#[tokio::test]
async fn several_large_records_take_memory_while_they_are_deleted_or_listed() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    for id in ["a", "b", "c"] {
        connection.ask(&["SET", id, &"v".repeat(10_000)]).await;
    }
    let shares = fill(&memory);
    for command in [&["DEL", "a", "b", "c"][..], &["MSET", "a", "1", "b", "2"], &["SCAN", "0"]] {
        let answer = connection.ask(command).await.text();
        assert!(answer.starts_with("OVERLOADED there is no memory for so many records"), "{command:?}: {answer}");
    }
    assert_eq!(connection.ask(&["EXISTS", "a"]).await, Frame::Integer(1));
    assert_eq!(connection.ask(&["STRLEN", "a"]).await, Frame::Integer(10_000));
    drop(shares);
    assert_eq!(connection.ask(&["SCAN", "0"]).await.text().len(), "0 a b c".len());
    assert_eq!(connection.ask(&["DEL", "a", "b", "c"]).await, Frame::Integer(3));
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn many_ids_take_memory_while_they_are_counted_or_listed() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    for number in 0..20 {
        connection.ask(&["SET", &format!("{number}{}", "k".repeat(1_000)), "1"]).await;
    }
    let shares = fill(&memory);
    for command in [&["DBSIZE"][..], &["SCAN", "0", "COUNT", "100"]] {
        let answer = connection.ask(command).await.text();
        assert!(answer.starts_with("OVERLOADED there is no memory for so many ids"), "{command:?}: {answer}");
    }
    drop(shares);
    assert_eq!(connection.ask(&["DBSIZE"]).await, Frame::Integer(20));
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_announces_and_sends_nothing_loses_its_connection_and_its_memory() {
    let memory = Memory::new(64 << 20);
    let silence_max = Duration::from_secs(60);
    let subject = Subject::with(memory.clone(), door_records::Settings { silence_max, ..settings() }).await;
    let began = tokio::time::Instant::now();
    let mut connection = subject.pipe(1 << 20);
    connection.write_all(b"*1\r\n$1000000\r\nabc").await.unwrap();
    assert_eq!(rest(connection).await, "");
    assert_eq!(began.elapsed().as_secs(), silence_max.as_secs());
    assert_eq!(memory.taken_bytes(), 0);
}

/// Who has sent the password `reader` may read, or everybody. There is little time to show that.
struct Hurried {
    is_open: bool,
}

const GREETING_MAX: Duration = Duration::from_secs(30);

impl Access for Hurried {
    fn rights(&self, password: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        Ok(Rights { read: self.is_open || password == Some(&b"reader"[..]), write: false, operate: false })
    }

    fn user(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn greeting_max(&self) -> Duration {
        GREETING_MAX
    }

    fn count(&self, _: &Party) -> Result<(), Exceeded> {
        Ok(())
    }

    fn sent(&self, _: &Party, _: u64) {}

    fn refused(&self, _: &Refused<'_>) {}
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_show_in_time_that_it_may_do_anything_loses_its_connection() {
    let silence_max = settings().silence_max;
    let open = Subject::guarded(Box::new(Hurried { is_open: true })).await;
    let closed = Subject::guarded(Box::new(Hurried { is_open: false })).await;
    for (subject, sent, lasts) in [
        (&closed, "", GREETING_MAX),
        (&closed, "*1\r\n$4\r\nPI", GREETING_MAX),
        (&closed, "PING\r\nAUTH wrong\r\n", GREETING_MAX),
        (&closed, "AUTH reader\r\n", silence_max),
        (&open, "", GREETING_MAX),
        (&open, "PIN", GREETING_MAX),
        (&open, "PING\r\n", silence_max),
    ] {
        let began = tokio::time::Instant::now();
        let mut connection = subject.pipe(1 << 10);
        connection.write_all(sent.as_bytes()).await.unwrap();
        rest(connection).await;
        assert_eq!(began.elapsed().as_secs(), lasts.as_secs(), "{sent}");
    }
    // Nor does it help to send something again and again.
    let mut busy = closed.pipe(1 << 10);
    let began = tokio::time::Instant::now();
    while busy.write_all(b"PING\r\n").await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let took = began.elapsed();
    assert!((GREETING_MAX..=GREETING_MAX + Duration::from_secs(2)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_list_of_connections_takes_memory_before_it_is_made() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let name = "n".repeat(250);
    let mut listed: Vec<Connection> = (0..20).map(|_| subject.connect()).collect();
    for connection in &mut listed {
        assert_eq!(connection.ask(&["CLIENT", "SETNAME", &name]).await.text(), "OK");
    }
    let connection = &mut listed[0];
    let list = connection.ask(&["CLIENT", "LIST"]).await.text();
    assert_eq!(list.matches(&name).count(), 20, "{list}");
    let shares = fill(&memory);
    let refused = connection.ask(&["CLIENT", "LIST"]).await.text();
    assert!(refused.starts_with("OVERLOADED there is no memory for the list of connections"), "{refused}");
    // A short one takes none.
    let id = connection.ask(&["CLIENT", "ID"]).await.text();
    let list = connection.ask(&["CLIENT", "LIST", "ID", "999", &id, &id]).await.text();
    assert_eq!(list.lines().count(), 1, "{list}");
    drop(shares);
    assert_eq!(memory.taken_bytes(), 0);
}

#[tokio::test]
async fn the_commands_of_a_client_that_does_not_read_end_and_keep_no_others_waiting() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    connection.ask(&["SET", "large", &"v".repeat(60_000)]).await;
    let gets = "GET large\r\n".repeat(32);
    let sets: String = (0..32).map(|number| format!("INCR n{number}\r\n")).collect();
    let mut silent = subject.pipe(4 << 10);
    silent.write_all(format!("{gets}{sets}PING\r\n").as_bytes()).await.unwrap();
    let answers = async {
        for number in 0..32 {
            while connection.ask(&["EXISTS", &format!("n{number}")]).await == Frame::Integer(0) {}
            assert_eq!(connection.ask(&["INCR", &format!("n{number}")]).await, Frame::Integer(2));
        }
    };
    // A fraction of the time for which a client may not read.
    tokio::time::timeout(settings().stall_max / 2, answers).await.unwrap();
}

#[tokio::test]
async fn small_reads_are_answered_while_all_memory_is_taken() {
    let memory = Memory::new(1 << 20);
    let subject = Subject::with(memory.clone(), settings()).await;
    let mut connection = subject.connect();
    connection.ask(&["SET", "a", "1"]).await;
    let _shares = fill(&memory);
    let gets: Vec<&[&str]> = vec![&["GET", "a"]; 32];
    assert!(connection.ask_all(&gets).await.iter().all(|answer| answer.text() == "1"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_loses_its_connection() {
    let stall_max = Duration::from_secs(30);
    let subject = Subject::with(Memory::new(64 << 20), door_records::Settings { stall_max, ..settings() }).await;
    let began = tokio::time::Instant::now();
    // The pipe takes a part of the answer, and nobody reads it.
    let mut connection = subject.pipe(4_096);
    let echo = format!("*2\r\n$4\r\nECHO\r\n$100000\r\n{}\r\n", "x".repeat(100_000));
    connection.write_all(echo.as_bytes()).await.unwrap();
    while connection.write_all(b"PING\r\n").await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() >= stall_max && began.elapsed() < stall_max + Duration::from_secs(2));
}
