//! Pages, METS and records of volumes as resources. The data door sends and replaces their bytes,
//! through routes that are mounted here too. This module wraps those routes with the headers of
//! resources, with this door's conditions for changes, and with pages for people.

use std::sync::Arc;

use audit::Requester;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use door_http::Path;
use door_http::accept::{self, Offer};
use door_http::body::with_share;
use futures::StreamExt;
use hathi::{Seq, VolumeId};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use rdf::vocab::ldp;

use crate::address::Site;
use crate::conditions::{self, is_conditional};
use crate::errors::LdpError;
use crate::format::Format;
use crate::model::Model;
use crate::pages::{Beginning, SHOWN_BYTES, page_of_member};
use crate::request::{empty, unsent};
use crate::transactions::{self, VOLUMES_ARE_NOT};
use crate::{LdpDoor, LdpSettings, links, volumes};

/// Methods of a record.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
/// Methods of a page and of METS.
const ALLOW_REPLACING: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS, PUT");

/// The statuses of a refused body.
const REFUSED_BODIES: [StatusCode; 6] = [
    StatusCode::BAD_REQUEST,
    StatusCode::CONFLICT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::UNPROCESSABLE_ENTITY,
    StatusCode::PRECONDITION_REQUIRED,
];

/// Memory that a page takes: a text, and the page with its signs written out.
const PAGE_BYTES: u64 = 8 * SHOWN_BYTES as u64;

/// A member of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A page.
    Page(Seq),
    /// The METS.
    Mets,
    /// The record.
    Record,
}

impl Part {
    /// The volume and the member that a path below the base names.
    fn at(path: &str) -> Option<(VolumeId, Self)> {
        let (volume, member) = path.strip_prefix("/volumes/")?.split_once('/')?;
        let part = match member.split_once('/') {
            Some(("pages", seq)) => Self::Page(Seq::new(seq.parse().ok()?)?),
            None if member == "mets" => Self::Mets,
            None if member == "record" => Self::Record,
            _ => return None,
        };
        let volume = percent_decode_str(volume).decode_utf8().ok()?;
        Some((VolumeId::from_path_segment(&volume).ok()?, part))
    }

    /// Its path below that of the volume.
    pub fn path(self) -> String {
        match self {
            Self::Page(seq) => format!("pages/{seq}"),
            Self::Mets => "mets".to_owned(),
            Self::Record => "record".to_owned(),
        }
    }

    /// The media type of its bytes.
    fn media_type(self) -> &'static str {
        match self {
            Self::Page(_) => "text/plain",
            Self::Mets => "application/xml",
            Self::Record => "application/json",
        }
    }

    /// Whether a reader likes a page better than the bytes.
    fn is_page_preferred(self, headers: &HeaderMap) -> bool {
        let offers = [Offer::new(self.media_type(), false), Offer::new("text/html", true)];
        accept::media_type(headers, &offers).copied().unwrap_or(false)
    }
}

/// Mounts the routes that send or replace bytes of volumes at this door's addresses. It requires a
/// condition if this door does, adds the headers of resources to responses, and links to the page
/// of constraints if a body is refused. Who prefers a page gets one. No change of volumes is part of
/// a transaction.
pub fn members(door: &Arc<LdpDoor>, routes: Router) -> Router {
    let shared = door.clone();
    let routes = routes.layer(from_fn(move |request: Request, next: Next| {
        let door = shared.clone();
        async move { respond(&door, request, next).await }
    }));
    Router::new().nest(&door.settings.base, transactions::only_reading(door, VOLUMES_ARE_NOT, routes))
}

