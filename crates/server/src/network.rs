//! Ranges of addresses, as settings name them.

use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// Its first address, as one of IPv6.
    first: u128,
    /// Bits that all of its addresses share.
    bits: u32,
}

/// Why a text is no network.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no network: write it like 10.0.0.0/8, fd00::/8 or 192.0.2.7, with no bits behind its prefix")]
pub(crate) struct InvalidNetwork(String);

impl Network {
    /// Whether an address is one of it. Those of IPv4 may be written as IPv6.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        number(address) & mask(self.bits) == self.first
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), |bits| bits.parse().map_err(|_| invalid()))?;
        if bits > all {
            return Err(invalid());
        }
        let (first, bits) = (number(address), 128 - all + bits);
        if first & !mask(bits) != 0 {
            return Err(invalid());
        }
        Ok(Self { first, bits })
    }
}

/// An address as one of IPv6: those of IPv4 are mapped.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_network_contains_what_shares_its_prefix_also_written_as_ipv6() {
        let contains =
            |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1") && contains("10.0.0.0/8", "::ffff:10.1.1.1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1") && !contains("10.0.0.0/8", "::a00:1"));
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("fd00::/8", "fdff::1") && !contains("fd00::/8", "fe00::1"));
        assert!(contains("::/0", "1.2.3.4") && contains("0.0.0.0/0", "1.2.3.4") && !contains("0.0.0.0/0", "::1"));
        for text in ["", "10.0.0.0/33", "10.0.0.1/8", "fd00::/129", "example.org", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork(text.to_owned())));
        }
    }
}
