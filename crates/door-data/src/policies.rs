//! Limits on one request. 0 means no limit.

use budget::Memory;
use pack::Group;
use volumes::{BulkPlan, Wanted, error_bytes_at_most};

use crate::errors::DoorError;
use crate::params::Params;
use crate::policy::Policy;
use crate::settings::DataSettings;

/// The part of the memory for large shares that the text of `ERROR.err` may take: one of so many.
/// One party can have half of that memory, and holds more than the text.
const ERRORS_ONE_OF: u64 = 4;

/// Checks the length of a list before it is parsed.
pub fn check_length(settings: &DataSettings, params: &Params) -> Result<(), DoorError> {
    match limit(settings.ids_max) {
        Some(max) if params.named_at_most() > max => Err(DoorError::TooManyIds { max }),
        _ => Ok(()),
    }
}

/// Checks that all of a list could be reported as missing by a server with that much memory for its
/// requests. A volume is named again for each of its pages, by as many as 1,000 bytes.
pub fn check_reportable(memory_bytes: u64, wanted: &[Wanted]) -> Result<(), DoorError> {
    let (bytes, max) = (error_bytes_at_most(wanted), Memory::largest_share(memory_bytes) / ERRORS_ONE_OF);
    if bytes > max { Err(DoorError::TooMuchMissing { bytes, max }) } else { Ok(()) }
}

/// Checks what is known without the store: volumes, and pages that are requested by number.
pub fn check_request(settings: &DataSettings, wanted: &[Wanted]) -> Result<(), DoorError> {
    if let Some(max) = limit(settings.max_volumes)
        && let Some(over) = usize::try_from(max).ok().and_then(|max| wanted.get(max))
    {
        return Err(too_greedy(Policy::Volumes, max, over.volume.to_string()));
    }
    let numbered = |wanted: &Wanted| (wanted.volume.to_string(), wanted.pages.as_ref().map_or(0, Vec::len) as u64);
    check_pages(settings, wanted.iter().map(numbered))
}

/// Checks the pages of a plan, including those of whole volumes. Nothing has been sent by then.
pub fn check_plan(settings: &DataSettings, plan: &BulkPlan) -> Result<(), DoorError> {
    if !limits_pages(settings) {
        return Ok(());
    }
    let pages = |(index, group): (usize, &Group)| Ok((plan.volume_id(index)?.to_string(), group.pages.sums().count));
    let counted: Result<Vec<_>, DoorError> = plan.archive.groups.iter().enumerate().map(pages).collect();
    check_pages(settings, counted?.into_iter())
}

/// Whether pages are limited.
pub fn limits_pages(settings: &DataSettings) -> bool {
    limit(settings.max_pages).or(limit(settings.max_pages_per_volume)).is_some()
}

fn check_pages(settings: &DataSettings, volumes: impl Iterator<Item = (String, u64)>) -> Result<(), DoorError> {
    if !limits_pages(settings) {
        return Ok(());
    }
    let mut total = 0;
    for (id, pages) in volumes {
        total += pages;
        if let Some(max) = limit(settings.max_pages_per_volume).filter(|max| pages > *max) {
            return Err(too_greedy(Policy::PagesPerVolume, max, id));
        }
        if let Some(max) = limit(settings.max_pages).filter(|max| total > *max) {
            return Err(too_greedy(Policy::Pages, max, id));
        }
    }
    Ok(())
}

fn limit(max: u64) -> Option<u64> {
    (max > 0).then_some(max)
}

fn too_greedy(policy: Policy, max: u64, id: String) -> DoorError {
    DoorError::TooGreedy { policy, max, id }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use hathi::Seq;

    use super::*;

    fn wanted(volumes: &[(&str, u32)]) -> Vec<Wanted> {
        let pages = |count: u32| (count > 0).then(|| (1..=count).filter_map(Seq::new).collect());
        volumes.iter().map(|(id, count)| Wanted { volume: id.parse().unwrap(), pages: pages(*count) }).collect()
    }

    fn refusal(settings: &DataSettings, volumes: &[(&str, u32)]) -> Option<String> {
        check_request(settings, &wanted(volumes)).err().map(|error| error.to_string())
    }

    #[test]
    fn the_volume_that_exceeds_the_limit_is_named() {
        let settings = DataSettings { max_volumes: 2, ..DataSettings::default() };
        assert_eq!(refusal(&settings, &[("a.1", 0), ("a.2", 0)]), None);
        let expected = "Request too greedy. Request violates Max Volumes Allowed 2. Offending ID: a.3";
        assert_eq!(refusal(&settings, &[("a.1", 0), ("a.2", 0), ("a.3", 0)]).as_deref(), Some(expected));
    }

    #[test]
    fn pages_are_limited_in_all_and_per_volume() {
        let settings = DataSettings { max_pages: 5, max_pages_per_volume: 3, ..DataSettings::default() };
        assert_eq!(refusal(&settings, &[("a.1", 3), ("a.2", 2)]), None);
        let expected = "Request too greedy. Request violates Max Total Pages Allowed 5. Offending ID: a.2";
        assert_eq!(refusal(&settings, &[("a.1", 3), ("a.2", 3)]).as_deref(), Some(expected));
        let expected = "Request too greedy. Request violates Max Pages Per Volume Allowed 3. Offending ID: a.1";
        assert_eq!(refusal(&settings, &[("a.1", 4)]).as_deref(), Some(expected));
    }

    #[test]
    fn what_could_be_missing_must_fit_a_quarter_of_the_memory_for_large_shares() {
        let checked = |memory_bytes| check_reportable(memory_bytes, &wanted(&[("a.1", 1_000), ("a.2", 0)]));
        let bytes = error_bytes_at_most(&wanted(&[("a.1", 1_000), ("a.2", 0)]));
        assert!((80_000..100_000).contains(&bytes), "{bytes}");
        assert!(checked(5 * bytes).is_ok());
        assert!(matches!(checked(4 * bytes), Err(DoorError::TooMuchMissing { .. })));
    }

    #[test]
    fn zero_is_no_limit() {
        let settings =
            DataSettings { max_volumes: 0, max_pages: 0, max_pages_per_volume: 0, ..DataSettings::default() };
        assert_eq!(refusal(&settings, &vec![("a.1", 1_000); 1_000]), None);
    }
}
