//! The records of a load: which keys, and which bytes.

use std::time::Duration;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};

use crate::workload::{Data, Keys, Partitions};

/// Number of columns beside the key.
pub(crate) const COLUMNS: usize = 5;

/// Records take their bytes from a block of this size.
const BLOCK_BYTES: usize = 1 << 20;

/// How many different bytes compressible records have.
const FEW: u8 = 4;

/// The values of the columns of a record.
pub(crate) type Columns = [Vec<u8>; COLUMNS];

/// Makes the records of a run.
pub(crate) struct Records {
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

/// The key of a partition by its number, of ten bytes as in cassandra-stress.
fn key(number: u64) -> String {
    format!("{number:010}")
}

/// Where a record is: its partition, and its place there if it has several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub key: String,
    pub at: Option<i64>,
}

impl Place {
    /// The place of a record by its number. One of a series is as old as its number is low.
    pub fn of(partitions: Partitions, number: u64) -> Self {
        let within =
            |key_number: u64, at: u64| Self { key: key(key_number), at: Some(i64::try_from(at).unwrap_or(i64::MAX)) };
        match partitions {
            Partitions::Single => Self { key: key(number), at: None },
            Partitions::Wide { rows } => within(number / u64::from(rows), number % u64::from(rows)),
            Partitions::TimeSeries { series, .. } => within(number % series, number / series),
        }
    }

    /// The same in a series, as a record that is newer than those that were there before: it is due so
    /// long after the first load on them began, without what lies between loads.
    pub fn newest(self, data: &Data, due: Duration) -> Self {
        let Partitions::TimeSeries { series, .. } = data.partitions else { return self };
        let newer = u128::from(data.records / series + 1) + due.as_nanos();
        Self { at: Some(i64::try_from(newer).unwrap_or(i64::MAX)), ..self }
    }
}

/// Chooses records.
pub(crate) enum Chooser {
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
        assert_eq!(key(17), "0000000017");
    }

    #[test]
    fn records_lie_alone_side_by_side_or_in_the_order_of_time() {
        let place = |partitions, number| {
            let Place { key, at } = Place::of(partitions, number);
            (key, at)
        };
        assert_eq!(place(Partitions::Single, 17), (key(17), None));
        assert_eq!(place(Partitions::Wide { rows: 10 }, 17), (key(1), Some(7)));
        let series = Partitions::TimeSeries { series: 5, read: 10 };
        assert_eq!(place(series, 17), (key(2), Some(3)));
        // All that the load writes is newer than what was there, and in order.
        let data = Data { records: 100, partitions: series, ..Data::default() };
        let newest = |due| Place::of(series, 17).newest(&data, Duration::from_nanos(due)).at;
        assert_eq!([newest(0), newest(1)], [Some(21), Some(22)]);
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
