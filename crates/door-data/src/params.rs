//! Parameters of a request: in the query, in a form, or as a plain-text list of ids.
//!
//! A parameter may be in the query or in the form. Ids of both, and of repeated parameters, are
//! combined. Any other parameter is given once and has a value. The routes of the HTRC Data API
//! ignore unknown parameters, as the original service does: its clients send `version`, which it
//! does not read. They refuse a name that differs from a known one only in its spelling. All other
//! routes refuse unknown parameters.

use std::borrow::Cow;

use axum::extract::Request;
use budget::{Memory, Party, Share};
use door_http::body::{self, Held};
use door_http::parameters;
use hathi::{PageList, parse_page_ids, parse_volume_ids, parse_volume_lines};
use http::{HeaderMap, Method, header};
use pack::{Layout, Level};
use store::UnixMillis;
use volumes::{BulkRequest, Wanted};

use crate::as_of::{self, AS_OF, AsOf};
use crate::errors::DoorError;
use crate::retrieval::{PAGE_IDS, Retrieval, VOLUME_IDS};

/// The names of [`Layout::ALL`], for messages.
const LAYOUTS: &str = "pages, volumes or wordseq";

const FORM: &str = "application/x-www-form-urlencoded";
const PLAIN: &str = "text/plain";
const SUPPORTED: &str = "application/x-www-form-urlencoded, text/plain";

/// The parameters of the routes that take a list of ids.
const OF_LISTS: [&str; 13] = [
    VOLUME_IDS,
    PAGE_IDS,
    "layout",
    "concat",
    "mets",
    "level",
    AS_OF,
    "ids",
    "life_s",
    "sortBy",
    "sortOrder",
    "tokens",
    "format",
];

/// Memory per byte of a body while its parameters are read: for the body, and for the parameters.
const BODY_AND_PARAMS: u64 = 2;

/// Bytes of memory per parameter besides its name and value.
const PAIR_BYTES: usize = size_of::<(String, String)>();

/// The parameters of one request.
#[derive(Debug, Default)]
pub struct Params {
    pairs: Vec<(String, String)>,
    /// A body of plain text: one id per line.
    lines: Option<String>,
}

impl Params {
    /// The parameters of a query.
    pub fn of_query(query: Option<&str>) -> Self {
        let query = query.unwrap_or_default();
        Self { pairs: form_urlencoded::parse(query.as_bytes()).into_owned().collect(), lines: None }
    }

    /// The parameters of the query and of a body of at most `body_bytes_max`, with the share of
    /// memory that they take for a party.
    ///
    /// A body without a type is read as a form, because some clients omit it.
    pub async fn of_request(
        request: Request,
        body_bytes_max: u64,
        memory: &Memory,
        party: &Party,
    ) -> Result<(Self, Share), DoorError> {
        let (head, body) = request.into_parts();
        let mut params = Self::of_query(head.uri.query());
        if matches!(head.method, Method::GET | Method::HEAD) {
            let share = memory.reserve(party, params.bytes()).await?;
            return Ok((params, share));
        }
        let essence = essence(&head.headers)?;
        if let Some(found) = essence.as_deref().filter(|found| ![FORM, PLAIN].contains(found)) {
            let error = DoorError::UnsupportedMediaType { found: found.to_owned(), supported: SUPPORTED };
            return Err(error);
        }
        let Held { bytes, mut share } = body::held(memory, party, body, body_bytes_max, BODY_AND_PARAMS).await?;
        match essence.as_deref() {
            Some(PLAIN) => params.add_lines(&bytes)?,
            _ => params.add_form(&bytes),
        }
        drop(bytes);
        share.resize(params.bytes())?;
        Ok((params, share))
    }

    /// Approximate bytes of memory.
    fn bytes(&self) -> u64 {
        let pairs: usize = self.pairs.iter().map(|(name, value)| name.len() + value.len() + PAIR_BYTES).sum();
        (pairs + self.lines.as_ref().map_or(0, String::len)) as u64
    }

    /// Adds the parameters of a form (`application/x-www-form-urlencoded`). Any bytes are a valid
    /// form.
    pub fn add_form(&mut self, form: &[u8]) {
        self.pairs.extend(form_urlencoded::parse(form).into_owned());
    }

    /// Adds a plain text with one id per line. A byte order mark at its start is skipped.
    pub fn add_lines(&mut self, text: &[u8]) -> Result<(), DoorError> {
        let text = std::str::from_utf8(text).map_err(|_| DoorError::NotUtf8("body"))?;
        self.lines = Some(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned());
        Ok(())
    }

