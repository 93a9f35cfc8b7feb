//! The feed as a collection in pages (Activity Streams 2.0, section 5), oldest event first.
//!
//! The address of a page names a place in the feed, so it stays the same: `?after=` a cursor has
//! the events that come next, and `?before=` one those directly before it. A page of a limited
//! client lacks the events that are not for it.

use ::feed::{Cursor, Feed};
use area::Area;
use door_ldp::Site;
use serde_json::{Value, json};

use super::activity::{CONTEXT, activity};
use super::{PAGE_EVENTS, PATH, Refused, Start, Wanted, is_within};

/// The collection, or the page that is wanted.
pub(super) async fn body(feed: &Feed, site: &Site, area: &Area, wanted: &Wanted) -> Result<Value, Refused> {
    let limit = wanted.limit.unwrap_or(PAGE_EVENTS);
    let place = |side: &str, place: &str| {
        let limit = wanted.limit.map(|limit| format!("&limit={limit}")).unwrap_or_default();
        format!("{}{PATH}?{side}={place}{limit}", site.server())
    };
    let whole = format!("{}{PATH}", site.server());
    let (id, page, prev, next) = match (wanted.after, wanted.before) {
        (None, None) => {
            // Refuses where there is no feed.
            feed.now().await?;
            return Ok(json!({
                "@context": CONTEXT,
                "id": whole,
                "type": "OrderedCollection",
                "summary": "Changes of volumes and resources, oldest first",
                "first": place("after", "start"),
                "last": place("before", "now"),
            }));
        }
        (Some(after), _) => {
            let cursor = after.cursor(feed).await?;
            let page = feed.after(cursor, limit).await?;
            let first = page.events.first().map_or_else(|| "now".to_owned(), |event| event.cursor.to_string());
            let prev = (after != Start::Beginning).then(|| place("before", &first));
            let next = page.end.filter(|_| !page.is_last).map(|end| place("after", &end.to_string()));
            let id = match after {
                Start::Beginning => "start".to_owned(),
                Start::Now => "now".to_owned(),
                Start::At(_) | Start::Time(_) => cursor.to_string(),
            };
            (place("after", &id), page, prev, next)
        }
        (None, Some(before)) => {
            let (id, cursor) = match before {
                Start::Beginning => ("start".to_owned(), Some(Cursor::BEGINNING)),
                Start::Now => ("now".to_owned(), None),
                Start::At(cursor) => (cursor.to_string(), Some(cursor)),
                Start::Time(time) => (Cursor::before(time).to_string(), Some(Cursor::before(time))),
            };
            let page = feed.before(cursor, limit).await?;
            let prev = page.end.filter(|_| !page.is_last).map(|end| place("before", &end.to_string()));
            let next = page.events.last().map(|event| place("after", &event.cursor.to_string()));
            (place("before", &id), page, prev, next)
        }
    };
    let items = page.events.iter().filter(|event| is_within(event, area));
    let mut body = json!({
        "@context": CONTEXT,
        "id": id,
        "type": "OrderedCollectionPage",
        "partOf": whole,
        "orderedItems": items.map(|event| activity(event, site)).collect::<Vec<_>>(),
    });
    for (relation, address) in [("prev", prev), ("next", next)] {
        if let Some(address) = address {
            body[relation] = address.into();
        }
    }
    Ok(body)
}
