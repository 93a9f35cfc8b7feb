//! A step that is ready to be sent, and what is checked and kept of its response.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use regex::Regex;
use sha2::{Digest, Sha256};

use super::feed::Feed;
use super::spec::{BodySpec, CheckSpec, SaveSpec, StepSpec};
use super::template::{Names, Template};

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// How long the user waits before it.
    pub pause: Duration,
    /// How often it is sent.
    pub repeat: u32,
    /// Whether the body of its response is needed, and not only its length.
    pub keeps_body: bool,
    method: Method,
    path: Template,
    headers: Vec<(HeaderName, Template)>,
    body: Body,
    check: Check,
    save: Vec<(usize, Source)>,
}

#[derive(Clone, Debug)]
enum Body {
    Empty,
    Text(Template),
    /// The number of a feed.
    Feed(usize),
}

#[derive(Clone, Debug)]
struct Check {
    status: Vec<u16>,
    headers: Vec<(HeaderName, Regex)>,
    bytes: Option<Template>,
    sha256: Option<Template>,
    contains: Option<Template>,
}

#[derive(Clone, Debug)]
enum Source {
    Header(HeaderName),
    Json(String),
    Regex(Regex),
}

/// A request.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path, or an absolute address.
    pub path: Cow<'a, str>,
    /// Its header fields.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Its body.
    pub body: Bytes,
}

/// A response.
#[derive(Debug)]
pub struct Answer<'a> {
    /// Its status code.
    pub status: u16,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// Its body, if the step keeps it.
    pub body: &'a [u8],
    /// The length of its body.
    pub body_bytes: u64,
}

impl Step {
    /// Makes a step ready. Names that it saves are known to later steps only.
    pub(super) fn new(spec: &StepSpec, feeds: &[(String, Feed)], names: &mut Names) -> Result<Self, String> {
        let method = spec.method.parse().map_err(|_| format!("`{}` is no method", spec.method))?;
        let path = Template::parse(&spec.path, names)?;
        let header = |(name, value): (&String, &String)| Ok((field_name(name)?, Template::parse(value, names)?));
        let headers = spec.headers.iter().map(header).collect::<Result<_, String>>()?;
        let body = match &spec.body {
            None => Body::Empty,
            Some(BodySpec::Text(text)) => Body::Text(Template::parse(text, names)?),
            Some(BodySpec::Feed(name)) => {
                let number = feeds.iter().position(|(known, _)| known == name);
                let number = number.ok_or_else(|| format!("body: there is no feed `{name}`"))?;
                match feeds[number].1.has_bodies() {
                    true => Body::Feed(number),
                    false => {
                        return Err(format!("body: the feed `{name}` has no bodies; feeds of files or bytes have"));
                    }
                }
            }
        };
        let check = Check::new(&spec.check, names)?;
        if spec.repeat == 0 {
            return Err("repeat: at least 1".to_owned());
        }
        let save = spec.save.iter().map(|(name, source)| Ok((names.add(name), Source::new(source)?)));
        let save = save.collect::<Result<Vec<_>, String>>()?;
        let saves_body = save.iter().any(|(_, source)| !matches!(source, Source::Header(_)));
        let keeps_body = saves_body || check.sha256.is_some() || check.contains.is_some();
        let (name, pause, repeat) = (spec.name.clone(), spec.pause, spec.repeat);
        Ok(Self { name, pause, repeat, keeps_body, method, path, headers, body, check, save })
    }

