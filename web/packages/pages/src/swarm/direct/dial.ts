import { placeOfAddress, placeOfPage } from '../../links/address-place.ts'
import type { DialOffer } from './dial-offer.ts'
import { StreamChannel } from './stream-channel.ts'

/** A terminal is dialled at its next address after this time, in milliseconds, or when the last one fails. */
const NEXT_ADDRESS = 100

/** Whether the Content-Security-Policy of this site forbids to dial. Each attempt would be an error in the log and a report. */
let isForbidden = false

/**
 * Dials a terminal at its addresses. Resolves with the stream of the first session that it accepts; `null` if there is none.
 * The session is accepted only at the secret path, and the certificate is known by its hash.
 */
export async function dial({ addresses, certificate, secret }: DialOffer, until: AbortSignal): Promise<StreamChannel | null> {
  if (isForbidden) return null
  const value = Uint8Array.from(certificate.match(/../g) ?? [], (digits) => parseInt(digits, 16))
  const sessions: WebTransport[] = []
  const closeAll = () => {
    for (const session of sessions) session.close()
  }
  const noteViolation = ({ effectiveDirective, blockedURI }: SecurityPolicyViolationEvent) => {
    isForbidden ||= effectiveDirective === 'connect-src' && addresses.some((address) => blockedURI.startsWith(`https://${address}`))
  }
  until.addEventListener('abort', closeAll)
  document.addEventListener('securitypolicyviolation', noteViolation)
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
    document.removeEventListener('securitypolicyviolation', noteViolation)
  }
}

/** Opens sessions one after the other, until one is ready. */
async function firstOf(addresses: readonly string[], open: (address: string) => WebTransport): Promise<WebTransport> {
  const opening: Promise<WebTransport>[] = []
  const ready: WebTransport[] = []
  for (const address of addresses) {
    if (isForbidden) break
    const session = open(address)
    const opened = session.ready.then(() => {
      ready.push(session)
      return session
    })
    opening.push(opened)
    // The browser fails a session that a policy forbids before it says so.
    const settled = opened.catch(() => new Promise((resolve) => setTimeout(resolve)))
    await Promise.race([settled, new Promise((resolve) => setTimeout(resolve, NEXT_ADDRESS))])
    if (ready[0] !== undefined) return ready[0]
  }
  return Promise.any(opening)
}

/** The permissions that browsers have for addresses of the local network and of the machine itself. Older versions have one for both. */
const NETWORK_PERMISSIONS = ['local-network', 'local-network-access']
const MACHINE_PERMISSIONS = ['loopback-network', 'local-network-access']

/**
 * The addresses that the browser dials without asking a person. Some browsers ask before a page of the internet connects to
 * the local network, and before any other page connects to the machine itself. The browser protects both; this only spares a person
 * a question that a peer causes.
 */
async function withoutQuestion(addresses: readonly string[]): Promise<readonly string[]> {
  const here = placeOfPage(location.hostname)
  const places = addresses.map(placeOfAddress)
  if (here === 'machine' || places.every((place) => place === 'internet')) return addresses
  const asksForNetwork = here === 'internet' && (await isAsked(NETWORK_PERMISSIONS))
  const asksForMachine = await isAsked(MACHINE_PERMISSIONS)
  // A name can stand for any address, and no page learns for which.
  return addresses.filter((_, i) => {
    const place = places[i]
    return place === 'internet' || !((asksForNetwork && place !== 'machine') || (asksForMachine && place !== 'network'))
  })
}

/** Whether the browser asks a person, or has asked and forbids it. */
async function isAsked(permissions: readonly string[]): Promise<boolean> {
  for (const name of permissions) {
    try {
      return (await navigator.permissions.query({ name: name as PermissionName })).state !== 'granted'
    } catch {
      // This browser does not have the permission of this name.
    }
  }
  return false
}
