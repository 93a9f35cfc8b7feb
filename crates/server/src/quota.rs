//! Limits how many requests of one party run at once, and how many bytes it gets in a day.
//!
//! The counts are this server's own, and begin at 0 when it starts. The fields of responses are
//! those of [`rate`](crate::rate).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use audit::Requester;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use budget::Party;
use bytes::Bytes;
use door_http::Reason;
use door_records::Exceeded;
use http::{HeaderValue, header};
use http_body::Frame;
use parking_lot::Mutex;
use store::{Clock, UnixMillis};

use crate::config::LimitsConfig;
use crate::live::Live;
use crate::next::Next;
use crate::observed_body::{ObservedBody, Observer, bytes_of};
use crate::problem;
use crate::rate::{LIMIT, POLICY, is_unlimited};

/// Parties that are remembered. While there are more, addresses share one quota, so that a client
/// with very many of them takes no more memory. Each token has its own in any case.
const PARTIES_MAX: usize = 100_000;

/// How often parties are forgotten that need not be remembered, if there are too many.
const FORGET_EVERY_MS: u64 = 1_000;

const DAY_MS: u64 = 24 * 3_600_000;

/// After how many seconds a party may try again that has too many requests at once. When one of
/// them ends is not known.
const SOON_S: u64 = 1;

/// What one party may take; 0: any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    at_once: u32,
    bytes_per_day: u64,
}

/// What a party has taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    running: u32,
    /// When its day began.
    since: UnixMillis,
    bytes: u64,
}

/// What is left for a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    at_once: u32,
    bytes: u64,
    /// Until its next day begins.
    seconds: u64,
}

/// What each party has taken of late.
pub(crate) struct Quotas {
    clock: Arc<dyn Clock>,
    parties_max: usize,
    parties: Mutex<Parties>,
}

#[derive(Default)]
struct Parties {
    taken: HashMap<Party, Taken>,
    forgotten: Option<UnixMillis>,
}

/// A request that runs until this is dropped.
struct Running {
    quotas: Arc<Quotas>,
    party: Party,
}

impl Quota {
    fn of(limits: &LimitsConfig) -> Option<Self> {
        let (at_once, bytes_per_day) = (limits.requests_at_once, limits.bytes_per_day);
        (at_once > 0 || bytes_per_day > 0).then_some(Self { at_once, bytes_per_day })
    }

    /// The fields of a response.
    fn announce(self, response: &mut Response, left: Left) {
        let Left { at_once, bytes, seconds } = left;
        let of_requests =
            (format!("\"at-once\";q={};qu=\"concurrent-requests\"", self.at_once), format!("\"at-once\";r={at_once}"));
        let of_bytes = (
            format!("\"bytes\";q={};qu=\"content-bytes\";w={}", self.bytes_per_day, DAY_MS / 1_000),
            format!("\"bytes\";r={bytes};t={seconds}"),
        );
        let fields = [(self.at_once > 0, of_requests), (self.bytes_per_day > 0, of_bytes)];
        for (policy, limit) in fields.into_iter().filter_map(|(is_limited, fields)| is_limited.then_some(fields)) {
            for (name, value) in [(POLICY, policy), (LIMIT, limit)] {
                response.headers_mut().extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
            }
        }
    }
}

impl Quotas {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::of_at_most(PARTIES_MAX, clock)
    }

    fn of_at_most(parties_max: usize, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, parties_max, parties: Mutex::default() })
    }

    /// Begins a request of a party; `None`: it has taken all that it may.
    fn begin(self: &Arc<Self>, party: Party, quota: Quota) -> (Option<Running>, Left) {
        let now = self.clock.now();
        let mut parties = self.parties.lock();
        let (party, taken) = parties.of(party, self.parties_max, now);
        let is_refused = quota.at_once > 0 && taken.running >= quota.at_once
            || quota.bytes_per_day > 0 && taken.bytes >= quota.bytes_per_day;
        if !is_refused {
            taken.running += 1;
        }
        let left = Left {
            at_once: quota.at_once.saturating_sub(taken.running),
            bytes: quota.bytes_per_day.saturating_sub(taken.bytes),
            seconds: (taken.since.0 + DAY_MS).saturating_sub(now.0).div_ceil(1_000),
        };
        drop(parties);
        ((!is_refused).then(|| Running { quotas: self.clone(), party }), left)
    }

    /// Refuses a command of a party that has got all bytes of its day.
    pub(crate) fn allow_command(&self, party: &Party, bytes_per_day: u64) -> Result<(), Exceeded> {
        let now = self.clock.now();
        let mut parties = self.parties.lock();
        let (_, taken) = parties.of(party.clone(), self.parties_max, now);
        match taken.bytes < bytes_per_day {
            true => Ok(()),
            false => Err(Exceeded {
                limit: format!("may get {bytes_per_day} bytes in a day"),
                is_of_bytes: true,
                wait: Duration::from_millis((taken.since.0 + DAY_MS).saturating_sub(now.0)),
            }),
        }
    }

    /// Counts bytes of answers to commands.
    pub(crate) fn answered(&self, party: &Party, bytes: u64) {
        let now = self.clock.now();
        let mut parties = self.parties.lock();
        let (_, taken) = parties.of(party.clone(), self.parties_max, now);
        taken.bytes = taken.bytes.saturating_add(bytes);
    }
}

