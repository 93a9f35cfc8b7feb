//! Loads a bag.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use preservation::bagged::Bagged;
use preservation::bagit::Bag;
use preservation::bagit::text::Algorithm;
use preservation::read::ReadError;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::loader::{Counts, DESCRIPTION_BYTES_MAX, Loader, State};
use super::source::Bytes;

/// Resources of a bag that are read ahead, with their statements.
const READ_AHEAD: usize = 4;

/// Checks all of a bag, before anything of it is loaded.
pub async fn checked(folder: &Path) -> anyhow::Result<Arc<Bag>> {
    let folder = folder.to_owned();
    let shown = folder.display().to_string();
    let checked = spawn_blocking(move || {
        let bag = Bag::checked(&folder)?;
        Bagged::each(&bag, &mut |_| Ok(()))?;
        Ok::<_, ReadError>(Arc::new(bag))
    });
    let hint = "nothing was loaded; --into RESOURCE loads bags of other programs";
    checked.await?.with_context(|| format!("{shown}: {hint}"))
}

/// Loads the resources of a bag.
pub async fn load(bag: Arc<Bag>, loader: &Loader) -> anyhow::Result<Counts> {
    let (sender, mut resources) = mpsc::channel(READ_AHEAD);
    let reading = bag.clone();
    let reader = spawn_blocking(move || {
        let read = |resource: Bagged| {
            let statements = reading.read(&resource.description(), DESCRIPTION_BYTES_MAX)?;
            let bytes = resource.bytes(&reading).map(|(place, sha256)| Bytes {
                source: place.into(),
                algorithm: Algorithm::Sha256,
                digest: sha256.to_vec(),
            });
            let state = State { about: resource.about, statements: statements.into(), bytes };
            // The loader leaves before the end only with an error of its own.
            sender.blocking_send(state).map_err(|_| ReadError::Stopped)
        };
        Bagged::each(&reading, &mut { read })
    });
    let loaded = loader.load_all(&mut resources, &mut |_, _| {}).await;
    drop(resources);
    let read = reader.await?;
    let counts = loaded?;
    read.map_err(|error| anyhow!(error))?;
    Ok(counts)
}
