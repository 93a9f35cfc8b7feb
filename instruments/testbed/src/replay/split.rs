//! Reads a log once, and writes a part of it for each worker: lines of `microseconds METHOD /path`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::line::Line;
use super::{METHODS, Replay, ReplayError, ReplayRecord};

/// The most bytes of a line.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The most lines of a log.
const LINES_MAX: u64 = 10_000_000_000;
/// If none of so many first lines makes sense, it is no log.
const LOOKED_AT: u64 = 1_000;
/// The most requests that a log may have in one second, and the most bytes of their paths: they are held
/// in memory.
const OF_A_SECOND_MAX: usize = 200_000;
const OF_A_SECOND_BYTES_MAX: usize = 64 << 20;

/// Writes the parts of a log.
pub(crate) fn split(replay: &Replay, parts: &[impl AsRef<Path>]) -> Result<ReplayRecord, ReplayError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| ReplayError::Io { path, error }
    };
    let log = File::open(&replay.path).map_err(failed(&replay.path))?;
    let is_compressed = replay.path.extension().is_some_and(|end| end == "gz");
    let log: Box<dyn Read> = if is_compressed { Box::new(MultiGzDecoder::new(log)) } else { Box::new(log) };
    let mut outs = Vec::new();
    for part in parts {
        outs.push(BufWriter::new(File::create(part).map_err(failed(part.as_ref()))?));
    }
    let mut splitting = Splitting::new(replay, outs);
    splitting.read(BufReader::with_capacity(256 << 10, log))?;
    splitting.finish()
}

struct Splitting<'a, W: Write> {
    replay: &'a Replay,
    parts: Vec<W>,
    record: ReplayRecord,
    /// The instant of the first line.
    first_us: Option<i64>,
    /// The instant of the requests that are held.
    at_us: i64,
    held: Vec<(&'static str, String)>,
    held_bytes: usize,
    /// The instant of the last request that was written, since the beginning of the replay.
    last_us: u64,
}

impl<'a, W: Write> Splitting<'a, W> {
    fn new(replay: &'a Replay, parts: Vec<W>) -> Self {
        Self {
            replay,
            parts,
            record: ReplayRecord::default(),
            first_us: None,
            at_us: i64::MIN,
            held: Vec::new(),
            held_bytes: 0,
            last_us: 0,
        }
    }

    fn wrong(&self, message: impl Into<String>) -> ReplayError {
        ReplayError::Log { path: self.replay.path.clone(), message: message.into() }
    }

    fn io(&self, error: io::Error) -> ReplayError {
        ReplayError::Io { path: self.replay.path.clone(), error }
    }

