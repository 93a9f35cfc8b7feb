//! Places for connections, of which no client takes all.

use std::sync::Arc;

use budget::{Party, Shares};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::peer::Peer;

/// Places for connections. An address holds at most as many of them as are still free ([`Shares`]).
/// Many clients may connect through a proxy or from this machine, so those are limited by the total
/// only.
pub(super) struct Places {
    free: Arc<Semaphore>,
    shares: Arc<Mutex<Shares>>,
}

/// A place. Dropping it gives it back.
pub(super) struct Place {
    shares: Arc<Mutex<Shares>>,
    party: Party,
    /// Dropped after the share is given back. So the next holder of the permit finds a free share.
    _permit: OwnedSemaphorePermit,
}

/// Whose share the place of a connection belongs to.
fn holder(peer: &Peer) -> Party {
    let is_of_many = peer.is_proxy || peer.address.to_canonical().is_loopback();
    if is_of_many { Party::Local } else { Party::of_address(peer.address) }
}

fn refused(peer: &Peer) {
    tracing::debug!(address = %peer.address, "refused: this address has as many connections as places are free");
}

impl Places {
    /// So many places.
    pub(super) fn new(count: usize) -> Self {
        let shares = Shares::new(u64::try_from(count).unwrap_or(u64::MAX));
        Self { free: Arc::new(Semaphore::new(count)), shares: Arc::new(Mutex::new(shares)) }
    }

    /// A place for a connection, as soon as one is free; `None`: its address has too many.
    pub(super) async fn take(&self, peer: &Peer) -> Option<Place> {
        let permit = self.free.clone().acquire_owned().await.ok()?;
        let party = holder(peer);
        if !self.shares.lock().take(&party, 1) {
            refused(peer);
            return None;
        }
        Some(Place { shares: self.shares.clone(), party, _permit: permit })
    }
}

impl Place {
    /// The same place for the client for whom a proxy connects; `None`: its address has too many.
    pub(super) fn for_client(mut self, client: &Peer) -> Option<Self> {
        let party = holder(client);
        if party == self.party {
            return Some(self);
        }
        let is_taken = {
            let mut shares = self.shares.lock();
            shares.give_back(&self.party, 1);
            let is_taken = shares.take(&party, 1);
            if !is_taken {
                // What was just given back can be had: only the total is a limit for this one.
                shares.take(&Party::Local, 1);
            }
            self.party = if is_taken { party } else { Party::Local };
            is_taken
        };
        if !is_taken {
            refused(client);
        }
        is_taken.then_some(self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shares.lock().give_back(&self.party, 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    fn peer(address: &str) -> Peer {
        Peer { address: address.parse().unwrap(), port: 0, local: None, on_loopback: false, is_proxy: false }
    }

    /// Takes one place after another until there is no more.
    fn take_all(places: &Places, peer: Peer) -> Vec<Place> {
        std::iter::from_fn(|| places.take(&peer).now_or_never().flatten()).collect()
    }

    #[tokio::test]
    async fn an_address_leaves_places_for_others_and_this_machine_may_have_the_rest() {
        let places = Places::new(8);
        let mut first = take_all(&places, peer("192.0.2.1"));
        let second = take_all(&places, peer("::ffff:192.0.2.2"));
        let local = take_all(&places, peer("::ffff:127.0.0.1"));
        assert_eq!([first.len(), second.len(), local.len()], [4, 2, 2]);
        let third = peer("192.0.2.3");
        let mut waits = pin!(places.take(&third));
        assert!(waits.as_mut().now_or_never().is_none(), "there is none for anybody");
        first.pop();
        assert!(waits.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn a_proxy_has_places_of_its_clients_each_of_which_leaves_some_for_others() {
        let places = Places::new(4);
        let proxy = Peer { is_proxy: true, ..peer("192.0.2.9") };
        let for_client = |address| {
            let place = places.take(&proxy).now_or_never().flatten().unwrap();
            place.for_client(&peer(address))
        };
        let held: Vec<_> = (0..3).map(|_| for_client("192.0.2.1")).collect();
        assert_eq!(held.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        let other = for_client("192.0.2.2");
        assert!(other.is_some());
        assert_eq!(take_all(&places, proxy).len(), 1, "what was refused is free again");
        drop((held, other));
        assert_eq!(take_all(&places, proxy).len(), 4);
    }
}
