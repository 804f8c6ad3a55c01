//! Histories at a restart: the new program takes the logs of the one that it replaces.
//!
//! The old program passes two sockets to the new one. Over the first, the new one asks for the logs when it is about to
//! start, and gets them: a number of each, an end. From that moment it writes them. The second socket is
//! the link over which the old program sends its messages, and gets all messages, until it has ended. If the new
//! program ends first, the old one continues with its copy.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use watchfire_hub::history::LogsImage;

use super::messages::FORMAT;
use crate::settings::Settings;

/// The longest wait for a part of the logs.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of one topic: those of a rule, with room for the rest.
const TOPIC_BYTES_MAX: u32 = 64 << 20;

/// The logs of the program that this one replaces, and the link to it.
pub(crate) struct Taken {
    pub image: LogsImage,
    pub link: UnixStream,
}

/// The ends of both sockets in one of the programs.
pub(crate) struct HandOverSockets {
    pub(super) image: UnixStream,
    link: UnixStream,
}

/// Whether rules keep histories, and streams of JetStream do not.
pub(super) fn is_kept_here(settings: &Settings) -> bool {
    let has_history = settings.channels.rules.iter().any(|rule| rule.history.is_some());
    has_history && !settings.cluster.is_on()
}

impl HandOverSockets {
    pub fn pair() -> io::Result<(Self, Self)> {
        let (image, link) = (UnixStream::pair()?, UnixStream::pair()?);
        let ours = HandOverSockets { image: image.0, link: link.0 };
        Ok((ours, HandOverSockets { image: image.1, link: link.1 }))
    }

    pub fn into_descriptors(self) -> [OwnedFd; 2] {
        [self.image.into(), self.link.into()]
    }

    pub fn from_descriptors([image, link]: [OwnedFd; 2]) -> Self {
        HandOverSockets { image: image.into(), link: link.into() }
    }

    /// Gives the logs when the new program asks for them, on a thread that ends then, or with the new program.
    /// `take` takes them from their keeper, which gets the link.
    pub fn give(
        self,
        take: impl FnOnce(UnixStream) -> io::Result<LogsImage> + Send + 'static,
    ) -> io::Result<()> {
        thread::Builder::new().name("hand-over".into()).spawn(move || {
            if let Err(error) = self.give_when_asked(take) {
                tracing::debug!(%error, "the new program has not taken the histories");
            }
        })?;
        Ok(())
    }

    fn give_when_asked(
        mut self,
        take: impl FnOnce(UnixStream) -> io::Result<LogsImage>,
    ) -> io::Result<()> {
        let mut format = [0; 8];
        self.image.read_exact(&mut format)?;
        if u64::from_le_bytes(format) != FORMAT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it has another format"));
        }
        let LogsImage { epoch, forgotten, topics } = take(self.link)?;
        self.image.set_write_timeout(Some(TIMEOUT))?;
        let mut writer = BufWriter::new(self.image);
        write(&mut writer, &(epoch, forgotten, topics.len() as u64))?;
        topics.iter().try_for_each(|topic| write(&mut writer, topic))?;
        writer.flush()
    }

    /// Takes the logs, unless they are kept elsewhere by these settings. From now on this program writes them.
    pub fn take(mut self, settings: &Settings) -> Option<Taken> {
        if !is_kept_here(settings) {
            return None;
        }
        let taken = self.read();
        match taken {
            Ok(image) => Some(Taken { image, link: self.link }),
            Err(error) => {
                tracing::warn!(%error, "cannot take over the histories of the old program; they begin again");
                None
            }
        }
    }

    fn read(&mut self) -> io::Result<LogsImage> {
        self.image.set_read_timeout(Some(TIMEOUT))?;
        self.image.write_all(&FORMAT.to_le_bytes())?;
        let mut reader = BufReader::new(&self.image);
        let (epoch, forgotten, count): (u64, u64, u64) = read(&mut reader)?;
        let topics = (0..count).map(|_| read(&mut reader)).collect::<io::Result<_>>()?;
        Ok(LogsImage { epoch, forgotten, topics })
    }
}

fn write(writer: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    writer.write_all(&len.to_le_bytes())?;
    writer.write_all(&bytes)
}

fn read<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<T> {
    let mut len = [0; 4];
    reader.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len);
    if len > TOPIC_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a topic is too large"));
    }
    let mut bytes = vec![0; len as usize];
    reader.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}
