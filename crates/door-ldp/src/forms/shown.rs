//! What the page with forms shows besides the current state.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{Action, ETAG, GROUP, TURTLE};

/// What the page shows besides the current state.
#[derive(Default)]
pub struct Shown {
    /// The version that is to be restored: only that form is shown.
    pub asked: Option<String>,
    /// The form that was refused, and why.
    pub refused: Option<(Action, Refusal)>,
    /// What was typed into it.
    pub texts: BTreeMap<String, String>,
}

/// Why a form was refused.
pub enum Refusal {
    /// The resource has changed since the form was opened.
    Changed,
    /// Another reason.
    Other(String),
}

impl Shown {
    /// What was typed into a field of a form.
    pub fn typed(&self, action: Action, field: &str) -> Option<&str> {
        let (refused, _) = self.refused.as_ref()?;
        (*refused == action).then(|| self.texts.get(field).map_or("", String::as_str))
    }

    /// The description that was typed, with the tag of the state that it was made of.
    pub fn description(&self) -> Option<(String, String)> {
        let typed = self.typed(Action::Describe, TURTLE)?;
        Some((typed.to_owned(), self.texts.get(ETAG).cloned().unwrap_or_default()))
    }
}

/// A box that asks for an archival group, with what was typed into the form.
pub fn group_box(typed: Option<&str>) -> Markup {
    let is_asked = typed.is_some_and(|typed| !typed.is_empty());
    html! {
        p {
            label {
                input type="checkbox" name=(GROUP) value="yes" checked[is_asked];
                " As an archival group: what is in it belongs together"
            }
        }
    }
}

/// A text field with its label. It takes text in any direction.
pub fn field(id: &str, name: &str, label: &str, typed: Option<&str>) -> Markup {
    html! { p { label for=(id) { (label) } input id=(id) name=(name) dir="auto" value=(typed.unwrap_or_default()); } }
}
