//! A look at the bytes of a resource, for the types that every browser shows.

use bytes::{Bytes, BytesMut};
use encoding_rs::{CoderResult, Encoding, UTF_8};
use futures::TryStreamExt;
use hathi::outline::Outline;
use maud::{Markup, html};
use mediatype::{MediaType, ReadParams, names};
use repository::{Binary, Resource, ResourceError};

use crate::address::{Facet, Target};
use crate::errors::LdpError;
use crate::pages::{local, mets};
use crate::request::LdpRequest;

/// Bytes of a text that are shown.
const TEXT_BYTES: u64 = 4 << 10;

/// Images that browsers show.
const IMAGES: [&str; 6] = ["avif", "gif", "jpeg", "png", "svg+xml", "webp"];

/// Texts that are not of type `text`.
const TEXTS: [&str; 5] = ["json", "ld+json", "n-triples", "xml", "sparql-update"];

/// How bytes are shown.
enum Look {
    Image,
    Sound,
    Film,
    Text,
}

impl Look {
    fn at(media_type: &str) -> Option<Self> {
        let media_type = MediaType::parse(media_type).ok()?;
        let essence = media_type.essence().to_string().to_ascii_lowercase();
        match essence.split_once('/')? {
            ("image", image) if IMAGES.contains(&image) => Some(Self::Image),
            ("audio", _) => Some(Self::Sound),
            ("video", _) => Some(Self::Film),
            ("text", _) => Some(Self::Text),
            ("application", text) if TEXTS.contains(&text) || text.ends_with("+xml") || text.ends_with("+json") => {
                Some(Self::Text)
            }
            _ => None,
        }
    }
}

impl LdpRequest {
    /// The address of the bytes that the page is about: those that are there now, or of a version.
    pub fn iri_of_bytes(&self) -> String {
        self.site.iri_of_target(&Target { facet: Facet::Itself, ..self.target.clone() })
    }

    /// A look at bytes; nothing if browsers do not show this type. What is stored elsewhere is not
    /// fetched for a look at it.
    pub async fn preview(&self, resource: &Resource, binary: &Binary, title: &str) -> Result<Markup, LdpError> {
        let iri = self.iri_of_bytes();
        let address = local(&iri);
        let look = Look::at(&binary.media_type).filter(|_| binary.elsewhere().is_none());
        Ok(match look {
            None => html! {},
            Some(Look::Image) => html! { p.preview { img src=(address) alt=(title) loading="lazy"; } },
            Some(Look::Sound) => {
                html! { p.preview { audio controls preload="none" aria-label=(title) src=(address) {} } }
            }
            Some(Look::Film) => {
                html! { p.preview { video controls preload="none" aria-label=(title) src=(address) {} } }
            }
            Some(Look::Text) => {
                let (begin, listed) = match self.begin_of_text(resource, binary).await {
                    Err(LdpError::Resource(ResourceError::Objects(error))) if error.is_damage() => {
                        return Ok(html! { p.note { "The bytes are damaged." } });
                    }
                    read => read?,
                };
                match listed {
                    Some(listed) => mets::shown(&listed),
                    None => html! {
                        h2 id="beginning" { "Beginning" }
                        pre.text tabindex="0" role="region" aria-labelledby="beginning" {
                            (text_of(&begin, binary.len_bytes > TEXT_BYTES, encoding_of(&binary.media_type)))
                        }
                        @if binary.len_bytes > TEXT_BYTES { p.lead { "The first 4 KiB are shown." } }
                    },
                }
            }
        })
    }

    /// The first bytes of a text, and what it lists if it is a METS.
    async fn begin_of_text(&self, resource: &Resource, binary: &Binary) -> Result<(Bytes, Option<Outline>), LdpError> {
        let begin = self.first_bytes(resource, binary, TEXT_BYTES).await?;
        if !mets::may_be(&binary.media_type, &begin) {
            return Ok((begin, None));
        }
        let more = self.first_bytes(resource, binary, mets::READ_BYTES).await?;
        let is_cut = binary.len_bytes > mets::READ_BYTES;
        let compute = self.library().heads.surroundings().compute;
        let listed = compute.run(move || Outline::of(&more, is_cut)).await?;
        Ok((begin, listed))
    }

