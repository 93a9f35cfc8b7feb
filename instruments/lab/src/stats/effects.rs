//! Effects and interactions of factors, from designs in which they are balanced.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Sample;
use crate::factor::{Factor, Setting};

/// A run as the contrasts see it.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// Its setting.
    pub setting: &'a Setting,
    /// Its block.
    pub block: u32,
    /// Its value of the metric.
    pub value: f64,
}

/// What an effect is written after that is the opposite of another one for all runs.
pub(crate) const OPPOSITE: &str = "− ";

/// The effect of a factor, or the interaction of two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// The factor, or the two.
    pub factors: Vec<String>,
    /// Other effects that these runs cannot tell from this one, each with a minus where it is the
    /// opposite (`− a × b`): its figures are those of their sum with these signs.
    pub aliases: Vec<String>,
    /// What the metric changes by, from the default of the factor to its last value. Of two: how
    /// far the effect of one differs where the other has its last value, by 2.
    pub effect: f64,
    /// Its 95 % interval; `None` without repeats.
    pub interval: Option<(f64, f64)>,
    /// How likely such an effect is where there is none.
    pub p: Option<f64>,
    /// The same, corrected for all contrasts of the metric (Holm).
    pub p_corrected: Option<f64>,
}

impl Contrast {
    /// What it is, with all effects that no run separates from it: `c, or − a × b`.
    pub fn name(&self) -> String {
        let names = std::iter::once(self.factors.join(" × ")).chain(self.aliases.iter().cloned());
        names.collect::<Vec<_>>().join(", or ")
    }
}

/// The effects of all factors, then the interactions of each two. Every block has to have all
/// settings: then each has each effect, and the error is that of these effects alone.
pub fn contrasts(factors: &[Factor], observed: &[Observation<'_>]) -> Vec<Contrast> {
    let codes: Vec<Vec<f64>> =
        factors.iter().map(|factor| observed.iter().map(|run| code(factor, run.setting)).collect()).collect();
    let single = (0..factors.len()).map(|one| (vec![factors[one].name.clone()], codes[one].clone()));
    let pairs = (0..factors.len()).flat_map(|one| (one + 1..factors.len()).map(move |other| (one, other)));
    let double = pairs.map(|(one, other)| {
        let product = codes[one].iter().zip(&codes[other]).map(|(a, b)| a * b).collect();
        (vec![factors[one].name.clone(), factors[other].name.clone()], product)
    });
    let mut kept: Vec<(Vec<f64>, Contrast)> = Vec::new();
    for (factors, codes) in single.chain(double) {
        match kept.iter_mut().find_map(|(known, contrast)| Some((sign(known, &codes)?, contrast))) {
            Some((sign, contrast)) => contrast.aliases.push(format!("{sign}{}", factors.join(" × "))),
            None => kept.extend(contrast(factors, &codes, observed).map(|contrast| (codes, contrast))),
        }
    }
    kept.into_iter().map(|(_, contrast)| contrast).collect()
}

/// After what another contrast is written if it is the same as one for all runs, or the opposite; `None`
/// if it is neither.
fn sign(one: &[f64], other: &[f64]) -> Option<&'static str> {
    let is_all = |sign: f64| one.iter().zip(other).all(|(one, other)| *one == sign * other);
    let opposite = is_all(-1.0).then_some(OPPOSITE);
    if is_all(1.0) { Some("") } else { opposite }
}

/// −1 at the default, 1 at the last value, and the others evenly between.
fn code(factor: &Factor, setting: &Setting) -> f64 {
    let position = setting.get(&factor.name).and_then(|value| factor.values.iter().position(|known| known == value));
    let level = position.map_or(0, |position| position + 1);
    2.0 * level as f64 / factor.values.len() as f64 - 1.0
}

