//! Requests and responses between hosts, in a protocol that the caller names.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use libp2p::request_response::{self, ProtocolSupport};
use libp2p::{PeerId, StreamProtocol};
use tokio::sync::{mpsc, oneshot};

/// Requests that wait for the caller's answer. When the queue is full, further requests fail.
pub(crate) const WAITING_REQUESTS_MAX: usize = 256;
/// Streams of requests and responses with one peer. Further requests wait.
const STREAMS_PER_PEER_MAX: usize = 100;

/// The protocol of a host's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSettings {
    /// The name of the protocol, which begins with a slash.
    pub protocol: String,
    /// The largest request in bytes. A longer one fails.
    pub request_bytes_max: u32,
    /// The largest response in bytes. A longer one fails.
    pub response_bytes_max: u32,
    /// How long a request waits for its response.
    pub timeout: Duration,
}

#[derive(Debug)]
pub struct InboundRequest {
    pub peer: PeerId,
    pub bytes: Bytes,
    /// Receives the response. If it is dropped, the request fails at the peer.
    pub reply: oneshot::Sender<Bytes>,
}

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("this host sends no requests: its settings name no protocol")]
    Off,
    #[error("the request to {peer} failed: {cause}")]
    Failed { peer: PeerId, cause: String },
    #[error(transparent)]
    Stopped(#[from] crate::Stopped),
}

pub(crate) type RequestBehaviour = request_response::Behaviour<FramedBytes>;

pub(crate) fn behaviour(settings: &RequestSettings) -> Option<RequestBehaviour> {
    let protocol = StreamProtocol::try_from_owned(settings.protocol.clone()).ok()?;
    let config = request_response::Config::default()
        .with_request_timeout(settings.timeout)
        .with_max_concurrent_streams(STREAMS_PER_PEER_MAX);
    let codec = FramedBytes {
        request_bytes_max: settings.request_bytes_max,
        response_bytes_max: settings.response_bytes_max,
    };
    let protocols = [(protocol, ProtocolSupport::Full)];
    Some(RequestBehaviour::with_codec(codec, protocols, config))
}

/// The receiving end of a host's requests.
pub(crate) type InboundSender = mpsc::Sender<InboundRequest>;

/// Bytes after their length, which is four bytes in network order.
#[derive(Clone, Debug)]
pub(crate) struct FramedBytes {
    request_bytes_max: u32,
    response_bytes_max: u32,
}

async fn read<T: AsyncRead + Unpin + Send>(io: &mut T, bytes_max: u32) -> io::Result<Bytes> {
    let mut length = [0; 4];
    io.read_exact(&mut length).await?;
    let length = u32::from_be_bytes(length);
    if length > bytes_max {
        let error = format!("a message of {length} bytes: at most {bytes_max} are possible");
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    // The buffer grows with the bytes that arrive, not with the length that the peer names.
    let mut bytes = Vec::new();
    io.take(u64::from(length)).read_to_end(&mut bytes).await?;
    if bytes.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.into())
}

async fn write<T: AsyncWrite + Unpin + Send>(
    io: &mut T,
    bytes: &[u8],
    bytes_max: u32,
) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= bytes_max);
    let Some(length) = length else {
        let error = format!("a message of {} bytes: at most {bytes_max} are possible", bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    };
    io.write_all(&length.to_be_bytes()).await?;
    io.write_all(bytes).await?;
    io.flush().await
}

impl request_response::Codec for FramedBytes {
    type Protocol = StreamProtocol;
    type Request = Bytes;
    type Response = Bytes;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Bytes>
    where
        T: AsyncRead + Unpin + Send,
    {
        read(io, self.request_bytes_max).await
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Bytes>
    where
        T: AsyncRead + Unpin + Send,
    {
        read(io, self.response_bytes_max).await
    }

    async fn write_request<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        request: Bytes,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        write(io, &request, self.request_bytes_max).await
    }

    async fn write_response<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        response: Bytes,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        write(io, &response, self.response_bytes_max).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::io::Cursor;

    #[tokio::test]
    async fn a_message_has_its_length_in_front_and_is_bounded() {
        let mut written = Cursor::new(Vec::new());
        write(&mut written, b"abc", 3).await.unwrap();
        assert_eq!(written.get_ref(), b"\0\0\0\x03abc");
        assert!(write(&mut written, b"abcd", 3).await.is_err());

        let read_from = async |bytes: &[u8], max| read(&mut Cursor::new(bytes), max).await;
        assert_eq!(read_from(b"\0\0\0\x03abcd", 3).await.unwrap(), "abc");
        assert!(read_from(b"\0\0\0\x03abc", 2).await.is_err());
        assert!(read_from(b"\0\0\0\x03ab", 3).await.is_err());
        assert!(read_from(b"\xff\xff\xff\xffab", u32::MAX).await.is_err());
        assert!(read_from(b"\0", 3).await.is_err());
    }
}
