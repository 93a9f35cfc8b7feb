//! Pages of a container's members (W3C LDP Paging 1.0): which page a query requests, and the links
//! to the others.

use axum::response::Response;
use heads::{ListToken, ObjectsError};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rdf::vocab::ldp;

use crate::errors::LdpError;
use crate::links;
use crate::query::{self, Parameters};

/// Most members of one page, whatever the client requests.
const PAGE_MEMBERS_MAX: usize = 10_000;

/// One page of a container.
pub struct Page {
    /// Where it begins; `None` for the first member.
    pub after: Option<ListToken>,
    /// Most members on it.
    pub members_max: usize,
    /// Whether it is the last one, wherever that begins.
    pub is_last: bool,
}

impl Page {
    /// The page that a query requests; `None` if it requests none.
    pub fn of(query: Option<&str>) -> Result<Option<Self>, LdpError> {
        let asked = Parameters::among(query, &query::OF_RESOURCES)?;
        let members_max = asked.number("limit", PAGE_MEMBERS_MAX)?;
        let after = asked.read_as("after", |value| value.parse().map_err(|error: ObjectsError| error.to_string()))?;
        let is_last = asked.truth("last")?.unwrap_or(false);
        match (members_max, after) {
            (None, None) if !is_last => Ok(None),
            (members_max, after) => {
                Ok(Some(Self { after, members_max: members_max.unwrap_or(PAGE_MEMBERS_MAX), is_last }))
            }
        }
    }

    /// Marks a response as this page of the container `iri`, with links to the others.
    pub fn describe(&self, iri: &str, next: Option<&ListToken>, headers: &mut HeaderMap) {
        // The tag is that of the container. A page has none.
        headers.remove(header::ETAG);
        links::append(headers, ldp::PAGE.as_str(), "type");
        links::append(headers, iri, "canonical");
        let first = address(iri, self.members_max, None);
        links::append(headers, &first, "first");
        links::append(headers, &format!("{first}&last=true"), "last");
        if let Some(next) = next {
            links::append(headers, &address(iri, self.members_max, Some(next)), "next");
        }
    }
}

/// Section 6.2: a client that prefers pages of some size is redirected to the first one.
pub fn to_first(iri: &str, members_max: usize, mut response: Response) -> Result<Response, LdpError> {
    *response.status_mut() = StatusCode::SEE_OTHER;
    let location = HeaderValue::try_from(address(iri, members_max.min(PAGE_MEMBERS_MAX), None));
    let location = location.map_err(|error| LdpError::Internal(error.to_string()))?;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().remove(header::ETAG);
    Ok(response)
}

/// The address of a page.
pub fn address(iri: &str, members_max: usize, after: Option<&ListToken>) -> String {
    let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
    format!("{iri}?limit={members_max}{after}")
}
