//! Reads a log of HdrHistogram (V2) back: the response times of each second, or of longer units if the run
//! is long.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};

/// The first bytes of a histogram that is compressed.
const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
/// Bytes before the counts of a histogram: the first bytes, the length of the counts, the offset, the
/// digits, the lowest and the highest value, and the ratio.
const HEADER_BYTES: usize = 40;
/// The most bytes of a histogram when it is no longer compressed. One of three digits has 54,272 counts
/// of nine bytes at most.
const HISTOGRAM_BYTES_MAX: u64 = 1 << 20;
/// The digits of the values that a run keeps. Each further one takes ten times the memory.
const DIGITS_MAX: u32 = 3;
/// The most bytes of a line: a histogram in Base64.
const LINE_BYTES_MAX: u64 = 2 << 20;
/// The most units: a run that is longer has units of several seconds, so that its histograms need no more
/// memory than those of a short one.
const UNITS_MAX: usize = 600;

/// The response times of a run over time.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Seconds of a unit: one, or a power of two if the run is long.
    pub unit_s: i64,
    /// The second at which each unit begins, since the start instant, and its response times in microseconds.
    /// Units in which nothing was done are left out.
    pub units: Vec<(i64, Histogram<u64>)>,
}

/// The response times of a log, of all tags together. No unit has seconds of the warm-up and others.
pub(crate) fn read(mut log: impl BufRead) -> Result<Latencies, String> {
    let mut deserializer = Deserializer::new();
    let (mut start, mut base) = (Duration::ZERO, Duration::ZERO);
    let (mut units, mut unit_s) = (BTreeMap::new(), 1);
    let mut line = Vec::new();
    loop {
        line.clear();
        // The log of a long run may be longer than the memory.
        let read = (&mut log).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        match read.map_err(|error| error.to_string())? as u64 {
            0 => break,
            LINE_BYTES_MAX => return Err("a line of more than 2 MiB".to_owned()),
            _ => {}
        }
        for entry in IntervalLogIterator::new(&line) {
            match entry.map_err(|error| format!("{error:?}"))? {
                LogEntry::StartTime(at) => start = at,
                LogEntry::BaseTime(at) => base = at,
                LogEntry::Interval(interval) => {
                    let since_base_s = interval.start_timestamp().as_secs_f64();
                    let at_s = (base.as_secs_f64() - start.as_secs_f64() + since_base_s).round() as i64;
                    merge(&mut units, at_s.div_euclid(unit_s), histogram(&mut deserializer, &interval)?)?;
                }
            }
        }
        while units.len() > UNITS_MAX {
            unit_s *= 2;
            for (unit, histogram) in std::mem::take(&mut units) {
                merge(&mut units, unit.div_euclid(2), histogram)?;
            }
        }
    }
    Ok(Latencies { unit_s, units: units.into_iter().map(|(unit, histogram)| (unit * unit_s, histogram)).collect() })
}

/// Adds a histogram to that of a unit.
fn merge(units: &mut BTreeMap<i64, Histogram<u64>>, unit: i64, histogram: Histogram<u64>) -> Result<(), String> {
    match units.get_mut(&unit) {
        Some(known) => known.add(&histogram).map_err(|error| error.to_string()),
        None => {
            units.insert(unit, histogram);
            Ok(())
        }
    }
}

fn histogram(deserializer: &mut Deserializer, interval: &IntervalLogHistogram<'_>) -> Result<Histogram<u64>, String> {
    let bytes = inflated(&BASE64_STANDARD.decode(interval.encoded_histogram()).map_err(|error| error.to_string())?)?;
    // The deserializer believes the header: it would allocate whatever that says.
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (Some(counts_bytes), Some(digits)) = (number(4), number(12)) else {
        return Err("a histogram without a header".to_owned());
    };
    if HEADER_BYTES + counts_bytes as usize > bytes.len() {
        return Err("a histogram that is shorter than it says".to_owned());
    }
    if digits > DIGITS_MAX {
        return Err(format!("a histogram of {digits} digits; a run has {DIGITS_MAX}"));
    }
    let mut histogram: Histogram<u64> =
        deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
    // What is added to it may be longer.
    histogram.auto(true);
    Ok(histogram)
}

