//! What the page with forms shows besides the current state.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::Action;

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
}

/// A text field with its label.
pub fn field(id: &str, name: &str, label: &str, typed: Option<&str>) -> Markup {
    html! { p { label for=(id) { (label) } input id=(id) name=(name) value=(typed.unwrap_or_default()); } }
}
