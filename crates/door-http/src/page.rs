//! Pages for people, with one look for every door. They need no script, load only from this server,
//! and show what comes from outside as text. The only script is [`ARROW_KEYS`].

use http::HeaderValue;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style of all pages.
pub const STYLE: &str = include_str!("page.css");

/// Where the server has [`STYLE`], from its root.
pub const STYLE_PATH: &str = "assets/page.css";

/// Where the server has the icon of all pages, from its root.
pub const ICON_PATH: &str = "assets/icon.svg";

/// The media type of [`STYLE`].
pub const STYLE_TYPE: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");

/// The media type of a page.
pub const TYPE: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The script of a page that leads to a page before (`rel="prev"`) and a page after (`rel="next"`):
/// the arrow keys follow these links.
pub const ARROW_KEYS: &str = "addEventListener('keydown', event => { \
    const rel = { ArrowLeft: 'prev', ArrowRight: 'next' }[event.key]; \
    if (!rel || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return; \
    if (!event.target.matches('input, select, textarea')) document.querySelector(`a[rel=${rel}]`)?.click(); \
    });";

/// A page loads its style, images, sounds and films from this server only. It may run [`ARROW_KEYS`],
/// whose SHA-256 this is, and nothing else.
pub const SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'sha256-0yxzo5LAgGJnxsDPaGbvpzeBBSROCc9wnPkboo8dM9U='; style-src 'self'; \
     img-src 'self'; media-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// The way from the page at a path to the root of the server, as a relative address. So pages work
/// wherever a proxy mounts the server.
pub fn to_root(path: &str) -> String {
    match path.matches('/').count() {
        0 | 1 => "./".to_owned(),
        depth => "../".repeat(depth - 1),
    }
}

/// A place with its name and its address, to which a page links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What people read.
    pub name: String,
    /// Where the link goes.
    pub address: String,
}

impl Place {
    /// A place.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self { name: name.into(), address: address.into() }
    }
}

/// What surrounds the content of a page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The title of the window, and of the page.
    pub title: String,
    /// The address of the style sheet.
    pub style: String,
    /// The address of the first page of this server, with a slash at the end.
    pub home: String,
    /// The places that every page of the door names.
    pub places: Vec<Place>,
    /// The address of the repository's search, to which a box in the header leads; `None`: there is
    /// no search, or the reader may not use it.
    pub search: Option<String>,
    /// The way up, from the top down, without the page itself.
    pub way: Vec<Place>,
}

impl Page {
    /// Everything before the content, with the title as the heading. [`Page::END`] must follow.
    pub fn begin(&self) -> String {
        self.begin_titled_in(None)
    }

    /// The same, with the language of the title (a tag of BCP 47); `None`: nothing says it.
    fn begin_titled_in(&self, language: Option<&str>) -> String {
        let page = html! {
            (DOCTYPE)
            (PreEscaped("<html lang=\"en\">"))
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title lang=[language] { (self.title) }
                link rel="icon" href={ (self.home) (ICON_PATH) } type="image/svg+xml";
                link rel="stylesheet" href=(self.style);
            }
            (PreEscaped("<body>"))
            a.skip href="#main" { "Skip to the content" }
            header.top {
                a.brand href=(self.home) { "Penates" }
                @if let Some(search) = &self.search { (search_box(search)) }
                @if !self.places.is_empty() {
                    nav aria-label="This server" {
                        @for place in &self.places { a href=(place.address) { (place.name) } }
                    }
                }
            }
            (PreEscaped("<main id=\"main\" tabindex=\"-1\">"))
            @if !self.way.is_empty() {
                nav.crumbs aria-label="The way here" {
                    @for place in &self.way { a href=(place.address) { (place.name) } span aria-hidden="true" { " / " } }
                }
            }
            h1 lang=[language] { (self.title) }
        };
        page.into_string()
    }

    /// Everything after the content.
    pub const END: &str = "</main></body></html>\n";

    /// The page with its content.
    pub fn with(&self, content: &Markup) -> String {
        self.titled_in(None, content)
    }

    /// The page with its content and the language of its title (a tag of BCP 47); `None`: nothing
    /// says it.
    pub fn titled_in(&self, language: Option<&str>, content: &Markup) -> String {
        format!("{}{}{}", self.begin_titled_in(language), content.0, Self::END)
    }
}

/// A table that may be wider than the window. One without links has a `name` for screen readers: it
/// takes the focus, so that a keyboard can scroll it.
pub fn wide(name: Option<&str>, table: &Markup) -> Markup {
    html! {
        div.wide tabindex=[name.map(|_| "0")] role=[name.map(|_| "region")] aria-label=[name] { (table) }
    }
}

/// The parameter of the repository's search that the box in the header fills in.
const SEARCHED: &str = "fedora_id";

/// The box by which people search the repository at an address for a path.
pub fn search_box(address: &str) -> Markup {
    html! {
        form.search role="search" aria-label="Search by path" action=(address) {
            label {
                span.visually-hidden { "Path of a resource; a star stands for any text" }
                input type="search" name=(SEARCHED) placeholder="Path, as in letters/*" autocapitalize="none" spellcheck="false";
            }
            button { "Search" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_root_has_a_step_for_each_folder() {
        for (path, way) in [("/", "./"), ("/fixity", "./"), ("/volumes/", "../"), ("/data-api/volumes/", "../../")] {
            assert_eq!(to_root(path), way, "{path}");
        }
    }

    #[test]
    fn texts_from_outside_are_no_markup() {
        let text = "<script>\"&'";
        let places = vec![Place::new(text, text)];
        let search = Some(text.to_owned());
        let page = Page { title: text.to_owned(), places: places.clone(), way: places, search, ..Page::default() };
        let page = page.with(&html! { p { (text) } });
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("<title>&lt;script&gt;&quot;&amp;'</title>"), "{page}");
        assert!(page.contains("href=\"&lt;script&gt;&quot;&amp;'\""), "{page}");
        assert!(page.contains("action=\"&lt;script&gt;&quot;&amp;'\""), "{page}");
    }

    #[test]
    fn a_title_has_its_language_if_that_is_known() {
        let page = Page { title: "Briefe".to_owned(), ..Page::default() };
        let titled = page.titled_in(Some("de"), &html! {});
        for part in ["<html lang=\"en\">", "<title lang=\"de\">Briefe</title>", "<h1 lang=\"de\">Briefe</h1>"] {
            assert!(titled.contains(part), "{part} is not in {titled}");
        }
        assert!(page.with(&html! {}).contains("<h1>Briefe</h1>"));
    }

    #[test]
    fn a_keyboard_can_scroll_a_table_without_links() {
        let table = html! { table {} };
        let named = "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Parts\"><table></table></div>";
        assert_eq!(wide(Some("Parts"), &table).into_string(), named);
        assert_eq!(wide(None, &table).into_string(), "<div class=\"wide\"><table></table></div>");
    }

    #[test]
    fn a_page_without_a_search_has_no_box() {
        assert!(!Page::default().begin().contains("role=\"search\""));
    }
}
