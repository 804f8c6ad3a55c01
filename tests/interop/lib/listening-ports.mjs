// Ports that a test must know before a program listens on them, and that stay free until then.

import { readFileSync } from 'node:fs'
import net from 'node:net'

/** Below it, many systems reserve ports. */
const FIRST = 10_000

const chosen = new Set()

/**
 * Random free ports outside the range from which the system takes the ports of outgoing connections. A port inside
 * that range may be taken again at any moment.
 */
export async function listeningPorts(count) {
  const [low, high] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/).map(Number)
  const [first, end] = low - FIRST > 65_535 - high ? [FIRST, low] : [high + 1, 65_536]
  const ports = []
  while (ports.length < count) {
    const port = first + Math.floor(Math.random() * (end - first))
    if (chosen.has(port) || !(await isFree(port))) continue
    chosen.add(port)
    ports.push(port)
  }
  return ports
}

function isFree(port) {
  return new Promise((resolve) => {
    const listener = net.createServer()
    listener.once('error', () => resolve(false))
    listener.listen(port, '0.0.0.0', () => listener.close(() => resolve(true)))
  })
}
