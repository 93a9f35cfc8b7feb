//! Clients of the records door of both servers. All of them count in one record. Each sets a text of
//! its own again and again, which expires soon.
//!
//! Each increment that was answered counts once, whichever server made it. A text that was
//! acknowledged is there until it expires, and is not read after that.

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use rand::Rng;
use rand::rngs::StdRng;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::Running;
use crate::crash::corpus::now;

/// The longest life of a text, in milliseconds.
const LIFE_MS_MAX: i64 = 1_500;

/// By so much the times of two servers may differ, in milliseconds: half of the setting.
const APART_MS: i64 = 250;

/// What all clients know of the counter.
#[derive(Default)]
pub(super) struct Counted {
    /// The answers. Each is another number.
    answers: BTreeSet<usize>,
    /// Increments that may have been made.
    unknown: usize,
}

/// What a client knows of its text.
#[derive(Default)]
pub(super) struct Text {
    key: String,
    /// The last value.
    value: u64,
    /// Until when the last value is there; `None`: nobody knows whether it was set.
    there_until: Option<i64>,
    /// From when on none of the values is there.
    gone_from: i64,
    /// How often it was looked at while it was there, and after it was gone.
    seen: [u64; 2],
}

/// The answer to a command.
#[derive(Debug)]
enum Answer {
    /// A number or a text; `None`: nothing.
    Of(Option<String>),
    /// The command was refused, and changed nothing.
    Refused,
    /// Whether it changed something is not known.
    Unknown,
}

/// A connection.
struct Connection(BufReader<TcpStream>);

impl Connection {
    async fn open(address: &str, token: &str) -> io::Result<Self> {
        let mut connection = Self(BufReader::new(TcpStream::connect(address).await?));
        connection.ask(&format!("AUTH {token}")).await?;
        Ok(connection)
    }

    async fn ask(&mut self, command: &str) -> io::Result<Answer> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).await?;
        let line = self.line().await?;
        let (sign, text) = line.split_at(1);
        let is_passing = ["DEADLINE ", "OVERLOADED ", "READONLY ", "ERR the store is unavailable for now"];
        Ok(match sign {
            "-" if text.starts_with("UNKNOWN ") => Answer::Unknown,
            "-" if is_passing.iter().any(|refusal| text.starts_with(refusal)) => Answer::Refused,
            "-" => panic!("{command}: {text}"),
            "$" if text == "-1" => Answer::Of(None),
            "$" => Answer::Of(Some(self.line().await?)),
            _ => Answer::Of(Some(text.to_owned())),
        })
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Counted {
    async fn count(counted: &Mutex<Self>, connection: &mut Connection) -> io::Result<()> {
        let answer = connection.ask("HINCRBY counted count 1").await;
        let mut counted = counted.lock().unwrap();
        match &answer {
            Ok(Answer::Refused) => {}
            Ok(Answer::Of(Some(number))) => {
                assert!(counted.answers.insert(number.parse().unwrap()), "{number} was answered twice");
            }
            Ok(Answer::Of(None)) => panic!("an increment has no number"),
            Ok(Answer::Unknown) | Err(_) => counted.unknown += 1,
        }
        answer.map(drop)
    }
}

impl Text {
    /// That of a client.
    pub(super) fn of(client: usize) -> Self {
        Self { key: format!("text-{client}"), ..Self::default() }
    }

    async fn set(&mut self, connection: &mut Connection, rng: &mut StdRng) -> io::Result<()> {
        self.value += 1;
        let (life, began) = (rng.random_range(1..LIFE_MS_MAX), now());
        let answer = connection.ask(&format!("SET {} {} PX {life}", self.key, self.value)).await;
        match &answer {
            Ok(Answer::Refused) => {
                self.value -= 1;
                return Ok(());
            }
            Ok(Answer::Of(_)) => self.there_until = Some(began + life - APART_MS),
            Ok(Answer::Unknown) | Err(_) => self.there_until = None,
        }
        self.gone_from = self.gone_from.max(now() + life + APART_MS);
        answer.map(drop)
    }

    async fn look(&mut self, connection: &mut Connection) -> io::Result<()> {
        let began = now();
        let Answer::Of(found) = connection.ask(&format!("GET {}", self.key)).await? else { return Ok(()) };
        let (Self { key, value, .. }, ended) = (&*self, now());
        if began >= self.gone_from {
            assert_eq!(found, None, "{key} has expired");
            self.seen[1] += u64::from(self.value > 0);
        } else if self.there_until.is_some_and(|until| ended < until) {
            assert_eq!(found, Some(value.to_string()), "{key} was set, and has not expired");
            self.seen[0] += 1;
        }
        Ok(())
    }
}

impl Running {
    /// Counts, and sets and reads a text, until the server is killed.
    pub(super) async fn keep_records(&self, token: &str, counted: &Mutex<Counted>, text: &mut Text, mut rng: StdRng) {
        let kept = self.keep(token, counted, text, &mut rng).await;
        assert!(self.killing.load(Ordering::SeqCst), "it was not killed yet: {kept:?}");
    }

    async fn keep(&self, token: &str, counted: &Mutex<Counted>, text: &mut Text, rng: &mut StdRng) -> io::Result<()> {
        let mut connection = Connection::open(&self.records, token).await?;
        loop {
            Counted::count(counted, &mut connection).await?;
            text.look(&mut connection).await?;
            if now() >= text.gone_from || rng.random_ratio(1, 100) {
                text.set(&mut connection, rng).await?;
            }
        }
    }
}

/// Compares what is there in the end with what all clients know.
pub(super) async fn check(running: &Running, token: &str, counted: &Mutex<Counted>, texts: &mut [Text]) {
    let mut connection = Connection::open(&running.records, token).await.unwrap();
    let stored = loop {
        if let Answer::Of(stored) = connection.ask("HGET counted count").await.unwrap() {
            break stored.map_or(0, |stored| stored.parse::<usize>().unwrap());
        }
    };
    let (answered, last, unknown) = {
        let Counted { answers, unknown } = &*counted.lock().unwrap();
        (answers.len(), answers.last().copied().unwrap_or_default(), *unknown)
    };
    println!("counted to {stored}: {answered} increments answered, {unknown} unknown");
    assert!((answered..=answered + unknown).contains(&stored) && last <= stored, "{last} was answered");
    for text in texts {
        text.look(&mut connection).await.unwrap();
        let Text { key, seen: [there, gone], .. } = text;
        assert!(*there > 0 && *gone > 0, "{key} was there {there} times, and gone {gone} times");
    }
}
