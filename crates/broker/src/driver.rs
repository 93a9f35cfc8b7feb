//! Sends messages over a connection, in a task of its own: so the connection shows that it is there,
//! and notices that the broker is not, also while nothing is sent.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::connection::{Request, Sent, Settings};
use crate::error::SendError;
use crate::message::Message;
use crate::window::Window;
use crate::wire::{Decode, Wire};

/// How long the farewell may take.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// A protocol, as a sender speaks it.
pub(crate) trait Speak: Sized + Send {
    /// How it is read.
    type Decoder: Decode;

    /// Logs in.
    fn log_in<Io: AsyncRead + AsyncWrite + Send>(
        wire: &mut Wire<Io, Self::Decoder>,
        settings: Settings,
    ) -> impl Future<Output = Result<Self, SendError>> + Send;

    /// Writes a message, at once or when the broker takes it. An error is a refusal of this message.
    fn send(&mut self, index: usize, message: &Message, out: &mut BytesMut) -> Result<(), SendError>;

    /// Takes a frame, and notes what it says about messages. After an error the connection is of no
    /// more use.
    fn hear(
        &mut self,
        frame: <Self::Decoder as Decode>::Frame,
        window: Option<&mut Window>,
        out: &mut BytesMut,
    ) -> Result<(), SendError>;

    /// Writes a farewell.
    fn say_farewell(&mut self, out: &mut BytesMut);
}

/// Logs in, and starts the task that sends.
pub(crate) async fn open<Io, S>(
    stream: Io,
    settings: Settings,
    requests: mpsc::Receiver<Request>,
) -> Result<(), SendError>
where
    Io: AsyncRead + AsyncWrite + Send + 'static,
    S: Speak + 'static,
    S::Decoder: 'static,
{
    let mut wire = Wire::new(stream);
    let (tasks, attempt_max) = (settings.tasks.clone(), settings.attempt_max);
    let speaker = S::log_in(&mut wire, settings).await?;
    tasks.spawn(Driver { wire, speaker, attempt_max }.run(requests));
    Ok(())
}

struct Driver<Io, S: Speak> {
    wire: Wire<Io, S::Decoder>,
    speaker: S,
    attempt_max: Duration,
}

impl<Io: AsyncRead + AsyncWrite + Send, S: Speak> Driver<Io, S> {
    /// Sends what it is asked to send, until the connection ends or nobody asks any more.
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            tokio::select! {
                request = requests.recv() => {
                    let Some(Request { messages, round, mut outcome }) = request else {
                        self.speaker.say_farewell(&mut self.wire.out);
                        let _ = tokio::time::timeout(FAREWELL_MAX, self.wire.close()).await;
                        return;
                    };
                    let (sent, is_broken) = tokio::select! {
                        biased;
                        // Nobody waits for the outcome: another server may send these by now.
                        () = outcome.closed() => return,
                        sent = self.send(messages, round) => sent,
                    };
                    if is_broken {
                        // Before the outcome is known, so that nobody takes the connection for open.
                        requests.close();
                    }
                    // Nobody asks for it if the server stops.
                    let _ = outcome.send(sent);
                    if is_broken {
                        return;
                    }
                }
                progress = self.wire.progress() => {
                    let heard = match progress {
                        Ok(Some(frame)) => self.speaker.hear(frame, None, &mut self.wire.out),
                        other => other.map(drop),
                    };
                    if heard.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Sends messages. Returns what came of them, and whether the connection is of no more use.
    async fn send(&mut self, messages: Vec<Message>, round: Duration) -> (Sent, bool) {
        let mut window = Window::new(messages, round, self.attempt_max);
        loop {
            while let Some(index) = window.begin() {
                if let Err(error) = self.speaker.send(index, &window.messages[index], &mut self.wire.out) {
                    window.refuse(index, error);
                }
            }
            if window.is_quiet() {
                return (window.ended(), false);
            }
            let heard = tokio::select! {
                progress = self.wire.progress() => match progress {
                    Ok(Some(frame)) => self.speaker.hear(frame, Some(&mut window), &mut self.wire.out),
                    other => other.map(drop),
                },
                () = sleep_until(window.deadline()) => Err(SendError::TimedOut(self.attempt_max)),
            };
            if let Err(error) = heard {
                window.fail(error);
                return (window.ended(), true);
            }
        }
    }
}
