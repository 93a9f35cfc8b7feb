//! All times of a run as one log of HdrHistogram (V2), in microseconds: a histogram of each kind, over all
//! requests that count, and over those of each step. `latencies.hlog` has the response times of each second.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use jiff::Timestamp;

use crate::tally::{Measured, TallyError};

/// The log of a run with this start instant.
///
/// # Errors
/// A histogram cannot be written.
pub fn log(started_at: Timestamp, measured: &Measured) -> Result<Vec<u8>, TallyError> {
    let failed = |error: &dyn std::fmt::Display| TallyError::Histograms(error.to_string());
    let (mut out, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("times in microseconds of all requests by kind, and of each step")
        .with_start_time(SystemTime::from(started_at))
        .with_base_time(SystemTime::from(started_at))
        .begin_log_with(&mut out, &mut serializer)
        .map_err(|error| failed(&error))?;
    let duration = Duration::from_secs_f64(measured.summary.duration_s);
    let further = measured.further_us.iter().map(|(kind, histogram)| (kind.as_str(), histogram));
    for (kind, histogram) in std::iter::once(("response", &measured.response_us)).chain(further) {
        let written = log.write_histogram(histogram, Duration::ZERO, duration, Tag::new(kind));
        written.map_err(|error| failed(&format!("{error:?}")))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::latencies;
    use crate::results::Summary;
    use crate::tally::{Punctual, Quarter};

    #[test]
    fn each_kind_of_time_has_a_histogram_and_all_are_small() {
        let histogram = |count: u64| {
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            // Times as they come: from a tenth of a millisecond to a second.
            (0..count).for_each(|number| histogram.record(100 + number * 999_900 / count).unwrap());
            histogram
        };
        let measured = Measured {
            summary: Summary { duration_s: 60.0, ..Summary::default() },
            seconds: Vec::new(),
            quarters: [Quarter::default(); 4],
            step_medians_ms: Vec::new(),
            step_response_us: Vec::new(),
            response_us: histogram(10_000),
            punctual: Punctual { response_us: histogram(0), done_per_s: 0.0, late: 0 },
            further_us: vec![
                ("service".to_owned(), histogram(9_000)),
                ("first-byte".to_owned(), histogram(8_000)),
                ("lateness".to_owned(), histogram(0)),
                ("ingest/create:service".to_owned(), histogram(5_000)),
            ],
            first_error_us: None,
        };
        let log = log(Timestamp::UNIX_EPOCH, &measured).unwrap();
        assert!(log.len() < 64 << 10, "{} bytes", log.len());
        let tags: Vec<_> = IntervalLogIterator::new(&log)
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval.tag().unwrap().as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(tags, ["response", "service", "first-byte", "lateness", "ingest/create:service"]);
        let read = latencies::read(log.as_slice()).unwrap();
        assert_eq!(read.units.iter().map(|(at_s, of)| (*at_s, of.len())).collect::<Vec<_>>(), [(0, 32_000)]);
    }
}
