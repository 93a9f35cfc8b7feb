//! A chart in the page: its title, the place where it is drawn, and a table of its lines. The table
//! is the legend, and is what the chart shows for those that do not see it.

use maud::{Markup, html};

use super::panel::{Chart, Line, Series};
use crate::page::number::{NONE, instant};

/// The charts of a panel; `at_s` are its instants before thinning.
pub(super) fn figure(chart: &Chart, at_s: &[f64]) -> Markup {
    html! {
        figure.chart.large[chart.is_large] id=(chart.id) {
            figcaption { (chart.title) @if chart.is_log { small { " log scale" } } }
            div.plot {}
            div.scroll {
                table.legend {
                    caption.unseen { "Main figures of the chart “" (chart.title) "”, without the warm-up" }
                    thead { tr {
                        th scope="col" { "Line" }
                        th.now.number scope="col" { "at cursor" }
                        th.number scope="col" { "median" }
                        th.number scope="col" { "highest" }
                        th.number scope="col" { "at" }
                    } }
                    tbody { @for series in &chart.series { (legend_row(chart, series, at_s)) } }
                }
            }
        }
    }
}

fn legend_row(chart: &Chart, series: &Series, at_s: &[f64]) -> Markup {
    let figures = series.figures(at_s);
    let never = figures.is_none_or(|figures| figures.lowest == 0.0 && figures.highest == 0.0);
    let format = |value| chart.unit.format(value);
    html! {
        tr {
            th scope="row" {
                button type="button" aria-pressed="true" title="Shows or hides this line" {
                    (swatch(&series.line)) span { (series.label) }
                }
            }
            td.now.number { (NONE) }
            td.number { (figures.map_or(NONE.to_owned(), |figures| format(figures.median))) }
            td.number { (figures.map_or(NONE.to_owned(), |figures| format(figures.highest))) }
            td.number {
                (figures.filter(|_| !never).map_or(NONE.to_owned(), |figures| instant(figures.highest_at_s.round())))
            }
        }
    }
}

fn swatch(line: &Line) -> Markup {
    let dash: Vec<_> = line.dash.iter().map(u8::to_string).collect();
    html! {
        svg class=(line.colour) width="20" height="8" aria-hidden="true" {
            line x1="0" x2="20" y1="4" y2="4" stroke-width=(line.width.max(2.0)) stroke-dasharray=(dash.join(" ")) {}
        }
    }
}
