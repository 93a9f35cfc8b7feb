//! Charts that share their instants: what they show, its main figures, and how they are thinned.

use serde::Serialize;

use crate::page::number::Unit;

/// Charts that share their instants.
#[derive(Debug, Default, Serialize)]
pub(super) struct Panel {
    /// Seconds since the start instant, ascending.
    pub(super) at_s: Vec<f64>,
    pub(super) charts: Vec<Chart>,
}

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Chart {
    /// The id of its element in the page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) is_log: bool,
    pub(super) is_large: bool,
    /// The axis reaches at least this value.
    pub(super) top: Option<f64>,
    pub(super) series: Vec<Series>,
}

/// A line of a chart.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) label: String,
    pub(super) line: Line,
    #[serde(skip)]
    pub(super) thinning: Thinning,
    /// One per instant.
    pub(super) values: Vec<Option<f64>>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Line {
    /// The name of a colour in `report.css`.
    pub(super) colour: &'static str,
    /// Lengths of dashes and gaps.
    pub(super) dash: &'static [u8],
    pub(super) width: f32,
}

/// Which value replaces several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinning {
    /// Their mean.
    Mean,
    /// The highest: a mean would hide it.
    Highest,
}

/// The main figures of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) lowest: f64,
    pub(super) median: f64,
    pub(super) highest: f64,
    /// When it was highest first, in seconds since the start instant.
    pub(super) highest_at_s: f64,
}

impl Line {
    /// The line of the nth series: colours first, then dashes.
    pub(super) fn nth(position: usize) -> Self {
        const COLOURS: [&str; 6] = ["s1", "s2", "s3", "s4", "s5", "s6"];
        const DASHES: [&[u8]; 3] = [&[], &[7, 3], &[2, 3]];
        let colour = COLOURS[position % COLOURS.len()];
        let dash = DASHES[position / COLOURS.len() % DASHES.len()];
        Self { colour, dash, width: 1.5 }
    }
}

impl Series {
    /// Its main figures from the start instant on, without the warm-up; `None` if it has no value
    /// there.
    pub(super) fn figures(&self, at_s: &[f64]) -> Option<Figures> {
        let measured = at_s.iter().zip(&self.values).filter(|(at_s, _)| **at_s >= 0.0);
        let mut values: Vec<_> = measured.filter_map(|(at_s, value)| value.map(|value| (value, *at_s))).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (lowest, _) = *values.first()?;
        let (highest, _) = *values.last()?;
        let (median, _) = *values.get((values.len() - 1) / 2)?;
        let (_, highest_at_s) = *values.get(values.partition_point(|(value, _)| *value < highest))?;
        Some(Figures { lowest, median, highest, highest_at_s })
    }
}

impl Panel {
    /// How many lines its charts have.
    pub(super) fn series_count(&self) -> usize {
        self.charts.iter().map(|chart| chart.series.len()).sum()
    }

    /// The same charts with about `points_max` points a line at most, and values of four
    /// significant digits.
    pub(super) fn thinned(&self, points_max: usize) -> Self {
        let buckets = buckets(&self.at_s, points_max);
        let at_s = buckets.iter().filter_map(|bucket| self.at_s.get(bucket.start)).map(|at_s| milli(*at_s)).collect();
        let thinned = |series: &Series| {
            let values = buckets.iter().map(|bucket| series.thinning.apply(series.values.get(bucket.clone())?));
            Series { values: values.collect(), ..series.clone() }
        };
        let charts = self
            .charts
            .iter()
            .map(|chart| Chart { series: chart.series.iter().map(thinned).collect(), ..chart.clone() })
            .collect();
        Self { at_s, charts }
    }
}

impl Thinning {
    fn apply(self, values: &[Option<f64>]) -> Option<f64> {
        let known = values.iter().flatten().copied();
        let value = match self {
            Self::Mean => known.clone().sum::<f64>() / known.count().max(1) as f64,
            Self::Highest => known.max_by(f64::total_cmp)?,
        };
        values.iter().any(Option::is_some).then(|| four_digits(value))
    }
}

/// Seconds that each point sums up, if there are more instants than points.
pub(super) fn bucket_s(at_s: &[f64], points_max: usize) -> Option<f64> {
    if at_s.len() <= points_max {
        return None;
    }
    let width = (at_s.last()? - at_s.first()?) / points_max.max(1) as f64;
    Some(if width > 1.0 { width.ceil() } else { width })
}

fn buckets(at_s: &[f64], points_max: usize) -> Vec<std::ops::Range<usize>> {
    let Some(width) = bucket_s(at_s, points_max) else { return (0..at_s.len()).map(|at| at..at + 1).collect() };
    let first = at_s.first().copied().unwrap_or_default();
    let number = |at_s: &f64| ((at_s - first) / width) as u64;
    let mut end = 0;
    at_s.chunk_by(|a, b| number(a) == number(b))
        .map(|bucket| {
            let start = end;
            end += bucket.len();
            start..end
        })
        .collect()
}

fn milli(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Nobody sees more of them in a chart, and the page is smaller.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn panel(seconds: u32, thinning: Thinning, value: impl Fn(u32) -> Option<f64>) -> Panel {
        let series =
            Series { label: "x".to_owned(), line: Line::nth(0), thinning, values: (0..seconds).map(value).collect() };
        let chart = Chart {
            id: String::new(),
            title: String::new(),
            unit: Unit::Plain,
            is_log: false,
            is_large: false,
            top: None,
            series: vec![series],
        };
        Panel { at_s: (0..seconds).map(f64::from).collect(), charts: vec![chart] }
    }

    #[test]
    fn short_runs_keep_every_second() {
        let thinned = panel(100, Thinning::Mean, |at| Some(f64::from(at))).thinned(100);
        assert_eq!(thinned.at_s.len(), 100);
        assert_eq!(thinned.charts[0].series[0].values[99], Some(99.0));
    }

    #[test]
    fn long_runs_are_thinned_to_means() {
        let thinned = panel(1_000, Thinning::Mean, |at| Some(f64::from(at % 2))).thinned(100);
        assert_eq!(thinned.at_s.len(), 100);
        assert_eq!(thinned.at_s[1], 10.0);
        assert!(thinned.charts[0].series[0].values.iter().all(|value| *value == Some(0.5)));
    }

    #[test]
    fn thinning_keeps_a_single_high_value_where_it_matters() {
        let thinned = panel(1_000, Thinning::Highest, |at| Some(if at == 555 { 7.0 } else { 0.0 })).thinned(100);
        assert_eq!(thinned.charts[0].series[0].values[55], Some(7.0));
    }

    #[test]
    fn a_bucket_without_values_has_none() {
        let thinned = panel(1_000, Thinning::Mean, |at| (at >= 500).then_some(1.0)).thinned(100);
        assert_eq!(thinned.charts[0].series[0].values[49..51], [None, Some(1.0)]);
    }

    #[test]
    fn figures_leave_out_the_warm_up() {
        let mut panel = panel(10, Thinning::Mean, |at| Some(f64::from(100 - at)));
        panel.at_s.iter_mut().for_each(|at_s| *at_s -= 5.0);
        let figures = panel.charts[0].series[0].figures(&panel.at_s).unwrap();
        assert_eq!(figures, Figures { lowest: 91.0, median: 93.0, highest: 95.0, highest_at_s: 0.0 });
    }
}
