//! The lists of volumes and pages that clients of the HTRC Data API send (`volumeIDs`, `pageIDs`),
//! and lists of one id a line.
//!
//! Tokens are trimmed, empty ones are skipped, and repeats are merged. The result keeps the order
//! of first mention.
//!
//! A list may have hundreds of thousands of tokens. So each function calls `goes_on` before each
//! token, and stops as soon as that returns false.

use std::collections::{HashMap, HashSet};

use crate::{Seq, VolumeId};

/// Least number of characters before the `[` of a page id. The original service accepted no shorter
/// volume ids there.
const MIN_CHARS_BEFORE_PAGES: usize = 4;

/// Pages of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageList {
    /// The volume.
    pub volume: VolumeId,
    /// Its pages in the requested order, each once, at least one.
    pub pages: Vec<Seq>,
}

/// A malformed list. The messages are the original service's, which clients know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A token of a list of volumes is not a volume id, or there is none (the token is then the
    /// whole list).
    #[error("Malformed Volume ID list. Offending token: {token}")]
    MalformedVolume {
        /// What could not be read.
        token: String,
    },
    /// A token of a list of pages is not a volume id with pages, or there is none (the token is
    /// then the whole list).
    #[error("Malformed Page ID list. Offending token: {token}")]
    MalformedPages {
        /// What could not be read.
        token: String,
    },
    /// The caller does not want to go on.
    #[error("the list is no longer needed")]
    Stopped,
}

/// Reads `volumeIDs`: volume ids separated by `|`.
pub fn parse_volume_ids(list: &str, goes_on: impl Fn() -> bool) -> Result<Vec<VolumeId>, ListError> {
    parse_volumes(list, list.split('|'), goes_on)
}

/// Reads a text of one volume id a line.
pub fn parse_volume_lines(text: &str, goes_on: impl Fn() -> bool) -> Result<Vec<VolumeId>, ListError> {
    parse_volumes(text, text.lines(), goes_on)
}

fn parse_volumes<'a>(
    list: &str,
    tokens: impl Iterator<Item = &'a str>,
    goes_on: impl Fn() -> bool,
) -> Result<Vec<VolumeId>, ListError> {
    let malformed = |token: &str| ListError::MalformedVolume { token: token.to_owned() };
    let mut volumes = Vec::new();
    let mut seen = HashSet::new();
    for token in tokens {
        stop_unless(&goes_on)?;
        let token = token.trim();
        if token.is_empty() {
            continue;
        }
        let volume = VolumeId::parse(token).map_err(|_| malformed(token))?;
        if seen.insert(volume.clone()) {
            volumes.push(volume);
        }
    }
    if volumes.is_empty() { Err(malformed(list)) } else { Ok(volumes) }
}

/// Reads `pageIDs`: volumes with pages, like
/// `yale.39002015008130[1,2,4]|uc2.ark:/13960/t8ff3zh99[5]`. If a volume is named again, its pages
/// are added to those before.
pub fn parse_page_ids(list: &str, goes_on: impl Fn() -> bool) -> Result<Vec<PageList>, ListError> {
    let malformed = |token: &str| ListError::MalformedPages { token: token.to_owned() };
    let mut lists: Vec<PageList> = Vec::new();
    let mut places = HashMap::new();
    let mut seen = HashSet::new();
    for token in list.split('|') {
        let token = token.trim();
        if token.is_empty() {
            stop_unless(&goes_on)?;
            continue;
        }
        let (volume, pages) = parse_pages_of_volume(token, &goes_on)?.ok_or_else(|| malformed(token))?;
        let place = *places.entry(volume.clone()).or_insert_with(|| {
            lists.push(PageList { volume, pages: Vec::new() });
            lists.len() - 1
        });
        lists[place].pages.extend(pages.into_iter().filter(|page| seen.insert((place, *page))));
    }
    if lists.is_empty() { Err(malformed(list)) } else { Ok(lists) }
}

/// Reads `volume[1,2,4]`; `None` if it is malformed or names no page. One token may name as many
/// pages as all others.
fn parse_pages_of_volume(token: &str, goes_on: impl Fn() -> bool) -> Result<Option<(VolumeId, Vec<Seq>)>, ListError> {
    stop_unless(&goes_on)?;
    let Some((volume, list)) = token.strip_suffix(']').and_then(|token| token.rsplit_once('[')) else {
        return Ok(None);
    };
    let volume = VolumeId::parse(volume).ok().filter(|_| volume.chars().count() >= MIN_CHARS_BEFORE_PAGES);
    let mut pages = Vec::new();
    for page in list.split(',').map(str::trim).filter(|page| !page.is_empty()) {
        stop_unless(&goes_on)?;
        let Some(page) = Seq::parse(page) else { return Ok(None) };
        pages.push(page);
    }
    Ok(volume.filter(|_| !pages.is_empty()).map(|volume| (volume, pages)))
}

