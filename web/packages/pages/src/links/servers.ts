import { fieldsOf } from '../limits/fields.ts'
import { placeOfAddress } from './address-place.ts'

/** Other servers that a link may name. Further ones are ignored. */
export const SERVERS_MAX = 3
/** The origin of a server, and the host in it. A host may not end with a dot. */
const ORIGIN = /^https?:\/\/(\[[\da-f:]+\]|[\da-z-]+(?:\.[\da-z-]+)*)(?::[1-9]\d*)?$/
/** A name for machines of a local network, or for this machine. */
const NEAR_NAME = /^[^.]*$|\.(?:localhost|local|internal|home\.arpa)$/

/**
 * The other servers at which a link says that its page can be found: each `at` in its fragment, which browsers send to no server. Texts
 * that are no origins are ignored. If the page itself is on a public host, so are hosts of a local network: otherwise a link could make
 * browsers connect to machines that its sender cannot reach. `origin`: the page's own server, for a whole link or a fragment alone.
 */
export function serversOfLink(link: string, origin: string): string[] {
  const texts = new URLSearchParams(link.replace(/^[^#]*#?/, '')).getAll('at')
  const isPublicPage = isPublic(new URL(origin).hostname)
  const servers = texts.flatMap((text) => originOf(text) ?? []).filter((server) => !isPublicPage || isPublic(new URL(server).hostname))
  return [...new Set(servers)].filter((server) => server !== origin).slice(0, SERVERS_MAX)
}

/** The link or fragment, with these servers in place of those that it names. */
export function withServers(link: string, servers: readonly string[]): string {
  const [, page = '', fragment = ''] = /^([^#]*)#?(.*)$/s.exec(link) ?? []
  const parts = fragment.split('&').filter((part) => part !== '' && !part.startsWith('at='))
  parts.push(...servers.slice(0, SERVERS_MAX).map((server) => `at=${server}`))
  return parts.length === 0 ? page : `${page}#${parts.join('&')}`
}

/** Another server at which pages of a server may be found. */
export interface Neighbour {
  readonly server: string
  /** Whether it answered the server that names it. */
  readonly answers: boolean
}

/** Parses the neighbours of a server in its limits. */
export function readNeighbours(neighbours: unknown): Neighbour[] {
  return (Array.isArray(neighbours) ? neighbours : []).flatMap((neighbour) => {
    const { server: text, state } = fieldsOf(neighbour)
    const server = typeof text === 'string' ? originOf(text) : null
    return server === null ? [] : [{ server, answers: state === 'answers' }]
  })
}

/** The origin that a text is, without the marks after it in a sentence; `null` if it is none. */
export function originOf(text: string): string | null {
  const url = text.toLowerCase().replace(/[^\w\]]+$/, '')
  const host = ORIGIN.exec(url)?.[1]
  if (host === undefined || !URL.canParse(url)) return null
  const { hostname, origin } = new URL(url)
  // Browsers read `127.1` as an address, and the terminal does not.
  return host === hostname ? origin : null
}

/** Whether a host can be on the internet. */
export function isPublic(host: string): boolean {
  return /^\[|^[\d.]+$/.test(host) ? placeOfAddress(host) === 'internet' : !NEAR_NAME.test(host)
}
