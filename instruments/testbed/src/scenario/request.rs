//! The request of a step, whose values are not filled in yet.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderName, Method};

use super::Protocol;
use super::feed::Feed;
use super::spec::{BodySpec, StepSpec};
use super::template::{Names, Template};

/// A request that is to be sent.
#[derive(Debug)]
pub enum Outgoing<'a> {
    /// Over HTTP.
    Http(HttpRequest<'a>),
    /// The words of a command over the Redis protocol.
    Command(Vec<Cow<'a, str>>),
}

/// A request over HTTP.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// Its method. One that is a value may be none.
    pub method: Cow<'a, str>,
    /// Its path, or an absolute address.
    pub path: Cow<'a, str>,
    /// Its header fields.
    pub headers: Vec<(HeaderName, Cow<'a, str>)>,
    /// Its body.
    pub body: Bytes,
}

/// A request with places for values.
#[derive(Clone, Debug)]
pub(super) enum RequestTemplate {
    Http { method: Verb, path: Template, headers: Vec<(HeaderName, Template)>, body: Body },
    Command(Vec<Template>),
}

/// A method, which may be a value.
#[derive(Clone, Debug)]
pub(super) enum Verb {
    Fixed(Method),
    Value(Template),
}

impl Verb {
    fn new(method: &str, names: &Names) -> Result<Self, String> {
        if method.starts_with("${") {
            return Ok(Self::Value(Template::parse(method, names)?));
        }
        method.parse().map(Self::Fixed).map_err(|_| format!("method: `{method}` is no method"))
    }

    fn filled(&self, values: &[String]) -> Cow<'_, str> {
        match self {
            Self::Fixed(method) => Cow::Borrowed(method.as_str()),
            Self::Value(value) => value.filled(values),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Empty,
    Text(Template),
    /// The number of a feed.
    Feed(usize),
}

impl Outgoing<'_> {
    /// The bytes of the body, or of all words of the command.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Http(request) => request.body.len() as u64,
            Self::Command(words) => words.iter().map(|word| word.len() as u64).sum(),
        }
    }
}

impl RequestTemplate {
    pub(super) fn new(spec: &StepSpec, feeds: &[(String, Feed)], names: &Names) -> Result<Self, String> {
        match (&spec.path, &spec.command) {
            (Some(path), None) => Self::http(spec, path, feeds, names),
            (None, Some(command)) => Self::command(spec, command, names),
            (Some(_), Some(_)) => Err("command: a step has a `command` or a `path`, not both".to_owned()),
            (None, None) => Err("path: a step has a `path` (HTTP) or a `command` (Redis protocol)".to_owned()),
        }
    }

    fn http(spec: &StepSpec, path: &str, feeds: &[(String, Feed)], names: &Names) -> Result<Self, String> {
        let method = spec.method.as_deref().unwrap_or("GET");
        let method = Verb::new(method, names)?;
        let header = |(name, value): (&String, &String)| Ok((field_name(name)?, Template::parse(value, names)?));
        let headers = spec.headers.iter().map(header).collect::<Result<_, String>>()?;
        if !["/", "${", "http://", "https://"].iter().any(|start| path.starts_with(start)) {
            return Err("path: it begins with `/`, or with a value that a step has saved".to_owned());
        }
        let path = Template::parse(path, names)?;
        Ok(Self::Http { method, path, headers, body: Body::new(spec.body.as_ref(), feeds, names)? })
    }

    fn command(spec: &StepSpec, command: &[String], names: &Names) -> Result<Self, String> {
        let of_http =
            [("method", spec.method.is_some()), ("headers", !spec.headers.is_empty()), ("body", spec.body.is_some())];
        if let Some((key, _)) = of_http.iter().find(|(_, is_set)| *is_set) {
            return Err(format!("{key}: a step with a `command` has none"));
        }
        if command.is_empty() {
            return Err("command: at least one word, for example [\"PING\"]".to_owned());
        }
        Ok(Self::Command(command.iter().map(|word| Template::parse(word, names)).collect::<Result<_, _>>()?))
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Http { .. } => Protocol::Http,
            Self::Command(_) => Protocol::Resp,
        }
    }

    pub(super) fn filled<'a>(&'a self, values: &'a [String], bodies: &[Option<Bytes>]) -> Outgoing<'a> {
        let (method, path, headers, body) = match self {
            Self::Http { method, path, headers, body } => (method, path, headers, body),
            Self::Command(words) => return Outgoing::Command(words.iter().map(|word| word.filled(values)).collect()),
        };
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.filled(values))).collect();
        Outgoing::Http(HttpRequest {
            method: method.filled(values),
            path: path.filled(values),
            headers,
            body: body.filled(values, bodies),
        })
    }
}

impl Body {
    fn new(spec: Option<&BodySpec>, feeds: &[(String, Feed)], names: &Names) -> Result<Self, String> {
        let name = match spec {
            None => return Ok(Self::Empty),
            Some(BodySpec::Text(text)) => return Ok(Self::Text(Template::parse(text, names)?)),
            Some(BodySpec::Feed(name)) => name,
        };
        let number = feeds.iter().position(|(known, _)| known == name);
        let number = number.ok_or_else(|| format!("body: there is no feed `{name}`"))?;
        match feeds[number].1.has_bodies() {
            true => Ok(Self::Feed(number)),
            false => Err(format!("body: the feed `{name}` has no bodies; feeds of files or bytes have")),
        }
    }

    fn filled(&self, values: &[String], bodies: &[Option<Bytes>]) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::Text(text) => text.filled(values).into_owned().into(),
            Self::Feed(number) => bodies.get(*number).cloned().flatten().unwrap_or_default(),
        }
    }
}

/// The name of a header field.
pub(super) fn field_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no name of a header field"))
}
