//! The list for people.

use door_http::Place;
use door_http::page::{Page, STYLE_PATH};
use maud::{Markup, html};
use volumes::find::{Described, Field, Order};

use super::asked::Asked;
use super::cells::{Edges, cell};
use crate::asking::segment;
use crate::settings::RepositoryPlace;

/// The fields by which the form searches, with a hint.
const SEARCHED: [(Field, &str); 4] =
    [(Field::Title, "salmon"), (Field::Author, "Frost"), (Field::Year, "1800..1900"), (Field::Language, "eng")];

/// What is before the first row: the form, and the heads of the columns, which sort.
pub fn begin(asked: &Asked) -> String {
    let given = |field: Field| {
        let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case(field.name());
        asked.kept.iter().rev().find(named).map(|(_, value)| value.as_str())
    };
    let form = html! {
        form.row {
            input type="hidden" name="format" value="html";
            @for (field, hint) in SEARCHED {
                label { (field.name()) " " input name=(field.name()) value=[given(field)] placeholder=(hint); }
            }
            button { "Find" }
        }
    };
    let heads = html! { @for field in &asked.fields { (head(asked, *field)) } };
    let to_root = &asked.to_root;
    let mut page = Page {
        title: "Volumes".to_owned(),
        style: format!("{to_root}{STYLE_PATH}"),
        home: to_root.clone(),
        ..Page::default()
    };
    if let Some(RepositoryPlace { address, has_search }) = &asked.repository {
        let search = has_search.then(|| format!("{to_root}{address}fcr:search"));
        page.places =
            vec![Place::new("Volumes", "?format=html"), Place::new("Repository", format!("{to_root}{address}"))];
        page.places.extend(search.as_deref().map(|search| Place::new("Search", search)));
        page.places.push(Place::new("Account", format!("{to_root}sign-in")));
        page.search = search;
    }
    format!("{}{}<div class=\"wide\"><table><thead><tr>{}</tr></thead>\n", page.begin(), form.0, heads.0)
}

fn head(asked: &Asked, field: Field) -> Markup {
    let descending = asked.sort == Some(Order { by: field, descending: false });
    let arrow = asked.sort.filter(|order| order.by == field).map(|order| if order.descending { " ↓" } else { " ↑" });
    let address = asked.sorted_by(Order { by: field, descending });
    html! { th scope="col" class=[class(field)] { a href=(address) { (field) } (arrow.unwrap_or_default()) } }
}

fn class(field: Field) -> Option<&'static str> {
    field.is_number().then_some("number")
}

/// A volume.
pub fn row(asked: &Asked, volume: &Described) -> String {
    let name = segment(&volume.id);
    let address = match &asked.repository {
        Some(repository) => format!("{}{}volumes/{name}", asked.to_root, repository.address),
        None => name,
    };
    let row = html! {
        tr {
            @for field in &asked.fields {
                @match field {
                    Field::Id => td { a href=(address) { (volume.id.as_str()) } },
                    _ => td class=[class(*field)] { (cell(*field, volume)) },
                }
            }
        }
        "\n"
    };
    row.into_string()
}

/// The row of a page without volumes. Those that were there may be gone.
pub fn nothing(asked: &Asked, edges: &Edges) -> String {
    let is_whole = edges.begins.is_none() && edges.next.is_none();
    let row = html! {
        tr { td colspan=(asked.fields.len()) { @if is_whole { "There are none." } @else { "There are no more." } } }
        "\n"
    };
    row.into_string()
}

/// What is behind the last row: links to other pages, as on those of the repository.
pub fn end(asked: &Asked, edges: &Edges) -> String {
    let back = edges.begins.as_deref().map(|begins| asked.back(begins));
    let next = edges.next.as_deref().map(|next| asked.next(next));
    let after_rows = html! {
        @if let Some(total) = edges.total { p { (total) " in all." } }
        @if back.is_some() || next.is_some() {
            nav.row.pager aria-label="Pages of the volumes" {
                span.row {
                    @if let Some([previous, first]) = &back {
                        a.button rel="prev" href=(previous) { "Previous page" }
                        a href=(first) { "First page" }
                    }
                }
                @if let Some(next) = &next { a.button rel="next" href=(next) { "Next page" } }
            }
        }
    };
    format!("</table></div>\n{}{}", after_rows.0, Page::END)
}
