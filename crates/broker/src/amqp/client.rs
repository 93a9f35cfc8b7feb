//! A client that sends over one link.

use std::collections::{HashMap, VecDeque};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use super::frame::{AMQP, Decoder, FRAME_BYTES_MAX, Frame, write};
use super::login::{Attached, attach};
use super::message::encoded;
use super::value::{Value, Writer, field};
use crate::connection::Settings;
use crate::driver::Speak;
use crate::error::SendError;
use crate::message::Message;
use crate::window::Window;
use crate::wire::{Decode, Wire};

/// Performatives (part 2, section 2.7).
pub(super) const OPEN: u8 = 0x10;
pub(super) const BEGIN: u8 = 0x11;
pub(super) const ATTACH: u8 = 0x12;
pub(super) const FLOW: u8 = 0x13;
const TRANSFER: u8 = 0x14;
const DISPOSITION: u8 = 0x15;
pub(super) const DETACH: u8 = 0x16;
pub(super) const END: u8 = 0x17;
pub(super) const CLOSE: u8 = 0x18;

/// States of a delivery (part 3, section 3.4).
const RECEIVED: u64 = 0x23;
const ACCEPTED: u64 = 0x24;
const REJECTED: u64 = 0x25;

/// The smallest limit of frames that a peer may have (2.7.1).
const LEAST_FRAME_BYTES: u32 = 512;

/// The most bytes of a transfer before its payload.
const TRANSFER_BYTES: usize = 96;

/// Frames that the broker may send before it hears of a session again. It sends no transfers.
pub(super) const INCOMING_WINDOW: u32 = 2_048;

impl Decode for Decoder {
    type Frame = Frame;

    const BEAT: &'static [u8] = &[0, 0, 0, 8, 2, 0, 0, 0];

    fn buffer(&mut self) -> &mut BytesMut {
        self.buffer()
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, SendError> {
        Ok(self.next_frame()?)
    }
}

/// A link to a destination.
pub(crate) struct Client {
    destination: String,
    /// The largest frame that the broker takes, and the largest message.
    frame_bytes_max: usize,
    message_bytes_max: u64,
    /// Of the session: the number of the next frame with a transfer, how many the broker takes, and
    /// the number of its next one (2.5.6).
    next_outgoing: u32,
    remote_window: u32,
    next_incoming: u32,
    /// The number of the next delivery.
    next_delivery: u32,
    /// Of the link: deliveries that were made or given up, and how many more the broker takes
    /// (2.6.7).
    delivery_count: u32,
    credit: u32,
    /// Messages that wait for credit.
    waiting: VecDeque<(usize, Outgoing)>,
    /// The messages of deliveries that are not settled.
    unsettled: HashMap<u32, usize>,
}

/// A message on its way.
struct Outgoing {
    bytes: BytesMut,
    /// Its delivery, once its first frame is written.
    delivery: Option<u32>,
}

impl Speak for Client {
    type Decoder = Decoder;

    async fn log_in<Io: AsyncRead + AsyncWrite + Send>(
        wire: &mut Wire<Io, Decoder>,
        settings: Settings,
    ) -> Result<Self, SendError> {
        let Attached { open, begin, attach } = attach(wire, &settings).await?;
        let frame_bytes_max = field(&open, 2).uint().unwrap_or(u32::MAX).max(LEAST_FRAME_BYTES);
        Ok(Self {
            destination: settings.destination,
            frame_bytes_max: (frame_bytes_max as usize).min(FRAME_BYTES_MAX),
            message_bytes_max: field(&attach, 10).number().filter(|bytes| *bytes > 0).unwrap_or(u64::MAX),
            next_outgoing: 0,
            remote_window: field(&begin, 2).uint().unwrap_or_default(),
            next_incoming: field(&begin, 1).uint().unwrap_or_default(),
            next_delivery: 0,
            delivery_count: 0,
            credit: 0,
            waiting: VecDeque::new(),
            unsettled: HashMap::new(),
        })
    }

    fn send(&mut self, index: usize, message: &Message, out: &mut BytesMut) -> Result<(), SendError> {
        let bytes = encoded(message, &self.destination);
        if bytes.len() as u64 > self.message_bytes_max {
            let limit = self.message_bytes_max;
            return Err(SendError::refused(&format!("it takes only messages of up to {limit} bytes")));
        }
        self.waiting.push_back((index, Outgoing { bytes, delivery: None }));
        self.write_waiting(out);
        Ok(())
    }

    fn hear(&mut self, frame: Frame, window: Option<&mut Window>, out: &mut BytesMut) -> Result<(), SendError> {
        let (code, fields) = match frame {
            Frame::Beat => return Ok(()),
            Frame::Amqp(code, fields) => (code, fields),
            Frame::Header(_) | Frame::Sasl(..) => return Err(unexpected()),
        };
        match u8::try_from(code).map_err(|_| unexpected())? {
            FLOW => self.take_flow(&fields, out),
            DISPOSITION => self.take_disposition(&fields, window, out),
            DETACH => Err(ended(field(&fields, 2))),
            END | CLOSE => Err(ended(field(&fields, 0))),
            _ => Err(unexpected()),
        }
    }

