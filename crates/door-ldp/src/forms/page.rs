//! The page with the forms of a resource.

use axum::body::to_bytes;
use door_http::Place;
use http::{HeaderMap, HeaderValue, Method, header};
use maud::{Markup, html};
use rdf::vocab::ldp;
use repository::{Kind, Resource, ResourceError};

use super::sent::TEXT_BYTES_MAX;
use super::shown::{Refusal, Shown, field, group_box};
use super::{ACTION, Action, CONTENTS, EMPTY, ETAG, FILE, GROUP, SLUG, SURE, TITLE, TURTLE, VERSION, members};
use crate::address::{FORMS, Facet};
use crate::conditions::Validators;
use crate::errors::LdpError;
use crate::fedora;
use crate::pages::{about, local, name_of};
use crate::prefer::PREFER;
use crate::request::LdpRequest;
use crate::statements::is_container;

/// The most members that the form that deletes a container counts.
const COUNTED_MAX: usize = 100;

/// What is at the path.
enum Found {
    Resource(Box<Resource>),
    Deleted,
}

impl LdpRequest {
    /// The page.
    pub(super) async fn forms(&self, shown: &Shown) -> Result<String, LdpError> {
        let found = match self.library().repository.resource(self.path()).await {
            Ok(resource) => Found::Resource(Box::new(resource)),
            Err(ResourceError::Gone { tombstone })
                if tombstone == *self.path() && self.library().repository.keeps_versions(self.path()) =>
            {
                Found::Deleted
            }
            Err(error) => return Err(error.into()),
        };
        if self.reads_only {
            return Ok(self.page_with(&html! {
                p.note { "You may read this, but not change it. Changing needs a token that has the scope " code { "write" } "." }
                p { a.button.primary href=(self.sign_in()) { "Sign in" } }
            }));
        }
        let forms = match (&found, &shown.asked) {
            (Found::Resource(resource), None) => self.forms_of(resource, shown).await?,
            (Found::Resource(resource), Some(version)) => {
                self.restore_form(Some(&self.validators_of(resource).tag_of_form()), version, shown)
            }
            (Found::Deleted, version) => {
                let version = version.as_deref().unwrap_or_default();
                let refused = shown.refused.as_ref().map(|(action, _)| *action);
                // It was deleted while somebody typed.
                let typed = refused.filter(|action| !matches!(action, Action::Delete | Action::Restore));
                html! {
                    @if let Some(action) = typed { (self.refused_form(action, shown)) }
                    (self.restore_form(None, version, shown))
                }
            }
        };
        Ok(self.page_with(&html! { (self.refusal(shown)) (forms) }))
    }

    /// The page with only the form that was refused. It needs nothing that is stored.
    pub(super) fn refused_form_alone(&self, shown: &Shown) -> String {
        self.page_with(&html! {
            (self.refusal(shown))
            @if let Some((action, _)) = &shown.refused { (self.refused_form(*action, shown)) }
        })
    }

    fn page_with(&self, content: &Markup) -> String {
        let name = name_of(self.path());
        let mut page = about(&self.site, self.path(), format!("Change {name}"));
        page.way.push(Place::new(name, local(&self.site.iri(self.path()))));
        page.with(content)
    }

    /// Why a form was refused, if one was.
    fn refusal(&self, shown: &Shown) -> Markup {
        html! {
            @match &shown.refused {
                Some((_, Refusal::Changed)) => p.note role="alert" {
                    "Somebody has changed this since you opened the form, so nothing was saved. Keep what you typed, and "
                    a href=(local(&self.site.iri_of(self.path(), FORMS))) { "open the form with the current state" } "."
                }
                Some((_, Refusal::Other(why))) => p.note role="alert" { (why) }
                None => {}
            }
        }
    }

    /// A form with what was typed into it and the tag that was sent with it.
    fn refused_form(&self, action: Action, shown: &Shown) -> Markup {
        let tag = shown.texts.get(ETAG).map_or("", String::as_str);
        match action {
            Action::Create => self.create_form(true, shown),
            Action::CreateWithMembers => self.members_form(true, shown),
            Action::CreateDescription => self.description_form(shown),
            Action::Upload | Action::Replace => self.upload_form(action, tag, shown),
            Action::Describe => self.describe_form(shown.description()),
            Action::Delete => {
                let was_empty = shown.texts.get(EMPTY).is_some_and(|empty| !empty.is_empty());
                self.delete_form("Delete this", was_empty, tag)
            }
            Action::Restore => {
                let version = shown.asked.as_deref().unwrap_or_default();
                self.restore_form(Some(tag).filter(|tag| !tag.is_empty()), version, shown)
            }
        }
    }

