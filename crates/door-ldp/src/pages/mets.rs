//! A look at a METS: its title, how many files it has, and the first entries of its `structMap`.

use door_http::page::wide;
use hathi::outline::{ENTRIES_MAX, METS, Outline};
use maud::{Markup, html};
use mediatype::MediaType;

use super::terms;

/// Most bytes of a METS that are read.
pub const READ_BYTES: u64 = 1 << 20;

/// Whether bytes of this type that begin so may be a METS.
pub fn may_be(media_type: &str, begin: &[u8]) -> bool {
    let Ok(media_type) = MediaType::parse(media_type) else { return false };
    match media_type.essence().to_string().to_ascii_lowercase().as_str() {
        "application/mets+xml" => true,
        "application/xml" | "text/xml" => begin.windows(METS.len()).any(|part| part == METS.as_bytes()),
        _ => false,
    }
}

/// What a METS lists, for people.
pub fn shown(listed: &Outline) -> Markup {
    let text = |text: &Option<String>| text.as_deref().map(terms::title).unwrap_or_default();
    let entries = html! {
        table {
            thead {
                tr {
                    th.number scope="col" { "Order" }
                    th scope="col" { "Label" }
                    th scope="col" { "File" }
                }
            }
            tbody {
                @for entry in &listed.entries {
                    tr {
                        td.number { (text(&entry.order)) }
                        td { (text(&entry.label)) }
                        td { code { (text(&entry.file)) } }
                    }
                }
            }
        }
    };
    html! {
        h2 { "What this METS lists" }
        dl.about {
            @if listed.title.is_some() { dt { "Title" } dd { (text(&listed.title)) } }
            dt { "Files" } dd { (listed.files) }
        }
        @if !listed.entries.is_empty() { (wide(Some("Entries"), &entries)) }
        @if listed.has_more { p.lead { "The first " (ENTRIES_MAX) " entries are shown." } }
        @if listed.is_cut { p.lead { "The first MiB was read." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_mets_or_xml_with_its_namespace_may_be_one() {
        let begin = format!("<mets xmlns=\"{METS}\">");
        assert!(may_be("application/mets+xml", b""));
        assert!(may_be("text/xml; charset=utf-8", begin.as_bytes()));
        assert!(may_be("Application/XML", begin.as_bytes()));
        assert!(!may_be("application/xml", b"<a/>"));
        assert!(!may_be("text/plain", begin.as_bytes()));
    }
}
