//! What is not worse than something else in everything.

/// The positions of points to which no other point is better in one value and at least as good in
/// the other. Less is better in both.
pub fn front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |one: &(f64, f64), other: &(f64, f64)| {
        one.0 <= other.0 && one.1 <= other.1 && (one.0 < other.0 || one.1 < other.1)
    };
    let is_beaten = |point: &(f64, f64)| points.iter().any(|other| beats(other, point));
    (0..points.len()).filter(|at| !is_beaten(&points[*at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_what_nothing_beats() {
        assert_eq!(front(&[(1.0, 5.0), (2.0, 2.0), (3.0, 3.0), (5.0, 1.0), (2.0, 2.0)]), [0, 1, 3, 4]);
        assert!(front(&[]).is_empty());
    }
}
