//! What a form asks for, as the request that a program would make.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use door_http::{Acted, PreconditionFailed};
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rdf::vocab::ldp;
use serde_json::{Map, Value, json};

use super::sent::{Sent, refused};
use super::{Action, CONTENTS, EMPTY, ETAG, GROUP, SLUG, SURE, TITLE, TURTLE, VERSION, members};
use crate::address::{At, Facet, Target};
use crate::disposition;
use crate::errors::LdpError;
use crate::fedora;
use crate::incoming::OCTETS;
use crate::pages::local;
use crate::post::SLUG as SLUG_HEADER;
use crate::request::LdpRequest;

/// The predicate of titles.
const DC_TITLE: &str = "http://purl.org/dc/terms/title";

/// What a form did.
pub struct Done {
    /// The address of the page to show next, without the host.
    pub to: String,
    /// The request that did it, for the audit.
    pub acted: Acted,
}

impl LdpRequest {
    pub(super) async fn act(self: &Arc<Self>, action: Action, sent: &mut Sent) -> Result<Done, LdpError> {
        match action {
            Action::Create => self.create_basic_container(sent).await,
            Action::CreateWithMembers => self.create_with_members(sent).await,
            Action::CreateDescription => self.create_description(sent).await,
            Action::Upload => self.upload_file(sent).await,
            Action::Replace => self.replace_file(sent).await,
            Action::Describe => self.describe_by_form(sent).await,
            Action::Delete => self.delete_by_form(sent).await,
            Action::Restore => self.restore_by_form(sent).await,
        }
    }

    async fn create_basic_container(self: &Arc<Self>, sent: &Sent) -> Result<Done, LdpError> {
        self.create_described(sent, of_container(sent, ldp::BASIC_CONTAINER.as_str())?, Map::new()).await
    }

    async fn create_with_members(self: &Arc<Self>, sent: &Sent) -> Result<Done, LdpError> {
        let (members, statements) = members::asked_for(sent, &self.site)?;
        self.create_described(sent, of_container(sent, members.class().as_str())?, statements).await
    }

    async fn create_description(self: &Arc<Self>, sent: &Sent) -> Result<Done, LdpError> {
        self.create_described(sent, of_classes(&[ldp::RDF_SOURCE.as_str()])?, Map::new()).await
    }

    /// Creates a container or a description with a title and these statements. `headers` say its
    /// classes.
    async fn create_described(
        self: &Arc<Self>,
        sent: &Sent,
        mut headers: HeaderMap,
        mut statements: Map<String, Value>,
    ) -> Result<Done, LdpError> {
        let title = sent.text(TITLE);
        let wish = if sent.text(SLUG).is_empty() { name_from(title) } else { sent.text(SLUG).to_owned() };
        insert(&mut headers, header::CONTENT_TYPE, "application/ld+json")?;
        insert(&mut headers, SLUG_HEADER, &utf8_percent_encode(&wish, NON_ALPHANUMERIC).to_string())?;
        statements.insert("@id".to_owned(), json!(""));
        if !title.is_empty() {
            statements.insert(DC_TITLE.to_owned(), json!(title));
        }
        let asked = self.like(Method::POST, self.at(Facet::Itself), headers);
        let response = asked.post(Value::Object(statements).to_string().into()).await?;
        asked.done(&response, None)
    }

    async fn upload_file(self: &Arc<Self>, sent: &mut Sent) -> Result<Done, LdpError> {
        let wish = sent.text(SLUG).to_owned();
        let (file_headers, body, name) = file(sent)?;
        let mut headers = of_classes(&[ldp::NON_RDF_SOURCE.as_str()])?;
        headers.extend(file_headers);
        let wish = if wish.is_empty() { name } else { wish };
        insert(&mut headers, SLUG_HEADER, &utf8_percent_encode(&wish, NON_ALPHANUMERIC).to_string())?;
        let asked = self.like(Method::POST, self.at(Facet::Itself), headers);
        let response = asked.post(body).await?;
        // The address of a file is its bytes, which a browser would save.
        let created = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let page = created.map(|created| format!("{created}/fcr:metadata"));
        asked.done(&response, page)
    }

