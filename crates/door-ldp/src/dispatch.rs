//! From a request to the method that responds to it, and from an error to its response.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use heads::{ObjectsError, ResourcePath, RevisionId};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use rdf::vocab::ldp;
use repository::ResourceError;

use crate::address::{At, Facet, wished_name};
use crate::errors::LdpError;
use crate::model::Model;
use crate::post::SLUG;
use crate::request::{LdpRequest, empty, refuse_volumes};
use crate::version_name::VersionName;
use crate::{LdpDoor, LdpSettings, constraints, links, query, search, timemap};

/// Responds to a request.
pub async fn respond(State(door): State<Arc<LdpDoor>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let LdpSettings { base, mount, .. } = &door.settings;
    let elsewhere = without_slash(&parts.uri, base).map(|address| format!("{mount}{address}"));
    let is_bare_base = parts.uri.path() == base;
    match LdpRequest::of(door, parts) {
        Ok(mut asked) => {
            let joined = asked.join_transaction().await;
            let asked = Arc::new(asked);
            let answered = match (joined, elsewhere) {
                (Err(error), _) => Err(error),
                (Ok(()), Some(address)) => moved(&address),
                (Ok(()), None) => asked.clone().respond(body).await,
            };
            let answered = answered.map(|mut response| {
                asked.name_transaction(response.headers_mut());
                response
            });
            match answered {
                Ok(mut response) if is_bare_base && response.status().is_success() => {
                    asked.name_root(response.headers_mut());
                    response
                }
                Ok(response) => response,
                Err(error) => asked.refuse(error).await,
            }
        }
        Err(error) => error.into_response(),
    }
}

/// The address without the slash at its end; `None` if it has none, or is that of the root, which
/// ends with one. Addresses here end without a slash; after one, relative IRIs would have another
/// meaning.
fn without_slash(uri: &Uri, base: &str) -> Option<String> {
    let path = uri.path().strip_suffix('/').filter(|path| path.len() > base.len())?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("{path}{query}"))
}

