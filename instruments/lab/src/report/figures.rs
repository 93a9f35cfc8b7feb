//! Figures as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Report, ReportError, by_value, interactions, of_closed_loop};
use crate::analysis::{Front, Table};
use crate::line::Line;

pub(super) const FONT: (&str, u32) = ("sans-serif", 14);
const WIDTH: u32 = 900;

/// The room for how a figure is to be read, in pixels.
const WARNING_HEIGHT: u32 = 30;
pub(super) const GREY: RGBColor = RGBColor(150, 150, 150);
pub(super) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(super) const ORANGE: RGBColor = RGBColor(213, 94, 0);

/// Lines of values, in their order; the default is the first.
pub(super) const LINES: [RGBColor; 6] =
    [ORANGE, BLUE, RGBColor(0, 158, 115), RGBColor(204, 121, 167), RGBColor(86, 180, 233), RGBColor(230, 159, 0)];

/// The most characters of a setting beside a figure.
const LABEL_CHARS: usize = 44;

/// A figure.
pub(super) struct Figure {
    /// The name of its file.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Its picture.
    pub svg: String,
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws all figures of a report.
pub(super) fn draw(report: &Report<'_>) -> Result<Vec<Figure>, ReportError> {
    let mut all = Vec::new();
    for table in &report.analysis.tables {
        let title = format!("{} under {}: each run, mean and 95 % interval", table.metric, table.workload);
        let height = 90 + 26 * table.rows.len() as u32;
        let name = format!("{}-{}", table.metric, table.workload);
        all.push(figure(report, name, title, height, |area, title| settings(area, title, table))?);
    }
    for front in &report.analysis.fronts {
        let title = format!("{} and {} under {}", front.metrics.0, front.metrics.1, front.workload);
        let name = format!("pareto-{}", front.workload);
        all.push(figure(report, name, title, 420, |area, title| pareto(area, title, front))?);
    }
    all.extend(interactions::draw(report)?);
    all.extend(by_value::draw(report)?);
    let objective = &report.study.plan().objective;
    let title = format!("{objective} in the order of runs: the default, and other settings in grey");
    let lines = report.study.lines();
    all.push(figure(report, "order".to_owned(), title, 360, |area, title| order(area, title, lines, objective))?);
    Ok(all)
}

/// Draws a figure. One of a closed loop says below how it is to be read.
pub(super) fn figure(
    report: &Report<'_>,
    name: String,
    title: String,
    height: u32,
    draw: impl FnOnce(&Area<'_>, &str) -> Drawn,
) -> Result<Figure, ReportError> {
    let mut svg = String::new();
    let warning = of_closed_loop(report);
    let room = if warning.is_some() { WARNING_HEIGHT } else { 0 };
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height + room)).into_drawing_area();
    let (above, below) = area.split_vertically(height);
    let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| draw(&above, &title));
    let drawn = drawn.and_then(|()| warn(&below, warning));
    drawn.and_then(|()| Ok(area.present()?)).map_err(|error| ReportError::Draw(error.to_string()))?;
    drop((area, above, below));
    Ok(Figure { name, title, svg })
}

fn warn(area: &Area<'_>, warning: Option<&str>) -> Drawn {
    if let Some(warning) = warning {
        area.titled(warning, FONT)?;
    }
    Ok(())
}

/// From the least to the greatest value, with some room.
pub(super) fn span(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return 0.0..1.0;
    }
    let room = ((high - low) * 0.05).max(high.abs() * 0.01).max(1e-9);
    low - room..high + room
}

/// A row for each setting: its runs, its mean and the interval of that.
fn settings(area: &Area<'_>, title: &str, table: &Table) -> Drawn {
    let count = table.rows.len();
    let all = table.rows.iter().flat_map(|row| {
        let (low, high) = row.summary.interval.unwrap_or((row.summary.mean, row.summary.mean));
        row.summary.values.iter().copied().chain([low, high])
    });
    let mut chart = ChartBuilder::on(area)
        .caption(title, FONT)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(330)
        .build_cartesian_2d(span(all), (0..count).into_segmented())?;
    let label = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) if *at < count => {
            let name = table.rows[count - 1 - at].setting.to_string();
            let short: String = name.chars().take(LABEL_CHARS).collect();
            if short.len() < name.len() { format!("{short}…") } else { name }
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .y_label_formatter(&label)
        .y_labels(count + 1)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (position, row) in table.rows.iter().enumerate() {
        let at = SegmentValue::CenterOf(count - 1 - position);
        let runs = row.summary.values.iter().map(|value| Circle::new((*value, at.clone()), 3, GREY.filled()));
        chart.draw_series(runs)?;
        let colour = if row.setting.is_default() { ORANGE } else { BLUE };
        if let Some((low, high)) = row.summary.interval {
            let line = PathElement::new([(low, at.clone()), (high, at.clone())], colour.stroke_width(2));
            chart.draw_series([line])?;
        }
        chart.draw_series([Circle::new((row.summary.mean, at), 5, colour.filled())])?;
    }
    Ok(())
}

fn pareto(area: &Area<'_>, title: &str, front: &Front) -> Drawn {
    let (xs, ys) = (front.points.iter().map(|point| point.1), front.points.iter().map(|point| point.2));
    let mut chart = plain(area, title, span(xs), span(ys), &front.metrics.0, &front.metrics.1)?;
    chart.draw_series(front.points.iter().map(|(_, x, y, _)| Circle::new((*x, *y), 4, GREY.filled())))?;
    let mut best: Vec<_> = front.points.iter().filter(|point| point.3).map(|point| (point.1, point.2)).collect();
    best.sort_by(|one, other| one.0.total_cmp(&other.0));
    chart.draw_series(LineSeries::new(best.iter().copied(), BLUE.stroke_width(1)))?;
    chart.draw_series(best.iter().map(|point| Circle::new(*point, 5, BLUE.filled())))?;
    let default = front.points.iter().filter(|point| point.0.is_default());
    chart.draw_series(default.map(|(_, x, y, _)| Circle::new((*x, *y), 5, ORANGE.filled())))?;
    Ok(())
}

fn order(area: &Area<'_>, title: &str, lines: &[Line], objective: &str) -> Drawn {
    let valid = lines.iter().filter(|line| line.is_valid());
    let points: Vec<_> = valid
        .filter_map(|line| {
            let is_default = line.planned.setting.is_default();
            Some((f64::from(line.planned.number), *line.metrics.get(objective)?, is_default))
        })
        .collect();
    let (xs, ys) = (points.iter().map(|point| point.0), points.iter().map(|point| point.1));
    let mut chart = plain(area, title, span(xs), span(ys), "run", objective)?;
    for (x, y, is_default) in points {
        let colour = if is_default { ORANGE } else { GREY };
        chart.draw_series([Circle::new((x, y), 4, colour.filled())])?;
    }
    Ok(())
}

pub(super) type Plain<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

pub(super) fn plain<'a, 'b>(
    area: &Area<'b>,
    title: &str,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    x_name: &str,
    y_name: &str,
) -> Result<Plain<'a, 'b>, Box<dyn std::error::Error>>
where
    'b: 'a,
{
    let mut chart = ChartBuilder::on(area)
        .caption(title, FONT)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(80)
        .build_cartesian_2d(x, y)
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .x_desc(x_name)
        .y_desc(y_name)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(|error| error.to_string())?;
    Ok(chart)
}
