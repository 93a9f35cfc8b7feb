//! Streams that a command resumes when they break.

use std::time::Duration;

use crate::client::ClientError;

/// The pause before a stream that broke is resumed, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];

/// Pauses between tries, which become longer. A new one is for a stream that works.
pub struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(PAUSES[0])
    }
}

impl Pauses {
    /// Says why a stream broke, and waits before it is resumed. Returns the error if it cannot be
    /// resumed.
    pub async fn wait(&mut self, broken: ClientError) -> Result<(), ClientError> {
        let Some(asked) = broken.passing_after() else { return Err(broken) };
        let after = asked.max(self.0);
        note!("{broken}; resuming in {after:?}");
        tokio::time::sleep(after).await;
        self.0 = (self.0 * 2).min(PAUSES[1]);
        Ok(())
    }
}
