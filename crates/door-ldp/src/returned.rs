//! The response to a creation or a replacement, as its client prefers it (RFC 7240, section 4.2):
//! minimal, or with the current representation.

use axum::response::Response;
use heads::ResourcePath;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use repository::Written;

use crate::address::{At, Facet, Target};
use crate::conditions::{self, Validators};
use crate::errors::LdpError;
use crate::incoming::Incoming;
use crate::links;
use crate::prefer::{Preferences, ReturnPreference};
use crate::request::{LdpRequest, empty};

impl LdpRequest {
    /// The response to a creation. The body gives its share of the memory back before the
    /// representation takes one: otherwise two changes could wait for each other.
    pub async fn created(&self, written: &Written, incoming: Incoming) -> Result<Response, LdpError> {
        let mut response = empty(StatusCode::CREATED);
        let headers = response.headers_mut();
        let iri = self.site.iri(&written.path);
        let location = HeaderValue::try_from(&iri).map_err(|error| LdpError::Internal(error.to_string()))?;
        headers.insert(header::LOCATION, location);
        links::append(headers, rdf::vocab::ldp::RESOURCE.as_str(), "type");
        if let Incoming::Binary(_) = incoming {
            // LDP 1.0, section 5.2.3.12: the target is the container, or the new resource itself.
            links::append_of(headers, &iri, &self.site.iri_of(&written.path, "metadata"), "describedby");
        }
        self.confirm(written, &incoming, headers);
        drop(incoming);
        Ok(self.returned(&written.path, response).await)
    }

    /// The entity tag for the writer's next change, and whether the response is minimal as
    /// preferred.
    pub fn confirm(&self, written: &Written, incoming: &Incoming, headers: &mut HeaderMap) {
        Preferences::confirm_minimal(&self.headers, headers);
        match incoming {
            Incoming::Binary(_) => Validators::of_bytes(written.revision),
            Incoming::Graph(..) => Validators::of_graph(written.revision, None, "w"),
        }
        .insert(headers);
    }

    /// The response to a replacement, likewise.
    pub async fn replaced(&self, written: &Written, incoming: Incoming) -> Response {
        let mut response = empty(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        links::append(headers, rdf::vocab::ldp::RESOURCE.as_str(), "type");
        self.confirm(written, &incoming, headers);
        drop(incoming);
        self.returned(&written.path, response).await
    }

    /// The response to a change of the resource at `path`: with its representation, by `Accept`, if
    /// the client prefers that. The change is made by then, and a preference is not a condition. If
    /// no acceptable representation can be sent with 200, the response stays minimal and does not
    /// claim to follow the preference.
    pub async fn returned(&self, path: &ResourcePath, short: Response) -> Response {
        if Preferences::of(&self.headers).answer != Some(ReturnPreference::Representation) {
            return short;
        }
        let reading = self.reading(path);
        match reading.represented().await {
            Ok(whole) if whole.status() == StatusCode::OK => reading.answered(short, whole),
            Ok(_) => short,
            Err(error) => {
                tracing::debug!(%error, "the representation after a change is not sent");
                short
            }
        }
    }

    /// A request to read what this one changed.
    fn reading(&self, path: &ResourcePath) -> Self {
        let mut headers = self.headers.clone();
        conditions::remove(&mut headers);
        let target = Target { path: path.clone(), facet: self.target.facet, at: At::Present };
        self.request_like(Method::GET, target, headers)
    }

    /// A representation as the response to a change, with the headers of the minimal response.
    fn answered(&self, short: Response, mut whole: Response) -> Response {
        *whole.status_mut() = if short.status() == StatusCode::CREATED { StatusCode::CREATED } else { StatusCode::OK };
        let headers = whole.headers_mut();
        if let Some(location) = short.headers().get(header::LOCATION) {
            headers.insert(header::LOCATION, location.clone());
        }
        let iri = match self.target.facet {
            Facet::Description => self.site.iri_of(self.path(), "metadata"),
            _ => self.site.iri(self.path()),
        };
        // IRIs are percent-encoded here, so it is a value.
        if let Ok(location) = HeaderValue::try_from(iri) {
            headers.insert(header::CONTENT_LOCATION, location);
        }
        Preferences::of(&self.headers).confirm(headers);
        whole
    }
}
