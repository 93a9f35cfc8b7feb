//! The first volumes of a search, and what an answer with them holds until it is sent.

use budget::{Party, Share};
use heads::error::ObjectsResult;
use heads::list::ListToken;
use store::boxed;

use super::{Described, Finding};
use crate::bulk::fairness::Admission;
use crate::handle::Volumes;

/// What a search or its answer holds: its place among the bulk requests, and its memory. Dropping
/// it returns both.
#[derive(Debug)]
pub struct Held {
    pub(super) _admission: Admission,
    pub(super) share: Share,
}

impl Held {
    /// Bytes of its memory.
    pub fn bytes(&self) -> u64 {
        self.share.bytes()
    }

    /// Changes its memory to `bytes`. Fails if that many more are not available now.
    pub fn resize(&mut self, bytes: u64) -> ObjectsResult<()> {
        Ok(self.share.resize(bytes)?)
    }
}

/// Volumes that are found.
#[derive(Debug)]
pub struct Found {
    /// The volumes, in order.
    pub volumes: Vec<Described>,
    /// Where the search continues; `None` at its end.
    pub next: Option<ListToken>,
    /// What the volumes hold. It is kept until the answer that is made of them is sent.
    pub held: Held,
}

impl Volumes {
    /// The first `limit` volumes of a search, and where it continues.
    #[boxed]
    pub async fn find_first(&self, finding: Finding, limit: usize, party: Party) -> ObjectsResult<Found> {
        let mut searching = self.searching(finding, party).await?;
        let of_search = searching.held.bytes();
        let (mut volumes, mut next, mut bytes) = (Vec::new(), None, 0);
        while let Some(mut page) = searching.page(limit - volumes.len()).await? {
            bytes += page.volumes.iter().map(Described::memory_bytes).sum::<u64>();
            searching.held.resize(of_search + bytes)?;
            volumes.append(&mut page.volumes);
            if volumes.len() >= limit {
                next = volumes.last().and_then(|last: &Described| page.after(&last.id));
                break;
            }
        }
        Ok(Found { volumes, next, held: searching.held })
    }
}