    /// All of bytes that are a text.
    pub async fn whole_text(&self, resource: &Resource, binary: &Binary) -> Result<String, LdpError> {
        let bytes = self.first_bytes(resource, binary, binary.len_bytes).await?;
        Ok(text_of(&bytes, false, encoding_of(&binary.media_type)))
    }

    async fn first_bytes(&self, resource: &Resource, binary: &Binary, len_max: u64) -> Result<Bytes, LdpError> {
        let range = 0..binary.len_bytes.min(len_max);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let content = self.library().repository.content(resource, binary, range).await?;
        let bytes = content.map_err(LdpError::from).try_fold(BytesMut::new(), async |mut bytes, piece| {
            bytes.extend_from_slice(&piece);
            Ok(bytes)
        });
        Ok(bytes.await?.freeze())
    }
}

/// Whether bytes of this type are a text that people read.
pub fn is_text(media_type: &str) -> bool {
    matches!(Look::at(media_type), Some(Look::Text))
}

/// The encoding that a media type states; UTF-8 if it states none that browsers know (WHATWG
/// Encoding, section 4.2).
pub fn encoding_of(media_type: &str) -> &'static Encoding {
    let media_type = MediaType::parse(media_type).ok();
    let stated = media_type.as_ref().and_then(|media_type| media_type.get_param(names::CHARSET));
    let known = stated.and_then(|label| Encoding::for_label_no_replacement(label.unquoted_str().as_bytes()));
    known.unwrap_or(UTF_8)
}

/// Bytes as a text in an encoding, or in that of their byte order mark. What is malformed in it is
/// shown as such. If the bytes are cut, half a character at their end is left out.
pub fn text_of(bytes: &[u8], is_cut: bool, encoding: &'static Encoding) -> String {
    let mut decoder = encoding.new_decoder();
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        let (result, read, _) = decoder.decode_to_string(rest, &mut text, !is_cut);
        rest = rest.get(read..).unwrap_or_default();
        if result == CoderResult::InputEmpty {
            return text;
        }
        text.reserve(decoder.max_utf8_buffer_length(rest.len()).unwrap_or(rest.len()));
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{UTF_16LE, WINDOWS_1252};

    use super::*;

    #[test]
    fn a_text_has_the_encoding_that_its_type_states_or_else_utf_8() {
        for (media_type, encoding) in [
            ("text/plain", UTF_8),
            ("text/plain; charset=iso-8859-1", WINDOWS_1252),
            ("Text/Plain; Charset=\"ISO-8859-1\"", WINDOWS_1252),
            ("text/csv; header=present; charset=utf-16le", UTF_16LE),
            ("text/plain; charset=nonsense", UTF_8),
            ("text/plain; charset=iso-2022-kr", UTF_8),
            ("nonsense", UTF_8),
        ] {
            assert_eq!(encoding_of(media_type), encoding, "{media_type}");
        }
    }

    #[test]
    fn what_is_malformed_is_shown_as_such_and_a_cut_character_is_left_out() {
        for (bytes, is_cut, encoding, text) in [
            (&b"\xDCber"[..], false, WINDOWS_1252, "Über"),
            (b"\xDCber", false, UTF_8, "\u{FFFD}ber"),
            (b"a\xC3", true, UTF_8, "a"),
            (b"a\xC3", false, UTF_8, "a\u{FFFD}"),
            (b"a\0\xDC", true, UTF_16LE, "a"),
            (b"\xEF\xBB\xBFa", false, WINDOWS_1252, "a"),
            (b"", false, UTF_8, ""),
        ] {
            assert_eq!(text_of(bytes, is_cut, encoding), text, "{bytes:?}");
        }
        // Each byte becomes two or three.
        for byte in [0xDC, 0x80] {
            let text = text_of(&[byte; 5_000], false, WINDOWS_1252);
            assert_eq!(text.chars().count(), 5_000, "{byte}");
        }
    }
}
