//! Charts of what monitors sampled.

use std::ops::RangeInclusive;

use super::columns::{self, Group, MACHINE, PROCESS};
use super::panel::{Chart, Figures, Line, Panel, Series, Thinning};
use crate::page::number::Unit;
use crate::samples::Samples;

/// More charts of metrics than this hide what matters; further ones are in a table.
const METRIC_CHARTS_MAX: usize = 40;

/// What a monitor sampled.
pub(super) struct Monitor {
    pub(super) name: String,
    pub(super) panel: Panel,
    /// What has no chart: it did not change, or there are too many.
    pub(super) others: Vec<Other>,
}

/// Values without a chart.
pub(super) struct Other {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) figures: Figures,
}

/// Samples within a span of time, ascending.
struct Sampled<'a> {
    columns: &'a [String],
    rows: Vec<&'a (f64, Vec<Option<f64>>)>,
}

/// The charts of a monitor within a span of time, in seconds since the start instant.
pub(super) fn monitor(samples: &Samples, span_s: &RangeInclusive<f64>) -> Monitor {
    let mut rows: Vec<_> = samples.rows.iter().filter(|(at_s, _)| span_s.contains(at_s)).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sampled = Sampled { columns: &samples.columns, rows };

    let (mut charts, mut still): (Vec<_>, Vec<_>) = sampled.groups().into_iter().partition(changes);
    let (mut metrics, still_metrics): (Vec<_>, Vec<_>) = sampled.metrics().into_iter().partition(changes);
    still.extend(metrics.split_off(metrics.len().min(METRIC_CHARTS_MAX)));
    still.extend(still_metrics);
    charts.extend(metrics);

    let at_s: Vec<_> = sampled.rows.iter().map(|(at_s, _)| *at_s).collect();
    let others = still.iter().flat_map(|chart| others(chart, &at_s)).collect();
    Monitor { name: samples.name.clone(), panel: Panel { at_s, charts }, others }
}

impl Sampled<'_> {
    /// One chart per group: of processes, then of the machine.
    fn groups(&self) -> Vec<Chart> {
        let of_processes = PROCESS.iter().map(|group| {
            let series = self.series(group, |column| group.process_label(column));
            chart(group.title.to_owned(), group.unit, group.top, series)
        });
        let of_machine = MACHINE.iter().map(|group| {
            let series = self.series(group, |column| group.machine_label(column));
            chart(group.title.to_owned(), group.unit, group.top, series)
        });
        of_processes.chain(of_machine).collect()
    }

    /// One chart per column that belongs to no group.
    fn metrics(&self) -> Vec<Chart> {
        let is_grouped = |column: &str| {
            PROCESS.iter().any(|group| group.process_label(column).is_some())
                || MACHINE.iter().any(|group| group.machine_label(column).is_some())
        };
        let metrics = self.columns.iter().enumerate().filter(|(_, column)| !is_grouped(column));
        metrics
            .map(|(position, column)| {
                let label = column.strip_prefix("metrics.").unwrap_or(column).to_owned();
                let series = Series { label, line: Line::nth(0), ..self.column(position, column) };
                chart(series.label.clone(), columns::unit(column), None, vec![series])
            })
            .collect()
    }

    /// The lines of a group, in its order.
    fn series(&self, group: &Group, label: impl Fn(&str) -> Option<String>) -> Vec<Series> {
        let labelled = self.columns.iter().enumerate().filter_map(|(position, column)| {
            let label = label(column)?;
            Some((group.position(column), Series { label, ..self.column(position, column) }))
        });
        let mut known: Vec<_> = labelled.filter(|(_, series)| series.values.iter().any(Option::is_some)).collect();
        known.sort_by_key(|(position, _)| *position);
        let known = known.into_iter().map(|(_, series)| series);
        known.enumerate().map(|(nth, series)| Series { line: Line::nth(nth), ..series }).collect()
    }

    fn column(&self, position: usize, name: &str) -> Series {
        let value = |values: &[Option<f64>]| values.get(position).copied().flatten().filter(|value| value.is_finite());
        // A pause or a latency matters where it is highest.
        let is_time = columns::unit(name) == Unit::Milliseconds;
        Series {
            label: String::new(),
            line: Line::nth(0),
            thinning: if is_time { Thinning::Highest } else { Thinning::Mean },
            values: self.rows.iter().map(|(_, values)| value(values)).collect(),
        }
    }
}

fn chart(title: String, unit: Unit, top: Option<f64>, series: Vec<Series>) -> Chart {
    Chart { id: String::new(), title, unit, is_log: false, is_large: false, top, series }
}

