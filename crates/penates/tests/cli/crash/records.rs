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

/// Writers, each with a connection and keys of its own.
const WRITERS: usize = 4;
const KEYS: usize = 5;

/// The value of a record, and when it expires, in milliseconds since 1970.
type State = Option<(u64, Option<u64>)>;

/// What a record may be: one state, or several if the answer to its last change was lost.
#[derive(Clone, Debug)]
struct Known(Vec<State>);

impl Known {
    /// Takes note of a value that was read between two times.
    fn saw(&mut self, key: &str, value: Option<u64>, [began, ended]: [u64; 2]) {
        let before = self.0.clone();
        self.0.retain(|state| match (state, value) {
            (Some((stored, expires_at)), Some(value)) => *stored == value && expires_at.is_none_or(|at| at > began),
            (Some((_, expires_at)), None) => expires_at.is_some_and(|at| at <= ended),
            (None, value) => value.is_none(),
        });
        assert!(!self.0.is_empty(), "{key} was {value:?} from {began} to {ended}, but could be {before:?}");
        if value.is_none() {
            self.0 = vec![None];
        }
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

    /// The answer to a command: its text, without the sign of its type; `None`: nothing.
    fn ask(&mut self, command: &str) -> std::io::Result<Option<String>> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, text) = line.trim_end().split_at(1);
        match kind {
            "$" if text == "-1" => Ok(None),
            "$" => {
                let mut bytes = vec![0; text.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes)?;
                Ok(Some(String::from_utf8(bytes).unwrap().trim_end().to_owned()))
            }
            "-" => panic!("{command} is refused: {text}"),
            _ => Ok(Some(text.to_owned())),
        }
    }

    fn look(&mut self, key: &str, known: &mut Known) -> std::io::Result<()> {
        let began = now();
        let value = self.ask(&format!("GET {key}"))?.map(|text| text.parse().unwrap());
        known.saw(key, value, [began, now()]);
        Ok(())
    }
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Changes and reads records until the server is gone. Returns how many changes were acknowledged.
fn write(address: &str, records: &mut [(String, Known)], rng: &mut StdRng) -> u64 {
    let Ok(mut client) = Client::new(address) else { return 0 };
    let mut acknowledged = 0;
    loop {
        let (key, known) = &mut records[rng.random_range(0..KEYS)];
        let value = rng.random();
        let (command, after) = match rng.random_range(0..6) {
            0 => (format!("DEL {key}"), None),
            1 | 2 => (format!("SET {key} {value}"), Some((value, None))),
            soon => {
                let at = now() + if soon == 3 { 3_600_000 } else { rng.random_range(1..1_000) };
                (format!("SET {key} {value} PXAT {at}"), Some((value, Some(at))))
            }
        };
        match client.ask(&command) {
            Ok(_) => {
                known.0 = vec![after];
                acknowledged += 1;
            }
            Err(_) => {
                known.0.push(after);
                return acknowledged;
            }
        }
        let (key, known) = &mut records[rng.random_range(0..KEYS)];
        if client.look(key, known).is_err() {
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
    let of_writer = |writer: usize| (0..KEYS).map(|key| (format!("w{writer}k{key}"), Known(vec![None]))).collect();
    let mut records: Vec<Vec<(String, Known)>> = (0..WRITERS).map(of_writer).collect();
    let mut acknowledged = 0;
    for _ in 0..rounds {
        let served = store.serve(&settings);
        let address = served.records_address();
        let mut client = Client::new(&address).unwrap();
        for (key, known) in records.iter_mut().flatten() {
            client.look(key, known).unwrap();
        }
        // This is no wait for an event: the moment of the kill is random.
        let moment = Duration::from_millis(rng.random_range(0..1_500));
        let rngs: Vec<StdRng> = (0..WRITERS).map(|_| StdRng::from_rng(&mut rng)).collect();
        acknowledged += thread::scope(|scope| {
            let writers = records.iter_mut().zip(rngs).map(|(records, mut rng)| {
                let address = &address;
                scope.spawn(move || write(address, records, &mut rng))
            });
            let writers: Vec<_> = writers.collect();
            thread::sleep(moment);
            served.kill();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>()
        });
    }
    assert!(acknowledged > 0, "nothing was ever acknowledged");
    let served = store.serve(&settings);
    let mut client = Client::new(&served.records_address()).unwrap();
    for (key, known) in records.iter_mut().flatten() {
        client.look(key, known).unwrap();
    }
}
