//! The columns of an endpoint's series, and their values from page to page.

use std::collections::HashMap;

use tokio::time::Instant;

use super::exposition::{self, Line, Series};
use super::rate_of;

/// The series that a first page has.
#[derive(Debug, Default)]
pub struct Columns {
    prefixes: Vec<String>,
    kinds: Vec<Kind>,
    /// The place of each series among the columns.
    places: HashMap<String, usize>,
    /// When the last page came, and its values.
    last: Option<(Instant, Vec<Option<f64>>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// It only grows: its column is a rate.
    Counter,
    Gauge,
}

/// Values of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// A value per column.
    pub values: Vec<Option<f64>>,
    /// Chosen series that have no column.
    pub left_out: usize,
}

impl Columns {
    /// The series of a page whose names begin with one of `prefixes`, in the page's order.
    /// Buckets of histograms are left out.
    pub fn choose(page: &str, prefixes: &[String]) -> (Self, Vec<String>) {
        let mut columns = Self { prefixes: prefixes.to_vec(), ..Self::default() };
        let mut names = Vec::new();
        let mut types = HashMap::new();
        for line in exposition::lines(page, prefixes) {
            match line {
                Line::Type { name, kind } => drop(types.insert(name, kind)),
                Line::Series(series) if series.is_bucket() || columns.places.contains_key(&series.key()) => {}
                Line::Series(series) => {
                    names.push(format!("metrics.{}", series.key()));
                    columns.places.insert(series.key(), columns.kinds.len());
                    columns.kinds.push(kind(&series, types.get(series.name).copied()));
                }
            }
        }
        (columns, names)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The values of a page that came at an instant. Rates are since the page before, also if
    /// requests failed in between; a counter that goes back has none.
    pub fn values(&mut self, page: &str, at: Instant) -> Page {
        let mut now = vec![None; self.len()];
        let mut left_out = 0;
        for line in exposition::lines(page, &self.prefixes) {
            let Line::Series(series) = line else { continue };
            if series.is_bucket() {
                continue;
            }
            match self.places.get(&series.key()) {
                Some(&place) => now[place] = series.value,
                None => left_out += 1,
            }
        }
        let before = self.last.replace((at, now.clone()));
        let rate = |place: usize| {
            let (before_at, before) = before.as_ref()?;
            rate_of(now[place]? - before[place]?, at.saturating_duration_since(*before_at).as_secs_f64())
        };
        let value = |(place, kind): (usize, &Kind)| match kind {
            Kind::Counter => rate(place),
            Kind::Gauge => now[place],
        };
        let values = self.kinds.iter().enumerate().map(value).collect();
        Page { values, left_out }
    }
}

/// The type decides; without one, the name does. Histograms and summaries are typed by their
/// common name, so that their sums and counts have no type of their own.
fn kind(series: &Series<'_>, declared: Option<&str>) -> Kind {
    let is_counter = match declared {
        Some("counter") => true,
        Some("gauge") => false,
        _ => ["_total", "_count", "_sum"].iter().any(|end| series.name.ends_with(end)),
    };
    if is_counter { Kind::Counter } else { Kind::Gauge }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    const PAGE: &str = "# TYPE http_requests counter\nhttp_requests{code=\"200\"} 100\nhttp_requests{code=\"500\"} 1\n\
        # TYPE queue_total gauge\nqueue_total 7\n\
        # TYPE time histogram\ntime_bucket{le=\"0.1\"} 5\ntime_bucket{le=\"+Inf\"} 9\ntime_sum 2.5\ntime_count 9\n\
        untyped_total 40\nuntyped 41\nother 1\nuntyped 42\n";

    fn prefixes() -> Vec<String> {
        ["http_", "queue", "time", "untyped"].map(String::from).into()
    }

    #[test]
    fn chosen_series_are_columns_without_buckets_and_doubles() {
        let (columns, names) = Columns::choose(PAGE, &prefixes());
        let wanted = [
            "metrics.http_requests{code=\"200\"}",
            "metrics.http_requests{code=\"500\"}",
            "metrics.queue_total",
            "metrics.time_sum",
            "metrics.time_count",
            "metrics.untyped_total",
            "metrics.untyped",
        ];
        assert_eq!(names, wanted);
        let counters: Vec<bool> = columns.kinds.iter().map(|kind| *kind == Kind::Counter).collect();
        assert_eq!(counters, [true, true, false, true, true, true, false]);
    }

    #[test]
    fn counters_become_rates_and_gauges_stay() {
        let (mut columns, _) = Columns::choose(PAGE, &prefixes());
        let start = Instant::now();
        let first = columns.values(PAGE, start).values;
        assert_eq!(first, [None, None, Some(7.0), None, None, None, Some(42.0)]);
        let page = "http_requests{code=\"200\"} 120\nhttp_requests{code=\"500\"} 0\nqueue_total 3\ntime_sum 3.5\n\
            time_count NaN\nuntyped_total 40\n";
        let second = columns.values(page, start + Duration::from_secs(2));
        let wanted = vec![Some(10.0), None, Some(3.0), Some(0.5), None, Some(0.0), None];
        assert_eq!(second, Page { values: wanted, left_out: 0 });
    }

    #[test]
    fn series_that_come_later_are_counted_and_left_out() {
        let (mut columns, _) = Columns::choose("http_a 1\n", &prefixes());
        let page = "http_b 1\nhttp_b{x=\"y\"} 1\nhttp_a 2\nother 1\nhttp_time_bucket{le=\"1\"} 1\n";
        assert_eq!(columns.values(page, Instant::now()), Page { values: vec![Some(2.0)], left_out: 2 });
    }

    #[test]
    fn garbage_has_no_series() {
        let (mut columns, names) = Columns::choose("<html>\u{0}} { \" \\", &[String::new()]);
        assert_eq!((names.len(), columns.len()), (0, 0));
        assert_eq!(columns.values("\"", Instant::now()), Page { values: vec![], left_out: 0 });
    }
}
