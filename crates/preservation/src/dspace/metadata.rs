//! The metadata in the sections of a METS: fields, policies, and references to files.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use super::Field;
use super::manifest::Policy;
use super::parser::Space;
use super::xml::{Kept, XmlResult};

/// Permissions that METSRights has words for.
const PERMISSIONS: [&str; 7] = ["DISCOVER", "DISPLAY", "COPY", "DUPLICATE", "MODIFY", "DELETE", "PRINT"];

/// Metadata under one identifier.
#[derive(Default)]
pub(super) struct Section {
    pub(super) fields: Vec<Field>,
    /// `None` without a declaration of rights.
    pub(super) policies: Option<Vec<Policy>>,
}

/// A text that is being read.
enum Reading {
    /// The value of the last field.
    Field(String),
    /// Who the last policy is about.
    Who(String),
}

/// The metadata of all sections.
#[derive(Default)]
pub(super) struct Metadata {
    sections: HashMap<String, Section>,
    /// The identifier of the open section.
    open: String,
    reading: Option<Reading>,
    pub(super) referenced: Vec<(String, Option<String>)>,
    pub(super) groups: u64,
    pub(super) people: u64,
}

impl Metadata {
    /// Begins a section.
    pub(super) fn begin(&mut self, id: String) {
        self.open = id;
    }

    /// An element of any format, in a section.
    pub(super) fn start(
        &mut self,
        space: Space,
        name: &str,
        element: &BytesStart<'_>,
        kept: &mut Kept,
    ) -> XmlResult<()> {
        match (space, name) {
            (Space::Mets, "mdRef") => {
                let mut attributes = kept.attributes(element)?;
                let file = attributes.take("href");
                self.referenced.extend(file.map(|file| (file, attributes.take("MIMETYPE"))));
            }
            (Space::Dim, "field") => self.field(element, kept)?,
            // Without policies it is there, and empty: only administrators may read then.
            (Space::Rights, "RightsDeclarationMD") => {
                kept.attributes(element)?;
                self.section().policies.get_or_insert_default();
            }
            (Space::Rights, "Context") => self.policy(element, kept)?,
            (Space::Rights, "UserName") => self.reading = Some(Reading::Who(String::new())),
            (Space::Rights, "Permissions") => self.permissions(element, kept)?,
            (_, "Group") => self.groups += 1,
            (_, "Person") => self.people += 1,
            _ => {}
        }
        Ok(())
    }

    fn section(&mut self) -> &mut Section {
        self.sections.entry(self.open.clone()).or_default()
    }

    fn field(&mut self, element: &BytesStart<'_>, kept: &mut Kept) -> XmlResult<()> {
        let mut attributes = kept.attributes(element)?;
        let field = Field {
            schema: attributes.need("field", "mdschema")?,
            element: attributes.need("field", "element")?,
            qualifier: attributes.take("qualifier"),
            language: attributes.take("lang"),
            value: String::new(),
        };
        self.section().fields.push(field);
        self.reading = Some(Reading::Field(String::new()));
        Ok(())
    }

    fn policy(&mut self, element: &BytesStart<'_>, kept: &mut Kept) -> XmlResult<()> {
        let mut attributes = kept.attributes(element)?;
        let policy = Policy {
            class: attributes.take("CONTEXTCLASS"),
            who: None,
            is_in_effect: attributes.take("in-effect").is_none_or(|said| said != "false"),
            from: attributes.take("start-date"),
            until: attributes.take("end-date"),
            permits: Vec::new(),
        };
        self.section().policies.get_or_insert_default().push(policy);
        Ok(())
    }

    fn permissions(&mut self, element: &BytesStart<'_>, kept: &mut Kept) -> XmlResult<()> {
        let mut attributes = kept.attributes(element)?;
        let is_given = |permit: &&str| attributes.take(permit).is_some_and(|said| said == "true");
        let mut permits: Vec<_> = PERMISSIONS.into_iter().filter(is_given).map(str::to_owned).collect();
        permits.extend(attributes.take("OTHERPERMITTYPE"));
        if let Some(policy) = self.last_policy() {
            policy.permits = permits;
        }
        Ok(())
    }

    /// The last policy of the open section.
    fn last_policy(&mut self) -> Option<&mut Policy> {
        self.section().policies.as_mut()?.last_mut()
    }

    pub(super) fn text(&mut self, text: &str, kept: &mut Kept) -> XmlResult<()> {
        if let Some(Reading::Field(read) | Reading::Who(read)) = &mut self.reading {
            kept.add(text.len())?;
            read.push_str(text);
        }
        Ok(())
    }

    /// Ends an element.
    pub(super) fn end(&mut self) {
        match self.reading.take() {
            Some(Reading::Field(value)) => {
                if let Some(field) = self.section().fields.last_mut() {
                    field.value = value;
                }
            }
            Some(Reading::Who(who)) => {
                if let Some(policy) = self.last_policy() {
                    policy.who = Some(who.trim().to_owned());
                }
            }
            None => {}
        }
    }

    /// Takes the metadata of the sections with these identifiers.
    pub(super) fn take(&mut self, ids: &str) -> Section {
        let mut all = Section::default();
        for section in ids.split_whitespace().filter_map(|id| self.sections.remove(id)) {
            all.fields.extend(section.fields);
            if let Some(policies) = section.policies {
                all.policies.get_or_insert_default().extend(policies);
            }
        }
        all
    }
}
