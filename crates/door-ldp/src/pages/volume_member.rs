//! The page of a member of a volume: of a page, with its text, the number that is printed on it and
//! links to the pages beside it, which the arrow keys follow; or of the METS or the record, with its
//! beginning.

use ::volumes::{PageInfo, Volume};
use door_http::page::ARROW_KEYS;
use encoding_rs::UTF_8;
use hathi::{Seq, VolumeId};
use heads::ObjectsResult;
use library::Library;
use maud::{Markup, PreEscaped, html};

use super::preview::text_of;
use super::volume::go_to_page;
use super::{about_volumes, local, place, terms};
use crate::address::Site;
use crate::errors::LdpError;
use crate::volume_members::Part;

/// Most bytes of a text that are shown.
pub const SHOWN_BYTES: usize = 256 << 10;

/// The first bytes of a member's text.
pub struct Beginning {
    /// At most [`SHOWN_BYTES`].
    pub text: Vec<u8>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// The page of a member.
pub async fn page_of_member(
    library: &Library,
    site: &Site,
    id: &VolumeId,
    part: Part,
    beginning: &Beginning,
) -> Result<String, LdpError> {
    let volume = library.volumes.volume(id).await?;
    let about_page = match part {
        Part::Page(seq) => {
            let near = Near::of(library, &volume, seq).await?;
            near.shown(local(&site.volume_iri(id)), seq, volume.page_count())
        }
        Part::Mets | Part::Record => html! {},
    };
    let mut page = about_volumes(site, Some(id));
    let name = volume.body.title.as_deref().map_or_else(|| id.to_string(), terms::title);
    page.way.push(place(&name, &site.volume_iri(id)));
    page.title = match part {
        Part::Page(seq) => format!("Page {seq}"),
        Part::Mets => "METS".to_owned(),
        Part::Record => "Record".to_owned(),
    };
    let text = text_of(&beginning.text, beginning.is_cut, UTF_8);
    let text = match part {
        Part::Page(_) if text.is_empty() => html! { p { "There is no text on this page." } },
        Part::Page(_) => html! { div.leaf { pre { (text) } } },
        Part::Mets | Part::Record => html! { pre.text tabindex="0" role="region" aria-label=(page.title) { (text) } },
    };
    let whole = format!("{}/{}", site.data_iri(id), part.path());
    let format = match part {
        Part::Page(_) => "Plain text",
        Part::Mets => "XML",
        Part::Record => "JSON",
    };
    Ok(page.with(&html! {
        (about_page)
        (text)
        @if beginning.is_cut { p.lead { "The first " (SHOWN_BYTES >> 10) " KiB are shown." } }
        p.row { a.button href=(local(&whole)) { (format) @if beginning.is_cut { ", all of it" } } }
        @if let Part::Page(_) = part { script { (PreEscaped(ARROW_KEYS)) } }
    }))
}

/// What is known of a page, and the pages beside it.
struct Near {
    before: Option<Seq>,
    page: Option<PageInfo>,
    after: Option<Seq>,
}

impl Near {
    /// What is damaged is left out: the text is shown all the same.
    async fn of(library: &Library, volume: &Volume, seq: Seq) -> Result<Self, LdpError> {
        let pages = match beside(library, volume, seq).await {
            Err(error) if error.is_damage() => Vec::new(),
            pages => pages?,
        };
        let before = pages.iter().map(|page| page.seq).rfind(|other| *other < seq);
        let after = pages.iter().map(|page| page.seq).find(|other| *other > seq);
        let page = pages.into_iter().find(|page| page.seq == seq);
        Ok(Self { before, page, after })
    }

    /// `volume` is the local address of the volume, which has so many pages.
    fn shown(&self, volume: &str, seq: Seq, count: u32) -> Markup {
        let at = |seq: Seq| format!("{volume}/pages/{seq}");
        html! {
            dl.about {
                dt { "Page" } dd { (seq.get()) }
                @if let Some(page) = &self.page {
                    @if let Some(label) = &page.label { dt { "Printed number" } dd { (terms::title(label)) } }
                    @if !page.features.is_empty() { dt { "What is on it" } dd { (features(page)) } }
                    dt { "Size" } dd { (terms::size(u64::from(page.size))) }
                }
            }
            nav.row.pager aria-label="Pages of the volume" {
                @if let Some(before) = self.before { a.button rel="prev" href=(at(before)) { "Page before" } }
                @else { span {} }
                @if let Some(after) = self.after { a.button rel="next" href=(at(after)) { "Next page" } }
            }
            (go_to_page(volume, Some(seq), count))
        }
    }
}

/// A page and those beside it, in their order.
async fn beside(library: &Library, volume: &Volume, seq: Seq) -> ObjectsResult<Vec<PageInfo>> {
    let found = library.volumes.resolve_pages(volume, &[seq]).await?.pop().flatten();
    let Some((index, _)) = found else { return Ok(Vec::new()) };
    library.volumes.page_list(&volume.id, index.saturating_sub(1)..index.saturating_add(2)).await
}

/// What the METS says of a page, in words.
pub fn features(page: &PageInfo) -> String {
    page.features.join(", ").to_lowercase().replace('_', " ")
}
