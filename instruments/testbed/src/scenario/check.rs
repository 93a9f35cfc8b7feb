//! What is checked of an answer, and what later steps may use of it.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use regex::Regex;
use sha2::{Digest, Sha256};

use super::Protocol;
use super::request::field_name;
use super::spec::{CheckSpec, SaveSpec};
use super::template::{Names, Template};

/// The first words of the errors by which a server over the Redis protocol refuses a command that is
/// right, because it has too much to do.
const REFUSALS: [&str; 3] = ["OVERLOADED", "BUSY", "LOADING"];
/// The most characters of an error's first word.
const ERROR_CHARS_MAX: usize = 32;

/// An answer that was received to its end.
#[derive(Debug)]
pub struct Answer {
    /// What it says about success.
    pub head: Head,
    /// Its body, if the step keeps it. Of an answer to a command, its text.
    pub body: Bytes,
    /// The length of its body.
    pub body_bytes: u64,
}

/// What an answer says about success.
#[derive(Debug)]
pub enum Head {
    /// The head of a response over HTTP.
    Http(StatusCode, HeaderMap),
    /// A command has this answer.
    Done,
    /// A command has failed; the body says how.
    Error,
}

impl Answer {
    /// Whether the server refused the request because it has too much to do.
    pub fn is_refusal(&self) -> bool {
        match self.head {
            Head::Http(status, _) => status == StatusCode::SERVICE_UNAVAILABLE,
            Head::Done => false,
            Head::Error => REFUSALS.contains(&self.first_word().as_str()),
        }
    }

    /// The first word of an error, which is its kind.
    fn first_word(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let is_plain = |char: &char| char.is_ascii_alphanumeric() || *char == '_';
        text.chars().take_while(is_plain).take(ERROR_CHARS_MAX).collect()
    }

