//! Charts of measured points as SVG: panels side by side, lines with error bars, and one legend for
//! all.

use std::ops::Add;

use plotters::coord::Shift;
use plotters::prelude::*;

pub use super::axis::Scale;
use super::axis::{Axis, Placed};
use super::palette;
use super::svg::{DrawError, Failure, drawn};

/// Pixels of one panel, horizontally and vertically.
const PANEL: (u32, u32) = (470, 360);
/// Height of the title and of one row of the legend in pixels.
const TITLE: u32 = 34;
const LEGEND_ROW: u32 = 24;
/// Approximate width of a letter of the legend in pixels, in any font.
const LETTER: u32 = 7;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);

/// A drawing of some panels.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The number of panels side by side.
    pub columns: usize,
    /// The panels, row by row. Panels of a row share their vertical axis. Series at the same
    /// position in their panels have the same name, which the legend shows once.
    pub panels: Vec<Panel>,
}

/// A pair of axes with some series.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// The quantity and unit of the horizontal axis.
    pub x_label: String,
    /// The marks of the horizontal axis: place and text.
    pub x_ticks: Vec<(f64, String)>,
    /// The quantity and unit of the vertical axis.
    pub y_label: String,
    /// The scale of the vertical axis.
    pub y_scale: Scale,
    /// The series.
    pub series: Vec<Series>,
}

/// Dots of one kind.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The dots, in the order in which lines join them.
    pub dots: Vec<Dot>,
    /// The place on the horizontal axis from which a line joins them; `None`: no line does.
    pub joined_from: Option<f64>,
}

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// The place on the horizontal axis.
    pub x: f64,
    /// The place on the vertical axis.
    pub mean: f64,
    /// The length of its bar, up and down.
    pub standard_error: f64,
}

/// Marks at 0, 1, 2, … with these names.
pub fn categories<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Vec<(f64, String)> {
    names.into_iter().enumerate().map(|(index, name)| (index as f64, name.into())).collect()
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Chart {
    /// The chart as SVG.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn svg(&self) -> Result<String, DrawError> {
        let rows = self.panels.len().div_ceil(self.columns).max(1) as u32;
        let width = PANEL.0 * self.columns as u32;
        let legend = self.legend(width);
        let legend_height = LEGEND_ROW * legend.last().map_or(0, |key| key.row + 1);
        let size = (width, PANEL.1 * rows + TITLE + legend_height);
        drawn(size, |area| self.draw_on(area, rows as usize, &legend, legend_height))
    }

    fn draw_on<'a>(
        &self,
        area: &Area<'a>,
        rows: usize,
        legend: &[Key<'_>],
        legend_height: u32,
    ) -> Result<(), Failure<'a>> {
        let (title, rest) = area.split_vertically(TITLE);
        title.draw_text(&self.title, &(FONT, 19).into_font().color(&INK), (14, 10))?;
        let (keys, rest) = rest.split_vertically(legend_height);
        for (index, Key { x, row, series }) in legend.iter().enumerate() {
            let (x, y) = (*x as i32, (row * LEGEND_ROW + LEGEND_ROW / 2) as i32);
            if series.joined_from.is_some() {
                keys.draw(&PathElement::new([(x, y), (x + 26, y)], colour(index).stroke_width(2)))?;
            }
            keys.draw(&marker(index, (x + 13, y)))?;
            keys.draw_text(&series.name, &(FONT, 15).into_font().color(&INK), (x + 32, y - 7))?;
        }
        let areas = rest.split_evenly((rows, self.columns));
        for (row, areas) in self.panels.chunks(self.columns).zip(areas.chunks(self.columns)) {
            let dots = || row.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.dots);
            for (panel, area) in row.iter().zip(areas) {
                panel.draw(area, panel.y_scale.axis(dots()))?;
            }
        }
        Ok(())
    }

    /// The positions of the legend's keys.
    fn legend(&self, width: u32) -> Vec<Key<'_>> {
        let longest = self.panels.iter().max_by_key(|panel| panel.series.len());
        let (mut x, mut row) = (14, 0);
        let keys = longest.into_iter().flat_map(|panel| &panel.series).map(|series| {
            let needed = 32 + LETTER * series.name.chars().count() as u32 + 20;
            if x > 14 && x + needed > width {
                (x, row) = (14, row + 1);
            }
            x += needed;
            Key { x: x - needed, row, series }
        });
        keys.collect()
    }
}

/// A key of the legend: horizontal pixels, row, and its series.
struct Key<'a> {
    x: u32,
    row: u32,
    series: &'a Series,
}

impl Panel {
    fn draw<'a>(&self, area: &Area<'a>, y_axis: Axis) -> Result<(), Failure<'a>> {
        let scale = self.y_scale;
        let x_axis = Axis::of_marks(self.x_ticks.clone());
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(18)
            .caption(&self.title, (FONT, 17).into_font().color(&INK))
            .x_label_area_size(44)
            .y_label_area_size(62)
            .build_cartesian_2d(x_axis, y_axis)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(222, 222, 222))
            .axis_style(INK)
            .label_style((FONT, 14).into_font().color(&INK))
            .axis_desc_style((FONT, 15).into_font().color(&INK))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let dots = || series.dots.iter().filter_map(|dot| scale.placed(dot));
            if let Some(from) = series.joined_from {
                let line = dots().filter(|dot| dot.x >= from).map(|dot| (dot.x, dot.middle));
                chart.draw_series(LineSeries::new(line, colour(index).stroke_width(2)))?;
            }
            let bar = |dot: Placed| {
                ErrorBar::new_vertical(dot.x, dot.low, dot.middle, dot.high, colour(index).stroke_width(1), 9)
            };
            chart.draw_series(dots().map(bar))?;
            chart.draw_series(dots().map(|dot| marker(index, (dot.x, dot.middle))))?;
        }
        Ok(())
    }
}

fn colour(index: usize) -> RGBColor {
    palette::ALL[index % palette::ALL.len()]
}

/// A shape in pixels at a place.
type Marker<'a, C> = <EmptyElement<C, SVGBackend<'a>> as Add<Polygon<(i32, i32)>>>::Output;

/// The mark of the series of this number: both colour and shape distinguish it from others.
fn marker<'a, C>(index: usize, at: C) -> Marker<'a, C> {
    let shape = match index % 4 {
        0 => vec![(-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2)],
        1 => vec![(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => vec![(0, -5), (5, 4), (-5, 4)],
        _ => vec![(0, -6), (5, 0), (0, 6), (-5, 0)],
    };
    EmptyElement::at(at) + Polygon::new(shape, colour(index))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn dot(mean: f64, standard_error: f64) -> Dot {
        Dot { x: 0.0, mean, standard_error }
    }

    #[test]
    fn a_chart_shows_its_names_axes_and_an_error_bar() {
        let series = Series {
            name: "warm".into(),
            dots: vec![dot(3.0, 1.0), Dot { x: 1.0, ..dot(4.0, 1.0) }],
            joined_from: Some(0.0),
        };
        let panel = Panel {
            title: "A panel".into(),
            x_label: "level".into(),
            x_ticks: categories(["frames", "0"]),
            y_label: "MB/s".into(),
            y_scale: Scale::Linear,
            series: vec![series],
        };
        let svg = Chart { title: "A chart".into(), columns: 1, panels: vec![panel] }.svg().unwrap();
        for text in ["A chart", "A panel", "level", "MB/s", "frames", "warm"] {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
        // The line of the legend, the line between the dots, and for each bar its stem and two
        // ends.
        assert!(svg.matches("<polyline").count() + svg.matches("<line").count() >= 8, "{svg}");
    }
}