    fn say_farewell(&mut self, out: &mut BytesMut) {
        write(out, AMQP, CLOSE, 0, |_| {}, b"");
    }
}

impl Client {
    /// Writes the messages for which there is credit. A long one takes several frames (2.6.14).
    fn write_waiting(&mut self, out: &mut BytesMut) {
        while let Some((index, message)) = self.waiting.front_mut() {
            if self.remote_window == 0 || (message.delivery.is_none() && self.credit == 0) {
                return;
            }
            let is_first = message.delivery.is_none();
            let delivery = *message.delivery.get_or_insert(self.next_delivery);
            if is_first {
                self.next_delivery = self.next_delivery.wrapping_add(1);
                self.delivery_count = self.delivery_count.wrapping_add(1);
                self.credit -= 1;
                self.unsettled.insert(delivery, *index);
            }
            let count = message.bytes.len().min(self.frame_bytes_max - TRANSFER_BYTES);
            let payload = message.bytes.split_to(count);
            let has_more = !message.bytes.is_empty();
            let fields = |fields: &mut Writer<'_>| {
                fields.uint(0);
                if is_first {
                    fields.uint(delivery);
                    fields.binary(&delivery.to_be_bytes());
                    fields.uint(0);
                    fields.bool(false);
                } else {
                    (0..4).for_each(|_| fields.null());
                }
                fields.bool(has_more);
            };
            write(out, AMQP, TRANSFER, 6, fields, &payload);
            self.next_outgoing = self.next_outgoing.wrapping_add(1);
            self.remote_window -= 1;
            if !has_more {
                self.waiting.pop_front();
            }
        }
    }

    /// 2.7.4
    fn take_flow(&mut self, fields: &[Value], out: &mut BytesMut) -> Result<(), SendError> {
        let number = |index: usize| field(fields, index).uint();
        let window = number(1).ok_or_else(unexpected)?;
        // Of frames that the broker had not seen when it wrote this, some of its window is taken.
        let under_way = self.next_outgoing.wrapping_sub(number(0).unwrap_or_default());
        self.remote_window = window.saturating_sub(under_way);
        self.next_incoming = number(2).unwrap_or(self.next_incoming);
        if let Some(credit) = number(6).filter(|_| number(4).is_some()) {
            let ahead = self.delivery_count.wrapping_sub(number(5).unwrap_or_default());
            self.credit = credit.saturating_sub(ahead);
        }
        self.write_waiting(out);
        // The broker takes back what is left of its credit.
        let drains = number(4).is_some() && field(fields, 8).is_true();
        if drains {
            self.delivery_count = self.delivery_count.wrapping_add(self.credit);
            self.credit = 0;
        }
        if drains || field(fields, 9).is_true() {
            self.write_flow(drains, out);
        }
        Ok(())
    }

    fn write_flow(&self, drains: bool, out: &mut BytesMut) {
        let fields = |fields: &mut Writer<'_>| {
            fields.uint(self.next_incoming);
            fields.uint(INCOMING_WINDOW);
            fields.uint(self.next_outgoing);
            fields.uint(u32::MAX);
            fields.uint(0);
            fields.uint(self.delivery_count);
            fields.uint(self.credit);
            fields.null();
            fields.bool(drains);
        };
        write(out, AMQP, FLOW, 9, fields, b"");
    }

    /// 2.7.6
    fn take_disposition(
        &mut self,
        fields: &[Value],
        mut window: Option<&mut Window>,
        out: &mut BytesMut,
    ) -> Result<(), SendError> {
        // What the broker says as a sender is not about this link.
        if !field(fields, 0).is_true() {
            return Ok(());
        }
        let first = field(fields, 1).uint().ok_or_else(unexpected)?;
        let last = field(fields, 2).uint().unwrap_or(first);
        let (is_settled, state) = (field(fields, 3).is_true(), field(fields, 4).composite());
        let is_final = is_settled || !matches!(state, None | Some((RECEIVED, _)));
        if !is_final {
            return Ok(());
        }
        let span = last.wrapping_sub(first);
        let of_span: Vec<u32> =
            self.unsettled.keys().copied().filter(|delivery| delivery.wrapping_sub(first) <= span).collect();
        // A broker that speaks of what it did not get has no answer.
        if of_span.is_empty() {
            return Ok(());
        }
        for delivery in of_span {
            let (Some(index), Some(window)) = (self.unsettled.remove(&delivery), window.as_deref_mut()) else {
                continue;
            };
            match state {
                Some((ACCEPTED, _)) => window.confirm(index),
                Some((REJECTED, fields)) => window.refuse(index, SendError::refused(reason(field(fields, 0)))),
                _ => window.refuse(index, SendError::refused("it gives the message back: is there a queue for it?")),
            }
        }
        if !is_settled {
            let fields = |fields: &mut Writer<'_>| {
                fields.bool(false);
                fields.uint(first);
                fields.uint(last);
                fields.bool(true);
            };
            write(out, AMQP, DISPOSITION, 4, fields, b"");
        }
        Ok(())
    }
}

pub(super) fn unexpected() -> SendError {
    SendError::protocol("it sends a frame that was not asked for")
}

/// Why the broker ends a link, a session or a connection.
pub(super) fn ended(error: &Value) -> SendError {
    match error.composite() {
        Some(_) => SendError::refused(reason(error)),
        None => SendError::Closed,
    }
}

/// The description of an error, or its condition (2.8.14).
fn reason(error: &Value) -> &str {
    let fields = error.composite().map_or(&[][..], |(_, fields)| fields);
    let text = |index: usize| field(fields, index).text().filter(|text| !text.is_empty());
    text(1).or_else(|| text(0)).unwrap_or("without a reason")
}
