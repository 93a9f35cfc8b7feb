//! What the network interfaces of the machine carry.

use std::collections::HashMap;

use procfs::Current;
use procfs::net::{DeviceStatus, InterfaceDeviceStatus};

use super::rate;

/// The columns, in the order of [`rates`].
pub const COLUMNS: [&str; 3] = ["network_received_bytes_per_s", "network_sent_bytes_per_s", "loopback_bytes_per_s"];

const LOOPBACK: &str = "lo";

/// The counters of the interfaces, by name.
pub type Interfaces = HashMap<String, DeviceStatus>;

/// Reads them now.
pub fn read() -> Option<Interfaces> {
    InterfaceDeviceStatus::current().ok().map(|status| status.0)
}

/// The values of [`COLUMNS`]. An interface that comes, ends or begins to count again in between is left out.
pub fn rates(before: Option<&Interfaces>, now: Option<&Interfaces>, elapsed_s: f64) -> [Option<f64>; 3] {
    let (Some(before), Some(now)) = (before, now) else { return [None; 3] };
    let sum = |is_loopback: bool, bytes: fn(&DeviceStatus) -> u64| {
        now.iter()
            .filter(|(name, _)| (name.as_str() == LOOPBACK) == is_loopback)
            .filter_map(|(name, now)| rate(bytes(before.get(name)?), bytes(now), elapsed_s))
            .reduce(|all, one| all + one)
    };
    [sum(false, |it| it.recv_bytes), sum(false, |it| it.sent_bytes), sum(true, |it| it.recv_bytes)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use procfs::FromBufRead;

    use super::*;

    /// Text as the kernel writes it, of interfaces with bytes received and sent.
    fn interfaces(list: &[(&str, u64, u64)]) -> Interfaces {
        let mut text = String::from(
            "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls \
             carrier compressed\n",
        );
        for (name, received, sent) in list {
            text += &format!("{name:>6}: {received:>7} 35540 0 0 0 0 0 0 {sent:>7} 23930 0 0 0 0 0 0\n");
        }
        InterfaceDeviceStatus::from_buf_read(text.as_bytes()).unwrap().0
    }

    #[test]
    fn the_loopback_is_apart() {
        let before = interfaces(&[("lo", 1000, 1000), ("eth0", 100, 200), ("wlan0", 0, 0)]);
        let now = interfaces(&[("lo", 5000, 5000), ("eth0", 300, 800), ("wlan0", 20, 40)]);
        assert_eq!(rates(Some(&before), Some(&now), 2.0), [Some(110.0), Some(320.0), Some(2000.0)]);
    }

    #[test]
    fn an_interface_that_comes_or_ends_or_counts_anew_is_left_out() {
        let before = interfaces(&[("eth0", 100, 100), ("eth1", 7000, 7000), ("veth9", 50, 50)]);
        let now = interfaces(&[("eth0", 110, 120), ("eth1", 10, 10), ("veth10", 900, 900)]);
        assert_eq!(rates(Some(&before), Some(&now), 1.0), [Some(10.0), Some(20.0), None]);
    }

    #[test]
    fn no_reading_gives_no_rates() {
        let now = interfaces(&[("lo", 1, 1)]);
        assert_eq!(rates(None, Some(&now), 1.0), [None; 3]);
        assert_eq!(rates(Some(&now), None, 1.0), [None; 3]);
    }
}
