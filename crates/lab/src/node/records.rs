//! The records of a load: which keys, and which bytes.

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};

use super::table::COLUMNS;
use crate::workload::{Data, Keys};

/// Records take their bytes from a block of this size.
const BLOCK_BYTES: usize = 1 << 20;

/// How many different bytes compressible records have.
const FEW: u8 = 4;

/// The values of the columns of a record.
pub(super) type Columns = [Vec<u8>; COLUMNS];

/// Makes the records of a run.
pub(super) struct Records {
    block: Vec<u8>,
    column_bytes: [usize; COLUMNS],
}

impl Records {
    /// Records that follow from a seed.
    pub fn new(data: &Data, seed: u64) -> Self {
        let mut block = vec![0; BLOCK_BYTES + data.record_bytes as usize];
        ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut block);
        if data.compressible {
            block.iter_mut().for_each(|byte| *byte = b'a' + *byte % FEW);
        }
        let bytes = data.record_bytes as usize;
        let column_bytes = std::array::from_fn(|column| bytes * (column + 1) / COLUMNS - bytes * column / COLUMNS);
        Self { block, column_bytes }
    }

    /// Values of a record.
    pub fn values(&self, random: &mut impl Rng) -> Columns {
        let mut at = random.random_range(0..BLOCK_BYTES);
        self.column_bytes.map(|bytes| {
            let value = self.block.get(at..at + bytes).unwrap_or_default().to_vec();
            at += bytes;
            value
        })
    }
}

/// The key of a record by its number, of ten bytes as in cassandra-stress.
pub(super) fn key(number: u64) -> Vec<u8> {
    format!("{number:010}").into_bytes()
}

/// Chooses records.
pub(super) enum Chooser {
    /// All of so many equally often.
    Uniform(u64),
    /// The first ones more often.
    Zipf(Zipf<f64>),
}

impl Chooser {
    /// A chooser among so many records. A plan's exponents are checked.
    pub fn new(keys: Keys, records: u64) -> Self {
        match keys {
            Keys::Uniform => Self::Uniform(records),
            Keys::Zipf { exponent } => Zipf::new(records as f64, exponent).map_or(Self::Uniform(records), Self::Zipf),
        }
    }

    /// The number of a record.
    pub fn choose(&self, random: &mut impl Rng) -> u64 {
        match self {
            Self::Uniform(records) => random.random_range(0..*records),
            Self::Zipf(zipf) => zipf.sample(random) as u64 - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_size_and_follow_from_the_seed() {
        let data = Data { record_bytes: 172, ..Data::default() };
        let make = |seed| Records::new(&data, seed).values(&mut ChaCha8Rng::seed_from_u64(7));
        assert_eq!(make(1).iter().map(Vec::len).sum::<usize>(), 172);
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        assert_eq!(key(17), b"0000000017");
    }

    #[test]
    fn keys_are_within_the_records_and_few_of_them_are_frequent_by_zipf() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut first = |keys| {
            let chooser = Chooser::new(keys, 1_000);
            let chosen: Vec<_> = (0..10_000).map(|_| chooser.choose(&mut random)).collect();
            assert!(chosen.iter().all(|number| *number < 1_000));
            chosen.iter().filter(|number| **number < 10).count()
        };
        assert!(first(Keys::Uniform) < 200);
        assert!(first(Keys::Zipf { exponent: 0.99 }) > 3_000);
    }
}
