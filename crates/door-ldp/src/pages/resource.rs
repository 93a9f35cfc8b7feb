//! The page of a resource.

use axum::response::Response;
use door_http::body::with_share;
use http::Method;
use maud::{Markup, html};
use rdf::Graph;
use repository::{ChildPage, Kind, Membership, Resource};

use super::members::{self, MEMBERS, MEMBERS_MAX, Members};
use super::members_then::Asked;
use super::terms::Title;
use super::{about, about_part, described, local, name_of, terms};
use crate::address::{At, FORMS, Facet, Target, kept_iri};
use crate::errors::LdpError;
use crate::paging::{Page, Place};
use crate::request::{LdpRequest, unsent};
use crate::statements::is_container;
use crate::stored::{expected_bytes, kept_description};
use crate::timegate::State;
use crate::{deleted, managed};

impl LdpRequest {
    /// The page of a resource, or of the description of bytes. A container's page has some members.
    pub async fn page_of(
        &self,
        resource: &Resource,
        giving: &[(Membership, Resource)],
        page: Option<Page>,
        mut response: Response,
    ) -> Result<Response, LdpError> {
        let members_max = page.as_ref().map_or(MEMBERS, |page| page.members_max.min(MEMBERS_MAX));
        let place = page.as_ref().map_or(&Place::First, |page| &page.place);
        if self.method == Method::HEAD {
            if let Some(page) = page.as_ref().filter(|_| is_container(resource)) {
                let _reading = self.turn_to_read(managed::bytes_of_all_giving(giving)).await?;
                let ChildPage { begins, next, .. } = place.members(self.library(), resource, members_max).await?;
                let iri = self.site.iri(self.path());
                page.describe(&iri, begins.as_ref(), next.as_ref(), response.headers_mut());
            }
            return Ok(unsent(response));
        }
        let large_bytes = managed::bytes_of_all_giving(giving) + expected_bytes(resource);
        let (share, _turn) = self.turn_to_read(large_bytes).await?;
        let description = kept_description(self.library(), resource).await?;
        let title = terms::title_in(&description, resource.path()).or_else(|| members::filename(resource));
        let title = title.unwrap_or_else(|| Title::new(name_of(resource.path())));
        let members = match resource.kind() {
            Kind::Container { .. } => Some(Members::read(self.library(), resource, place, members_max).await?),
            Kind::RdfSource | Kind::Binary(_) => None,
        };
        if let (Some(page), Some(members)) = (&page, &members) {
            let iri = self.site.iri(self.path());
            page.describe(&iri, members.begins.as_ref(), members.next.as_ref(), response.headers_mut());
        }
        let is_later = members.as_ref().is_some_and(|members| members.begins.is_some());
        let content = html! {
            @if !is_later {
                (self.facts(resource))
                (self.places(resource))
                @if let Kind::Binary(binary) = resource.kind() { (self.preview(resource, binary, &title.text).await?) }
                (self.statements(resource, description))
                @for (_, container) in giving.iter().filter(|(_, container)| container.path() != resource.path()) {
                    p { "Its members are in " (terms::iri(&self.site, &kept_iri(container.path()))) "." }
                }
            }
            @if let Some(members) = members { (members.table(&self.site, resource)) }
        };
        let page = about(&self.site, resource.path(), title.text).titled_in(title.language.as_deref(), &content);
        *response.body_mut() = with_share(page, share)?.into();
        Ok(response)
    }

    /// The page of a version of a resource, or of the description of bytes. `containers` are those
    /// whose contents then are known: the resource itself, and those that gave it members. A
    /// container's page has some of its contents.
    pub async fn page_of_version(
        &self,
        state: &State,
        containers: &[(Membership, Resource)],
        asked: &Asked,
        title: String,
        mut response: Response,
    ) -> Result<Response, LdpError> {
        let version = &state.resource;
        let large_bytes = managed::bytes_of_all_giving(containers) + expected_bytes(version);
        let (share, _turn) = self.turn_to_read(large_bytes).await?;
        let is_itself = |container: &Resource| container.path() == version.path();
        let is_listed = containers.iter().any(|(_, container)| is_itself(container));
        let description = kept_description(self.library(), version).await?;
        let content = html! {
            @if asked.is_first() || !is_listed {
                (self.facts(version))
                @if let Kind::Binary(binary) = version.kind() {
                    p.row { a.button.primary href=(local(&self.iri_of_bytes())) { "Open the file" } }
                    (self.preview(version, binary, &title).await?)
                }
                (self.statements(version, description))
                @for (_, container) in containers.iter().filter(|(_, container)| !is_itself(container)) {
                    p { "Its members were in " (terms::iri(&self.site, &kept_iri(container.path()))) "." }
                }
            }
            @if is_listed { (self.members_then(state, asked).await?) }
            @else if is_container(version) { p.note { "What was in it then is not kept." } }
        };
        let page = about_part(&self.site, &self.target, title).with(&content);
        *response.body_mut() = with_share(page, share)?.into();
        Ok(response)
    }

    /// What the server knows of a resource.
    fn facts(&self, resource: &Resource) -> Markup {
        let digest = resource.body().binary().filter(|binary| binary.elsewhere().is_none());
        html! {
            dl.about {
                dt { "Kind" } dd { (members::kind(resource)) }
                @if let Some(len_bytes) = members::len_bytes(resource) {
                    dt { "Size" } dd { (terms::size(len_bytes)) }
                }
                dt { "Created" } dd { (terms::time(resource.incarnation().time())) }
                dt { "Changed" } dd { (terms::time(resource.revision().time())) }
                @if let Some(binary) = digest {
                    dt { "SHA-256" } dd { code { (hex::encode(binary.sha256)) } }
                }
                dt { "Address" } dd { code { (self.site.iri(resource.path())) } }
            }
        }
    }

    /// Where its bytes and its versions are.
    fn places(&self, resource: &Resource) -> Markup {
        let is_binary = matches!(resource.kind(), Kind::Binary(_));
        let lists_deleted = is_container(resource) && self.settings().deleted_versions;
        let facet =
            if is_binary && self.target.facet == Facet::Itself { Facet::Description } else { self.target.facet };
        let versions = self.site.iri_of_target(&Target { path: resource.path().clone(), facet, at: At::All });
        html! {
            p.row {
                @if is_binary { a.button.primary href=(local(&self.site.iri(resource.path()))) { "Open the file" } }
                @if self.library().repository.keeps_versions(resource.path()) {
                    a.button href=(local(&versions)) { "Versions" }
                    @if lists_deleted {
                        a.button href={ (local(&versions)) "?" (deleted::QUERY) } { "What was deleted" }
                    }
                }
                @if self.target.at == At::Present && members::len_bytes(resource).is_some() {
                    a.button rel="nofollow" href=(local(&self.site.iri_of(resource.path(), "fixity"))) { "Check the bytes" }
                }
                @if !self.reads_only && self.target.at == At::Present {
                    a.button href=(local(&self.site.iri_of(resource.path(), FORMS))) { "Change" }
                }
            }
        }
    }

    /// What the description says, and what the server manages.
    fn statements(&self, resource: &Resource, description: Graph) -> Markup {
        let own = kept_iri(resource.path());
        html! {
            @if !description.is_empty() {
                h2 { "Description" }
                (described::statements(&self.site, &own, "description", description))
            }
            details {
                summary { "Statements of the server" }
                (described::statements(&self.site, &own, "server", managed::statements(resource).into_iter().collect()))
            }
        }
    }
}
