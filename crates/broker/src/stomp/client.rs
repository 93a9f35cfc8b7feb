//! A client that sends: `CONNECT`, `SEND` with a receipt, heart-beats.

use std::collections::HashMap;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use super::frame::{Decoder, Frame};
use crate::connection::Settings;
use crate::driver::Speak;
use crate::error::SendError;
use crate::message::{Message, Value};
use crate::window::Window;
use crate::wire::{Decode, Wire};

/// A broker counts as gone after so many of its heart-beats did not come: some may be late
/// ("Heart-beating").
const MISSED_MAX: u32 = 2;

impl Decode for Decoder {
    type Frame = Frame;

    const BEAT: &'static [u8] = b"\n";

    fn buffer(&mut self) -> &mut BytesMut {
        self.buffer()
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, SendError> {
        Ok(self.next_frame()?)
    }
}

/// A client that is logged in.
pub(crate) struct Client {
    destination: String,
    /// Receipts that were asked for.
    receipts: u64,
    /// The messages of receipts that have not come.
    awaited: HashMap<String, usize>,
}

impl Speak for Client {
    type Decoder = Decoder;

    /// "Connecting".
    async fn log_in<Io: AsyncRead + AsyncWrite + Send>(
        wire: &mut Wire<Io, Decoder>,
        settings: Settings,
    ) -> Result<Self, SendError> {
        let beat_ms = settings.heart_beat.as_millis();
        let mut connect = Frame::new("CONNECT")
            .with("accept-version", "1.2")
            .with("host", &settings.host)
            .with("heart-beat", format!("{beat_ms},{beat_ms}"));
        if let Some(login) = &settings.login {
            connect = connect.with("login", &login.user).with("passcode", login.password.reveal());
        }
        connect.write(&mut wire.out);
        let answer = wire.frame().await?;
        match answer.command.as_str() {
            "CONNECTED" if answer.header("version") == Some("1.2") => {}
            "CONNECTED" => return Err(SendError::protocol("it does not know STOMP 1.2")),
            "ERROR" => return Err(refusal(&answer)),
            _ => return Err(SendError::protocol("it answers CONNECT with another frame")),
        }
        let (beat_every, silence_max) = agreed(answer.header("heart-beat").unwrap_or("0,0"), settings.heart_beat)?;
        wire.agree(beat_every, silence_max);
        Ok(Self { destination: settings.destination, receipts: 0, awaited: HashMap::new() })
    }

    /// "SEND". Without a content-length it is a text to brokers with JMS.
    fn send(&mut self, index: usize, message: &Message, out: &mut BytesMut) -> Result<(), SendError> {
        self.receipts += 1;
        let receipt = self.receipts.to_string();
        let mut frame = Frame::new("SEND")
            .with("destination", &self.destination)
            .with("receipt", &receipt)
            .with("persistent", "true");
        for (name, value) in &message.properties {
            let value = match value {
                Value::Text(text) => text.clone(),
                Value::Number(number) => number.to_string(),
            };
            frame.headers.push(((*name).to_owned(), value));
        }
        frame.body = message.text.clone().into_bytes();
        frame.write(out);
        self.awaited.insert(receipt, index);
        Ok(())
    }

    fn hear(&mut self, frame: Frame, window: Option<&mut Window>, _: &mut BytesMut) -> Result<(), SendError> {
        let about = frame.header("receipt-id").and_then(|receipt| self.awaited.remove(receipt));
        match (frame.command.as_str(), about, window) {
            ("RECEIPT", Some(index), Some(window)) => {
                window.confirm(index);
                Ok(())
            }
            // After an error the broker closes the connection ("ERROR").
            ("ERROR", Some(index), Some(window)) => {
                window.refuse(index, refusal(&frame));
                Err(SendError::Closed)
            }
            ("ERROR", ..) => Err(refusal(&frame)),
            _ => Err(SendError::protocol("it sends a frame that was not asked for")),
        }
    }

    fn say_farewell(&mut self, out: &mut BytesMut) {
        Frame::new("DISCONNECT").write(out);
    }
}

/// What an `ERROR` says. Its body may repeat the frame, with what is confidential.
fn refusal(frame: &Frame) -> SendError {
    SendError::refused(frame.header("message").unwrap_or("without a reason"))
}

/// How often this side shows that it is there, and how long the broker may be silent
/// ("Heart-beating": what the broker can do, and what it wants, in milliseconds).
fn agreed(header: &str, own: Duration) -> Result<(Option<Duration>, Option<Duration>), SendError> {
    let malformed = || SendError::protocol("its heart-beat is no pair of numbers");
    let (can, wants) = header.split_once(',').ok_or_else(malformed)?;
    let period = |text: &str| -> Result<Option<Duration>, SendError> {
        let period: u32 = text.trim().parse().map_err(|_| malformed())?;
        Ok((period > 0).then(|| Duration::from_millis(u64::from(period)).max(own)))
    };
    // Half of what was promised, so that a beat that is late still comes in time.
    Ok((period(wants)?.map(|period| period / 2), period(can)?.map(|period| period * MISSED_MAX)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn heart_beats_are_the_slower_of_what_both_sides_name() {
        let seconds = Duration::from_secs;
        let agreed = |header: &str| agreed(header, seconds(10));
        assert_eq!(agreed("0,0").unwrap(), (None, None));
        assert_eq!(agreed("5000,30000").unwrap(), (Some(seconds(15)), Some(seconds(20))));
        for malformed in ["", "1", "a,b", "-1,0", "1,2,3"] {
            agreed(malformed).unwrap_err();
        }
    }
}