    /// The address at which a person signs in and comes back.
    fn sign_in(&self) -> String {
        let server = format!("{}/", self.site.server());
        let here = self.site.iri_of(self.path(), FORMS);
        let to = here.strip_prefix(&server).unwrap_or_default();
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("to", to).finish();
        format!("{}sign-in?{query}", local(&server))
    }

    async fn forms_of(&self, resource: &Resource, shown: &Shown) -> Result<Markup, LdpError> {
        let validators = self.validators_of(resource);
        let (deleted, is_empty) = match is_container(resource) && !resource.path().is_root() {
            true => self.contents_deleted(resource).await?,
            false => ("Delete this".to_owned(), false),
        };
        let description = match shown.description() {
            Some(typed) => Some(typed),
            None => self.turtle().await?,
        };
        Ok(html! {
            @if is_container(resource) {
                (self.create_form(!resource.is_group(), shown))
                (self.upload_form(Action::Upload, &validators.etag, shown))
                (self.description_form(shown))
                (self.members_form(!resource.is_group(), shown))
            }
            @if let Kind::Binary(_) = resource.kind() {
                // The description stays as it is.
                (self.upload_form(Action::Replace, &validators.etag, shown))
            }
            (self.describe_form(description))
            @if !resource.path().is_root() { (self.delete_form(&deleted, is_empty, &validators.tag_of_form())) }
        })
    }

    /// What is deleted with a container, in words, and whether it has no members.
    async fn contents_deleted(&self, container: &Resource) -> Result<(String, bool), LdpError> {
        let page = match self.library().repository.children(container, None, COUNTED_MAX).await {
            // It can be deleted all the same.
            Err(error) if error.is_damage() => {
                return Ok(("Delete this container with everything in it".to_owned(), false));
            }
            page => page?,
        };
        Ok(match (page.children.len(), page.next) {
            (0, _) => ("Delete this container, which is empty".to_owned(), true),
            (1, None) => ("Delete this container with everything in it (1 member)".to_owned(), false),
            (count, None) => (format!("Delete this container with everything in it ({count} members)"), false),
            (count, Some(_)) => {
                (format!("Delete this container with everything in it ({count} members or more)"), false)
            }
        })
    }

    fn create_form(&self, may_be_group: bool, shown: &Shown) -> Markup {
        let typed = |field| shown.typed(Action::Create, field);
        self.form(
            Action::Create,
            "Add a container",
            &html! {
                (field("create-title", TITLE, "Title", typed(TITLE)))
                (field("create-name", SLUG, "Name in the address (made of the title if it is empty)", typed(SLUG)))
                // There is none within another one.
                @if may_be_group { (group_box(typed(GROUP))) }
                p { button.primary { "Add" } }
            },
        )
    }

    fn description_form(&self, shown: &Shown) -> Markup {
        let typed = |field| shown.typed(Action::CreateDescription, field);
        self.form(
            Action::CreateDescription,
            "Add a description",
            &html! {
                p { "It describes something that is not here. It contains nothing, and has no file." }
                (field("description-title", TITLE, "Title", typed(TITLE)))
                (field("description-name", SLUG, "Name in the address (made of the title if it is empty)", typed(SLUG)))
                p { button.primary { "Add" } }
            },
        )
    }

    fn members_form(&self, may_be_group: bool, shown: &Shown) -> Markup {
        let is_open = shown.typed(Action::CreateWithMembers, SLUG).is_some();
        let fields = members::fields(shown, may_be_group);
        self.form(
            Action::CreateWithMembers,
            "Add a container with members",
            &html! { details open[is_open] { summary { "A Direct or an Indirect Container" } (fields) } },
        )
    }