/// In each block twice the slope over the code, which goes from −1 to 1.
fn contrast(factors: Vec<String>, codes: &[f64], observed: &[Observation<'_>]) -> Option<Contrast> {
    let mut blocks: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for (code, run) in codes.iter().zip(observed) {
        blocks.entry(run.block).or_default().push((*code, run.value));
    }
    let effects = blocks.values().map(|runs| effect(runs)).collect::<Option<Vec<_>>>()?;
    let size = observed.iter().fold(0.0_f64, |greatest, run| greatest.max(run.value.abs()));
    let sample = Sample::of(&effects, size)?;
    let (aliases, p_corrected) = (Vec::new(), None);
    let interval = sample.interval(0.95);
    Some(Contrast { factors, aliases, effect: sample.mean, interval, p: sample.p(), p_corrected })
}

/// Of runs as (code, value); `None` if all have one code.
fn effect(runs: &[(f64, f64)]) -> Option<f64> {
    let n = runs.len() as f64;
    let mean_code = runs.iter().map(|(code, _)| code).sum::<f64>() / n;
    let mean_value = runs.iter().map(|(_, value)| value).sum::<f64>() / n;
    let squares: f64 = runs.iter().map(|(code, _)| (code - mean_code).powi(2)).sum();
    let products: f64 = runs.iter().map(|(code, value)| (code - mean_code) * (value - mean_value)).sum();
    (squares > 0.0).then(|| 2.0 * products / squares)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::design::Design;

    fn factors() -> Vec<Factor> {
        let factor = |name: &str| Factor {
            name: name.to_owned(),
            default: None,
            values: vec!["on".to_owned()],
            repeats: None,
            applied: Some(crate::factor::Applied::Restart),
        };
        ["a", "b", "c"].map(factor).to_vec()
    }

    #[test]
    fn effects_and_interactions_are_those_of_the_surface() {
        let factors = factors();
        let settings = Design::Factorial {}.settings(&factors, 1);
        let is_on = |setting: &Setting, name| f64::from(u8::from(setting.get(name).is_some()));
        // a adds 3, b takes 1, and both together take 4 more.
        let surface = |setting: &Setting| {
            let (a, b) = (is_on(setting, "a"), is_on(setting, "b"));
            10.0 + 3.0 * a - b - 4.0 * a * b
        };
        let mut observed = Vec::new();
        for block in 1..=4_u32 {
            for (at, setting) in settings.iter().enumerate() {
                let noise = f64::from((at as u32 * 7 + block * 5) % 11) / 100.0 - 0.05;
                observed.push(Observation { setting, block, value: surface(setting) + noise + f64::from(block) });
            }
        }
        let found = contrasts(&factors, &observed);
        let of = |names: &[&str]| found.iter().find(|contrast| contrast.factors == names).unwrap();
        // On average over the other factor: 3 − 4 / 2, and −1 − 4 / 2.
        assert!((of(&["a"]).effect - 1.0).abs() < 0.1, "{found:?}");
        assert!((of(&["b"]).effect + 3.0).abs() < 0.1, "{found:?}");
        assert!((of(&["a", "b"]).effect + 2.0).abs() < 0.1, "{found:?}");
        assert!(of(&["a", "b"]).p.unwrap() < 0.001);
        assert!(of(&["c"]).effect.abs() < 0.1 && of(&["c"]).p.unwrap() > 0.05, "{found:?}");
        let (low, high) = of(&["a"]).interval.unwrap();
        assert!(low < 1.0 && 1.0 < high, "{found:?}");
    }

    #[test]
    fn effects_that_the_runs_cannot_tell_apart_have_one_row() {
        let factors = factors();
        let settings = Design::Fractional { resolution: 3 }.settings(&factors, 1);
        let observed: Vec<_> =
            settings.iter().map(|setting| Observation { setting, block: 1, value: setting.0.len() as f64 }).collect();
        let found = contrasts(&factors, &observed);
        assert_eq!(found.len(), 3, "{found:?}");
        // All defaults together are one of the runs, so c is −1 where a and b are: it is − a × b.
        let names: Vec<_> = found.iter().map(Contrast::name).collect();
        assert_eq!(names, ["a, or − b × c", "b, or − a × c", "c, or − a × b"]);
    }

    #[test]
    fn an_effect_has_the_sign_with_which_its_row_names_it() {
        let factors = factors();
        let settings = Design::Fractional { resolution: 3 }.settings(&factors, 1);
        // Only a and b together do something: each adds 2 on average, and their interaction 2.
        let value = |setting: &Setting| if setting.get("a").and(setting.get("b")).is_some() { 4.0 } else { 0.0 };
        let observed: Vec<_> =
            settings.iter().map(|setting| Observation { setting, block: 1, value: value(setting) }).collect();
        let found = contrasts(&factors, &observed);
        let named: Vec<_> = found.iter().map(|contrast| (contrast.name(), contrast.effect)).collect();
        assert_eq!(named[2], ("c, or − a × b".to_owned(), -2.0), "{named:?}");
        // Of four factors the last one is a product of three, and no sign changes.
        let mut four = factors.clone();
        four.push(Factor { name: "d".to_owned(), ..factors[0].clone() });
        let settings = Design::Fractional { resolution: 4 }.settings(&four, 1);
        let observed: Vec<_> =
            settings.iter().map(|setting| Observation { setting, block: 1, value: value(setting) }).collect();
        let found = contrasts(&four, &observed);
        let pair = found.iter().find(|contrast| contrast.factors == ["a", "b"]).unwrap();
        assert_eq!((pair.name(), pair.effect), ("a × b, or c × d".to_owned(), 2.0));
    }

    #[test]
    fn without_repeats_there_is_an_effect_but_no_interval() {
        let factors = factors();
        let settings = Design::Factorial {}.settings(&factors, 1);
        let observed: Vec<_> =
            settings.iter().map(|setting| Observation { setting, block: 1, value: setting.0.len() as f64 }).collect();
        let found = contrasts(&factors, &observed);
        assert!(found.iter().all(|contrast| contrast.interval.is_none() && contrast.p.is_none()));
        assert!((found[0].effect - 1.0).abs() < 1e-9);
    }
}
