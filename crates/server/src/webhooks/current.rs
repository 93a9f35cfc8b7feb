//! The secrets of a webhook as its file has them now, so that a new one needs no restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::signing::Secrets;
use crate::config::WebhookConfig;
use crate::delivery::Reading;

/// How long reading a file may take.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// The secrets of a webhook.
pub(super) struct CurrentSecrets {
    config: Arc<WebhookConfig>,
    reading: Reading<Secrets>,
    /// The last ones that could be read.
    known: ArcSwap<Secrets>,
    /// Whether the last try to read them failed.
    is_failing: AtomicBool,
}

impl CurrentSecrets {
    /// Reads the secrets. Returns what is wrong with them.
    pub(super) fn read(config: &WebhookConfig) -> Result<Self, String> {
        let known = ArcSwap::from_pointee(config.secrets()?);
        let (config, reading) = (Arc::new(config.clone()), Reading::default());
        Ok(Self { config, reading, known, is_failing: AtomicBool::new(false) })
    }

    /// Reads the file again if there is one. Secrets that cannot be read, because somebody is
    /// writing them perhaps, leave the earlier ones in force, and are logged once.
    pub(super) async fn refresh(&self) {
        if self.config.secret_file.is_none() {
            return;
        }
        let config = self.config.clone();
        let reading = self.reading.read(move || config.secrets());
        let late = |_| Err(format!("`secret_file` cannot be read within {} s", READ_TIME_MAX.as_secs()));
        let read = tokio::time::timeout(READ_TIME_MAX, reading).await.unwrap_or_else(late);
        if let Err(why) = self.take(read) {
            tracing::warn!(webhook = self.config.name, why, "the earlier secrets of a webhook stay in force");
        }
    }

    /// Takes over what was read. Returns what is wrong with it, unless the last one was wrong too.
    fn take(&self, read: Result<Secrets, String>) -> Result<(), String> {
        let was_failing = self.is_failing.swap(read.is_err(), Ordering::Relaxed);
        match read {
            Ok(secrets) => self.known.store(Arc::new(secrets)),
            Err(why) if !was_failing => return Err(why),
            Err(_) => {}
        }
        Ok(())
    }

    /// The value of `webhook-signature`, as [`Secrets::sign`] has it.
    pub(super) fn sign(&self, id: &str, timestamp_s: u64, body: &[u8]) -> String {
        self.known.load().sign(id, timestamp_s, body)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn secrets_that_cannot_be_read_are_reported_once_each_time_and_the_earlier_ones_stay() {
        let [one, other] = ["A", "B"].map(|letter| format!("whsec_{}", letter.repeat(32)));
        let text = serde_json::json!({"name": "a", "url": "https://a.example/", "secret": one});
        let current = CurrentSecrets::read(&serde_json::from_value(text).unwrap()).unwrap();
        let signs_with = |secret: &str| current.sign("a", 1, b"") == Secrets::parse(secret).unwrap().sign("a", 1, b"");
        for secret in [&one, &other] {
            current.take(Secrets::parse(secret).map_err(|error| error.to_string())).unwrap();
            assert_eq!(current.take(Err("gone".to_owned())), Err("gone".to_owned()));
            assert_eq!(current.take(Err("gone".to_owned())), Ok(()));
            assert!(signs_with(secret));
        }
        assert!(!signs_with(&one));
    }
}
