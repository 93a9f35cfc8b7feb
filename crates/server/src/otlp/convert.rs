//! Metrics of a scrape as a message of OTLP. What Prometheus scrapes and what a collector receives
//! are the same numbers under the same names.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// When the numbers began, and when they were read, in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) began: u64,
    pub(super) now: u64,
}

/// The message for the text of a scrape. Lines that are no sample of a known family are left out.
pub(super) fn message(scrape: &str, attributes: Vec<KeyValue>, times: Times) -> ExportMetricsServiceRequest {
    let scope = InstrumentationScope { name: "penates".to_owned(), ..InstrumentationScope::default() };
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope), metrics: metrics(scrape, times), ..ScopeMetrics::default() }];
    let resource = Resource { attributes, ..Resource::default() };
    let resource = ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![resource] }
}

/// An attribute.
pub(super) fn attribute(key: &str, value: impl Into<String>) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.into())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn metrics(scrape: &str, times: Times) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut help = "";
    for line in scrape.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|text| text.split_once(' ')) {
            let data = Some(empty(kind));
            let (name, description) = (name.to_owned(), help.to_owned());
            metrics.push(Metric { unit: unit_of(&name).to_owned(), name, description, data, ..Metric::default() });
        } else if let (Some(metric), Some(sample)) = (metrics.last_mut(), Sample::read(line)) {
            add(metric, sample, times);
        }
    }
    metrics
}

/// The unit of a family (UCUM), which is part of its name.
fn unit_of(name: &str) -> &'static str {
    let name = name.trim_end_matches("_total");
    match name {
        _ if name.ends_with("_seconds") => "s",
        _ if name.ends_with("_bytes") => "By",
        _ => "",
    }
}

fn empty(kind: &str) -> Data {
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    match kind {
        "counter" => Data::Sum(Sum { data_points: Vec::new(), aggregation_temporality, is_monotonic: true }),
        "histogram" => Data::Histogram(Histogram { data_points: Vec::new(), aggregation_temporality }),
        _ => Data::Gauge(Gauge { data_points: Vec::new() }),
    }
}

