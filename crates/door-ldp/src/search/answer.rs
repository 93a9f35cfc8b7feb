//! The answer of a search as Fedora writes it.

use jiff::Timestamp;
use search::{Found, Hit};
use serde_json::{Map, Value, json};
use store::UnixMillis;

use super::asked::{Asked, Output};
use crate::address::{At, Facet, Site, Target};

/// What Fedora says if results were not counted.
const NOT_COUNTED: i64 = -1;

/// The size of what has none.
const NO_SIZE: i64 = -1;

/// The answer. Besides what Fedora has, `incomplete` says why results may be missing, if they may,
/// and why they were not counted, if they were to be.
pub fn json(site: &Site, asked: &Asked, found: &Found) -> Value {
    let items: Vec<_> = found.hits.iter().map(|hit| item(site, &asked.fields, hit)).collect();
    let total = found.total.map_or(NOT_COUNTED, |total| i64::try_from(total).unwrap_or(i64::MAX));
    let mut pagination = json!({
        "offset": asked.query.offset,
        "maxResults": asked.query.max,
        "totalResults": total,
    });
    let why: Vec<_> = [incomplete(found), uncounted(found)].into_iter().flatten().collect();
    if !why.is_empty() {
        pagination["incomplete"] = why.join("; ").into();
    }
    json!({ "pagination": pagination, "items": items })
}

/// Why results may be missing; `None`: none are.
pub fn incomplete(found: &Found) -> Option<&'static str> {
    if !found.is_complete {
        return Some(
            "the search index does not have everything: it is being made, no server keeps it up to date \
             (search.index), it cannot be written now (a full disk, for example), or changes are not recorded \
             (feed.keep)",
        );
    }
    found.is_cut.then_some("the search ended at its limits; the link `next` leads on")
}

/// Why there is no total, although the results were to be counted; `None`: there is one, or they
/// were not to be counted.
pub fn uncounted(found: &Found) -> Option<&'static str> {
    found.is_count_cut.then_some("the results were not all counted, because the search ended at its limits")
}

fn item(site: &Site, fields: &[Output], hit: &Hit) -> Value {
    let Hit { facet, document, .. } = hit;
    let value = |field: &Output| match field {
        Output::FedoraId => address(site, hit).into(),
        Output::Created => time(document.created).into(),
        Output::Modified => time(document.modified(*facet)).into(),
        Output::ContentSize => {
            document.len_bytes(*facet).map_or(NO_SIZE, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)).into()
        }
        Output::MimeType => document.media_type(*facet).into(),
        Output::RdfType => document.types(*facet).map(|iri| shown_type(site, iri)).collect(),
    };
    fields.iter().map(|field| (field.name().to_owned(), value(field))).collect::<Map<_, _>>().into()
}

/// The address of a result.
pub fn address(site: &Site, hit: &Hit) -> String {
    let facet = match hit.facet {
        search::Facet::Itself => Facet::Itself,
        search::Facet::Description => Facet::Description,
    };
    site.iri_of_target(&Target { path: hit.path.clone(), facet, at: At::Present })
}

/// A type as clients know it.
fn shown_type(site: &Site, kept: &str) -> String {
    site.shown(kept).unwrap_or_else(|| kept.to_owned())
}

/// A time with milliseconds, whatever they are.
fn time(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).map(|time| format!("{time:.3}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_always_has_milliseconds() {
        assert_eq!(time(UnixMillis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(UnixMillis(1_767_225_600_120)), "2026-01-01T00:00:00.120Z");
    }
}
