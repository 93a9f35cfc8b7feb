//! Designs: which combinations of values are measured.

mod fraction;
mod latin;
pub(crate) mod surrogate;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::factor::{Factor, Setting};
use crate::plan::{Plan, PlanError};

pub use fraction::{Alias, Fraction, fraction};

/// The most combinations of a study: more would be a mistake.
const SETTINGS_MAX: usize = 4_096;

/// The most settings of a round: more would be a design of their own.
const BATCH_MAX: u32 = 64;

/// Which combinations are measured. The default always is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Design {
    /// Each value alone.
    OneAtATime {
        /// Afterwards the best values of all factors together.
        #[serde(default)]
        union: bool,
        /// Only under these workloads; the default is measured under all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workloads: Option<Vec<String>>,
    },
    /// All combinations of all values.
    Grid {},
    /// All combinations of two levels: the default and one value of each factor.
    Factorial {},
    /// A part of them, from which effects can still be distinguished.
    Fractional {
        /// 3: single effects are apart from one another. 4: also from interactions of two.
        /// 5: these too from one another.
        resolution: u8,
    },
    /// Points that cover the values of each factor evenly.
    LatinHypercube {
        /// How many.
        points: u32,
    },
    /// Such points first, then rounds of settings that are expected to be better, by what was
    /// measured before.
    Bayesian {
        /// How many points are first.
        points: u32,
        /// How many settings a round has.
        #[serde(default = "four")]
        batch: u32,
        /// How long all of its runs may take.
        #[serde(with = "humantime_serde")]
        budget: Duration,
    },
}

fn four() -> u32 {
    4
}

