//! Requests and messages of users, as bytes.

use std::io::Write as _;

use watchfire_types::Rng;

use super::User;
use super::script::Script;
use crate::cookies::wall_clock;
use crate::frame;
use crate::sampling::{seed_for, weighted};
use crate::scenario::{Connect, Headers, Http, Serializer, Text, whole_url};

impl Script<'_> {
    /// Writes the handshake of a websocket, or the request for an event stream.
    pub(super) fn write_upgrade(&self, user: &User, connect: &Connect, out: &mut Vec<u8>) {
        self.write_head(user, ("GET", &connect.path), &connect.headers, None, out);
        if connect.serializer == Serializer::Events {
            return out.extend_from_slice(b"Accept: text/event-stream\r\n\r\n");
        }
        let key = frame::key(self.nonce(user));
        write!(
            out,
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {key}\r\n\r\n"
        )
        .expect("writing to a vector cannot fail");
    }

    /// The `Sec-WebSocket-Accept` that belongs to the handshake of a user.
    pub(super) fn websocket_accept(&self, user: &User) -> String {
        frame::accept(&frame::key(self.nonce(user)))
    }

    /// The random number for the websocket key of a user. It is computed again to check the
    /// response.
    fn nonce(&self, user: &User) -> u64 {
        let purpose = 0x6b65_7900 | u64::from(user.connection.serial());
        seed_for(self.scenario().seed, u64::from(user.number), purpose)
    }

    pub(super) fn write_request(&self, user: &User, http: &Http, path: &Text, out: &mut Vec<u8>) {
        self.write_head(user, (&http.method, path), &http.headers, Some(http), out);
        let mut body = Vec::new();
        http.body.write(&self.text_context(user), &mut body);
        if !body.is_empty() || ["POST", "PUT", "PATCH"].contains(&http.method.as_str()) {
            write!(out, "Content-Length: {}\r\n", body.len())
                .expect("writing to a vector cannot fail");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
    }

    /// The request line, and the headers that do not depend on the body.
    fn write_head(
        &self,
        user: &User,
        (method, path): (&str, &Text),
        headers: &Headers,
        http: Option<&Http>,
        out: &mut Vec<u8>,
    ) {
        let target = &self.scenario().targets[usize::from(user.connection.target())];
        let path = self.full_path(user, path);
        let version = if http.is_some_and(|http| http.is_old) { "1.0" } else { "1.1" };
        let context = self.text_context(user);
        let mut line = |text: String| out.extend_from_slice(text.as_bytes());
        line(format!("{method} {path} HTTP/{version}\r\n"));
        if !headers.has_host {
            line(format!("Host: {}\r\n", target.authority));
        }
        if let Some(agent) =
            self.user_agent(user).filter(|_| http.is_some() && !headers.has_user_agent)
        {
            line(format!("User-Agent: {agent}\r\n"));
        }
        headers.lines.write(&context, out);
        if let Some(login) = http.and_then(|http| http.login.as_ref()) {
            login.write(method, &path, &context, out);
        }
        if headers.has_cookie {
            return;
        }
        let own = http.and_then(|http| http.cookies.as_ref()).map(|text| text.to_string(&context));
        let own = own.unwrap_or_default();
        match &user.memory {
            Some(memory) => memory.cookies.write(target.host(), &path, wall_clock(), &own, out),
            None if own.is_empty() => {}
            None => out.extend_from_slice(format!("Cookie: {own}\r\n").as_bytes()),
        }
    }

    /// The `User-Agent` of a user, the same for all its requests.
    fn user_agent(&self, user: &User) -> Option<&str> {
        let agents = &self.scenario().user_agents;
        // Drawn again for each request, so that a user needs no memory for it.
        let seed = seed_for(self.scenario().seed, u64::from(user.number), 0x6167_656e_7400);
        let weights = agents.iter().map(|(weight, _)| *weight);
        let chosen = (!agents.is_empty()).then(|| weighted(&mut Rng::from_seed(seed), weights));
        chosen.map(|chosen| agents[chosen].1.as_str())
    }

    /// The path of a request, with the prefix of the server.
    pub(super) fn full_path(&self, user: &User, path: &Text) -> String {
        let target = &self.scenario().targets[usize::from(user.connection.target())];
        let path = self.text(user, path);
        let path = whole_url(&path).map_or(path.as_str(), |(_, rest)| rest);
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{path}", target.prefix)
    }

    /// The server that a request names: `None` if it names none, and an error if it is unknown.
    pub(super) fn server_of(&self, user: &User, http: &Http) -> Result<Option<u16>, ()> {
        if http.target.is_some() || !http.path.begins_with_value() {
            return Ok(http.target);
        }
        let url = self.text(user, &http.path);
        let Some((server, _)) = whole_url(&url) else { return Ok(None) };
        self.scenario().target_of(server).map(Some).ok_or(())
    }
}
