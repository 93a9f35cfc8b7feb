//! Latin hypercubes.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::factor::{Factor, Setting};

/// So many hypercubes are made, of which the one is kept whose nearest points are farthest apart.
const TRIES: usize = 100;

/// The points of a hypercube.
pub(super) fn settings(factors: &[Factor], points: usize, seed: u64) -> Vec<Setting> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let cubes = (0..TRIES).map(|_| cube(factors.len(), points, &mut random));
    let best = cubes.max_by_key(|cube| nearest(cube)).unwrap_or_default();
    let level = |factor: &Factor, stratum: usize| {
        let levels = factor.levels().len();
        factor.levels().get(stratum * levels / points).copied().flatten().map(str::to_owned)
    };
    let setting = |point: &Vec<usize>| {
        let values = factors
            .iter()
            .zip(point)
            .filter_map(|(factor, stratum)| Some((factor.name.clone(), level(factor, *stratum)?)));
        Setting(values.collect())
    };
    best.iter().map(setting).collect()
}

/// For each point its stratum of each factor. No two points share one.
fn cube(factors: usize, points: usize, random: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::with_capacity(factors); points];
    let mut strata: Vec<_> = (0..points).collect();
    for _ in 0..factors {
        strata.shuffle(random);
        all.iter_mut().zip(&strata).for_each(|(point, stratum)| point.push(*stratum));
    }
    all
}

/// The squared distance of the two nearest points.
fn nearest(cube: &[Vec<usize>]) -> usize {
    let distance =
        |one: &[usize], other: &[usize]| one.iter().zip(other).map(|(a, b)| a.abs_diff(*b).pow(2)).sum::<usize>();
    let pairs = cube.iter().enumerate().flat_map(|(at, one)| cube[at + 1..].iter().map(move |other| (one, other)));
    pairs.map(|(one, other)| distance(one, other)).min().unwrap_or(0)
}
