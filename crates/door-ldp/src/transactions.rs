//! Transactions (Fedora Atomic Batch Operations): at `fcr:tx` they begin, and each has an address
//! below it. A request with `Atomic-ID` is one of the transaction that it names.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use audit::Requester;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use door_http::one_value;
use heads::ResourcePath;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use library::Library;
use repository::{Phase, ResourceError, Transaction, TransactionId};
use store::UnixMillis;

use crate::address::{Facet, Site};
use crate::errors::LdpError;
use crate::joined::Joined;
use crate::request::{LdpRequest, empty};
use crate::{LdpDoor, links};

/// Names the transaction of a request, and of a response.
pub const ATOMIC_ID: HeaderName = HeaderName::from_static("atomic-id");
/// When the transaction expires.
const ATOMIC_EXPIRES: HeaderName = HeaderName::from_static("atomic-expires");

/// The relation to the address at which transactions begin.
const ENDPOINT: &str = "http://fedora.info/definitions/v4/transaction#endpoint";
/// The relation to the address at which a transaction is committed.
const COMMIT_ENDPOINT: &str = "http://fedora.info/definitions/v4/transaction#commitEndpoint";

/// The name in addresses, without `fcr:`.
const NAME: &str = "tx";

const ALLOW_ALL: &str = "POST, OPTIONS";
const ALLOW_ONE: &str = "GET, HEAD, OPTIONS, POST, PUT, DELETE";

/// Why a change of a volume is refused that names a transaction.
pub const VOLUMES_ARE_NOT: &str = "volumes are not changed";

impl LdpRequest {
    /// Makes the request one of the transaction that its header names.
    pub async fn join_transaction(&mut self) -> Result<(), LdpError> {
        if matches!(self.target.facet, Facet::Transactions | Facet::Transaction(_)) {
            return Ok(());
        }
        let library = self.library().clone();
        let Some((id, until)) = named(&library, &self.headers, &self.requester).await? else { return Ok(()) };
        let repository = library.repository.in_transaction(id);
        self.joined = Some(Joined { id, until, library: Library { repository, ..library } });
        Ok(())
    }

    /// Adds to a response which transaction it is about.
    pub fn name_transaction(&self, headers: &mut HeaderMap) {
        if let Some(Joined { id, until, .. }) = &self.joined {
            name_in(&self.site, *id, *until, headers);
        }
    }

    /// Links to where transactions begin.
    pub fn link_transactions(&self, headers: &mut HeaderMap) {
        links::append(headers, &self.site.iri_of(&ResourcePath::root(), NAME), ENDPOINT);
    }

    /// Refuses what is not done in a transaction.
    pub fn refuse_in_transaction(&self, what: &'static str) -> Result<(), LdpError> {
        match &self.joined {
            Some(_) => Err(ResourceError::NotInTransaction(what).into()),
            None => Ok(()),
        }
    }

    /// The response at `fcr:tx`.
    pub async fn respond_about_transactions(self: &Arc<Self>) -> Result<Response, LdpError> {
        match self.method.as_str() {
            "POST" => {
                let (id, begun) = self.library().repository.begin_transaction(&self.requester).await?;
                let mut response = empty(StatusCode::CREATED);
                let headers = response.headers_mut();
                insert(headers, header::LOCATION, address(&self.site, id));
                // Fedora 6.1 has it in this header only.
                insert(headers, header::EXPIRES, http_date(begun.until));
                self.describe_transaction(id, &begun, headers);
                Ok(response)
            }
            "OPTIONS" => Ok(allowing(ALLOW_ALL)),
            _ => Err(self.not_allowed(ALLOW_ALL)),
        }
    }

