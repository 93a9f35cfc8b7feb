//! A look at the bytes of a resource, for the types that every browser shows.

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use hathi::outline::Outline;
use maud::{Markup, html};
use mediatype::MediaType;
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
                            (text_of(&begin, binary.len_bytes > TEXT_BYTES))
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
        let listed = Outline::of(&more, binary.len_bytes > mets::READ_BYTES);
        Ok((begin, listed))
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

/// Bytes as a text. What is no UTF-8 is shown as such. A character may be cut at the end.
pub fn text_of(bytes: &[u8], is_cut: bool) -> String {
    let whole = bytes.utf8_chunks().map(|chunk| (chunk.valid(), !chunk.invalid().is_empty()));
    let mut text = String::with_capacity(bytes.len());
    let mut rest = 0;
    for (valid, is_broken) in whole {
        text.push_str(valid);
        rest += valid.len();
        let is_at_end = is_cut && bytes.len() - rest < 4;
        if is_broken && !is_at_end {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}