    pub(super) fn outgoing<'a>(&'a self, values: &[String], bodies: &[Option<Bytes>]) -> Outgoing<'a> {
        let header = |(name, value): &(HeaderName, Template)| {
            // What no header can hold is sent as far as it can be: the candidate judges it.
            let value = HeaderValue::from_str(&value.filled(values)).unwrap_or_else(|_| HeaderValue::from_static(""));
            (name.clone(), value)
        };
        let body = match &self.body {
            Body::Empty => Bytes::new(),
            Body::Text(text) => match text.filled(values) {
                Cow::Borrowed(text) => Bytes::copy_from_slice(text.as_bytes()),
                Cow::Owned(text) => text.into(),
            },
            Body::Feed(number) => bodies.get(*number).cloned().flatten().unwrap_or_default(),
        };
        Outgoing {
            method: &self.method,
            path: Cow::Owned(self.path.filled(values).into_owned()),
            headers: self.headers.iter().map(header).collect(),
            body,
        }
    }

    pub(super) fn take(&self, answer: &Answer<'_>, values: &mut [String]) -> Result<(), String> {
        self.check.check(answer, values)?;
        for (number, source) in &self.save {
            let found = source.find(answer).ok_or_else(|| format!("nothing to save as value {number}"))?;
            values[*number] = found;
        }
        Ok(())
    }
}

impl Check {
    fn new(spec: &CheckSpec, names: &Names) -> Result<Self, String> {
        if let Some(status) = spec.status.iter().find(|status| !(100..600).contains(*status)) {
            return Err(format!("check.status: {status} is no status"));
        }
        let text = |text: &Option<String>| text.as_deref().map(|text| Template::parse(text, names)).transpose();
        let header = |(name, pattern): (&String, &String)| Ok((field_name(name)?, regex(pattern)?));
        Ok(Self {
            status: spec.status.clone(),
            headers: spec.header.iter().map(header).collect::<Result<_, String>>()?,
            bytes: text(&spec.bytes)?,
            sha256: text(&spec.sha256)?,
            contains: text(&spec.contains)?,
        })
    }

    fn check(&self, answer: &Answer<'_>, values: &[String]) -> Result<(), String> {
        let is_right = match self.status.as_slice() {
            [] => (200..400).contains(&answer.status),
            some => some.contains(&answer.status),
        };
        if !is_right {
            return Err(format!("status {}", answer.status));
        }
        for (name, pattern) in &self.headers {
            let value = answer.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
            if !value.is_some_and(|value| pattern.is_match(&value)) {
                return Err(format!("header {name}"));
            }
        }
        let differs = |wanted: &Option<Template>, found: &dyn Fn() -> String| {
            wanted.as_ref().is_some_and(|wanted| wanted.filled(values) != found())
        };
        if differs(&self.bytes, &|| answer.body_bytes.to_string()) {
            return Err("bytes".to_owned());
        }
        if differs(&self.sha256, &|| hex::encode(Sha256::digest(answer.body))) {
            return Err("sha256".to_owned());
        }
        let Some(wanted) = &self.contains else { return Ok(()) };
        match String::from_utf8_lossy(answer.body).contains(&*wanted.filled(values)) {
            true => Ok(()),
            false => Err("contains".to_owned()),
        }
    }
}

impl Source {
    fn new(spec: &SaveSpec) -> Result<Self, String> {
        Ok(match spec {
            SaveSpec::Header(name) => Self::Header(field_name(name)?),
            SaveSpec::Json(pointer) => Self::Json(pointer.clone()),
            SaveSpec::Regex(pattern) => Self::Regex(regex(pattern)?),
        })
    }

    fn find(&self, answer: &Answer<'_>) -> Option<String> {
        match self {
            Self::Header(name) => Some(String::from_utf8_lossy(answer.headers.get(name)?.as_bytes()).into_owned()),
            Self::Json(pointer) => {
                let body: serde_json::Value = serde_json::from_slice(answer.body).ok()?;
                match body.pointer(pointer)? {
                    serde_json::Value::String(text) => Some(text.clone()),
                    value => Some(value.to_string()),
                }
            }
            Self::Regex(pattern) => {
                let body = String::from_utf8_lossy(answer.body);
                let found = pattern.captures(&body)?;
                Some(found.get(1).or(found.get(0))?.as_str().to_owned())
            }
        }
    }
}

fn field_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no name of a header field"))
}

fn regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| error.to_string())
}