    /// The values of all header fields of a name.
    pub(super) fn headers(&self, name: &http::HeaderName) -> impl Iterator<Item = String> {
        let headers = match &self.head {
            Head::Http(_, headers) => Some(headers),
            Head::Done | Head::Error => None,
        };
        let values = headers.into_iter().flat_map(move |headers| headers.get_all(name));
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

/// What is checked of an answer.
#[derive(Clone, Debug)]
pub(super) struct Check {
    status: Vec<u16>,
    conflict: Vec<u16>,
    headers: Vec<(http::HeaderName, Regex)>,
    answer: Option<Regex>,
    bytes: Option<Template>,
    sha256: Option<Template>,
    contains: Option<Template>,
}

impl Check {
    pub(super) fn new(spec: &CheckSpec, protocol: Protocol, names: &Names) -> Result<Self, String> {
        match protocol {
            Protocol::Http if spec.answer.is_some() => {
                return Err("check.answer: for steps with a `command`".to_owned());
            }
            Protocol::Resp if !spec.status.is_empty() => return Err("check.status: for steps with a `path`".to_owned()),
            Protocol::Resp if !spec.conflict.is_empty() => {
                return Err("check.conflict: for steps with a `path`".to_owned());
            }
            Protocol::Resp if !spec.header.is_empty() => return Err("check.header: for steps with a `path`".to_owned()),
            _ => {}
        }
        for (key, codes) in [("status", &spec.status), ("conflict", &spec.conflict)] {
            if let Some(status) = codes.iter().find(|status| !(100..600).contains(*status)) {
                return Err(format!("check.{key}: {status} is no status"));
            }
        }
        let text = |text: &Option<String>| text.as_deref().map(|text| Template::parse(text, names)).transpose();
        let header = |(name, pattern): (&String, &String)| Ok((field_name(name)?, regex(pattern)?));
        let check = Self {
            status: spec.status.clone(),
            conflict: spec.conflict.clone(),
            headers: spec.header.iter().map(header).collect::<Result<_, String>>()?,
            answer: spec.answer.as_deref().map(regex).transpose()?,
            bytes: text(&spec.bytes)?,
            sha256: text(&spec.sha256)?,
            contains: text(&spec.contains)?,
        };
        let ambiguous = check.conflict.iter().copied().find(|status| check.allows(*status));
        match ambiguous {
            Some(status) => Err(format!("check.conflict: {status} is also a right `status`")),
            None => Ok(check),
        }
    }

    /// Whether it looks at the body, and not only at its length.
    pub(super) fn needs_body(&self) -> bool {
        self.answer.is_some() || self.sha256.is_some() || self.contains.is_some()
    }

    /// Whether another user was first, as the step allows it.
    pub(super) fn is_conflict(&self, answer: &Answer) -> bool {
        matches!(&answer.head, Head::Http(status, _) if self.conflict.contains(&status.as_u16()))
    }

    pub(super) fn check(&self, answer: &Answer, values: &[String]) -> Result<(), String> {
        match &answer.head {
            Head::Http(status, _) if !self.allows(status.as_u16()) => {
                return Err(format!("status {}", status.as_u16()));
            }
            Head::Error => return Err(format!("error {}", answer.first_word())),
            Head::Http(..) | Head::Done => {}
        }
        for (name, pattern) in &self.headers {
            if !answer.headers(name).any(|value| pattern.is_match(&value)) {
                return Err(format!("check: header {name}"));
            }
        }
        let body = || String::from_utf8_lossy(&answer.body);
        if self.answer.as_ref().is_some_and(|pattern| !pattern.is_match(&body())) {
            return Err("check: answer".to_owned());
        }
        let differs = |wanted: &Option<Template>, found: &dyn Fn() -> String| {
            wanted.as_ref().is_some_and(|wanted| wanted.filled(values) != found())
        };
        if differs(&self.bytes, &|| answer.body_bytes.to_string()) {
            return Err("check: bytes".to_owned());
        }
        if differs(&self.sha256, &|| hex::encode(Sha256::digest(&answer.body))) {
            return Err("check: sha256".to_owned());
        }
        let Some(wanted) = &self.contains else { return Ok(()) };
        match body().contains(&*wanted.filled(values)) {
            true => Ok(()),
            false => Err("check: contains".to_owned()),
        }
    }

    fn allows(&self, status: u16) -> bool {
        match self.status.as_slice() {
            [] => (200..400).contains(&status),
            some => some.contains(&status),
        }
    }
}

/// Where a value that is kept comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Header(http::HeaderName),
    Json(String),
    Regex(Regex),
}

impl Source {
    pub(super) fn new(spec: &SaveSpec, protocol: Protocol) -> Result<Self, String> {
        match (spec, protocol) {
            (SaveSpec::Header(name), Protocol::Http) => Ok(Self::Header(field_name(name)?)),
            (SaveSpec::Json(pointer), _) => Ok(Self::Json(pointer.clone())),
            (SaveSpec::Regex(pattern), Protocol::Http) | (SaveSpec::Answer(pattern), Protocol::Resp) => {
                Ok(Self::Regex(regex(pattern)?))
            }
            (SaveSpec::Answer(_), Protocol::Http) => Err("save: `answer` is for steps with a `command`".to_owned()),
            (SaveSpec::Header(_) | SaveSpec::Regex(_), Protocol::Resp) => {
                Err("save: from the answer to a command by `answer` or `json`".to_owned())
            }
        }
    }

    /// Whether it is in the body.
    pub(super) fn needs_body(&self) -> bool {
        !matches!(self, Self::Header(_))
    }

    pub(super) fn find(&self, answer: &Answer) -> Option<String> {
        match self {
            Self::Header(name) => answer.headers(name).next(),
            Self::Json(pointer) => {
                let body: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
                match body.pointer(pointer)? {
                    serde_json::Value::String(text) => Some(text.clone()),
                    value => Some(value.to_string()),
                }
            }
            Self::Regex(pattern) => {
                let body = String::from_utf8_lossy(&answer.body);
                let found = pattern.captures(&body)?;
                Some(found.get(1).or(found.get(0))?.as_str().to_owned())
            }
        }
    }
}

fn regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| error.to_string())
}
