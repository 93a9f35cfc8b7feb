//! The volumes of the library as resources: a container of all of them (at earlier times:
//! `volumes_then.rs`), and each as a container of its pages, its METS and its record
//! (`volume_members.rs`). The data door changes them, and has their versions.

use std::sync::Arc;

use ::volumes::Listing;
use ::volumes::Volume;
use area::{Area, OutsideArea};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use door_http::Path;
use hathi::VolumeId;
use heads::RevisionId;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header};
use rdf::vocab::{PREFIXES, ldp};
use rdf::{Literal, NamedNode, NamedNodeRef, Term, Triple, Writer};

use crate::address::{Site, kept_volume, kept_volumes};
use crate::arrange::Section;
use crate::conditions::{Reading, Validators};
use crate::errors::LdpError;
use crate::fedora::{ARCHIVAL_GROUP, LAST_MODIFIED};
use crate::format::Format;
use crate::model::{Members, Model};
use crate::paging::{self, Page};
use crate::prefer::Preferences;
use crate::request::{empty, unsent};
use crate::statements::{Statements, volume_contained};
use crate::{LdpDoor, links, pages, volumes_then};

/// The namespace of DCMI Metadata Terms.
const DCTERMS: &str = "http://purl.org/dc/terms/";
/// Methods of a volume.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// `GET`, `HEAD`, `OPTIONS` of the container of volumes.
pub async fn list(State(door): State<Arc<LdpDoor>>, request: Parts) -> Response {
    answer_list(&door, &request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer_list(door: &LdpDoor, request: &Parts) -> Result<Response, LdpError> {
    let asked = VolumeRequest::of(door, request)?;
    let mut response = asked.described(&[]);
    volumes_then::describe(door, &asked.site, response.headers_mut());
    if asked.method == Method::OPTIONS {
        return Ok(response);
    }
    if let Some(elsewhere) = volumes_then::negotiate_time(door, &asked).await? {
        return Ok(elsewhere);
    }
    let format = Format::negotiated(asked.headers).map_err(|error| unless_archive(asked.headers, error))?;
    let preferences = Preferences::of(asked.headers).without_others();
    asked.say(format, &preferences, &mut response);
    let page = Page::of(request.uri.query())?;
    let Format::Graph(syntax) = format else {
        return match asked.method == Method::HEAD {
            true => Ok(unsent(response)),
            false => pages::page_of_volumes(&door.library, &asked.site, page, response).await,
        };
    };
    let change = match preferences.containment {
        true => Some(door.library.volumes.volumes_changed().await?),
        false => None,
    };
    let validators = Validators::of_graph(RevisionId::ZERO, change, &variant(format, &preferences));
    validators.insert(response.headers_mut());
    let reading = match &page {
        Some(_) => validators.reading_undated(asked.headers)?,
        None => validators.reading(asked.headers)?,
    };
    if reading == Reading::NotModified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(unsent(response));
    }
    let iri = asked.site.shown(&kept_volumes()).unwrap_or_default();
    if let (Some(members_max), None) = (preferences.members_max, &page) {
        return paging::to_first(&iri, members_max, response);
    }
    let mut triples = types_of_container(&preferences);
    let writer = Writer::new(syntax, PREFIXES);
    let Some(page) = page else {
        let mut sections = vec![Section::Triples(triples)];
        sections.extend(preferences.containment.then_some(Section::Volumes));
        return asked.send(door, response, writer, sections).await;
    };
    let reported = match preferences.containment {
        true => page.place.volumes(&door.library, page.members_max).await?,
        false => Listing::default(),
    };
    triples.extend(reported.volumes.iter().map(volume_contained));
    let sections = vec![Section::Triples(triples)];
    let statements = Statements::new(door.library.clone(), asked.site.clone(), writer, sections);
    page.describe(&iri, reported.begins.as_ref(), reported.next.as_ref(), response.headers_mut());
    *response.body_mut() = statements.write().await?.into();
    Ok(response)
}

/// The requested statements about the container of volumes besides its members.
pub fn types_of_container(preferences: &Preferences) -> Vec<Triple> {
    let subject = NamedNode::new_unchecked(kept_volumes());
    let types = types(&[]).into_iter().filter(|_| preferences.managed);
    types.map(|class| typed(&subject, class)).collect()
}

/// The refusal if only an archive is acceptable, or nothing is.
pub fn unless_archive(headers: &HeaderMap, error: LdpError) -> LdpError {
    match Format::negotiated_or_archive(headers) {
        Ok(None) => LdpError::AllVolumes,
        _ => error,
    }
}

/// The mark that distinguishes representations of one state.
pub fn variant(format: Format, preferences: &Preferences) -> String {
    format!("{:x}{:x}", format.tag(), preferences.tag())
}

/// `GET`, `HEAD`, `OPTIONS` of one volume.
pub async fn volume(State(door): State<Arc<LdpDoor>>, Path(segment): Path<String>, request: Parts) -> Response {
    answer_volume(&door, &segment, &request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer_volume(door: &LdpDoor, segment: &str, request: &Parts) -> Result<Response, LdpError> {
    let id = VolumeId::from_path_segment(segment).map_err(|error| LdpError::Volume(error.to_string()))?;
    within(&request.extensions, &id)?;
    let asked = VolumeRequest::of(door, request)?;
    let volume = door.library.volumes.volume(&id).await?;
    let mut response = asked.described(&[ARCHIVAL_GROUP]);
    asked.link_descriptions(&volume, response.headers_mut());
    if door.library.volumes.keeps_versions() {
        asked.link_versions(&id, response.headers_mut());
    }
    if asked.method == Method::OPTIONS {
        return Ok(response);
    }
    let Some(format) = Format::negotiated_or_archive(asked.headers)? else {
        return to_archive(&id, &door.settings.mount, response);
    };
    let preferences = Preferences::of(asked.headers).without_others();
    asked.say(format, &preferences, &mut response);
    let Format::Graph(syntax) = format else {
        let listed = pages::Listed::of(request.uri.query())?;
        if asked.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let archive = archive(&id, &door.settings.mount);
        return pages::page_of_volume(&door.library, &asked.site, &volume, &listed, &archive, response).await;
    };
    let validators = Validators::of_graph(volume.revision, None, &variant(format, &preferences));
    validators.insert(response.headers_mut());
    if validators.reading(asked.headers)? == Reading::NotModified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(unsent(response));
    }
    let mut sections = vec![Section::Triples(statements(&volume, &preferences))];
    sections.extend(preferences.containment.then(|| Section::Pages(Box::new(volume), 0)));
    let writer = Writer::new(syntax, PREFIXES);
    asked.send(door, response, writer, sections).await
}

/// Refuses a volume that is not within the client's area.
pub fn within(extensions: &Extensions, id: &VolumeId) -> Result<(), OutsideArea> {
    extensions.get::<Area>().map_or(Ok(()), |area| area.check_volume(id))
}

/// Redirects to the data door, which sends archives of volumes with a length and ranges.
fn to_archive(id: &VolumeId, mount: &str, mut response: Response) -> Result<Response, LdpError> {
    let location = HeaderValue::try_from(archive(id, mount));
    let location = location.map_err(|error| LdpError::Internal(error.to_string()))?;
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// The address of the archive of a volume.
fn archive(id: &VolumeId, mount: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("volumeIDs", id.as_str()).finish();
    format!("{mount}/volumes?{query}")
}

/// The requested statements about a volume besides its pages.
fn statements(volume: &Volume, preferences: &Preferences) -> Vec<Triple> {
    let subject = NamedNode::new_unchecked(kept_volume(&volume.id));
    let types = types(&[ARCHIVAL_GROUP]).into_iter().filter(|_| preferences.managed);
    let mut triples: Vec<_> = types.map(|class| typed(&subject, class)).collect();
    let body = &volume.body;
    let id = Some(volume.id.to_string());
    for (term, value) in [
        ("identifier", &id),
        ("title", &body.title),
        ("date", &body.pub_date),
        ("language", &body.language),
        ("rights", &body.rights),
        ("accessRights", &body.access_profile),
    ] {
        let value = value.as_ref().filter(|_| preferences.description);
        let term = NamedNode::new_unchecked(format!("{DCTERMS}{term}"));
        triples.extend(value.map(|value| Triple::new(subject.clone(), term, Literal::from(value.as_str()))));
    }
    let modified: Term = crate::managed::time(volume.revision.time());
    triples.extend(preferences.managed.then(|| Triple::new(subject.clone(), LAST_MODIFIED.into_owned(), modified)));
    let contains = |what: &str| {
        let member = NamedNode::new_unchecked(format!("{}/{what}", subject.as_str()));
        Triple::new(subject.clone(), ldp::CONTAINS.into_owned(), member)
    };
    if preferences.containment {
        triples.push(contains("mets"));
        triples.extend(body.record.map(|_| contains("record")));
    }
    triples
}

fn types(more: &[NamedNodeRef<'static>]) -> Vec<NamedNodeRef<'static>> {
    let mut types = Model::Container(Members::Basic).types();
    types.extend(more);
    types
}

fn typed(subject: &NamedNode, class: NamedNodeRef<'_>) -> Triple {
    Triple::new(subject.clone(), rdf::vocab::rdf::TYPE.into_owned(), class.into_owned())
}

/// The parts of a request that these responses depend on.
pub struct VolumeRequest<'a> {
    pub method: &'a Method,
    pub headers: &'a HeaderMap,
    pub site: Site,
}

impl<'a> VolumeRequest<'a> {
    pub fn of(door: &LdpDoor, request: &'a Parts) -> Result<Self, LdpError> {
        let site = Site::of(&door.settings, &request.uri, &request.headers, &request.extensions)?;
        Ok(Self { method: &request.method, headers: &request.headers, site })
    }

    pub fn described(&self, more: &[NamedNodeRef<'static>]) -> Response {
        let mut response = empty(StatusCode::OK);
        for class in types(more) {
            links::append(response.headers_mut(), class.as_str(), "type");
        }
        response.headers_mut().insert(header::ALLOW, ALLOW);
        response
    }

    /// Adds links to the members that describe a volume.
    fn link_descriptions(&self, volume: &Volume, headers: &mut HeaderMap) {
        let record = volume.body.record.map(|_| "record");
        for member in std::iter::once("mets").chain(record) {
            let iri = self.site.shown(&format!("{}/{member}", kept_volume(&volume.id))).unwrap_or_default();
            links::append(headers, &iri, "describedby");
        }
    }

    /// Adds links to where the data door negotiates the time of a volume, and lists its versions
    /// (RFC 7089, section 4.2.1).
    fn link_versions(&self, id: &VolumeId, headers: &mut HeaderMap) {
        let volume = self.site.data_iri(id);
        links::append(headers, &volume, "timegate");
        links::append(headers, &format!("{volume}/versions/"), "timemap");
    }

    pub fn say(&self, format: Format, preferences: &Preferences, response: &mut Response) {
        let headers = response.headers_mut();
        format.insert(headers);
        headers.append(header::VARY, HeaderValue::from_static("accept, prefer"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        // A page for people has everything.
        if format != Format::Html {
            preferences.confirm(headers);
        }
    }

    pub async fn send(
        &self,
        door: &LdpDoor,
        mut response: Response,
        writer: Writer,
        sections: Vec<Section>,
    ) -> Result<Response, LdpError> {
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let statements = Statements::new(door.library.clone(), self.site.clone(), writer, sections);
        *response.body_mut() = statements.write().await?.into();
        Ok(response)
    }
}
