//! The configuration in force: defaults, file, environment and the flags of a command line, each overriding the one before.

use figment::Figment;
use figment::providers::Serialized;
use figment::value::Value;
use server::config::Loaded;

use crate::cli::StoreArgs;
use crate::exit::CliError;

/// The values that a command line sets, by their dotted names. What comes later overrides what came before.
#[derive(Clone, Debug, Default)]
pub struct Flags(Vec<(String, Value)>);

impl Flags {
    /// What the arguments about the store say.
    pub fn of(store: &StoreArgs) -> anyhow::Result<Self> {
        let mut flags = Self::default();
        for setting in &store.set {
            let (key, value) = setting
                .split_once('=')
                .filter(|(key, _)| key.contains('.'))
                .ok_or_else(|| CliError::Usage(format!("--set {setting}: say SECTION.KEY=VALUE")))?;
            flags.0.push((key.trim().to_owned(), parse_value(value)));
        }
        if let Some(path) = &store.store {
            flags.set("store.path", path.display().to_string());
        }
        Ok(flags)
    }

    /// Sets one value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push((key.to_owned(), value.into()));
    }

    fn figment(self) -> Figment {
        self.0.into_iter().fold(Figment::new(), |figment, (key, value)| figment.merge(Serialized::default(&key, value)))
    }
}

/// A value as in the environment: a TOML value where it is one, else the text itself.
fn parse_value(text: &str) -> Value {
    let Ok(value) = text.parse();
    value
}

/// Loads the configuration; whatever is wrong with it is a mistake of usage.
pub fn load(store: &StoreArgs, flags: Flags) -> anyhow::Result<Loaded> {
    server::config::load(store.config.as_deref(), flags.figment())
        .map_err(|error| CliError::Usage(error.to_string()).into())
}