    async fn replace_file(self: &Arc<Self>, sent: &mut Sent) -> Result<Done, LdpError> {
        let tag = sent.text(ETAG).to_owned();
        let (mut headers, body, _) = file(sent)?;
        insert(&mut headers, header::IF_MATCH, &tag)?;
        let asked = self.like(Method::PUT, self.at(Facet::Itself), headers);
        let response = asked.put(body).await?;
        asked.done(&response, Some(self.site.iri_of_target(&self.at(Facet::Description))))
    }

    async fn describe_by_form(self: &Arc<Self>, sent: &Sent) -> Result<Done, LdpError> {
        let mut headers = HeaderMap::new();
        insert(&mut headers, header::CONTENT_TYPE, "text/turtle")?;
        insert(&mut headers, header::IF_MATCH, sent.text(ETAG))?;
        let described = self.described_target().await?;
        let page = self.site.iri_of_target(&described);
        let asked = self.like(Method::PUT, described, headers);
        let response = asked.put(sent.text(TURTLE).to_owned().into()).await?;
        asked.done(&response, Some(page))
    }

    async fn delete_by_form(self: &Arc<Self>, sent: &Sent) -> Result<Done, LdpError> {
        if sent.text(SURE).is_empty() {
            return Err(LdpError::Query("confirm that it is to be deleted"));
        }
        let mut headers = HeaderMap::new();
        insert(&mut headers, header::IF_MATCH, sent.text(ETAG))?;
        let asked = self.like(Method::DELETE, self.at(Facet::Itself), headers);
        if !sent.text(EMPTY).is_empty() {
            self.refuse_members().await?;
        }
        let response = asked.delete().await?;
        let above = self.path().parent().unwrap_or_default();
        asked.done(&response, Some(self.site.iri(&above)))
    }

    /// Refuses to delete a container that has members, because the form showed none. The tag of a
    /// container does not change with its members.
    async fn refuse_members(&self) -> Result<(), LdpError> {
        let repository = &self.library().repository;
        let container = repository.resource(self.path()).await?;
        if repository.children(&container, None, 1).await?.children.is_empty() {
            return Ok(());
        }
        Err(PreconditionFailed { condition: "If-Match", found: "the container has members now".to_owned() }.into())
    }

    async fn restore_by_form(self: &Arc<Self>, sent: &Sent) -> Result<Done, LdpError> {
        let mut headers = HeaderMap::new();
        if !sent.text(ETAG).is_empty() {
            insert(&mut headers, header::IF_MATCH, sent.text(ETAG))?;
        }
        let contents = sent.text(CONTENTS) == "true";
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("restore", sent.text(VERSION))
            .append_pair("contents", if contents { "true" } else { "false" })
            .finish();
        let target = Target { at: At::All, ..self.at(Facet::Itself) };
        let asked = Arc::new(Self { query: Some(query), ..self.request_like(Method::POST, target, headers) });
        let response = asked.post_version(Body::empty()).await?;
        // It has been restored, whether or not the next page can be found.
        let described = self.described_target().await.ok();
        asked.done(&response, described.map(|target| self.site.iri_of_target(&target)))
    }

    /// The same resource, or its description.
    pub(super) fn at(&self, facet: Facet) -> Target {
        Target { path: self.path().clone(), facet, at: At::Present }
    }

    /// Where a resource is described.
    pub(super) async fn described_target(&self) -> Result<Target, LdpError> {
        let resource = self.library().repository.resource(self.path()).await?;
        let facet = if resource.body().binary().is_some() { Facet::Description } else { Facet::Itself };
        Ok(self.at(facet))
    }

    pub(super) fn like(&self, method: Method, target: Target, headers: HeaderMap) -> Arc<Self> {
        Arc::new(self.request_like(method, target, headers))
    }

