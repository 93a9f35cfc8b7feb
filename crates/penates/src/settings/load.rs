//! Layers of a configuration: defaults, then a TOML file, then the environment, then flags, each
//! overriding the one before.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use figment::providers::{Env, Format, Serialized, Toml};
use figment::value::{self, Dict, Map};
use figment::{Figment, Metadata, Profile, Provider, Source};
use serde::Serialize;
use serde_json::Value;
use server::config::ConfigError;
use thiserror::Error;

use super::Settings;
use crate::cassandra::InvalidSettings;

/// Variables are `PENATES_SECTION__KEY`. Those without `__` are not configuration.
const ENV_PREFIX: &str = "PENATES_";

/// The configuration in force, and the origin of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    figment: Figment,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "from", content = "name")]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// This file.
    File(PathBuf),
    /// This environment variable.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// One value in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// `section.key`
    pub key: String,
    /// Its value; null where nothing is set.
    pub value: Value,
    /// Where it came from.
    pub origin: Origin,
}

/// Why a configuration is refused.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// A layer cannot be read. The message names it.
    #[error("configuration: {0}")]
    Layer(Box<figment::Error>),
    /// An invalid value.
    #[error("configuration: `{key}` ({origin}): {reason}")]
    Value {
        /// The name of the setting.
        key: String,
        /// Where it was set.
        origin: Origin,
        /// What is wrong.
        reason: String,
    },
    /// There is no such setting.
    #[error("configuration: there is no setting `{key}` ({origin}); {known}")]
    Unknown {
        /// Its name.
        key: String,
        /// Where it was set.
        origin: Origin,
        /// Those that there are.
        known: String,
    },
    /// The server refuses its settings.
    #[error(transparent)]
    Server(#[from] ConfigError),
    /// The Cassandra engine refuses its settings.
    #[error("configuration: {0}")]
    Cassandra(#[from] InvalidSettings),
}

impl From<figment::Error> for SettingsError {
    fn from(error: figment::Error) -> Self {
        Self::Layer(Box::new(error))
    }
}

/// Reads the layers and checks what they make. A file that is named must be there; `flags` hold
/// `section.key` values that were given on the command line, and only those.
pub fn load(file: Option<&Path>, flags: impl Provider) -> Result<Loaded, SettingsError> {
    let mut figment = Figment::from(Defaults);
    if let Some(path) = file {
        figment = figment.merge(TomlFile(path));
    }
    let environment = Env::prefixed(ENV_PREFIX).filter(|key| key.as_str().contains("__")).split("__");
    let figment = figment.merge(environment).merge(flags);
    refuse_unknown(&figment)?;
    let settings = Settings::extract(&figment)?;
    settings.check()?;
    Ok(Loaded { settings, figment })
}

/// Refuses settings that no part of the program has.
fn refuse_unknown(layers: &Figment) -> Result<(), SettingsError> {
    let sections = Settings::default().values();
    let unknown = |key: String, what: &str, known: &serde_json::Map<String, Value>| {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        Err(SettingsError::Unknown {
            origin: origin_in(layers, &key),
            key,
            known: format!("{what}: {}", names.join(", ")),
        })
    };
    for (section, set) in layers.extract::<Dict>()? {
        let Some(Value::Object(known)) = sections.get(&section) else {
            // The name of a variable consists of both.
            let first = set.as_dict().and_then(|set| set.keys().next());
            let key = first.map_or_else(|| section.clone(), |name| format!("{section}.{name}"));
            return unknown(key, "there are the sections", &sections);
        };
        let mut names = set.as_dict().into_iter().flat_map(value::Dict::keys);
        if let Some(name) = names.find(|name| !known.contains_key(*name)) {
            return unknown(format!("{section}.{name}"), &format!("in [{section}] there are"), known);
        }
    }
    Ok(())
}

impl Loaded {
    /// Every value in force with its origin, ordered by key.
    pub fn explain(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for (section, values) in self.settings.values() {
            let Value::Object(values) = values else { continue };
            for (name, value) in values {
                let key = format!("{section}.{name}");
                settings.push(Setting { origin: self.origin(&key), key, value });
            }
        }
        settings
    }

    /// Whether nobody set a value, given its name (`section.key`).
    pub fn is_default(&self, key: &str) -> bool {
        self.origin(key) == Origin::Default
    }

    fn origin(&self, key: &str) -> Origin {
        origin_in(&self.figment, key)
    }
}

/// The layer that has set a value.
pub(super) fn origin_in(layers: &Figment, key: &str) -> Origin {
    layers.find_metadata(key).map_or(Origin::Default, |metadata| origin(metadata, key))
}

fn origin(metadata: &Metadata, key: &str) -> Origin {
    if let Some(Source::File(path)) = &metadata.source {
        return Origin::File(path.clone());
    }
    if metadata.name == DEFAULTS {
        return Origin::Default;
    }
    if metadata.name.starts_with(&format!("`{ENV_PREFIX}`")) {
        return Origin::Environment(format!("{ENV_PREFIX}{}", key.replace('.', "__").to_uppercase()));
    }
    Origin::Flag
}

/// A file. An error in it names the line and does not quote it, because it may have a secret.
struct TomlFile<'a>(&'a Path);