    fn upload_form(&self, action: Action, tag: &str, shown: &Shown) -> Markup {
        let id = format!("{}-file", action.name());
        let is_new = action == Action::Upload;
        let heading = if is_new { "Upload a file" } else { "Replace the file" };
        self.form(action, heading, &html! {
            @if is_new {
                (field("upload-name", SLUG, "Name in the address (that of the file if it is empty)", shown.typed(action, SLUG)))
            } @else {
                (hidden(ETAG, tag))
            }
            p { label for=(id) { "File" } input id=(id) name=(FILE) type="file" required; }
            p { button.primary { @if is_new { "Upload" } @else { "Replace" } } }
        })
    }

    /// The form of a description with its tag; `None`: it is too long for a form.
    fn describe_form(&self, description: Option<(String, String)>) -> Markup {
        self.form(Action::Describe, "Edit the description", &html! {
            @match description {
                Some((text, tag)) => {
                    (hidden(ETAG, &tag))
                    p {
                        label for="describe-turtle" { "Statements in Turtle; " code { "<>" } " is this resource" }
                        textarea id="describe-turtle" name=(TURTLE) rows="14" spellcheck="false" { (text) }
                    }
                    p { button.primary { "Save" } }
                }
                None => p { "The description is too long for a form. Send it with " code { "PUT" } " or " code { "PATCH" } "." }
            }
        })
    }

    /// The form that deletes, with what it deletes. `is_empty`: it shows a container without
    /// members, and deletes none that has some.
    fn delete_form(&self, deleted: &str, is_empty: bool, tag: &str) -> Markup {
        self.form(
            Action::Delete,
            "Delete",
            &html! {
                (hidden(ETAG, tag))
                @if is_empty { (hidden(EMPTY, "yes")) }
                p {
                    label {
                        input type="checkbox" name=(SURE) value="yes" required;
                        " " (deleted)
                    }
                }
                p { button { "Delete" } }
            },
        )
    }

    /// The form that restores a version. `tag` is that of the current state; `None`: it is deleted.
    fn restore_form(&self, tag: Option<&str>, version: &str, shown: &Shown) -> Markup {
        let heading = if tag.is_some() { "Restore an earlier version" } else { "Bring back what was deleted" };
        let with_contents = shown.typed(Action::Restore, CONTENTS).map_or(tag.is_none(), |typed| typed == "true");
        self.form(Action::Restore, heading, &html! {
            (hidden(VERSION, version))
            @match tag {
                Some(tag) => {
                    (hidden(ETAG, tag))
                    p { "The version " code { (version) } " becomes the current state, as a new version. Nothing is lost." }
                }
                None if version.is_empty() => p { "The last state before it was deleted becomes the current one." }
                None => p { "The version " code { (version) } " becomes the current state." }
            }
            p {
                label {
                    input type="checkbox" name=(CONTENTS) value="true" checked[with_contents];
                    " If it is a container, also bring back what was in it"
                }
            }
            p { button.primary { "Restore" } }
        })
    }

    fn form(&self, action: Action, heading: &str, content: &Markup) -> Markup {
        let address = self.site.iri_of(self.path(), FORMS);
        html! {
            section.form {
                h2 { (heading) }
                form method="post" enctype="multipart/form-data" action=(local(&address)) {
                    (hidden(ACTION, action.name()))
                    (content)
                }
            }
        }
    }

    /// The validators of the state that the page shows.
    fn validators_of(&self, resource: &Resource) -> Validators {
        self.like(Method::GET, self.at(Facet::Itself), HeaderMap::new()).validators(resource)
    }

    /// The description that clients may change, and its tag; `None` if it is too long for a form.
    async fn turtle(&self) -> Result<Option<(String, String)>, LdpError> {
        let minimal = ldp::PREFER_MINIMAL_CONTAINER.as_str();
        let managed = fedora::SERVER_MANAGED.as_str();
        let prefer = format!("return=representation; include=\"{minimal}\"; omit=\"{managed}\"");
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/turtle"));
        headers.insert(PREFER, HeaderValue::try_from(prefer).map_err(|error| LdpError::Internal(error.to_string()))?);
        let asked = self.like(Method::GET, self.described_target().await?, headers);
        let response = asked.represented().await?;
        let tag = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
        let Ok(text) = to_bytes(response.into_body(), TEXT_BYTES_MAX as usize).await else { return Ok(None) };
        Ok(Some((String::from_utf8_lossy(&text).into_owned(), tag)))
    }
}

fn hidden(name: &str, value: &str) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}
