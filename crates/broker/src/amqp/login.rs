//! Logging in, and the way to a link: one connection, one session, one link.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::{ATTACH, BEGIN, CLOSE, DETACH, END, FLOW, INCOMING_WINDOW, OPEN, ended, unexpected};
use super::frame::{AMQP, Decoder, FRAME_BYTES_MAX, Frame, SASL, write};
use super::value::{Value, Writer, field};
use crate::connection::{Login, Settings};
use crate::error::SendError;
use crate::wire::Wire;

/// Frames of the security layer (part 5, section 5.3.3).
const MECHANISMS: u8 = 0x40;
const INIT: u8 = 0x41;
const OUTCOME: u8 = 0x44;

/// Protocol headers: id and version.
const OF_SASL: [u8; 4] = [3, 1, 0, 0];
const OF_AMQP: [u8; 4] = [0, 1, 0, 0];

/// Where links lead (part 3, section 3.5).
const SOURCE: u8 = 0x28;
const TARGET: u8 = 0x29;

/// The shortest time between signs of life.
const BEAT_LEAST: Duration = Duration::from_secs(1);

/// What a broker says of the connection, the session and the link.
pub(super) struct Attached {
    pub(super) open: Vec<Value>,
    pub(super) begin: Vec<Value>,
    pub(super) attach: Vec<Value>,
}

/// Logs in, and attaches a link to the destination.
pub(super) async fn attach<Io: AsyncRead + AsyncWrite>(
    wire: &mut Wire<Io, Decoder>,
    settings: &Settings,
) -> Result<Attached, SendError> {
    authenticate(wire, settings.login.as_ref()).await?;
    begin_protocol(wire, OF_AMQP).await?;
    // A side may be silent for longer than the other wants to hear it, by as much again (2.4.5).
    let silence = settings.heart_beat * 2;
    write_open(&mut wire.out, settings, silence);
    let open = performative(wire, OPEN).await?;
    let remote_silence = field(&open, 4).uint().filter(|millis| *millis > 0);
    // Not oftener than is of use, whatever it wants.
    let beat_every = remote_silence.map(|millis| (Duration::from_millis(u64::from(millis)) / 2).max(BEAT_LEAST));
    wire.agree(beat_every, Some(silence * 2));
    write_begin(&mut wire.out);
    let begin = performative(wire, BEGIN).await?;
    write_attach(&mut wire.out, settings);
    let attach = performative(wire, ATTACH).await?;
    // A target that is missing: a detach with the reason follows (2.6.3).
    if field(&attach, 6).composite().is_none() {
        performative(wire, FLOW).await?;
        return Err(SendError::refused("it does not take messages for this destination"));
    }
    Ok(Attached { open, begin, attach })
}

/// Begins a protocol: the broker answers with its header, or with that of one it knows (2.2).
async fn begin_protocol<Io: AsyncRead + AsyncWrite>(
    wire: &mut Wire<Io, Decoder>,
    protocol: [u8; 4],
) -> Result<(), SendError> {
    wire.out.put_slice(b"AMQP");
    wire.out.put_slice(&protocol);
    match wire.frame().await? {
        Frame::Header(header) if header == protocol => Ok(()),
        Frame::Header(_) => Err(SendError::protocol("it does not know AMQP 1.0 with SASL")),
        _ => Err(unexpected()),
    }
}

/// Part 5, section 5.3: as nobody (RFC 4505), or with a password (RFC 4616).
async fn authenticate<Io: AsyncRead + AsyncWrite>(
    wire: &mut Wire<Io, Decoder>,
    login: Option<&Login>,
) -> Result<(), SendError> {
    begin_protocol(wire, OF_SASL).await?;
    let (mechanism, response) = match login {
        None => ("ANONYMOUS", b"penates".to_vec()),
        Some(login) => ("PLAIN", format!("\0{}\0{}", login.user, login.password.reveal()).into_bytes()),
    };
    let Frame::Sasl(code, offered) = wire.frame().await? else { return Err(unexpected()) };
    let is_offered = match field(&offered, 0) {
        Value::Many(names) => names.iter().any(|name| name.text() == Some(mechanism)),
        name => name.text() == Some(mechanism),
    };
    if code != u64::from(MECHANISMS) || !is_offered {
        return Err(SendError::refused(&format!("it offers no login by {mechanism}")));
    }
    let fields = |fields: &mut Writer<'_>| {
        fields.symbol(mechanism);
        fields.binary(&response);
    };
    write(&mut wire.out, SASL, INIT, 2, fields, b"");
    match wire.frame().await? {
        Frame::Sasl(code, outcome) if code == u64::from(OUTCOME) && *field(&outcome, 0) == Value::Number(0) => Ok(()),
        Frame::Sasl(..) => Err(SendError::refused("the login")),
        _ => Err(unexpected()),
    }
}

/// Waits for a performative. The broker may end the connection instead.
async fn performative<Io: AsyncRead + AsyncWrite>(
    wire: &mut Wire<Io, Decoder>,
    wanted: u8,
) -> Result<Vec<Value>, SendError> {
    loop {
        match wire.frame().await? {
            Frame::Beat => {}
            Frame::Amqp(code, fields) if code == u64::from(wanted) => return Ok(fields),
            Frame::Amqp(code, fields) if code == u64::from(DETACH) => return Err(ended(field(&fields, 2))),
            Frame::Amqp(code, fields) if [END, CLOSE].map(u64::from).contains(&code) => {
                return Err(ended(field(&fields, 0)));
            }
            _ => return Err(unexpected()),
        }
    }
}

/// 2.7.1
fn write_open(out: &mut BytesMut, settings: &Settings, silence: Duration) {
    let fields = |fields: &mut Writer<'_>| {
        fields.string(&settings.client);
        fields.string(&settings.host);
        fields.uint(FRAME_BYTES_MAX as u32);
        fields.ushort(0);
        fields.uint(u32::try_from(silence.as_millis()).unwrap_or(u32::MAX));
    };
    write(out, AMQP, OPEN, 5, fields, b"");
}

/// 2.7.2
fn write_begin(out: &mut BytesMut) {
    let fields = |fields: &mut Writer<'_>| {
        fields.null();
        fields.uint(0);
        fields.uint(INCOMING_WINDOW);
        fields.uint(u32::MAX);
        fields.uint(0);
    };
    write(out, AMQP, BEGIN, 5, fields, b"");
}

/// 2.7.3: a sender whose deliveries are settled by the broker.
fn write_attach(out: &mut BytesMut, settings: &Settings) {
    let fields = |fields: &mut Writer<'_>| {
        fields.string(&settings.client);
        fields.uint(0);
        fields.bool(false);
        fields.ubyte(0);
        fields.ubyte(0);
        fields.composite(SOURCE, 1, |fields| fields.string(&settings.client));
        fields.composite(TARGET, 1, |fields| fields.string(&settings.destination));
        fields.null();
        fields.null();
        fields.uint(0);
    };
    write(out, AMQP, ATTACH, 10, fields, b"");
}
