//! Addresses of brokers: `stomp://`, `stomp+ssl://`, `amqp://`, `amqps://`.

use http::Uri;

/// What a broker speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// STOMP 1.2.
    Stomp,
    /// AMQP 1.0 (ISO/IEC 19464).
    Amqp,
}

/// Where a broker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What it speaks.
    pub protocol: Protocol,
    /// Whether within TLS.
    pub tls: bool,
    /// A name or an address, the latter without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Scheme, protocol, whether within TLS, the usual port.
const SCHEMES: [(&str, Protocol, bool, u16); 4] = [
    ("stomp", Protocol::Stomp, false, 61_613),
    ("stomp+ssl", Protocol::Stomp, true, 61_614),
    ("amqp", Protocol::Amqp, false, 5_672),
    ("amqps", Protocol::Amqp, true, 5_671),
];

impl Address {
    /// Reads an address such as `stomp://127.0.0.1:61613`. Returns what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, String> {
        let malformed = || {
            "`url` must be stomp://, stomp+ssl://, amqp:// or amqps:// with a host and perhaps a port, and nothing else"
                .to_owned()
        };
        let uri: Uri = url.parse().map_err(|_| malformed())?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let (_, protocol, tls, port) = SCHEMES.iter().find(|(name, ..)| *name == scheme).ok_or_else(malformed)?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(malformed)?;
        let has_more = uri.query().is_some() || !matches!(uri.path(), "" | "/") || url.contains('#');
        let host = authority.host();
        let port = match authority.as_str().strip_prefix(host).ok_or_else(malformed)? {
            "" => *port,
            port => port.trim_start_matches(':').parse().ok().filter(|port| *port > 0).ok_or_else(malformed)?,
        };
        let host = host.trim_matches(['[', ']']);
        if host.is_empty() || has_more {
            return Err(malformed());
        }
        Ok(Self { protocol: *protocol, tls: *tls, host: host.to_owned(), port })
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        let scheme = SCHEMES.iter().find(|(_, protocol, tls, _)| (*protocol, *tls) == (self.protocol, self.tls));
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{}://{host}:{}", scheme.map_or("", |(name, ..)| *name), self.port)
    }

    /// Where Fedora's consumers subscribe: the topic `fedora`, as ActiveMQ names it in this protocol.
    pub fn usual_destination(&self) -> &'static str {
        match self.protocol {
            Protocol::Stomp => "/topic/fedora",
            Protocol::Amqp => "topic://fedora",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_has_a_scheme_that_is_known_a_host_and_a_port() {
        for (url, origin) in [
            ("stomp://a.example", "stomp://a.example:61613"),
            ("stomp+ssl://a.example/", "stomp+ssl://a.example:61614"),
            ("amqp://127.0.0.1:7", "amqp://127.0.0.1:7"),
            ("amqps://[::1]", "amqps://[::1]:5671"),
        ] {
            assert_eq!(Address::parse(url).unwrap().origin(), origin);
        }
        for url in [
            "",
            "a.example",
            "http://a.example",
            "stomp://",
            "stomp://me:secret@a.example",
            "stomp://a.example/topic",
            "amqp://a.example?b",
            "amqp://a.example#b",
            "amqp://a.example:",
            "amqp://a.example:70000",
            "mqtt://a.example",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