impl Provider for TomlFile<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::from("TOML file", self.0)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let text = fs::read_to_string(self.0).map_err(|error| error.to_string())?;
        let values = Toml::from_str::<Dict>(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1));
            format!("{}{}", line.unwrap_or_default(), error.message())
        })?;
        Ok(Profile::Default.collect(values))
    }
}

/// The lowest layer, with a name of its own so that an origin can tell it from the others.
struct Defaults;

const DEFAULTS: &str = "defaults";

impl Provider for Defaults {
    fn metadata(&self) -> Metadata {
        Metadata::named(DEFAULTS)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Serialized::defaults(Settings::default().values()).data()
    }
}

#[cfg(test)]
// `figment::Error` is large, and `Jail` wants it.
#[allow(clippy::result_large_err, clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use figment::Jail;
    use store_cassandra::Level;

    use super::*;
    use crate::settings::StoreLocation;

    fn no_flags() -> impl Provider {
        Serialized::defaults(Dict::new())
    }

    fn flag(key: &str, value: &str) -> impl Provider {
        Serialized::default(key, value)
    }

    fn origin_of(loaded: &Loaded, key: &str) -> Origin {
        loaded.explain().into_iter().find(|setting| setting.key == key).unwrap().origin
    }

    #[test]
    fn the_defaults_stand_by_themselves_and_say_so() {
        Jail::expect_with(|_| {
            let loaded = load(None, no_flags()).unwrap();
            assert_eq!(loaded.settings, Settings::default());
            assert!(loaded.explain().iter().all(|setting| setting.origin == Origin::Default));
            assert!(loaded.explain().iter().any(|setting| setting.key == "listen.tls_cert" && setting.value.is_null()));
            Ok(())
        });
    }

    #[test]
    fn each_layer_overrides_the_one_before_and_is_named_as_the_origin() {
        Jail::expect_with(|jail| {
            jail.create_file(
                "penates.toml",
                "[limits]\nstall = \"1s\"\nbody_pause = \"1s\"\nheader_time = \"1s\"\n[data]\nform_max = \"2MiB\"",
            )?;
            jail.set_env("PENATES_LIMITS__BODY_PAUSE", "2s");
            jail.set_env("PENATES_LIMITS__HEADER_TIME", "2s");
            let loaded = load(Some(Path::new("penates.toml")), flag("limits.header_time", "3s")).unwrap();
            let limits = &loaded.settings.server.limits;
            assert_eq!(limits.stall, Duration::from_secs(1));
            assert_eq!(limits.body_pause, Duration::from_secs(2));
            assert_eq!(limits.header_time, Duration::from_secs(3));
            assert_eq!(loaded.settings.server.data.form_max, 2 << 20);
            assert!(matches!(origin_of(&loaded, "limits.stall"), Origin::File(path) if path.ends_with("penates.toml")));
            let variable = "PENATES_LIMITS__BODY_PAUSE".to_owned();
            assert_eq!(origin_of(&loaded, "limits.body_pause"), Origin::Environment(variable));
            assert_eq!(origin_of(&loaded, "limits.header_time"), Origin::Flag);
            assert_eq!(origin_of(&loaded, "limits.connections"), Origin::Default);
            Ok(())
        });
    }

    #[test]
    fn an_unknown_key_is_refused_by_name_and_place() {
        Jail::expect_with(|jail| {
            jail.create_file("penates.toml", "[limits]\nstal = \"1s\"")?;
            let message = load(Some(Path::new("penates.toml")), no_flags()).unwrap_err().to_string();
            let named = ["`limits.stal`", "penates.toml", "body_rate, "];
            assert!(named.iter().all(|word| message.contains(word)), "{message}");
            for key in ["store.pat", "cassandra.users", "auth.raed"] {
                let message = load(None, flag(key, "value")).unwrap_err().to_string();
                assert!(message.contains(&format!("`{key}` (flag)")), "{message}");
            }
            jail.set_env("PENATES_LIMIT__STALL", "1s");
            let message = load(None, no_flags()).unwrap_err().to_string();
            assert!(message.contains("limit") && message.contains("PENATES_"), "{message}");
            Ok(())
        });
    }

    #[test]
    fn a_variable_that_is_no_configuration_is_left_alone() {
        Jail::expect_with(|jail| {
            jail.set_env("PENATES_SERVER", "http://127.0.0.1:1");
            load(None, no_flags()).unwrap();
            Ok(())
        });
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        Jail::expect_with(|_| {
            let message = load(Some(Path::new("none.toml")), no_flags()).unwrap_err().to_string();
            assert!(message.contains("none.toml"), "{message}");
            Ok(())
        });
    }

    #[test]
    fn an_error_in_a_file_names_the_line_and_quotes_nothing_of_it() {
        Jail::expect_with(|jail| {
            jail.create_file("penates.toml", "[cassandra]\nuser = \"u\"\npassword = geheim\n")?;
            let message = load(Some(Path::new("penates.toml")), no_flags()).unwrap_err().to_string();
            assert!(message.contains("line 3: ") && message.contains("penates.toml"), "{message}");
            assert!(!message.contains("geheim"), "{message}");
            jail.create_file("penates.toml", "[cassandra]\nuser = \"u\"\npassword = 12345678\n")?;
            let message = load(Some(Path::new("penates.toml")), no_flags()).unwrap_err().to_string();
            assert!(message.contains("write it in quotes") && !message.contains("12345678"), "{message}");
            Ok(())
        });
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named_with_its_key() {
        Jail::expect_with(|_| {
            for (key, value) in [
                ("listen.http", "nowhere"),
                ("limits.stall", "soon"),
                ("data.form_max", "much"),
                ("limits.memory", "much"),
                ("ldp.update_memory", "much"),
                ("auth.read", "maybe"),
                ("data.on_damage", "weep"),
                ("store.cache", "much"),
                ("cassandra.requests_max", "many"),
                ("cassandra.serial", "sometimes"),
            ] {
                let message = load(None, flag(key, value)).unwrap_err().to_string();
                assert!(message.contains(key), "{key}: {message}");
            }
            Ok(())
        });
    }

    #[test]
    fn memory_is_a_size_or_auto() {
        Jail::expect_with(|jail| {
            let sizes = [("\"600MiB\"", Some(600 << 20)), ("536870912", Some(512 << 20)), ("\"auto\"", None)];
            for (written, bytes) in sizes {
                let file = format!("[limits]\nmemory = {written}\n[ldp]\nupdate_memory = {written}");
                jail.create_file("penates.toml", &file)?;
                let loaded = load(Some(Path::new("penates.toml")), no_flags()).unwrap();
                let Settings { server, .. } = &loaded.settings;
                assert_eq!((server.limits.memory, server.ldp.update_memory), (bytes, bytes), "{written}");
            }
            let shown = |value: &str| {
                let loaded = load(None, flag("limits.memory", value)).unwrap();
                loaded.explain().into_iter().find(|setting| setting.key == "limits.memory").unwrap().value
            };
            assert_eq!([shown("auto"), shown("1GiB")], ["auto", "1GiB"]);
            Ok(())
        });
    }

    #[test]
    fn other_than_loopback_needs_authentication_or_plain_words() {
        Jail::expect_with(|_| {
            let beyond = ["0.0.0.0:80", "[::]:80", "192.0.2.1:80"];
            let doors = ["listen.http", "listen.tls", "records.listen"];
            for (key, address) in doors.into_iter().flat_map(|key| beyond.map(|address| (key, address))) {
                let listen = || flag(key, address);
                let refused = load(None, listen()).unwrap_err().to_string();
                assert!(refused.contains("auth.read_open_anywhere") && refused.contains(address), "{refused}");
                let read_by_token = Figment::from(listen()).merge(("auth.read", "token"));
                load(None, read_by_token.clone()).unwrap();
                let write_open = read_by_token.merge(("auth.write", "open"));
                let refused = load(None, write_open.clone()).unwrap_err().to_string();
                assert!(refused.contains("auth.write_open_anywhere"), "{refused}");
                load(None, write_open.merge(("auth.write_open_anywhere", true))).unwrap();
                load(None, Figment::from(listen()).merge(("auth.read_open_anywhere", true))).unwrap();
            }
            for address in ["127.0.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "off"] {
                load(None, Figment::from(flag("listen.http", address)).merge(("auth.write", "open"))).unwrap();
            }
            Ok(())
        });
    }

    #[test]
    fn settings_of_engines_are_read_beside_those_of_the_server_and_checked() {
        Jail::expect_with(|jail| {
            let file = "[store]\npath = \"cassandra://node/books\"\ncache = \"64MiB\"\nframe_level = 2\n\
                        [cassandra]\nuser = \"penates\"\naudit_write = \"ONE\"";
            jail.create_file("penates.toml", file)?;
            let refused = load(Some(Path::new("penates.toml")), no_flags()).unwrap_err().to_string();
            assert!(refused.contains("cassandra.user"), "{refused}");
            let loaded = load(Some(Path::new("penates.toml")), flag("cassandra.password", "a-secret")).unwrap();
            let settings = &loaded.settings;
            assert_eq!(settings.place(), StoreLocation::Cluster("cassandra://node/books"));
            assert_eq!(settings.embedded.cache, Some(64 << 20));
            assert_eq!((settings.cassandra.audit_write, settings.server.store.frame_level), (Level::One, 2));
            let shown = format!("{:?}", loaded.explain());
            assert!(shown.contains("(hidden)") && !shown.contains("a-secret"), "{shown}");
            Ok(())
        });
    }

    #[test]
    fn a_grace_that_a_stream_could_outlive_is_refused() {
        Jail::expect_with(|_| {
            let message = load(None, flag("store.grace", "12h")).unwrap_err().to_string();
            assert!(message.contains("store.grace"), "{message}");
            Ok(())
        });
    }
}
