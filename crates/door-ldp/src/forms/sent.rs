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

/// Memory that a form takes: its texts, the page that shows them again, and what reads it.
const FORM_BYTES: u64 = 4 * TEXTS_BYTES_MAX + PARSER_BYTES;

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
                return Ok(Self { texts, file: None, _share: share });
            };
            let Some(name) = field.name().map(str::to_owned) else { continue };
            if name == FILE {
                return Ok(Self { texts, file: Some(field), _share: share });
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
