//! The first volumes of a search by some order. The search ends before they are known.

use std::cmp::Reverse;

use budget::Party;
use heads::error::ObjectsResult;

use super::first::{Found, memory_bytes};
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
    /// Sorts volumes. The value of each is made once.
    fn sort(self, volumes: &mut [Described]) {
        // The second sort keeps this order of equal values.
        volumes.sort_unstable_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
        let keyed = |volume: &Described| {
            let value = self.value(volume);
            (value.is_none(), value)
        };
        match self.descending {
            false => volumes.sort_by_cached_key(keyed),
            true => volumes.sort_by_cached_key(|volume| {
                let (is_none, value) = keyed(volume);
                (is_none, Reverse(value))
            }),
        }
    }

    fn value(self, volume: &Described) -> Option<Value> {
        match self.by.is_number() {
            true => volume.number(self.by).map(Value::Number),
            false => volume.text(self.by).map(|text| Value::Text(text.to_lowercase())),
        }
    }
}

/// What volumes are sorted by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(i64),
    Text(String),
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
    ) -> ObjectsResult<Found> {
        let mut searching = self.searching(finding, party).await?;
        let of_search = searching.held.bytes();
        let (mut volumes, mut total, mut bytes): (Vec<Described>, u64, u64) = (Vec::new(), 0, 0);
        while let Some(page) = searching.page(usize::MAX).await? {
            total += page.volumes.len() as u64;
            bytes += memory_bytes(&page.volumes);
            volumes.extend(page.volumes);
            if volumes.len() > 2 * limit {
                keep_first(&mut volumes, order, limit);
                bytes = memory_bytes(&volumes);
            }
            searching.held.resize(of_search + bytes)?;
        }
        keep_first(&mut volumes, order, limit);
        Ok(Found { volumes, next: None, total: Some(total), held: searching.held })
    }
}

fn keep_first(volumes: &mut Vec<Described>, order: Order, limit: usize) {
    order.sort(volumes);
    volumes.truncate(limit);
}
