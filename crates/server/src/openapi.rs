//! The description of all routes, for programs (OpenAPI 3.1) and as a page for people. The page
//! needs no script; a script adds a field that filters the routes.

use std::fmt;
use std::marker::PhantomData;

use maud::{Markup, html};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The description for programs.
pub(crate) const JSON: &str = include_str!("../assets/openapi.json");

/// What the page shows of the description.
#[derive(Deserialize)]
struct Description {
    info: Info,
    /// The operations of each path, by their methods.
    paths: InOrder<InOrder<Operation>>,
}

#[derive(Deserialize)]
struct Info {
    title: String,
    version: String,
    description: String,
}

#[derive(Deserialize)]
struct Operation {
    /// The door first.
    tags: Vec<String>,
    summary: String,
    description: Option<String>,
    #[serde(default)]
    parameters: Vec<Parameter>,
    #[serde(rename = "requestBody")]
    body: Option<Body>,
    /// By their statuses.
    responses: InOrder<Answer>,
    /// Whatever it is, it is the token of a writer.
    security: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    /// `path`, `query` or `header`.
    #[serde(rename = "in")]
    place: String,
    #[serde(rename = "required", default)]
    is_required: bool,
    description: String,
    schema: Schema,
}

#[derive(Deserialize)]
struct Schema {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "enum", default)]
    values: Vec<String>,
}

#[derive(Deserialize)]
struct Body {
    /// By media types.
    content: InOrder<IgnoredAny>,
}

#[derive(Deserialize)]
struct Answer {
    description: String,
    /// By media types.
    #[serde(default)]
    content: InOrder<IgnoredAny>,
}

/// The members of an object, in the order of the document.
#[derive(Default)]
struct InOrder<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// Reads the members of an object.
struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = InOrder<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<InOrder<T>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = object.next_entry()? {
            members.push(member);
        }
        Ok(InOrder(members))
    }
}

impl Operation {
    fn door(&self) -> &str {
        self.tags.first().map_or("", String::as_str)
    }
}

/// The content of the page.
pub(crate) fn shown() -> Markup {
    match serde_json::from_str(JSON) {
        Ok(description) => routes(&description),
        Err(error) => html! {
            p.note {
                "The routes cannot be shown (" (error.to_string()) "). They are in "
                a href="openapi.json" { "openapi.json" } "."
            }
        },
    }
}

/// One operation of a path.
struct Route<'a> {
    path: &'a str,
    method: &'a str,
    operation: &'a Operation,
}

fn routes(Description { info, paths }: &Description) -> Markup {
    let mut routes = Vec::new();
    for (path, methods) in &paths.0 {
        routes.extend(methods.0.iter().map(|(method, operation)| Route { path, method, operation }));
    }
    let mut doors: Vec<&str> = Vec::new();
    for route in &routes {
        if !doors.contains(&route.operation.door()) {
            doors.push(route.operation.door());
        }
    }
    html! {
        p.lead {
            (info.title) " " (info.version) ". " (text(&info.description))
            " Programs read " a href="openapi.json" { "openapi.json" } "."
        }
        nav.row aria-label="Doors" { @for door in &doors { a href={ "#" (id_of(door)) } { (door) } } }
        div.routes id="routes" {
            @for door in &doors {
                section aria-labelledby=(id_of(door)) {
                    h2 id=(id_of(door)) { (door) }
                    @for route in routes.iter().filter(|route| route.operation.door() == *door) { (route.shown()) }
                }
            }
        }
        script src="assets/openapi.js" type="module" {}
    }
}

impl Route<'_> {
    fn shown(&self) -> Markup {
        let Operation { summary, description, parameters, body, responses, security, .. } = self.operation;
        html! {
            details {
                summary { code { (self.method.to_uppercase()) " " (self.path) } " " (text(summary)) }
                @if let Some(description) = description { p { (text(description)) } }
                @if security.is_some() { p { "It needs a token with the right to write." } }
                @if !parameters.is_empty() {
                    h3 { "Parameters" }
                    dl.statements { @for parameter in parameters { (parameter.shown()) } }
                }
                @if let Some(body) = body { h3 { "Body" } p { (types(&body.content)) } }
                h3 { "Answers" }
                dl.statements {
                    @for (status, answer) in &responses.0 {
                        dt { (status) }
                        dd { (text(&answer.description)) " " (types(&answer.content)) }
                    }
                }
            }
        }
    }
}

impl Parameter {
    fn shown(&self) -> Markup {
        // A path always has all of its parts.
        let is_told = self.is_required && self.place != "path";
        html! {
            dt { code { (self.name) } }
            dd {
                (text(&self.description))
                " " span.badge { (self.place) }
                @if is_told { " " span.badge { "required" } }
                @if self.schema.values.is_empty() { " " span.badge { (self.schema.kind) } }
                @else { " One of " (codes(self.schema.values.iter())) "." }
            }
        }
    }
}

/// The media types of a content.
fn types(content: &InOrder<IgnoredAny>) -> Markup {
    codes(content.0.iter().map(|(media_type, _)| media_type))
}

/// Words for programs, separated by commas.
fn codes<'a>(words: impl Iterator<Item = &'a String>) -> Markup {
    html! {
        @for (n, word) in words.enumerate() {
            @if n > 0 { ", " }
            code { (word) }
        }
    }
}

/// A text of the description, which has code between backticks.
fn text(text: &str) -> Markup {
    html! {
        @for (n, part) in text.split('`').enumerate() {
            @if n % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// What links to the routes of a door lead to.
fn id_of(door: &str) -> String {
    door.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_page_has_every_operation_with_its_parameters_and_answers() {
        let page = shown().into_string();
        let document: Value = serde_json::from_str(JSON).unwrap();
        let mut count = 0;
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let route = format!("<code>{} {path}</code>", method.to_uppercase());
                let shown = page.split("<details>").find(|shown| shown.contains(&route)).unwrap();
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let names = parameters.map(|parameter| format!("<code>{}</code>", parameter["name"].as_str().unwrap()));
                let statuses = operation["responses"].as_object().unwrap().keys();
                for part in names.chain(statuses.map(|status| format!("<dt>{status}</dt>"))) {
                    assert!(shown.contains(&part), "{part} is not in {shown}");
                }
                count += 1;
            }
        }
        assert_eq!(page.matches("<details>").count(), count);
        for link in page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(page.contains(&format!("<h2 id=\"{link}\">")), "{link}");
        }
    }

    #[test]
    fn a_text_has_code_between_backticks_and_no_markup() {
        assert_eq!(text("a `<b>` & `c`").into_string(), "a <code>&lt;b&gt;</code> &amp; <code>c</code>");
    }
}
