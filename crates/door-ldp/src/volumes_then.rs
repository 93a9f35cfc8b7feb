//! The volumes that there were at earlier times. The container of volumes is its own TimeGate
//! (RFC 7089, section 4.1.1). It has no versions: each second that is over has an address, which
//! shows the state at its end. For a while after its time, a state may still change, by servers
//! whose clocks are behind; until then it has no validators. Its page never has any.

use std::sync::Arc;
use std::time::Duration;

use audit::Requester;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use door_http::{Path, Second};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rdf::Writer;
use rdf::vocab::PREFIXES;

use crate::address::{Site, kept_volumes};
use crate::arrange::Section;
use crate::conditions::{Reading, Validators};
use crate::errors::LdpError;
use crate::format::Format;
use crate::mementos::MEMENTO_DATETIME;
use crate::pages::members_then::Asked;
use crate::prefer::Preferences;
use crate::request::{empty, unsent};
use crate::version_name::VersionName;
use crate::volumes::{VolumeRequest, types_of_container, unless_archive, variant};
use crate::{LdpDoor, links, pages, timegate};

/// How long a client can take at least to follow a redirection to a state.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(60);

/// Memory that a page takes: the heads of volumes that it reads at a time.
const PAGE_BYTES: u64 = 1 << 20;

/// Most volumes that a page leaves out, because it reads their heads.
const AFTER_MAX: usize = 10_000;

/// What a response about the container of volumes says of it in time (RFC 7089, section 2.2).
pub fn describe(door: &LdpDoor, site: &Site, headers: &mut HeaderMap) {
    if door.library.volumes.knows_past_lists() {
        link(site, headers);
        headers.append(header::VARY, HeaderValue::from_static("Accept-Datetime"));
    }
}

fn link(site: &Site, headers: &mut HeaderMap) {
    let container = site.shown(&kept_volumes()).unwrap_or_default();
    links::append(headers, &container, "original");
    links::append(headers, &container, "timegate");
}

/// Redirects a request with `Accept-Datetime` to the state at the end of that second: to the first
/// one if that is earlier, to the last one if it is later. `None` if the request names no time, or
/// no state is known.
pub async fn negotiate_time(door: &LdpDoor, asked: &VolumeRequest<'_>) -> Result<Option<Response>, LdpError> {
    if !door.library.volumes.knows_past_lists() {
        return Ok(None);
    }
    let Some(wanted) = timegate::wanted(asked.headers)? else { return Ok(None) };
    let Some([first, last]) = seconds(door, FOLLOWED_WITHIN).await? else { return Ok(None) };
    let name = VersionName::of_second(wanted.clamp(first, last));
    let mut response = empty(StatusCode::FOUND);
    let headers = response.headers_mut();
    let location = HeaderValue::try_from(asked.site.volumes_then(name));
    headers.insert(header::LOCATION, location.map_err(|error| LdpError::Internal(error.to_string()))?);
    describe(door, &asked.site, headers);
    Ok(Some(response))
}

/// The first and the last second at whose ends it is known which volumes there were, and still will
/// be once `ahead` has passed.
async fn seconds(door: &LdpDoor, ahead: Duration) -> Result<Option<[Second; 2]>, LdpError> {
    let Some(after) = door.library.volumes.list_known_after(ahead).await? else { return Ok(None) };
    // The end of its second is later.
    let (first, last) = (Second::of(after), Second::of(door.library.clock().now()).before());
    Ok((first <= last).then_some([first, last]))
}

/// `GET`, `HEAD`, `OPTIONS` of the volumes that there were at the end of a second.
pub async fn list(State(door): State<Arc<LdpDoor>>, Path(name): Path<String>, request: Parts) -> Response {
    answer(&door, &name, &request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(door: &LdpDoor, name: &str, request: &Parts) -> Result<Response, LdpError> {
    let asked = VolumeRequest::of(door, request)?;
    let name: VersionName = name.parse()?;
    let second = name.second();
    let is_known = |[first, last]: [Second; 2]| name.is_of_first() && (first..=last).contains(&second);
    if !seconds(door, Duration::ZERO).await?.is_some_and(is_known) {
        return Err(LdpError::NoVolumesThen(name));
    }
    let mut response = asked.described(&[]);
    let headers = response.headers_mut();
    link(&asked.site, headers);
    let datetime = HeaderValue::try_from(second.http());
    headers.insert(MEMENTO_DATETIME, datetime.map_err(|error| LdpError::Internal(error.to_string()))?);
    if asked.method == Method::OPTIONS {
        return Ok(response);
    }
    let format = Format::negotiated(asked.headers).map_err(|error| unless_archive(asked.headers, error))?;
    let preferences = Preferences::of(asked.headers).without_others();
    asked.say(format, &preferences, &mut response);
    let party = request.extensions.get::<Requester>().map(Requester::party).unwrap_or_default();
    let Format::Graph(syntax) = format else {
        let shown = Asked::up_to(AFTER_MAX, request.uri.query())?;
        if asked.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let _share = door.library.memory.reserve(&party, PAGE_BYTES).await?;
        let _turn = door.readings.turn(&party).await?;
        return pages::page_of_volumes_then(&door.library, &asked.site, second, &shown, response).await;
    };
    let below = second.end();
    // Without announcements an import counts from when it began, and it may end at any time.
    let is_settled = door.library.heads.announces() && door.library.repository.is_settled(below);
    if !preferences.containment || is_settled {
        // The order of the volumes may change.
        let validators = Validators::of_graph(second.first(), Some(None), &variant(format, &preferences));
        validators.insert(response.headers_mut());
        if validators.reading(asked.headers)? == Reading::NotModified {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(unsent(response));
        }
    }
    let mut sections = vec![Section::Triples(types_of_container(&preferences))];
    if preferences.containment {
        let volumes = door.library.volumes.list_as_of(below).await?;
        sections.push(Section::VolumesThen(Box::new(volumes), door.past_listings.clone(), party));
    }
    asked.send(door, response, Writer::new(syntax, PREFIXES), sections).await
}
