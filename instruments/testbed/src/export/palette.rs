//! The colours of all charts: everybody can distinguish them (Okabe and Ito, 2008). The yellow is
//! left out, which is hard to see on white, and grey takes the place of black.

use plotters::style::RGBColor;

pub(super) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(super) const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub(super) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(super) const PURPLE: RGBColor = RGBColor(204, 121, 167);
pub(super) const SKY: RGBColor = RGBColor(86, 180, 233);
pub(super) const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub(super) const GREY: RGBColor = RGBColor(110, 110, 110);

/// All of them, in the order in which series get them.
pub(super) const ALL: [RGBColor; 7] = [BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, GREY];