impl Design {
    /// Its name for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OneAtATime { .. } => "one at a time",
            Self::Grid {} => "grid",
            Self::Factorial {} => "factorial",
            Self::Fractional { .. } => "fractional factorial",
            Self::LatinHypercube { .. } => "Latin hypercube",
            Self::Bayesian { .. } => "Bayesian",
        }
    }

    /// Whether the best values of all factors are measured together afterwards.
    pub fn has_union(&self) -> bool {
        matches!(self, Self::OneAtATime { union: true, .. })
    }

    /// Whether effects and interactions follow from its contrasts: each two factors are balanced.
    pub fn is_balanced(&self) -> bool {
        matches!(self, Self::Grid {} | Self::Factorial {} | Self::Fractional { .. })
    }

    pub(crate) fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        let wrong = |what: String| Err(PlanError::Invalid { at: "design".to_owned(), what });
        let is_single = matches!(self, Self::OneAtATime { .. });
        let is_odd = |repeats: u32| !is_single || !(1..=plan.repeats).contains(&repeats);
        if let Some(factor) = plan.factors.iter().find(|factor| factor.repeats.is_some_and(is_odd)) {
            let (name, most) = (&factor.name, plan.repeats);
            return wrong(format!("repeats of {name}: 1 to {most}, and only where values are measured one at a time"));
        }
        let is_two_level = plan.factors.iter().all(|factor| factor.values.len() == 1);
        match self {
            Self::Factorial {} | Self::Fractional { .. } if !is_two_level => {
                return wrong("exactly one value of each factor, besides the default".to_owned());
            }
            Self::Factorial {} if plan.factors.len() > 12 => {
                return wrong("at most 12 factors; a fractional design takes more".to_owned());
            }
            Self::Fractional { resolution } => {
                if !(3..=6).contains(resolution) || plan.factors.len() > 16 {
                    return wrong("a resolution from 3 to 6, and at most 16 factors".to_owned());
                }
                if 1 << fraction(plan.factors.len(), *resolution).base > SETTINGS_MAX {
                    return wrong("a lower resolution: this one needs too many combinations".to_owned());
                }
            }
            Self::Grid {} => {
                let count =
                    plan.factors.iter().try_fold(1_usize, |count, factor| count.checked_mul(factor.values.len() + 1));
                if count.is_none_or(|count| count > SETTINGS_MAX) {
                    return wrong(format!("at most {SETTINGS_MAX} combinations"));
                }
            }
            Self::LatinHypercube { points } | Self::Bayesian { points, .. }
                if !(2..=SETTINGS_MAX as u32).contains(points) =>
            {
                return wrong(format!("2 to {SETTINGS_MAX} points"));
            }
            Self::Bayesian { batch, .. } if !(1..=BATCH_MAX).contains(batch) => {
                return wrong(format!("a batch of 1 to {BATCH_MAX} settings"));
            }
            Self::OneAtATime { .. }
                if plan.factors.iter().map(|factor| factor.values.len()).sum::<usize>() > SETTINGS_MAX =>
            {
                return wrong(format!("at most {SETTINGS_MAX} values of all factors"));
            }
            Self::OneAtATime { workloads: Some(names), .. } => {
                if let Some(name) = names.iter().find(|name| plan.workload(name).is_none()) {
                    return wrong(format!("there is no workload {name}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The combinations that are known before anything is measured, the default first, each once.
    pub fn settings(&self, factors: &[Factor], seed: u64) -> Vec<Setting> {
        let chosen = match self {
            Self::OneAtATime { .. } => one_at_a_time(factors),
            Self::Grid {} | Self::Factorial {} => grid(factors),
            Self::Fractional { resolution } => fraction(factors.len(), *resolution).settings(factors),
            Self::LatinHypercube { points } | Self::Bayesian { points, .. } => {
                latin::settings(factors, *points as usize, seed)
            }
        };
        let mut all = vec![Setting::default()];
        for setting in chosen {
            if !all.contains(&setting) {
                all.push(setting);
            }
        }
        all
    }
}

fn one_at_a_time(factors: &[Factor]) -> Vec<Setting> {
    let single = |factor: &Factor| {
        let of = |value: &String| Setting::of([(factor.name.as_str(), Some(value.as_str()))]);
        factor.values.iter().map(of).collect::<Vec<_>>()
    };
    factors.iter().flat_map(single).collect()
}

/// All combinations, the default first.
pub(crate) fn grid(factors: &[Factor]) -> Vec<Setting> {
    let mut all = vec![Setting::default()];
    for factor in factors {
        let with = |setting: &Setting| {
            let setting = setting.clone();
            let at = move |level: Option<&str>| {
                let mut setting = setting.clone();
                setting.0.extend(level.map(|value| (factor.name.clone(), value.to_owned())));
                setting
            };
            factor.levels().into_iter().map(at).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn factors(values: &[usize]) -> Vec<Factor> {
        let factor = |(number, count): (usize, &usize)| Factor {
            name: format!("f{number}"),
            default: None,
            values: (1..=*count).map(|value| value.to_string()).collect(),
            repeats: None,
            applied: Some(crate::factor::Applied::Restart),
        };
        values.iter().enumerate().map(factor).collect()
    }

    #[test]
    fn one_at_a_time_has_the_default_and_each_value_alone() {
        let design = Design::OneAtATime { union: false, workloads: None };
        let settings = design.settings(&factors(&[2, 3]), 1);
        assert_eq!(settings.len(), 1 + 5);
        assert!(settings[0].is_default());
        assert!(settings[1..].iter().all(|setting| setting.0.len() == 1));
    }

    #[test]
    fn a_grid_has_all_combinations_once() {
        let settings = Design::Grid {}.settings(&factors(&[2, 1, 3]), 1);
        assert_eq!(settings.len(), 3 * 2 * 4);
        assert_eq!(settings.iter().collect::<BTreeSet<_>>().len(), settings.len());
    }

    #[test]
    fn a_latin_hypercube_covers_the_levels_of_each_factor_evenly_and_depends_on_the_seed() {
        let (design, factors) = (Design::LatinHypercube { points: 12 }, factors(&[3, 2, 5]));
        let settings = design.settings(&factors, 7);
        assert_eq!(settings, design.settings(&factors, 7));
        assert_ne!(settings, design.settings(&factors, 8));
        for factor in &factors {
            let values: BTreeSet<_> = settings.iter().map(|setting| setting.get(&factor.name)).collect();
            assert_eq!(values.len(), factor.values.len() + 1, "{}", factor.name);
        }
    }
}
