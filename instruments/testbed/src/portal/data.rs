//! What a comparison needs of a run: a script that a page loads when the run is chosen. A page that
//! is opened as a file can load scripts, and nothing else.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::resamples::{self, Resamples};
use super::settings::{Settings, settings};
use crate::archive::ArchivedRun;
use crate::page::script;
use crate::record::RunRecord;
use crate::report;
use crate::results::Second;

/// Points of lines over time: half of the pixels of a chart.
const POINTS_MAX: usize = 600;
/// Points of the curve of percentiles for each halving of the distance to the highest time.
const CURVE_TICKS: u32 = 8;

/// What `assets/portal/compare.js` reads.
#[derive(Serialize)]
struct Data<'a, P> {
    id: &'a str,
    /// Charts of requests and response times, as in the report.
    over_time: P,
    /// 1 / (1 − share of requests), with the response time in milliseconds that they have at most.
    curve: Vec<(f64, f64)>,
    resamples: Option<Resamples>,
    /// Why there are neither a curve nor resamples, if the response times cannot be read.
    unread: Option<String>,
    settings: Settings,
}

/// The script with the data of a run. Its seconds are in ascending order.
pub(super) fn script(run: &ArchivedRun, record: &RunRecord, seconds: &[Second], plan_toml: &str) -> String {
    let latencies = run.latencies();
    let unread = latencies.as_ref().err().map(ToString::to_string);
    let (unit_s, units) = latencies.map(|latencies| (latencies.unit_s, latencies.units)).unwrap_or_default();
    let measured: Vec<_> = units.into_iter().filter(|(at_s, _)| *at_s >= 0).map(|(_, histogram)| histogram).collect();
    let data = Data {
        id: &record.id,
        over_time: report::over_time(seconds, POINTS_MAX),
        curve: curve(&measured),
        resamples: resamples::draw(&record.id, unit_s, &measured),
        unread,
        settings: settings(record, plan_toml),
    };
    format!("portal.receive({});\n", script::json(&data))
}

/// Response times by percentile, of all units together.
fn curve(units: &[Histogram<u64>]) -> Vec<(f64, f64)> {
    let Some((first, rest)) = units.split_first() else { return Vec::new() };
    let mut all = first.clone();
    all.auto(true);
    for unit in rest {
        // It grows as it needs.
        let _ = all.add(unit);
    }
    let count = all.len() as f64;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for one in all.iter_quantiles(CURVE_TICKS) {
        let part = 1.0 / (1.0 - one.quantile_iterated_to());
        // The highest of n times is drawn as if one of n were above it.
        let point = (part.min(count.max(1.0)), one.value_iterated_to() as f64 / 1e3);
        match points.last_mut() {
            Some(last) if last.0 >= point.0 => *last = point,
            _ => points.push(point),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_curve_ascends_to_the_highest_time() {
        let mut histogram = Histogram::new(3).unwrap();
        (1..=1_000_u64).for_each(|ms| histogram.record(ms * 1_000).unwrap());
        let curve = curve(&[histogram.clone(), histogram]);
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{curve:?}");
        let (last, highest_ms) = *curve.last().unwrap();
        assert_eq!(last, 2_000.0);
        assert!((highest_ms - 1_000.0).abs() < 1.0, "{highest_ms}");
        let (_, median_ms) = curve.iter().find(|(part, _)| *part >= 2.0).unwrap();
        assert!((median_ms - 500.0).abs() < 1.0, "{median_ms}");
    }

    #[test]
    fn a_run_without_requests_has_no_curve() {
        assert!(curve(&[]).is_empty());
    }
}
