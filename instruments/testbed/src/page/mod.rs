//! What reports, the portal and the lab have in common: a page in one file that loads nothing from
//! a network, its tables, and how it writes numbers.

pub mod number;
pub(crate) mod script;
pub(crate) mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The frame of a page.
pub struct Document<'a> {
    /// Its title.
    pub title: &'a str,
    /// Ids of sections and what leads to them.
    pub sections: &'a [(&'a str, &'a str)],
    /// Style sheets besides that of all pages.
    pub styles: &'a [&'static str],
    /// Scripts besides those that draw charts.
    pub scripts: &'a [&'static str],
    /// Whether the scripts load others from files beside the page.
    pub loads_scripts: bool,
}

impl Document<'_> {
    /// The page with this content; `data` is JSON that its scripts read.
    pub fn page(&self, content: &Markup, data: &str) -> Markup {
        let scripts = [&[script::UPLOT, script::CHARTS], self.scripts].concat();
        let styles =
            [include_str!("../../assets/uplot/uPlot.min.css"), include_str!("../../assets/report.css")].into_iter();
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(script::policy(&scripts, self.loads_scripts));
                    title { (self.title) }
                    @for style in styles.chain(self.styles.iter().copied()) { style { (PreEscaped(style)) } }
                }
                body {
                    nav aria-label="Sections" { @for (id, name) in self.sections { a href={ "#" (id) } { (name) } } }
                    (content)
                    script type="application/json" id="data" { (PreEscaped(data)) }
                    @for script in &scripts { script { (PreEscaped(script)) } }
                }
            }
        }
    }
}

/// A table that scrolls by itself where the page is too narrow. `body` is its rows.
pub fn table(caption: &str, body: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table { caption { (caption) } (body) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// All scripts of the folder and of those in it.
    fn scripts(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let within = entries.flat_map(|path| if path.is_dir() { scripts(&path) } else { vec![path] });
        within.filter(|path| path.extension().is_some_and(|extension| extension == "js")).collect()
    }

    #[test]
    fn no_script_ends_its_own_element() {
        let scripts = scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"));
        assert!(scripts.len() > 3);
        for path in scripts {
            let script = fs::read_to_string(path).unwrap_or_default();
            assert!(script.len() > 100 && !script.to_lowercase().contains("</script"));
            assert!(!script.contains("<!--"));
            // A browser would replace it, and the digest in the policy would be wrong.
            assert!(!script.contains('\r'));
        }
    }
}
