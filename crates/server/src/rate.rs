//! Limits how many requests one party makes, and how many commands over the Redis protocol.
//!
//! The fields of responses follow draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy` has
//! the quota `q` and its window `w` in seconds, and `RateLimit` what remains of it (`r`) and in how
//! many seconds all of it is there again (`t`).

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use audit::Requester;
use axum::extract::Request;
use axum::response::Response;
use budget::Party;
use door_http::Reason;
use door_records::Exceeded;
use governor::clock::{Clock, DefaultClock, Reference};
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};
use http::{HeaderName, HeaderValue, header};
use parking_lot::Mutex;

use crate::config::LimitsConfig;
use crate::live::Live;
use crate::next::Next;
use crate::{health, page, problem};

/// Parties that are remembered. While there are more, further addresses share one quota, so that a
/// client with very many of them takes no more memory. An address that is remembered keeps its own
/// until all of it is there again; within two seconds it is forgotten then. So a client that sends
/// from so many addresses all the time can keep all places, and new addresses have the shared quota
/// only. Each token has its own in any case.
const PARTIES_MAX: usize = 100_000;

/// The addresses that are not remembered, as one party.
const SHARED: Party = Party::Network(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

/// How often parties are forgotten that have their whole quota again, if there are too many.
const FORGET_EVERY: Duration = Duration::from_secs(1);

pub(crate) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(crate) const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What is left for a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Requests that may come at once.
    Requests(u32),
    /// None until this time has passed.
    NoneFor(Duration),
}

/// What is remembered of each party. It is shared with the limiter, which does not say of whom it knows.
#[derive(Clone, Default)]
struct States(Arc<DashMapStateStore<Party>>);

impl StateStore for States {
    type Key = Party;

    fn measure_and_replace<T, F, E>(&self, party: &Party, change: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        self.0.measure_and_replace(party, change)
    }
}

impl ShrinkableKeyedStateStore<Party> for States {
    fn retain_recent(&self, drop_below: Nanos) {
        self.0.retain_recent(drop_below);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How many requests each party has made of late.
pub(crate) struct Rates<C: Clock = DefaultClock> {
    clock: C,
    per_second: NonZeroU32,
    burst: NonZeroU32,
    parties_max: usize,
    states: States,
    limiter: RateLimiter<Party, States, C, StateInformationMiddleware>,
    forgotten: Mutex<Option<C::Instant>>,
    /// How often it was asked whether there is room for another party, and the last answer.
    asked: AtomicUsize,
    had_room: AtomicBool,
}

impl Rates {
    /// The limit of requests, of which nobody has used anything; `None`: there is none.
    pub(crate) fn of_requests(limits: &LimitsConfig) -> Option<Self> {
        Self::of(limits.request_rate, limits.request_burst)
    }

    /// Likewise, of commands over the Redis protocol.
    pub(crate) fn of_commands(limits: &LimitsConfig) -> Option<Self> {
        Self::of(limits.command_rate, limits.command_burst)
    }

    fn of(per_second: u32, burst: u32) -> Option<Self> {
        let (per_second, burst) = (NonZeroU32::new(per_second)?, NonZeroU32::new(burst)?);
        Some(Self::new(per_second, burst, PARTIES_MAX, DefaultClock::default()))
    }
}

impl<C: Clock + Clone> Rates<C> {
    fn new(per_second: NonZeroU32, burst: NonZeroU32, parties_max: usize, clock: C) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        let states = States::default();
        let limiter = RateLimiter::new(quota, states.clone(), clock.clone());
        Self {
            clock,
            per_second,
            burst,
            parties_max,
            states,
            limiter,
            forgotten: Mutex::default(),
            asked: AtomicUsize::new(0),
            had_room: AtomicBool::new(true),
        }
    }

    /// Counts a command. `Err`: its party has made too many.
    pub(crate) fn count_command(&self, party: &Party) -> Result<(), Exceeded> {
        let Self { per_second, burst, .. } = self;
        match self.count(party.clone()) {
            Left::Requests(_) => Ok(()),
            Left::NoneFor(wait) => {
                let limit = format!("may make {per_second} commands per second, and {burst} at once");
                Err(Exceeded { limit, is_of_bytes: false, wait })
            }
        }
    }

    /// Counts a request or a command.
    fn count(&self, party: Party) -> Left {
        let party = match party {
            Party::Network(_) if !self.has_room() && !self.states.0.contains_key(&party) => SHARED,
            party => party,
        };
        match self.limiter.check_key(&party) {
            Ok(state) => Left::Requests(state.remaining_burst_capacity()),
            Err(not_until) => Left::NoneFor(not_until.wait_time_from(self.clock.now())),
        }
    }

    /// Whether there is room for another party. To count the parties takes a look at all of them, so it
    /// is done now and then: meanwhile there may be a thousandth more.
    fn has_room(&self) -> bool {
        let every = (self.parties_max / 1_000).max(1);
        if self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(every) {
            self.had_room.store(self.make_room(), Ordering::Relaxed);
        }
        self.had_room.load(Ordering::Relaxed)
    }

    fn make_room(&self) -> bool {
        if self.limiter.len() < self.parties_max {
            return true;
        }
        let now = self.clock.now();
        let mut forgotten = self.forgotten.lock();
        if forgotten.is_none_or(|last| now.duration_since(last) >= FORGET_EVERY.into()) {
            self.limiter.retain_recent();
            *forgotten = Some(now);
        }
        self.limiter.len() < self.parties_max
    }

    /// The seconds in which so many requests become available.
    fn seconds_for(&self, requests: u32) -> u32 {
        requests.div_ceil(self.per_second.get())
    }

    fn announce(&self, response: &mut Response, left: Left) {
        let burst = self.burst.get();
        let (remaining, whole_in_s) = match left {
            Left::Requests(left) => (left, self.seconds_for(burst.saturating_sub(left))),
            Left::NoneFor(_) => (0, self.seconds_for(burst)),
        };
        let policy = format!("\"requests\";q={burst};w={}", self.seconds_for(burst));
        let limit = format!("\"requests\";r={remaining};t={whole_in_s}");
        for (name, value) in [(POLICY, policy), (LIMIT, limit)] {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().append(name, value);
            }
        }
    }
}

