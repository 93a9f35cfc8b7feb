//! The results as Markdown: `markdown.rs` is shared by all tables; then there is a module for each
//! stage, and `summary.rs` for all.

mod links;
mod markdown;
mod store;
mod summary;
mod together;
mod zip;

use pack::{Layout, Level};

use super::client::Protocol;
use super::outcome::{Outcome, Stage};

/// All tables of the stages that were run.
pub fn all(outcome: &Outcome) -> String {
    let sections = [
        summary::section(outcome),
        outcome.store.as_ref().map(store::section),
        outcome.zip.as_ref().map(|stage| zip::section(stage, outcome)),
        outcome.server.as_ref().map(together::server_section),
        outcome.together.as_ref().map(|stage| together::section(stage, outcome.server.as_ref())),
        outcome.links.as_ref().map(|stage| links::section(stage, outcome)),
    ];
    sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// The name of a layout.
pub fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Pages => "pages apart",
        Layout::Volumes => "volumes",
        Layout::WordSeq => "wordseq",
    }
}

/// The name of a level.
pub fn level_name(level: Level) -> String {
    match level {
        Level::Frames => "frames".to_owned(),
        Level::Stored => "0".to_owned(),
        Level::Recompressed(level) => level.to_string(),
    }
}

/// The name of a protocol.
pub fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "HTTP",
        Protocol::Https => "HTTPS",
    }
}

/// The heading of a stage's tables: input, trials, machine.
fn heading<K>(title: &str, stage: &Stage<K>) -> String {
    let machine = &stage.machine;
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "## {title}\n\n{}; {} trials per point, in turn. {} x {}, {}, Linux {}; load before: {}; commit {}, {}, {} build. Figures \
         are MB (10⁶ bytes) per second: median (mean ± standard error).\n",
        stage.totals,
        stage.settings.trials,
        machine.processors,
        known(&machine.processor),
        known(&machine.memory),
        known(&machine.kernel),
        known(&machine.load_before),
        known(&machine.commit),
        known(&machine.rustc),
        if machine.optimized { "release" } else { "DEBUG (the figures mean nothing)" },
    )
}
