//! Loads the volumes of a bag: imports them from its pairtree. A volume that is there already stays.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, future};
use http::StatusCode;
use preservation::bagged;

use crate::client::{self, Client, ClientError, segment};
use crate::ingest::{FailedList, FailedVolume, ImportTarget, Ingest, Meter, Mode, Source, Summary, Wanted};
use crate::interrupt;

/// Imports the volumes of a bag, if it has any. What failed is printed.
pub async fn load(bag: &Path, client: &Client) -> anyhow::Result<Summary> {
    let pairtree = bag.join("data").join(bagged::VOLUMES);
    if !pairtree.exists() {
        return Ok(Summary::default());
    }
    let unchanged = AtomicU64::new(0);
    let sources = Wanted::Paths(vec![pairtree]).sources().then(|source| async {
        let is_new = match &source {
            Ok(source) => is_new(client, source).await,
            Err(_) => Ok(true),
        };
        match is_new {
            Ok(true) => Some(source),
            Ok(false) => {
                unchanged.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(failed) => Some(Err(failed)),
        }
    });
    let target = ImportTarget::Server(client.clone());
    let (meter, stop) = (Meter::shown(0), interrupt::stop_token()?);
    let ingest = Ingest { target: &target, mode: Mode::Import, jobs: target.jobs_per_processor(), meter, stop };
    let imported = ingest.run(sources.filter_map(future::ready), &mut FailedList::shown()).await;
    ingest.meter.clear();
    let imported = imported?;
    Ok(Summary { unchanged: imported.unchanged + unchanged.into_inner(), ..imported })
}

/// Whether the repository has no such volume; an error if it has another one. Its METS says what
/// its pages are.
async fn is_new(client: &Client, source: &Source) -> Result<bool, FailedVolume> {
    let (id, _) = source.identify().await.map_err(|error| FailedVolume::from(error).of(source.path(), source.id()))?;
    let Source::Files(files) = source else { return Ok(true) };
    let stored = async |name: &str| match client.get(&format!("/volumes/{}/{name}", segment(&id)), "*/*").await {
        Ok(response) => client::whole(response).await.map(Some),
        Err(error) if matches!(error.status(), Some(StatusCode::NOT_FOUND | StatusCode::GONE)) => Ok(None),
        Err(error) => Err(error),
    };
    let failed = |error: ClientError| FailedVolume::from(error).of(source.path(), Some(&id));
    let Some(mets) = stored("mets").await.map_err(failed)? else { return Ok(true) };
    let record = stored("record").await.map_err(failed)?;
    // Both were checked with the bag, and are bounded by what a METS may have.
    let read = |place: &Path| std::fs::read(place).ok();
    let is_same = read(&files.mets).is_some_and(|bytes| bytes == mets)
        && files.record.as_deref().and_then(read) == record.map(|bytes| bytes.to_vec());
    match is_same {
        true => Ok(false),
        false => Err(FailedVolume {
            path: None,
            id: Some(id.clone()),
            kind: "conflict",
            reason: "there is another volume".to_owned(),
            stops_all: false,
        }),
    }
}
