/** A network that often prevents direct connections, as far as its ICE candidates show. */
export type NetworkKind = 'no-udp' | 'symmetric' | 'unknown'

/** The parts of a UDP candidate in SDP syntax that matter here. */
interface Found {
  readonly foundation: string
  readonly address: string
  readonly port: string
  readonly type: string
  /** The inner address and port of a reflexive candidate. Browsers may hide them. */
  readonly base: string
}

/**
 * Tells the kind of a network from all candidates of its side. Each side knows the candidates of both sides, so it can
 * tell the kind of both networks. `isSettled`: STUN has had time to answer.
 *
 * - Behind a router, a browser that asks STUN finds an outer ("reflexive") address. If it finds none, no UDP gets
 *   through. This does not hold for a browser that has a public address, or that is on the machine of the server.
 * - A symmetric NAT uses another outer port for each destination. A browser that asks two STUN ports then finds two
 *   outer ports for one inner port. Peers know these two ports, and the router uses a third one towards them.
 *
 * With one STUN port, a symmetric NAT looks like any other.
 */
export function networkKind(candidates: readonly string[], isSettled: boolean): NetworkKind {
  const udp = candidates.flatMap(parseUdp)
  const reflexive = udp.filter(({ type }) => type === 'srflx')
  const hosts = udp.filter(({ type }) => type === 'host')
  if (reflexive.length === 0) {
    const isBehindRouter = hosts.length > 0 && hosts.every(({ address }) => isInner(address))
    return isSettled && isBehindRouter ? 'no-udp' : 'unknown'
  }
  const isOfOnePort = (a: Found, b: Found) => a.foundation === b.foundation && a.base === b.base && a.address === b.address
  const changes = reflexive.some((a) => reflexive.some((b) => isOfOnePort(a, b) && a.port !== b.port))
  return changes ? 'symmetric' : 'unknown'
}

/**
 * Whether one side has public addresses of IPv6 only, and the other one of IPv4 only. A side without a public address may have
 * either version.
 */
export function haveNoCommonIpVersion(ours: readonly string[], theirs: readonly string[]): boolean {
  const [own, other] = [publicVersions(ours), publicVersions(theirs)]
  return own.size > 0 && other.size > 0 && ![...own].some((version) => other.has(version))
}

function publicVersions(candidates: readonly string[]): Set<4 | 6> {
  const found = candidates.flatMap(parseUdp).filter(({ address }) => !isInner(address))
  return new Set(found.map(({ address }) => (address.includes(':') ? 6 : 4)))
}

/** Foundation, component, transport, priority, address, port, "typ", type, and then names with values. Nothing for other transports. */
function parseUdp(candidate: string): Found | readonly [] {
  const [foundation = '', , transport = '', , address = '', port = '', , type, ...rest] = candidate.trim().split(/\s+/)
  if (transport.toLowerCase() !== 'udp' || type === undefined) return []
  const after = (name: string) => rest[rest.indexOf(name) + 1] ?? ''
  const base = rest.includes('raddr') ? `${after('raddr')} ${after('rport')}` : ''
  return { foundation, address, port, type, base }
}

/** Whether an address is valid only behind a router: private (RFC 1918, 6598, 4193), link-local, or a name that hides it. */
function isInner(address: string): boolean {
  return (
    /^(?:10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.)/.test(address) ||
    /^(?:f[cd]|fe[89ab])[\da-f]*:/i.test(address) ||
    address.endsWith('.local')
  )
}

/** The candidates in a description. A peer sends further ones by themselves. */
export function candidatesOf(sdp: string): string[] {
  const lines = sdp.match(/^a=candidate:.*/gm) ?? []
  return lines.map((line) => line.slice('a='.length))
}