    /// The response at the address of a transaction.
    pub async fn respond_about_transaction(self: &Arc<Self>, id: TransactionId) -> Result<Response, LdpError> {
        let repository = &self.library().repository;
        let state = match self.method.as_str() {
            "OPTIONS" => return Ok(allowing(ALLOW_ONE)),
            "GET" | "HEAD" => repository.transaction_of(id, &self.requester).await.map(Some),
            "POST" => repository.renew_transaction(id, &self.requester).await.map(Some),
            "PUT" | "DELETE" => {
                let asked = self.clone();
                // It is completed when the client leaves.
                let ended = tokio::spawn(async move { asked.end_transaction(id).await });
                ended.await.map_err(|error| LdpError::Internal(error.to_string()))?.map(|()| None)
            }
            _ => return Err(self.not_allowed(ALLOW_ONE)),
        };
        match state {
            Ok(Some(open)) if open.phase.is_undecided() => {
                let mut response = empty(StatusCode::NO_CONTENT);
                self.describe_transaction(id, &open, response.headers_mut());
                Ok(response)
            }
            Ok(Some(over)) => Err(LdpError::EndedTransaction(ResourceError::TransactionOver { id, phase: over.phase })),
            Ok(None) => Ok(empty(StatusCode::NO_CONTENT)),
            Err(error @ ResourceError::NoTransaction(_)) => Err(LdpError::AbsentTransaction(error)),
            // If the commit is refused, it is open again.
            Err(error @ ResourceError::TransactionOver { phase: Phase::Closing, .. }) => Err(error.into()),
            Err(error @ ResourceError::TransactionOver { .. }) => Err(LdpError::EndedTransaction(error)),
            Err(ResourceError::Committing { id, why }) => {
                tracing::warn!(transaction = %id, why, "a committed transaction is carried out later");
                Ok(empty(StatusCode::ACCEPTED))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn end_transaction(&self, id: TransactionId) -> Result<(), ResourceError> {
        let repository = &self.library().repository;
        match self.method.as_str() {
            "PUT" => repository.commit_transaction(id, &self.requester).await,
            _ => repository.roll_back_transaction(id, &self.requester).await,
        }
    }

    fn describe_transaction(&self, id: TransactionId, state: &Transaction, headers: &mut HeaderMap) {
        insert(headers, ATOMIC_EXPIRES, http_date(state.until));
        insert(headers, header::ALLOW, ALLOW_ONE.to_owned());
        links::append(headers, &address(&self.site, id), COMMIT_ENDPOINT);
    }
}

/// Puts a layer around routes of this door whose objects are not part of transactions. A request
/// that names one is refused if it would change something, or if the transaction is not the
/// client's. `what` says why.
pub fn only_reading(door: &Arc<LdpDoor>, what: &'static str, routes: Router) -> Router {
    let door = door.clone();
    routes.layer(from_fn(move |request: Request, next: Next| {
        let door = door.clone();
        async move { read_beside(&door, what, request, next).await.unwrap_or_else(IntoResponse::into_response) }
    }))
}

async fn read_beside(door: &LdpDoor, what: &'static str, request: Request, next: Next) -> Result<Response, LdpError> {
    if !request.headers().contains_key(ATOMIC_ID) {
        return Ok(next.run(request).await);
    }
    let requester = request.extensions().get::<Requester>().cloned().unwrap_or_default().identity();
    let site = Site::of(&door.settings, request.uri(), request.headers(), request.extensions())?;
    let Some((id, until)) = named(&door.library, request.headers(), &requester).await? else {
        return Ok(next.run(request).await);
    };
    let mut response = match request.method().is_safe() {
        true => next.run(request).await,
        false => LdpError::from(ResourceError::NotInTransaction(what)).into_response(),
    };
    name_in(&site, id, until, response.headers_mut());
    Ok(response)
}

/// The transaction that the header of a request names, and when it expires. It is open, and of this
/// client.
async fn named(
    library: &Library,
    headers: &HeaderMap,
    requester: &str,
) -> Result<Option<(TransactionId, UnixMillis)>, LdpError> {
    let malformed = |why: String| LdpError::Header { name: "Atomic-ID", why };
    let named = one_value(headers, &ATOMIC_ID).map_err(|ambiguous| malformed(ambiguous.to_string()))?;
    let Some(named) = named else { return Ok(None) };
    let no_address = || malformed("it is no address of a transaction".to_owned());
    // By whatever name the client reaches the server.
    let (_, id) = named.to_str().ok().and_then(|named| named.rsplit_once("fcr:tx/")).ok_or_else(no_address)?;
    let id = TransactionId::parse(id).ok_or_else(no_address)?;
    let until = library.repository.continue_transaction(id, requester).await?.until;
    Ok(Some((id, until)))
}

/// Adds to a response which transaction it is about.
fn name_in(site: &Site, id: TransactionId, until: UnixMillis, headers: &mut HeaderMap) {
    insert(headers, ATOMIC_ID, address(site, id));
    insert(headers, ATOMIC_EXPIRES, http_date(until));
}

/// The address of a transaction.
fn address(site: &Site, id: TransactionId) -> String {
    format!("{}/{id}", site.iri_of(&ResourcePath::root(), NAME))
}

fn http_date(time: UnixMillis) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(time.0))
}

fn allowing(methods: &'static str) -> Response {
    let mut response = empty(StatusCode::OK);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}