fn changes(chart: &Chart) -> bool {
    chart.series.iter().any(|series| {
        let mut known = series.values.iter().flatten();
        known.next().is_some_and(|first| known.any(|value| value != first))
    })
}

fn others(chart: &Chart, at_s: &[f64]) -> Vec<Other> {
    let other = |series: &Series| {
        let name = match series.label == chart.title {
            true => series.label.clone(),
            false => format!("{}: {}", chart.title, series.label),
        };
        Some(Other { name, unit: chart.unit, figures: series.figures(at_s)? })
    };
    chart.series.iter().filter_map(other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(columns: &[&str], rows: &[&[f64]]) -> Monitor {
        let values = |row: &&[f64]| row.iter().copied().map(Some).collect();
        let rows = (0..).map(f64::from).zip(rows.iter().map(values)).collect();
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        monitor(&Samples { name: "m".to_owned(), columns, rows }, &(0.0..=1e6))
    }

    fn charts(monitor: &Monitor) -> Vec<(&str, Vec<&str>)> {
        monitor
            .panel
            .charts
            .iter()
            .map(|chart| (chart.title.as_str(), chart.series.iter().map(|series| series.label.as_str()).collect()))
            .collect()
    }

    #[test]
    fn processes_share_a_chart_and_machines_have_their_own() {
        let columns = ["cpu_user", "cpu", "server.cpu", "store.cpu"];
        let monitor = sampled(&columns, &[&[0.1, 0.1, 1.0, 0.2], &[0.2, 0.2, 1.5, 0.2]]);
        assert_eq!(
            charts(&monitor),
            [("Processors, by process", vec!["server", "store"]), ("Processors of the machine", vec!["all", "user"])]
        );
    }

    #[test]
    fn nodes_of_cassandra_share_a_chart_for_each_figure() {
        let columns = ["node1.gc_share", "node1.dropped_messages_per_s", "node2.timeouts_per_s", "node2.gc_share"];
        let monitor = sampled(&columns, &[&[0.1, 0.0, 1.0, 0.0], &[0.2, 2.0, 0.0, 0.0]]);
        let wanted = [
            ("Time in collections of garbage", vec!["node1", "node2"]),
            ("Dropped messages and time-outs of Cassandra", vec!["node1 dropped", "node2 timed out"]),
        ];
        assert_eq!(charts(&monitor), wanted);
    }

    #[test]
    fn each_metric_that_changes_has_a_chart_and_others_are_listed() {
        let monitor =
            sampled(&["metrics.gc_pause_ms", "metrics.version", "odd"], &[&[1.0, 3.0, 0.0], &[9.0, 3.0, 1.0]]);
        assert_eq!(charts(&monitor), [("gc_pause_ms", vec!["gc_pause_ms"]), ("odd", vec!["odd"])]);
        let others: Vec<_> = monitor.others.iter().map(|other| (other.name.as_str(), other.figures.highest)).collect();
        assert_eq!(others, [("version", 3.0)]);
    }

    #[test]
    fn metrics_beyond_the_limit_are_listed() {
        let names: Vec<_> = (0..METRIC_CHARTS_MAX + 2).map(|number| format!("metrics.m{number}")).collect();
        let columns: Vec<_> = names.iter().map(String::as_str).collect();
        let monitor = sampled(&columns, &[&vec![0.0; names.len()], &vec![1.0; names.len()]]);
        assert_eq!(monitor.panel.charts.len(), METRIC_CHARTS_MAX);
        assert_eq!(monitor.others.len(), 2);
    }

    #[test]
    fn a_row_that_is_too_short_or_holds_no_number_has_gaps() {
        let monitor = sampled(&["metrics.a", "metrics.b"], &[&[1.0, 2.0], &[f64::NAN], &[2.0, 3.0]]);
        let values: Vec<_> = monitor.panel.charts.iter().map(|chart| chart.series[0].values.clone()).collect();
        assert_eq!(values, [[Some(1.0), None, Some(2.0)], [Some(2.0), None, Some(3.0)]]);
    }

    #[test]
    fn samples_outside_the_run_are_left_out() {
        let samples = Samples {
            name: "m".to_owned(),
            columns: vec!["metrics.a".to_owned()],
            rows: [-100.0, 2.0, 1.0, 100.0].map(|at_s| (at_s, vec![Some(at_s)])).to_vec(),
        };
        assert_eq!(monitor(&samples, &(0.0..=10.0)).panel.at_s, [1.0, 2.0]);
    }
}
