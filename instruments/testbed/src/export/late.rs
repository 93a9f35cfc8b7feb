//! The late share and disk reads over time, with flushes and compactions marked, as SVG.

use std::time::Duration;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::palette;
use super::svg::{DrawError, FONT, Failure, SIZE, drawn, span};
use crate::results::Second;
use crate::samples::Marked;

/// More marks than this hide the lines.
const MARKS_MAX: usize = 500;

const LATE: RGBColor = palette::VERMILION;
const READS: RGBColor = palette::BLUE;

/// Kinds of marks: the words by which they are known, and their colours.
const KINDS: [(&str, RGBColor); 3] =
    [("flush", palette::GREEN), ("compaction", palette::ORANGE), ("other event", palette::GREY)];

/// What the chart shows.
pub struct LateChart<'a> {
    /// The response time from which on a request is too late.
    pub late_from: Duration,
    /// The seconds of the run, in ascending order.
    pub seconds: &'a [Second],
    /// Bytes per second read from disks: at which second, and how many.
    pub reads: &'a [(f64, f64)],
    /// What happened, in ascending order.
    pub marks: &'a [Marked],
}

impl LateChart<'_> {
    /// Draws it.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn draw(&self, title: &str) -> Result<String, DrawError> {
        drawn(SIZE, |area| self.draw_on(area, title))
    }

    fn draw_on<'b>(&self, area: &DrawingArea<SVGBackend<'b>, Shift>, title: &str) -> Result<(), Failure<'b>> {
        let percent = |second: &Second| Some((second.at_s as f64, 100.0 * second.late_share()?));
        let late: Vec<_> = self.seconds.iter().filter_map(percent).collect();
        let within = span(self.seconds);
        let is_within = |at_s: f64| within.contains(&at_s);
        let reads: Vec<_> = self.reads.iter().filter(|(at_s, _)| is_within(*at_s)).copied().collect();
        let top =
            |values: &[(f64, f64)], least: f64| values.iter().fold(least, |top, (_, value)| top.max(*value)) * 1.05;
        let (late_top, reads_top) = (top(&late, 1.0), top(&reads, 1e6) / 1e6);
        let mut chart = ChartBuilder::on(area)
            .caption(title, FONT)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .right_y_label_area_size(64)
            .build_cartesian_2d(within.clone(), 0.0..late_top)?
            .set_secondary_coord(within.clone(), 0.0..reads_top);
        chart
            .configure_mesh()
            .x_desc("seconds")
            .y_desc(format!("later than {} ms, %", self.late_from.as_secs_f64() * 1e3))
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .draw()?;
        chart.configure_secondary_axes().y_desc("read from disks, MB/s").label_style(FONT).draw()?;
        for (kind, (name, colour)) in KINDS.into_iter().enumerate() {
            let marks = self.marks.iter().filter(|mark| is_within(mark.at_s) && kind_of(&mark.what) == kind);
            let lines: Vec<_> = marks.take(MARKS_MAX).map(|mark| mark.at_s).collect();
            if lines.is_empty() {
                continue;
            }
            let line = |at_s| PathElement::new([(at_s, 0.0), (at_s, late_top)], colour.mix(0.5));
            chart.draw_series(lines.into_iter().map(line))?.label(name).legend(key(colour));
        }
        let reads = reads.into_iter().map(|(at_s, bytes)| (at_s, bytes / 1e6));
        chart
            .draw_secondary_series(LineSeries::new(reads, READS.stroke_width(2)))?
            .label("read from disks")
            .legend(key(READS));
        chart.draw_series(LineSeries::new(late, LATE.stroke_width(2)))?.label("late").legend(key(LATE));
        let mut labels = chart.configure_series_labels();
        labels.background_style(WHITE.mix(0.8)).border_style(TRANSPARENT).label_font(FONT).draw()
    }
}

/// The place of a mark's kind in [`KINDS`].
fn kind_of(what: &str) -> usize {
    let known = KINDS[..KINDS.len() - 1].iter().position(|(name, _)| what.contains(name));
    known.unwrap_or(KINDS.len() - 1)
}

fn key(colour: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_kind_of_mark_has_its_lines_and_its_key() {
        let second = |at_s| Second { at_s, done: 10, too_late: u64::from(at_s == 3) * 2, ..Second::default() };
        let seconds: Vec<_> = (0..10).map(second).collect();
        let mark = |at_s, what: &str| Marked { at_s, what: what.to_owned() };
        let marks =
            [mark(1.0, "flush × 2"), mark(4.0, "compaction × 1"), mark(5.0, "server killed"), mark(99.0, "flush × 1")];
        let chart =
            LateChart { late_from: Duration::from_millis(10), seconds: &seconds, reads: &[(2.0, 4e6)], marks: &marks };
        let svg = chart.draw("a <run>").unwrap();
        for text in ["flush", "compaction", "other event", "later than 10 ms, %", "a &lt;run&gt;"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("#009E73").count(), 2, "the line of the flush within the run, and its key: {svg}");
    }

    #[test]
    fn a_run_without_anything_has_a_chart() {
        let chart = LateChart { late_from: Duration::from_millis(10), seconds: &[], reads: &[], marks: &[] };
        assert!(chart.draw("nothing").unwrap().starts_with("<svg"));
    }
}
