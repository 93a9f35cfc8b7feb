//! All rows of a table in the order of their keys, each in its latest version, past blocks that
//! cannot be read.

use bytes::Bytes;

/// A row that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundRow {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    /// Whether a later version of it may be lost.
    pub(super) is_in_gap: bool,
}

/// Keys that may be lost: after the first and up to the second, if there are such keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) after: Option<Bytes>,
    pub(super) before: Option<Bytes>,
    pub(super) detail: String,
}

/// An item of a run.
pub(super) enum Item {
    /// A version of a row; no value: it was removed.
    Version { key: Bytes, number: u64, value: Option<Bytes> },
    /// A file of the run ends with this key.
    FileEnd(Bytes),
    /// A block that cannot be read.
    Broken(String),
}

/// The items of files whose ranges of keys do not overlap, in their order.
pub(super) type Items = Box<dyn Iterator<Item = Item>>;

/// A run that is being read.
struct Run {
    items: Items,
    /// The next item, as far as it is known.
    head: Option<Head>,
    /// The last key that was read.
    last_key: Option<Bytes>,
}

struct Head {
    key: Bytes,
    /// Its number and value; `None`: the end of a file.
    version: Option<(u64, Option<Bytes>)>,
    /// Whether blocks before it are broken.
    is_behind_gap: bool,
}

/// The merge of all runs of a table.
pub(super) struct Merged {
    runs: Vec<Run>,
    gaps: Vec<Gap>,
}

impl Merged {
    /// Begins to read runs.
    pub(super) fn new(runs: impl Iterator<Item = Items>) -> Self {
        let mut gaps = Vec::new();
        let run = |items| {
            let mut run = Run { items, head: None, last_key: None };
            run.advance(&mut gaps);
            run
        };
        let runs = runs.map(run).collect();
        Self { runs, gaps }
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Option<FoundRow> {
        loop {
            let key = self.runs.iter().filter_map(|run| run.head.as_ref()).map(|head| &head.key).min()?.clone();
            // All heads are at or after this key, and everything read of each run is before it. So
            // a gap of any run may hide a later version.
            let is_in_gap = self.runs.iter().any(|run| run.head.as_ref().is_some_and(|head| head.is_behind_gap));
            let mut latest: Option<(u64, Option<Bytes>)> = None;
            for run in &mut self.runs {
                while run.head.as_ref().is_some_and(|head| head.key == key) {
                    if let Some(version) = run.head.take().and_then(|head| head.version)
                        && latest.as_ref().is_none_or(|(number, _)| *number < version.0)
                    {
                        latest = Some(version);
                    }
                    run.advance(&mut self.gaps);
                }
            }
            if let Some((_, Some(value))) = latest {
                return Some(FoundRow { key, value, is_in_gap });
            }
        }
    }

    /// The gaps of everything that was read.
    pub(super) fn into_gaps(self) -> Vec<Gap> {
        self.gaps
    }
}

impl Run {
    /// Reads to the next head, and reports the gap before it.
    fn advance(&mut self, gaps: &mut Vec<Gap>) {
        let mut broken: Option<String> = None;
        self.head = loop {
            match self.items.next() {
                None => break None,
                Some(Item::Broken(detail)) => broken = broken.or(Some(detail)),
                Some(Item::FileEnd(key)) => break Some(Head { key, version: None, is_behind_gap: broken.is_some() }),
                Some(Item::Version { key, number, value }) => {
                    break Some(Head { key, version: Some((number, value)), is_behind_gap: broken.is_some() });
                }
            }
        };
        let key = self.head.as_ref().map(|head| head.key.clone());
        if let Some(detail) = broken {
            gaps.push(Gap { after: self.last_key.clone(), before: key.clone(), detail });
        }
        self.last_key = key;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn put(key: &'static str, number: u64, value: &'static str) -> Item {
        Item::Version { key: key.into(), number, value: Some(value.into()) }
    }

    fn removed(key: &'static str, number: u64) -> Item {
        Item::Version { key: key.into(), number, value: None }
    }

    fn broken() -> Item {
        Item::Broken("broken".to_owned())
    }

    fn end(key: &'static str) -> Item {
        Item::FileEnd(key.into())
    }

    /// Key, value, and whether it is in a gap.
    type Row = (String, String, bool);

    /// Each row, and the gaps by their ends.
    fn merged(runs: Vec<Vec<Item>>) -> (Vec<Row>, Vec<(String, String)>) {
        let mut merged = Merged::new(runs.into_iter().map(|run| Box::new(run.into_iter()) as Items));
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = merged.next() {
            rows.push((text(&row.key), text(&row.value), row.is_in_gap));
        }
        let bound = |key: Option<&Bytes>| key.map(text).unwrap_or_default();
        let gaps = merged.into_gaps();
        (rows, gaps.iter().map(|gap| (bound(gap.after.as_ref()), bound(gap.before.as_ref()))).collect())
    }

    fn row(key: &str, value: &str, is_in_gap: bool) -> Row {
        (key.to_owned(), value.to_owned(), is_in_gap)
    }

    #[test]
    fn the_latest_version_or_removal_counts_in_whichever_run_it_is() {
        let runs = vec![
            vec![put("a", 5, "new"), removed("b", 6), end("b")],
            vec![put("a", 1, "old"), put("b", 2, "old"), put("c", 3, "only"), put("c", 2, "before"), end("c")],
        ];
        assert_eq!(merged(runs), (vec![row("a", "new", false), row("c", "only", false)], vec![]));
    }

    #[test]
    fn reading_goes_on_after_a_broken_block_and_rows_of_other_runs_within_the_gap_are_marked() {
        let runs = vec![
            vec![put("b", 9, "b"), broken(), put("f", 9, "f"), end("f")],
            vec![put("a", 1, "a"), put("b", 1, "-"), put("c", 1, "c"), put("f", 1, "-"), put("g", 1, "g"), end("g")],
        ];
        let (rows, gaps) = merged(runs);
        let expected = [
            row("a", "a", false),
            row("b", "b", false),
            row("c", "c", true),
            row("f", "f", true),
            row("g", "g", false),
        ];
        assert_eq!(rows, expected);
        assert_eq!(gaps, [("b".to_owned(), "f".to_owned())]);
    }

    #[test]
    fn a_gap_at_the_end_of_a_file_ends_with_it_and_one_at_the_beginning_has_no_first_key() {
        let runs = vec![
            vec![broken(), broken(), end("d"), put("x", 9, "x"), end("x")],
            vec![put("a", 1, "a"), put("e", 1, "e"), end("e")],
        ];
        let (rows, gaps) = merged(runs);
        assert_eq!(rows, [row("a", "a", true), row("e", "e", false), row("x", "x", false)]);
        assert_eq!(gaps, [(String::new(), "d".to_owned())]);
    }
}
