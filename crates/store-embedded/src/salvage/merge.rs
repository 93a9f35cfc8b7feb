//! All rows of a table in the order of their keys, each in its latest version, past blocks that
//! cannot be read.

use bytes::Bytes;

/// A row that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundRow {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) doubt: Doubt,
}

/// Where a later version of a row may have been that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// Nowhere: the row is the latest version.
    None,
    /// In a file that is lost. It may have had any number of rows.
    LostFile,
    /// In a broken block of a file that is there.
    BrokenBlock,
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
    /// A file is lost. It is reported elsewhere.
    Lost,
}

/// The items of files whose ranges of keys do not overlap, in their order.
pub(super) type Items = Box<dyn Iterator<Item = Item>>;

/// A run that is being read.
struct Run {
    items: Items,
    /// The next item, as far as it is known.
    head: Option<Head>,
    /// What is lost behind the last item.
    end: Doubt,
    /// The last key that was read.
    last_key: Option<Bytes>,
}

struct Head {
    key: Bytes,
    /// Its number and value; `None`: the end of a file.
    version: Option<(u64, Option<Bytes>)>,
    /// What is lost between it and the item before.
    before: Doubt,
}

/// The merge of all runs of a table, the newest first: of each row, a run has only versions that
/// are earlier than those in the runs before it. The engine's own reads rely on that.
pub(super) struct Merged {
    runs: Vec<Run>,
    gaps: Vec<Gap>,
}

impl Merged {
    /// Begins to read runs, which come in this order.
    pub(super) fn new(runs: impl Iterator<Item = Items>) -> Self {
        let mut gaps = Vec::new();
        let run = |items| {
            let mut run = Run { items, head: None, end: Doubt::None, last_key: None };
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
            let mut latest: Option<(u64, Option<Bytes>, Doubt)> = None;
            let mut doubt = Doubt::None;
            for run in &mut self.runs {
                // All heads are at or after this key, and everything read of each run is before it.
                // So what is lost before a head may be a version of this row. It is later than
                // those in the runs behind.
                doubt = doubt.max(run.head.as_ref().map_or(run.end, |head| head.before));
                while run.head.as_ref().is_some_and(|head| head.key == key) {
                    if let Some((number, value)) = run.head.take().and_then(|head| head.version)
                        && latest.as_ref().is_none_or(|(latest, ..)| *latest < number)
                    {
                        latest = Some((number, value, doubt));
                    }
                    run.advance(&mut self.gaps);
                }
            }
            if let Some((_, Some(value), doubt)) = latest {
                return Some(FoundRow { key, value, doubt });
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
        let mut before = Doubt::None;
        self.head = loop {
            match self.items.next() {
                None => {
                    self.end = before;
                    break None;
                }
                Some(Item::Lost) => before = before.max(Doubt::LostFile),
                Some(Item::Broken(detail)) => {
                    before = Doubt::BrokenBlock;
                    broken = broken.or(Some(detail));
                }
                Some(Item::FileEnd(key)) => break Some(Head { key, version: None, before }),
                Some(Item::Version { key, number, value }) => {
                    break Some(Head { key, version: Some((number, value)), before });
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

    /// Key, value, and where a later version may have been.
    type Row = (String, String, Doubt);

    /// Each row, and the gaps by their ends.
    fn merged(runs: Vec<Vec<Item>>) -> (Vec<Row>, Vec<(String, String)>) {
        let mut merged = Merged::new(runs.into_iter().map(|run| Box::new(run.into_iter()) as Items));
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = merged.next() {
            rows.push((text(&row.key), text(&row.value), row.doubt));
        }
        let bound = |key: Option<&Bytes>| key.map(text).unwrap_or_default();
        let gaps = merged.into_gaps();
        (rows, gaps.iter().map(|gap| (bound(gap.after.as_ref()), bound(gap.before.as_ref()))).collect())
    }

    fn row(key: &str, value: &str, doubt: Doubt) -> Row {
        (key.to_owned(), value.to_owned(), doubt)
    }

    #[test]
    fn the_latest_version_or_removal_counts_in_whichever_run_it_is() {
        let runs = vec![
            vec![put("a", 5, "new"), removed("b", 6), end("b")],
            vec![put("a", 1, "old"), put("b", 2, "old"), put("c", 3, "only"), put("c", 2, "before"), end("c")],
        ];
        assert_eq!(merged(runs), (vec![row("a", "new", Doubt::None), row("c", "only", Doubt::None)], vec![]));
    }

    #[test]
    fn reading_goes_on_after_a_broken_block_and_rows_of_other_runs_within_the_gap_are_marked() {
        let runs = vec![
            vec![put("b", 9, "b"), broken(), put("f", 9, "f"), end("f")],
            vec![put("a", 1, "a"), put("b", 1, "-"), put("c", 1, "c"), put("f", 1, "-"), put("g", 1, "g"), end("g")],
        ];
        let (rows, gaps) = merged(runs);
        let expected = [
            row("a", "a", Doubt::None),
            row("b", "b", Doubt::None),
            row("c", "c", Doubt::BrokenBlock),
            row("f", "f", Doubt::BrokenBlock),
            row("g", "g", Doubt::None),
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
        assert_eq!(rows, [row("a", "a", Doubt::BrokenBlock), row("e", "e", Doubt::None), row("x", "x", Doubt::None)]);
        assert_eq!(gaps, [(String::new(), "d".to_owned())]);
    }

    #[test]
    fn a_lost_file_casts_doubt_on_the_rows_of_its_run_and_older_ones_between_its_neighbours_only() {
        let newest = || vec![put("d", 9, "new"), removed("e", 9), end("e")];
        let middle = || vec![put("b", 5, "b"), end("b"), Item::Lost, put("f", 5, "f"), end("f")];
        let keys = ["a", "b", "c", "d", "e", "f", "g"];
        let oldest = || keys.map(|key| put(key, 1, "old")).into_iter().chain([end("g")]).collect::<Vec<_>>();
        let expected = vec![
            row("a", "old", Doubt::None),
            row("b", "b", Doubt::None),
            row("c", "old", Doubt::LostFile),
            row("d", "new", Doubt::None),
            row("f", "f", Doubt::LostFile),
            row("g", "old", Doubt::None),
        ];
        assert_eq!(merged(vec![newest(), middle(), oldest()]), (expected, vec![]));
        // The bounds of a file without neighbours are not known.
        let (rows, _) = merged(vec![newest(), vec![Item::Lost], oldest()]);
        let in_doubt = |row: &Row| row.2 == Doubt::LostFile;
        let certain: Vec<_> = rows.iter().filter(|row| !in_doubt(row)).map(|row| &*row.0).collect();
        assert_eq!((rows.len(), certain), (6, vec!["d"]));
        let (rows, _) = merged(vec![oldest(), vec![Item::Lost]]);
        assert!(!rows.iter().any(in_doubt), "an older file is lost");
    }
}
