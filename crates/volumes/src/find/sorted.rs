//! The first volumes of a search by some order. The search ends before they are known.

use std::cmp::{Ordering, Reverse};

use budget::Party;
use futures::TryStreamExt;
use heads::error::ObjectsResult;

use super::{Described, Field, Finding};
use crate::handle::Volumes;

/// An order of volumes. Volumes without a value are last; equal ones are in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The field.
    pub by: Field,
    /// Whether the greatest comes first.
    pub descending: bool,
}

impl Order {
    fn compare(self, a: &Described, b: &Described) -> Ordering {
        let by_value = match self.by.is_number() {
            true => self.directed(a.number(self.by), b.number(self.by)),
            false => {
                let text = |volume: &Described| volume.text(self.by).map(str::to_lowercase);
                self.directed(text(a), text(b))
            }
        };
        by_value.then_with(|| a.id.as_str().cmp(b.id.as_str()))
    }

    fn directed<T: Ord>(self, a: Option<T>, b: Option<T>) -> Ordering {
        let missing = a.is_none().cmp(&b.is_none());
        missing.then_with(|| if self.descending { Reverse(a).cmp(&Reverse(b)) } else { a.cmp(&b) })
    }
}

/// The first volumes of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted {
    /// The volumes, in order.
    pub volumes: Vec<Described>,
    /// How many there are in all.
    pub total: u64,
}

impl Volumes {
    /// The first `limit` volumes by an order, of those that satisfy conditions. It holds at most
    /// twice as many, within the memory of the party.
    pub async fn find_sorted(
        &self,
        finding: Finding,
        order: Order,
        limit: usize,
        party: Party,
    ) -> ObjectsResult<Sorted> {
        let mut share = self.inner.memory.reserve(&party, 0).await?;
        let mut pages = std::pin::pin!(self.find(finding, party).await?);
        let (mut volumes, mut total, mut bytes): (Vec<Described>, u64, u64) = (Vec::new(), 0, 0);
        while let Some(page) = pages.try_next().await? {
            total += page.volumes.len() as u64;
            bytes += memory_bytes(&page.volumes);
            volumes.extend(page.volumes);
            if volumes.len() > 2 * limit {
                keep_first(&mut volumes, order, limit);
                bytes = memory_bytes(&volumes);
            }
            share.resize(bytes)?;
        }
        keep_first(&mut volumes, order, limit);
        Ok(Sorted { volumes, total })
    }
}

fn memory_bytes(volumes: &[Described]) -> u64 {
    volumes.iter().map(Described::memory_bytes).sum()
}

fn keep_first(volumes: &mut Vec<Described>, order: Order, limit: usize) {
    volumes.sort_unstable_by(|a, b| order.compare(a, b));
    volumes.truncate(limit);
}