impl Taken {
    /// Whether its day has ended, or is one of a clock that was set back since.
    fn is_over(&self, now: UnixMillis) -> bool {
        self.since > now || now.0 >= self.since.0 + DAY_MS
    }
}

impl Parties {
    /// What a party has taken of its day. Its day begins now if the last one is over. While there are
    /// too many parties, it is the one of all further addresses.
    fn of(&mut self, party: Party, parties_max: usize, now: UnixMillis) -> (Party, &mut Taken) {
        let party = match party {
            Party::Network(_) if !self.have_room_for(&party, parties_max, now) => {
                Party::Network(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
            }
            party => party,
        };
        let taken = self.taken.entry(party.clone()).or_insert(Taken { running: 0, since: now, bytes: 0 });
        if taken.is_over(now) {
            (taken.since, taken.bytes) = (now, 0);
        }
        (party, taken)
    }

    fn have_room_for(&mut self, party: &Party, parties_max: usize, now: UnixMillis) -> bool {
        if self.taken.contains_key(party) || self.taken.len() < parties_max {
            return true;
        }
        // A time in the future is of a clock that was set back since.
        if self.forgotten.is_none_or(|at| at > now || now.0 >= at.0 + FORGET_EVERY_MS) {
            // A party that runs nothing and got nothing is as good as a new one.
            self.taken.retain(|_, taken| taken.running > 0 || taken.bytes > 0 && !taken.is_over(now));
            self.forgotten = Some(now);
        }
        self.taken.len() < parties_max
    }
}

impl Running {
    /// Counts bytes that the party gets.
    fn sent(&self, bytes: u64) {
        if let Some(taken) = self.quotas.parties.lock().taken.get_mut(&self.party) {
            taken.bytes = taken.bytes.saturating_add(bytes);
        }
    }
}

impl Observer for Running {
    fn taken(&mut self, frame: Option<Result<&Frame<Bytes>, &axum::Error>>, _: bool) {
        if let Some(Ok(frame)) = frame {
            self.sent(bytes_of(frame));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(taken) = self.quotas.parties.lock().taken.get_mut(&self.party) {
            taken.running -= 1;
        }
    }
}

/// A layer: refuses requests beyond a party's quotas, and announces what remains.
pub(crate) async fn keep(live: &Live, quotas: &Arc<Quotas>, request: Request, next: impl Next) -> Response {
    let quota = Quota::of(&live.limits()).filter(|_| !is_unlimited(request.uri().path()));
    let Some(quota) = quota else { return next.run(request).await };
    let party = request.extensions().get::<Requester>().map(Requester::party).unwrap_or_default();
    let (running, left) = quotas.begin(party, quota);
    let mut response = match running {
        Some(running) => next.run(request).await.map(|body| Body::new(ObservedBody { body, observer: running })),
        None => refuse(quota, left),
    };
    quota.announce(&mut response, left);
    response
}

fn refuse(Quota { at_once, bytes_per_day }: Quota, left: Left) -> Response {
    let (detail, seconds) = match bytes_per_day > 0 && left.bytes == 0 {
        true => (format!("this client may get {bytes_per_day} bytes in a day"), left.seconds),
        false => (format!("this client may make {at_once} requests at once"), SOON_S),
    };
    let mut response = problem::respond(Reason::TOO_MANY_REQUESTS, &detail);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::ManualClock;

    use super::*;

    const QUOTA: Quota = Quota { at_once: 2, bytes_per_day: 100 };

    fn quotas(parties_max: usize) -> (Arc<Quotas>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(UnixMillis(5_000)));
        (Quotas::of_at_most(parties_max, clock.clone()), clock)
    }

