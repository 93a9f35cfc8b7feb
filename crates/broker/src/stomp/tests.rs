//! The client against brokers that do what brokers should not.
#![allow(clippy::unwrap_used)]
use std::time::Duration;

use bytes::BytesMut;
use store::Hidden;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{Decoder, Frame};
use crate::{Connection, Login, Message, Protocol, SendError, Settings, Value};

const ROUND: Duration = Duration::from_secs(15);

fn settings() -> Settings {
    Settings {
        protocol: Protocol::Stomp,
        host: "a.example".to_owned(),
        client: "client".to_owned(),
        destination: "/queue/a".to_owned(),
        login: None,
        attempt_max: Duration::from_secs(20),
        heart_beat: Duration::from_secs(10),
        tasks: TaskTracker::new(),
    }
}

fn message(key: &str, text: &str) -> Message {
    let properties = vec![("a:b", Value::Text("c:d".to_owned())), ("n", Value::Number(-7))];
    Message { key: key.to_owned(), id: "id".to_owned(), properties, text: text.to_owned() }
}

/// A broker's end of a connection.
struct Fake {
    stream: DuplexStream,
    decoder: Decoder,
}

impl Fake {
    async fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return frame;
            }
            assert_ne!(self.stream.read_buf(self.decoder.buffer()).await.unwrap(), 0, "the client is gone");
        }
    }

    async fn send(&mut self, frame: Frame) {
        let mut out = BytesMut::new();
        frame.write(&mut out);
        self.stream.write_all(&out).await.unwrap();
    }

    async fn confirm(&mut self, sent: &Frame) {
        self.send(Frame::new("RECEIPT").with("receipt-id", sent.header("receipt").unwrap())).await;
    }
}

/// A connection, and the broker's end of it once it has accepted the login.
async fn connected(heart_beat: &str) -> (Connection, Fake) {
    let (near, far) = duplex(1 << 20);
    let mut fake = Fake { stream: far, decoder: Decoder::default() };
    let accept = async {
        assert_eq!(fake.frame().await.command, "CONNECT");
        fake.send(Frame::new("CONNECTED").with("version", "1.2").with("heart-beat", heart_beat)).await;
    };
    let (connection, ()) = tokio::join!(Connection::open(near, settings()), accept);
    (connection.unwrap(), fake)
}

