//! Shares of scarce resources: no party is left without because another has taken all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

/// There is no more for now; the same request may succeed later.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("overloaded: {0}")]
pub struct Overloaded(pub String);

/// A party that shares: the clients with the same token or, without a token, the clients with the
/// same address. An IPv6 address counts as its /64, because one machine may have all of that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Party {
    /// This machine's administrator, for whom only the total is a limit.
    #[default]
    Local,
    /// The name of a token.
    Token(Arc<str>),
    /// An address; for IPv6, the bits after the first 64 are cleared.
    Network(IpAddr),
}

impl Party {
    /// The party of the clients with a token of this name.
    pub fn of_token(name: &str) -> Self {
        Self::Token(name.into())
    }

    /// The party of a client of which only the address is known.
    pub fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self::Network(IpAddr::V6((u128::from(address) >> 64 << 64).into())),
            address => Self::Network(address),
        }
    }
}

/// An amount of something, and how much of it each party has.
///
/// A party may hold as much as is still free ("dynamic thresholds": Choudhury and Hahne, IEEE/ACM
/// Transactions on Networking 6(2), 1998). Alone, a party gets a half; beside another that takes
/// all it can, a third. Some of it is always left for the next party.
#[derive(Debug)]
pub struct Shares {
    total: u64,
    taken: u64,
    by_party: HashMap<Party, u64>,
}

impl Shares {
    /// A whole amount, of which no party has any yet.
    pub fn new(total: u64) -> Self {
        Self { total, taken: 0, by_party: HashMap::new() }
    }

    /// The amount that all parties have.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The whole amount.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Takes more for a party; returns false if the party may not have that now.
    pub fn take(&mut self, party: &Party, amount: u64) -> bool {
        let free = self.total - self.taken;
        let has = self.by_party.get(party).copied().unwrap_or_default();
        let limited = if *party == Party::Local { amount } else { has.saturating_add(amount) };
        if limited > free {
            return false;
        }
        self.taken += amount;
        *self.by_party.entry(party.clone()).or_default() += amount;
        true
    }

    /// Returns some of what a party has taken.
    pub fn give_back(&mut self, party: &Party, amount: u64) {
        self.taken -= amount;
        if let Some(has) = self.by_party.get_mut(party) {
            *has -= amount;
            if *has == 0 {
                self.by_party.remove(party);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn address(text: &str) -> Party {
        Party::of_address(text.parse().unwrap())
    }

    /// Takes one unit after another until there is no more.
    fn take_all(shares: &mut Shares, party: &Party) -> u64 {
        (0..).take_while(|_| shares.take(party, 1)).count() as u64
    }

    #[test]
    fn each_network_is_a_party_and_so_is_each_token() {
        assert_eq!(address("2001:db8::1"), address("2001:db8:0:0:ffff::2"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_ne!(address("192.0.2.1"), address("192.0.2.2"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }

    #[test]
    fn whoever_comes_later_finds_something_left_however_much_the_others_want() {
        let mut shares = Shares::new(256);
        let parties: Vec<Party> = (1..=5).map(|number| address(&format!("192.0.2.{number}"))).collect();
        let taken: Vec<u64> = parties.iter().map(|party| take_all(&mut shares, party)).collect();
        assert_eq!(taken, [128, 64, 32, 16, 8]);
        shares.give_back(&parties[0], 128);
        assert_eq!(shares.taken(), 120);
        assert!(shares.take(&parties[4], 1), "who has little gets more before who has much");
        assert_eq!(take_all(&mut shares, &Party::Local), 256 - 121, "the administrator may have the rest");
    }

    #[test]
    fn one_may_have_all_of_it_at_once_where_nobody_has_anything() {
        let mut shares = Shares::new(10);
        let party = address("192.0.2.1");
        assert!(!shares.take(&party, 11) && shares.take(&party, 10));
        shares.give_back(&party, 10);
        assert!(shares.by_party.is_empty(), "nobody is remembered who has nothing");
    }
}
