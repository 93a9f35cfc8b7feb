//! A list in each of its formats.

use serde_json::{Map, Value};
use volumes::find::{Described, Field};

use super::asked::Asked;
use super::cells::{Edges, cell, csv_line};
use super::format::Format;
use super::page;

impl Format {
    /// What is before the first volume.
    pub fn begin(self, asked: &Asked) -> String {
        match self {
            Self::Text | Self::Lines => String::new(),
            Self::Json => "{\"volumes\":[".to_owned(),
            Self::Csv => csv_line(asked.fields.iter().map(|field| field.name().to_owned())),
            Self::Html => page::begin(asked),
        }
    }

    /// A volume.
    pub fn item(self, asked: &Asked, volume: &Described, is_first: bool) -> String {
        let fields = &asked.fields;
        match self {
            Self::Text => format!("{}\n", volume.id),
            Self::Lines => format!("{}\n", json(fields, volume)),
            Self::Json => format!("{}{}", if is_first { "\n" } else { ",\n" }, json(fields, volume)),
            Self::Csv => csv_line(fields.iter().map(|field| cell(*field, volume))),
            Self::Html => page::row(asked, volume),
        }
    }

    /// What a part without volumes has instead of them.
    pub fn nothing(self, asked: &Asked, edges: &Edges) -> String {
        match self {
            Self::Text | Self::Lines | Self::Json | Self::Csv => String::new(),
            Self::Html => page::nothing(asked, edges),
        }
    }

    /// What is behind the last volume.
    pub fn end(self, asked: &Asked, edges: &Edges) -> String {
        match self {
            Self::Text | Self::Lines | Self::Csv => String::new(),
            Self::Json => {
                let total = edges.total.map(|total| format!(",\"total\":{total}")).unwrap_or_default();
                format!("],\"next\":{}{total}}}\n", Value::from(edges.next.clone()))
            }
            Self::Html => page::end(asked, edges),
        }
    }
}

fn json(fields: &[Field], volume: &Described) -> Value {
    let value = |field: Field| match field.is_number() {
        true => Value::from(volume.number(field)),
        false => Value::from(volume.text(field)),
    };
    Value::Object(fields.iter().map(|field| (field.name().to_owned(), value(*field))).collect::<Map<_, _>>())
}
