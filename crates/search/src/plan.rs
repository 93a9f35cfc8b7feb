//! Which lists a search reads.
//!
//! A *range* is a part of each shard of a list. A *driver* is some ranges whose results, merged,
//! are in one order. One driver gives results in the order that is asked for. Others may have few
//! results and spare reading many, if these are sorted afterwards.

use std::collections::BTreeSet;

use bytes::Bytes;
use heads::ResourcePath;
use store::Scan;

use crate::keys::{self, Facet, List};
use crate::kinds::Kind;
use crate::query::{Comparison, Condition, DESCRIPTION_SUFFIX, Field, Query, described_by};

/// The most kinds by which a driver reads. With more of them, reading everything is no worse.
const KINDS_MAX: usize = 3;

/// A part of each shard of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// From this key on.
    pub from: Bytes,
    /// To before this key; `None`: to the end.
    pub to: Option<Bytes>,
    /// How many bytes at the beginning of each key are left out of the order.
    pub skipped: usize,
    /// The only path that can be in it.
    pub path: Option<String>,
}

/// Ranges of a list, whose results are read in one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The list.
    pub list: List,
    /// The ranges. There may be none: nothing can be found.
    pub ranges: Vec<Range>,
    /// The order of what they yield.
    pub order: Field,
}

/// How a search is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Yields all results in the order that is asked for.
    pub in_order: Driver,
    /// Each yields all results too, in another order or with others; some may be short.
    pub selective: Vec<Driver>,
}

impl Plan {
    /// The plan of a search within some trees; `None`: within everything.
    pub fn of(query: &Query, trees: Option<&[ResourcePath]>) -> Self {
        let order = query.order();
        let mut by_path = by_path(query, trees);
        let by_value = [Field::Created, Field::Modified, Field::Size].into_iter().filter_map(|field| {
            let (least, most) = bounds(query, field)?;
            Some(by_value(field, least, most))
        });
        let mut others: Vec<Driver> = by_value.collect();
        let in_order = match order {
            Field::Path if by_path.is_empty() => whole(List::Documents, Field::Path),
            Field::Path => by_path.remove(0),
            field => match others.iter().position(|driver| driver.order == field) {
                Some(at) => others.remove(at),
                None => whole(field.list(), field),
            },
        };
        others.splice(0..0, by_path);
        // What reads almost everything is not tried first.
        others.retain(|driver| {
            let is_short = driver.ranges.iter().any(|range| !range.from.is_empty()) || driver.ranges.is_empty();
            driver.list != List::Documents || is_short
        });
        Self { in_order, selective: others }
    }
}

/// The least key above all keys that begin with `prefix`; `None`: there is none.
fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    Scan::prefix(Bytes::copy_from_slice(prefix), 1).to
}

/// All of a list.
fn whole(list: List, order: Field) -> Driver {
    Driver { list, ranges: vec![Range { from: Bytes::new(), to: None, skipped: 0, path: None }], order }
}