    fn address(number: u8) -> Party {
        Party::of_address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)))
    }

    #[test]
    fn a_party_has_so_many_requests_at_once_whatever_others_do() {
        let (quotas, _) = quotas(9);
        let (first, left) = quotas.begin(address(1), QUOTA);
        assert_eq!((first.is_some(), left.at_once), (true, 1));
        let (second, _) = quotas.begin(address(1), QUOTA);
        let (third, left) = quotas.begin(address(1), QUOTA);
        assert_eq!((second.is_some(), third.is_some(), left.at_once), (true, false, 0));
        assert!(quotas.begin(Party::of_token("other"), QUOTA).0.is_some());
        drop(first);
        assert!(quotas.begin(address(1), QUOTA).0.is_some());
    }

    #[test]
    fn a_party_gets_so_many_bytes_from_its_first_request_to_the_next_day() {
        let (quotas, clock) = quotas(9);
        let (running, left) = quotas.begin(address(1), QUOTA);
        assert_eq!((left.bytes, left.seconds), (100, 86_400));
        // What has begun is sent whole.
        running.unwrap().sent(130);
        clock.set(UnixMillis(5_000 + DAY_MS - 1));
        let (refused, left) = quotas.begin(address(1), QUOTA);
        assert_eq!((refused.is_some(), left.bytes, left.seconds), (false, 0, 1));
        assert!(quotas.begin(address(2), QUOTA).0.is_some());
        clock.set(UnixMillis(5_000 + DAY_MS));
        let (running, left) = quotas.begin(address(1), QUOTA);
        assert_eq!((running.is_some(), left.bytes, left.seconds), (true, 100, 86_400));
    }

    #[test]
    fn while_there_are_too_many_parties_addresses_share_one_quota() {
        let (quotas, clock) = quotas(2);
        let run = |number, bytes| {
            let (running, _) = quotas.begin(address(number), QUOTA);
            running.map(|running| running.sent(bytes)).is_some()
        };
        assert!(run(1, 1) && run(2, 1));
        assert!(run(3, 100));
        assert!(!run(4, 1), "of a quota that the third one used");
        assert!(run(1, 1) && quotas.begin(Party::of_token("a"), QUOTA).0.is_some());
        assert!(quotas.parties.lock().taken.len() <= 4);
        clock.set(UnixMillis(5_000 + DAY_MS));
        assert!(run(5, 1) && run(6, 1));
        assert!(quotas.parties.lock().taken.len() <= 3);
    }

    #[test]
    fn a_clock_that_is_set_back_ends_the_day_and_keeps_no_party_out() {
        let (quotas, clock) = quotas(1);
        clock.set(UnixMillis(5_000 + 365 * DAY_MS));
        let (running, _) = quotas.begin(address(1), QUOTA);
        running.unwrap().sent(100);
        // There are too many parties, so that it looks whom it may forget.
        assert!(quotas.begin(address(2), QUOTA).0.is_some());
        assert!(quotas.allow_command(&address(1), 100).is_err());
        clock.set(UnixMillis(5_000));
        assert!(quotas.begin(address(3), QUOTA).0.is_some());
        assert!(quotas.parties.lock().taken.contains_key(&address(3)), "the first one was not forgotten");
        let (running, left) = quotas.begin(Party::of_token("a"), QUOTA);
        running.unwrap().sent(100);
        assert_eq!((left.bytes, left.seconds), (100, 86_400));
        clock.set(UnixMillis(4_000));
        assert!(quotas.allow_command(&Party::of_token("a"), 100).is_ok());
    }

    #[test]
    fn a_refusal_says_when_to_come_again_and_what_is_allowed() {
        let field = |response: &Response, name| {
            let values = response.headers().get_all(name).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let left = Left { at_once: 2, bytes: 0, seconds: 77 };
        let mut response = refuse(QUOTA, left);
        QUOTA.announce(&mut response, left);
        assert_eq!(field(&response, header::RETRY_AFTER), ["77"]);
        assert_eq!(
            field(&response, POLICY),
            ["\"at-once\";q=2;qu=\"concurrent-requests\"", "\"bytes\";q=100;qu=\"content-bytes\";w=86400"]
        );
        assert_eq!(field(&response, LIMIT), ["\"at-once\";r=2", "\"bytes\";r=0;t=77"]);
        let busy = refuse(QUOTA, Left { at_once: 0, bytes: 9, seconds: 77 });
        assert_eq!(field(&busy, header::RETRY_AFTER), ["1"]);
    }
}
