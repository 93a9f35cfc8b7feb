//! Runs the stages.

use std::path::Path;

use anyhow::{Context, Result};

use super::ground::{Ground, Totals};
use super::outcome::{self, Outcome};
use super::settings::Settings;
use super::{figures, links, server_alone, store_alone, tables, together, zip_alone};
use crate::machine::Machine;

/// A stage of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// From the store alone.
    Store,
    /// Into ZIP alone.
    Zip,
    /// From the server alone.
    Server,
    /// All together.
    Together,
    /// All together, over longer links.
    Links,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Store, Self::Zip, Self::Server, Self::Together, Self::Links];
}

/// Runs some stages and writes the results into the folder `out`: figures (SVG), tables
/// (`study.md`), and everything (`study.json`), in which other stages keep their results. `binary`
/// is the study's own. Returns the tables.
pub async fn run(stages: &[Stage], settings: &Settings, out: &Path, binary: &Path) -> Result<String> {
    std::fs::create_dir_all(out).with_context(|| format!("making the folder {}", out.display()))?;
    let mut outcome = Outcome::load(out)?;
    if let Some(count) = stages.iter().map(|stage| settings.volumes(*stage)).max() {
        let settings_of_ground = settings.clone();
        let mut ground = tokio::task::spawn_blocking(move || Ground::new(&settings_of_ground, count)).await??;
        for stage in stages {
            measure(*stage, settings, &mut ground, binary, &mut outcome)
                .await
                .with_context(|| format!("measuring the stage {stage:?}"))?;
            outcome.save(out)?;
        }
    }
    figures::draw(&outcome, out)?;
    let text = tables::all(&outcome);
    std::fs::write(out.join("study.md"), &text)?;
    Ok(text)
}

async fn measure(
    stage: Stage,
    settings: &Settings,
    ground: &mut Ground,
    binary: &Path,
    outcome: &mut Outcome,
) -> Result<()> {
    let machine = Machine::find();
    let count = settings.volumes(stage);
    if matches!(stage, Stage::Store | Stage::Together | Stage::Links) {
        ground.fill_store().await?;
    }
    let (volumes, ids) = (ground.volumes(count), ground.ids(count));
    let (totals, trials, passes) = (Totals::of(volumes), settings.trials, settings.passes);
    let text_bytes = totals.sizes.text_bytes;
    let kept = Kept { machine, settings, totals };
    match stage {
        Stage::Store => {
            outcome.store = Some(kept.with(store_alone::measure(ground.store()?, volumes, settings).await?));
        }
        Stage::Zip => {
            let (points, contents) = zip_alone::measure(volumes, trials).await?;
            outcome.zip = Some(kept.with(points));
            outcome.contents = contents;
        }
        Stage::Server => {
            outcome.server = Some(kept.with(server_alone::measure(binary, volumes, passes, trials).await?));
        }
        Stage::Together => {
            let points = together::measure(binary, ground.store()?, &ids, text_bytes, passes, trials).await?;
            outcome.together = Some(kept.with(points));
        }
        Stage::Links => {
            let points = links::measure(binary, settings, ground).await?;
            outcome.links = Some(kept.with(points));
        }
    }
    Ok(())
}

/// The parts of a stage besides its points.
struct Kept<'a> {
    machine: Machine,
    settings: &'a Settings,
    totals: Totals,
}

impl Kept<'_> {
    fn with<K>(self, points: Vec<super::trial::Point<K>>) -> outcome::Stage<K> {
        outcome::Stage { machine: self.machine, settings: self.settings.clone(), totals: self.totals, points }
    }
}
