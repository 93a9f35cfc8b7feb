//! The round trip of packets between the load and the node, as the kernel smooths it for each
//! connection (`tcpi_rtt` of `TCP_INFO`, tcp(7)). The driver keeps its connections to itself, so all
//! of the machine are asked for (sock_diag(7)).

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as KernelAddr};

/// The file of a run: a line for each connection at each look.
const FILE: &str = "packets.csv";

/// The mean round trip over a time, in milliseconds, sampled in these intervals; `None` if the kernel
/// says none. All samples are kept in the folder of the run.
pub(super) async fn round_trip_ms(
    nodes: &[SocketAddr],
    start: Instant,
    duration: Duration,
    interval: Duration,
    run: &Path,
) -> Result<Option<f64>, csv::Error> {
    let mut out = csv::Writer::from_path(run.join(FILE))?;
    out.write_record(["at_s", "round_trip_us"])?;
    let mut ticks = tokio::time::interval_at((start + interval).into(), interval);
    let (mut sum, mut count) = (0.0, 0_u32);
    let end = start + duration;
    while Instant::now() < end {
        tokio::select! {
            _ = ticks.tick() => {}
            () = tokio::time::sleep_until(end.into()) => break,
        }
        let (at_s, nodes) = (format!("{:.3}", start.elapsed().as_secs_f64()), nodes.to_owned());
        let sampled = tokio::task::spawn_blocking(move || round_trips_us(&nodes)).await;
        let values = sampled.ok().and_then(Result::ok).unwrap_or_default();
        for value in &values {
            out.write_record([&at_s, &value.to_string()])?;
        }
        sum += values.iter().copied().map(f64::from).sum::<f64>() / 1e3;
        count += u32::try_from(values.len()).unwrap_or_default();
    }
    out.flush()?;
    Ok((count > 0).then(|| sum / f64::from(count)))
}

/// The round trip of each connection to these addresses, in microseconds.
fn round_trips_us(nodes: &[SocketAddr]) -> io::Result<Vec<u32>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&KernelAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = InetRequest {
        family: AF_INET,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::ESTABLISHED,
        socket_id: SocketId::new_v4(),
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut found = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(io::Error::other)?;
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    found.extend(of(&response, nodes));
                }
                NetlinkPayload::Done(_) => return Ok(found),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
            // Messages begin at multiples of four bytes (netlink(7)).
            let len = (message.header.length as usize).next_multiple_of(4);
            if len == 0 {
                break;
            }
            rest = rest.get(len..).unwrap_or_default();
        }
    }
}

/// The round trip of a connection, if it is one to these addresses.
fn of(response: &InetResponse, nodes: &[SocketAddr]) -> Option<u32> {
    let id = &response.header.socket_id;
    if !nodes.contains(&SocketAddr::new(id.destination_address, id.destination_port)) {
        return None;
    }
    response.nlas.iter().find_map(|nla| match nla {
        Nla::TcpInfo(info) => Some(info.rtt),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn each_connection_to_an_address_has_its_round_trip_and_others_have_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = listener.local_addr().unwrap();
        assert!(round_trips_us(&[node]).unwrap().is_empty());
        let mut streams: Vec<_> = (0..3).map(|_| TcpStream::connect(node).unwrap()).collect();
        let mut others: Vec<_> = streams.iter().map(|_| listener.accept().unwrap().0).collect();
        for (stream, other) in streams.iter_mut().zip(&mut others) {
            stream.write_all(b"x").unwrap();
            other.read_exact(&mut [0]).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let (start, time) = (Instant::now(), Duration::from_millis(200));
        let mean = round_trip_ms(&[node], start, time, time / 10, folder.path()).await.unwrap();
        let kept = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        // On a busy machine there may be no look.
        assert_eq!(mean.is_some(), kept.lines().count() > 1, "{mean:?} {kept}");
        assert!(kept.starts_with("at_s,round_trip_us\n") && (kept.lines().count() - 1).is_multiple_of(3), "{kept}");
        let found = round_trips_us(&[node]).unwrap();
        assert!(found.len() == 3 && found.iter().all(|us| (1..1_000_000).contains(us)), "{found:?}");
        drop(streams);
    }
}
