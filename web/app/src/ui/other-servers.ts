import { signal } from '@preact/signals'
import { defaultLimits, fetchLimits } from '@watchfire/pages/limits'
import { readNeighbours, serversOfLink, withServers, type Neighbour } from '@watchfire/pages/links'

/** The neighbours of this server; `null` until they are known. */
const neighbours = signal<readonly Neighbour[] | null>(null)
/** The servers at which the person wants this tab to look for a page, each after the CID of the page. */
const accepted = signal<readonly string[]>([])
/** The servers in the links of pages, by CID. */
const linked = new Map<string, readonly string[]>()
/** By CID, the function by which an open page looks at its servers again. A page that is closed is freed. */
const looks = new Map<string, WeakRef<() => void>>()
/** Before the CID, where this tab stores the servers in its link for a reload. */
const STORED = 'watchfire:at:'

/** Notes the neighbours of this server, as its limits named them when the app was loaded. */
export function noteNeighbours(named: unknown): void {
  neighbours.value ??= readNeighbours(named)
}

/** Asks this server which of its neighbours answer now. If it does not answer itself, those that are known remain. */
export async function updateNeighbours(): Promise<void> {
  const limits = await fetchLimits(fetch)
  if (limits === defaultLimits) return
  neighbours.value = readNeighbours(limits.neighbours)
  lookAgain()
}

/**
 * The link of a page for others. It names the neighbours that answer, at which the page can be found when this server is gone, and then the
 * servers that its link has named. `hosts`: those of the neighbours in it.
 */
export function linkToShare(address: string, cid: string): { readonly link: string; readonly hosts: readonly string[] } {
  const servers = answering()
  // The address of a file of the page names no servers.
  const named = new Set([...servers, ...(linked.get(cid) ?? [])])
  if (named.size === 0) return { link: address, hosts: [] }
  return { link: withServers(address, [...named]), hosts: servers.map((server) => new URL(server).host) }
}

/** Notes the servers that the link of a page names, also for a reload of this tab. Call it before the page is opened. */
export function noteServers(cid: string, link: string): void {
  const { origin } = location
  const named = serversOfLink(link, origin)
  const servers = named.length > 0 || linked.has(cid) ? named : serversOfLink(stored(cid), origin)
  if (servers.length === 0) return
  linked.set(cid, servers)
  try {
    sessionStorage.setItem(STORED + cid, withServers('', servers))
  } catch {
    // Without storage, a reload knows the servers in the address alone.
  }
  lookAgain()
}

/** Whether the link of a page names other servers. */
export function isLinkedElsewhere(cid: string): boolean {
  return linked.has(cid)
}

function stored(cid: string): string {
  try {
    return sessionStorage.getItem(STORED + cid) ?? ''
  } catch {
    return ''
  }
}

/**
 * The servers to which this tab goes with a page when this server is lost, or has nobody with the page: those in its link that are
 * neighbours of this server or that the person has accepted, and then the neighbours that answer. `look` is called when the list may have
 * changed, unless nothing else refers to it any more.
 */
export function serversToJoin(cid: string, look: () => void): string[] {
  looks.set(cid, new WeakRef(look))
  return [...new Set([...(linked.get(cid) ?? []).filter((server) => isJoined(cid, server)), ...answering()])]
}

/** Each open page looks at its servers again. */
function lookAgain(): void {
  for (const look of looks.values()) look.deref()?.()
}

/** The neighbours that answer, as a link can name them. */
function answering(): string[] {
  const named = (neighbours.value ?? []).flatMap(({ server, answers }) => (answers ? [`at=${server}`] : []))
  return serversOfLink(`#${named.join('&')}`, location.origin)
}

/** The servers in the link of a page that this tab joins only if the person accepts them. */
export function serversToAccept(cid: string): string[] {
  return neighbours.value === null ? [] : (linked.get(cid) ?? []).filter((server) => !isJoined(cid, server))
}

function isJoined(cid: string, server: string): boolean {
  return accepted.value.includes(cid + server) || neighbours.value?.some((neighbour) => neighbour.server === server) === true
}

/** Looks for the page at this server from now on. */
export function acceptServer(cid: string, server: string): void {
  accepted.value = [...accepted.peek(), cid + server]
  lookAgain()
}
