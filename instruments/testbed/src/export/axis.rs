//! Axes, linear or logarithmic, with marks at round values or at given places with given names.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::panels::Dot;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from 0.
    Linear,
    /// Logarithmic; values not above 0 are left out.
    Logarithmic,
}

/// An axis: its mapping and its marks.
pub(super) struct Axis {
    inner: RangedCoordf64,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis with marks of these names at these places, and some space at both ends.
    pub(super) fn of_marks(marks: Vec<(f64, String)>) -> Self {
        let (first, last) = (marks.first().map_or(0.0, |(at, _)| *at), marks.last().map_or(1.0, |(at, _)| *at));
        let room = ((last - first) * 0.05).max(0.4);
        Self { inner: (first - room..last + room).into(), marks }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.inner.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.marks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.inner.range()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let mark = self.marks.iter().find(|(at, _)| at == value);
        mark.map_or_else(String::new, |(_, name)| name.clone())
    }
}

/// A dot in the coordinates of its axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) x: f64,
    pub(super) low: f64,
    pub(super) middle: f64,
    pub(super) high: f64,
}

impl Scale {
    fn coordinate(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic => value.log10(),
        }
    }

    fn value(self, coordinate: f64) -> f64 {
        match self {
            Self::Linear => coordinate,
            Self::Logarithmic => 10_f64.powf(coordinate),
        }
    }

    /// Maps a dot to coordinates; `None` if it cannot be shown. A bar that would reach below 0 on a
    /// logarithmic axis is cut.
    pub(super) fn placed(self, dot: &Dot) -> Option<Placed> {
        let (low, high) = (dot.mean - dot.standard_error, dot.mean + dot.standard_error);
        let low = if self == Self::Logarithmic { low.max(dot.mean / 10.0) } else { low };
        let placed = Placed {
            x: dot.x,
            low: self.coordinate(low),
            middle: self.coordinate(dot.mean),
            high: self.coordinate(high),
        };
        [placed.low, placed.middle, placed.high].iter().all(|coordinate| coordinate.is_finite()).then_some(placed)
    }

    /// An axis that shows all given dots.
    pub(super) fn axis<'a>(self, dots: impl Iterator<Item = &'a Dot>) -> Axis {
        let range = self.range(dots);
        let marks = self.ticks(&range).into_iter().map(|tick| (tick, figure(self.value(tick))));
        Axis { marks: marks.collect(), inner: range.into() }
    }

    /// The range of an axis that shows all given dots.
    fn range<'a>(self, dots: impl Iterator<Item = &'a Dot>) -> Range<f64> {
        let (low, high) = dots
            .filter_map(|dot| self.placed(dot))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), dot| (low.min(dot.low), high.max(dot.high)));
        match self {
            _ if low > high => 0.0..1.0,
            Self::Linear => 0.0..(high * 1.08).max(f64::MIN_POSITIVE),
            Self::Logarithmic => low - 0.1..high + 0.1,
        }
    }

    /// Coordinates of the marks on an axis: 1, 2 or 5 times powers of ten.
    fn ticks(self, range: &Range<f64>) -> Vec<f64> {
        match self {
            Self::Linear => {
                let step = step(range.end / 6.0);
                (0..).map(|index| f64::from(index) * step).take_while(|tick| *tick <= range.end).collect()
            }
            Self::Logarithmic => {
                let (first, last) = (range.start.floor() as i32, range.end.ceil() as i32);
                let factors: &[f64] = if last - first > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let ticks = (first..=last).flat_map(|power| factors.iter().map(move |f| f64::from(power) + f.log10()));
                ticks.filter(|tick| range.contains(tick)).collect()
            }
        }
    }
}

/// The smallest of 1, 2 or 5 times a power of ten that is no smaller than this.
fn step(at_least: f64) -> f64 {
    let power = 10_f64.powf(at_least.log10().floor());
    [1.0, 2.0, 5.0].map(|factor| factor * power).into_iter().find(|step| *step >= at_least).unwrap_or(10.0 * power)
}

/// The text of a mark.
fn figure(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn dot(mean: f64, standard_error: f64) -> Dot {
        Dot { x: 0.0, mean, standard_error }
    }

    #[test]
    fn marks_of_a_linear_axis_begin_at_zero_and_are_round() {
        let range = Scale::Linear.range([dot(430.0, 10.0)].iter());
        assert_eq!(Scale::Linear.ticks(&range), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!((step(0.3), step(70.0), step(2.0)), (0.5, 100.0, 2.0));
    }

    #[test]
    fn marks_of_a_logarithmic_axis_are_round_values() {
        let range = Scale::Logarithmic.range([dot(9.0, 0.0), dot(60.0, 0.0)].iter());
        let values: Vec<_> =
            Scale::Logarithmic.ticks(&range).into_iter().map(|t| Scale::Logarithmic.value(t).round()).collect();
        assert_eq!(values, [10.0, 20.0, 50.0]);
    }

    #[test]
    fn values_that_a_logarithmic_axis_cannot_show_are_left_out() {
        assert_eq!(Scale::Logarithmic.placed(&dot(0.0, 0.0)), None);
        assert_eq!(Scale::Linear.placed(&dot(f64::NAN, 0.0)), None);
        assert_eq!(Scale::Logarithmic.placed(&dot(10.0, 20.0)).unwrap().low, 0.0);
    }
}