/// A histogram that is not compressed.
fn inflated(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&COMPRESSED) {
        return Ok(bytes.to_vec());
    }
    let mut inflated = Vec::new();
    // Its length comes first.
    let compressed = bytes.get(8..).unwrap_or_default();
    let read = ZlibDecoder::new(compressed).take(HISTOGRAM_BYTES_MAX + 1).read_to_end(&mut inflated);
    read.map_err(|error| error.to_string())?;
    match inflated.len() as u64 <= HISTOGRAM_BYTES_MAX {
        true => Ok(inflated),
        false => Err("a histogram of more than 1 MiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};

    use super::*;

    fn histogram_of(values: &[u64], digits: u8) -> Histogram<u64> {
        let mut histogram = Histogram::new(digits).unwrap();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    /// A log with a histogram in each of these seconds.
    fn log(histograms: &[(u32, Vec<u8>)]) -> String {
        let line = |(at_s, bytes): &(u32, Vec<u8>)| format!("{at_s}.0,1.0,1.0,{}\n", BASE64_STANDARD.encode(bytes));
        let head = "#[StartTime: 0.0 (seconds since epoch)]\n#[BaseTime: 0.0 (seconds since epoch)]\n";
        head.to_owned() + &histograms.iter().map(line).collect::<String>()
    }

    /// A histogram as a run keeps it.
    fn kept(histogram: &Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
        bytes
    }

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        let bytes = encoder.finish().unwrap();
        [&COMPRESSED[..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat()
    }

    #[test]
    fn histograms_of_a_second_are_read_together() {
        let (one, two) = (histogram_of(&[5, 1_000_000], 3), histogram_of(&[u64::from(u32::MAX)], 3));
        let mut plain = Vec::new();
        V2Serializer::new().serialize(&two, &mut plain).unwrap();
        let text = log(&[(3, kept(&one)), (3, plain), (4, kept(&two))]);
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.unit_s, 1);
        assert_eq!(read.units.iter().map(|(at_s, of)| (*at_s, of.len())).collect::<Vec<_>>(), [(3, 3), (4, 1)]);
    }

    #[test]
    fn a_run_of_a_day_has_longer_units_and_loses_nothing() {
        let mut plain = Vec::new();
        V2Serializer::new().serialize(&histogram_of(&[7, 1_000], 3), &mut plain).unwrap();
        let seconds: Vec<_> = (0..86_400).map(|at_s| (at_s, plain.clone())).collect();
        let read = read(log(&seconds).as_bytes()).unwrap();
        // 128 seconds would make 675 units.
        assert_eq!((read.unit_s, read.units.len()), (256, 338));
        assert_eq!(read.units.iter().map(|(_, of)| of.len()).sum::<u64>(), 2 * 86_400);
        assert_eq!((read.units[1].0, read.units[1].1.len()), (256, 512));
    }

    #[test]
    fn no_unit_has_seconds_of_the_warm_up_and_others() {
        let plain = kept(&histogram_of(&[7], 3));
        let seconds: Vec<_> = (0..1_000).map(|at_s| (at_s, plain.clone())).collect();
        // The load begins after 301 seconds.
        let read = read(log(&seconds).replace("StartTime: 0.0", "StartTime: 301.0").as_bytes()).unwrap();
        let of = |unit: usize| (read.units[unit].0, read.units[unit].1.len());
        assert_eq!((read.unit_s, of(0), of(150), of(151)), (2, (-302, 1), (-2, 2), (0, 2)));
    }

    #[test]
    fn a_log_that_would_take_all_memory_is_refused() {
        let refused = |bytes: Vec<u8>| read(log(&[(0, bytes)]).as_bytes()).unwrap_err();
        assert!(refused(kept(&histogram_of(&[5], 5))).contains("5 digits"));
        assert_eq!(refused(compressed(&vec![0; 64 << 20])), "a histogram of more than 1 MiB");
        let mut plain = Vec::new();
        V2Serializer::new().serialize(&histogram_of(&[5], 3), &mut plain).unwrap();
        plain[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        for bytes in [plain.clone(), compressed(&plain)] {
            assert_eq!(refused(bytes), "a histogram that is shorter than it says");
        }
        assert_eq!(refused(vec![1, 2]), "a histogram without a header");
        assert_eq!(read("x".repeat(3 << 20).as_bytes()).unwrap_err(), "a line of more than 2 MiB");
    }

    #[test]
    fn a_log_that_was_cut_is_refused() {
        let text = log(&[(3, kept(&histogram_of(&[5], 3)))]);
        assert!(read(text.as_bytes()).is_ok());
        assert!(read(&text.as_bytes()[..text.len() - 1]).is_err());
    }
}