    /// The same without those that are empty: a form sends all its fields.
    pub fn filled(mut self) -> Self {
        self.pairs.retain(|(_, value)| !value.trim().is_empty());
        self
    }

    /// Refuses parameters that a route does not have.
    pub fn only(self, known: &[&str]) -> Result<Self, DoorError> {
        match self.pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(DoorError::UnknownParameter { name: name.clone(), known: known.join(", ") }),
            None => Ok(self),
        }
    }

    /// Refuses names that are those of parameters, but for their spelling: without it, `asOf` gives
    /// the volumes of today.
    pub fn check_spelling(&self) -> Result<(), DoorError> {
        let meant = |(name, _): &(String, String)| {
            let meant = parameters::misspelt(name, &OF_LISTS)?;
            Some(DoorError::Misspelt { name: name.clone(), meant })
        };
        self.pairs.iter().find_map(meant).map_or(Ok(()), Err)
    }

    /// Refuses `as_of`, in any spelling, on a route of one volume: its earlier states are versions.
    pub fn refuse_as_of(query: Option<&str>) -> Result<(), DoorError> {
        let is_as_of = |name: &str| name == AS_OF || parameters::misspelt(name, &[AS_OF]).is_some();
        match Self::of_query(query).pairs.into_iter().find(|(name, _)| is_as_of(name)) {
            Some((name, _)) => Err(DoorError::NotOfOneVolume { name }),
            None => Ok(()),
        }
    }

    /// All parameters with their values.
    pub fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        self.pairs.iter().cloned()
    }

    /// The value of a parameter, which may be empty. It may be given once.
    pub fn value(&self, name: &'static str) -> Result<Option<&str>, DoorError> {
        let mut values = self.pairs.iter().filter(|(other, _)| other == name).map(|(_, value)| value.trim());
        let value = values.next();
        match values.next() {
            Some(_) => Err(DoorError::RepeatedParameter(name)),
            None => Ok(value),
        }
    }

    /// A list: all values of a parameter, joined. An empty value is a list too, though a malformed
    /// one.
    fn list(&self, name: &str) -> Option<Cow<'_, str>> {
        let values: Vec<&str> = self.pairs.iter().filter(|(other, _)| other == name).map(|(_, v)| v.as_str()).collect();
        match values[..] {
            [] => None,
            [value] => Some(Cow::Borrowed(value)),
            _ => Some(Cow::Owned(values.join("|"))),
        }
    }

    /// A boolean, in any case.
    pub fn truth(&self, name: &'static str) -> Result<Option<bool>, DoorError> {
        self.keyword(name, "true or false", |word| match word {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }

    /// A value from a set of words, in any case.
    pub fn keyword<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, DoorError> {
        let malformed = |value: &str| DoorError::MalformedParameter { name, value: value.to_owned(), expected };
        let parse = |value: &str| read(&value.to_ascii_lowercase()).ok_or_else(|| malformed(value));
        self.value(name)?.map(parse).transpose()
    }

    /// An upper bound for the number of volumes, and pages by number: counted by separators,
    /// without parsing.
    pub fn named_at_most(&self) -> u64 {
        let separators = |list: &str| {
            let all = list.bytes().filter(|byte| matches!(byte, b'|' | b',' | b'\n' | b'\r')).count();
            // Both together end one line.
            (all - list.matches("\r\n").count()) as u64
        };
        let lists = self.pairs.iter().filter(|(name, _)| [VOLUME_IDS, PAGE_IDS].contains(&name.as_str()));
        let lists = lists.map(|(_, list)| list.as_str()).chain(self.lines.as_deref());
        lists.map(|list| separators(list) + 1).sum()
    }

    /// The requested volumes; it stops where `goes_on` says so.
    pub fn volumes(&self, goes_on: impl Fn() -> bool) -> Result<Vec<Wanted>, DoorError> {
        let ids = match (self.list(VOLUME_IDS), &self.lines) {
            (Some(list), None) => parse_volume_ids(&list, goes_on)?,
            (None, Some(lines)) => parse_volume_lines(lines, goes_on)?,
            (Some(list), Some(lines)) => parse_volume_lines(&format!("{}\n{lines}", list.replace('|', "\n")), goes_on)?,
            (None, None) => return Err(DoorError::MissingParameter(VOLUME_IDS)),
        };
        Ok(ids.into_iter().map(Wanted::all).collect())
    }

    /// The requested pages; it stops where `goes_on` says so.
    pub fn pages(&self, goes_on: impl Fn() -> bool) -> Result<Vec<Wanted>, DoorError> {
        let lines = self.lines.as_ref().map(|lines| lines.replace(['\r', '\n'], "|"));
        let list = match (self.list(PAGE_IDS), lines) {
            (Some(list), None) => list,
            (None, Some(lines)) => Cow::Owned(lines),
            (Some(list), Some(lines)) => Cow::Owned(format!("{list}|{lines}")),
            (None, None) => return Err(DoorError::MissingParameter(PAGE_IDS)),
        };
        let wanted = |list: PageList| Wanted { volume: list.volume, pages: Some(list.pages) };
        Ok(parse_page_ids(&list, goes_on)?.into_iter().map(wanted).collect())
    }

    /// Whether a selection is of volumes or of pages, by the parameter that is present. With a
    /// plain text, `ids=pages` means that its lines name pages.
    pub fn retrieval(&self) -> Result<Retrieval, DoorError> {
        let of_lines = self.keyword("ids", "volumes or pages", |word| match word {
            "volumes" => Some(Retrieval::Volumes),
            "pages" => Some(Retrieval::Pages),
            _ => None,
        })?;
        let has = |name: &str| self.pairs.iter().any(|(other, _)| other == name);
        match (has(VOLUME_IDS), has(PAGE_IDS)) {
            (true, true) => {
                Err(DoorError::Conflicting { retrieval: Retrieval::Pages, first: VOLUME_IDS, second: PAGE_IDS })
            }
            (false, true) => Ok(Retrieval::Pages),
            (true, false) => Ok(Retrieval::Volumes),
            (false, false) => Ok(of_lines.unwrap_or(Retrieval::Volumes)),
        }
    }

    /// A request for many volumes or pages. Reading its list stops where `goes_on` says so.
    pub fn bulk(&self, retrieval: Retrieval, goes_on: impl Fn() -> bool) -> Result<BulkRequest, DoorError> {
        let has_ids = self.lines.is_some() || self.list(retrieval.required()).is_some();
        if !has_ids {
            return Err(DoorError::MissingParameter(retrieval.required()));
        }
        let mets = self.truth("mets")?.unwrap_or(false);
        let layout = self.layout(retrieval, mets)?;
        let level = self.level()?;
        let wanted = match retrieval {
            Retrieval::Volumes => self.volumes(goes_on)?,
            Retrieval::Pages => self.pages(goes_on)?,
        };
        let as_of = self.as_of()?.map(AsOf::below);
        Ok(BulkRequest { wanted, layout, level, mets, as_of })
    }

    /// The time that the request is about; `None` means now.
    pub fn as_of(&self) -> Result<Option<AsOf>, DoorError> {
        self.value(AS_OF)?.map(AsOf::parse).transpose()
    }

    /// Refuses a time that is not over.
    pub fn check_as_of(&self, now: UnixMillis) -> Result<(), DoorError> {
        match self.as_of()? {
            Some(as_of) if !as_of.is_over(now) => Err(as_of::malformed(self.value(AS_OF)?.unwrap_or_default())),
            _ => Ok(()),
        }
    }

    /// The layout that `layout` or its original form `concat` names; by default pages apart.
    fn layout(&self, retrieval: Retrieval, mets: bool) -> Result<Layout, DoorError> {
        let conflicting = |first, second| DoorError::Conflicting { retrieval, first, second };
        let named = self.keyword("layout", LAYOUTS, Layout::named)?;
        let concat = self.truth("concat")?;
        let by_concat = concat.map(|concat| if concat { retrieval.concatenated() } else { Layout::Pages });
        if let (Some(named), Some(by_concat)) = (named, by_concat)
            && named != by_concat
        {
            return Err(conflicting("layout", "concat"));
        }
        let layout = named.or(by_concat).unwrap_or(Layout::Pages);
        if mets && !layout.has_mets() {
            return Err(conflicting(if named.is_some() { "layout" } else { "concat" }, "mets"));
        }
        Ok(layout)
    }

    fn level(&self) -> Result<Level, DoorError> {
        let level = self.keyword("level", "auto or 0 to 9", |word| match word.as_bytes() {
            b"auto" => Some(Level::Frames),
            b"0" => Some(Level::Stored),
            [digit @ b'1'..=b'9'] => Some(Level::Recompressed(digit - b'0')),
            _ => None,
        })?;
        Ok(level.unwrap_or(Level::Frames))
    }
}

/// The media type of a body, without parameters, in lower case.
fn essence(headers: &HeaderMap) -> Result<Option<String>, DoorError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let unreadable = |_| DoorError::UnsupportedMediaType { found: "unreadable".to_owned(), supported: SUPPORTED };
    let text = value.to_str().map_err(unreadable)?;
    Ok(Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()))
}

#[cfg(test)]
mod tests;
