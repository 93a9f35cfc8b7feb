//! Over longer links: the effect of each level, the best one, and the recommendation of the study's
//! rule.

use pack::{Layout, Level};

use super::markdown::{NONE, Table, figure, rate, ratio};
use super::{heading, level_name};
use crate::study::client::{Protocol, Task};
use crate::study::links::{LinkKey, TASKS};
use crate::study::outcome::{Outcome, Stage};
use crate::study::rule::{self, Sender};
use crate::study::server_alone::ServerKey;
use crate::study::together::LEVELS;
use crate::study::trial::{Point, Statistics};
use crate::study::zip_alone::ZipKey;
use testbed::link::Link;

pub(super) fn section(stage: &Stage<LinkKey>, outcome: &Outcome) -> String {
    format!(
        "{}\nPages apart, over HTTP; MB/s of page text. Links of less than 1 Gbit/s: the first {} volumes only. Best: the level with the greatest mean, and those whose errors reach it.\n\n{}\n\
         ### What the study's rule would have said\n\n{}\n",
        heading("Over longer links", stage),
        stage.settings.slow_link_volumes,
        measured(stage),
        by_rule(stage, outcome),
    )
}

fn measured(stage: &Stage<LinkKey>) -> Table {
    let levels = LEVELS.map(level_name);
    let head = ["link", "client"].map(str::to_owned).into_iter().chain(levels).chain(["best".to_owned()]);
    let mut table = Table::new(head);
    for (link, task) in stage.settings.links.iter().flat_map(|&link| TASKS.map(|task| (link, task))) {
        let rates = LEVELS.map(|level| rate(stage.point(&LinkKey { link, task, level }).map(Point::text_rate)));
        let names = [link.to_string(), task_name(task).to_owned()];
        table.push(names.into_iter().chain(rates).chain([names_of(&best(stage, link, task))]));
    }
    table
}

fn task_name(task: Task) -> &'static str {
    match task {
        Task::Receives => "receives",
        Task::Unpacks => "unpacks",
    }
}

/// The level with the greatest mean, then those that cannot be distinguished from it.
fn best(stage: &Stage<LinkKey>, link: Link, task: Task) -> Vec<Level> {
    let mut rates: Vec<(Level, Statistics)> = LEVELS
        .into_iter()
        .filter_map(|level| Some((level, stage.point(&LinkKey { link, task, level })?.text_rate())))
        .collect();
    rates.sort_by(|(_, a), (_, b)| b.mean.total_cmp(&a.mean));
    let Some(first) = rates.first().map(|(_, first)| first.mean - first.standard_error) else { return Vec::new() };
    let reaches = |(_, rate): &(Level, Statistics)| rate.mean + rate.standard_error >= first;
    rates.into_iter().filter(reaches).map(|(level, _)| level).collect()
}

fn names_of(levels: &[Level]) -> String {
    match levels {
        [] => NONE.to_owned(),
        [best] => format!("**{}**", level_name(*best)),
        [best, others @ ..] => {
            let others: Vec<_> = others.iter().map(|level| level_name(*level)).collect();
            format!("**{}** (or {})", level_name(*best), others.join(", "))
        }
    }
}

/// For each link, the rule's recommendation for each level, with ratios and rates of the stage
/// `zip_alone`.
fn by_rule(stage: &Stage<LinkKey>, outcome: &Outcome) -> String {
    let senders: Vec<Sender> = LEVELS.into_iter().filter_map(|level| sender(outcome, level)).collect();
    if senders.is_empty() {
        return "It needs the stage into ZIP alone.\n".to_owned();
    }
    let mut facts = Table::new(["level", "ratio", "rate_input, MB/s", "worth it below a rate_transfer of, MB/s"]);
    for sender in &senders {
        facts.push([
            level_name(sender.level),
            ratio(Some(sender.ratio)),
            figure(sender.input_rate),
            figure(sender.worth_it_below().max(0.0)),
        ]);
    }
    let compressing = || senders.iter().filter(|sender| sender.level != Level::Stored);
    let head = ["link", "rate_transfer, MB/s"].map(str::to_owned).into_iter();
    let verdicts = compressing().map(|sender| format!("{}: compress?", level_name(sender.level)));
    let ends = ["best by the rule", "measured: receives", "measured: unpacks"].map(str::to_owned);
    let mut table = Table::new(head.chain(verdicts).chain(ends));
    for &link in &stage.settings.links {
        let Some(transfer_rate) = transfer_rate(link, outcome) else { continue };
        let verdicts =
            compressing().map(|sender| if sender.is_worth_it(transfer_rate) { "yes" } else { "no" }.to_owned());
        let by_rule = rule::best(&senders, transfer_rate).map_or_else(|| NONE.to_owned(), level_name);
        let measured = TASKS.map(|task| names_of(&best(stage, link, task)));
        let names = [link.to_string(), figure(transfer_rate)];
        table.push(names.into_iter().chain(verdicts).chain([by_rule]).chain(measured));
    }
    format!(
        "Compress where ratio < 1 − rate_transfer / rate_input. Ratio and rate_input are those of pages apart into ZIP alone; \
         rate_transfer is the link's, of loopback what the server alone sends over HTTP.\n\n{facts}\n{table}"
    )
}

fn sender(outcome: &Outcome, level: Level) -> Option<Sender> {
    let key = ZipKey { layout: Layout::Pages, level };
    let input_rate = outcome.zip.as_ref()?.point(&key)?.text_rate().mean;
    Some(Sender { level, ratio: outcome.ratio(key)?, input_rate })
}

/// The rate of a link in MB per second.
fn transfer_rate(link: Link, outcome: &Outcome) -> Option<f64> {
    let loopback = || Some(outcome.server.as_ref()?.point(&ServerKey { protocol: Protocol::Http })?.coded_rate().mean);
    link.bytes_per_s().map(|rate| rate as f64 / 1e6).or_else(loopback)
}
