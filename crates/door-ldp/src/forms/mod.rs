//! Forms for people, at `fcr:forms` of a resource: they create, upload, describe, replace, delete
//! and restore from a browser, without a script. `page.rs` shows them, `sent.rs` reads one that
//! was sent, and `members.rs` is about containers with members. `actions.rs` does what a form asks
//! for, as the request that a program would make. The rules, conditions and limits of a change are
//! those of its method.

mod actions;
mod members;
mod page;
mod sent;
mod shown;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use door_http::{Made, page as look};
use http::{HeaderValue, Method, StatusCode, header};

use crate::errors::LdpError;
use crate::query::Parameters;
use crate::request::{LdpRequest, empty, unsent};
use sent::Sent;
use shown::{Refusal, Shown};

/// The field that says which form was sent.
const ACTION: &str = "action";
/// The field with the tag of the state that the form shows.
const ETAG: &str = "etag";
/// The field with a title.
const TITLE: &str = "title";
/// The field with the last name of the address of a new resource.
const SLUG: &str = "name";
/// The field that asks for an archival group.
const GROUP: &str = "group";
/// The field with a description in Turtle.
const TURTLE: &str = "turtle";
/// The field with a file.
const FILE: &str = "file";
/// The field that confirms.
const SURE: &str = "sure";
/// The field of a form that showed a container without members.
const EMPTY: &str = "empty";
/// The field with the name of a version; empty for the last state of what was deleted.
const VERSION: &str = "version";
/// The field that asks for the contents of a container as well.
const CONTENTS: &str = "contents";

/// What a form does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Creates a Basic Container.
    Create,
    /// Creates a Direct or an Indirect Container.
    CreateWithMembers,
    /// Creates a description that is neither a container nor one of bytes.
    CreateDescription,
    /// Creates a binary.
    Upload,
    /// Replaces the bytes of a binary.
    Replace,
    /// Replaces the description.
    Describe,
    /// Deletes.
    Delete,
    /// Makes an earlier version the current one, or brings back what was deleted.
    Restore,
}

impl Action {
    const ALL: [Self; 8] = [
        Self::Create,
        Self::CreateWithMembers,
        Self::CreateDescription,
        Self::Upload,
        Self::Replace,
        Self::Describe,
        Self::Delete,
        Self::Restore,
    ];

    /// The value of [`ACTION`].
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::CreateWithMembers => "create-with-members",
            Self::CreateDescription => "create-description",
            Self::Upload => "upload",
            Self::Replace => "replace",
            Self::Describe => "describe",
            Self::Delete => "delete",
            Self::Restore => "restore",
        }
    }
}

impl LdpRequest {
    /// The response to a request for the forms of a resource.
    pub async fn respond_with_forms(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        match self.method {
            Method::GET | Method::HEAD => {
                let asked = self.version_asked()?;
                let page = self.forms(&Shown { asked, ..Shown::default() }).await?;
                let response = sent_page(StatusCode::OK, page);
                Ok(if self.method == Method::HEAD { unsent(response) } else { response })
            }
            Method::POST => self.act_on_form(body).await,
            _ => Err(self.not_allowed("GET, HEAD, POST")),
        }
    }

    async fn act_on_form(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let mut sent = Sent::read(self, body).await?;
        let action = Action::ALL.into_iter().find(|action| action.name() == sent.text(ACTION));
        let action = action.ok_or(LdpError::Query("this form is none of this server"))?;
        let error = match self.act(action, &mut sent).await {
            Ok(done) => {
                let mut response = empty(StatusCode::SEE_OTHER);
                let location =
                    HeaderValue::try_from(&done.to).map_err(|error| LdpError::Internal(error.to_string()))?;
                response.headers_mut().insert(header::LOCATION, location);
                response.extensions_mut().insert(done.acted);
                return Ok(response);
            }
            Err(error) => self.site.shown_error(error),
        };
        // What a person has typed comes back with the reason, whatever that is.
        let (status, why) = error.status_and_detail();
        let is_changed = matches!(error, LdpError::PreconditionFailed(_));
        let why = if is_changed { Refusal::Changed } else { Refusal::Other(why) };
        let asked = (action == Action::Restore).then(|| sent.text(VERSION).to_owned());
        let shown = Shown { asked, refused: Some((action, why)), texts: sent.texts };
        // The current state may be gone, or out of reach.
        let page = self.forms(&shown).await.unwrap_or_else(|_| self.refused_form_alone(&shown));
        let mut response = sent_page(status, page);
        if let Some(seconds) = error.retry_after_s() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if error.is_after_change() {
            response.extensions_mut().insert(Made);
        }
        Ok(response)
    }

    /// The version that the query asks to restore.
    fn version_asked(&self) -> Result<Option<String>, LdpError> {
        let asked = Parameters::only(self.query.as_deref(), &["restore"])?;
        Ok(asked.value("restore").map(str::to_owned))
    }
}

fn sent_page(status: StatusCode, page: String) -> Response {
    let mut response = Response::new(page.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, look::TYPE);
    headers.insert(header::CONTENT_SECURITY_POLICY, look::SECURITY_POLICY);
    // It shows a tag of the current state, and for whom it is.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
