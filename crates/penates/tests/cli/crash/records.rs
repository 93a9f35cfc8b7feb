//! Records: nothing acknowledged is lost, and nothing that has expired comes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
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

/// A value, and when it expires, in milliseconds since 1970.
type State = Option<(u64, Option<u64>)>;

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
    /// All of a writer.
    fn all_of(writer: usize) -> impl Iterator<Item = Self> {
        let texts = (0..TEXTS).map(move |text| Self { key: format!("w{writer}t{text}"), name: None });
        let records = (0..RECORDS).map(move |record| format!("w{writer}r{record}"));
        texts.chain(records.flat_map(|key| NAMES.map(|name| Self { key: key.clone(), name: Some(name) })))
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

/// What a text or an attribute may be: one state, or several if the answer to its last change was
/// lost.
#[derive(Clone, Debug)]
struct Known(Vec<State>);

impl Known {
    /// Takes note of whether it was there between two times.
    fn was(&mut self, place: &Place, is_there: bool, [began, ended]: [u64; 2]) {
        let before = self.0.clone();
        self.0.retain(|state| match (state, is_there) {
            (Some((_, expires_at)), true) => expires_at.is_none_or(|at| at > began),
            (Some((_, expires_at)), false) => expires_at.is_some_and(|at| at <= ended),
            (None, is_there) => !is_there,
        });
        let how = if is_there { "there" } else { "not there" };
        assert!(!self.0.is_empty(), "{place:?} was {how} from {began} to {ended}, but could be {before:?}");
        if !is_there {
            self.0 = vec![None];
        }
    }

    /// Takes note of a value that was read between two times.
    fn saw(&mut self, place: &Place, value: Option<u64>, times: [u64; 2]) {
        let before = self.0.clone();
        if let Some(value) = value {
            self.0.retain(|state| state.is_some_and(|(stored, _)| stored == value));
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
        self.0 = self.after(change);
    }

    /// Takes note of a change whose answer was lost.
    fn may_be_changed(&mut self, change: Change) {
        self.0.extend(self.after(change));
    }

    fn after(&self, change: Change) -> Vec<State> {
        self.0.iter().map(|before| change.after(*before)).collect()
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

    /// The answer to a command: its text, without the sign of its type, or that of the only one in a
    /// list; `None`: nothing.
    fn ask(&mut self, command: &str) -> std::io::Result<Option<String>> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
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

    fn change(&mut self, place: &Place, known: &mut Known, change: Change) -> std::io::Result<()> {
        let began = now();
        let answered = self.ask(&place.command(change));
        match &answered {
            Ok(answer) => known.changed(place, change, answer.as_deref(), [began, now()]),
            Err(_) => known.may_be_changed(change),
        }
        answered.map(|_| ())
    }
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Changes and reads until the server is gone. Returns how many changes were acknowledged: those of
/// texts, and those of attributes.
fn write(address: &str, places: &mut [(Place, Known)], rng: &mut StdRng) -> [u64; 2] {
    let mut acknowledged = [0; 2];
    let Ok(mut client) = Client::new(address) else { return acknowledged };
    loop {
        let (place, known) = &mut places[rng.random_range(0..TEXTS + RECORDS * NAMES.len())];
        if client.change(place, known, Change::random(rng)).is_err() {
            return acknowledged;
        }
        acknowledged[usize::from(place.name.is_some())] += 1;
        let (place, known) = &mut places[rng.random_range(0..TEXTS + RECORDS * NAMES.len())];
        if client.look(place, known).is_err() {
            return acknowledged;
        }
    }
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
    let settings = [&SETTINGS[..], &["--records-listen", "127.0.0.1:0", durability]].concat();
    let of_writer = |writer| Place::all_of(writer).map(|place| (place, Known(vec![None]))).collect();
    let mut places: Vec<Vec<(Place, Known)>> = (0..WRITERS).map(of_writer).collect();
    let mut acknowledged = [0; 2];
    for _ in 0..rounds {
        let served = store.serve(&settings);
        let address = served.records_address();
        look_at_all(&address, &mut places);
        // This is no wait for an event: the moment of the kill is random.
        let moment = Duration::from_millis(rng.random_range(0..1_500));
        let rngs: Vec<StdRng> = (0..WRITERS).map(|_| StdRng::from_rng(&mut rng)).collect();
        thread::scope(|scope| {
            let writers = places.iter_mut().zip(rngs).map(|(places, mut rng)| {
                let address = &address;
                scope.spawn(move || write(address, places, &mut rng))
            });
            let writers: Vec<_> = writers.collect();
            thread::sleep(moment);
            served.kill();
            for writer in writers {
                let [texts, attributes] = writer.join().unwrap();
                acknowledged = [acknowledged[0] + texts, acknowledged[1] + attributes];
            }
        });
    }
    assert!(acknowledged.iter().all(|count| *count > 0), "nothing was ever acknowledged: {acknowledged:?}");
    look_at_all(&store.serve(&settings).records_address(), &mut places);
}

/// Nothing acknowledged is missing, and nothing expired is there.
fn look_at_all(address: &str, places: &mut [Vec<(Place, Known)>]) {
    let mut client = Client::new(address).unwrap();
    for (place, known) in places.iter_mut().flatten() {
        client.look(place, known).unwrap();
    }
}
