//! Fractional factorial designs: some factors follow from products of others.

use crate::factor::{Factor, Setting};

/// An interaction of two factors by their numbers, and the effects from which it cannot be distinguished.
pub type Alias = ((usize, usize), Vec<Vec<usize>>);

/// A fraction of a two-level design. The levels of the first factors are free. Each further factor
/// has the product of some of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fraction {
    /// How many factors are free: it has two to this power of runs.
    pub base: usize,
    /// For each further factor, the free factors whose product it is (a bit for each).
    pub generators: Vec<u32>,
    /// Length of the shortest product that is always 1; `None` if there is none.
    pub resolution: Option<u32>,
}

/// The smallest fraction of this many factors with at least this resolution.
pub fn fraction(factors: usize, resolution: u8) -> Fraction {
    for base in 1..factors {
        let mut generators = Vec::new();
        if choose(base, factors - base, u32::from(resolution), &mut generators) {
            let resolution = words(base, &generators).into_iter().map(u32::count_ones).min();
            return Fraction { base, generators, resolution };
        }
    }
    Fraction { base: factors, generators: Vec::new(), resolution: None }
}

/// Chooses generators by trying them in order, and going back where no further one fits.
fn choose(base: usize, left: usize, resolution: u32, generators: &mut Vec<u32>) -> bool {
    if left == 0 {
        return true;
    }
    let after = generators.last().map_or(1, |last| last + 1);
    for generator in after..1 << base {
        if generator.count_ones() + 1 < resolution {
            continue;
        }
        generators.push(generator);
        let is_good = words(base, generators).into_iter().all(|word| word.count_ones() >= resolution);
        if is_good && choose(base, left - 1, resolution, generators) {
            return true;
        }
        generators.pop();
    }
    false
}

/// All products of factors that are always 1: those that the generators say, and their products.
fn words(base: usize, generators: &[u32]) -> Vec<u32> {
    let single = |(at, generator): (usize, &u32)| generator | 1 << (base + at);
    let mut all: Vec<u32> = Vec::new();
    for word in generators.iter().enumerate().map(single) {
        let products: Vec<_> = all.iter().map(|other| other ^ word).collect();
        all.push(word);
        all.extend(products);
    }
    all
}

impl Fraction {
    /// The combinations. The first has all factors at their default, as every fraction has here.
    pub fn settings(&self, factors: &[Factor]) -> Vec<Setting> {
        (0..1_u32 << self.base).map(|free| self.setting(factors, free)).collect()
    }

    /// A factor is at its value if its bit is set. The product is a sum of bits, so that all
    /// defaults together are one of the combinations.
    fn setting(&self, factors: &[Factor], free: u32) -> Setting {
        let further = self.generators.iter().map(|generator| (free & generator).count_ones() % 2 == 1);
        let is_set = (0..self.base).map(|bit| free >> bit & 1 == 1).chain(further);
        let values = factors.iter().zip(is_set).map(|(factor, is_set)| {
            let value = factor.values.first().filter(|_| is_set);
            (factor.name.as_str(), value.map(String::as_str))
        });
        Setting::of(values)
    }

    /// Interactions of two factors that are the same contrast as another effect, so that only their
    /// sum is measured: pairs of numbers of factors, with what each is confounded with. All defaults
    /// together are one of the runs, so a single factor is the opposite of a pair, and a pair is the
    /// same as another one.
    pub fn aliases(&self, factors: usize) -> Vec<Alias> {
        let words = words(self.base, &self.generators);
        let numbers = |word: u32| (0..factors).filter(|bit| word >> bit & 1 == 1).collect::<Vec<_>>();
        let pairs = (0..factors).flat_map(|one| (one + 1..factors).map(move |other| (one, other)));
        let confounded = |(one, other): (usize, usize)| {
            let pair = 1_u32 << one | 1 << other;
            let with = words.iter().map(|word| word ^ pair).filter(|word| word.count_ones() <= 2);
            ((one, other), with.map(numbers).collect::<Vec<_>>())
        };
        pairs.map(confounded).filter(|(_, with)| !with.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn known_fractions_have_their_known_numbers_of_runs() {
        // As in the tables of textbooks: 2^(7-4) of III, 2^(4-1) of IV, 2^(5-1) of V and so on.
        for (factors, resolution, base) in [(7, 3, 3), (4, 4, 3), (5, 5, 4), (8, 4, 4), (6, 4, 4), (3, 3, 2)] {
            let found = fraction(factors, resolution);
            assert_eq!(found.base, base, "{factors} factors, resolution {resolution}");
            assert!(found.resolution.unwrap() >= u32::from(resolution));
        }
        assert_eq!(fraction(2, 3), Fraction { base: 2, generators: Vec::new(), resolution: None });
    }

    #[test]
    fn every_two_factors_of_a_fraction_are_balanced() {
        let factors: Vec<_> = (0..7)
            .map(|number| Factor {
                name: format!("f{number}"),
                default: None,
                values: vec!["on".to_owned()],
                repeats: None,
                applied: Some(crate::factor::Applied::Restart),
            })
            .collect();
        let settings = fraction(7, 3).settings(&factors);
        assert_eq!(settings.len(), 8);
        assert!(settings[0].is_default());
        let sign = |setting: &Setting, factor: usize| if setting.get(&factors[factor].name).is_some() { 1 } else { -1 };
        for one in 0..7 {
            for other in one + 1..7 {
                let sum: i32 = settings.iter().map(|setting| sign(setting, one) * sign(setting, other)).sum();
                assert_eq!(sum, 0, "{one} {other}");
            }
        }
    }

    #[test]
    fn aliases_are_named() {
        // Of resolution 4: the interactions of the first two and of the last two are one contrast.
        let aliases = fraction(4, 4).aliases(4);
        assert_eq!(aliases[0], ((0, 1), vec![vec![2, 3]]));
        assert!(fraction(5, 5).aliases(5).is_empty());
    }
}
