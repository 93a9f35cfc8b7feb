//! Records: nothing acknowledged is lost, and nothing that has expired comes back. Changes are sent one
//! by one, several at once, and in transactions.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::{SETTINGS, choices};
use crate::harness::*;

/// The default number of rounds.
const ROUNDS: u64 = 6;

/// Writers, each with a connection, texts, and records with attributes of their own.
const WRITERS: usize = 4;
const TEXTS: usize = 5;
const RECORDS: usize = 3;

/// The attributes of a record. A change of one keeps the others, with their expiries.
const NAMES: [&str; 2] = ["f", "g"];

/// So many changes at most are sent at once: more than a writer has keys, so that some wait for others
/// of their key.
const PIPELINED_MAX: usize = 16;

/// A transaction has so many changes at most.
const TRANSACTED_MAX: usize = 5;

/// Changes that are sent at once have one deadline, and wait for several syncs.
const DEADLINE: &str = "--set=records.deadline=60s";

/// What is counted once it is acknowledged: single changes of texts and of attributes, then these.
const KINDS: usize = 4;
const PIPELINE: usize = 2;
const TRANSACTION: usize = 3;

/// A value, and when it expires, in milliseconds since 1970.
type State = Option<(u64, Option<u64>)>;

/// The states of a key: those of its attributes. A text has only the first one.
type States = [State; NAMES.len()];

/// A change of a text or an attribute.
#[derive(Clone, Copy, Debug)]
enum Change {
    Delete,
    /// A value, and when it expires.
    Set(u64, Option<u64>),
    /// The value stays as it is.
    ExpireAt(u64),
}

impl Change {
    fn random(rng: &mut StdRng) -> Self {
        let (value, soon, late) = (rng.random(), now() + rng.random_range(1..1_000), now() + 3_600_000);
        match rng.random_range(0..9) {
            0 => Self::Delete,
            1 | 2 => Self::Set(value, None),
            3 => Self::Set(value, Some(late)),
            4 => Self::ExpireAt(late),
            5 | 6 => Self::ExpireAt(soon),
            _ => Self::Set(value, Some(soon)),
        }
    }

    fn after(self, before: State) -> State {
        match self {
            Self::Delete => None,
            Self::Set(value, expires_at) => Some((value, expires_at)),
            Self::ExpireAt(at) => before.map(|(value, _)| (value, Some(at))),
        }
    }
}

/// A text, or an attribute of a record.
#[derive(Clone, Debug)]
struct Place {
    key: String,
    name: Option<&'static str>,
}

impl Place {
    /// Which of the states of its key is its own.
    fn part(&self) -> usize {
        NAMES.iter().position(|name| self.name == Some(*name)).unwrap_or(0)
    }

    fn command(&self, change: Change) -> String {
        let key = &self.key;
        match (self.name, change) {
            (None, Change::Delete) => format!("DEL {key}"),
            (None, Change::Set(value, None)) => format!("SET {key} {value}"),
            (None, Change::Set(value, Some(at))) => format!("SET {key} {value} PXAT {at}"),
            (None, Change::ExpireAt(at)) => format!("PEXPIREAT {key} {at}"),
            (Some(name), Change::Delete) => format!("HDEL {key} {name}"),
            (Some(name), Change::Set(value, None)) => format!("HSET {key} {name} {value}"),
            (Some(name), Change::Set(value, Some(at))) => format!("HSETEX {key} PXAT {at} FIELDS 1 {name} {value}"),
            (Some(name), Change::ExpireAt(at)) => format!("HPEXPIREAT {key} {at} FIELDS 1 {name}"),
        }
    }

    fn question(&self) -> String {
        match self.name {
            None => format!("GET {}", self.key),
            Some(name) => format!("HGET {} {name}", self.key),
        }
    }
}

/// A change that is sent.
struct Sent {
    place: Place,
    change: Change,
}

impl Sent {
    fn command(&self) -> String {
        self.place.command(self.change)
    }
}

/// A key of a writer: a text, or a record with attributes.
struct Kept {
    places: Vec<Place>,
    known: Known,
}

impl Kept {
    /// All of a writer. Nothing is there yet.
    fn all_of(writer: usize) -> Vec<Self> {
        let text = |text: usize| vec![Place { key: format!("w{writer}t{text}"), name: None }];
        let record = |record: usize| -> Vec<Place> {
            NAMES.iter().map(|name| Place { key: format!("w{writer}r{record}"), name: Some(*name) }).collect()
        };
        let all = (0..TEXTS).map(text).chain((0..RECORDS).map(record));
        all.map(|places| Self { places, known: Known(BTreeSet::from([States::default()])) }).collect()
    }

    fn random_change(&self, rng: &mut StdRng) -> Sent {
        let place = self.places[rng.random_range(0..self.places.len())].clone();
        Sent { place, change: Change::random(rng) }
    }
}

/// What the states of a key may be. It is known, unless the answers to its last changes were lost.
#[derive(Clone, Debug)]
struct Known(BTreeSet<States>);

