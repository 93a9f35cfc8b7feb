//! `lares lab report`

use clap::Args;
use lab::estimate;
use lab::report::{Report, answers, finding, grids, place, sections, warnings};
use lab::study::Study;

use super::{FolderArgs, with_exit_code};
use terminal::OutputArgs;
use terminal::output::Output;

/// Arguments of `lares lab report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares lab report --folder compaction
  lares lab report --folder compaction --json")]
pub struct ReportArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints what a study shows, and writes its page.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let study = Study::read(&args.folder.folder).map_err(with_exit_code)?;
    show(&study, args.output)
}

/// The same for a study that is at hand.
pub fn show(study: &Study, form: OutputArgs) -> anyhow::Result<()> {
    let report = Report::of(study);
    let mut output = Output::stdout();
    if form.json {
        output.json(&report.json())?;
        report.write(study.folder())?;
        return output.finish();
    }
    for section in sections(&report) {
        output.line(&section.title)?;
        output.table(&section.headings, &section.rows)?;
        output.line("")?;
    }
    for grid in grids(&report) {
        let headings: Vec<_> = grid.headings.iter().map(String::as_str).collect();
        output.line(&grid.title)?;
        output.table(&headings, &grid.rows)?;
        output.line("")?;
    }
    for recommendation in &report.recommendations {
        finding(recommendation).iter().try_for_each(|line| output.line(line))?;
    }
    output.line(place(&study.facts().facts))?;
    for note in estimate::notes(study.plan()) {
        output.line(format!("Note: {note}"))?;
    }
    for answer in answers(&report) {
        output.line(format!("{} {}", answer.question, answer.answer))?;
    }
    warnings(&report).into_iter().try_for_each(|warning| output.line(warning))?;
    // What was found is printed even where the files cannot be written.
    let page = report.write(study.folder())?;
    output.line(format!("Page: {}", page.display()))?;
    output.finish()
}
