//! The configuration in force: defaults, file, environment and the flags of a command line, each
//! overriding the one before. `sections.rs` puts the settings of the server and of the engines
//! together, `load.rs` reads the layers. `reference.rs` and `sample.rs` explain them to people.

#[cfg(test)]
mod documents;
mod load;
mod reference;
mod sample;
mod sections;

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::cli::StoreArgs;
use crate::exit::CliError;

pub use load::{Loaded, Origin, Setting};
pub use reference::reference;
pub use sample::sample;
pub use sections::{Settings, StoreLocation};

/// The values that a command line sets, by their dotted names. Later ones override earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Flags(Vec<Flag>);

/// One value that a command line sets.
#[derive(Clone, Debug)]
struct Flag {
    /// Its dotted name.
    key: String,
    value: Value,
}

impl Provider for Flag {
    /// Its name in errors.
    fn metadata(&self) -> Metadata {
        Metadata::named("the command line").interpolater(|_, keys| keys.join("."))
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let nested = figment::util::nest(&self.key, self.value.clone());
        Ok(Profile::Default.collect(nested.into_dict().unwrap_or_default()))
    }
}

impl Flags {
    /// The values of the arguments about the store.
    pub fn of(store: &StoreArgs) -> anyhow::Result<Self> {
        let mut flags = Self::default();
        for setting in &store.set {
            let (key, value) = setting
                .split_once('=')
                .filter(|(key, _)| key.contains('.'))
                .ok_or_else(|| CliError::Usage(format!("--set {setting}: write SECTION.KEY=VALUE")))?;
            flags.set(key.trim(), parse_value(value));
        }
        if let Some(path) = &store.store {
            flags.set("store.path", path.display().to_string());
        }
        Ok(flags)
    }

    /// Sets one value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push(Flag { key: key.to_owned(), value: value.into() });
    }

    fn figment(self) -> Figment {
        self.0.into_iter().fold(Figment::new(), Figment::merge)
    }
}

/// A value as in the environment: a TOML value if it is one, otherwise the text itself.
fn parse_value(text: &str) -> Value {
    let Ok(value) = text.parse();
    value
}

/// Loads the configuration. An error in it is a mistake of usage.
pub fn load(store: &StoreArgs, flags: Flags) -> anyhow::Result<Loaded> {
    load::load(store.config.as_deref(), flags.figment()).map_err(|error| CliError::Usage(error.to_string()).into())
}
