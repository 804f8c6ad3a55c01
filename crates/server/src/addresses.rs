//! The number of sockets of each address.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::settings::Limits;

/// Room for as many addresses is not freed.
const ADDRESSES_KEPT: usize = 64;

/// Counts the sockets of each address. Loopback addresses count only if the settings say so.
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

    /// Counts one more socket of an address, up to the limit. An address in the result must be
    /// released later with [`Addresses::release`]; with `None` the socket does not count.
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

    /// Removes one socket of an address.
    pub fn release(&self, address: IpAddr) {
        let mut sockets = self.sockets.lock();
        let count = sockets.get_mut(&address).expect("only admitted addresses are released");
        *count -= 1;
        if *count == 0 {
            sockets.remove(&address);
            if sockets.capacity() > 4 * sockets.len() + ADDRESSES_KEPT {
                let room = 2 * sockets.len();
                sockets.shrink_to(room);
            }
        }
    }
}

/// The address is at its limit of sockets.
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
    fn a_closed_socket_makes_room_for_another_of_its_address() {
        let addresses = addresses(1);
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(addresses.admit(address), Ok(Some(address)));
        assert_eq!(addresses.admit(address), Err(TooManySockets { max: 1 }));
        addresses.release(address);
        assert_eq!(addresses.admit(address), Ok(Some(address)));
    }

    #[test]
    fn loopback_counts_only_if_the_settings_say_so() {
        let address: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(addresses(0).admit(address), Ok(None));
        let limits =
            Limits { loopback_limited: true, sockets_per_address_max: 0, ..Limits::default() };
        assert!(Addresses::new(&limits).admit(address).is_err());
    }
}