/// The drivers in the order of paths, the best first.
fn by_path(query: &Query, trees: Option<&[ResourcePath]>) -> Vec<Driver> {
    let paths = within(paths(query), trees);
    let of_value = |value: Vec<u8>| {
        let within = paths.iter().map(move |paths| Range {
            from: Bytes::from([&value[..], &paths.from].concat()),
            to: match &paths.to {
                Some(to) => Some(Bytes::from([&value[..], to].concat())),
                None => prefix_end(&value),
            },
            skipped: value.len(),
            path: paths.path.clone(),
        });
        within.collect::<Vec<_>>()
    };
    let driver = |list, ranges| Driver { list, ranges, order: Field::Path };
    let (mut own_types, mut media_types, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for condition in &query.conditions {
        match condition {
            Condition::MediaType(glob) => {
                if let Some(media_type) = glob.literal() {
                    media_types.push(driver(List::MediaTypes, of_value(keys::of_media_type(media_type))));
                }
            }
            Condition::Type(glob) => {
                let Some(iri) = glob.literal() else { continue };
                let of_server: Vec<_> = Kind::ALL.into_iter().filter(|kind| kind.types().contains(&iri)).collect();
                if of_server.is_empty() {
                    own_types.push(driver(List::Types, of_value(keys::of_own_type(iri))));
                } else if of_server.len() <= KINDS_MAX {
                    let ranges = of_server.into_iter().flat_map(|kind| of_value(keys::of_kind(kind)));
                    kinds.push(driver(List::Types, ranges.collect()));
                }
            }
            _ => {}
        }
    }
    let mut drivers: Vec<_> = [own_types, media_types, kinds].into_iter().flatten().collect();
    // Those above are within the same paths.
    let is_limited = paths.is_empty() || paths.iter().any(|range| !range.from.is_empty() || range.to.is_some());
    if drivers.is_empty() && is_limited {
        drivers.push(driver(List::Documents, paths));
    }
    drivers
}

/// The ranges of paths that conditions on the id leave, in order, and apart from each other.
fn paths(query: &Query) -> Vec<Range> {
    let everything = || vec![Range { from: Bytes::new(), to: None, skipped: 0, path: None }];
    // The longest one says most.
    let globs = query.conditions.iter().filter_map(|condition| match condition {
        Condition::Id(glob) => Some(glob),
        _ => None,
    });
    let Some(glob) = globs.max_by_key(|glob| (glob.literal().is_some(), glob.prefix().len())) else {
        return id_order(query).unwrap_or_else(everything);
    };
    if let Some(id) = glob.literal() {
        let path = id.strip_suffix("/fcr:metadata").unwrap_or(id);
        return vec![only(path)];
    }
    let prefix = glob.prefix();
    let from = Bytes::copy_from_slice(prefix.as_bytes());
    let below = Range { to: prefix_end(&from), from, skipped: 0, path: None };
    described_by(prefix).map(only).into_iter().chain([below]).collect()
}

/// The documents of one path.
fn only(path: &str) -> Range {
    Range {
        from: keys::documents_of(path),
        to: Some(keys::after_documents_of(path)),
        skipped: 0,
        path: Some(path.to_owned()),
    }
}

/// The ranges of paths that comparisons with ids leave, in order, and apart from each other;
/// `None`: all.
fn id_order(query: &Query) -> Option<Vec<Range>> {
    let ids = |is_upper: bool| {
        query.conditions.iter().filter_map(move |condition| match condition {
            Condition::IdOrder(Comparison::Less | Comparison::LessOrEqual, id) if is_upper => Some(id),
            Condition::IdOrder(Comparison::Greater | Comparison::GreaterOrEqual, id) if !is_upper => Some(id),
            Condition::IdOrder(Comparison::Equal, id) => Some(id),
            _ => None,
        })
    };
    let to = ids(true).min().map(|id| keys::after_documents_of(id));
    let least = ids(false).max();
    let before = least.map_or_else(|| Some(Vec::new()), |id| described_above(id));
    // With too many of them, reading from the beginning is no worse.
    let from = least.filter(|_| before.is_some()).map(|id| keys::documents_of(id)).unwrap_or_default();
    if to.is_none() && from.is_empty() {
        return None;
    }
    let before = before.unwrap_or_default().into_iter().map(only);
    let ranges = before.chain([Range { from, to: None, skipped: 0, path: None }]);
    let ranges = ranges.map(|range| Range { to: earlier(range.to.clone(), to.clone()), ..range });
    Some(ranges.filter(|range| !range.is_empty()).collect())
}

/// The most paths before an id whose descriptions may have greater ids.
const DESCRIBED_MAX: usize = 32;

/// The paths that are less than an id, while the ids of their descriptions are not: the id begins
/// with each of them. `None`: there are too many.
fn described_above(id: &str) -> Option<Vec<&str>> {
    let mut paths = Vec::new();
    for (at, _) in id.char_indices().skip(1) {
        let (path, rest) = id.split_at(at);
        if rest <= DESCRIPTION_SUFFIX {
            paths.push(path);
        }
    }
    (paths.len() <= DESCRIBED_MAX).then_some(paths)
}

/// The earlier one of two ends.
fn earlier(one: Option<Bytes>, other: Option<Bytes>) -> Option<Bytes> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What trees leave of ranges of paths, in order, and apart from each other.
fn within(ranges: Vec<Range>, trees: Option<&[ResourcePath]>) -> Vec<Range> {
    let Some(trees) = trees else { return ranges };
    let is_inner = |tree: &ResourcePath| trees.iter().any(|other| other != tree && tree.is_within(other));
    let outer: BTreeSet<&str> = trees.iter().filter(|tree| !is_inner(tree)).map(|tree| tree.as_str()).collect();
    let of_tree = |tree: &str| {
        let below = Bytes::from([tree.as_bytes(), b"/"].concat());
        [only(tree), Range { to: prefix_end(&below), from: below, skipped: 0, path: None }]
    };
    let of_trees: Vec<_> = match outer.contains("") {
        true => return ranges,
        false => outer.into_iter().flat_map(of_tree).collect(),
    };
    let both = |one: &Range, other: &Range| Range {
        from: one.from.clone().max(other.from.clone()),
        to: earlier(one.to.clone(), other.to.clone()),
        skipped: 0,
        path: one.path.clone().or_else(|| other.path.clone()),
    };
    let of_both = ranges.iter().flat_map(|range| of_trees.iter().map(move |tree| both(range, tree)));
    let mut found: Vec<_> = of_both.filter(|range| !range.is_empty()).collect();
    found.sort_by(|one, other| one.from.cmp(&other.from));
    found
}

/// The least and the greatest value that conditions on a field leave; `None`: there are none.
fn bounds(query: &Query, field: Field) -> Option<(u64, u64)> {
    let (mut least, mut most, mut is_bounded) = (0, u64::MAX, false);
    for condition in &query.conditions {
        let (comparison, value) = match (field, condition) {
            (Field::Created, Condition::Created(comparison, value))
            | (Field::Modified, Condition::Modified(comparison, value))
            | (Field::Size, Condition::Size(comparison, value)) => (*comparison, *value),
            _ => continue,
        };
        is_bounded = true;
        let (low, high) = match comparison {
            Comparison::Equal => (value, value),
            Comparison::LessOrEqual => (0, value),
            Comparison::GreaterOrEqual => (value, u64::MAX),
            Comparison::Less if value == 0 => (1, 0),
            Comparison::Less => (0, value - 1),
            Comparison::Greater if value == u64::MAX => (1, 0),
            Comparison::Greater => (value + 1, u64::MAX),
        };
        (least, most) = (least.max(low), most.min(high));
    }
    is_bounded.then_some((least, most))
}

fn by_value(field: Field, least: u64, most: u64) -> Driver {
    let key = |value: u64| match field {
        Field::Size => keys::of_size(Some(value)),
        _ => keys::of_time(value),
    };
    let range = Range { from: key(least).into(), to: prefix_end(&key(most)), skipped: 0, path: None };
    let ranges = if least <= most { vec![range] } else { Vec::new() };
    Driver { list: field.list(), ranges, order: field }
}

impl Range {
    /// The same range without what is not behind a place, in a direction.
    pub fn behind(mut self, place: &[u8], is_descending: bool) -> Self {
        let key = Bytes::from([&self.from[..self.skipped.min(self.from.len())], place].concat());
        if is_descending {
            // Keys of the place itself are longer.
            self.to = earlier(self.to, Some(key));
        } else {
            self.from = self.from.max(key);
        }
        self
    }

    /// The same for documents, whose keys have a path and no facet.
    pub fn documents_behind(mut self, place: &[u8], is_descending: bool) -> Self {
        // Cursors have places of paths only.
        let Some((path, facet)) = keys::path_of_place(place) else { return self };
        let path = path.as_str();
        if !is_descending {
            self.from = self.from.max(keys::documents_of(path));
            return self;
        }
        let to = match facet {
            Facet::Itself => keys::documents_of(path),
            Facet::Description => keys::after_documents_of(path),
        };
        self.to = earlier(self.to, Some(to));
        self
    }

    /// Whether nothing can be in it.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::glob::Glob;

    fn plan(conditions: Vec<Condition>, order_by: Option<Field>) -> Plan {
        Plan::of(&Query { conditions, order_by, ..Query::all(10) }, None)
    }

    fn id(text: &str) -> Condition {
        Condition::Id(Glob::parse(text))
    }

    fn class(text: &str) -> Condition {
        Condition::Type(Glob::parse(text))
    }

    #[test]
    fn a_type_below_a_path_is_one_range() {
        let Plan { in_order, selective } = plan(vec![class("urn:t"), id("a/b*")], None);
        assert_eq!((in_order.list, in_order.ranges.len(), selective.len()), (List::Types, 1, 0));
        assert!(in_order.ranges[0].from.ends_with(b"a/b"));
    }

    #[test]
    fn everything_below_a_path_includes_the_description_of_bytes_at_it() {
        let ranges = plan(vec![id("a/*")], None).in_order.ranges;
        assert_eq!(ranges.iter().map(|range| range.path.as_deref()).collect::<Vec<_>>(), [Some("a"), None]);
    }

    #[test]
    fn trees_leave_their_own_ranges_of_paths() {
        let trees = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<ResourcePath>>();
        let ranges = |conditions: Vec<Condition>, texts: &[&str]| {
            let query = Query { conditions, ..Query::all(10) };
            let driver = Plan::of(&query, Some(&trees(texts))).in_order;
            assert_eq!(driver.list, List::Documents);
            driver.ranges.into_iter().map(|range| (range.from, range.to.unwrap_or_default())).collect::<Vec<_>>()
        };
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let of_tree = vec![(bytes("a\0"), bytes("a\x01")), (bytes("a/"), bytes("a0"))];
        assert_eq!(ranges(vec![], &["a", "a/b"]), of_tree);
        assert_eq!(
            ranges(vec![id("a/b/*")], &["a"]),
            [(bytes("a/b\0"), bytes("a/b\x01")), (bytes("a/b/"), bytes("a/b0"))]
        );
        assert_eq!(ranges(vec![id("b*")], &["a"]), []);
        assert_eq!(ranges(vec![], &[]), []);
    }

    #[test]
    fn what_has_a_greater_id_is_read_from_there_and_descriptions_of_what_the_id_begins_with() {
        let ranges = |comparison, text: &str| {
            let driver = plan(vec![Condition::IdOrder(comparison, text.to_owned())], None).in_order;
            driver
                .ranges
                .into_iter()
                .map(|range| range.path.unwrap_or_else(|| format!("{:?}", range.from)))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranges(Comparison::Greater, "a-b/c"), ["a", "a-b", "b\"a-b/c\\0\""]);
        assert_eq!(ranges(Comparison::GreaterOrEqual, "a/x"), ["b\"a/x\\0\""]);
        // The id is that of a description.
        assert_eq!(ranges(Comparison::GreaterOrEqual, "a/fcr:metadata"), ["a", "b\"a/fcr:metadata\\0\""]);
        assert_eq!(ranges(Comparison::Less, "b"), ["b\"\""]);
        // Too many of them.
        assert_eq!(ranges(Comparison::Greater, &"-".repeat(40)), ["b\"\""]);
    }

    #[test]
    fn an_order_reads_its_own_list_and_what_may_be_shorter_is_tried_first() {
        let Plan { in_order, selective } = plan(vec![id("a*")], Some(Field::Modified));
        assert_eq!((in_order.list, &in_order.ranges[0].from[..]), (List::Modified, &b""[..]));
        assert_eq!(selective.iter().map(|driver| driver.list).collect::<Vec<_>>(), [List::Documents]);
        assert_eq!(plan(vec![id("*")], Some(Field::Modified)).selective, []);
    }

    #[test]
    fn contradicting_conditions_read_nothing() {
        let conditions = vec![Condition::Size(Comparison::Less, 5), Condition::Size(Comparison::Greater, 5)];
        assert_eq!(plan(conditions, None).in_order.ranges, []);
        assert_eq!(plan(vec![Condition::Created(Comparison::Less, 0)], None).in_order.ranges, []);
        assert_eq!(plan(vec![Condition::Created(Comparison::Greater, u64::MAX)], None).in_order.ranges, []);
    }

    #[test]
    fn types_that_almost_everything_has_choose_no_list() {
        assert_eq!(plan(vec![class("http://www.w3.org/ns/ldp#Resource")], None).in_order.list, List::Documents);
        let containers = plan(vec![class("http://www.w3.org/ns/ldp#Container")], None).in_order;
        assert_eq!((containers.list, containers.ranges.len()), (List::Types, 3));
    }
}