/// What a client makes of an answer to its login.
async fn login(answer: &[u8]) -> SendError {
    let (near, far) = duplex(1 << 20);
    let mut fake = Fake { stream: far, decoder: Decoder::default() };
    let broker = async {
        let asked = fake.frame().await;
        let named = ["login", "passcode", "host"].map(|name| asked.header(name).unwrap().to_owned());
        assert_eq!(named, ["me", "a:secret", "a.example"]);
        fake.stream.write_all(answer).await.unwrap();
    };
    let login = Login { user: "me".to_owned(), password: Hidden::new("a:secret") };
    let (opened, ()) = tokio::join!(Connection::open(near, Settings { login: Some(login), ..settings() }), broker);
    opened.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn messages_are_confirmed_by_receipts_and_those_of_one_key_wait_for_each_other() {
    let (connection, mut fake) = connected("0,0").await;
    let broker = async {
        let (first, other) = (fake.frame().await, fake.frame().await);
        assert_eq!([&first.body, &other.body], [b"a1", b"b1"]);
        assert_eq!(first.header("destination"), Some("/queue/a"));
        assert_eq!((first.header("persistent"), first.header("content-length")), (Some("true"), None));
        assert_eq!((first.header("a:b"), first.header("n")), (Some("c:d"), Some("-7")));
        fake.confirm(&other).await;
        fake.confirm(&first).await;
        let second = fake.frame().await;
        assert_eq!(second.body, b"a2");
        fake.confirm(&second).await;
    };
    let messages = vec![message("a", "a1"), message("a", "a2"), message("b", "b1")];
    let (sent, ()) = tokio::join!(connection.send(messages, ROUND), broker);
    assert_eq!((sent.confirmed, sent.failed.is_none()), (vec![true; 3], true));
    drop(connection);
    assert_eq!(fake.frame().await.command, "DISCONNECT");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_never_answers_is_given_up() {
    let (near, _far) = duplex(1 << 20);
    let begun = Instant::now();
    assert!(matches!(Connection::open(near, settings()).await, Err(SendError::TimedOut(_))));
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
    let (connection, _fake) = connected("0,0").await;
    let begun = Instant::now();
    let sent = connection.send(vec![message("a", "1"), message("b", "2")], ROUND).await;
    assert!(matches!(sent.failed, Some((0, SendError::TimedOut(_)))), "{sent:?}");
    assert!(begun.elapsed() >= Duration::from_secs(20) && begun.elapsed() < Duration::from_secs(21));
    assert!(!connection.is_open());
    // A broker that reads nothing, so that nothing can be written either.
    let (near, _far) = duplex(16);
    assert!(matches!(Connection::open(near, settings()).await, Err(SendError::TimedOut(_))));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_acceptance_of_a_login_is_an_error() {
    for (answer, part) in [
        (&b"ERROR\nmessage:no such user\n\nthe frame was: passcode:a:secret\0"[..], "no such user"),
        (b"CONNECTED\nversion:1.0\n\n\0", "STOMP 1.2"),
        (b"CONNECTED\nversion:1.2\nheart-beat:soon\n\n\0", "heart-beat"),
        (b"RECEIPT\nreceipt-id:1\n\n\0", "another frame"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no command"),
        (b"AMQP\x03\x01\x00\x00\n\n", "no command"),
    ] {
        let error = login(answer).await.to_string();
        assert!(error.contains(part) && !error.contains("secret"), "{error}");
    }
    let huge = ["ERROR\n", &"a:b\n".repeat(10_000)].concat();
    assert!(login(huge.as_bytes()).await.to_string().contains("head of more than"));
    let huge = [b"ERROR\n\n", &vec![b'a'; 200_000][..]].concat();
    assert!(login(&huge).await.to_string().contains("body of more than"));
    let error = login("ERROR\nmessage:\u{1b}[2J\\n ü\n\n\0".as_bytes()).await.to_string();
    assert!(error.ends_with("refuses:  [2J  ü"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_is_named_and_others_stay_confirmed() {
    let (connection, mut fake) = connected("0,0").await;
    let broker = async {
        let (first, second) = (fake.frame().await, fake.frame().await);
        fake.confirm(&first).await;
        let receipt = second.header("receipt").unwrap();
        fake.send(Frame::new("ERROR").with("receipt-id", receipt).with("message", "too long")).await;
    };
    let (sent, ()) =
        tokio::join!(connection.send(vec![message("a", "1"), message("b", "2"), message("b", "3")], ROUND), broker);
    assert_eq!(sent.confirmed, [true, false, false]);
    assert!(matches!(sent.failed, Some((1, SendError::Refused(why))) if why == "too long"));
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_or_says_what_it_should_not_leaves_the_rest_unconfirmed() {
    for last in [&b""[..], b"RECEIPT\nrecei", b"RECEIPT\nreceipt-id:77\n\n\0", b"MESSAGE\n\n\0", b"\xFF\n\n\0"] {
        let (connection, mut fake) = connected("0,0").await;
        let broker = async {
            let first = fake.frame().await;
            fake.confirm(&first).await;
            fake.stream.write_all(last).await.unwrap();
            drop(fake);
        };
        let (sent, ()) = tokio::join!(connection.send(vec![message("a", "1"), message("b", "2")], ROUND), broker);
        assert_eq!(sent.confirmed, [true, false], "{}", last.escape_ascii());
        assert_eq!(sent.failed.unwrap().0, 1);
        assert!(!connection.is_open());
        let sent = connection.send(vec![message("a", "1")], ROUND).await;
        assert!(matches!(sent.failed, Some((0, SendError::Closed))));
    }
}

#[tokio::test(start_paused = true)]
async fn both_sides_show_that_they_are_there_and_a_broker_that_does_not_is_given_up() {
    let (connection, mut fake) = connected("10000,10000").await;
    let begun = Instant::now();
    for _ in 0..5 {
        let mut beat = [0; 1];
        fake.stream.read_exact(&mut beat).await.unwrap();
        assert_eq!(beat, *b"\n");
        fake.stream.write_all(b"\n").await.unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::from_secs(25));
    assert!(connection.is_open());
    let mut rest = Vec::new();
    fake.stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(45), "two beats of the broker did not come");
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_after_any_silence_if_no_signs_of_life_were_agreed() {
    let (connection, mut fake) = connected("0,0").await;
    // Of several things that are due, each may come first by chance.
    for number in 0..20 {
        tokio::time::advance(Duration::from_secs(60)).await;
        let broker = async {
            let sent = fake.frame().await;
            fake.confirm(&sent).await;
        };
        let (sent, ()) = tokio::join!(connection.send(vec![message("a", "1")], ROUND), broker);
        assert!(sent.failed.is_none(), "after {number} messages: {sent:?}");
        assert_eq!(sent.confirmed, [true]);
    }
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn nothing_more_is_sent_once_nobody_waits_for_it() {
    let tasks = TaskTracker::new();
    let (near, far) = duplex(1 << 20);
    let mut fake = Fake { stream: far, decoder: Decoder::default() };
    let accept = async {
        fake.frame().await;
        fake.send(Frame::new("CONNECTED").with("version", "1.2")).await;
    };
    let open = Connection::open(near, Settings { tasks: tasks.clone(), ..settings() });
    let (connection, ()) = tokio::join!(open, accept);
    let connection = connection.unwrap();
    let sending = connection.send(vec![message("a", "1"), message("a", "2")], ROUND);
    let first = tokio::select! {
        _ = sending => unreachable!("nothing is confirmed"),
        first = fake.frame() => first,
    };
    assert_eq!(first.body, b"1");
    drop(connection);
    tasks.close();
    tokio::time::timeout(Duration::from_secs(2), tasks.wait()).await.unwrap();
    // The client is gone, so this confirms nothing.
    let mut rest = Vec::new();
    fake.stream.read_to_end(&mut rest).await.unwrap();
    assert!(!rest.windows(4).any(|part| part == b"SEND"), "{}", rest.escape_ascii());
}