async fn respond(door: &LdpDoor, request: Request, next: Next) -> Response {
    let LdpSettings { base, mount, require_condition, .. } = &door.settings;
    let constraints = format!("{mount}{base}/fcr:constraints");
    let member = Member::of(&format!("{mount}{base}{}", request.uri().path()));
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    // PUT replaces existing members only, and creates nothing.
    let is_refused = *require_condition && request.method() == Method::PUT && !is_conditional(request.headers());
    let named = if is_reading { Part::at(request.uri().path()) } else { None };
    let shown = named.filter(|(_, part)| part.is_page_preferred(request.headers()));
    let response = match shown {
        _ if is_refused => LdpError::PreconditionRequired.into_response(),
        Some((id, part)) => page(door, &id, part, request, next).await.unwrap_or_else(IntoResponse::into_response),
        None => next.run(request).await,
    };
    let mut response = member.describe(response, &constraints);
    if is_reading {
        response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    }
    response
}

/// The page of a member. The data door sends the bytes for it: it knows who may read them, and
/// records who did.
async fn page(
    door: &LdpDoor,
    id: &VolumeId,
    part: Part,
    mut request: Request,
    next: Next,
) -> Result<Response, LdpError> {
    let party = request.extensions().get::<Requester>().map(Requester::party).unwrap_or_default();
    let site = Site::of(&door.settings, request.uri(), request.headers(), request.extensions())?;
    let is_head = request.method() == Method::HEAD;
    let headers = request.headers_mut();
    conditions::remove(headers);
    headers.remove(header::ACCEPT_ENCODING);
    headers.insert(header::ACCEPT, HeaderValue::from_static(part.media_type()));
    let share = door.library.memory.reserve(&party, PAGE_BYTES).await?;
    let _turn = door.readings.turn(&party).await?;
    let (mut parts, body) = next.run(request).await.into_parts();
    if parts.status != StatusCode::OK {
        return Ok(Response::from_parts(parts, body));
    }
    parts.headers = HeaderMap::new();
    Format::Html.insert(&mut parts.headers);
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let mut response = Response::from_parts(parts, Body::empty());
    if is_head {
        return Ok(unsent(response));
    }
    let beginning = beginning(body).await?;
    let page = page_of_member(&door.library, &site, id, part, &beginning).await?;
    *response.body_mut() = with_share(page, share)?.into();
    Ok(response)
}

/// The first bytes of a body.
async fn beginning(body: Body) -> Result<Beginning, LdpError> {
    let mut pieces = body.into_data_stream();
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| LdpError::Internal(error.to_string()))?;
        let room = SHOWN_BYTES - text.len();
        text.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            return Ok(Beginning { text, is_cut: true });
        }
    }
    Ok(Beginning { text, is_cut: false })
}

/// `OPTIONS` of a member of a volume (LDP 1.0, section 4.2.8).
pub async fn member(State(door): State<Arc<LdpDoor>>, Path(segments): Path<Vec<String>>, request: Parts) -> Response {
    let answer = async {
        let segment = segments.first().map(String::as_str).unwrap_or_default();
        let id = VolumeId::from_path_segment(segment).map_err(|error| LdpError::Volume(error.to_string()))?;
        volumes::within(&request.extensions, &id)?;
        door.library.volumes.volume(&id).await?;
        let path = format!("{}{}", door.settings.mount, request.uri.path());
        Ok::<_, LdpError>(Member::of(&path).describe(empty(StatusCode::OK), ""))
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

/// A member, known by its path.
struct Member {
    allow: HeaderValue,
    /// The path of its description: the METS describes each page.
    description: Option<String>,
}

impl Member {
    fn of(path: &str) -> Self {
        let allow = if path.ends_with("/record") { ALLOW } else { ALLOW_REPLACING };
        let description = path.rsplit_once("/pages/").map(|(volume, _)| format!("{volume}/mets"));
        Self { allow, description }
    }

    /// Adds its headers to a response.
    fn describe(self, mut response: Response, constraints: &str) -> Response {
        let status = response.status();
        let headers = response.headers_mut();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            headers.insert(header::ALLOW, self.allow);
            for class in Model::Binary.types() {
                links::append(headers, class.as_str(), "type");
            }
            if let Some(description) = self.description {
                links::append(headers, &description, "describedby");
            }
        } else if REFUSED_BODIES.contains(&status) {
            links::append(headers, constraints, ldp::CONSTRAINED_BY.as_str());
        }
        response
    }
}
