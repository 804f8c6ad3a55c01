import { parsePageAddress, type PageLink } from '@watchfire/pages/addresses'
import { plainName } from '../names/index.ts'

/** The views of the application, one for each path for which the server sends the app shell. */
export type Route =
  | { kind: 'home' }
  | { kind: 'kept-pages' }
  | ({ kind: 'page' } & PageLink)
  | { kind: 'chat'; room: string }
  | { kind: 'sprites'; grid: string }
  | { kind: 'unknown'; path: string }

const ROOM_LENGTH_MAX = 64

/** Parses a location. */
export function parseRoute(pathname: string, hash: string): Route {
  const path = pathname.replace(/\/+$/, '')
  if (path === '') return { kind: hash === '#kept' ? 'kept-pages' : 'home' }
  if (path === '/chat') {
    const fragment = new URLSearchParams(hash.replace(/^#/, ''))
    // Half an emoji at the end cannot be written into an address, and a server closes the socket that joins such a topic.
    const room = plainName(fragment.get('room') ?? '')
      .trim()
      .slice(0, ROOM_LENGTH_MAX)
      .replace(/[\ud800-\udbff]$/, '')
      .trim()
    return { kind: 'chat', room: room || 'lobby' }
  }
  const grid = /^\/sprites\/([\w.~-]{1,64})$/.exec(path)?.[1]
  if (grid !== undefined) return { kind: 'sprites', grid }
  const page = parsePageAddress(path, hash)
  return page === null ? { kind: 'unknown', path } : { kind: 'page', ...page }
}

/** The address of the pages that this tab keeps sharing. */
export const KEPT_PAGES_ADDRESS = '/#kept'

/** The address of a chat room, without the origin. */
export function chatAddress(room: string): string {
  return `/chat#room=${encodeURIComponent(room)}`
}
