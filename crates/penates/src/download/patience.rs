//! How long and how often a command tries.

use std::time::Duration;

use clap::Args;

use crate::client::ClientError;

/// The first pause before another try; each further one without progress is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause before another try.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The arguments that say it.
#[derive(Clone, Copy, Debug, Args)]
pub struct PatienceArgs {
    /// How often to try without progress.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// How long the server may send nothing of a response before this counts as a failure. The time
    /// in which it plans a response does not count: --max-time limits that.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    stall: Duration,
}

impl PatienceArgs {
    /// What they say.
    pub fn patience(self) -> Patience {
        Patience { tries: self.tries, silence: self.stall }
    }
}

/// A time that is not zero, such as `90s`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration.is_zero() => Err("must be longer than that".to_owned()),
        parsed => parsed.map_err(|error| format!("must be a time like 90s or 5m: {error}")),
    }
}

/// How long a download tries.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How often to try without progress.
    pub tries: u32,
    /// How long the server may be silent.
    pub silence: Duration,
}

impl Patience {
    /// The result of waiting for the server, or the error if it is silent for too long.
    pub async fn with<T>(self, waiting: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let silent = || ClientError::Broken(format!("the server was silent for {:?}", self.silence).into());
        tokio::time::timeout(self.silence, waiting).await.unwrap_or_else(|_| Err(silent()))
    }

    /// Retries something on a busy server, `tries` times in all. A store that is read-only usually
    /// stays so for longer than that: it is not asked again.
    pub async fn retried<T, F>(self, attempt: impl Fn() -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut failures = 0;
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            failures += 1;
            let refused = error.status().and(error.passing_after()).filter(|_| !error.is_read_only());
            let Some(least) = refused.filter(|_| failures < self.tries) else { return Err(error) };
            note!("Not started yet: {error}. Trying again.");
            tokio::time::sleep(pause_after(failures, least)).await;
        }
    }
}

/// The pause after a number of failures without progress. The last one asked for at least `least`.
pub(super) fn pause_after(failures: u32, least: Duration) -> Duration {
    let pause = FIRST_PAUSE * 2u32.saturating_pow(failures - 1);
    pause.max(least).min(PAUSE_MAX)
}