fn moved(address: &str) -> Result<Response, LdpError> {
    let mut response = empty(StatusCode::PERMANENT_REDIRECT);
    let location = HeaderValue::try_from(address).map_err(|error| LdpError::Internal(error.to_string()))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

impl LdpRequest {
    /// Calls the method that responds.
    async fn respond(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        if !self.method.is_safe() && self.target.facet != Facet::Search {
            refuse_volumes(self.path())?;
            Model::refuse_unknown(&self.headers, self.keeps_versions_of_result())?;
        }
        if matches!(self.target.facet, Facet::Itself | Facet::Description) {
            query::refuse_other_graph(self.query.as_deref(), &self.site.iri_of_target(&self.target))?;
        }
        match self.target.at {
            At::Present => {}
            At::All if self.method == Method::POST => {
                self.refuse_in_transaction("versions are not made or restored")?;
                return self.respond_about_all_versions(body).await;
            }
            At::All => return self.respond_about_all_versions(body).await,
            At::Version(name) => return self.respond_about_version(name).await,
        }
        match (self.target.facet, self.method.as_str()) {
            (Facet::Constraints, "GET" | "HEAD") => Ok(constraints::page(&self.site, self.settings().default_model)),
            (Facet::Style, "GET" | "HEAD") => Ok(constraints::style()),
            (Facet::Constraints | Facet::Style, _) => Err(self.not_allowed("GET, HEAD")),
            (Facet::Search, "GET" | "HEAD") => self.search().await,
            (Facet::Search, "OPTIONS") => Ok(search::options()),
            (Facet::Search, _) => Err(self.not_allowed(search::ALLOW)),
            (Facet::Forms, _) => self.respond_with_forms(body).await,
            (Facet::Fixity, "GET" | "HEAD") => self.check_fixity().await,
            (Facet::Fixity, _) => Err(self.not_allowed("GET, HEAD")),
            (Facet::Transactions, _) => self.respond_about_transactions().await,
            (Facet::Transaction(id), _) => self.respond_about_transaction(id).await,
            (Facet::Tombstone, "DELETE") => self.delete_tombstone().await,
            (Facet::Tombstone, _) => Err(self.not_allowed("DELETE")),
            (_, "GET" | "HEAD") => self.get().await,
            (_, "OPTIONS") => self.options().await,
            (Facet::Itself, "POST") => self.post(body).await,
            (_, "PUT") => self.put(body).await,
            (_, "PATCH") => self.patch(body).await,
            (Facet::Itself, "DELETE") => self.delete().await,
            (Facet::Description, _) => Err(self.not_allowed("GET, HEAD, OPTIONS, PUT, PATCH")),
            (Facet::Itself, _) => Err(self.not_allowed("GET, HEAD, OPTIONS")),
        }
    }

    /// Whether versions are kept of what the request makes or changes. A new child may get the name
    /// that its client wishes, or another one.
    fn keeps_versions_of_result(&self) -> bool {
        let slug = self.headers.get(SLUG).filter(|_| self.method == Method::POST);
        let wish = slug.and_then(|slug| wished_name(&String::from_utf8_lossy(slug.as_bytes())));
        let child = wish.and_then(|wish| self.path().child(&wish).ok());
        let repository = &self.library().repository;
        [Some(self.path()), child.as_ref()].into_iter().flatten().all(|path| repository.keeps_versions(path))
    }

    /// The response to a request for `fcr:versions`.
    async fn respond_about_all_versions(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        match self.method.as_str() {
            "GET" | "HEAD" if self.asks_for_deleted_members()? => self.get_deleted_members().await,
            "GET" | "HEAD" => self.get_timemap().await,
            "OPTIONS" => self.timemap_options().await,
            "POST" => self.post_version(body).await,
            _ => Err(self.not_allowed(timemap::ALLOW)),
        }
    }

    /// The response to a request for a version, which never changes.
    async fn respond_about_version(&self, name: VersionName) -> Result<Response, LdpError> {
        match self.method.as_str() {
            "GET" | "HEAD" => self.get_memento(name).await,
            "OPTIONS" => self.memento_options(name).await,
            "DELETE" if self.settings().delete_versions => {
                self.refuse_in_transaction("versions are not deleted")?;
                self.delete_memento(name).await
            }
            _ => Err(self.not_allowed(self.memento_methods())),
        }
    }

    /// The response for an error.
    async fn refuse(&self, error: LdpError) -> Response {
        let explained = error.is_explained();
        let is_missing = matches!(error, LdpError::Resource(ResourceError::Absent(_) | ResourceError::Gone { .. }));
        let is_original = matches!(self.target.facet, Facet::Itself | Facet::Description);
        let was_there = is_missing && is_original && self.has_versions().await;
        let negotiates = is_original && self.library().repository.keeps_versions(self.path());
        let tombstone = match &error {
            LdpError::Resource(ResourceError::Gone { tombstone }) => Some(tombstone.clone()),
            _ => None,
        };
        if matches!(error, LdpError::Resource(ResourceError::Objects(ObjectsError::Held { .. }))) {
            self.library().repository.note_conflict();
        }
        let mut response = self.site.shown_error(error).into_response();
        // Each refused request for a version leads to the rules (Fedora API, section 4.3.3).
        let asks_for_version = self.target.at == At::All && self.method == Method::POST;
        let explained = explained || (asks_for_version && response.status().is_client_error());
        let headers = response.headers_mut();
        self.name_transaction(headers);
        if explained {
            let page = self.site.iri_of(&ResourcePath::root(), "constraints");
            links::append(headers, &page, ldp::CONSTRAINED_BY.as_str());
        }
        if let Some(tombstone) = tombstone {
            links::append(headers, &self.site.iri_of(&tombstone, "tombstone"), "hasTombstone");
        }
        if was_there {
            self.describe_in_time(headers);
        } else if negotiates && self.target.at == At::Present {
            // The same request with a time may get a version.
            headers.append(header::VARY, HeaderValue::from_static("Accept-Datetime"));
        }
        response
    }

    /// Whether a version of the target can be read.
    async fn has_versions(&self) -> bool {
        let Ok(versions) = self.versions().await else { return false };
        matches!(versions.revision_from(RevisionId::ZERO).await, Ok(Some(_)))
    }

    /// Adds `Content-Location` of the root, whose address ends with a slash, if the request omitted
    /// the slash.
    fn name_root(&self, headers: &mut HeaderMap) {
        let iri = self.site.iri(self.path());
        if self.method.is_safe()
            && let Ok(value) = HeaderValue::try_from(iri)
        {
            headers.insert(header::CONTENT_LOCATION, value);
        }
    }
}
