/**
 * Opens a socket while the code that uses it is still being loaded. Returns a function that is used in place of the `WebSocket` class.
 * Its first call returns this socket, unless the socket has failed: then its events are over. Each further call makes a new socket.
 */
export function earlySocket(address: string, Socket: typeof WebSocket = WebSocket): (address: string) => WebSocket {
  let early: WebSocket | null = new Socket(address)
  return function takeSocket(later: string): WebSocket {
    const first = early
    early = null
    return first !== null && first.readyState <= Socket.OPEN ? first : new Socket(later)
  }
}
