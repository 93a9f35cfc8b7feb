//! Loads the volumes of a bag: imports them from its pairtree. A volume that is there already stays.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures::{StreamExt, future};
use hathi::{Page, PagesOf, VolumeError, VolumeFiles, VolumeReader};
use http::StatusCode;
use preservation::bagged;
use tokio::task::spawn_blocking;

use crate::client::{self, Client, ClientError, segment};
use crate::commands::export::{ListedPage, sha256};
use crate::ingest::{FailedList, FailedVolume, ImportTarget, Ingest, Meter, Mode, Source, Summary, Wanted};
use crate::interrupt;

/// Imports the volumes of a bag, if it has any. What failed is printed.
pub async fn load(bag: &Path, client: &Client) -> anyhow::Result<Summary> {
    let pairtree = bag.join("data").join(bagged::VOLUMES);
    if !pairtree.exists() {
        return Ok(Summary::default());
    }
    let (unchanged, replaced) = (AtomicU64::new(0), AtomicUsize::new(0));
    let sources = Wanted::Paths(vec![pairtree]).sources().then(|source| async {
        let source = source.map(as_marked);
        let is_new = match &source {
            Ok(source) => is_new(client, source).await,
            Err(_) => Ok(true),
        };
        match is_new {
            Ok(true) => {
                if matches!(&source, Ok(Source::Replaced(_))) {
                    replaced.fetch_add(1, Ordering::Relaxed);
                }
                Some(source)
            }
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
    note_replaced(replaced.into_inner());
    Ok(Summary { unchanged: imported.unchanged + unchanged.into_inner(), ..imported })
}

/// Says how many volumes have replaced pages, if any have.
pub fn note_replaced(count: usize) {
    if count > 0 {
        note!("{count} volumes have pages that differ from their METS in size or MD5, as in the archive");
    }
}

/// The volume with replaced pages, if the bag says that it has some.
fn as_marked(source: Source) -> Source {
    let has_mark = |files: &VolumeFiles| {
        let mut mark = files.zip.with_extension("").into_os_string();
        mark.push(bagged::REPLACED);
        Path::new(&mark).exists()
    };
    match source {
        Source::Files(files) if has_mark(&files) => Source::Replaced(files),
        source => source,
    }
}

/// Whether the repository has no such volume; an error if it has another one.
async fn is_new(client: &Client, source: &Source) -> Result<bool, FailedVolume> {
    let (id, _) = source.identify().await.map_err(|error| FailedVolume::from(error).of(source.path(), source.id()))?;
    let (Source::Files(files) | Source::Replaced(files)) = source else { return Ok(true) };
    let address = format!("/volumes/{}", segment(&id));
    let stored = async |name: &str| match client.get(&format!("{address}/{name}"), "*/*").await {
        Ok(response) => client::whole(response).await.map(Some),
        Err(error) if matches!(error.status(), Some(StatusCode::NOT_FOUND | StatusCode::GONE)) => Ok(None),
        Err(error) => Err(error),
    };
    let failed = |error: ClientError| FailedVolume::from(error).of(source.path(), Some(&id));
    let Some(mets) = stored("mets").await.map_err(failed)? else { return Ok(true) };
    let record = stored("record").await.map_err(failed)?;
    // Both were checked with the bag, and are bounded by what a METS may have.
    let read = |place: &Path| std::fs::read(place).ok();
    let mut is_same = read(&files.mets).is_some_and(|bytes| bytes == mets)
        && files.record.as_deref().and_then(read) == record.map(|bytes| bytes.to_vec());
    if is_same {
        let pages: Vec<ListedPage> = client.get_json(&format!("{address}/pages/")).await.map_err(failed)?;
        let compared = has_pages(files.clone(), source.pages(), pages).await;
        is_same = compared.map_err(|error| FailedVolume::from(error).of(source.path(), Some(&id)))?;
    }
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

/// Whether a volume has the pages that are stored. Any of them may have been replaced there.
async fn has_pages(files: VolumeFiles, pages: PagesOf, stored: Vec<ListedPage>) -> Result<bool, VolumeError> {
    let compared = spawn_blocking(move || -> Result<bool, VolumeError> {
        let mut volume = VolumeReader::of(files.open()?, pages)?;
        if volume.page_count() != stored.len() {
            return Ok(false);
        }
        for (index, listed) in stored.iter().enumerate() {
            let Page { seq, text, .. } = volume.read_page(index)?;
            if seq != listed.seq || sha256(&text) != listed.sha256 {
                return Ok(false);
            }
        }
        Ok(true)
    });
    compared.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
