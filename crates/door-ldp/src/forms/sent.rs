//! A form as a browser sends it (RFC 7578). The texts come first, within a limit. The file, which
//! is the last field, is read while it arrives.

use std::collections::BTreeMap;

use axum::body::Body;
use budget::Share;
use door_http::form::PARSER_BYTES;
use door_http::{Form, NoForm};
use multer::{Constraints, Field, SizeLimit};

use super::{FILE, TURTLE};
use crate::errors::LdpError;
use crate::request::LdpRequest;

/// Most bytes of a text, and of a description that the page offers to edit.
pub const TEXT_BYTES_MAX: u64 = 256 << 10;

/// Most bytes of a description that is sent. Browsers send two bytes for the end of a line, which
/// is one byte in what the page offers.
const DESCRIPTION_BYTES_MAX: u64 = 2 * TEXT_BYTES_MAX;

/// Most bytes of all texts with their names: of a description, and of the small fields beside it.
const TEXTS_BYTES_MAX: u64 = DESCRIPTION_BYTES_MAX + (16 << 10);

/// Most fields.
const FIELDS_MAX: usize = 16;

/// Memory that a form takes until its texts are read, however long they are.
const FORM_BYTES: u64 = 4 * TEXTS_BYTES_MAX + PARSER_BYTES;

/// Memory per byte of the texts from then on: themselves, and the request or the page that is made
/// of them.
const TEXTS_TIMES: u64 = 2;

/// A form that was sent.
pub struct Sent {
    /// Its texts by their names.
    pub texts: BTreeMap<String, String>,
    /// The file, if there is one.
    pub file: Option<Field<'static>>,
    _share: Share,
}

impl Sent {
    /// Reads the texts.
    pub async fn read(asked: &LdpRequest, body: Body) -> Result<Self, LdpError> {
        let limits = SizeLimit::new().per_field(TEXT_BYTES_MAX);
        let limits = limits.for_field(TURTLE, DESCRIPTION_BYTES_MAX).for_field(FILE, u64::MAX);
        let form = Form::of(&asked.headers, body, Constraints::new().size_limit(limits));
        let mut form = form.map_err(|none| match none {
            NoForm::Type(found) => {
                LdpError::UnsupportedMediaType { found, supported: "multipart/form-data".to_owned() }
            }
            NoForm::Boundary => LdpError::Header { name: "content-type", why: none.to_string() },
        })?;
        let share = asked.library().memory.reserve(&asked.party, FORM_BYTES).await?;
        let (mut texts, mut texts_bytes) = (BTreeMap::new(), 0);
        for _ in 0..FIELDS_MAX {
            let Some(field) = form.next_part().await.map_err(refused)? else {
                return Self::of(texts, texts_bytes, None, share);
            };
            let Some(name) = field.name().map(str::to_owned) else { continue };
            if name == FILE {
                return Self::of(texts, texts_bytes, Some(field), share);
            }
            let text = field.text().await.map_err(refused)?;
            texts_bytes += (name.len() + text.len()) as u64;
            if texts_bytes > TEXTS_BYTES_MAX {
                return Err(LdpError::TooLarge { max_bytes: TEXTS_BYTES_MAX });
            }
            texts.insert(name, text);
        }
        Err(LdpError::Query("the form has too many fields"))
    }

    /// A form whose texts are read. It gives back what it does not need any more: a file may take
    /// long to arrive, and what the form asks for may wait for a share of its own.
    fn of(
        texts: BTreeMap<String, String>,
        texts_bytes: u64,
        file: Option<Field<'static>>,
        mut share: Share,
    ) -> Result<Self, LdpError> {
        let parser_bytes = if file.is_some() { PARSER_BYTES } else { 0 };
        share.resize(TEXTS_TIMES * texts_bytes + parser_bytes)?;
        Ok(Self { texts, file, _share: share })
    }

    /// A text without the space around it; empty if it was not sent.
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", |text| text.trim())
    }
}

/// The reason why a form cannot be read.
pub fn refused(error: multer::Error) -> LdpError {
    match error {
        multer::Error::FieldSizeExceeded { limit, .. } => LdpError::TooLarge { max_bytes: limit },
        multer::Error::StreamSizeExceeded { .. } => LdpError::Query("the form has too much before one of its fields"),
        error => LdpError::BodyBroken(error.to_string()),
    }
}
