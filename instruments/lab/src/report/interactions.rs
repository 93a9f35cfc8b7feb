//! Interaction plots: the mean of the objective for each two levels of two factors. Where the lines
//! are parallel, the factors do not interact.

use plotters::prelude::*;

use super::figures::{Area, Drawn, FONT, Figure, LINES, figure, span};
use super::tables::without;
use super::{Report, ReportError};
use crate::analysis::{Table, keep_whole_blocks};
use crate::factor::Factor;
use crate::line::Line;

/// The most factors of a plot: those with the greatest interactions.
const FACTORS_MAX: usize = 5;

/// The side of a cell, in pixels.
const CELL: u32 = 220;

/// The room for the names of lines above these, as a share of the room for the lines.
const LEGEND_SHARE: f64 = 0.35;

/// The means of two factors: a line for each level of the first, over the levels of the second.
struct Cell<'a> {
    factors: (&'a Factor, &'a Factor),
    lines: Vec<Vec<(usize, f64)>>,
}

/// A plot for each workload, if the design is balanced, of its whole blocks: only there a mean shows
/// nothing of the other factors.
pub(super) fn draw(report: &Report<'_>) -> Result<Vec<Figure>, ReportError> {
    let plan = report.study.plan();
    if !plan.design.is_balanced() || plan.factors.len() < 2 {
        return Ok(Vec::new());
    }
    let tables = report.analysis.tables.iter().filter(|table| table.metric == plan.objective);
    let mut all = Vec::new();
    for table in tables {
        let lines = report.study.lines().iter().filter(|line| {
            let planned = &line.planned;
            let is_of_design = planned.stage == 1 && !planned.is_control && planned.workload == table.workload;
            line.is_valid() && is_of_design && line.metrics.contains_key(&plan.objective)
        });
        let mut lines: Vec<_> = lines.collect();
        let left_out = without(keep_whole_blocks(plan, &mut lines, |line| line.planned.block));
        if lines.is_empty() {
            continue;
        }
        let factors = chosen(&plan.factors, table);
        let cells: Vec<Vec<_>> = (0..factors.len() - 1)
            .map(|one| {
                (one + 1..factors.len())
                    .map(|other| cell((factors[one], factors[other]), &lines, &plan.objective))
                    .collect()
            })
            .collect();
        let of = format!("{} under {}", plan.objective, table.workload);
        let title = format!("{of}: interactions of each two factors{left_out}");
        let height = 40 + CELL * cells.len() as u32;
        let name = format!("interactions-{}", table.workload);
        all.push(figure(report, name, title, height, |area, title| matrix(area, title, &cells))?);
    }
    Ok(all)
}

/// The factors with the greatest interactions, in the order of the plan.
fn chosen<'a>(factors: &'a [Factor], table: &Table) -> Vec<&'a Factor> {
    let weight = |factor: &Factor| {
        let of_factor = table
            .contrasts
            .iter()
            .filter(|contrast| contrast.factors.len() == 2 && contrast.factors.contains(&factor.name));
        of_factor.map(|contrast| contrast.effect.abs()).fold(0.0, f64::max)
    };
    let mut order: Vec<_> = (0..factors.len()).collect();
    order.sort_by(|one, other| weight(&factors[*other]).total_cmp(&weight(&factors[*one])));
    order.truncate(FACTORS_MAX);
    order.sort_unstable();
    order.into_iter().map(|at| &factors[at]).collect()
}

fn cell<'a>(factors: (&'a Factor, &'a Factor), lines: &[&Line], objective: &str) -> Cell<'a> {
    let mean = |one: Option<&str>, other: Option<&str>| {
        let setting = |line: &&&Line| {
            let setting = &line.planned.setting;
            setting.get(&factors.0.name) == one && setting.get(&factors.1.name) == other
        };
        let values: Vec<_> =
            lines.iter().filter(setting).filter_map(|line| line.metrics.get(objective).copied()).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let line = |one: Option<&str>| {
        let points = factors.1.levels().into_iter().enumerate();
        points.filter_map(|(at, other)| Some((at, mean(one, other)?))).collect()
    };
    Cell { factors, lines: factors.0.levels().into_iter().map(line).collect() }
}

/// All cells with one axis of values, so that they can be compared.
fn matrix(area: &Area<'_>, title: &str, cells: &[Vec<Cell<'_>>]) -> Drawn {
    let area = area.titled(title, FONT)?;
    let values = cells.iter().flatten().flat_map(|cell| &cell.lines).flatten().map(|(_, mean)| *mean);
    let range = span(values);
    let range = range.start..range.end + (range.end - range.start) * LEGEND_SHARE;
    let columns = cells.first().map_or(0, Vec::len);
    let places = area.split_evenly((cells.len(), columns));
    for (row, of_row) in cells.iter().enumerate() {
        for (at, cell) in of_row.iter().enumerate() {
            // The first row has most cells. The others begin as far to the right as they are short.
            let column = columns - of_row.len() + at;
            one(&places[row * columns + column], cell, range.clone())?;
        }
    }
    Ok(())
}

fn one(area: &Area<'_>, cell: &Cell<'_>, range: std::ops::Range<f64>) -> Drawn {
    let (first, second) = cell.factors;
    let levels: Vec<_> = second.levels().into_iter().map(|level| level.unwrap_or("default").to_owned()).collect();
    let last = levels.len() as f64 - 1.0;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(46)
        .build_cartesian_2d(-0.3..last + 0.3, range)?;
    let label = |at: &f64| match levels.get(at.round() as usize) {
        Some(level) if (at - at.round()).abs() < 0.01 && *at > -0.01 => level.chars().take(12).collect(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .x_labels(levels.len() + 2)
        .x_label_formatter(&label)
        .x_desc(second.name.as_str())
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 10))
        .draw()?;
    for ((points, level), colour) in cell.lines.iter().zip(first.levels()).zip(LINES.iter().cycle()) {
        let points = || points.iter().map(|(at, mean)| (*at as f64, *mean));
        let name = format!("{} = {}", first.name, level.unwrap_or("default"));
        let line = chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
        line.label(name).legend(|(x, y)| PathElement::new([(x, y), (x + 10, y)], colour.stroke_width(2)));
        chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 9))
        .background_style(WHITE.mix(0.7))
        .draw()?;
    Ok(())
}
