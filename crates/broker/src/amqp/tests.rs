//! The client against brokers that do what brokers should not.
#![allow(clippy::unwrap_used)]
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use store::Hidden;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::frame::{AMQP, SASL, write};
use super::value::{Value, Writer, field};
use crate::{Connection, Login, Message, Protocol, SendError, Settings};

const ROUND: Duration = Duration::from_secs(15);

fn settings() -> Settings {
    Settings {
        protocol: Protocol::Amqp,
        host: "a.example".to_owned(),
        client: "client".to_owned(),
        destination: "queue://a".to_owned(),
        login: None,
        attempt_max: Duration::from_secs(20),
        heart_beat: Duration::from_secs(10),
        tasks: TaskTracker::new(),
    }
}

fn message(key: &str, text: &str) -> Message {
    let properties = vec![("a", crate::Value::Text("b".to_owned())), ("n", crate::Value::Number(-7))];
    Message { key: key.to_owned(), id: "id".to_owned(), properties, text: text.to_owned() }
}

/// A broker's end of a connection.
struct Fake {
    stream: DuplexStream,
    buffer: BytesMut,
}

impl Fake {
    async fn bytes(&mut self, count: usize) -> BytesMut {
        while self.buffer.len() < count {
            assert_ne!(self.stream.read_buf(&mut self.buffer).await.unwrap(), 0, "the client is gone");
        }
        self.buffer.split_to(count)
    }

    /// The next frame: its size, its performative, its payload.
    async fn frame(&mut self) -> (usize, u64, Vec<Value>, Vec<u8>) {
        let size = self.bytes(4).await.get_u32() as usize;
        let rest = self.bytes(size - 4).await;
        let mut body = &rest[4..];
        let performative = Value::read(&mut body).unwrap();
        let (code, fields) = performative.composite().unwrap();
        (size, code, fields.to_vec(), body.to_vec())
    }

