//! Charts over time as SVG, for papers: requests per second, and response times.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use thiserror::Error;

use super::palette;
use crate::results::Second;

/// Pixels of a chart over time, horizontally and vertically.
pub(super) const SIZE: (u32, u32) = (900, 360);
pub(super) const FONT: (&str, u32) = ("sans-serif", 15);

/// A chart could not be drawn.
#[derive(Debug, Error)]
#[error("the chart cannot be drawn: {0}")]
pub struct DrawError(String);

/// Why drawing fails.
pub(super) type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// What is drawn on a white area of some pixels, horizontally and vertically, as SVG.
pub(super) fn drawn(
    size: (u32, u32),
    draw: impl for<'a> FnOnce(&DrawingArea<SVGBackend<'a>, Shift>) -> Result<(), Failure<'a>>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let done = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
    done.map_err(|error| DrawError(error.to_string()))?;
    drop(area);
    Ok(svg)
}

/// A line of a chart. It is broken where a second has no value.
struct Line {
    name: &'static str,
    colour: RGBColor,
    value: fn(&Second) -> Option<f64>,
}

/// Requests that were due and done in each second, and those that were not done.
///
/// # Errors
/// It cannot be drawn.
pub fn requests(title: &str, seconds: &[Second]) -> Result<String, DrawError> {
    let lines = [
        Line { name: "due", colour: palette::GREY, value: |second| Some(second.due as f64) },
        Line { name: "done", colour: palette::BLUE, value: |second| Some(second.done as f64) },
        Line {
            name: "failed or refused",
            colour: palette::VERMILION,
            value: |second| Some((second.failed + second.refused + second.timed_out) as f64),
        },
    ];
    draw(title, "requests per second", seconds, &lines)
}

/// Response times of each second by percentile. A second in which nothing was done has none.
///
/// # Errors
/// It cannot be drawn.
pub fn durations(title: &str, seconds: &[Second]) -> Result<String, DrawError> {
    let lines = [
        Line { name: "median", colour: palette::GREEN, value: |second| (second.done > 0).then_some(second.p50_ms) },
        Line { name: "90 %", colour: palette::BLUE, value: |second| (second.done > 0).then_some(second.p90_ms) },
        Line { name: "99 %", colour: palette::VERMILION, value: |second| (second.done > 0).then_some(second.p99_ms) },
    ];
    draw(title, "response time in ms", seconds, &lines)
}

impl Line {
    /// The values of neighbouring seconds that have one, by second.
    fn parts(&self, seconds: &[Second]) -> Vec<Vec<(f64, f64)>> {
        let of_part = |part: &[Second]| -> Vec<_> {
            part.iter().filter_map(|second| Some((second.at_s as f64, (self.value)(second)?))).collect()
        };
        let parts = seconds.split(|second| (self.value)(second).is_none());
        parts.filter(|part| !part.is_empty()).map(of_part).collect()
    }
}

fn draw(title: &str, label: &str, seconds: &[Second], lines: &[Line]) -> Result<String, DrawError> {
    drawn(SIZE, |area| draw_on(area, title, label, seconds, lines))
}

fn draw_on<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    title: &str,
    label: &str,
    seconds: &[Second],
    lines: &[Line],
) -> Result<(), Failure<'a>> {
    let values = lines.iter().flat_map(|line| seconds.iter().filter_map(line.value));
    let top = values.fold(1e-3, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .caption(title, FONT)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(span(seconds), 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc(label)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()?;
    for line in lines {
        let colour = line.colour;
        // A value without neighbours is no line.
        let (alone, parts): (Vec<_>, Vec<_>) = line.parts(seconds).into_iter().partition(|part| part.len() == 1);
        chart.draw_series(alone.into_iter().flatten().map(|dot| Circle::new(dot, 1, colour.filled())))?;
        chart
            .draw_series(parts.into_iter().map(|part| PathElement::new(part, colour.stroke_width(2))))?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    let mut labels = chart.configure_series_labels();
    labels.background_style(WHITE.mix(0.8)).border_style(TRANSPARENT).label_font(FONT).draw()
}

pub(super) fn span(seconds: &[Second]) -> Range<f64> {
    let at = |second: Option<&Second>| second.map_or(0.0, |second| second.at_s as f64);
    at(seconds.first())..at(seconds.last()).max(at(seconds.first()) + 1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_chart_has_a_line_for_each_series_and_its_title_is_escaped() {
        let second = |at_s: i64| Second { at_s, due: 10, done: at_s.unsigned_abs(), ..Second::default() };
        let seconds: Vec<_> = (-2..8).map(second).collect();
        let svg = requests("a <b> & c", &seconds).unwrap();
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 6, "three lines, and three keys of the legend");
        assert!(svg.contains("&lt;b&gt; &amp; c") && !svg.contains("<b>"), "{svg}");
        assert!(durations("nothing", &[]).unwrap().starts_with("<svg"));
    }

    #[test]
    fn the_line_of_durations_is_broken_where_nothing_was_done() {
        let second = |at_s: i64| {
            // In five seconds the server answers in one only.
            let done = if (3..8).contains(&at_s) && at_s != 6 { 0 } else { 10 };
            let [p50_ms, p90_ms, p99_ms] = if done > 0 { [2.0, 3.0, 4.0] } else { [0.0; 3] };
            Second { at_s, due: 10, done, p50_ms, p90_ms, p99_ms, ..Second::default() }
        };
        let seconds: Vec<_> = (0..12).map(second).collect();
        let svg = durations("a run", &seconds).unwrap();
        // Two parts of each of three lines and a dot between them, and three keys of the legend.
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 3 * 2 + 3, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
    }
}
