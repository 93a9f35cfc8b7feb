//! The figures of the thesis: a bar for each repeat, a figure against the values of a parameter, and
//! how latencies went in time, and reads around flushes.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::prelude::*;

use super::figures::{Area, BLUE, Drawn, Figure, GREY, LINES, ORANGE, figure, plain, span};
use super::{Report, ReportError};
use crate::factor::{Factor, Setting};
use crate::flushes::Around;
use crate::line::Line;
use crate::stats::Summary;
use crate::value;

/// A value of a factor with what it gave: its name, and each run with its block.
struct Level {
    name: String,
    number: Option<f64>,
    runs: Vec<(u32, f64)>,
}

/// All of these figures.
pub(super) fn draw(report: &Report<'_>) -> Result<Vec<Figure>, ReportError> {
    let plan = report.study.plan();
    let lines: Vec<_> = report.study.lines().iter().filter(|line| line.is_valid()).collect();
    let mut all = Vec::new();
    for workload in plan.workloads.iter().map(|workload| workload.name.as_str()) {
        for factor in &plan.factors {
            let levels = levels(factor, workload, &plan.objective, &lines);
            if levels.len() < 2 {
                continue;
            }
            let name = format!("repeats-{}-{workload}", factor.name);
            let title = format!("{} by repeat under {workload}: {}", plan.objective, legend(factor, &levels));
            all.push(figure(report, name, title, 360, |area, title| bars(area, title, &plan.objective, &levels))?);
            if levels.iter().filter(|level| level.number.is_some()).count() > 1 {
                let name = format!("value-{}-{workload}", factor.name);
                let title = format!("{} against {} under {workload}: mean ± RMSE", plan.objective, factor.name);
                all.push(figure(report, name, title, 360, |area, title| {
                    against(area, title, (&axis(factor), &plan.objective), &levels)
                })?);
            }
        }
        let series = series(report.study.folder(), workload, &lines);
        if !series.is_empty() {
            let title = format!("p99 of each second under {workload}: runs of the default, and other settings in grey");
            let axes = ("second", "p99 (ms)");
            let name = format!("time-{workload}");
            all.push(figure(report, name, title, 360, |area, title| in_time(area, title, axes, &series))?);
        }
        let series = around_flushes(report, workload, &lines);
        if !series.is_empty() {
            let title = format!("Disk reads around flushes under {workload}: the default, and other settings in grey");
            let (name, axes) = (format!("flushes-{workload}"), ("seconds from the flush", "bytes read per second"));
            all.push(figure(report, name, title, 360, |area, title| in_time(area, title, axes, &series))?);
        }
    }
    Ok(all)
}

/// The default and the values of a factor that were measured alone.
fn levels(factor: &Factor, workload: &str, objective: &str, lines: &[&Line]) -> Vec<Level> {
    let of = |name: String, number: Option<f64>, setting: &Setting| {
        let planned = lines.iter().filter(|line| {
            line.planned.stage == 1 && line.planned.workload == workload && &line.planned.setting == setting
        });
        let is_kept = planned.filter(|line| !line.planned.is_control);
        let runs: Vec<_> =
            is_kept.filter_map(|line| Some((line.planned.block, *line.metrics.get(objective)?))).collect();
        (!runs.is_empty()).then_some(Level { name, number, runs })
    };
    let of_default = lines.iter().find(|line| line.planned.setting.is_default());
    let read = of_default.and_then(|line| line.read_back.get(&factor.name));
    let default = factor.default.as_ref().or(read);
    let number = default.and_then(|text| on_axis(text));
    let first = of("default".to_owned(), number, &Setting::default());
    let others = factor.values.iter().filter_map(|text| {
        of(text.clone(), on_axis(text), &Setting::of([(factor.name.as_str(), Some(text.as_str()))]))
    });
    let others: Vec<_> = others.collect();
    // The default alone shows nothing of this factor.
    if others.is_empty() { Vec::new() } else { first.into_iter().chain(others).collect() }
}

/// A number for the axis: sizes and rates are in MiB.
fn on_axis(text: &str) -> Option<f64> {
    match value::bytes(text) {
        Some(bytes) => Some(bytes / f64::from(1 << 20)),
        None => value::number(text),
    }
}

/// The name of a factor with the unit of [`on_axis`].
fn axis(factor: &Factor) -> String {
    let is_size = factor.values.iter().any(|text| value::bytes(text).is_some_and(|bytes| bytes > 0.0));
    format!("{}{}", factor.name, if is_size { " (MiB)" } else { "" })
}

fn legend(factor: &Factor, levels: &[Level]) -> String {
    let names: Vec<_> = levels.iter().map(|level| level.name.as_str()).collect();
    format!("{} = {}", factor.name, names.join(", "))
}

