//! TLS between a user and its socket.

use super::Engine;
use crate::failure::Failure;
use crate::tls::TlsConnection;

impl Engine<'_> {
    /// Prepares TLS for a new connection, if its server uses it; `false` when that ended the user.
    pub(super) fn begin_tls(&mut self, index: usize) -> bool {
        let target = &self.scenario.targets[usize::from(self.users[index].target)];
        let Some(client) = self.tls_client.as_ref().filter(|_| target.is_tls) else { return true };
        match TlsConnection::new(client, target.host()) {
            Ok(tls) => {
                self.users[index].tls = Some(Box::new(tls));
                true
            }
            Err(failure) => {
                self.fail(index, Failure::Tls(failure));
                false
            }
        }
    }

    /// Sends bytes, encrypted if the connection uses TLS; `false` when that ended the user.
    pub(super) fn write(&mut self, index: usize, bytes: &[u8]) -> bool {
        let Some(tls) = &mut self.users[index].tls else { return self.write_raw(index, bytes) };
        let mut out = Vec::new();
        tls.write(bytes);
        tls.take_output(&mut out);
        out.is_empty() || self.write_raw(index, &out)
    }

    /// Handles bytes of the socket, which are decrypted first if the connection uses TLS.
    pub(super) fn receive_raw(&mut self, index: usize, bytes: &[u8]) {
        let user = &mut self.users[index];
        let (number, serial) = (user.number, user.socket_serial);
        let Some(tls) = &mut user.tls else { return self.receive_bytes(index, bytes) };
        let (mut received, mut out) = (Vec::new(), Vec::new());
        let is_ended = tls.read(bytes, &mut received);
        // Parts of the handshake, or the alert that tells the server what was wrong.
        tls.take_output(&mut out);
        if !out.is_empty() && !self.write_raw(index, &out) {
            return;
        }
        match is_ended {
            Err(failure) => self.fail(index, Failure::Tls(failure)),
            Ok(is_ended) => {
                if !received.is_empty() {
                    self.receive_bytes(index, &received);
                }
                let is_same = |engine: &Self| {
                    engine.has_user(index, number) && engine.users[index].socket_serial == serial
                };
                if is_ended && is_same(self) {
                    self.handle_ended(index);
                }
            }
        }
    }
}
