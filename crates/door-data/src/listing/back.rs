//! Where the page before a place begins.
//!
//! A search leads forward only. So the listing of volumes is read backward, some at a time, and each
//! of these stretches is searched. Nothing is kept of it but its ids.

use std::collections::HashSet;
use std::pin::pin;

use budget::Party;
use futures::stream::TryStreamExt;
use hathi::VolumeId;
use heads::{ListToken, ObjectsResult};
use library::Library;
use volumes::Listing;
use volumes::find::Finding;

use super::asked::Asked;

/// Volumes of a stretch: about as many as a search reads at a time.
const AT_ONCE: usize = 256;

/// Where the page of at most `limit` volumes begins that ends at a place; `None`: at the first
/// volume. The page is then read forward, like any other. So if volumes come or go meanwhile, it
/// ends a little earlier or later. If the listing has got more shards since the place was named, it
/// may begin earlier.
pub async fn beginning(
    library: &Library,
    asked: &Asked,
    before: ListToken,
    limit: usize,
    party: &Party,
) -> ObjectsResult<Option<ListToken>> {
    if asked.is_of_all() {
        let (mut room, mut begins) = (limit, Some(before));
        // It comes in parts if ids are very long.
        while let Some(place) = begins.take_if(|_| room > 0) {
            let part = library.volumes.list_before(Some(&place), room).await?;
            room -= part.volumes.len();
            begins = part.begins;
        }
        return Ok(begins);
    }
    let (mut room, mut ends) = (limit, Some(before));
    while let Some(place) = ends {
        let stretch = library.volumes.list_before(Some(&place), AT_ONCE).await?;
        let found = found_in(&stretch, library, asked, party).await?;
        // The page begins after the first volume that does not fit.
        if let Some(left_out) = found.iter().rev().nth(room) {
            return Ok(stretch.after(left_out));
        }
        room -= found.len();
        ends = stretch.begins;
    }
    Ok(None)
}

/// The volumes in a stretch of the listing that the search finds, in order.
async fn found_in(stretch: &Listing, library: &Library, asked: &Asked, party: &Party) -> ObjectsResult<Vec<VolumeId>> {
    // Conditions on authors are satisfied without it, too.
    let finding = Finding { after: stretch.begins.clone(), with_author: false, ..asked.finding() };
    let mut pages = pin!(library.volumes.find(finding, party.clone()).await?);
    let ids: HashSet<&VolumeId> = stretch.volumes.iter().collect();
    let mut found = Vec::new();
    while let Some(page) = pages.try_next().await? {
        // The search does not end with the stretch.
        let goes_on = page.next().is_some_and(|next| is_within(stretch, next));
        found.extend(page.volumes.into_iter().map(|volume| volume.id).filter(|id| ids.contains(id)));
        if !goes_on {
            break;
        }
    }
    Ok(found)
}

/// Whether a place has volumes of a stretch on both sides.
fn is_within(stretch: &Listing, place: &ListToken) -> bool {
    stretch.volumes.iter().rev().skip(1).any(|id| stretch.after(id).as_ref() == Some(place))
}
