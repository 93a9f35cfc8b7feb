//! The volumes of a search by some order, in parts. The whole search is made for each part: all of
//! it is looked at, and no more than the part is kept.

use std::collections::BTreeMap;
use store::boxed;

use budget::Party;
use heads::error::ObjectsResult;

use super::first::Held;
use super::order::{Order, Place};
use super::{Described, Finding};
use crate::handle::Volumes;

/// A part of a sorted list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its first volumes.
    First,
    /// The first ones behind a place.
    After(Place),
    /// The last ones up to a place, with the volume that is there.
    Before(Place),
}

/// The volumes of a part of a sorted list.
#[derive(Debug)]
pub struct Sorted {
    /// The volumes, in order.
    pub volumes: Vec<Described>,
    /// Where the part begins: behind this place. `None`: there are no volumes before it.
    pub begins: Option<Place>,
    /// Where the next part begins: behind this place. `None`: there are no volumes behind this one.
    pub next: Option<Place>,
    /// How many volumes the whole list has.
    pub total: u64,
    /// What the volumes hold. It is kept until the answer that is made of them is sent.
    pub held: Held,
}

impl Volumes {
    /// At most `limit` volumes of a part of those that satisfy conditions, by an order. The places
    /// of the part are of this order. It holds as many, within the memory of the party. All parts
    /// together have each volume once, if none changes meanwhile.
    #[boxed]
    pub async fn find_sorted(
        &self,
        finding: Finding,
        order: Order,
        part: Part,
        limit: usize,
        party: Party,
    ) -> ObjectsResult<Sorted> {
        let mut searching = self.searching(finding, party).await?;
        let of_search = searching.held.bytes();
        let mut kept = Kept::of(order, part, limit);
        while let Some(page) = searching.page(usize::MAX).await? {
            page.volumes.into_iter().for_each(|volume| kept.add(volume));
            searching.held.resize(of_search + kept.bytes)?;
        }
        Ok(kept.sorted(searching.held))
    }
}

/// The volumes of a part among those that were looked at.
struct Kept {
    order: Order,
    part: Part,
    limit: usize,
    volumes: BTreeMap<Place, Described>,
    /// Approximate bytes of their memory.
    bytes: u64,
    /// The last place before them.
    before: Option<Place>,
    /// Whether there are volumes behind them.
    goes_on: bool,
    /// How many volumes were looked at.
    total: u64,
}

impl Kept {
    fn of(order: Order, part: Part, limit: usize) -> Self {
        Self { order, part, limit, volumes: BTreeMap::new(), bytes: 0, before: None, goes_on: false, total: 0 }
    }

    fn add(&mut self, volume: Described) {
        self.total += 1;
        let place = self.order.place_of(&volume);
        match &self.part {
            Part::After(after) if place <= *after => self.leave_out_before(place),
            Part::Before(before) if place > *before => self.goes_on = true,
            _ => self.keep(place, volume),
        }
    }

    fn keep(&mut self, place: Place, volume: Described) {
        self.bytes += memory_bytes(&place, &volume);
        self.volumes.insert(place, volume);
        if self.volumes.len() > self.limit {
            self.leave_one_out();
        }
    }

    /// Leaves out the volume that is the farthest from where the part is asked for.
    fn leave_one_out(&mut self) {
        let is_backward = matches!(self.part, Part::Before(_));
        let farthest = if is_backward { self.volumes.pop_first() } else { self.volumes.pop_last() };
        let Some((place, volume)) = farthest else { return };
        self.bytes -= memory_bytes(&place, &volume);
        match is_backward {
            true => self.leave_out_before(place),
            false => self.goes_on = true,
        }
    }

    fn leave_out_before(&mut self, place: Place) {
        self.before = self.before.take().max(Some(place));
    }

    /// The part, once all volumes were looked at.
    fn sorted(self, held: Held) -> Sorted {
        let Self { part, volumes, before: begins, goes_on, total, .. } = self;
        // If all volumes up to a place are gone, the next part still begins there.
        let of_part = || if let Part::Before(before) = part { Some(before) } else { None };
        let next = volumes.last_key_value().map(|(place, _)| place.clone()).or_else(of_part).filter(|_| goes_on);
        Sorted { volumes: volumes.into_values().collect(), begins, next, total, held }
    }
}

/// Approximate bytes of memory of a volume at its place.
fn memory_bytes(place: &Place, volume: &Described) -> u64 {
    place.memory_bytes() + volume.memory_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Field;
    use super::*;

    #[test]
    fn no_more_than_the_part_is_kept_however_many_volumes_there_are() {
        let order = Order { by: Field::Year, descending: false };
        let volume = |number: i64| {
            let id = format!("t.{number:03}").parse().unwrap();
            Described { year: Some(1_800 + number % 100), ..Described::named(id) }
        };
        let middle = order.place_of(&volume(50));
        for (part, begins, first, last) in [
            (Part::First, None, 0, 600),
            (Part::After(middle.clone()), Some(50), 150, 750),
            (Part::Before(middle), Some(349), 449, 50),
        ] {
            let mut kept = Kept::of(order, part, 7);
            // Neither in order nor in its reverse.
            for number in (0..1_000).map(|number| number * 7 % 1_000) {
                kept.add(volume(number));
                let bytes: u64 = kept.volumes.iter().map(|(place, volume)| memory_bytes(place, volume)).sum();
                assert!(kept.volumes.len() <= 7 && kept.bytes == bytes);
            }
            let place = |number: i64| order.place_of(&volume(number));
            assert_eq!(kept.total, 1_000);
            assert_eq!(kept.before, begins.map(place));
            assert_eq!(kept.volumes.keys().next(), Some(&place(first)));
            assert_eq!(kept.volumes.keys().next_back(), Some(&place(last)));
            assert!(kept.goes_on);
        }
    }
}