impl Known {
    /// Takes note of whether a place was there between two times.
    fn was(&mut self, place: &Place, is_there: bool, [began, ended]: [u64; 2]) {
        let before = self.0.clone();
        self.0.retain(|states| match (states[place.part()], is_there) {
            (Some((_, expires_at)), true) => expires_at.is_none_or(|at| at > began),
            (Some((_, expires_at)), false) => expires_at.is_some_and(|at| at <= ended),
            (None, is_there) => !is_there,
        });
        let how = if is_there { "there" } else { "not there" };
        assert!(!self.0.is_empty(), "{place:?} was {how} from {began} to {ended}, but could be {before:?}");
        if !is_there {
            *self = self.after(place, Change::Delete);
        }
    }

    /// Takes note of a value that was read between two times.
    fn saw(&mut self, place: &Place, value: Option<u64>, times: [u64; 2]) {
        let before = self.0.clone();
        if let Some(value) = value {
            self.0.retain(|states| states[place.part()].is_some_and(|(stored, _)| stored == value));
        }
        assert!(!self.0.is_empty(), "{place:?} was {value:?}, but could be {before:?}");
        self.was(place, value.is_some(), times);
    }

    /// Takes note of a change that was acknowledged between two times.
    fn changed(&mut self, place: &Place, change: Change, answer: Option<&str>, times: [u64; 2]) {
        if let Change::ExpireAt(_) = change {
            // 1: it is set; 2: that time has passed already, so it is deleted. Else there was nothing.
            self.was(place, matches!(answer, Some("1" | "2")), times);
        }
        *self = self.after(place, change);
    }

    /// Takes note of changes whose answers were lost: the first few of them may be made.
    fn may_be_changed<'a>(&mut self, sent: impl IntoIterator<Item = &'a Sent>) {
        let mut last = self.clone();
        for Sent { place, change } in sent {
            last = last.after(place, *change);
            self.0.extend(&last.0);
        }
    }

    /// Takes note of a transaction whose answer was lost: all of it may be made.
    fn may_be_changed_as_one(&mut self, sent: &[Sent]) {
        let all = sent.iter().fold(self.clone(), |known, Sent { place, change }| known.after(place, *change));
        self.0.extend(all.0);
    }

    fn after(&self, place: &Place, change: Change) -> Self {
        let changed = |states: &States| {
            let mut states = *states;
            states[place.part()] = change.after(states[place.part()]);
            states
        };
        Self(self.0.iter().map(changed).collect())
    }
}

