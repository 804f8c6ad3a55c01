import { signal } from '@preact/signals'
import { defaultLimits, fetchLimits } from '@watchfire/pages/limits'
import { readNeighbours, serversOfLink, withServers, type Neighbour } from '@watchfire/pages/links'

/** The neighbours of this server; `null` until they are known. */
const neighbours = signal<readonly Neighbour[] | null>(null)
/** The servers at which the person wants this tab to look for pages. */
export const acceptedServers = signal<readonly string[]>([])
/** The servers in the links of pages, by CID. */
const linked = new Map<string, readonly string[]>()

/** Notes the neighbours of this server, as its limits named them when the app was loaded. */
export function noteNeighbours(named: unknown): void {
  neighbours.value ??= readNeighbours(named)
}

/** Asks this server which of its neighbours answer now. If it does not answer itself, those that are known remain. */
export async function updateNeighbours(): Promise<void> {
  const limits = await fetchLimits(fetch)
  if (limits !== defaultLimits) neighbours.value = readNeighbours(limits.neighbours)
}

/**
 * The link of a page for others. It names the neighbours that answer, at which the page can be found when this server is gone, and then the
 * servers that the address of this tab names. `hosts`: those of the neighbours in it.
 */
export function linkToShare(address: string): { readonly link: string; readonly hosts: readonly string[] } {
  const servers = answering()
  if (servers.length === 0) return { link: address, hosts: [] }
  const named = new Set([...servers, ...serversOfLink(address, location.origin)])
  return { link: withServers(address, [...named]), hosts: servers.map((server) => new URL(server).host) }
}

/** Notes the servers that the link of a page names. Call it before the page is opened. */
export function noteServers(cid: string, link: string): void {
  const servers = serversOfLink(link, location.origin)
  if (servers.length > 0) linked.set(cid, servers)
}

/**
 * The servers to which this tab goes with a page when this server is lost, or has nobody with the page: those in its link that are
 * neighbours of this server or that the person has accepted, and then the neighbours that answer.
 */
export function serversToJoin(cid: string): string[] {
  return [...new Set([...(linked.get(cid) ?? []).filter(isJoined), ...answering()])]
}

/** The neighbours that answer, as a link can name them. */
function answering(): string[] {
  const named = (neighbours.value ?? []).flatMap(({ server, answers }) => (answers ? [`at=${server}`] : []))
  return serversOfLink(`#${named.join('&')}`, location.origin)
}

/** The servers in the link of a page that this tab joins only if the person accepts them. */
export function serversToAccept(cid: string): string[] {
  return neighbours.value === null ? [] : (linked.get(cid) ?? []).filter((server) => !isJoined(server))
}

function isJoined(server: string): boolean {
  return acceptedServers.value.includes(server) || neighbours.value?.some((neighbour) => neighbour.server === server) === true
}

/** Looks for pages at this server from now on. */
export function acceptServer(server: string): void {
  acceptedServers.value = [...acceptedServers.peek(), server]
}