    /// What to say of a request that succeeded. Without an address, the page is that of what was
    /// created.
    fn done(&self, response: &Response, to: Option<String>) -> Result<Done, LdpError> {
        let created = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let to = to.or_else(|| created.map(str::to_owned)).unwrap_or_else(|| self.site.iri(self.path()));
        let target = self.site.iri_of_target(&self.target);
        Ok(Done {
            to: local(&to).to_owned(),
            acted: Acted {
                method: self.method.clone(),
                path: local(&target).to_owned(),
                made: created.map(|created| local(created).to_owned()),
            },
        })
    }
}

/// A name made of a title: words joined by hyphens. Signs that addresses have to encode, and those
/// between words, are left out.
fn name_from(title: &str) -> String {
    let is_of_name = |character: char| match character {
        '-' | '.' | '_' | '~' => true,
        '\u{ab}' | '\u{bb}' | '\u{2000}'..='\u{206f}' => false,
        character if character.is_ascii() => character.is_ascii_alphanumeric(),
        // Marks of scripts are no letters, and belong to them.
        character => !character.is_whitespace() && !character.is_control(),
    };
    let title = title.replace(['\'', '\u{2019}'], "");
    let words = title.split(|character| !is_of_name(character)).map(|word| word.trim_matches('-'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// The file of a form: its headers, its bytes, and its name.
fn file(sent: &mut Sent) -> Result<(HeaderMap, Body, String), LdpError> {
    let none = || LdpError::Query("choose a file");
    let field = sent.file.take().ok_or_else(none)?;
    // A browser sends an empty name if none was chosen.
    let name = field.file_name().filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(none)?;
    let mut headers = HeaderMap::new();
    let media_type = field.content_type().map_or_else(|| OCTETS.to_owned(), ToString::to_string);
    insert(&mut headers, header::CONTENT_TYPE, &media_type)?;
    insert(&mut headers, header::CONTENT_DISPOSITION, &disposition::attachment(&name))?;
    let bytes = field.map(|piece| piece.map_err(|error| std::io::Error::other(refused(error))));
    Ok((headers, Body::from_stream(bytes), name))
}

/// The headers that ask for a container of a class, as an archival group if the form asks for one.
fn of_container(sent: &Sent, class: &str) -> Result<HeaderMap, LdpError> {
    match sent.text(GROUP).is_empty() {
        true => of_classes(&[class]),
        false => of_classes(&[class, fedora::ARCHIVAL_GROUP.as_str()]),
    }
}

/// The headers that ask for classes.
fn of_classes(iris: &[&str]) -> Result<HeaderMap, LdpError> {
    let mut headers = HeaderMap::new();
    let links: Vec<_> = iris.iter().map(|iri| format!("<{iri}>; rel=\"type\"")).collect();
    insert(&mut headers, header::LINK, &links.join(", "))?;
    Ok(headers)
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), LdpError> {
    let value = HeaderValue::try_from(value).map_err(|_| LdpError::Query("a field of the form is malformed"))?;
    headers.insert(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_a_title_has_words_and_no_other_signs() {
        for (title, name) in [
            ("Mein <b>Buch</b> & \"Zeug\"", "Mein-b-Buch-b-Zeug"),
            ("\u{201e}Über uns\u{201c} \u{2013} Teil 1: don't", "Über-uns-Teil-1-dont"),
            ("हिन्दी की किताब", "हिन्दी-की-किताब"),
            ("1.2_a~b", "1.2_a~b"),
            ("a - b", "a-b"),
            ("<>\"&", ""),
        ] {
            assert_eq!(name_from(title), name, "{title}");
        }
    }

    #[test]
    fn a_field_of_a_form_cannot_add_a_header() {
        let mut headers = HeaderMap::new();
        assert!(insert(&mut headers, header::IF_MATCH, "\"1\"\r\nslug: x").is_err());
        assert!(insert(&mut headers, header::IF_MATCH, "\"1\"").is_ok());
    }
}
