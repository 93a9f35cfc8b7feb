//! The page of a check of bytes.

use axum::response::Response;
use door_http::Page;
use maud::{Markup, html};
use repository::{Binary, VerifiedResource};
use store::UnixMillis;

use super::{about_part, local, terms};
use crate::address::{Facet, Target};
use crate::request::LdpRequest;

impl LdpRequest {
    /// What a check of the bytes of a binary found, and when it ended.
    pub fn page_of_fixity(
        &self,
        verified: &VerifiedResource,
        binary: &Binary,
        checked: UnixMillis,
        mut response: Response,
    ) -> Response {
        let here = local(&self.site.iri_of(self.path(), "fixity")).to_owned();
        let described = Target { facet: Facet::Description, ..self.target.clone() };
        let content = html! {
            (outcome(verified))
            dl.about {
                dt { "Expected SHA-256" } dd { code { (hex::encode(binary.sha256)) } }
                dt { "Computed SHA-256" } dd { (computed(verified)) }
                dt { "Size" } dd { (terms::size(binary.len_bytes)) " (" (binary.len_bytes) " bytes)" }
                dt { "Stored" } dd { (terms::time(binary.revision.time())) }
                dt { "Checked" } dd { (terms::time(checked)) }
            }
            p.row {
                a.button rel="nofollow" href=(here) { "Check again" }
                a.button href=(local(&self.site.iri_of_target(&described))) { "Description" }
            }
        };
        let page: Page = about_part(&self.site, &self.target, format!("Fixity of /{}", self.path()));
        *response.body_mut() = page.with(&content).into();
        response
    }
}

fn outcome(verified: &VerifiedResource) -> Markup {
    html! {
        @if verified.damaged.is_empty() {
            p.note { strong { "The bytes are what they should be." } " All of them were read again." }
        } @else {
            div.note role="alert" {
                strong { "The bytes are not what they should be." }
                @for damaged in &verified.damaged { p { (damaged.detail) } }
                p { "They are not sent until they are sound again or are replaced." }
            }
        }
    }
}

fn computed(verified: &VerifiedResource) -> Markup {
    match verified.sha256 {
        Some(sha256) => html! { code { (hex::encode(sha256)) } },
        None => html! { "none, because the bytes could not be read to their end" },
    }
}