/// Whether a path is answered whatever the limits of clients are.
pub(crate) fn is_unlimited(path: &str) -> bool {
    health::is_health(path) || page::is_asset(path)
}

/// A layer: refuses requests beyond the limit, and announces what remains.
pub(crate) async fn limit(live: &Live, request: Request, next: impl Next) -> Response {
    let rates = live.rates().filter(|_| !is_unlimited(request.uri().path()));
    let Some(rates) = rates else { return next.run(request).await };
    let party = request.extensions().get::<Requester>().map(Requester::party).unwrap_or_default();
    let left = rates.count(party);
    let mut response = match left {
        Left::Requests(_) => next.run(request).await,
        Left::NoneFor(wait) => {
            let Rates { per_second, burst, .. } = &*rates;
            let detail = format!("this client may make {per_second} requests per second, and {burst} at once");
            let mut response = problem::respond(Reason::TOO_MANY_REQUESTS, &detail);
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            response
        }
    };
    rates.announce(&mut response, left);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn rates(per_second: u32, burst: u32, parties_max: usize) -> (Rates<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let [per_second, burst] = [per_second, burst].map(|number| NonZeroU32::new(number).unwrap());
        (Rates::new(per_second, burst, parties_max, clock.clone()), clock)
    }

    #[test]
    fn a_party_has_its_burst_and_then_its_rate_whatever_others_do() {
        let (rates, clock) = rates(2, 3, 10);
        let (one, other) = (Party::of_token("one"), Party::of_token("other"));
        let left = [2, 1, 0].map(Left::Requests);
        assert_eq!([(); 3].map(|()| rates.count(one.clone())), left);
        assert_eq!(rates.count(one.clone()), Left::NoneFor(Duration::from_millis(500)));
        assert_eq!(rates.count(other), Left::Requests(2));
        clock.advance(Duration::from_millis(500));
        assert_eq!(rates.count(one.clone()), Left::Requests(0));
        assert_eq!(rates.count(one), Left::NoneFor(Duration::from_millis(500)));
    }

    #[test]
    fn while_there_are_too_many_parties_addresses_share_one_quota() {
        let (rates, clock) = rates(1, 1, 2);
        let party = |number: u8| Party::of_address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)));
        assert_eq!([1, 2].map(|number| rates.count(party(number))), [Left::Requests(0); 2]);
        assert_eq!(rates.count(party(3)), Left::Requests(0));
        assert!(matches!(rates.count(party(4)), Left::NoneFor(_)), "of a quota that the third one used");
        assert_eq!(rates.count(Party::of_token("a")), Left::Requests(0));
        clock.advance(Duration::from_secs(5));
        assert_eq!([5, 6].map(|number| rates.count(party(number))), [Left::Requests(0); 2]);
    }

    #[test]
    fn an_address_that_is_remembered_keeps_its_quota_while_very_many_others_pass_by() {
        let (rates, _) = rates(1, 10, PARTIES_MAX);
        let party = |number: u32| Party::of_address(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)));
        for left in [9, 8, 7] {
            assert_eq!(rates.count(party(0)), Left::Requests(left));
        }
        for number in 1..=200_000 {
            rates.count(party(number));
        }
        assert_eq!(rates.count(party(0)), Left::Requests(6), "it is its own quota, and no new one");
        assert!(matches!(rates.count(party(200_001)), Left::NoneFor(_)), "further addresses share one");
    }

    #[test]
    fn an_address_whose_quota_is_there_again_gives_its_place_to_another_one() {
        let (rates, clock) = rates(1, 4, 2);
        let party = |number: u8| Party::of_address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)));
        let is_remembered = |number| rates.states.0.contains_key(&party(number));
        assert_eq!(rates.count(party(1)), Left::Requests(3));
        for left in [3, 2, 1, 0] {
            assert_eq!(rates.count(party(2)), Left::Requests(left));
        }
        assert_eq!(rates.count(party(3)), Left::Requests(3));
        assert_eq!([1, 2, 3].map(is_remembered), [true, true, false], "the third one has the shared quota");
        clock.advance(Duration::from_millis(2_500));
        assert_eq!(rates.count(party(4)), Left::Requests(3));
        assert_eq!([1, 2, 4].map(is_remembered), [false, true, true], "the second one has used all of its own");
    }

    #[test]
    fn a_response_says_what_is_allowed_and_what_remains() {
        let (rates, _) = rates(10, 25, 10);
        let field = |left| {
            let mut response = Response::default();
            rates.announce(&mut response, left);
            [POLICY, LIMIT].map(|name| response.headers()[name].to_str().unwrap().to_owned())
        };
        let policy = "\"requests\";q=25;w=3";
        assert_eq!(field(Left::Requests(24)), [policy, "\"requests\";r=24;t=1"]);
        assert_eq!(field(Left::NoneFor(Duration::from_secs(1))), [policy, "\"requests\";r=0;t=3"]);
    }
}
