//! Pages, METS and records of volumes as resources. The data door sends and replaces their bytes,
//! through routes that are mounted here too. This module wraps those routes with the headers of
//! resources and with this door's conditions for changes.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hathi::VolumeId;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use rdf::vocab::ldp;

use crate::conditions::is_conditional;
use crate::errors::LdpError;
use crate::model::Model;
use crate::request::empty;
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

/// Mounts the routes that send or replace bytes of volumes at this door's addresses. It requires a
/// condition if this door does, adds the headers of resources to responses, and links to the page
/// of constraints if a body is refused. No change of volumes is part of a transaction.
pub fn members(door: &Arc<LdpDoor>, routes: Router) -> Router {
    let LdpSettings { base, mount, require_condition, .. } = door.settings.clone();
    let routes = routes.layer(from_fn(move |request: Request, next: Next| {
        let constraints = format!("{mount}{base}/fcr:constraints");
        let member = Member::of(&format!("{mount}{base}{}", request.uri().path()));
        // PUT replaces existing members only, and creates nothing.
        let is_refused = require_condition && request.method() == Method::PUT && !is_conditional(request.headers());
        async move {
            let response = match is_refused {
                true => LdpError::PreconditionRequired.into_response(),
                false => next.run(request).await,
            };
            member.describe(response, &constraints)
        }
    }));
    Router::new().nest(&door.settings.base, transactions::only_reading(door, VOLUMES_ARE_NOT, routes))
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
