//! What may change while a server runs: limits, the phase in which it stops, and its certificate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

use crate::config::LimitsConfig;
use crate::rate::Rates;
use crate::tls::Served;

/// If nobody has asked for so long whether the server is ready, nobody waits for it to say no.
const WATCHED_WITHIN: Duration = Duration::from_secs(60);

/// What may change while a server runs.
pub(crate) struct Live {
    limits: ArcSwap<LimitsConfig>,
    /// `None`: any rate of requests is allowed.
    rates: ArcSwapOption<Rates>,
    /// `None`: any rate of commands over the Redis protocol is allowed.
    command_rates: ArcSwapOption<Rates>,
    certificate: Mutex<Option<Arc<Served>>>,
    is_draining: AtomicBool,
    /// When somebody last asked whether the server is ready.
    watched_at: Mutex<Option<Instant>>,
}

impl Live {
    pub(crate) fn new(limits: &LimitsConfig) -> Arc<Self> {
        Arc::new(Self {
            limits: ArcSwap::from_pointee(limits.clone()),
            rates: ArcSwapOption::from(Rates::of_requests(limits).map(Arc::new)),
            command_rates: ArcSwapOption::from(Rates::of_commands(limits).map(Arc::new)),
            certificate: Mutex::default(),
            is_draining: AtomicBool::new(false),
            watched_at: Mutex::default(),
        })
    }

    /// The limits of what begins now.
    pub(crate) fn limits(&self) -> Arc<LimitsConfig> {
        self.limits.load_full()
    }

    /// The bytes that each party may get in a day; 0: any. It is asked for each command.
    pub(crate) fn bytes_per_day(&self) -> u64 {
        self.limits.load().bytes_per_day
    }

    /// How many requests each party may make.
    pub(crate) fn rates(&self) -> Option<Arc<Rates>> {
        self.rates.load_full()
    }

    /// How many commands each party may make over the Redis protocol.
    pub(crate) fn command_rates(&self) -> Option<Arc<Rates>> {
        self.command_rates.load_full()
    }

    /// Another rate counts from now on: everybody has all of it again.
    pub(crate) fn set_limits(&self, limits: LimitsConfig) {
        let rate = |limits: &LimitsConfig| (limits.request_rate, limits.request_burst);
        if rate(&limits) != rate(&self.limits()) {
            self.rates.store(Rates::of_requests(&limits).map(Arc::new));
        }
        let rate = |limits: &LimitsConfig| (limits.command_rate, limits.command_burst);
        if rate(&limits) != rate(&self.limits()) {
            self.command_rates.store(Rates::of_commands(&limits).map(Arc::new));
        }
        self.limits.store(Arc::new(limits));
    }

    pub(crate) fn certificate(&self) -> Option<Arc<Served>> {
        self.certificate.lock().clone()
    }

    pub(crate) fn set_certificate(&self, served: Arc<Served>) {
        *self.certificate.lock() = Some(served);
    }

    /// Whether clients are to go elsewhere: each response is the last one on its connection.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Somebody asks whether the server is ready.
    pub(crate) fn watched(&self) {
        *self.watched_at.lock() = Some(Instant::now());
    }

    /// Begins to drain. Returns how long it is to last: nothing if nobody watches.
    pub(crate) fn drain(&self) -> Duration {
        self.is_draining.store(true, Ordering::Relaxed);
        let is_watched = self.watched_at.lock().is_some_and(|at| at.elapsed() < WATCHED_WITHIN);
        if is_watched { self.limits().drain } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_rate_of_requests_replaces_the_one_before_and_other_limits_do_not() {
        let limits = |request_rate, drain| LimitsConfig { request_rate, drain, ..LimitsConfig::default() };
        let live = Live::new(&limits(0, Duration::ZERO));
        assert!(live.rates().is_none());
        live.set_limits(limits(5, Duration::ZERO));
        let rates = live.rates();
        live.set_limits(limits(5, Duration::from_secs(9)));
        assert!(rates.is_some() && rates.as_ref().map(Arc::as_ptr) == live.rates().as_ref().map(Arc::as_ptr));
        live.set_limits(limits(6, Duration::ZERO));
        assert!(rates.as_ref().map(Arc::as_ptr) != live.rates().as_ref().map(Arc::as_ptr));
        live.set_limits(limits(0, Duration::ZERO));
        assert!(live.rates().is_none());
    }

    #[test]
    fn a_server_that_nobody_watches_does_not_wait_before_it_stops() {
        let limits = LimitsConfig { drain: Duration::from_secs(7), ..LimitsConfig::default() };
        let live = Live::new(&limits);
        assert_eq!((live.drain(), live.is_draining()), (Duration::ZERO, true));
        live.watched();
        assert_eq!(live.drain(), Duration::from_secs(7));
    }
}
