import { StreamChannel } from './stream-channel.ts'
import type { DialOffer } from './dial-offer.ts'

/** A terminal is dialled at its next address after this time, in milliseconds, or when the last one fails. */
const NEXT_ADDRESS = 100

/**
 * Dials a terminal at its addresses. Resolves with the stream of the first session that it accepts; `null` if there is none.
 * The session is accepted only at the secret path, and the certificate is known by its hash.
 */
export async function dial({ addresses, certificate, secret }: DialOffer, until: AbortSignal): Promise<StreamChannel | null> {
  const value = Uint8Array.from(certificate.match(/../g) ?? [], (digits) => parseInt(digits, 16))
  const sessions: WebTransport[] = []
  const closeAll = () => {
    for (const session of sessions) session.close()
  }
  until.addEventListener('abort', closeAll)
  try {
    const session = await firstOf(await withoutQuestion(addresses), (address) => {
      if (until.aborted) throw new Error('given up')
      const session = new WebTransport(`https://${address}/${secret}`, {
        serverCertificateHashes: [{ algorithm: 'sha-256', value }],
        congestionControl: 'throughput',
      })
      session.closed.catch(() => {})
      sessions.push(session)
      return session
    })
    for (const other of sessions.splice(0)) if (other !== session) other.close()
    sessions.push(session)
    const { value: stream } = await session.incomingBidirectionalStreams.getReader().read()
    if (stream === undefined || until.aborted) throw new Error('the session has no stream')
    return new StreamChannel(session, stream as WebTransportBidirectionalStream)
  } catch {
    closeAll()
    return null
  } finally {
    until.removeEventListener('abort', closeAll)
  }
}

/** Opens sessions one after the other, until one is ready. */
async function firstOf(addresses: readonly string[], open: (address: string) => WebTransport): Promise<WebTransport> {
  const opening: Promise<WebTransport>[] = []
  const ready: WebTransport[] = []
  for (const address of addresses) {
    const session = open(address)
    const opened = session.ready.then(() => {
      ready.push(session)
      return session
    })
    opening.push(opened)
    const settled = opened.catch(() => {})
    await Promise.race([settled, new Promise((resolve) => setTimeout(resolve, NEXT_ADDRESS))])
    if (ready[0] !== undefined) return ready[0]
  }
  return Promise.any(opening)
}

/**
 * The addresses that the browser dials without asking a person. Some browsers ask before a page of the internet connects to
 * the local network.
 */
async function withoutQuestion(addresses: readonly string[]): Promise<readonly string[]> {
  const isForeign = (address: string) => !isLocal(address)
  if (isLocal(location.hostname) || addresses.every(isForeign)) return addresses
  for (const name of ['local-network', 'local-network-access']) {
    try {
      const { state } = await navigator.permissions.query({ name: name as PermissionName })
      return state === 'granted' ? addresses : addresses.filter(isForeign)
    } catch {
      // This browser does not have the permission of this name.
    }
  }
  return addresses
}

/** Whether a host is in a local network, or this machine. */
export function isLocal(host: string): boolean {
  return /^(localhost|.*\.localhost|.*\.local|(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\..*|\[(::1|f[cd]..|fe[89ab].).*)(:\d+)?$/i.test(
    host,
  )
}
