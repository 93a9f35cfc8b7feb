//! Pages of a container's members (W3C LDP Paging 1.0): which page a query requests, and the links
//! to the others.

use ::volumes::Listing;
use axum::response::Response;
use heads::{ListToken, ObjectsResult};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use library::Library;
use rdf::vocab::ldp;
use repository::{ChildPage, Resource};

use crate::errors::LdpError;
use crate::links;
use crate::query::{self, Parameters};

/// Most members of one page, whatever the client requests.
const PAGE_MEMBERS_MAX: usize = 10_000;

/// One page of a container.
pub struct Page {
    /// Where it is in the listing.
    pub place: Place,
    /// Most members on it.
    pub members_max: usize,
}

/// Where a page is in a listing.
pub enum Place {
    /// It begins at the first member.
    First,
    /// It begins here.
    After(ListToken),
    /// It ends here.
    Before(ListToken),
    /// It is the last one, wherever that begins.
    Last,
}

impl Place {
    /// At most `members_max` members of a container: fewer if they have very long IRIs.
    pub async fn members(
        &self,
        library: &Library,
        container: &Resource,
        members_max: usize,
    ) -> ObjectsResult<ChildPage> {
        let repository = &library.repository;
        match self {
            Self::First => repository.children(container, None, members_max).await,
            Self::After(after) => repository.children(container, Some(after), members_max).await,
            Self::Before(before) => repository.children_before(container, Some(before), members_max).await,
            Self::Last => repository.children_before(container, None, members_max).await,
        }
    }

    /// At most `volumes_max` volumes.
    pub async fn volumes(&self, library: &Library, volumes_max: usize) -> ObjectsResult<Listing> {
        let volumes = &library.volumes;
        match self {
            Self::First => volumes.list(None, volumes_max).await,
            Self::After(after) => volumes.list(Some(after), volumes_max).await,
            Self::Before(before) => volumes.list_before(Some(before), volumes_max).await,
            Self::Last => volumes.list_before(None, volumes_max).await,
        }
    }

    /// Where it begins, if the client says that.
    pub fn begins(&self) -> Option<&ListToken> {
        match self {
            Self::After(after) => Some(after),
            Self::First | Self::Before(_) | Self::Last => None,
        }
    }
}

impl Page {
    /// The page that a query requests; `None` if it requests none.
    pub fn of(query: Option<&str>) -> Result<Option<Self>, LdpError> {
        let asked = Parameters::among(query, &query::OF_RESOURCES)?;
        let members_max = asked.number("limit", PAGE_MEMBERS_MAX)?;
        let token = |value: &str| value.parse::<ListToken>().map_err(|error| error.to_string());
        let (after, before) = (asked.read_as("after", token)?, asked.read_as("before", token)?);
        let is_last = asked.truth("last")?.unwrap_or(false);
        let place = match (after, before) {
            (Some(_), Some(_)) => return Err(LdpError::parameter("before", "`after` is given too")),
            _ if is_last => Place::Last,
            (Some(after), None) => Place::After(after),
            (None, Some(before)) => Place::Before(before),
            (None, None) if members_max.is_none() => return Ok(None),
            (None, None) => Place::First,
        };
        Ok(Some(Self { place, members_max: members_max.unwrap_or(PAGE_MEMBERS_MAX) }))
    }

    /// Marks a response as this page of the container `iri`, with links to the others. This one
    /// begins at `begins`, and the next one at `next`; `None`: there is none before it or after it.
    pub fn describe(&self, iri: &str, begins: Option<&ListToken>, next: Option<&ListToken>, headers: &mut HeaderMap) {
        // The tag is that of the container. A page has none, and so it has no date either: a client
        // would compare only that, and two children may come within one second.
        headers.remove(header::ETAG);
        headers.remove(header::LAST_MODIFIED);
        links::append(headers, ldp::PAGE.as_str(), "type");
        links::append(headers, iri, "canonical");
        let mut link = |place: Place, rel: &str| links::append(headers, &address(iri, self.members_max, &place), rel);
        link(Place::First, "first");
        link(Place::Last, "last");
        if let Some(begins) = begins {
            link(Place::Before(begins.clone()), "prev");
        }
        if let Some(next) = next {
            link(Place::After(next.clone()), "next");
        }
    }
}

/// Section 6.2: a client that prefers pages of some size is redirected to the first one.
pub fn to_first(iri: &str, members_max: usize, mut response: Response) -> Result<Response, LdpError> {
    *response.status_mut() = StatusCode::SEE_OTHER;
    let location = HeaderValue::try_from(address(iri, members_max.min(PAGE_MEMBERS_MAX), &Place::First));
    let location = location.map_err(|error| LdpError::Internal(error.to_string()))?;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().remove(header::ETAG);
    Ok(response)
}

/// The address of a page.
pub fn address(iri: &str, members_max: usize, place: &Place) -> String {
    let place = match place {
        Place::First => String::new(),
        Place::After(after) => format!("&after={after}"),
        Place::Before(before) => format!("&before={before}"),
        Place::Last => "&last=true".to_owned(),
    };
    format!("{iri}?limit={members_max}{place}")
}