    async fn write(&mut self, kind: u8, code: u8, count: u32, fields: impl FnOnce(&mut Writer<'_>)) {
        let mut out = BytesMut::new();
        write(&mut out, kind, code, count, fields, b"");
        self.stream.write_all(&out).await.unwrap();
    }

    async fn send(&mut self, code: u8, count: u32, fields: impl FnOnce(&mut Writer<'_>)) {
        self.write(AMQP, code, count, fields).await;
    }

    /// Up to the open of the client.
    async fn greet(&mut self) {
        assert_eq!(&self.bytes(8).await[..], b"AMQP\x03\x01\x00\x00");
        self.stream.write_all(b"AMQP\x03\x01\x00\x00").await.unwrap();
        self.write(SASL, 0x40, 1, |fields| fields.symbol("ANONYMOUS")).await;
        assert_eq!(self.frame().await.1, 0x41);
        self.write(SASL, 0x44, 1, |fields| fields.ubyte(0)).await;
        assert_eq!(&self.bytes(8).await[..], b"AMQP\x00\x01\x00\x00");
        self.stream.write_all(b"AMQP\x00\x01\x00\x00").await.unwrap();
        assert_eq!(self.frame().await.1, 0x10);
    }

    async fn accept(&mut self, frame_bytes: u32, window: u32) {
        self.greet().await;
        self.send(0x10, 5, |fields| {
            fields.string("broker");
            fields.null();
            fields.uint(frame_bytes);
            fields.null();
            fields.uint(20_000);
        })
        .await;
        assert_eq!(self.frame().await.1, 0x11);
        self.send(0x11, 4, |fields| {
            fields.ushort(0);
            fields.uint(5);
            fields.uint(window);
            fields.uint(9);
        })
        .await;
        let (_, code, attach, _) = self.frame().await;
        assert_eq!((code, field(&attach, 6).composite().unwrap().0), (0x12, 0x29));
        self.send(0x12, 7, |fields| {
            fields.string("client");
            fields.uint(0);
            fields.bool(true);
            (0..3).for_each(|_| fields.null());
            fields.composite(0x29, 1, |fields| fields.string("queue://a"));
        })
        .await;
    }

    /// Gives credit: frames and deliveries that it takes behind those that it has seen.
    async fn flow(&mut self, frames_seen: u32, window: u32, deliveries: u32, credit: u32, drains: bool) {
        self.send(0x13, 9, |fields| {
            fields.uint(frames_seen);
            fields.uint(window);
            fields.uint(5);
            fields.uint(9);
            fields.uint(0);
            fields.uint(deliveries);
            fields.uint(credit);
            fields.null();
            fields.bool(drains);
        })
        .await;
    }

    async fn settle(&mut self, first: u32, last: u32, state: u8) {
        self.send(0x15, 5, |fields| {
            fields.bool(true);
            fields.uint(first);
            fields.uint(last);
            fields.bool(true);
            fields.composite(state, 0, |_| {});
        })
        .await;
    }
}

async fn connected(frame_bytes: u32, window: u32) -> (Connection, Fake) {
    let (near, far) = duplex(1 << 20);
    let mut fake = Fake { stream: far, buffer: BytesMut::new() };
    let (connection, ()) = tokio::join!(Connection::open(near, settings()), fake.accept(frame_bytes, window));
    (connection.unwrap(), fake)
}

#[tokio::test(start_paused = true)]
async fn messages_wait_for_credit_and_are_confirmed_when_they_are_accepted() {
    let (connection, mut fake) = connected(65_536, 100).await;
    let broker = async {
        fake.flow(0, 100, 0, 1, false).await;
        let (_, code, transfer, payload) = fake.frame().await;
        assert_eq!((code, field(&transfer, 1), field(&transfer, 4)), (0x14, &Value::Number(0), &Value::Bool(false)));
        assert!(payload.windows(2).any(|text| text == b"a1"));
        fake.flow(1, 99, 1, 1, false).await;
        assert_eq!(field(&fake.frame().await.2, 1), &Value::Number(1));
        fake.settle(0, 1, 0x24).await;
        fake.flow(2, 98, 2, 10, false).await;
        assert!(fake.frame().await.3.windows(2).any(|text| text == b"a2"));
        fake.settle(2, 2, 0x24).await;
    };
    let messages = vec![message("a", "a1"), message("a", "a2"), message("b", "b1")];
    let (sent, ()) = tokio::join!(connection.send(messages, ROUND), broker);
    assert_eq!((sent.confirmed, sent.failed.is_none()), (vec![true; 3], true));
    drop(connection);
    assert_eq!(fake.frame().await.1, 0x18);
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_cut_into_frames_that_the_broker_takes_as_its_window_allows() {
    let (connection, mut fake) = connected(512, 3).await;
    let long = "ü".repeat(3_000);
    let broker = async {
        fake.flow(0, 3, 0, 5, false).await;
        let (mut text, mut frames) = (Vec::new(), 0);
        loop {
            let (size, code, transfer, payload) = fake.frame().await;
            assert!(size <= 512 && code == 0x14, "{size} {code}");
            text.extend(payload);
            frames += 1;
            if !field(&transfer, 5).is_true() {
                break;
            }
            if frames % 3 == 0 {
                let mut more = [0; 1];
                let early = tokio::time::timeout(Duration::from_secs(1), fake.stream.read(&mut more)).await;
                assert!(early.is_err() && fake.buffer.is_empty(), "it sends more than the window allows");
                fake.flow(frames, 3, 1, 4, false).await;
            }
        }
        assert!(frames > 10);
        assert!(text.windows(long.len()).any(|part| part == long.as_bytes()));
        fake.settle(0, 0, 0x24).await;
    };
    let (sent, ()) = tokio::join!(connection.send(vec![message("a", &long)], ROUND), broker);
    assert!(sent.failed.is_none() && sent.confirmed == [true], "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_rejected_or_released_is_named_and_the_connection_stays() {
    let (connection, mut fake) = connected(65_536, 100).await;
    for (state, part) in [(0x25, "without a reason"), (0x26, "gives the message back")] {
        let broker = async {
            let seen = if state == 0x25 { 0 } else { 2 };
            fake.flow(seen, 100, seen, 10, false).await;
            fake.frame().await;
            fake.frame().await;
            fake.settle(seen + 1, seen + 1, state).await;
            fake.settle(seen, seen, 0x24).await;
        };
        let (sent, ()) = tokio::join!(connection.send(vec![message("a", "1"), message("b", "2")], ROUND), broker);
        assert_eq!(sent.confirmed, [true, false]);
        let (index, error) = sent.failed.unwrap();
        assert!(index == 1 && error.to_string().contains(part), "{error}");
        assert!(connection.is_open());
    }
}

#[tokio::test(start_paused = true)]
async fn credit_that_is_taken_back_is_given_up() {
    let (connection, mut fake) = connected(65_536, 100).await;
    fake.flow(0, 100, 0, 10, true).await;
    let (_, code, flow, _) = fake.frame().await;
    assert_eq!((code, field(&flow, 5), field(&flow, 6)), (0x13, &Value::Number(10), &Value::Number(0)));
    let broker = async {
        fake.flow(0, 100, 10, 1, false).await;
        // Numbers of deliveries follow each other, whatever credit was given up.
        assert_eq!(field(&fake.frame().await.2, 1), &Value::Number(0));
        fake.settle(0, 0, 0x24).await;
    };
    let (sent, ()) = tokio::join!(connection.send(vec![message("a", "1")], ROUND), broker);
    assert!(sent.failed.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_gives_no_credit_or_never_settles_is_given_up() {
    for credit in [0, 10] {
        let (connection, mut fake) = connected(65_536, 100).await;
        fake.flow(0, 100, 0, credit, false).await;
        let begun = Instant::now();
        let alive = async {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                fake.stream.write_all(b"\x00\x00\x00\x08\x02\x00\x00\x00").await.unwrap();
            }
        };
        let sent = tokio::select! {
            sent = connection.send(vec![message("a", "1")], ROUND) => sent,
            () = alive => unreachable!(),
        };
        assert!(matches!(sent.failed, Some((0, SendError::TimedOut(_)))), "{sent:?}");
        assert_eq!(begun.elapsed().as_secs(), 20);
        assert!(!connection.is_open());
    }
    let (near, _far) = duplex(1 << 20);
    assert!(matches!(Connection::open(near, settings()).await, Err(SendError::TimedOut(_))));
}

#[tokio::test(start_paused = true)]
async fn both_sides_show_that_they_are_there_and_a_broker_that_does_not_is_given_up() {
    let (connection, mut fake) = connected(65_536, 100).await;
    let begun = Instant::now();
    assert_eq!(&fake.bytes(8).await[..], b"\x00\x00\x00\x08\x02\x00\x00\x00");
    assert_eq!(begun.elapsed().as_secs(), 10);
    let mut rest = Vec::new();
    fake.stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 40);
    assert!(!connection.is_open());
}

/// What a client makes of a broker that writes this at once.
async fn opened(bytes: &[u8], login: Option<Login>) -> String {
    let (near, mut far) = duplex(1 << 20);
    far.write_all(bytes).await.unwrap();
    let opened = Connection::open(near, Settings { login, ..settings() }).await;
    opened.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn what_is_no_acceptance_of_a_login_is_an_error() {
    for (bytes, part) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "more than"),
        (b"AMQP\x00\x00\x09\x01", "does not know AMQP 1.0"),
        (b"ERROR\nmessage:a\n\n\0", "more than"),
        (b"\x00\x00\x00\x08\x02\x00\x00\x00", "not asked for"),
    ] {
        let error = opened(bytes, None).await;
        assert!(error.contains(part), "{error}");
    }
    let greeting = |names: &[&str], outcome: u8| {
        let mut out = BytesMut::from(&b"AMQP\x03\x01\x00\x00"[..]);
        let mut array = BytesMut::new();
        names.iter().for_each(|name| {
            array.put_u8(name.len() as u8);
            array.put_slice(name.as_bytes());
        });
        write(
            &mut out,
            SASL,
            0x40,
            1,
            |fields| {
                fields.0.put_slice(&[0xE0, array.len() as u8 + 2, names.len() as u8, 0xA3]);
                fields.0.put_slice(&array);
            },
            b"",
        );
        write(&mut out, SASL, 0x44, 1, |fields| fields.ubyte(outcome), b"");
        out
    };
    let login = || Some(Login { user: "me".to_owned(), password: Hidden::new("secret") });
    let error = opened(&greeting(&["ANONYMOUS", "EXTERNAL"], 0), login()).await;
    assert!(error.contains("offers no login by PLAIN"), "{error}");
    let error = opened(&greeting(&["PLAIN", "ANONYMOUS"], 1), login()).await;
    assert!(error.contains("refuses: the login"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_closes_with_an_error_is_quoted_and_one_that_nests_values_is_given_up() {
    let closed = async |error: fn(&mut Writer<'_>)| {
        let (near, far) = duplex(1 << 20);
        let mut fake = Fake { stream: far, buffer: BytesMut::new() };
        let broker = async {
            fake.greet().await;
            fake.send(0x18, 1, error).await;
        };
        let (opened, ()) = tokio::join!(Connection::open(near, settings()), broker);
        opened.unwrap_err().to_string()
    };
    let quoted = closed(|fields| {
        fields.composite(0x1D, 2, |fields| {
            fields.symbol("amqp:not-allowed");
            fields.string("no such\nhost");
        });
    });
    assert!(quoted.await.ends_with("refuses: no such host"));
    let nested = closed(|fields| fields.0.put_slice(&[0; 10_000]));
    assert!(nested.await.contains("nested too deep"));
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_a_broker_does_not_attach_is_refused() {
    let (near, far) = duplex(1 << 20);
    let mut fake = Fake { stream: far, buffer: BytesMut::new() };
    let broker = async {
        fake.greet().await;
        fake.send(0x10, 1, |fields| fields.string("broker")).await;
        fake.frame().await;
        fake.send(0x11, 4, |fields| {
            fields.ushort(0);
            (0..3).for_each(|_| fields.uint(0));
        })
        .await;
        fake.frame().await;
        fake.send(0x12, 3, |fields| {
            fields.string("client");
            fields.uint(0);
            fields.bool(true);
        })
        .await;
        fake.send(0x16, 3, |fields| {
            fields.uint(0);
            fields.bool(true);
            fields.composite(0x1D, 1, |fields| fields.symbol("amqp:unauthorized-access"));
        })
        .await;
    };
    let (opened, ()) = tokio::join!(Connection::open(near, settings()), broker);
    assert!(opened.unwrap_err().to_string().ends_with("amqp:unauthorized-access"));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_asks_without_an_end_and_reads_nothing_is_given_up_and_holds_no_memory() {
    let (near, far) = duplex(64 << 10);
    let mut fake = Fake { stream: far, buffer: BytesMut::new() };
    let (connection, ()) = tokio::join!(Connection::open(near, settings()), fake.accept(65_536, 100));
    let connection = connection.unwrap();
    let mut echo = BytesMut::new();
    let fields = |fields: &mut Writer<'_>| {
        fields.uint(0);
        (0..3).for_each(|_| fields.uint(100));
        (0..5).for_each(|_| fields.null());
        fields.bool(true);
    };
    write(&mut echo, AMQP, 0x13, 10, fields, b"");
    let mut asked = 0_usize;
    while tokio::time::timeout(Duration::from_secs(60), fake.stream.write_all(&echo)).await.is_ok_and(|it| it.is_ok()) {
        asked += echo.len();
        assert!(asked < 16 << 20, "the client reads on although nothing that it writes is taken");
    }
    tokio::time::timeout(Duration::from_secs(60), async {
        while connection.is_open() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_do_not_come_oftener_than_is_of_use() {
    let (near, far) = duplex(1 << 20);
    let mut fake = Fake { stream: far, buffer: BytesMut::new() };
    let broker = async {
        fake.greet().await;
        fake.send(0x10, 5, |fields| {
            fields.string("broker");
            (0..3).for_each(|_| fields.null());
            fields.uint(1);
        })
        .await;
        fake.frame().await;
        let begun = Instant::now();
        assert_eq!(&fake.bytes(8).await[..], b"\x00\x00\x00\x08\x02\x00\x00\x00");
        assert!(begun.elapsed() >= Duration::from_millis(900));
    };
    tokio::select! {
        _ = Connection::open(near, settings()) => unreachable!("it is not attached"),
        () = broker => {}
    }
}