/// A group of bars for each repeat, in the order of the values.
fn bars(area: &Area<'_>, title: &str, objective: &str, levels: &[Level]) -> Drawn {
    let blocks = levels.iter().flat_map(|level| &level.runs).map(|run| run.0).max().unwrap_or(1);
    let most = levels.iter().flat_map(|level| &level.runs).map(|run| run.1).fold(0.0, f64::max);
    let (width, x) = (0.8 / levels.len() as f64, 0.5..f64::from(blocks) + 0.5);
    let mut chart = plain(area, title, x, 0.0..most * 1.05 + 1e-9, "repeat", objective)?;
    for (at, level) in levels.iter().enumerate() {
        let colour = LINES.get(at).copied().unwrap_or(GREY);
        let left = |block: u32| f64::from(block) - 0.4 + at as f64 * width;
        let bar = |(block, value): &(u32, f64)| {
            Rectangle::new([(left(*block), 0.0), (left(*block) + width * 0.9, *value)], colour.filled())
        };
        chart.draw_series(level.runs.iter().map(bar))?;
    }
    Ok(())
}

/// The mean for each value that is a number, with the RMSE up and down.
fn against(area: &Area<'_>, title: &str, (factor, objective): (&str, &str), levels: &[Level]) -> Drawn {
    let point = |level: &Level| {
        let values: Vec<_> = level.runs.iter().map(|run| run.1).collect();
        let summary = Summary::of(&values)?;
        Some((level.number?, summary.mean, summary.rmse, level.name == "default"))
    };
    let mut points: Vec<_> = levels.iter().filter_map(point).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ys = points.iter().flat_map(|(_, mean, rmse, _)| [mean - rmse, mean + rmse]);
    let mut chart = plain(area, title, span(points.iter().map(|point| point.0)), span(ys), factor, objective)?;
    chart.draw_series(LineSeries::new(points.iter().map(|(x, mean, ..)| (*x, *mean)), GREY.stroke_width(1)))?;
    for (x, mean, rmse, is_default) in points {
        let colour = if is_default { ORANGE } else { BLUE };
        chart.draw_series([PathElement::new([(x, mean - rmse), (x, mean + rmse)], colour.stroke_width(2))])?;
        chart.draw_series([Circle::new((x, mean), 5, colour.filled())])?;
    }
    Ok(())
}

/// A figure in time, and whether it is that of the default.
type Series = (bool, Vec<(f64, f64)>);

/// Of the first repeat of each setting; a run whose file is gone is left out.
fn series(folder: &Path, workload: &str, lines: &[&Line]) -> Vec<Series> {
    let chosen = lines.iter().filter(|line| {
        let planned = &line.planned;
        planned.workload == workload && planned.stage == 1 && planned.block == 1 && !planned.is_control
    });
    let read = |line: &&&Line| {
        let run = format!("{:05}-{}", line.planned.number, line.attempt);
        let mut table = csv::Reader::from_path(folder.join("runs").join(run).join("seconds.csv")).ok()?;
        let names = table.headers().ok()?.clone();
        let column = |name: &str| names.iter().position(|found| found == name);
        let (at, p99) = (column("at_s")?, column("p99_ms")?);
        let point = |row: csv::StringRecord| Some((row.get(at)?.parse().ok()?, row.get(p99)?.parse().ok()?));
        let points: Vec<_> = table.records().flatten().filter_map(point).collect();
        (points.len() > 1).then(|| (line.planned.setting.is_default(), points))
    };
    chosen.filter_map(|line| read(&line)).collect()
}

/// Of each setting, the mean of all of its runs. One without flushes is left out.
fn around_flushes(report: &Report<'_>, workload: &str, lines: &[&Line]) -> Vec<Series> {
    let mut all: BTreeMap<&Setting, Around> = BTreeMap::new();
    let planned = |line: &&&Line| line.planned.workload == workload && line.planned.stage == 1;
    for line in lines.iter().filter(planned) {
        all.entry(&line.planned.setting).or_default().extend(&Around::read(&report.study.run_folder(line)));
    }
    let of = all.into_iter().map(|(setting, around)| (setting.is_default(), around.means()));
    of.filter(|(_, points)| points.len() > 1).collect()
}

fn in_time(area: &Area<'_>, title: &str, (x_name, y_name): (&str, &str), series: &[Series]) -> Drawn {
    let points = || series.iter().flat_map(|(_, points)| points);
    let (x, y) = (span(points().map(|point| point.0)), span(points().map(|point| point.1)));
    let mut chart = plain(area, title, x, y, x_name, y_name)?;
    for is_default in [false, true] {
        let colour = if is_default { ORANGE } else { GREY };
        for (_, points) in series.iter().filter(|(default, _)| *default == is_default) {
            chart.draw_series(LineSeries::new(
                points.iter().copied(),
                colour.stroke_width(if is_default { 2 } else { 1 }),
            ))?;
        }
    }
    Ok(())
}
