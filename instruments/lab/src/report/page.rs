//! The page.

use maud::{Markup, PreEscaped, html};
use testbed::page::{Document, table};

use super::Report;
use super::figures::Figure;
use super::tables::sections;
use super::{kpi, of_closed_loop, questions, words};
use crate::estimate;
use crate::plan::PlanError;

/// The sections of the page, by their ids.
const SECTIONS: [(&str, &str); 6] = [
    ("findings", "Findings"),
    ("figures", "Figures"),
    ("tables", "Tables"),
    ("kpi", "KPI"),
    ("plan", "Plan"),
    ("machine", "Machine"),
];

/// The page of a report.
pub(super) fn page(report: &Report<'_>, figures: &[Figure]) -> Result<Markup, PlanError> {
    let plan = report.study.plan();
    let plan_toml = plan.to_toml()?;
    let counted = report.study.lines().iter().filter(|line| line.is_valid()).count();
    let content = html! {
        main {
            h1 { "Study " (plan.name) }
            p.note {
                (counted) " runs count, " (report.analysis.void.len()) " do not. Design: " (plan.design.name()) "."
            }
            @if let Some(warning) = of_closed_loop(report) { p.note { (warning) } }
            h2 id="findings" { "Findings" }
            @for recommendation in &report.recommendations {
                pre { (words::finding(recommendation).join("\n")) }
            }
            p.note { (words::place(&report.study.facts().facts)) }
            p.note {
                "Differences are those within blocks, to the default of the same block, in logarithms where no \
                 value is 0. Intervals are those of Student's t, by the scatter of each setting's own differences. \
                 p is corrected for all comparisons of a metric by Holm's method."
            }
            @for note in estimate::notes(plan) { p.note { "Note: " (note) } }
            @let answers = questions::answers(report);
            @if !answers.is_empty() {
                h3 { "Questions of the thesis" }
                dl {
                    @for answer in &answers { dt { (answer.question) } dd { (answer.answer) } }
                }
            }
            h2 id="figures" { "Figures" }
            @for figure in figures {
                figure { (PreEscaped(&figure.svg)) figcaption { (figure.title) } }
            }
            h2 id="tables" { "Tables" }
            @for section in sections(report) { (shown(&section.title, &section.headings, &section.rows)) }
            h2 id="kpi" { "KPI" }
            p.note { (kpi::WARNING) }
            @for grid in kpi::grids(report) { (shown(&grid.title, &grid.headings, &grid.rows)) }
            h2 id="plan" { "Plan" }
            pre { (plan_toml) }
            h2 id="machine" { "Machine" }
            (table("What was measured, on what", &html! {
                tbody {
                    @for (fact, value) in &report.study.facts().facts { tr { th scope="row" { (fact) } td { (value) } } }
                }
            }))
        }
    };
    let title = format!("Study {}", plan.name);
    let document = Document { title: &title, sections: &SECTIONS, styles: &[], scripts: &[], loads_scripts: false };
    Ok(document.page(&content, "{}"))
}

fn shown(title: &str, headings: &[impl AsRef<str>], rows: &[Vec<String>]) -> Markup {
    table(
        title,
        &html! {
            thead { tr { @for heading in headings { th { (heading.as_ref()) } } } }
            tbody {
                @for row in rows { tr { @for cell in row { td { (cell) } } } }
            }
        },
    )
}
