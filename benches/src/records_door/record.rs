//! The records: 400 bytes in five attributes each, as a bidder keeps them of a user.

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};
use serde::Serialize;

/// Attributes of a record.
pub const ATTRIBUTES: [&str; 5] = ["segments", "last_seen", "caps", "model", "region"];

/// Bytes of the value of an attribute, as text.
pub const VALUE_BYTES: usize = 72;

/// The id of a record.
pub fn id(number: u64) -> String {
    format!("user:{number:012}")
}

/// A value of an attribute, drawn so that it cannot be compressed by much more than half.
pub fn value(random: &mut impl RngCore) -> String {
    let mut bytes = [0; VALUE_BYTES / 2];
    random.fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The command that writes a whole record.
pub fn set(number: u64, random: &mut impl RngCore) -> redis::Cmd {
    let mut command = redis::cmd("HSET");
    command.arg(id(number));
    ATTRIBUTES.iter().for_each(|attribute| {
        command.arg(attribute).arg(value(random));
    });
    command
}

/// How records are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Each as likely as any other.
    Uniform,
    /// The n-th most popular with a share of 1/n^0.99, as YCSB draws.
    Zipf,
}

/// The exponent of [`Draw::Zipf`].
const EXPONENT: f64 = 0.99;

/// Multiplies ranks, so that popular records are not neighbours: a prime.
const APART: u64 = 2_654_435_761;

impl Draw {
    /// The number of a record below `records`: always the same for the same request.
    pub fn number(self, request: u64, records: u64) -> u64 {
        let mut random = random(request);
        match (self, Zipf::new(records as f64, EXPONENT)) {
            (Self::Zipf, Ok(zipf)) => {
                let rank = zipf.sample(&mut random) as u64 - 1;
                (u128::from(rank) * u128::from(APART) % u128::from(records)) as u64
            }
            _ => random.random_range(0..records),
        }
    }
}

/// Randomness of a request.
pub fn random(request: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_popular_record_is_drawn_often_and_uniform_draws_reach_everywhere() {
        let draws = |draw: Draw| (0..10_000).map(move |request| draw.number(request, 1_000));
        let most = |draw| (0..1_000).map(|number| draws(draw).filter(|drawn| *drawn == number).count()).max();
        assert!(most(Draw::Zipf) > Some(500), "{:?}", most(Draw::Zipf));
        assert!(most(Draw::Uniform) < Some(50), "{:?}", most(Draw::Uniform));
        assert!(draws(Draw::Uniform).all(|number| number < 1_000) && draws(Draw::Zipf).all(|number| number < 1_000));
    }

    #[test]
    fn a_record_has_four_hundred_bytes() {
        let bytes = id(1).len() + ATTRIBUTES.iter().map(|name| name.len() + VALUE_BYTES).sum::<usize>();
        assert!((400..=410).contains(&bytes), "{bytes}");
    }
}