    fn read(&mut self, mut log: impl BufRead) -> Result<(), ReplayError> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = (&mut log).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).map_err(|error| self.io(error))?;
            if read == 0 {
                return Ok(());
            }
            self.record.lines += 1;
            if self.record.lines > LINES_MAX {
                return Err(self.wrong(format!("it has more than {LINES_MAX} lines")));
            }
            let is_long = read as u64 == LINE_BYTES_MAX && !bytes.ends_with(b"\n");
            if is_long {
                skip_line(&mut log).map_err(|error| self.io(error))?;
            }
            let line = match std::str::from_utf8(&bytes) {
                _ if is_long => Err("a line of more than 64 KiB"),
                Ok(text) => self.replay.format.parse(text.trim_end_matches(['\r', '\n']), &self.replay.keys),
                Err(_) => Err("no UTF-8"),
            };
            match line {
                Ok(line) => {
                    if !self.add(line)? {
                        self.record.is_cut = true;
                        return Ok(());
                    }
                }
                Err(why) => {
                    self.record.unreadable += 1;
                    let number = self.record.lines;
                    self.record.first_unreadable.get_or_insert_with(|| format!("line {number}: {why}"));
                    if number == LOOKED_AT && self.record.unreadable == LOOKED_AT {
                        return Err(self.wrong(format!("none of its first {LOOKED_AT} lines makes sense; {why}")));
                    }
                }
            }
        }
    }

    /// Adds a line. Returns false if it is after what is replayed.
    fn add(&mut self, line: Line) -> Result<bool, ReplayError> {
        let first_us = *self.first_us.get_or_insert(line.at_us);
        if line.at_us < self.at_us {
            self.record.out_of_order += 1;
        } else if line.at_us > self.at_us {
            if (line.at_us - first_us) as f64 / 1e6 >= self.replay.seconds * self.replay.speed {
                return Ok(false);
            }
            self.write()?;
            self.at_us = line.at_us;
        }
        let is_wanted = self.replay.methods.contains(&line.method);
        let Some(method) = METHODS.iter().find(|known| is_wanted && **known == line.method) else {
            self.record.other_methods += 1;
            return Ok(true);
        };
        self.held_bytes += line.target.len();
        if self.held.len() == OF_A_SECOND_MAX || self.held_bytes > OF_A_SECOND_BYTES_MAX {
            return Err(self.wrong(format!(
                "line {}: more than {OF_A_SECOND_MAX} requests of one instant, or more than 64 MiB",
                self.record.lines
            )));
        }
        self.held.push((method, line.target));
        Ok(true)
    }

    /// Writes the requests of one instant. Those of one second are spread over it evenly.
    fn write(&mut self) -> Result<(), ReplayError> {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        if held.is_empty() {
            return Ok(());
        }
        let since_us = (self.at_us - self.first_us.unwrap_or(self.at_us)) as f64;
        let distance_us = self.replay.format.grain_us() as f64 / held.len() as f64;
        for (index, (method, target)) in held.into_iter().enumerate() {
            let after_us = ((since_us + distance_us * index as f64) / self.replay.speed) as u64;
            // What is spread beyond the end of the replay is none of it.
            if after_us as f64 >= self.replay.seconds * 1e6 {
                self.record.is_cut = true;
                break;
            }
            let part = (self.record.requests % self.parts.len().max(1) as u64) as usize;
            self.record.requests += 1;
            self.last_us = after_us;
            let Some(part) = self.parts.get_mut(part) else { break };
            writeln!(part, "{after_us} {method} {target}")
                .map_err(|error| ReplayError::Io { path: self.replay.path.clone(), error })?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ReplayRecord, ReplayError> {
        self.write()?;
        for part in &mut self.parts {
            part.flush().map_err(|error| ReplayError::Io { path: self.replay.path.clone(), error })?;
        }
        self.record.duration_s = self.duration_s();
        let ReplayRecord { requests, duration_s, .. } = self.record;
        match (requests, &self.record.first_unreadable) {
            (0, Some(why)) => Err(self.wrong(format!("it has no request that can be replayed; {why}"))),
            (0, None) => Err(self.wrong("it has no request that can be replayed")),
            // Nothing of it would count.
            _ if duration_s <= self.replay.warm_up_s => {
                Err(self.wrong(format!("its replay takes {duration_s:.3} s, which is no longer than the warm-up")))
            }
            _ => Ok(self.record),
        }
    }

    /// How long the replay takes. A log that ends early ends it. The last request counts for as long
    /// a time as the others do on average, so that the rate is that of the log.
    fn duration_s(&self) -> f64 {
        let requests = self.record.requests as f64;
        // One instant has no length.
        if self.record.is_cut || self.record.requests < 2 || self.last_us == 0 {
            return self.replay.seconds;
        }
        let all_us = self.last_us as f64 * requests / (requests - 1.0);
        (all_us / 1e6).min(self.replay.seconds)
    }
}

/// Reads to the end of a line, and keeps nothing.
fn skip_line(log: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = log.fill_buf()?;
        let (len, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        log.consume(len);
        if is_end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Keys, LogFormat, safe_methods};
    use super::*;

    fn replay(speed: f64, seconds: f64) -> Replay {
        let (path, format, keys) = ("access.log".into(), LogFormat::Common, Keys::default());
        Replay { path, format, keys, speed, seconds, warm_up_s: 0.0, methods: safe_methods() }
    }

    fn line(second: u32, request: &str) -> String {
        format!("h - - [10/Oct/2000:13:55:{second:02} +0000] \"{request} HTTP/1.1\" 200 1\n")
    }

    fn parts(replay: &Replay, log: impl BufRead) -> Result<(Vec<String>, ReplayRecord), ReplayError> {
        let mut outs = [Vec::new(), Vec::new()];
        let mut splitting = Splitting::new(replay, outs.iter_mut().collect());
        splitting.read(log)?;
        let record = splitting.finish()?;
        Ok((outs.map(|out| String::from_utf8(out).unwrap()).to_vec(), record))
    }

    #[test]
    fn requests_keep_their_distances_and_those_of_one_second_are_spread_over_it() {
        let log =
            [line(10, "GET /a"), line(10, "GET /b"), line(10, "POST /c"), line(13, "HEAD /d"), line(12, "GET /e")];
        let (parts, record) = parts(&replay(2.0, 60.0), log.concat().as_bytes()).unwrap();
        assert_eq!(parts, ["0 GET /a\n1500000 HEAD /d\n", "250000 GET /b\n1750000 GET /e\n"]);
        let wanted = ReplayRecord {
            lines: 5,
            requests: 4,
            other_methods: 1,
            out_of_order: 1,
            // The last of the four is due after 1.75 s.
            duration_s: 1_750_000.0 * 4.0 / 3.0 / 1e6,
            ..ReplayRecord::default()
        };
        assert_eq!(record, wanted);
    }

    #[test]
    fn a_log_is_cut_where_the_load_ends() {
        let log: String = (10..60).map(|second| line(second, "GET /a")).collect();
        let (_, record) = parts(&replay(1.0, 5.0), log.as_bytes()).unwrap();
        assert_eq!((record.requests, record.is_cut, record.lines, record.duration_s), (5, true, 6, 5.0));
    }

    #[test]
    fn a_log_that_ends_early_ends_the_replay_and_is_longer_than_the_warm_up() {
        let log: String = (10..14).map(|second| line(second, "GET /a")).collect();
        let (_, record) = parts(&replay(1.0, 60.0), log.as_bytes()).unwrap();
        assert_eq!((record.requests, record.is_cut, record.duration_s), (4, false, 4.0));
        let warmed_up = |warm_up_s: f64| parts(&Replay { warm_up_s, ..replay(1.0, 60.0) }, log.as_bytes());
        assert!(warmed_up(3.9).is_ok());
        let Err(error) = warmed_up(4.0) else { panic!("nothing of it would count") };
        assert!(error.to_string().contains("takes 4.000 s, which is no longer than the warm-up"), "{error}");
        // The requests of one instant last no time.
        let (_, record) = parts(&replay(1.0, 60.0), line(10, "GET /a").as_bytes()).unwrap();
        assert_eq!(record.duration_s, 60.0);
    }

    #[test]
    fn unreadable_lines_are_counted_and_one_without_end_needs_no_memory() {
        let endless = io::repeat(b'x').take(50 << 20);
        let rest = format!("\n\u{fffd}nonsense\n{}", line(10, "GET /a"));
        let (_, record) = parts(&replay(1.0, 5.0), BufReader::new(endless.chain(rest.as_bytes()))).unwrap();
        assert_eq!((record.lines, record.unreadable, record.requests), (3, 2, 1));
        assert_eq!(record.first_unreadable.unwrap(), "line 1: a line of more than 64 KiB");
        let Err(error) = parts(&replay(1.0, 5.0), BufReader::new(io::repeat(b'\n'))) else { panic!("it is a log") };
        assert!(error.to_string().contains("none of its first 1000 lines makes sense"), "{error}");
        assert!(parts(&replay(1.0, 5.0), &b""[..]).is_err());
    }

    #[test]
    fn a_second_with_too_many_requests_is_refused() {
        let line = line(10, "GET /a").into_bytes();
        let log: Vec<u8> = line.iter().copied().cycle().take(line.len() * (OF_A_SECOND_MAX + 1)).collect();
        let Err(error) = parts(&replay(1.0, 5.0), log.as_slice()) else { panic!("it is read") };
        assert!(error.to_string().contains("of one instant"), "{error}");
        let long = self::line(10, &format!("GET /{}", "a".repeat(8_000))).into_bytes();
        let log: Vec<u8> = long.iter().copied().cycle().take(long.len() * 9_000).collect();
        assert!(parts(&replay(1.0, 5.0), log.as_slice()).is_err());
    }
}
