//! How many sockets each address has.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::settings::Limits;

/// Sockets by address, for the limit on them. Loopback is not counted unless the settings say so.
#[derive(Debug)]
pub(crate) struct Addresses {
    sockets_max: u32,
    loopback_limited: bool,
    sockets: Mutex<HashMap<IpAddr, u32>>,
}

impl Addresses {
    pub fn new(limits: &Limits) -> Self {
        Addresses {
            sockets_max: limits.sockets_per_address_max,
            loopback_limited: limits.loopback_limited,
            sockets: Mutex::default(),
        }
    }

    /// Count one more socket of this address: `Ok(Some)` must be given back by
    /// [`Addresses::release`], `Ok(None)` is not counted, `Err` is over the limit.
    pub fn admit(&self, address: IpAddr) -> Result<Option<IpAddr>, TooManySockets> {
        let address = address.to_canonical();
        if address.is_loopback() && !self.loopback_limited {
            return Ok(None);
        }
        let mut sockets = self.sockets.lock();
        let count = sockets.entry(address).or_default();
        if *count >= self.sockets_max {
            return Err(TooManySockets { max: self.sockets_max });
        }
        *count += 1;
        Ok(Some(address))
    }

    /// One socket of this address is gone.
    pub fn release(&self, address: IpAddr) {
        let mut sockets = self.sockets.lock();
        let count = sockets.get_mut(&address).expect("only what was admitted is released");
        *count -= 1;
        if *count == 0 {
            sockets.remove(&address);
        }
    }
}

/// An address has as many sockets as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManySockets {
    pub max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(max: u32) -> Addresses {
        Addresses::new(&Limits { sockets_per_address_max: max, ..Limits::default() })
    }

    #[test]
    fn an_address_gets_its_place_back_when_a_socket_closes() {
        let addresses = addresses(1);
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(addresses.admit(address), Ok(Some(address)));
        assert_eq!(addresses.admit(address), Err(TooManySockets { max: 1 }));
        addresses.release(address);
        assert_eq!(addresses.admit(address), Ok(Some(address)));
    }

    #[test]
    fn loopback_is_not_counted_unless_the_settings_say_so() {
        let address: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(addresses(0).admit(address), Ok(None));
        let limits =
            Limits { loopback_limited: true, sockets_per_address_max: 0, ..Limits::default() };
        assert!(Addresses::new(&limits).admit(address).is_err());
    }
}
