//! Reads a log of HdrHistogram (V2) back: the response times of each second.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};

/// The histograms of each second since the start, in microseconds, of all tags together.
pub(crate) fn read(log: &[u8]) -> Result<Vec<(i64, Histogram<u64>)>, String> {
    let mut deserializer = Deserializer::new();
    let (mut start, mut base) = (Duration::ZERO, Duration::ZERO);
    let mut seconds: BTreeMap<i64, Histogram<u64>> = BTreeMap::new();
    for entry in IntervalLogIterator::new(log) {
        match entry.map_err(|error| format!("{error:?}"))? {
            LogEntry::StartTime(at) => start = at,
            LogEntry::BaseTime(at) => base = at,
            LogEntry::Interval(interval) => {
                let since_base_s = interval.start_timestamp().as_secs_f64();
                let at_s = (base.as_secs_f64() - start.as_secs_f64() + since_base_s).round() as i64;
                let histogram = histogram(&mut deserializer, &interval)?;
                match seconds.get_mut(&at_s) {
                    Some(known) => known.add(&histogram).map_err(|error| error.to_string())?,
                    None => drop(seconds.insert(at_s, histogram)),
                }
            }
        }
    }
    Ok(seconds.into_iter().collect())
}

fn histogram(deserializer: &mut Deserializer, interval: &IntervalLogHistogram<'_>) -> Result<Histogram<u64>, String> {
    let bytes = BASE64_STANDARD.decode(interval.encoded_histogram()).map_err(|error| error.to_string())?;
    let mut histogram: Histogram<u64> =
        deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
    // What is added to it may be longer.
    histogram.auto(true);
    Ok(histogram)
}
