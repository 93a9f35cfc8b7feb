//! The header `Date`. hyper would keep an earlier one for as long as the clock is behind it, after
//! the clock was set back.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;

thread_local! {
    /// The last second, and how it is written: most requests come within the same one.
    static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((u64::MAX, HeaderValue::from_static(""))) };
}

/// A time as HTTP writes it.
pub(super) fn of(now: SystemTime) -> HeaderValue {
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    LAST.with_borrow_mut(|last| {
        if last.0 != second
            && let Ok(written) = HeaderValue::from_str(&httpdate::fmt_http_date(now))
        {
            *last = (second, written);
        }
        last.1.clone()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_date_follows_a_clock_that_is_set_back() {
        let at = |seconds| of(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(784_108_177), "Sun, 06 Nov 1994 07:49:37 GMT");
        assert_eq!(at(784_108_178), "Sun, 06 Nov 1994 07:49:38 GMT");
    }
}