fn stop_unless(goes_on: impl Fn() -> bool) -> Result<(), ListError> {
    if goes_on() { Ok(()) } else { Err(ListError::Stopped) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use super::*;

    fn parse_volume_ids(list: &str) -> Result<Vec<VolumeId>, ListError> {
        super::parse_volume_ids(list, || true)
    }

    fn parse_page_ids(list: &str) -> Result<Vec<PageList>, ListError> {
        super::parse_page_ids(list, || true)
    }

    fn pages(list: &str) -> Vec<(String, Vec<u32>)> {
        let lists = parse_page_ids(list).unwrap();
        lists.into_iter().map(|l| (l.volume.to_string(), l.pages.into_iter().map(Seq::get).collect())).collect()
    }

    #[test]
    fn reading_a_list_stops_at_the_token_at_which_it_is_no_longer_needed() {
        let (volumes, pages) = (vec!["a.1"; 1_000].join("|"), vec!["uc2.x[1]"; 1_000].join("|"));
        let (lines, seqs) = (volumes.replace('|', "\n"), format!("uc2.x[{}]", vec!["7"; 1_000].join(",")));
        let empty = "|".repeat(1_000);
        type Read<'a> = &'a dyn Fn(&dyn Fn() -> bool) -> Option<ListError>;
        let reads: [Read<'_>; 6] = [
            &|goes_on| super::parse_volume_ids(&volumes, goes_on).err(),
            &|goes_on| parse_volume_lines(&lines, goes_on).err(),
            &|goes_on| super::parse_page_ids(&pages, goes_on).err(),
            &|goes_on| super::parse_page_ids(&seqs, goes_on).err(),
            &|goes_on| super::parse_volume_ids(&empty, goes_on).err(),
            &|goes_on| super::parse_page_ids(&empty, goes_on).err(),
        ];
        for (tokens, read) in [0, 1, 10].into_iter().flat_map(|tokens| reads.map(|read| (tokens, read))) {
            let asked = Cell::new(0);
            assert_eq!(read(&|| asked.replace(asked.get() + 1) < tokens), Some(ListError::Stopped));
            assert_eq!(asked.get(), tokens + 1);
        }
    }

    #[test]
    fn volumes_are_in_the_order_of_first_mention_each_once() {
        let volumes = parse_volume_ids(" b.2 ||a.1|b.2| |c.3|").unwrap();
        assert_eq!(volumes.iter().map(VolumeId::as_str).collect::<Vec<_>>(), ["b.2", "a.1", "c.3"]);
    }

    #[test]
    fn lines_are_read_like_lists() {
        let volumes = parse_volume_lines("b.2\r\n\n a.1\nb.2\n", || true).unwrap();
        assert_eq!(volumes.iter().map(VolumeId::as_str).collect::<Vec<_>>(), ["b.2", "a.1"]);
        assert_eq!(
            parse_volume_lines("b.2\nnonsense\n", || true).unwrap_err().to_string(),
            "Malformed Volume ID list. Offending token: nonsense"
        );
    }

    #[test]
    fn pages_of_a_repeated_volume_are_merged_in_order_of_mention() {
        assert_eq!(
            pages("uc2.x[4,2,4]| yale.1[ 7 ,, 1]|uc2.x[2,9]|"),
            [("uc2.x".into(), vec![4, 2, 9]), ("yale.1".into(), vec![7, 1])]
        );
    }

    #[test]
    fn the_last_bracket_begins_the_pages() {
        assert_eq!(pages("a.bc[3]"), [("a.bc".into(), vec![3])]);
        assert_eq!(pages("uc2.a[1][2]"), [("uc2.a[1]".into(), vec![2])]);
    }

    #[test]
    fn a_malformed_volume_list_names_the_token_or_the_whole_list() {
        for (list, token) in [("a.1| nodot |b.2", "nodot"), ("", ""), (" | ", " | "), (".x", ".x")] {
            let error = parse_volume_ids(list).unwrap_err();
            assert_eq!(error.to_string(), format!("Malformed Volume ID list. Offending token: {token}"));
        }
    }

    #[test]
    fn a_malformed_page_list_names_the_token_or_the_whole_list() {
        let tokens = [
            "uc2.x",
            "uc2.x[]",
            "uc2.x[,]",
            "uc2.x[0]",
            "uc2.x[-1]",
            "uc2.x[+1]",
            "uc2.x[1,x]",
            "uc2.x[1",
            "uc2.x1]",
            "uc2.x[1]y",
            "nodot[1]",
            "a.b[1]",
            "[1]",
            "uc2.x[4294967296]",
            "uc2.x[1.5]",
            "uc2.x[1 2]",
        ];
        for token in tokens {
            let error = parse_page_ids(&format!("yale.1[1]|{token}")).unwrap_err();
            assert_eq!(error.to_string(), format!("Malformed Page ID list. Offending token: {token}"));
        }
        assert_eq!(parse_page_ids(" |").unwrap_err(), ListError::MalformedPages { token: " |".into() });
    }
}
