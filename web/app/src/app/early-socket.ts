/**
 * A socket that opens while the code that uses it is still being loaded. Returns what stands for the `WebSocket` class: the first use
 * gets this socket unless it has failed, whose events are over, and each further one makes a new one.
 */
export function earlySocket(address: string, Socket: typeof WebSocket = WebSocket): (address: string) => WebSocket {
  let early: WebSocket | null = new Socket(address)
  return function takeSocket(later: string): WebSocket {
    const first = early
    early = null
    return first !== null && first.readyState <= Socket.OPEN ? first : new Socket(later)
  }
}