fn add(metric: &mut Metric, sample: Sample, times: Times) {
    let number = |sample: Sample| NumberDataPoint {
        attributes: sample.labels,
        start_time_unix_nano: times.began,
        time_unix_nano: times.now,
        value: Some(number_data_point::Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    };
    match &mut metric.data {
        Some(Data::Sum(sum)) => sum.data_points.push(number(sample)),
        Some(Data::Gauge(gauge)) => gauge.data_points.push(number(sample)),
        Some(Data::Histogram(histogram)) => add_part(&metric.name, histogram, sample, times),
        _ => {}
    }
}

/// Adds a line of a histogram. In the text the lines of a series follow each other: its buckets,
/// each with the counts of those before it, then its sum and its count.
fn add_part(name: &str, histogram: &mut Histogram, mut sample: Sample, times: Times) {
    let bound = sample.labels.iter().position(|label| label.key == "le").map(|place| sample.labels.remove(place));
    let points = &mut histogram.data_points;
    if points.last().is_none_or(|point| point.attributes != sample.labels) {
        points.push(HistogramDataPoint {
            attributes: sample.labels,
            start_time_unix_nano: times.began,
            time_unix_nano: times.now,
            ..HistogramDataPoint::default()
        });
    }
    let Some(point) = points.last_mut() else { return };
    match sample.name.strip_prefix(name) {
        Some("_bucket") => {
            let before: u64 = point.bucket_counts.iter().sum();
            point.bucket_counts.push((sample.value as u64).saturating_sub(before));
            let bound = bound.and_then(|label| match label.value?.value? {
                Value::StringValue(text) => text.parse::<f64>().ok(),
                _ => None,
            });
            point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
        }
        Some("_sum") => point.sum = Some(sample.value),
        Some("_count") => point.count = sample.value as u64,
        _ => {}
    }
}

/// A line of a scrape: a name, labels and a number.
struct Sample {
    name: String,
    labels: Vec<KeyValue>,
    value: f64,
}

impl Sample {
    fn read(line: &str) -> Option<Self> {
        let (series, value) = line.rsplit_once(' ')?;
        let value = value.parse().ok()?;
        let Some((name, labels)) = series.split_once('{') else {
            return Some(Self { name: series.to_owned(), labels: Vec::new(), value });
        };
        let mut labels = labels.strip_suffix('}')?;
        let mut read = Vec::new();
        while let Some((key, rest)) = labels.split_once("=\"") {
            let (text, rest) = quoted(rest)?;
            read.push(attribute(key, text));
            labels = rest.strip_prefix(',').unwrap_or(rest);
        }
        Some(Self { name: name.to_owned(), labels: read, value })
    }
}

/// The text up to a quotation mark that is not escaped, and what follows that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut read, mut is_escaped) = (String::new(), false);
    for (at, character) in text.char_indices() {
        match character {
            'n' if is_escaped => read.push('\n'),
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            '"' if !is_escaped => return Some((read, &text[at + 1..])),
            _ => read.push(character),
        }
        is_escaped = false;
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TIMES: Times = Times { began: 1, now: 2 };

    const SCRAPE: &str = "# HELP a_total How often\n# TYPE a_total counter\n\
        a_total{route=\"/volumes/{id}\",quoted=\"a \\\"b\\\" \\\\ c\"} 3\n\n\
        # HELP b_bytes How much\n# TYPE b_bytes gauge\nb_bytes inf\n\n\
        # HELP c_seconds How long\n# TYPE c_seconds histogram\n\
        c_seconds_bucket{kind=\"x\",le=\"0.5\"} 1\nc_seconds_bucket{kind=\"x\",le=\"1\"} 3\n\
        c_seconds_bucket{kind=\"x\",le=\"+Inf\"} 4\nc_seconds_sum{kind=\"x\"} 9.5\nc_seconds_count{kind=\"x\"} 4\n\
        c_seconds_bucket{kind=\"y\",le=\"+Inf\"} 0\nc_seconds_sum{kind=\"y\"} 0\nc_seconds_count{kind=\"y\"} 0\n";

    #[test]
    fn a_scrape_and_a_message_have_the_same_numbers() {
        let metrics = metrics(SCRAPE, TIMES);
        let described = |metric: &Metric| (metric.name.clone(), metric.unit.clone(), metric.description.clone());
        let expected = [("a_total", "", "How often"), ("b_bytes", "By", "How much"), ("c_seconds", "s", "How long")];
        assert_eq!(
            metrics.iter().map(described).collect::<Vec<_>>(),
            expected.map(|(name, unit, help)| (name.to_owned(), unit.to_owned(), help.to_owned()))
        );
        let [Some(Data::Sum(sum)), Some(Data::Gauge(gauge)), Some(Data::Histogram(histogram))] =
            [&metrics[0].data, &metrics[1].data, &metrics[2].data]
        else {
            panic!("{metrics:?}")
        };
        assert!(sum.is_monotonic);
        let labels = vec![attribute("route", "/volumes/{id}"), attribute("quoted", "a \"b\" \\ c")];
        assert_eq!(sum.data_points[0].attributes, labels);
        assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsDouble(3.0)));
        assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsDouble(f64::INFINITY)));
        let [x, y] = &histogram.data_points[..] else { panic!("{histogram:?}") };
        assert_eq!((&x.explicit_bounds[..], &x.bucket_counts[..]), (&[0.5, 1.0][..], &[1, 2, 1][..]));
        assert_eq!((x.sum, x.count, y.count), (Some(9.5), 4, 0));
        assert_eq!(x.attributes, [attribute("kind", "x")]);
    }

    #[test]
    fn a_line_that_is_no_sample_is_left_out() {
        for line in ["", "a", "a{b=\"c\" 1", "a{b=\"c} 1", "a one"] {
            assert!(Sample::read(line).is_none(), "{line}");
        }
    }
}
