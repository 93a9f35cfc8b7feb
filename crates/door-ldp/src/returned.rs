//! The response to a change as its client prefers it (RFC 7240, section 4.2): minimal, or with the
//! current representation.

use axum::response::Response;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use objects::ResourcePath;

use crate::address::{Facet, Target};
use crate::ask::Asked;
use crate::prefer::{Answer, Preferences};

/// Headers of a request that apply to the change, and not to the representation in its response.
const ABOUT_THE_CHANGE: [HeaderName; 6] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

impl Asked {
    /// The response to a change of the resource at `path`: with its representation, by `Accept`, if
    /// the client prefers that. The change is made by then, and a preference is not a condition. If
    /// no acceptable representation can be sent with 200, the response stays minimal and does not
    /// claim to follow the preference.
    pub async fn returned(&self, path: &ResourcePath, short: Response) -> Response {
        if Preferences::of(&self.headers).answer != Some(Answer::Representation) {
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
        for name in ABOUT_THE_CHANGE {
            headers.remove(name);
        }
        let target = Target { path: path.clone(), facet: self.target.facet };
        Self {
            door: self.door.clone(),
            party: self.party.clone(),
            method: Method::GET,
            site: self.site.clone(),
            target,
            headers,
            query: None,
        }
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
