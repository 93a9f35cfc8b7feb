//! Operations on volumes.

use std::collections::BTreeSet;
use std::io::{Cursor, Write};
use std::sync::Arc;
use std::time::Duration;

use ::volumes::{BulkRequest, Imported, OnDamage, SelectionTerms, Unchanged};
use audit::Requester;
use futures::StreamExt;
use hathi::{VolumeId, VolumeParts};
use heads::{ListToken, ObjectsError, keys};
use library::Library;
use md5::{Digest, Md5};
use parking_lot::Mutex;
use store::Table;

use super::{Came, Seen, damage, refused_object};
use crate::model::{Promise, Reply};
use crate::store::world::World;

pub(super) async fn list_volumes(library: &Library, page: usize) -> Came {
    let mut names = BTreeSet::new();
    let mut after: Option<ListToken> = None;
    loop {
        let found = match library.volumes.list(after.as_ref(), page).await {
            Ok(found) => found,
            Err(error) => return damage(&error).unwrap_or_else(|| Came::replied(refused_object(&error))),
        };
        names.extend(found.volumes.iter().map(ToString::to_string));
        after = found.next;
        if after.is_none() {
            return Came::seen(Seen::Volumes(names));
        }
    }
}

/// A volume of two pages that contain the token.
fn volume(id: &VolumeId, token: &str) -> Result<VolumeParts<Cursor<Vec<u8>>>, zip::result::ZipError> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let (mut files, mut divs) = (String::new(), String::new());
    for seq in 1..=2 {
        let (name, text) = (format!("{seq:08}.txt"), format!("{token} page {seq}"));
        zip.start_file(format!("{}/{name}", id.cleaned_local()), options)?;
        zip.write_all(text.as_bytes())?;
        let md5 = hex::encode(Md5::digest(&text));
        files += &format!(
            r#"<METS:file ID="T{seq}" SIZE="{}" CHECKSUM="{md5}" CHECKSUMTYPE="MD5"><METS:FLocat xlink:href="{name}"/></METS:file>"#,
            text.len()
        );
        divs += &format!(r#"<METS:div TYPE="page" ORDER="{seq}"><METS:fptr FILEID="T{seq}"/></METS:div>"#);
    }
    let mets = format!(
        r#"<METS:mets xmlns:METS="http://www.loc.gov/METS/" xmlns:xlink="http://www.w3.org/1999/xlink" OBJID="{id}"><METS:fileSec><METS:fileGrp USE="ocr">{files}</METS:fileGrp></METS:fileSec><METS:structMap TYPE="physical"><METS:div>{divs}</METS:div></METS:structMap></METS:mets>"#
    );
    Ok(VolumeParts { id: Some(id.clone()), zip: zip.finish()?, mets: mets.into_bytes(), record: None })
}

pub(super) async fn import(library: &Library, id: &VolumeId, token: &str) -> Came {
    let parts = match volume(id, token) {
        Ok(parts) => parts,
        Err(error) => return Came::seen(Seen::Wrong(error.to_string())),
    };
    match library.volumes.import(parts, Unchanged::Skip, |_| {}).await {
        Ok(Imported::New { id, revision, .. } | Imported::Replaced { id, revision, .. }) => {
            Came::replied(Reply::Done(Some((keys::volume_partition(&id), revision))))
        }
        Ok(Imported::Unchanged { .. }) => Came::replied(Reply::Done(None)),
        Err(error) => damage(&error).unwrap_or_else(|| Came::replied(refused_object(&error))),
    }
}

pub(super) fn somebody() -> Requester {
    Requester { name: Some("somebody".to_owned()), address: None, request_id: "r".to_owned() }
}

/// Reads all of a plan after a pause. Within the plan's life nothing may be missing.
async fn stream(library: &Library, plan: &Arc<volumes::BulkPlan>, pause: Duration) -> Came {
    let life = library.options().plan_life;
    tokio::time::sleep(pause).await;
    let mut stream = match library.volumes.stream(plan, pack::WHOLE, somebody()).await {
        Ok(stream) => stream,
        Err(error) => return damage(&error).unwrap_or_else(|| Came::replied(Reply::Unknown(error.to_string()))),
    };
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(_) => {}
            Err(ObjectsError::Expired(why)) if library.clock().now().since(plan.started) < life => {
                return Came::seen(Seen::Wrong(format!("a plan ended too soon: {why}")));
            }
            Err(error) => return damage(&error).unwrap_or_else(|| Came::replied(Reply::Unknown(error.to_string()))),
        }
    }
    Came::replied(Reply::Done(None))
}

pub(super) async fn read_volumes(library: &Library, volumes: Vec<VolumeId>, pause: Duration) -> Came {
    match library.volumes.plan(&BulkRequest::volumes(volumes), OnDamage::Break).await {
        Ok(plan) => stream(library, &plan, pause).await,
        Err(error) => damage(&error).unwrap_or_else(|| Came::replied(Reply::Unknown(error.to_string()))),
    }
}

pub(super) async fn select(library: &Library, volumes: Vec<VolumeId>, world: &Mutex<World>) -> Came {
    let selected = library.volumes.select(&BulkRequest::volumes(volumes), &somebody(), SelectionTerms::default()).await;
    match selected {
        Ok(selection) => {
            // It may have ended before the call returned.
            let ends = selection.info.ends.plus(library.options().plan_life);
            let lasts = u64::try_from(ends.since(library.clock().now()).as_millis()).unwrap_or(0);
            let named = (0..).zip(selection.plan.volumes.iter());
            let volumes = named.filter_map(|(group, planned)| {
                Some((keys::volume_partition(&selection.plan.volume_id(group).ok()?), planned.generation))
            });
            let volumes: Vec<_> = volumes.collect();
            let mut world = world.lock();
            let until_ms = (world.true_ms() + lasts).saturating_sub(10);
            world.touched.extend(volumes.iter().map(|(volume, _)| (Table::Objects, volume.clone())));
            world.model.promises.push(Promise { selection: selection.info.id, until_ms, volumes });
            Came::replied(Reply::Done(None))
        }
        Err(error) => damage(&error).unwrap_or_else(|| Came::replied(Reply::Unknown(error.to_string()))),
    }
}

pub(super) async fn read_selection(library: &Library, nth: usize, pause: Duration, world: &Mutex<World>) -> Came {
    let id = {
        let world = world.lock();
        let promises = &world.model.promises;
        match promises.len() {
            0 => return Came::replied(Reply::Done(None)),
            len => promises[nth % len].selection.clone(),
        }
    };
    match library.volumes.selection(&id, &budget::Party::Local).await {
        Ok(plan) => stream(library, &plan, pause).await,
        Err(error) => damage(&error).unwrap_or_else(|| Came::replied(Reply::Unknown(error.to_string()))),
    }
}
