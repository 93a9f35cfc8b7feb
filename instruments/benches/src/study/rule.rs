//! The study's rule: compress if ratio < 1 − rate_transfer / rate_input. It holds if a sender first
//! compresses and then sends, and nobody unpacks: a byte of text takes 1 / rate_input + ratio /
//! rate_transfer, or 1 / rate_transfer without compression.

use pack::Level;

/// The abilities of a sender at one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// The level.
    pub level: Level,
    /// Bytes of ZIP per byte of text.
    pub ratio: f64,
    /// MB of text per second that it makes into ZIP.
    pub input_rate: f64,
}

impl Sender {
    /// Whether the rule recommends compression over a link of this rate (MB/s).
    pub fn is_worth_it(&self, transfer_rate: f64) -> bool {
        self.ratio < 1.0 - transfer_rate / self.input_rate
    }

    /// The rate (MB/s) of a link at which both sides of the rule are equal; below 0 if compressing
    /// never pays.
    pub fn worth_it_below(&self) -> f64 {
        (1.0 - self.ratio) * self.input_rate
    }

    /// The time of one MB of text according to the rule, in seconds.
    fn seconds_per_mb(&self, transfer_rate: f64) -> f64 {
        match self.level {
            // According to the rule, sending uncompressed text costs the sender nothing.
            Level::Stored => self.ratio / transfer_rate,
            _ => 1.0 / self.input_rate + self.ratio / transfer_rate,
        }
    }
}

/// The level with the least time by the rule's own arithmetic; `None` only if there are no senders.
pub fn best(senders: &[Sender], transfer_rate: f64) -> Option<Level> {
    let by_time =
        |a: &&Sender, b: &&Sender| a.seconds_per_mb(transfer_rate).total_cmp(&b.seconds_per_mb(transfer_rate));
    senders.iter().min_by(by_time).map(|sender| sender.level)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: Sender = Sender { level: Level::Stored, ratio: 1.1, input_rate: 2_000.0 };
    const ONE: Sender = Sender { level: Level::Recompressed(1), ratio: 0.6, input_rate: 100.0 };
    const NINE: Sender = Sender { level: Level::Recompressed(9), ratio: 0.5, input_rate: 50.0 };

    #[test]
    fn compressing_pays_below_the_rate_at_which_both_sides_of_the_rule_are_equal() {
        // 0.6 = 1 - 40 / 100.
        assert!((ONE.worth_it_below() - 40.0).abs() < 1e-9);
        assert!(ONE.is_worth_it(39.0));
        assert!(!ONE.is_worth_it(41.0));
    }

    #[test]
    fn the_best_level_goes_from_the_smallest_to_none_as_the_link_gets_faster() {
        let senders = [STORED, ONE, NINE];
        assert_eq!(best(&senders, 1.0), Some(Level::Recompressed(9)));
        assert_eq!(best(&senders, 20.0), Some(Level::Recompressed(1)));
        assert_eq!(best(&senders, 500.0), Some(Level::Stored));
        assert_eq!(best(&[], 1.0), None);
    }
}
