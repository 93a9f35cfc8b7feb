//! The samples of a metrics endpoint.

use tokio::time::{Instant, sleep, timeout_at};

use super::clock::Clock;
use super::endpoint::{Endpoint, FetchError};
use super::series::Columns;
use super::{MetricsSource, MonitorError, Totals};

/// An endpoint and its columns.
#[derive(Debug)]
pub struct Scrape {
    endpoint: Endpoint,
    prefixes: Vec<String>,
    columns: Columns,
    names: Vec<String>,
    totals: Totals,
}

impl Scrape {
    /// An endpoint whose series are not known yet.
    ///
    /// # Errors
    /// If its address or its token is malformed.
    pub fn new(source: &MetricsSource) -> Result<Self, MonitorError> {
        Ok(Self {
            endpoint: Endpoint::new(source)?,
            prefixes: source.prefixes.clone(),
            columns: Columns::default(),
            names: Vec::new(),
            totals: Totals::default(),
        })
    }

    /// Learns the series from a first page. It asks at least once, and again while values have
    /// not begun: a server may answer late.
    pub async fn learn(&mut self, clock: &Clock) {
        loop {
            let page = self.endpoint.fetch().await;
            if let Some(page) = self.count(page) {
                (self.columns, self.names) = Columns::choose(&page, &self.prefixes);
                return;
            }
            if timeout_at(clock.baseline(), sleep(clock.interval())).await.is_err() {
                return;
            }
        }
    }

    /// The names of the columns, once.
    pub fn take_columns(&mut self) -> Vec<String> {
        std::mem::take(&mut self.names)
    }

    /// Fetches a page and returns a value per column.
    pub async fn values(&mut self) -> Vec<Option<f64>> {
        let page = self.endpoint.fetch().await;
        let Some(page) = self.count(page) else { return vec![None; self.columns.len()] };
        let page = self.columns.values(&page, Instant::now());
        self.totals.series_left_out = self.totals.series_left_out.max(page.left_out);
        page.values
    }

    /// What was counted. It counts no samples.
    pub fn into_totals(self) -> Totals {
        self.totals
    }

    fn count(&mut self, page: Result<String, FetchError>) -> Option<String> {
        if let Err(error) = &page {
            self.totals.failed_fetches += 1;
            self.totals.last_failure = Some(error.to_string());
        }
        page.ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::super::test_server::{Reply, Server};
    use super::*;

    /// Learns the series of a server that is not ready when it is asked first.
    async fn learned(until_start: Duration) -> (Vec<String>, u64) {
        let server = Server::start(|number, _| match number {
            0 | 1 => Reply::Status(503),
            _ => Reply::page("http_open 7\n"),
        })
        .await;
        let source = MetricsSource { url: server.url.clone(), token: None, prefixes: vec![String::new()] };
        let mut scrape = Scrape::new(&source).unwrap();
        let clock = Clock::new(Instant::now() + until_start, Duration::from_millis(1)).unwrap();
        scrape.learn(&clock).await;
        (scrape.take_columns(), scrape.into_totals().failed_fetches)
    }

    #[tokio::test]
    async fn an_endpoint_is_asked_again_while_there_is_time() {
        let (columns, failed) = learned(Duration::from_secs(3600)).await;
        assert_eq!(columns, ["metrics.http_open"]);
        assert!(failed >= 2);
    }

    #[tokio::test]
    async fn an_endpoint_that_is_not_ready_at_the_start_has_no_columns() {
        assert_eq!(learned(Duration::ZERO).await, (vec![], 1));
    }
}
