//! Which lists a search reads.
//!
//! A *range* is a part of each shard of a list. A *driver* is some ranges whose results, merged,
//! are in one order. One driver gives results in the order that is asked for. Others may have few
//! results and spare reading many, if these are sorted afterwards.

use bytes::Bytes;
use store::Scan;

use crate::keys::{self, Facet, List};
use crate::kinds::Kind;
use crate::query::{Comparison, Condition, Field, Query, described_by};

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
    /// The plan of a search.
    pub fn of(query: &Query) -> Self {
        let order = query.order();
        let mut by_path = by_path(query);
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
            driver.list != List::Documents || driver.ranges.iter().any(|range| !range.from.is_empty())
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
fn by_path(query: &Query) -> Vec<Driver> {
    let paths = paths(query);
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
    let is_limited = paths.iter().any(|range| !range.from.is_empty() || range.to.is_some());
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
        return id_order(query).map_or_else(everything, |range| vec![range]);
    };
    let only = |path: &str| Range {
        from: keys::documents_of(path),
        to: Some(keys::after_documents_of(path)),
        skipped: 0,
        path: Some(path.to_owned()),
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

/// The range of paths that comparisons with ids leave; `None`: all. A description has a greater id
/// than its path, and is at the same key, so that only upper bounds count.
fn id_order(query: &Query) -> Option<Range> {
    let bound = |condition: &Condition| match condition {
        Condition::IdOrder(Comparison::Less | Comparison::LessOrEqual, id) => Some(id.clone()),
        _ => None,
    };
    let to = query.conditions.iter().filter_map(bound).min()?;
    Some(Range { from: Bytes::new(), to: Some(keys::after_documents_of(&to)), skipped: 0, path: None })
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
            self.to = Some(match self.to {
                Some(to) => to.min(key),
                None => key,
            });
        } else {
            self.from = self.from.max(key);
        }
        self
    }

    /// The same for documents, whose keys have a path and no facet.
    pub fn documents_behind(mut self, place: &[u8], is_descending: bool) -> Self {
        // A place of no path was not made here; then everything is behind it.
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
        self.to = Some(match self.to {
            Some(end) => end.min(to),
            None => to,
        });
        self
    }

    /// Whether nothing can be in it.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::Glob;

    fn plan(conditions: Vec<Condition>, order_by: Option<Field>) -> Plan {
        Plan::of(&Query { conditions, order_by, ..Query::all(10) })
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