/// A client of the Redis protocol.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// The answer to a command.
    fn ask(&mut self, command: &str) -> std::io::Result<Option<String>> {
        self.send(command)?;
        self.receive(command)
    }

    fn send(&mut self, commands: &str) -> std::io::Result<()> {
        self.0.get_mut().write_all(format!("{commands}\r\n").as_bytes())
    }

    /// The next answer, which is to this command: its text, without the sign of its type, or that of the
    /// only one in a list; `None`: nothing. Of a longer list it is the length.
    fn receive(&mut self, command: &str) -> std::io::Result<Option<String>> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let (kind, text) = line.trim_end().split_at(1);
            return match kind {
                "*" if text == "1" => continue,
                "$" if text == "-1" => Ok(None),
                "$" => {
                    let mut bytes = vec![0; text.parse::<usize>().unwrap() + 2];
                    self.0.read_exact(&mut bytes)?;
                    Ok(Some(String::from_utf8(bytes).unwrap().trim_end().to_owned()))
                }
                "-" => panic!("{command} is refused: {text}"),
                _ => Ok(Some(text.to_owned())),
            };
        }
    }

    fn look(&mut self, place: &Place, known: &mut Known) -> std::io::Result<()> {
        let began = now();
        let value = self.ask(&place.question())?.map(|text| text.parse().unwrap());
        known.saw(place, value, [began, now()]);
        Ok(())
    }

    fn change(&mut self, known: &mut Known, sent: &Sent) -> std::io::Result<()> {
        let began = now();
        let answered = self.ask(&sent.command());
        match &answered {
            Ok(answer) => known.changed(&sent.place, sent.change, answer.as_deref(), [began, now()]),
            Err(_) => known.may_be_changed([sent]),
        }
        answered.map(|_| ())
    }

    /// Sends changes of these keys at once, and then takes the answers.
    fn pipeline(&mut self, keys: &mut [Kept], sent: &[(usize, Sent)]) -> std::io::Result<()> {
        let commands: Vec<String> = sent.iter().map(|(_, sent)| sent.command()).collect();
        let (began, mut count) = (now(), 0);
        let answered = self.send(&commands.join("\r\n")).and_then(|()| {
            for ((key, Sent { place, change }), command) in sent.iter().zip(&commands) {
                let answer = self.receive(command)?;
                keys[*key].known.changed(place, *change, answer.as_deref(), [began, now()]);
                count += 1;
            }
            Ok(())
        });
        // Changes of a key are made in their order, and those of different keys in any.
        for (key, kept) in keys.iter_mut().enumerate() {
            kept.known.may_be_changed(sent[count..].iter().filter(|(of, _)| *of == key).map(|(_, sent)| sent));
        }
        answered
    }

    /// Makes changes of one key as one.
    fn transact(&mut self, known: &mut Known, sent: &[Sent]) -> std::io::Result<()> {
        let commands: Vec<String> = sent.iter().map(Sent::command).collect();
        let began = now();
        match self.execute(&commands) {
            Ok(answers) => {
                for (Sent { place, change }, answer) in sent.iter().zip(answers) {
                    known.changed(place, *change, answer.as_deref(), [began, now()]);
                }
                Ok(())
            }
            Err(error) => {
                known.may_be_changed_as_one(sent);
                Err(error)
            }
        }
    }

    /// Sends a transaction at once. Returns the answers to its commands, of which there are several.
    fn execute(&mut self, commands: &[String]) -> std::io::Result<Vec<Option<String>>> {
        self.send(&format!("MULTI\r\n{}\r\nEXEC", commands.join("\r\n")))?;
        self.receive("MULTI")?;
        for command in commands {
            assert_eq!(self.receive(command)?.as_deref(), Some("QUEUED"), "{command}");
        }
        let count = commands.len().to_string();
        assert_eq!(self.receive("EXEC")?, Some(count), "each command of a transaction has an answer");
        commands.iter().map(|command| self.receive(command)).collect()
    }
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Changes and reads until the server is gone. Returns how much of each kind was acknowledged.
fn write(address: &str, keys: &mut [Kept], rng: &mut StdRng) -> [u64; KINDS] {
    let mut acknowledged = [0; KINDS];
    let Ok(mut client) = Client::new(address) else { return acknowledged };
    loop {
        let key = rng.random_range(0..keys.len());
        let (kind, answered) = match rng.random_range(0..4) {
            0 => {
                let sent = several_changes(keys, rng);
                (PIPELINE, client.pipeline(keys, &sent))
            }
            1 => {
                let count = rng.random_range(2..=TRANSACTED_MAX);
                let sent: Vec<Sent> = (0..count).map(|_| keys[key].random_change(rng)).collect();
                (TRANSACTION, client.transact(&mut keys[key].known, &sent))
            }
            _ => {
                let sent = keys[key].random_change(rng);
                (usize::from(sent.place.name.is_some()), client.change(&mut keys[key].known, &sent))
            }
        };
        if answered.is_err() {
            return acknowledged;
        }
        acknowledged[kind] += 1;
        let key = rng.random_range(0..keys.len());
        let Kept { places, known } = &mut keys[key];
        let place = &places[rng.random_range(0..places.len())];
        if client.look(place, known).is_err() {
            return acknowledged;
        }
    }
}

/// Changes of several keys, with the number of the key of each. A key comes again after all others.
fn several_changes(keys: &[Kept], rng: &mut StdRng) -> Vec<(usize, Sent)> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.shuffle(rng);
    let count = rng.random_range(2..=PIPELINED_MAX);
    order.iter().cycle().take(count).map(|key| (*key, keys[*key].random_change(rng))).collect()
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_expired_comes_back() {
    survive_kills("--set=records.durability=sync");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_dies_long_before_a_sync() {
    survive_kills("--set=records.durability=every 10s");
}

fn survive_kills(durability: &str) {
    let (mut rng, rounds) = choices(ROUNDS);
    let store = TestStore::vacant();
    let settings = [&SETTINGS[..], &["--records-listen", "127.0.0.1:0", DEADLINE, durability]].concat();
    let mut keys: Vec<Vec<Kept>> = (0..WRITERS).map(Kept::all_of).collect();
    let mut acknowledged = [0; KINDS];
    for _ in 0..rounds {
        let served = store.serve(&settings);
        let address = served.records_address();
        look_at_all(&address, &mut keys);
        // This is no wait for an event: the moment of the kill is random.
        let moment = Duration::from_millis(rng.random_range(0..1_500));
        let rngs: Vec<StdRng> = (0..WRITERS).map(|_| StdRng::from_rng(&mut rng)).collect();
        thread::scope(|scope| {
            let writers = keys.iter_mut().zip(rngs).map(|(keys, mut rng)| {
                let address = &address;
                scope.spawn(move || write(address, keys, &mut rng))
            });
            let writers: Vec<_> = writers.collect();
            thread::sleep(moment);
            served.kill();
            for writer in writers {
                let of_writer = writer.join().unwrap();
                acknowledged.iter_mut().zip(of_writer).for_each(|(all, count)| *all += count);
            }
        });
    }
    assert!(acknowledged.iter().all(|count| *count > 0), "some kind was never acknowledged: {acknowledged:?}");
    look_at_all(&store.serve(&settings).records_address(), &mut keys);
}

/// Nothing acknowledged is missing, and nothing expired is there.
fn look_at_all(address: &str, keys: &mut [Vec<Kept>]) {
    let mut client = Client::new(address).unwrap();
    for Kept { places, known } in keys.iter_mut().flatten() {
        for place in places.iter() {
            client.look(place, known).unwrap();
        }
    }
}
